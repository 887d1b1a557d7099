"""A gate report in words, and as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from replay.gates.outcome import GateOutcome, GateReport
from replay.gates.wording import written
from replay.stats import Interval
from tracekit.numerals import counted

COLUMNS = ("verdict", "gate", "value", "bound", "interval", "n", "why")


def head_lines(report: GateReport) -> Iterator[str]:
    """Yield what all gates came to together."""
    counts = ", ".join(f"{count} {verdict}" for verdict, count in report.counts.items() if count)
    word = "PASS" if report.passed else "FAIL"
    warned = sum(outcome.warned for outcome in report.outcomes)
    more = f"; {counted(warned, 'warning')}" if warned else ""
    yield f"{word}  {counted(len(report.outcomes), 'gate')} of {report.path}: {counts}{more}"
    if report.baseline is not None:
        yield f"  baseline   {report.baseline}: {counted(report.baseline_runs, 'run')}"
    yield f"  candidate  {report.candidate}: {counted(report.candidate_runs, 'run')}"
    if report.pairs:
        yield f"  {counted(report.pairs, 'pair')} of equal task or input"
    yield from (f"  note: {note}" for note in report.notes)


def rows_of(report: GateReport) -> list[list[str]]:
    """Give the table's rows, in the order of the file."""
    return [
        [
            _verdict(outcome),
            outcome.name,
            written(outcome.value, outcome.unit, signed=outcome.unit == "relative"),
            outcome.bound,
            interval_text(outcome.interval, outcome.unit),
            str(outcome.n) if outcome.n == outcome.of else f"{outcome.n} of {outcome.of}",
            outcome.reason,
        ]
        for outcome in report.outcomes
    ]


def _verdict(outcome: GateOutcome) -> str:
    if outcome.verdict != "inconclusive":
        return outcome.verdict
    return "inconclusive" if outcome.failed else f"inconclusive ({outcome.inconclusive})"


def interval_text(interval: Interval | None, unit: str) -> str:
    """Write an interval and its confidence."""
    if interval is None:
        return "n/a"
    low, high = (
        written(end, unit, signed=unit == "relative") for end in (interval.low, interval.high)
    )
    return f"{low} … {high} ({100 * interval.confidence:g}%)"


def markdown(report: GateReport) -> str:
    """Write the report as Markdown."""
    first, *rest = head_lines(report)
    lines = [f"### {_cell(first)}", "", *(f"- {_cell(line.strip())}" for line in rest), ""]
    lines += ["| " + " | ".join(COLUMNS) + " |", "|" + " --- |" * len(COLUMNS)]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows_of(report)]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Write text that no Markdown reader takes for anything but text."""
    line = " ".join(text.split())
    for sign in "\\`*_[]<>|#~&":
        line = line.replace(sign, f"\\{sign}")
    return line

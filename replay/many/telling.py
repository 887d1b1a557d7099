"""A bulk replay in words: how many of what, and a table of the runs to look at, worst first."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from replay.many.outcome import ManyResult, RunOutcome
from tracekit.numerals import counted

COLUMNS = ("verdict", "run", "first divergence", "why", "look closer")
_MOST_ROWS = 40
_WIDE = 90


def head_lines(result: ManyResult) -> Iterator[str]:
    """Yield what all runs came to together."""
    total = len(result.outcomes)
    kept = sum(outcome.kept for outcome in result.outcomes)
    before = f", {kept:,} of them before" if kept else ""
    counts = ", ".join(f"{count:,} {verdict}" for verdict, count in result.counts.items())
    runs = counted(total, "run")
    yield f"{runs} replayed with {result.planner} in {result.elapsed_s:.1f} s{before}: {counts}"
    differing = sum(o.verdict == "pass" and o.divergence is not None for o in result.outcomes)
    if differing:
        yield f"  {differing:,} of those that pass differ from the record"
    if result.level is not None and result.level != "guard":
        yield (
            f"  isolation {result.level}: its walls proved themselves before the planner was "
            "imported, and again in the process of each run"
        )
    elif result.level is not None:
        yield "  isolation guard: no wall but the guard"
    yield from (f"  {wall.name}: {wall.evidence}" for wall in result.walls if not wall.held)
    yield from (f"  {note}" for note in result.notes)


def rows_to_look_at(result: ManyResult) -> list[list[str]]:
    """Give the table's rows: every run but those that pass and do not differ."""
    told = [o for o in result.outcomes if o.verdict != "pass" or o.divergence is not None]
    return [_row(outcome, result) for outcome in told[:_MOST_ROWS]]


def rest_line(result: ManyResult) -> str | None:
    """Say how many rows were left out, if any."""
    told = sum(o.verdict != "pass" or o.divergence is not None for o in result.outcomes)
    more = told - _MOST_ROWS
    return f"and {more:,} more (--json and --junit list them)" if more > 0 else None


def unseen_lines(result: ManyResult) -> Iterator[str]:
    """Say which kinds of attempt the walls stop or miss without a word."""
    for wall in result.walls:
        if wall.held and wall.unseen:
            text = f"the {wall.name} wall does not list {'; '.join(wall.unseen)}"
            yield from textwrap.wrap(text, 110, initial_indent="  ", subsequent_indent="    ")


def _row(outcome: RunOutcome, result: ManyResult) -> list[str]:
    return [
        outcome.verdict,
        outcome.run_id,
        _short(outcome.divergence or "-"),
        _short(outcome.reasons[0] if outcome.reasons else "-"),
        outcome.closer(result.planner, result.store),
    ]


def _short(text: str) -> str:
    return text if len(text) <= _WIDE else text[: _WIDE - 1] + "…"

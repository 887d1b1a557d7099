"""A comparison of many runs as JUnit XML and as Markdown: a test a pair, a comment on them all.

A pair that differs is a failure; one that could not be compared, and a run without a partner, is an
error, since it did not pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element, SubElement

from replay.comparing import ManyComparison
from replay.comparing.outcome import PairOutcome
from replay.comparing.pairing import Unpaired
from replay.comparing.telling import CASE_COLUMNS, case_rows, group_title, head_lines, rest_lines
from replay.many.junit import document, sound
from replay.report.comment import code

_MOST_GROUPS = 20


def suite_of_many(found: ManyComparison) -> str:
    """Write a comparison of many runs as a JUnit XML document."""
    counts = found.counts
    alone = [
        (side, one)
        for side, some in (
            ("baseline", found.baseline_only),
            ("candidate", found.candidate_only),
        )
        for one in some
    ]
    root = Element(
        "testsuite",
        name=sound(f"tracekit diff {found.baseline} {found.candidate}"),
        tests=str(len(found.outcomes) + len(alone)),
        failures=str(counts["different"]),
        errors=str(counts["not compared"] + len(alone)),
        skipped="0",
        time=f"{found.elapsed_s:.3f}",
    )
    for outcome in found.outcomes:
        root.append(_case(outcome, found))
    for side, one in alone:
        root.append(_alone(side, one))
    if found.notes:
        SubElement(root, "system-out").text = sound("\n".join(found.notes))
    return document(root)


def _case(outcome: PairOutcome, found: ManyComparison) -> Element:
    name = sound(f"{outcome.baseline} {outcome.candidate}")
    case = Element("testcase", classname=sound(outcome.case), name=name)
    if outcome.verdict == "same":
        return case
    kind = "failure" if outcome.verdict == "different" else "error"
    lines = [*_lines(outcome), f"tracekit diff {_pair(outcome)} --store {found.store}"]
    told = SubElement(case, kind, type=outcome.verdict, message=sound(lines[0]))
    told.text = sound("\n".join(lines))
    return case


def _lines(outcome: PairOutcome) -> Iterator[str]:
    """Say what is to be said of a pair that is not the same, the worst first."""
    if outcome.first is not None:
        yield outcome.first.explanation
    if outcome.on_writes:
        yield f"{outcome.on_writes} of the differences on writes"
    for kind, harm, count in outcome.kinds:
        yield f"{harm.words}: {kind.replace('_', ' ')} ({count})"
    if outcome.reason is not None:
        yield f"cannot tell: {outcome.reason}"


def _pair(outcome: PairOutcome) -> str:
    return f"{outcome.nearest or outcome.baseline} {outcome.candidate}"


def _alone(side: str, one: Unpaired) -> Element:
    name = sound(f"{one.run.run_id} of the {side}")
    case = Element("testcase", classname=sound(one.run.case or "no case"), name=name)
    SubElement(case, "error", type="no partner", message=sound(one.reason))
    return case


def comment_on_many(found: ManyComparison) -> str:
    """Write a comparison of many runs as Markdown."""
    return "\n".join(_comment(found)) + "\n"


def _comment(found: ManyComparison) -> Iterator[str]:
    first, *rest = head_lines(found)
    yield f"### tracekit diff: {first}"
    yield ""
    yield from (f"- {code(line.strip())}" for line in rest)
    if found.groups:
        yield ""
        yield "| worst | where they part first | example |"
        yield "|---|---|---|"
    for group in found.groups[:_MOST_GROUPS]:
        example = code(_pair(group.outcomes[0]))
        yield f"| {group.worst.words} | {code(group_title(group))} | {example} |"
    if len(found.groups) > _MOST_GROUPS:
        yield ""
        yield f"{len(found.groups) - _MOST_GROUPS:,} more ways."
    if rows := case_rows(found):
        yield ""
        yield "| " + " | ".join(CASE_COLUMNS) + " |"
        yield "|---" * len(CASE_COLUMNS) + "|"
        yield from ("| " + " | ".join(map(code, row)) + " |" for row in rows)
    if last := list(rest_lines(found)):
        yield ""
        yield from (f"- {code(line.strip())}" for line in last)

"""A replay in words, for a terminal: the verdict first, then what it rests on."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping

from replay.diff import diff
from replay.result import ReplayResult
from tracekit.canonical import JsonValue, json_text
from tracekit.numerals import counted
from tracekit.visible import text_of

_WIDTH = 160
_MOST_LINES = 20


def summarise(result: ReplayResult) -> str:
    """Write ``result`` as lines of text."""
    return text_of(_lines(result))


def _lines(result: ReplayResult) -> Iterator[str]:
    yield f"{result.verdict.kind.upper()}  replay {result.run_id} of {result.replay_of}"
    reasons = list(dict.fromkeys(result.verdict.reasons))
    word = "given" if result.passed else "because"
    yield from (f"  {word} {' '.join(reason.split())}" for reason in reasons[:_MOST_LINES])
    if len(reasons) > _MOST_LINES:
        yield f"  and for {len(reasons) - _MOST_LINES} reasons more (--json lists them)"
    yield f"  planner    {result.planner} ({result.mode}, model {result.model})"
    walls = ", ".join(wall.name for wall in result.walls if wall.held) or "none but the guard"
    yield f"  isolation  {result.level}; walls that proved themselves: {walls}"
    yield from (f"             {w.name}: {w.evidence}" for w in result.walls if not w.held)
    yield from (f"             {note}" for note in result.notes)
    yield from _lanes(result)
    yield f"  calls      {_shares(result.shares)}"
    if result.prompt_shares:
        yield f"  prompts    {_shares(result.prompt_shares)}"
    yield from _refused(result)
    yield from _unsure(result)
    yield from _missing(result)
    yield from _locked(result)
    if result.incidental:
        paths = ", ".join(change.path for change in result.incidental[:5])
        yield f"  discarded  {counted(len(result.incidental), 'incidental file change')}: {paths}"
    if result.refused:
        shown = "; ".join(map(_short, result.refused[:3]))
        yield f"  in vain    {counted(len(result.refused), 'attempt')} of ordinary code: {shown}"
    yield from _divergence(result)
    answer = result.trajectory.answer.value if result.trajectory else None
    if answer is not None:
        yield f"  answer     {_short(answer)}"
    yield from _unseen(result)


def _unseen(result: ReplayResult) -> Iterator[str]:
    """Say which kinds of attempt the walls stop or miss without a word."""
    for wall in result.walls:
        if wall.held and wall.unseen:
            text = f"the {wall.name} wall does not list {'; '.join(wall.unseen)}"
            yield from textwrap.wrap(
                text, 100, initial_indent="  unlisted   ", subsequent_indent=" " * 13
            )


def _shares(shares: Mapping[str, int]) -> str:
    total = sum(shares.values())
    if not total:
        return "none"
    return ", ".join(f"{count} {rung}" for rung, count in shares.items()) + f" (of {total})"


def _refused(result: ReplayResult) -> Iterator[str]:
    if not result.findings:
        yield "  findings   none: no write was attempted that the recording does not hold"
        return
    ran = any(rung in result.shares for rung in ("simulate", "live", "sandbox"))
    executed = "only what you let run was executed" if ran else "nothing was executed"
    yield f"  findings   {len(result.findings)}, {executed}:"
    counts = Counter((finding.kind, finding.text) for finding in result.findings)
    for (kind, text), count in list(counts.items())[:_MOST_LINES]:
        yield f"    - {kind}: {_short(text)}" + (f" ({count} times)" if count > 1 else "")
    if len(counts) > _MOST_LINES:
        yield f"    - and {len(counts) - _MOST_LINES} more (--json lists them)"


def _unsure(result: ReplayResult) -> Iterator[str]:
    tainted = [step for step in result.answered if step.answer.tainted]
    if tainted:
        yield f"  tainted    {len(tainted)} answers are no evidence:"
        for step in tainted[:8]:
            yield f"    - {step.answer.rung}: {_short(step.answer.explanation)}"
        if len(tainted) > 8:
            yield f"    - and {len(tainted) - 8} more (--json lists them)"


def _missing(result: ReplayResult) -> Iterator[str]:
    if result.missing and not result.stopped:
        yield f"  not made   {len(result.missing)} recorded calls:"
        for call in result.missing[:8]:
            mark = " (write)" if call.writes else ""
            yield f"    - decision {call.decision}: {call.tool}{mark} {_short(call.arguments)}"
        if len(result.missing) > 8:
            yield f"    - and {len(result.missing) - 8} more (--json lists them)"


def _locked(result: ReplayResult) -> Iterator[str]:
    if not result.locked:
        return
    same = sum(decision.same for decision in result.locked)
    yield f"  locked     {same} of {counted(len(result.locked), 'decision')} as recorded"
    parted = [decision for decision in result.locked if decision.change != "same"]
    shown = result.locked if len(result.locked) <= _MOST_LINES else parted[:_MOST_LINES]
    for decision in shown:
        told = _short(decision.explanation or _tools(decision.recorded))
        yield f"    {decision.number:>4}  {decision.change:<22}  {told}".rstrip()
    if len(shown) < len(result.locked):
        yield f"    and {len(result.locked) - len(shown)} more (--json lists them)"


def _tools(decision: JsonValue) -> str:
    """The tools that a decision calls, or that it answers."""
    calls = decision.get("calls") if isinstance(decision, dict) else None
    names = [str(c["tool"]) for c in calls or () if isinstance(c, dict)] if calls else []  # type: ignore[union-attr]  # a list
    return ", ".join(names) or "answers"


def _lanes(result: ReplayResult) -> Iterator[str]:
    lane, test = result.baseline, result.self_test
    if lane is not None:
        found = "does what was observed"
        if not lane.sound:
            found = f"differs at step {lane.unsound_at}: {_short(lane.difference)}"
        yield f"  baseline   {lane.planner} {found} (replay {lane.run_id})"
    if test is not None:
        yield f"  self-test  {test.lane} {test.outcome}: {_short(test.detail)}"


def _divergence(result: ReplayResult) -> Iterator[str]:
    if result.trajectory is None or result.locked or result.stopped:
        return
    found = diff(result.recorded, result.trajectory)
    if found.same:
        yield "  trajectory the same as recorded"
    elif found.first is not None:
        yield f"  diverges   at decision {found.first.decision}: {found.first.explanation}"
        short = f"{result.replay_of} {result.run_id}"
        number = counted(len(found.divergences), "difference")
        yield f"             {number} in all: tracekit diff {short}"


def _short(value: JsonValue) -> str:
    text = value if isinstance(value, str) else json_text(value)
    text = " ".join(text.split())
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"

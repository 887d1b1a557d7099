"""Whether a comparison says exactly what was planted: no fault is an empty list."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from replay.diff import Comparison, Divergence, diff
from tests.diff.planting import Expected, Mutation, Planted, is_turn_before
from tracekit.trajectory import Trajectory

SPEECH = {
    "(final answer)": "The runs end differently",
    "(input)": "different inputs",
    "(user's turn)": "the user",
    "(said)": "said",
}
"""What the sentence for it says; else it names the tool."""


def plant(name: str, mutation: Mutation, run: Trajectory, seed: int = 0) -> Planted | None:
    """Apply one mutation to one run; the same each time for the same seed."""
    return mutation(run, Random(f"{name} {run.run_id} {seed}"))


def faults(planted: Planted) -> list[str]:
    """List what is wrong with what is said of a planted difference, both ways round."""
    there, back = diff(planted.before, planted.after), diff(planted.after, planted.before)
    wanted = planted.expected
    mirrored = [tuple(each.mirrored() for each in group) for group in wanted]
    found = [*_faults(there, wanted, planted), *_faults(back, mirrored, planted, turned=True)]
    if there.distance != back.distance:
        found.append(f"the distance is {there.distance} there and {back.distance} back")
    return found


def _faults(
    found: Comparison,
    wanted: Sequence[tuple[Expected, ...]],
    planted: Planted,
    *,
    turned: bool = False,
) -> list[str]:
    way = "back" if turned else "there"
    if not wanted:
        clean = found.same and found.distance == 0 and not found.divergences
        return [] if clean else [f"{way}: alarm: {_told(found)}"]
    wrong = []
    if found.same or not found.distance > 0:
        wrong.append("said to be the same")
    may = [each.mirrored() if turned else each for each in planted.may]
    told = [d for d in found.divergences if not any(_is(d, each) for each in may)]
    if not _matched(told, wanted):
        wrong.append(f"said: {_told(found)}; wanted: {wanted}")
    else:
        wrong += _places(found, planted, turned=turned)
        wrong += _ranks(found)
    return [f"{way}: {what}" for what in wrong]


def _told(found: Comparison) -> str:
    return "; ".join(
        f"{d.kind} {d.harm.name} {d.tool} {d.left_decision}/{d.right_decision} cause={d.cause} "
        f"{[(f.pointer, f.left, f.right) for f in d.fields][:3]} {d.because}"
        for d in found.divergences
    )


def _matched(found: Sequence[Divergence], wanted: Sequence[tuple[Expected, ...]]) -> bool:
    """Whether each divergence is one that was wanted, and each wanted one is there once."""
    if not wanted:
        return not found
    return bool(found) and any(
        any(_is(found[0], each) for each in group)
        and _matched(found[1:], [*wanted[:at], *wanted[at + 1 :]])
        for at, group in enumerate(wanted)
    )


def _is(found: Divergence, wanted: Expected) -> bool:
    fields = {field.pointer: (field.left, field.right) for field in found.fields}
    return (
        found.kind in wanted.kind
        and found.harm == wanted.harm
        and found.tool == wanted.tool
        and found.left_decision in wanted.left
        and found.right_decision in wanted.right
        and found.cause == wanted.cause
        and (found.because is None) == wanted.cause
        and (wanted.fields is None or _typed(fields) == _typed(dict(wanted.fields)))
        and SPEECH.get(found.tool, found.tool) in found.explanation
        and all(pointer in found.explanation for pointer in list(fields)[:3])
    )


def _typed(value: Any) -> str:
    """A text that tells True from 1, which Python takes for equal, but not 42 from 42.0."""
    return repr(value)


def _places(found: Comparison, planted: Planted, *, turned: bool) -> list[str]:
    run = planted.after if turned else planted.before
    wrong = []
    prefix = {len(run.decisions)} if planted.prefix is None else planted.prefix
    if found.matched_prefix not in prefix:
        wrong.append(f"the same before: {found.matched_prefix}, wanted {prefix}")
    earliest = [d for d in found.divergences if d is found.first]
    if not earliest:
        wrong.append("the first divergence is none of the divergences")
    elif planted.resynchronises and not turned and found.first is not None:
        met = _meeting(planted, found.first)
        if found.resynchronised_at != met:
            wrong.append(f"together again at {found.resynchronised_at}, wanted {met}")
        wrong += _seen(found.first, planted.before)
    return wrong


def _meeting(planted: Planted, first: Divergence) -> int | None:
    """Give the first decision after the difference at which a call is the same."""
    if planted.prefix is None:
        return None
    (after,) = planted.prefix
    if first.left_decision is not None and first.tool != "(user's turn)":
        after += 1
    return next(
        (
            decision.index
            for decision in planted.before.decisions
            if decision.index > after
            and any((decision.index, n) not in planted.touched for n in range(len(decision.calls)))
        ),
        None,
    )


def _seen(first: Divergence, run: Trajectory) -> list[str]:
    """Check what the planner is said to have seen last, for a first divergence on the left."""
    number = first.left_decision
    if number is None or first.tool in ("(final answer)", "(input)", "(user's turn)"):
        return []
    wanted: list[Any] = [run.input.value]
    for before in range(number, 1, -1):
        if is_turn_before(run, before):
            turns = [m for m in run.messages if m.role == "user" and m.before_decision == before]
            wanted = [message.content for message in turns]
            break
        if calls := run.decisions[before - 2].calls:
            wanted = [call.observation.digest_form for call in calls]
            break
    else:
        wanted += [m.content for m in run.messages if m.role == "user" and m.before_decision <= 1]
    seen = [action.observation for action in first.seen]
    return [] if seen == wanted else [f"seen {seen}, wanted {wanted}"]


def _ranks(found: Comparison) -> list[str]:
    """Check that the worse comes first, and causes before consequences of the same harm."""
    ranks = [(int(d.harm), not d.cause) for d in found.divergences]
    return [] if ranks == sorted(ranks) else [f"ranked {ranks}"]

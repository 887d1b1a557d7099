"""What of a record is other than it was, for one replay: observations that the user sets.

An observation that was set is no taint: the user asks what the planner does *given* it. The verdict
names it, and so rests on it in the open.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tracekit import jsontree
from tracekit.canonical import JsonValue, json_text
from tracekit.errors import PointerNotFound, UsageError
from tracekit.textfiles import read_given
from tracekit.trajectory import Call, Decision, Observation, Trajectory

_OVERRIDE = re.compile(
    r"(?P<decision>\d+)(?:\.(?P<place>\d+))?\.observation(?P<pointer>/[^=]*)?=(?P<value>.*)",
    re.DOTALL,
)
_HINT = "write 3.observation=JSON, 3.2.observation=@FILE (2nd call) or 3.observation/field=JSON"
_WIDTH = 80


@dataclass(frozen=True, slots=True)
class Override:
    """An observation, or a part of one, that is to be another."""

    decision: int
    value: JsonValue
    place: int | None = None
    """Which call of the decision, from 1; None where it has only one."""
    pointer: str = ""
    """Where in the observation; empty for all of it."""

    def __str__(self) -> str:
        step = f"{self.decision}" if self.place is None else f"{self.decision}.{self.place}"
        text = json_text(self.value)
        shown = text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"
        return f"{step}.observation{self.pointer}={shown}"


def parse_override(text: str) -> Override:
    """Read ``STEP.observation[/pointer]=JSON``, or ``=@FILE`` for a file that holds the JSON.

    Raises:
        UsageError: it is not that.
    """
    found = _OVERRIDE.fullmatch(text)
    if found is None:
        raise UsageError(f"--set {text[:_WIDTH]}: not understood", hint=_HINT)
    value = read_given(found["value"], option=f"--set {text.partition('=')[0][:_WIDTH]}")
    place = None if found["place"] is None else int(found["place"])
    return Override(int(found["decision"]), value, place, found["pointer"] or "")


def overridden(
    record: Trajectory, overrides: Sequence[Override]
) -> tuple[Trajectory, dict[str, Override]]:
    """Return the record with its observations set, and which calls they are.

    Raises:
        UsageError: there is no such step, or no such place in its observation.
    """
    changed: dict[str, Override] = {}
    decisions = list(record.decisions)
    for override in overrides:
        at, call = override.decision - 1, _call_of(decisions, override)
        new = replace(call, observation=_set(call.observation, override))
        calls = tuple(new if one is call else one for one in decisions[at].calls)
        decisions[at] = replace(decisions[at], calls=calls)
        changed[call.event_id] = override
    return replace(record, decisions=tuple(decisions)), changed


def _call_of(decisions: Sequence[Decision], override: Override) -> Call:
    if not 1 <= override.decision <= len(decisions):
        raise UsageError(
            f"--set {override}: there is no decision {override.decision}",
            hint=f"the run has {len(decisions)}; tracekit show lists them",
        )
    calls = decisions[override.decision - 1].calls
    if override.place is None and len(calls) == 1:
        return calls[0]
    if override.place is not None and 1 <= override.place <= len(calls):
        return calls[override.place - 1]
    names = ", ".join(f"{n} {call.tool}" for n, call in enumerate(calls, 1))
    hint = f"it made: {names}; write {override.decision}.N" if names else "it called no tool"
    raise UsageError(f"--set {override}: decision {override.decision} leaves it open", hint=hint)


def _set(seen: Observation, override: Override) -> Observation:
    if not override.pointer:
        # A value that was set has no Python type but where it is of the recorded shape.
        kept = dict(seen.types) if _same_shape(seen.value, override.value) else {}
        return Observation(override.value, "captured", types=kept)
    try:
        value = jsontree.replace(seen.value, override.pointer, override.value)
    except PointerNotFound as error:
        raise UsageError(f"--set {override}: {error}") from error
    return replace(seen, value=value, state="captured")


def _same_shape(old: JsonValue, new: JsonValue) -> bool:
    places = [{place for place, _ in jsontree.walk(value)} for value in (old, new)]
    return places[0] == places[1] and isinstance(old, (dict, list)) == isinstance(new, (dict, list))

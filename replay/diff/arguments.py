"""What counts of a call's arguments, and of what came back, when two calls are compared.

What does not count is taken out: the spelling, what a read's matchers ignore, the order of its
sets, and which idempotency key a write carries. That two calls of a run carry the *same* key does
count: the second is another attempt of the first, and with another key it is another payment. So
where a run uses a key again, a key counts as new, or as that of a call before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from dataclasses import replace as with_fields

from replay.diff.partly import Overlooked
from tracekit.canonical import (
    JsonValue,
    as_compared,
    canonical_text,
    cut_digest,
    digest,
    numbers_as_compared,
)
from tracekit.contract import Contract, Matchers, key_at
from tracekit.errors import PointerNotFound
from tracekit.events import Effect
from tracekit.jsontree import get, remove, replace
from tracekit.sent import as_argument
from tracekit.trajectory import Call, Decision, Observation, Trajectory

NEW = "(a new key)"
_LONGEST = 120
"""Longer arguments are named by their digest."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What counts when calls of one tool are compared: the contracts of both sides, agreed."""

    effect: Effect
    spelling: Contract | None = None
    matchers: Matchers = field(default_factory=Matchers)
    idempotency_field: str | None = None
    unknown: tuple[str, ...] = ()
    """The places of the arguments of which nothing is known in one call at least."""
    keyed: bool = False
    """Whether a run uses an idempotency key again, so that it counts whether one is new."""
    whose: frozenset[str] = frozenset()
    """The arguments that say whose a call is, where some call does not say it."""
    classed: bool = False
    """Whether equal arguments hold an object in one call, and plain data in another."""
    has_leeway: bool = field(init=False)
    """Whether different arguments may still count as equal; asked for every alignment."""
    overlooked: Overlooked = field(init=False)
    """What does not count of the arguments; asked for every call."""

    @property
    def writes(self) -> bool:
        """Whether a call may change the world."""
        return self.effect in ("write", "unknown")

    def __post_init__(self) -> None:
        lenient = not self.writes and bool(self.matchers.tolerances or self.matchers.windows)
        partly = bool(self.unknown) or self.classed
        object.__setattr__(self, "has_leeway", lenient or partly)
        overlooked = Overlooked(self.matchers.ignore, self.matchers.sets)
        if self.writes:
            named = self.idempotency_field
            overlooked = Overlooked(() if named is None else (named,))
        object.__setattr__(self, "overlooked", overlooked)


_ARGUMENTS = "(arguments)"
"""Stands for arguments that are no object of their names, where something was sent in."""
SENT_IN = "(sent in)"
"""Stands among the arguments for what was sent into a generator; no parameter is named so."""


def with_sent_in(run: Trajectory) -> Trajectory:
    """Give a run in which what was sent into a generator stands among the call's arguments."""
    if not any(call.sent_in for call in run.calls):
        return run
    decisions = (with_fields(one, calls=tuple(map(_asked, one.calls))) for one in run.decisions)
    return with_fields(run, decisions=tuple(decisions))


def _asked(call: Call) -> Call:
    given = call.arguments
    if not call.sent_in or given is None:  # of what is gone nothing is known, whatever was sent
        return call
    state = call.argument_state
    if (cut := cut_digest(given)) is not None:  # all that was in it is known by that
        given, state = {_ARGUMENTS: cut}, "captured"
    elif not isinstance(given, dict):
        given = {_ARGUMENTS: given}
    elif SENT_IN in given:
        return call
    sent, types, described = as_argument(call.sent_in)
    return with_fields(
        call,
        arguments={**given, SENT_IN: sent},
        argument_types={
            **call.argument_types,
            **{f"/{SENT_IN}{place}": tag for place, tag in types.items()},
        },
        argument_state="truncated" if described and state in ("captured", "absent") else state,
    )


def what_counts(call: Call, rule: Declared) -> JsonValue:
    """Give the arguments of ``call`` without what two equal calls may differ in."""
    arguments = numbers_as_compared(as_compared(call.arguments, call.argument_types))
    if not isinstance(arguments, dict) or cut_digest(arguments) is not None:
        return arguments
    spelt = arguments if rule.spelling is None else rule.spelling.normalise(arguments)
    value: JsonValue = dict(spelt)
    if rule.whose:
        value = {name: given for name, given in spelt.items() if name not in rule.whose}
    if rule.writes:
        return value if rule.idempotency_field is None else _without(value, rule.idempotency_field)
    for place in rule.matchers.ignore:
        value = _without(value, place)
    for place in rule.matchers.sets:
        value = _sorted_at(value, place)
    return value


def came_back(observation: Observation) -> JsonValue:
    """Give an observation, an input or an answer as it is compared: numbers as numbers."""
    if not observation.types:
        return numbers_as_compared(observation.digest_form)
    whole = as_compared(observation.value, observation.types)
    return numbers_as_compared(with_fields(observation, value=whole).digest_form)


def _without(value: JsonValue, place: str) -> JsonValue:
    try:
        return remove(value, place)
    except PointerNotFound:
        return value


def _sorted_at(value: JsonValue, place: str) -> JsonValue:
    try:
        found = get(value, place)
    except PointerNotFound:
        return value
    if not isinstance(found, list):
        return value
    return replace(value, place, sorted(found, key=canonical_text))


def with_key(arguments: JsonValue, rule: Declared, said: str) -> JsonValue:
    """Let what counts of the arguments say whether their idempotency key is a new one."""
    assert rule.idempotency_field is not None  # else nothing is said of a key
    try:
        return replace(arguments, rule.idempotency_field, said)
    except PointerNotFound:  # no call of this one's arguments has a key
        return arguments


def tools_with_keys_used_again(run: Trajectory, rules: Mapping[str, Declared]) -> set[str]:
    """Name the tools of which two calls of a run carry one idempotency key."""
    used = Counter(
        (call.tool, key) for call in run.calls if (key := _key_of(call, rules[call.tool]))
    )
    return {tool for (tool, _), count in used.items() if count > 1}


def _key_of(call: Call, rule: Declared) -> str:
    """Write the idempotency key of a call; nothing where it has none."""
    if not rule.writes or rule.idempotency_field is None:
        return ""
    given = call.arguments
    if isinstance(given, dict) and rule.spelling is not None:
        given = rule.spelling.normalise(given)
    return key_at(given, rule.idempotency_field)


class Keys:
    """The idempotency keys that a run has used so far."""

    def __init__(self, rules: Mapping[str, Declared]) -> None:
        self._rules = rules
        self._used: dict[tuple[str, str], tuple[str, int]] = {}

    def of(self, decision: Decision) -> dict[int, str]:
        """Say of each call of a decision that carries a key whether it is new; by its place.

        Calls of one decision have no order, so they are gone through in one of their own.
        """
        found: dict[int, str] = {}
        if not any(self._rules[call.tool].keyed for call in decision.calls):
            return found
        order = sorted(
            (canonical_text([what_counts(call, rule), came_back(call.observation)]), at)
            for at, call in enumerate(decision.calls)
            if (rule := self._rules[call.tool]).keyed
        )
        for _, at in order:
            call = decision.calls[at]
            found[at] = self._said(call, self._rules[call.tool])
        return found

    def _said(self, call: Call, rule: Declared) -> str:
        key = call.tool, _key_of(call, rule)
        if not key[1]:
            return NEW
        text = canonical_text(what_counts(call, rule))
        first, times = self._used.get(key, (text, 0))
        self._used[key] = first, times + 1
        shown = first if len(first) <= _LONGEST else digest(first)
        before = "the call" if times == 1 else f"{times} calls"
        return f"(the key of {before} before: {shown})" if times else NEW

"""The decisions that pass a case where no planner is known that does.

The one idea: take what the failing planner did, leave out what it must not do, put right what is
told to be otherwise, and add what it must do. Whether that passes is tried, not believed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from replay.case import ArgumentRule, CallPattern, Case, ScriptedDecision
from replay.case.expected import KeyUse, patterns
from replay.case.model import ProposedCall
from replay.case.schema import holds
from replay.caserun import CaseResult
from replay.oracles import OracleFinding
from replay.oracles.keys import Keys
from tracekit.canonical import JsonValue, json_text
from tracekit.errors import PointerNotFound
from tracekit.jsontree import replace
from tracekit.trajectory import Call

Script = tuple[ScriptedDecision, ...]
_DONE = "done"
_REPEATING = ("no_repeat", "no_news", "after_error")
"""Oracles that a planner passes which makes no call twice."""


def passing_script(seen: CaseResult, found: OracleFinding) -> Script:
    """Return the decisions that should pass the case that was run.

    Args:
        seen: What the failing planner did.
        found: What speaks against it.
    """
    expected = seen.case.expected
    made = list(_decisions(seen, _Permitted(seen, found)))
    calls = [call for decision in made for call in decision.calls]
    keys = Keys.of_run(seen.trajectory)
    uses = keys.uses((call.tool, call.arguments) for call in calls)
    for pattern in patterns(expected.required_tools):
        if not any(_fits(c, pattern, use) for c, use in zip(calls, uses, strict=True)):
            pattern = _as_answered(pattern, seen.case)
            made.append(ScriptedDecision(calls=(_lacking(pattern, calls, keys),)))
    said = sum(not decision.calls for decision in made)
    made += [ScriptedDecision(message=_DONE)] * (len(seen.case.turns) - said)
    return (*made, ScriptedDecision(message=_answer(seen)))


def _as_answered(pattern: CallPattern, case: Case) -> CallPattern:
    """The call that is required, with the arguments of an observation that would answer it."""
    for fixture in case.observations:
        asked = fixture.arguments
        if fixture.tool == pattern.tool and asked and holds(asked, pattern.arguments or {}):
            return pattern.model_copy(update={"arguments": asked})
    return pattern


def _lacking(pattern: CallPattern, made: Sequence[ProposedCall], keys: Keys) -> ProposedCall:
    """The call that is required: one that was made is made again where its key shall tell so."""
    arguments = pattern.arguments or {}
    alike = [c for c in made if c.tool == pattern.tool and holds(c.arguments, arguments)]
    if pattern.key is None or not alike:
        return ProposedCall(tool=pattern.tool, arguments=arguments)
    if pattern.key == "another":
        return ProposedCall(
            tool=pattern.tool, arguments=keys.rekeyed(pattern.tool, alike[-1].arguments)
        )
    return alike[-1]


def _answer(seen: CaseResult) -> JsonValue:
    expected = seen.case.expected
    ended = seen.trajectory.answer if seen.trajectory else None
    answer = None if ended is None or ended.is_error else ended.value
    if expected.answer is not None and expected.answer.contains:
        answer = " ".join(expected.answer.contains)
    answer = _DONE if answer in (None, "") else answer
    if expected.evidence and isinstance(answer, str):
        answer = " ".join([answer, *(name for name in expected.evidence if name not in answer)])
    return answer


def _decisions(seen: CaseResult, permitted: _Permitted) -> Iterator[ScriptedDecision]:
    turns = len(seen.case.turns)
    most = seen.case.budgets.steps
    for decision in seen.trajectory.decisions if seen.trajectory else ():
        if most is not None and decision.index >= most:  # the answer is a step as well
            return
        calls = tuple(
            ProposedCall(tool=call.tool, arguments=permitted.arguments(call))
            for call in decision.calls
            if permitted.makes(call)
        )
        if calls:
            yield ScriptedDecision(calls=calls)
        elif not decision.calls and turns:
            turns -= 1
            yield ScriptedDecision(message=decision.message)


class _Permitted:
    """Which of the calls may be made, one after the other."""

    def __init__(self, seen: CaseResult, found: OracleFinding) -> None:
        expected, budgets = seen.case.expected, seen.case.budgets
        self._forbidden = list(patterns(expected.forbidden_tools))
        self._most = dict(expected.call_limits)
        self._all = budgets.calls
        self._rules = [rule for rule in expected.arguments if rule.compares]
        self._once = found.oracle in _REPEATING
        calls = seen.trajectory.calls if seen.trajectory else ()
        uses = Keys.of_run(seen.trajectory).uses_of(calls)
        self._uses = {call.event_id: use for call, use in zip(calls, uses, strict=True)}
        self._made: Counter[str] = Counter()
        self._asked: set[str] = set()

    def makes(self, call: Call) -> bool:
        """Whether the call is made; it counts then."""
        if not isinstance(call.arguments, dict):
            return False
        use = self._uses[call.event_id]
        if any(_fits(call, pattern, use) for pattern in self._forbidden):
            return False
        key = f"{call.tool} {json_text(call.arguments)}"
        if self._once and key in self._asked:
            return False
        full = self._all is not None and self._made.total() >= self._all
        if full or self._made[call.tool] >= self._most.get(call.tool, self._made[call.tool] + 1):
            return False
        self._asked.add(key)
        self._made[call.tool] += 1
        return True

    def arguments(self, call: Call) -> dict[str, JsonValue]:
        """The arguments of a call that is made, put right where a rule says what they must be."""
        value: JsonValue = call.arguments
        for rule in self._rules:
            if rule.tool == call.tool and rule.call in (None, self._made[call.tool]):
                value = _put_right(value, rule)
        assert isinstance(value, dict)
        return value


def _put_right(value: JsonValue, rule: ArgumentRule) -> JsonValue:
    try:
        return replace(value, rule.pointer, rule.equals)
    except PointerNotFound:
        name = rule.pointer.removeprefix("/")
        return {**value, name: rule.equals} if isinstance(value, dict) else value


def _fits(call: Call | ProposedCall, pattern: CallPattern, use: KeyUse | None) -> bool:
    if call.tool != pattern.tool or pattern.key not in (None, use):
        return False
    return pattern.arguments is None or holds(call.arguments, pattern.arguments)

"""Which failure is meant: what the case will expect, and the reason for which it must fail.

A run can fail in several ways. The user says which one, or a planner that does right shows it, or
exactly one is seen; otherwise nothing is guessed, and what was seen is listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from replay.case import AnswerRule, CallPattern, Case, Expected
from replay.case.schema import same
from replay.caserun import CaseResult
from tracekit.canonical import JsonValue, json_text
from tracekit.errors import DistillError
from tracekit.trajectory import Call

FORMS = "forbid:TOOL, require:TOOL, repeat:TOOL, answer:TEXT, error:CLASS, wall:KIND, loop"
_LOOP = 2
"""How often a failed call is made again before it is taken for a loop."""
_ENDINGS = ("error", "loop", "wall")


@dataclass(frozen=True)
class Wish:
    """What the user says of the failure; nothing is said where all is empty."""

    forbid: tuple[str, ...] = ()
    """Tools that must not be proposed."""
    require: tuple[str, ...] = ()
    """Tools that must be called."""
    answer_contains: tuple[str, ...] = ()
    """Texts that must stand in the answer."""
    failing: tuple[str, ...] = ()
    """Failures by their names, as in ``--signature``: ``forbid:TOOL``, ``error:CLASS`` …"""

    @property
    def says_something(self) -> bool:
        """Whether the failure is chosen."""
        return bool(self.forbid or self.require or self.answer_contains or self.failing)


@dataclass(frozen=True)
class Choice:
    """One failure that can be meant."""

    name: str
    """As in ``--signature``."""
    what: str
    """What was seen, for a person."""
    expected: Expected
    oracle: str
    key: str | None = None
    """Tool, class or text that the finding must be about; None where any will do."""


def choose(
    wish: Wish, failing: CaseResult, fixed: CaseResult | None, *, writes: frozenset[str]
) -> tuple[Choice, ...]:
    """Say which failure is meant; the first, and others that were seen beside it.

    Args:
        wish: What the user says.
        failing: What the failing planner did on the whole run.
        fixed: What the one that does right did, where there is one.
        writes: Tools that may write.

    Raises:
        DistillError: nothing was seen, or several things, and none was chosen.
    """
    seen = tuple(_seen(failing, writes))
    if wish.says_something:
        return _wished(wish, seen)
    if fixed is not None:
        return _shown_by(failing, fixed, seen, writes)
    strong = [choice for choice in seen if not choice.name.startswith("forbid:")]
    strong += [c for c in seen if c.name.startswith("forbid:") and c.what.startswith("refused")]
    if len(strong) == 1:
        return tuple(strong)
    if not strong and len(seen) == 1 and _times(failing, seen[0]) == 1:
        return seen
    if not seen:
        raise DistillError(
            f"{failing.planner} does not fail on the whole run: {did(failing)}",
            hint="say what it must not or must do: --forbid TOOL, --require TOOL, "
            "--answer-contains TEXT",
        )
    listed = "\n".join(f"    --signature {choice.name:<24} {choice.what}" for choice in seen)
    what = "it is not known what is wrong" if not strong else "several failures are seen"
    raise DistillError(f"{what} with the run; choose what the case is about:\n{listed}")


def _shown_by(
    failing: CaseResult, fixed: CaseResult, seen: tuple[Choice, ...], writes: frozenset[str]
) -> tuple[Choice, ...]:
    """What only the failing planner does: first the writes, then how it ends."""
    also = {choice.name for choice in _seen(fixed, writes)}
    ends = [c for c in seen if c.oracle != "forbidden_tools" and c.name not in also]
    only = (*_only_by(failing, fixed, writes), *ends)
    if not only:
        raise DistillError(
            f"on the whole run {failing.planner} and {fixed.planner} make the same writes, so it "
            "is not known what is wrong",
            hint="say what it is: --forbid TOOL, --require TOOL, --answer-contains TEXT",
        )
    return only


def _wished(wish: Wish, seen: tuple[Choice, ...]) -> tuple[Choice, ...]:
    names = [*(f"forbid:{tool}" for tool in wish.forbid)]
    names += [f"require:{tool}" for tool in wish.require]
    names += [f"answer:{text}" for text in wish.answer_contains]
    names += wish.failing
    choices = tuple(_named(name, seen) for name in names)
    expected = _joined([choice.expected for choice in choices])
    return tuple(Choice(c.name, c.what, expected, c.oracle, c.key) for c in choices)


def _named(name: str, seen: tuple[Choice, ...]) -> Choice:
    for choice in seen:
        if choice.name == name:
            return choice
    kind, _, rest = name.partition(":")
    if rest or kind == "loop":
        match kind:
            case "forbid":
                return Choice(name, "", Expected(forbidden_tools=(rest,)), "forbidden_tools", rest)
            case "require":
                return Choice(name, "", Expected(required_tools=(rest,)), "required_tools", rest)
            case "repeat":
                return Choice(name, "", Expected(no_repeat=True), "no_repeat", rest)
            case "answer":
                rule = AnswerRule(contains=(rest,))
                return Choice(name, "", Expected(answer=rule), "answer", rest)
            case "error" | "loop" | "wall":
                return Choice(name, "", Expected(), kind, rest or None)
            case _:
                pass
    raise DistillError(f"the signature {name!r} is none of: {FORMS}")


def _seen(failing: CaseResult, writes: frozenset[str]) -> Iterator[Choice]:
    for found in failing.findings:
        if found.oracle in _ENDINGS:
            name = found.oracle if not found.error else f"{found.oracle}:{found.error}"
            yield Choice(name, found.text, Expected(), found.oracle, found.error)
    yield from _repeated(failing)
    unmatched = [step.name for step in failing.unmatched]
    calls = [call for call in _calls(failing) if call.tool in writes]
    for tool in dict.fromkeys(call.tool for call in calls):
        first = next(call for call in calls if call.tool == tool)
        how = "refused, not in the run" if tool in unmatched else "made"
        many = len({_written(call) for call in calls if call.tool == tool})
        more = f", and {many - 1} more of it" if many > 1 else ""
        what = f"{how}: {_written(first)} in decision {first.decision}{more}"
        expected = Expected(forbidden_tools=(tool,))
        yield Choice(f"forbid:{tool}", what, expected, "forbidden_tools", tool)


def _times(failing: CaseResult, choice: Choice) -> int:
    """How many different calls the choice may be about."""
    return len({_written(call) for call in _calls(failing) if call.tool == choice.key})


def _repeated(failing: CaseResult) -> Iterator[Choice]:
    """Failed calls that were made again and again; one retry is no loop."""
    failed: dict[str, int] = {}
    for call in _calls(failing):
        key = _written(call)
        if key in failed:
            failed[key] += 1
            if failed[key] == _LOOP:
                what = f"made again after {_LOOP} errors: {key} in decision {call.decision}"
                expected = Expected(no_repeat=_LOOP - 1)
                yield Choice(f"repeat:{call.tool}", what, expected, "no_repeat", call.tool)
        if call.observation.is_error:
            failed.setdefault(key, 0)


def _only_by(failing: CaseResult, fixed: CaseResult, writes: frozenset[str]) -> Iterator[Choice]:
    """Writes that only the failing planner proposes, in the order of proposing."""
    right = _calls(fixed)
    done: set[str] = set()
    for call in _calls(failing):
        if call.tool not in writes or call.tool in done:
            continue
        others = [other for other in right if other.tool == call.tool]
        if any(same(other.arguments, call.arguments) for other in others):
            continue
        done.add(call.tool)
        pattern: str | CallPattern = call.tool
        if others:
            pattern = CallPattern(tool=call.tool, arguments=_distinct(call, others))
        what = f"only {failing.planner} proposes {_written(call)}, in decision {call.decision}"
        expected = Expected(forbidden_tools=(pattern,))
        yield Choice(f"forbid:{call.tool}", what, expected, "forbidden_tools", call.tool)


def _distinct(call: Call, others: list[Call]) -> dict[str, JsonValue]:
    """The arguments that no call of the right planner shares; all, where each one is shared."""
    assert isinstance(call.arguments, Mapping)
    shared: Any = [other.arguments for other in others if isinstance(other.arguments, Mapping)]
    own = {
        name: value
        for name, value in call.arguments.items()
        if not any(name in other and same(other[name], value) for other in shared)
    }
    return own or dict(call.arguments)


def strengthened(
    expected: Expected, failing: CaseResult, fixed: CaseResult | None, *, offending: str | None
) -> Expected:
    """Ask for what tells a planner that does its work from one that stops early.

    That is an answer, where the right planner gives one or never came so far; else the last tool
    that it calls.
    """
    right = fixed or failing
    if right.trajectory is not None and right.trajectory.answer.value not in (None, ""):
        rule = expected.answer or AnswerRule()
        return expected.model_copy(update={"answer": rule})
    if expected.answer or expected.required_tools:
        return expected
    if any(found.oracle in _ENDINGS for found in right.findings):
        return expected.model_copy(update={"answer": AnswerRule()})
    calls = [call for call in _calls(right)[1:] if call.tool != offending]
    if not calls:
        return expected
    return expected.model_copy(update={"required_tools": (calls[-1].tool,)})


def bare(case: Case) -> Case:
    """The case as it is run only to see what a planner does."""
    return case.model_copy(update={"expected": Expected()})


def _joined(parts: list[Expected]) -> Expected:
    contains = tuple(t for part in parts if part.answer for t in part.answer.contains)
    return Expected(
        forbidden_tools=tuple(tool for part in parts for tool in part.forbidden_tools),
        required_tools=tuple(tool for part in parts for tool in part.required_tools),
        answer=AnswerRule(contains=contains) if contains else None,
        no_repeat=next((part.no_repeat for part in parts if part.no_repeat), False),
    )


def _calls(result: CaseResult) -> tuple[Call, ...]:
    return result.trajectory.calls if result.trajectory is not None else ()


def _written(call: Call) -> str:
    text = f"{call.tool} {json_text(call.arguments)}"
    return text if len(text) <= 100 else f"{text[:99]}…"


def did(result: CaseResult) -> str:
    """Say in a few words what a planner did."""
    calls = ", ".join(dict.fromkeys(call.tool for call in _calls(result)))
    ended = f", and is {result.verdict}" if result.verdict.kind == "inconclusive" else ""
    return (f"it called {calls}" if calls else "it called nothing") + ended

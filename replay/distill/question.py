"""Which failure is meant: what the case will expect, and the reason for which it must fail.

A run can fail in several ways. The user says which one, or a planner or a run that went right shows
it, or exactly one is seen; otherwise nothing is guessed, and what was seen is listed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from replay.case import AnswerRule, CallPattern, Case, Expected, Oracles
from replay.caserun import CaseResult
from replay.distill.sightings import ENDINGS, Choice, calls_of, seen, told_apart, written
from tracekit.errors import DistillError
from tracekit.trajectory import Trajectory

FORMS = (
    "forbid:TOOL, require:TOOL, often:TOOL, key:TOOL, repeat:TOOL, idle:TOOL, answer:TEXT, "
    "error:CLASS, wall:KIND, loop"
)
_OF_TOOLS = ("forbid", "require", "often", "key", "repeat", "idle")
_SAY = (
    "say what it must not or must do: --forbid TOOL, --require TOOL, --answer-contains TEXT, "
    "--expect FILE"
)


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
    oracles: Oracles | None = None
    """All that is expected; one thing of it is not met."""

    @property
    def says_something(self) -> bool:
        """Whether the failure is chosen."""
        return bool(self.forbid or self.require or self.answer_contains or self.failing)

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that are named."""
        if self.oracles is not None:  # the names of failures are the oracles' then
            return self.oracles.expected.tools
        named = [name.partition(":") for name in self.failing]
        named_by = (tool for kind, _, tool in named if kind in _OF_TOOLS and tool)
        return (*self.forbid, *self.require, *named_by)


def asked(case: Case, wish: Wish) -> Case:
    """The case as it is run to see what a planner does, and what of the user's oracles it meets."""
    oracles = wish.oracles
    if oracles is None:
        return case.model_copy(update={"expected": Expected()})
    return case.model_copy(update={"expected": oracles.expected, "budgets": oracles.budgets})


def choose(
    wish: Wish,
    failing: CaseResult,
    fixed: CaseResult | None,
    *,
    writes: frozenset[str],
    reference: Trajectory | None = None,
) -> tuple[Choice, ...]:
    """Say which failure is meant; the first, and others that were seen beside it.

    Args:
        wish: What the user says.
        failing: What the failing planner did on the whole run.
        fixed: What the one that does right did, where there is one.
        writes: Tools that may write.
        reference: A recorded run that went right, where there is one.

    Raises:
        DistillError: nothing was seen, or several things, and none was chosen.
    """
    if wish.oracles is not None:
        return _unmet(wish, wish.oracles, failing)
    found = tuple(seen(failing, writes))
    if wish.says_something:
        return _wished(wish, found, _apart(failing, fixed, reference, writes))
    if fixed is not None:
        return _shown_by(failing, fixed, found, writes)
    if reference is not None:
        return _differs(failing, reference, found, writes)
    strong = _sure(found)
    if len(strong) == 1:
        return tuple(strong)
    if not strong and len(found) == 1 and _times(failing, found[0]) == 1:
        return found
    if not found:
        _check_judged(failing)
        said = f"{failing.planner} does not fail on the whole run: {did(failing)}"
        raise DistillError(said, hint=_SAY)
    what = "it is not known what is wrong" if not strong else "several failures are seen"
    raise DistillError(f"{what} with the run; {_listed(found)}")


def _sure(found: tuple[Choice, ...]) -> list[Choice]:
    """What is wrong with any run: how it ends, loops, keys; last, writes that were refused."""
    writes = [choice for choice in found if choice.name.startswith("forbid:")]
    refused = [choice for choice in writes if choice.what.startswith("refused")]
    return [*(choice for choice in found if choice not in writes), *refused]


def _listed(choices: Iterable[Choice]) -> str:
    lines = [f"    --signature {_quoted(choice.name):<24} {choice.what}" for choice in choices]
    return "\n".join(["choose what the case is about:", *lines])


def _quoted(name: str) -> str:
    return f"'{name}'" if " " in name else name


def _unmet(wish: Wish, oracles: Oracles, failing: CaseResult) -> tuple[Choice, ...]:
    """What of the user's oracles the run does not meet."""
    found: dict[str, Choice] = {}
    for finding in failing.findings:
        about = finding.tool or finding.pointer or finding.error
        name = f"{finding.oracle}:{about}" if about else finding.oracle
        expected = oracles.expected
        found.setdefault(
            name, Choice(name, finding.text, expected, finding.oracle, about, oracles.budgets)
        )
    if not found:
        _check_judged(failing)
        raise DistillError(
            f"{failing.planner} meets all that is expected of it on the whole run: {did(failing)}",
            hint="what is wrong is not among it",
        )
    if wish.failing:
        if strange := [name for name in wish.failing if name not in found]:
            raise DistillError(f"{strange[0]!r} is not seen; {_listed(found.values())}")
        return tuple(found[name] for name in wish.failing)
    own = [choice for choice in found.values() if choice.oracle not in ENDINGS]
    if len(found) == 1 or len(own) == 1:
        return (*own, *(c for c in found.values() if c.oracle in ENDINGS))
    raise DistillError(f"several things that are expected are not met; {_listed(found.values())}")


def _shown_by(
    failing: CaseResult, fixed: CaseResult, found: tuple[Choice, ...], writes: frozenset[str]
) -> tuple[Choice, ...]:
    """What only the failing planner does: first the writes, then how it ends."""
    also = {choice.name for choice in seen(fixed, writes)}
    ends = [c for c in found if c.oracle != "forbidden_tools" and c.name not in also]
    only = _first_added((*_apart(failing, fixed, None, writes), *ends))
    if not only:
        _check_judged(failing, fixed)
        raise DistillError(
            f"on the whole run {failing.planner} and {fixed.planner} make the same writes, so it "
            "is not known what is wrong",
            hint=_SAY,
        )
    return only


def _check_judged(*results: CaseResult) -> None:
    """Refuse runs that did not come to their end: what they did not do tells nothing."""
    for one in results:
        if one.verdict.kind == "inconclusive":
            raise DistillError(f"{one.planner} cannot be judged on the whole run: {did(one)}")


def _differs(
    failing: CaseResult, reference: Trajectory, found: tuple[Choice, ...], writes: frozenset[str]
) -> tuple[Choice, ...]:
    """What the run does that the one that went right does not, and the other way round."""
    ends = [c for c in found if c.oracle in ENDINGS]
    only = _first_added((*_apart(failing, None, reference, writes), *ends))
    if not only:
        _check_judged(failing)
        raise DistillError(
            f"{failing.planner} makes the same writes as run {reference.run_id}, so it is not "
            "known what is wrong",
            hint=_SAY,
        )
    return only


def _apart(
    failing: CaseResult,
    fixed: CaseResult | None,
    reference: Trajectory | None,
    writes: frozenset[str],
) -> tuple[Choice, ...]:
    """The writes that only one makes: the failing planner, or what went right if it is known."""
    if fixed is not None:
        return tuple(told_apart(failing, calls_of(fixed), writes, right_name=fixed.planner))
    if reference is None:
        return ()
    also = writes | {call.tool for call in reference.calls if call.writes}
    name = f"run {reference.run_id}"
    return tuple(told_apart(failing, reference.calls, also, right_name=name))


def _first_added(choices: tuple[Choice, ...]) -> tuple[Choice, ...]:
    """What was done comes before what was left out: it is what the incident is about."""
    return tuple(sorted(choices, key=lambda choice: choice.oracle == "required_tools"))


def _wished(wish: Wish, found: tuple[Choice, ...], apart: tuple[Choice, ...]) -> tuple[Choice, ...]:
    """What the user says; a signature means what was seen, as a run that went right tells it."""
    names = [*(f"forbid:{tool}" for tool in wish.forbid)]
    names += [f"require:{tool}" for tool in wish.require]
    names += [f"answer:{text}" for text in wish.answer_contains]
    choices = tuple(_named(name, found) for name in names)
    choices += tuple(_named(name, (*apart, *found)) for name in wish.failing)
    expected = _joined([choice.expected for choice in choices])
    return tuple(replace(choice, expected=expected) for choice in choices)


def _named(name: str, found: tuple[Choice, ...]) -> Choice:
    for choice in found:
        if choice.name == name:
            return choice
    kind, _, rest = name.partition(":")
    if rest or kind == "loop":
        match kind:
            case "forbid":
                return Choice(name, "", Expected(forbidden_tools=(rest,)), "forbidden_tools", rest)
            case "require":
                return Choice(name, "", Expected(required_tools=(rest,)), "required_tools", rest)
            case "key":
                keyed = (CallPattern(tool=rest, key="another"),)
                return Choice(name, "", Expected(forbidden_tools=keyed), "forbidden_tools", rest)
            case "often":
                raise DistillError(
                    f"{name!r} is not seen: how often is right, a run that went right tells",
                    hint="name one with --fixed or --reference",
                )
            case "repeat":
                return Choice(name, "", Expected(no_repeat=True), "no_repeat", rest)
            case "idle":
                return Choice(name, "", Expected(no_news=True), "no_news", rest)
            case "answer":
                rule = AnswerRule(contains=(rest,))
                return Choice(name, "", Expected(answer=rule), "answer", rest)
            case "error" | "loop" | "wall":
                return Choice(name, "", Expected(), kind, rest or None)
            case _:
                pass
    raise DistillError(f"the signature {name!r} is none of: {FORMS}")


def _times(failing: CaseResult, choice: Choice) -> int:
    """How many different calls the choice may be about."""
    return len({written(call) for call in calls_of(failing) if call.tool == choice.key})


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
    if any(found.oracle in ENDINGS for found in right.findings):
        return expected.model_copy(update={"answer": AnswerRule()})
    calls = [call for call in calls_of(right)[1:] if call.tool != offending]
    if not calls:
        return expected
    return expected.model_copy(update={"required_tools": (calls[-1].tool,)})


def _joined(parts: list[Expected]) -> Expected:
    contains = tuple(t for part in parts if part.answer for t in part.answer.contains)
    return Expected(
        forbidden_tools=tuple(tool for part in parts for tool in part.forbidden_tools),
        required_tools=tuple(tool for part in parts for tool in part.required_tools),
        call_limits={t: most for part in parts for t, most in part.call_limits.items()},
        answer=AnswerRule(contains=contains) if contains else None,
        no_repeat=next((part.no_repeat for part in parts if part.no_repeat), False),
        no_news=next((part.no_news for part in parts if part.no_news), False),
    )


def did(result: CaseResult) -> str:
    """Say in a few words what a planner did."""
    calls = ", ".join(dict.fromkeys(call.tool for call in calls_of(result)))
    ended = f", and is {result.verdict}" if result.verdict.kind == "inconclusive" else ""
    return (f"it called {calls}" if calls else "it called nothing") + ended

"""A trajectory as a row of steps that can be compared: calls, what was said, users' turns.

A step has a *letter*: the text of everything that counts when two steps are compared. Two steps
with one letter are the same; two with one *action* did the same, whatever came back. What does not
count is taken out here, once: the spelling of the arguments (defaults filled in, keys sorted, 42.0
as 42), what a read's matchers ignore, the order of a read's sets, a declared idempotency key of a
write, and that a policy let a call through. What was not kept is no part of a difference, and no
agreement (``partly``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Literal

from replay.diff.alike import kept_alike
from replay.diff.arguments import (
    Declared,
    Keys,
    came_back,
    tools_with_keys_used_again,
    what_counts,
    with_key,
    with_sent_in,
)
from replay.diff.partly import classes_of, unknown_arguments, unknown_result
from tracekit.canonical import JsonValue, canonical_text, cut_digest, numbers_as_compared
from tracekit.contract import Contract, Matchers
from tracekit.events import Effect
from tracekit.jsontree import walk
from tracekit.trajectory import Call, Trajectory

StepKind = Literal["call", "said", "told", "turn"]
"""``said``: text beside calls. ``told``: a decision that only speaks. ``turn``: the user's."""


@dataclass(frozen=True)
class Step:
    """One thing that happened in a run."""

    index: int
    """Its place in the run, from 0."""
    kind: StepKind
    name: str
    """The tool, or what kind of speech it is."""
    decision: int
    arguments: JsonValue
    """What the planner chose, without what does not count; for speech, the text."""
    letter: str
    action: str
    """The part of the letter that the planner chose: name and arguments."""
    arguments_text: str
    outcome_text: str
    unkeyed_text: str = ""
    """The text of a call's arguments without what is said of its idempotency key."""
    effect: Effect = "pure"
    """What the tool does to the world, as both sides agree; speech does nothing to it."""
    call: Call | None = None
    classes: Mapping[str, str] = field(default_factory=dict)
    """Of which classes the objects among the arguments are, by place."""
    unknown: Mapping[str, str] = field(default_factory=dict)
    """The places of the arguments of which nothing is known, and what they are said to be."""
    unseen: Mapping[str, str] = field(default_factory=dict)
    """The places of what came back of which nothing is known."""

    @cached_property
    def leaves(self) -> frozenset[str]:
        """Pointer and value of every leaf of the arguments; of speech, its text."""
        if self.call is None:
            return frozenset({self.arguments_text})
        return frozenset(
            f'{place} "{leaf}' if isinstance(leaf, str) else f"{place} {canonical_text(leaf)}"
            for place, leaf in walk(self.arguments)
        )

    @property
    def family(self) -> tuple[bool, str]:
        """Steps of one family may be changes of each other, all others never."""
        return self.call is not None, self.name

    @property
    def writes(self) -> bool:
        """Whether it is a call that may change the world."""
        return self.effect in ("write", "unknown")

    @property
    def wrote(self) -> bool:
        """Whether it is a write that may have happened: one that no policy kept from its body.

        One that raised may have: the world often answers, and only the answer is lost.
        """
        return self.call is not None and self.writes and not self.call.refused

    @property
    def is_barrier(self) -> bool:
        """Whether everything before it stays before it: the user and the planner talk."""
        return self.kind in ("told", "turn")


_WHOLE = ("captured", "absent")
"""How arguments were kept of which nothing is missing."""
_NEAR = 3
"""So many of the next calls of another run are looked at for the like of one."""
_WORST: tuple[Effect, ...] = ("write", "unknown", "read", "pure")


def declared(left: Trajectory, right: Trajectory) -> dict[str, Declared]:
    """Agree on how the calls of each tool are compared.

    The worse of two declared effects counts: what may write for one side is compared as a write.
    What only one of two contracts would overlook counts: both must overlook it. Defaults are filled
    in as the left, recorded side has them.
    """
    left, right = with_sent_in(left), with_sent_in(right)
    found: dict[str, list[Contract]] = {}
    effects: dict[str, set[Effect]] = {}
    partly: dict[str, list[Call]] = {}
    calls = left.calls, right.calls
    for side, made in zip((left, right), calls, strict=True):
        contracts = {contract.name: contract for contract in side.tools}
        for call in made:
            if call.contract is not None:
                contracts[call.tool] = call.contract
            effects.setdefault(call.tool, set()).add(call.effect)
            if call.argument_types or call.argument_state not in _WHOLE:
                partly.setdefault(call.tool, [])
        for name, contract in contracts.items():
            found.setdefault(name, []).append(contract)
    rules = {
        name: _agreed(next(e for e in _WORST if e in declared_as), found.get(name, []))
        for name, declared_as in effects.items()
    }
    receivers = {n: r for n, some in found.items() if (r := _receivers(some))}
    for name in (_anybodys(left, receivers) | _anybodys(right, receivers)) if receivers else ():
        rules[name] = replace(rules[name], whose=receivers[name])
    for name in {
        *tools_with_keys_used_again(left, rules),
        *tools_with_keys_used_again(right, rules),
    }:
        rules[name] = replace(rules[name], keyed=True)
    for call in (*calls[0], *calls[1]) if partly else ():
        if call.tool in partly:
            partly[call.tool].append(call)
    return rules | {name: _with_leeway(rules[name], calls) for name, calls in partly.items()}


def _with_leeway(rule: Declared, calls: Sequence[Call]) -> Declared:
    """Note where different arguments may still be equal, since not all of them is known."""
    unknown: dict[str, None] = {}
    kinds: dict[str, set[tuple[str, ...]]] = {}
    cuts: set[bool] = set()
    for call in calls:
        unknown |= dict.fromkeys(unknown_arguments(call, rule.overlooked))
        places = tuple(sorted(classes_of(call, rule.overlooked)))
        arguments = what_counts(call, rule)
        kinds.setdefault(canonical_text(arguments), set()).add(places)
        cuts.add(cut_digest(arguments) is not None)
    if len(cuts) > 1:
        unknown[""] = None
    classed = any(len(some) > 1 for some in kinds.values())
    return replace(rule, unknown=tuple(unknown), classed=classed)


def _receivers(contracts: Sequence[Contract]) -> frozenset[str]:
    return frozenset().union(*(contract.receivers for contract in contracts))


def _anybodys(run: Trajectory, receivers: Mapping[str, frozenset[str]]) -> set[str]:
    """Name the tools of which a call does not say whose it is, and may be anybody's.

    A call of a known signature without receivers is nobody's: that says it.
    """
    offered = {contract.name: contract for contract in run.tools}
    found: set[str] = set()
    for call in run.calls:
        told, given = receivers.get(call.tool), call.arguments
        if told is None or not isinstance(given, dict) or not told.isdisjoint(given):
            continue
        contract = call.contract or offered.get(call.tool)
        if contract is None or contract.parameters is None or contract.receivers:
            found.add(call.tool)
    return found


def _agreed(effect: Effect, contracts: Sequence[Contract]) -> Declared:
    if not contracts:
        return Declared(effect)
    fields = {contract.idempotency_field for contract in contracts}
    return Declared(
        effect,
        spelling=contracts[0],
        matchers=_both([contract.matchers for contract in contracts]),
        idempotency_field=contracts[0].idempotency_field if len(fields) == 1 else None,
    )


def _both(matchers: Sequence[Matchers]) -> Matchers:
    first, last = matchers[0], matchers[-1]
    if first == last:
        return first
    return Matchers(
        ignore=tuple(place for place in first.ignore if place in last.ignore),
        sets=tuple(place for place in first.sets if place in last.sets),
        tolerances=_smaller(first.tolerances, last.tolerances),
        windows=_smaller(first.windows, last.windows),
    )


def _smaller(first: Mapping[str, float], last: Mapping[str, float]) -> dict[str, float]:
    return {place: min(first[place], last[place]) for place in first if place in last}


def steps_of(
    run: Trajectory, rules: Mapping[str, Declared], like: Sequence[Step] = ()
) -> tuple[Step, ...]:
    """List what happened in ``run``, in its own order.

    The final answer is not among the steps (it is compared on its own), nor are calls beneath other
    calls, nor a system prompt: that is what a planner is made of, not what it did. What a call has
    in common with one of ``like``, in about the same place, is not written again.
    """
    run = with_sent_in(run)
    steps: list[Step] = []
    likes = _Likes(like)
    turns = list(run.turns)
    keys = Keys(rules)
    for decision in run.decisions:
        while turns and turns[0].before_decision <= decision.index:
            steps.append(_speech(len(steps), "turn", decision.index, turns.pop(0).content))
        if decision.message not in (None, "", []) and not decision.final:
            kind: StepKind = "said" if decision.calls else "told"
            steps.append(_speech(len(steps), kind, decision.index, decision.message))
        said = keys.of(decision)
        for at, call in enumerate(decision.calls):
            rule = rules[call.tool]
            known = None if at in said else likes.of(call)
            steps.append(_call(len(steps), decision.index, call, rule, known, said.get(at)))
    last = run.decisions[-1].index if run.decisions else 0
    for message in turns:
        steps.append(_speech(len(steps), "turn", last + 1, message.content))
    return tuple(steps)


class _Likes:
    """The calls of another run, of which the next is mostly the like of the next here."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = [(step.call, step) for step in steps if step.call is not None]
        self._next = 0

    def of(self, call: Call) -> Step | None:
        """Give a step with the very arguments of ``call``, if one of the next has them."""
        if call.argument_types or call.argument_state not in _WHOLE:
            return None
        for at in range(self._next, min(self._next + _NEAR, len(self._steps))):
            other, step = self._steps[at]
            if other.tool == call.tool and kept_alike(other.arguments, call.arguments):
                if other.argument_types or other.argument_state not in _WHOLE:
                    return None
                self._next = at + 1
                return step
        return None


def _speech(index: int, kind: StepKind, decision: int, content: JsonValue) -> Step:
    content = numbers_as_compared(content)
    text = canonical_text(content)
    letter = f"{'user' if kind == 'turn' else 'planner'} {text}"
    return Step(
        index=index,
        kind=kind,
        name="(user's turn)" if kind == "turn" else "(said)",
        decision=decision,
        arguments=content,
        letter=letter,
        action=letter,
        arguments_text=text,
        outcome_text="",
    )


def _call(
    index: int, decision: int, call: Call, rule: Declared, like: Step | None, key: str | None
) -> Step:
    unkeyed = ""
    if like is not None:
        arguments, text, action = like.arguments, like.arguments_text, like.action
        classes = like.classes
    else:
        arguments = what_counts(call, rule)
        if key is not None:
            unkeyed = canonical_text(arguments)
            arguments = with_key(arguments, rule, key)
        text = canonical_text(arguments)
        classes = classes_of(call, rule.overlooked)
        if classes:
            text += f" of {canonical_text(dict(classes))}"
        action = f"call {_name_text(call.tool)} {text}"
    if like is not None and like.call is not None and _came_out_alike(like.call, call):
        observation, letter = like.outcome_text, like.letter
    else:
        outcome, observation = _outcome(call)
        letter = f"{action} {outcome} {observation}"
    return Step(
        index=index,
        kind="call",
        name=call.tool,
        decision=decision,
        arguments=arguments,
        letter=letter,
        action=action,
        arguments_text=text,
        outcome_text=observation,
        unkeyed_text=unkeyed or text,
        effect=rule.effect,
        call=call,
        classes=classes,
        unknown=unknown_arguments(call, rule.overlooked),
        unseen=unknown_result(call.observation),
    )


def _outcome(call: Call) -> tuple[str, str]:
    """Write what a call came to, and what it came back with."""
    observation = canonical_text(came_back(call.observation))
    kept = call.observation.state not in ("absent", "reference")
    if not kept:
        observation = f"({call.observation.state})"
    flags = call.observation.is_error, kept
    return _outcome_text(flags, policy_of(call), tuple(sorted(call.evidence))), observation


def _came_out_alike(one: Call, two: Call) -> bool:
    """Whether nothing at all differs in what two calls came to; it may say no of equal ones."""
    ours, theirs = one.observation, two.observation
    return (
        ours.state == theirs.state
        and not (ours.is_error or theirs.is_error)
        and one.policy_decision == two.policy_decision
        and one.evidence == two.evidence
        and ours.types == theirs.types
        and kept_alike(ours.value, theirs.value)
    )


_name_text = lru_cache(maxsize=256)(canonical_text)


@lru_cache(maxsize=256)
def _outcome_text(flags: tuple[bool, bool], policy: str | None, evidence: tuple[str, ...]) -> str:
    """Write what there is to an outcome beside what came back; few are ever different."""
    return canonical_text([*flags, policy, list(evidence)])


def policy_of(call: Call) -> str | None:
    """Name what a policy decided, where it did not just let the call through."""
    return None if call.policy_decision == "allow" else call.policy_decision

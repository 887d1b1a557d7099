"""One thing changed in a real run, and what a comparison must say about it.

Nothing here asks the code under test: what is expected follows from the mutation and from the run,
by the rules of docs/diff.md read off anew. Where a run holds several equal calls, so that nobody
could tell which one a mutation touched, every one of them is accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tracekit.trajectory import Call, Decision, Message, Trajectory

HARMS = {
    "write": 1,
    "refusal": 2,
    "changed read": 3,
    "read": 4,
    "result": 5,
    "order": 6,
    "words": 7,
}
Place = int | None
Site = tuple[int, int]
"""A call: number of its decision, place in it."""


@dataclass(frozen=True)
class Expected:
    """One divergence that must be reported."""

    kind: frozenset[str]
    harm: int
    tool: str
    left: frozenset[Place]
    right: frozenset[Place]
    fields: Mapping[str, tuple[Any, Any]] | None = None
    """Pointer, and the two values; None where the values themselves are not the point."""
    cause: bool = True

    def mirrored(self) -> Expected:
        """What must be said the other way round."""
        turned = {"added": "missing", "missing": "added"}
        return replace(
            self,
            kind=frozenset(turned.get(kind, kind) for kind in self.kind),
            left=self.right,
            right=self.left,
            fields=None if self.fields is None else {k: v[::-1] for k, v in self.fields.items()},
        )


@dataclass(frozen=True)
class Planted:
    """A run, the same run with one thing changed, and what must be said of the two."""

    before: Trajectory
    after: Trajectory
    expected: tuple[tuple[Expected, ...], ...] = ()
    """The divergences: each one of those in its group; none where the mutation is harmless."""
    may: tuple[Expected, ...] = ()
    """What may be said besides, since nobody could tell: of words that stand beside what moved."""
    prefix: frozenset[int] | None = None
    """How many decisions are the same before; None: all of them."""
    touched: frozenset[Site] = frozenset()
    """Calls of the run before that are not the same after."""
    resynchronises: bool = True
    """Whether the place where the runs meet again follows from ``prefix`` and ``touched``."""


Mutation = Callable[[Trajectory, Random], Planted | None]
"""Changes one thing of a run; None where the run offers nothing to change in this way."""


def one(
    kind: str | set[str],
    harm: str,
    tool: str,
    left: Place | set[Place],
    right: Place | set[Place],
    fields: Mapping[str, tuple[Any, Any]] | None = None,
    *,
    cause: bool = True,
) -> Expected:
    """Write down one divergence."""
    return Expected(
        frozenset({kind} if isinstance(kind, str) else kind),
        HARMS[harm],
        tool,
        frozenset(left if isinstance(left, set) else {left}),
        frozenset(right if isinstance(right, set) else {right}),
        fields,
        cause,
    )


# --- looking at runs ------------------------------------------------------------------------------


def sites(run: Trajectory, effect: str | None = None) -> list[Site]:
    """Name the calls of a run; those of one effect, if it is given (unknown is a write)."""
    return [
        (decision.index, place)
        for decision in run.decisions
        for place, call in enumerate(decision.calls)
        if effect is None or ("write" if call.effect == "unknown" else call.effect) == effect
    ]


def call_at(run: Trajectory, site: Site) -> Call:
    """Give the call at a site."""
    return run.decisions[site[0] - 1].calls[site[1]]


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield JSON Pointer and value of everything that holds nothing else."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            escaped = name.replace("~", "~0").replace("/", "~1")
            yield from leaves(inner, f"{path}/{escaped}")
    elif isinstance(value, list) and value:
        for at, inner in enumerate(value):
            yield from leaves(inner, f"{path}/{at}")
    else:
        yield path, value


def with_leaf(value: Any, pointer: str, new: Any, path: str = "") -> Any:
    """Put ``new`` in the place of one leaf."""
    if path == pointer:
        return new
    if isinstance(value, dict):
        return {
            name: with_leaf(
                inner, pointer, new, f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
            )
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [with_leaf(inner, pointer, new, f"{path}/{at}") for at, inner in enumerate(value)]
    return value


def is_write(call: Call) -> bool:
    """Whether a call may change the world."""
    return call.effect in ("write", "unknown")


def changed_harm(call: Call) -> str:
    """How bad it is that a call was made with other arguments."""
    if not is_write(call):
        return "changed read"
    return "refusal" if call.policy_decision == "deny" else "write"


def presence_harm(call: Call) -> str:
    """How bad it is that a call came or went."""
    if not is_write(call):
        return "read"
    return "refusal" if call.policy_decision == "deny" else "write"


def asked(call: Call) -> tuple[str, str]:
    """What a call asks, without what came back."""
    return call.tool, repr(sorted(map(repr, leaves(call.arguments))))


def likes(run: Trajectory, site: Site) -> set[Place]:
    """Name the decisions with a call that asks the same and got the same, its own among them."""
    call = call_at(run, site)
    return {
        number
        for number, place in sites(run)
        if asked(other := run.decisions[number - 1].calls[place]) == asked(call)
        and other.observation == call.observation
    }


def unique(run: Trajectory, call: Call) -> bool:
    """Whether no call of the run asks what this one asks."""
    return all(asked(other) != asked(call) for other in run.calls)


def kinds_alone(run: Trajectory, decisions: set[Place], call: Call) -> set[str]:
    """Say what a call without counterpart may be called: a retry next to its like or a failure."""
    calls = list(run.calls)
    group = [other for other in calls if asked(other) == asked(call)]
    if len(group) > 1 and any(other.observation.is_error for other in group):
        return {"retry"}
    found = set()
    for at, other in enumerate(calls):
        if asked(other) != asked(call) or other.decision not in decisions:
            continue
        beside = [*calls[max(0, at - 1) : at], *calls[at + 1 : at + 2]]
        found.add("retry" if any(asked(b) == asked(call) for b in beside) else "alone")
    return found


# --- changing runs --------------------------------------------------------------------------------


def rebuilt(
    run: Trajectory, decisions: Sequence[Decision], messages: Sequence[Message] | None = None
) -> Trajectory:
    """Give the run other decisions, numbered anew."""
    numbered = []
    for index, decision in enumerate(decisions, start=1):
        calls = tuple(replace(c, decision=index, position=n) for n, c in enumerate(decision.calls))
        numbered.append(replace(decision, index=index, calls=calls))
    kept = run.messages if messages is None else tuple(messages)
    return replace(run, decisions=tuple(numbered), messages=kept)


def with_calls(run: Trajectory, calls: Mapping[Site, Call]) -> Trajectory:
    """Put other calls at some sites."""
    return rebuilt(
        run,
        [
            replace(
                decision,
                calls=tuple(
                    calls.get((decision.index, n), c) for n, c in enumerate(decision.calls)
                ),
            )
            for decision in run.decisions
        ],
    )


def without_call(run: Trajectory, site: Site) -> Trajectory:
    """Take a call out; its decision too, where it was the only call of it."""
    number, place = site
    decision = run.decisions[number - 1]
    rest = tuple(c for n, c in enumerate(decision.calls) if n != place)
    kept = [replace(decision, calls=rest)] if rest else []
    decisions = [*run.decisions[: number - 1], *kept, *run.decisions[number:]]
    gone = 0 if rest else 1
    messages = [
        replace(m, before_decision=m.before_decision - gone) if m.before_decision > number else m
        for m in run.messages
    ]
    return rebuilt(run, decisions, messages)


def with_decision(run: Trajectory, number: int, calls: Sequence[Call]) -> Trajectory:
    """Put a decision before the one numbered so; a user's turn that stood before it stays so."""
    made = Decision(index=number, calls=tuple(calls))
    decisions = [*run.decisions[: number - 1], made, *run.decisions[number - 1 :]]
    messages = [
        replace(m, before_decision=m.before_decision + 1) if m.before_decision > number else m
        for m in run.messages
    ]
    return rebuilt(run, decisions, messages)


def is_turn_before(run: Trajectory, number: int) -> bool:
    """Whether the user spoke just before a decision."""
    return any(m.role == "user" and m.before_decision == number for m in run.messages)

"""Which call of a run stands for which expected call, and which of its arguments are equal.

Calls of one tool are paired: those that are equal first, then so that as many arguments as possible
are. An argument is one value by its name; what is nested in it counts as one. A read's arguments
are compared as its tool declares (defaults, sets, tolerances), those of a write exactly. One that
is only described, on either side, is equal to none.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass

from replay.case.schema import holds
from replay.diff.arguments import Declared
from replay.diff.fields import argument_fields
from replay.diff.steps import Step, declared, steps_of
from tracekit.jsontree import parts
from tracekit.trajectory import Call, Trajectory

_MOST_CELLS = 250_000
"""So many pairs of unequal calls are weighed; of more, the calls are paired in order."""
_TIE = 1e-6
"""So little that no number of arguments outweighs a share."""
WHOLE = "(whole)"
"""The one argument of a call whose arguments are no object."""


@dataclass(frozen=True, slots=True)
class PairedCall:
    """An expected call, and the call that stands for it."""

    expected: Call
    made: Call
    arguments: frozenset[str]
    """Names of the arguments that either of them has."""
    equal: frozenset[str]


def pair_calls(gold: Trajectory, run: Trajectory, *, at_least: bool) -> tuple[PairedCall, ...]:
    """Pair the calls of ``gold`` with those of ``run``, each at most once.

    Args:
        gold: Its calls are expected.
        run: Its calls were made.
        at_least: Whether an expected call names only some of its arguments, and of nested ones
            only some fields.
    """
    rules = declared(gold, run)
    made: defaultdict[str, list[Step]] = defaultdict(list)
    for step in _calls(run, rules):
        made[step.name].append(step)
    expected: defaultdict[str, list[Step]] = defaultdict(list)
    for step in _calls(gold, rules):
        expected[step.name].append(step)
    compare = _Compare(rules, at_least=at_least)
    return tuple(
        pair
        for tool, wanted in expected.items()
        for pair in _pair(wanted, made.get(tool, []), compare)
    )


def _calls(run: Trajectory, rules: dict[str, Declared]) -> list[Step]:
    return [step for step in steps_of(run, rules) if step.call is not None]


@dataclass(frozen=True, slots=True)
class _Compare:
    rules: dict[str, Declared]
    at_least: bool

    def __call__(self, expected: Step, made: Step) -> PairedCall:
        assert expected.call is not None
        assert made.call is not None
        # Where only some arguments are named, what the tool's defaults would add is none of them.
        wanted = expected.call.arguments if self.at_least else expected.arguments
        given = made.arguments
        if not isinstance(wanted, dict) or not isinstance(given, dict):
            names = {WHOLE}
            equal = names if wanted == given else set()
        elif self.at_least:
            names = set(wanted)
            equal = {name for name in names if name in given and holds(given[name], wanted[name])}
        else:
            names = {*wanted, *given}
            found = argument_fields(expected, made, self.rules)
            equal = names - {parts(field.pointer)[0] for field in found}
        for place in (*expected.unknown, *made.unknown):  # nothing is known to equal it
            equal = equal - {parts(place)[0]} if place else set()
        return PairedCall(expected.call, made.call, frozenset(names), frozenset(equal))


def _pair(expected: list[Step], made: list[Step], compare: _Compare) -> list[PairedCall]:
    waiting: defaultdict[str, deque[Step]] = defaultdict(deque)
    for step in made:
        waiting[step.arguments_text].append(step)
    pairs, rest, taken = [], [], set()
    for wanted in expected:
        if same := waiting.get(wanted.arguments_text):
            taken.add(same[0].index)
            pairs.append(compare(wanted, same.popleft()))
        else:
            rest.append(wanted)
    return [*pairs, *_best(rest, [step for step in made if step.index not in taken], compare)]


def _best(expected: Sequence[Step], made: Sequence[Step], compare: _Compare) -> list[PairedCall]:
    if len(expected) * len(made) > _MOST_CELLS or (len(expected) == 1 == len(made)):
        return [compare(one, other) for one, other in zip(expected, made, strict=False)]
    if not expected or not made:
        return []
    from scipy.optimize import linear_sum_assignment

    table = [[compare(one, other) for other in made] for one in expected]
    worth = [[_worth(pair) for pair in row] for row in table]
    rows, columns = linear_sum_assignment(worth, maximize=True)
    return [table[row][column] for row, column in zip(rows, columns, strict=True)]


def _worth(pair: PairedCall) -> float:
    """Weigh a pair by its share of equal arguments; where that ties, by how many there are.

    So what is counted is the same whichever of two runs is expected.
    """
    equal, names = len(pair.equal), len(pair.arguments)
    return equal / max(1, names) + _TIE * (equal - _TIE * names)

"""How a thing of parts gets smaller, whatever the parts are and whatever the failure is.

``keep_needed`` asks for the shortest prefix of the parts that still fails: its last part is needed,
what follows is not. k needed parts among n cost about k·log2(n) questions, and each answer that
counts was really given, so a failure that is not monotone costs time but never truth. ``prove``
then removes every single part that is left, in vain.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from replay.distill.problem import Problem

T = TypeVar("T")
E = TypeVar("E")


class Layer(Protocol[T]):
    """One way to see a thing as parts that can be left out."""

    @property
    def name(self) -> str:
        """What its parts are called, in the plural."""

    def parts(self, whole: T) -> Sequence[Hashable]:
        """The parts of ``whole``, those that are likely to matter first."""

    def without(self, whole: T, parts: Collection[Hashable]) -> T:
        """Give ``whole`` without these of its parts."""

    def label(self, whole: T, part: Hashable) -> str:
        """What a reader calls the part."""


@dataclass(frozen=True, slots=True)
class Proof:
    """One part that is left, and that it cannot be left out."""

    layer: str
    part: Hashable
    label: str


@dataclass(frozen=True)
class SequenceLayer(Generic[E]):
    """A tuple, seen as its elements."""

    name: str = "elements"

    def parts(self, whole: tuple[E, ...]) -> Sequence[Hashable]:
        """The positions."""
        return range(len(whole))

    def without(self, whole: tuple[E, ...], parts: Collection[Hashable]) -> tuple[E, ...]:
        """Give the other elements."""
        gone = set(parts)
        return tuple(element for place, element in enumerate(whole) if place not in gone)

    def label(self, whole: tuple[E, ...], part: Hashable) -> str:
        """Write the element."""
        return repr(whole[int(str(part))])


def keep_needed(problem: Problem[T], layer: Layer[T]) -> None:
    """Drop the parts that the failure can do without, as many at once as can be."""
    whole = problem.best
    parts = list(layer.parts(whole))
    kept: list[Hashable] = []
    rest = parts

    def holds(length: int) -> bool:
        staying = {*kept, *rest[:length]}
        return problem.consider(layer.without(whole, [p for p in parts if p not in staying]))

    dense = False
    while rest and (dense or not holds(0)):
        needed = _shortest(len(rest), holds, from_the_end=dense)
        dense = needed == len(rest)
        if needed:
            kept.append(rest[needed - 1])
        rest = rest[: max(0, needed - 1)]


def _shortest(length: int, holds: Holds, *, from_the_end: bool) -> int:
    """The length of the shortest prefix that holds; all of it does.

    Where needed parts lie close together, the next one is looked for at the end first; only then
    may it be that nothing at all is needed.
    """
    low, high = (-1 if from_the_end else 0), length
    step = 1
    while from_the_end and high - step > low:
        if not holds(high - step):
            low = high - step
            break
        high -= step
        step *= 2
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


class Holds(Protocol):
    """Whether the prefix of this length still fails."""

    def __call__(self, length: int, /) -> bool:
        """Ask."""


def prove(problem: Problem[T], layers: Sequence[Layer[T]]) -> tuple[Proof, ...]:
    """Leave out each single part until none can be; say which were tried in vain."""
    while True:
        found = tuple(_needed_parts(problem, layers))
        if found and found[-1] is None:
            continue
        return tuple(proof for proof in found if proof is not None)


def _needed_parts(problem: Problem[T], layers: Sequence[Layer[T]]) -> Iterable[Proof | None]:
    """Yield what cannot be left out; None, as the last, where something could be."""
    for layer in layers:
        whole = problem.best
        for part in layer.parts(whole):
            if problem.consider(layer.without(whole, [part])):
                yield None
                return
            yield Proof(layer.name, part, layer.label(whole, part))


def reduce(
    problem: Problem[T], layers: Sequence[Layer[T]], singly: Sequence[Layer[T]] | None = None
) -> tuple[Proof, ...]:
    """Shrink the best of ``problem`` until no single part can be left out any more.

    Args:
        problem: What to shrink.
        layers: How to take it apart, the coarse ways first.
        singly: The ways whose parts are tried one by one at the end; default ``layers``.

    Raises:
        Spent: the budget is used up; the best so far stands.
    """
    for layer in layers:
        keep_needed(problem, layer)
    return prove(problem, layers if singly is None else singly)

"""How a thing of parts gets smaller, whatever the parts are and whatever the failure is.

``keep_needed`` lets a ``search`` find the parts of one layer that are needed; each answer that
counts was really given, so a failure that is not monotone costs time but never truth. ``prove``
then leaves out every single part that is left, in vain; what the search has asked in passing is not
asked again.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, runtime_checkable

from replay.distill.problem import Problem
from replay.distill.search import begin, foreseen

T = TypeVar("T")
W = TypeVar("W", contravariant=True)
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


@runtime_checkable
class Needing(Protocol[W]):
    """A layer that knows which of its parts cannot be without others."""

    def needs(self, whole: W) -> Mapping[Hashable, Collection[Hashable]]:
        """Part → parts before it without which it is not valid."""


@runtime_checkable
class Guessing(Protocol[W]):
    """A layer with a guess at which of its parts matter."""

    def likely(self, whole: W) -> Collection[Hashable]:
        """Parts that are needed if the guess is right, and no others."""


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
    """Drop the parts that the failure can do without, as many at once as can be.

    What the layer guesses is asked about first; where it is wrong, that costs one question.
    """
    whole = problem.best
    everything = list(layer.parts(whole))
    likely = set(layer.likely(whole)) if isinstance(layer, Guessing) else set()
    named = [part for part in everything if part in likely]
    parts, sure = everything, len(named) == len(everything)
    if named and len(named) < len(everything):
        others = [part for part in everything if part not in likely]
        sure = problem.consider(layer.without(whole, others))
        parts = named if sure else named + others

    def candidate(places: Sequence[int]) -> T:
        staying = {parts[place] for place in places}
        return layer.without(whole, [part for part in everything if part not in staying])

    search = begin(len(parts), needs=_places(layer, whole, parts), likely=sure)
    while not search.over:
        if problem.workers > 1:
            coming = foreseen(search, lambda places: problem.recall(candidate(places)))
            problem.foresee(map(candidate, coming))
        search = search.after(fails=problem.consider(candidate(search.question)))


def _places(
    layer: Layer[T], whole: T, parts: Sequence[Hashable]
) -> Mapping[int, Collection[int]] | None:
    if not isinstance(layer, Needing):
        return None
    at = {part: place for place, part in enumerate(parts)}
    needs = layer.needs(whole)
    return {at[part]: [at[o] for o in needs.get(part, ()) if o in at] for part in parts}


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
        parts = _single(layer, whole)
        for place, part in enumerate(parts):
            if problem.workers > 1:
                problem.foresee(layer.without(whole, [other]) for other in parts[place:])
            if problem.consider(layer.without(whole, [part])):
                yield None
                return
            yield Proof(layer.name, part, layer.label(whole, part))


def _single(layer: Layer[T], whole: T) -> Sequence[Hashable]:
    """The parts that can be left out alone: no other is invalid without them."""
    parts = layer.parts(whole)
    if not isinstance(layer, Needing):
        return parts
    needed = {other for others in layer.needs(whole).values() for other in others}
    return [part for part in parts if part not in needed]


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

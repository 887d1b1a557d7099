"""The rungs that the record itself can answer. Each looks, and takes nothing.

``fresh`` gives exact and normalised answers, ``again`` reused ones, ``stale`` readings of another
state of the world. Ties are broken by causal path, then by recorded order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from replay.matching.explain import describe_writes
from replay.matching.lenses import EXACT
from replay.matching.library import Library
from replay.matching.question import Attempt, Question
from replay.matching.shelves import Fits, Queue, Shelf
from replay.tape import RecordedCall
from tracekit.canonical import class_differences, digest
from tracekit.events import Rung
from tracekit.trajectory import Call

_TWINS = "recorded more than once at the same time or place, with different observations"
_ELSEWHERE = "recorded beneath another tool call"


@dataclass(frozen=True, slots=True)
class Found:
    """A recorded observation that answers a question."""

    place: int
    rung: Rung
    shelf: Shelf | None = None
    """The calls that look the same; None where there is no other."""
    again: bool = False
    """Whether it was given out before."""
    tainted: bool = False
    ambiguous: bool = False
    why: str = ""


def fresh(library: Library, question: Question) -> Found | None:
    """Find an unused call with the same arguments and the same write set."""
    for attempt in question.attempts():
        fits = _fits(library, question, attempt)
        sole = library.sole(question.tool, attempt.key) if attempt.lens is EXACT else None
        if sole is not None and question.write_set in (None, sole.call.write_set):
            if fits is None or fits(sole.index):
                return Found(sole.index, attempt.rung)
            continue
        shelf = library.shelf(question.tool, attempt)
        if shelf is None:
            continue
        queue = shelf.queue(question.write_set, covered=False)
        place = None if queue is None else queue.next(question.asked.path, library.taken, fits)
        raced = _raced(library, question, shelf, fits) if question.write_set else None
        if raced is not None and (place is None or _goes_before(library, question, raced, place)):
            differ = place is not None and _differ(*(library.tape.calls[p] for p in (raced, place)))
            why = _TWINS if differ else ""
            return Found(raced, attempt.rung, shelf, ambiguous=differ, why=why)
        if place is not None and queue is not None:
            named = _named(library, question, queue, place, fits)
            if named is not None:
                return Found(named, attempt.rung, shelf)
            twins = _twins(library, question, queue, place, fits)
            return Found(
                place,
                attempt.rung,
                shelf,
                tainted=twins.undecided,
                ambiguous=twins.differ,
                why=_TWINS if twins.differ else "",
            )
    return None


def beneath_same(library: Library, question: Question) -> Found | None:
    """Find the covered call that the same body, really running again, made at the same place."""
    if question.asked.under is None:
        return None
    found = beneath(library, question)
    if found is None or library.tape.calls[found.place].call.path != question.asked.path:
        return None
    return Found(found.place, found.rung, found.shelf)


def beneath(library: Library, question: Question) -> Found | None:
    """Find an unused call that another tool had made. It is exact, and no evidence."""
    for attempt, shelf in _looks(library, question):
        queue = shelf.queue(None, covered=True)
        if queue is None:
            continue
        place = queue.next(question.asked.path, library.taken, _fits(library, question, attempt))
        if place is not None:
            return Found(place, attempt.rung, shelf, tainted=True, why=_ELSEWHERE)
    return None


def again(library: Library, question: Question) -> Found | None:
    """Find an observation given out before that would be the same again; never a write's."""
    if question.nature == "write":
        return None
    for attempt, shelf in _looks(library, question):
        place = shelf.last_served(question.write_set, _fits(library, question, attempt))
        if place is not None:
            return Found(place, "reused", shelf, again=True, tainted=True)
    return None


def stale(library: Library, question: Question) -> Found | None:
    """Find a reading with the same arguments and another write set."""
    if question.nature != "read":
        return None
    for attempt, shelf in _looks(library, question):
        fits = _fits(library, question, attempt)
        queue = shelf.queue(None, covered=False)
        place = None if queue is None else queue.next(question.asked.path, library.taken, fits)
        again = place is None
        if place is None:
            place = shelf.last_served(None, fits)
        if place is not None:
            own = question.write_set or frozenset()
            why = describe_writes(library.tape, library.tape.calls[place], own)
            return Found(place, "stale", shelf, again=again, tainted=True, why=why)
    return None


@dataclass(frozen=True, slots=True)
class _Twins:
    """What else would answer as well."""

    differ: bool
    undecided: bool
    """Whether neither path nor order says which one it is."""


_NO_TWINS = _Twins(differ=False, undecided=False)


def _twins(
    library: Library, question: Question, queue: Queue, place: int, fits: Fits | None
) -> _Twins:
    """Compare the chosen call with those that were equally good.

    Calls on one path that followed each other are not: each has its turn. Those made at the same
    time are, and so are those on several paths of which none is the asked one.
    """
    chosen = library.tape.calls[place]
    timed = differ = False
    for other in queue.on_path(chosen.call.path, library.taken):
        if other == place or (fits is not None and not fits(other)):
            continue
        call = library.tape.calls[other].call
        if not (overlap := _overlap(chosen.call, call)) and not _untimed(chosen.call, call):
            break
        if _differ(chosen, library.tape.calls[other]):
            differ, timed = True, timed or overlap
            break
    if differ:
        return _Twins(differ=True, undecided=timed)
    if chosen.call.path == question.asked.path:
        return _NO_TWINS
    apart = any(_differ(chosen, library.tape.calls[p]) for p in queue.heads(library.taken, fits))
    return _Twins(differ=apart, undecided=apart)


def _named(
    library: Library, question: Question, queue: Queue, place: int, fits: Fits | None
) -> int | None:
    """Find the call that a model asked for under the same id, among those of one decision.

    Ids tell equal calls of one decision apart. Elsewhere they say nothing: some providers count
    anew in each reply, and another model gives others.
    """
    wanted, chosen = question.asked.call_id, library.tape.calls[place].call
    if wanted is None or not chosen.decision or chosen.tool_call_id is None:
        return None
    found = []
    for other in queue.on_path(chosen.path, library.taken):
        call = library.tape.calls[other].call
        if call.decision != chosen.decision:
            break
        if call.tool_call_id == wanted and (fits is None or fits(other)):
            found.append(other)
    return found[0] if len(found) == 1 else None


def _raced(library: Library, question: Question, shelf: Shelf, fits: Fits | None) -> int | None:
    """Find a call that ran beside the very writes which the replay happened to answer before it."""
    own = question.write_set or frozenset()

    def may_have_seen(place: int) -> bool:
        recorded = library.tape.calls[place]
        before = recorded.call.write_set
        if len(own) - len(before) > len(recorded.racing):
            return False
        if not (before < own and own - before <= recorded.racing):
            return False
        return fits is None or fits(place)

    return shelf.racers.next(question.asked.path, library.taken, may_have_seen)


def _goes_before(library: Library, question: Question, one: int, other: int) -> bool:
    """Tell whether ``one`` has its turn before ``other``: same path first, then recorded order."""
    paths = [library.tape.calls[place].call.path == question.asked.path for place in (one, other)]
    return (not paths[0], one) < (not paths[1], other)


def _looks(library: Library, question: Question) -> Iterator[tuple[Attempt, Shelf]]:
    for attempt in question.attempts():
        shelf = library.shelf(question.tool, attempt)
        if shelf is not None:
            yield attempt, shelf


def other_key(library: Library, question: Question) -> int | None:
    """Find the unused write that would answer but for the idempotency keys used so far."""
    if not _keyed(library, question):
        return None
    for attempt, shelf in _looks(library, question):
        queue = shelf.queue(None, covered=False)
        fits = _looks_equal(library, question, attempt)
        place = None if queue is None else queue.next(question.asked.path, library.taken, fits)
        if place is not None:
            return place
    return None


def _keyed(library: Library, question: Question) -> bool:
    """Whether it counts which idempotency keys were used before."""
    return question.nature == "write" and library.keys.count(question.tool, question.asked.key)


def _fits(library: Library, question: Question, attempt: Attempt) -> Fits | None:
    """What a key leaves open, and whether a write's idempotency key is new where it was."""
    equal = _looks_equal(library, question, attempt)
    if not _keyed(library, question):
        return equal
    keys, given = library.keys, (question.arguments, question.asked.key)
    return lambda place: (equal is None or equal(place)) and keys.agree(place, *given)


def _looks_equal(library: Library, question: Question, attempt: Attempt) -> Fits | None:
    """What a key leaves open: how close numbers are, and of which classes objects are."""
    calls, types = library.tape.calls, question.types
    if not types:
        if attempt.lens.by_key_alone:
            return None
        return lambda place: attempt.lens.agrees(calls[place].arguments, attempt.arguments)

    def agrees(place: int) -> bool:
        recorded = calls[place]
        if class_differences(recorded.call.argument_types, types):
            return False
        return attempt.lens.by_key_alone or attempt.lens.agrees(
            recorded.arguments, attempt.arguments
        )

    return agrees


def _overlap(left: Call, right: Call) -> bool:
    """Tell whether two calls ran at the same time."""
    if left.ts_start_ns is None or right.ts_start_ns is None:
        return False
    if left.ts_end_ns is None or right.ts_end_ns is None:
        return False
    return left.ts_start_ns < right.ts_end_ns and right.ts_start_ns < left.ts_end_ns


def _untimed(left: Call, right: Call) -> bool:
    """Tell whether two calls of one decision have no times: only their places order them."""
    if left.decision != right.decision or not left.decision:
        return False
    return left.ts_end_ns is None or right.ts_end_ns is None


def _differ(left: RecordedCall, right: RecordedCall) -> bool:
    ours, theirs = left.call.observation, right.call.observation
    return digest(ours.digest_form) != digest(theirs.digest_form)

"""An asked call in all the ways in which the record may know it, the most exact first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from replay.matching.aliases import Aliases
from replay.matching.binding import recorded_tool, spellings, unsaid
from replay.matching.learning import Learner
from replay.matching.lenses import EXACT, Lens, View, idempotency_lens, matcher_lens
from replay.matching.renaming import (
    Moves,
    moves_of,
    rename_contract,
    rename_places,
    renamed_place,
)
from replay.matching.shelves import WriteSet
from replay.matching.values import AskedCall, Policies
from replay.matching.writes import WritesSoFar
from replay.tape import Tape
from tracekit.canonical import JsonValue
from tracekit.contract import Contract
from tracekit.events import Effect, Rung

Nature = Literal["pure", "read", "write"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One spelling of the arguments, seen through one lens."""

    lens: View
    arguments: JsonValue
    key: str
    rung: Rung
    clash: str = ""
    """Why no recorded call is equal to it."""


class Question:
    """An asked call, bound to the record.

    Attempts are made as they are needed: nearly every call is found by the first.
    """

    def __init__(
        self,
        asked: AskedCall,
        tool: str,
        nature: Nature,
        contract: Contract | None,
        write_set: WriteSet,
        types: Mapping[str, JsonValue],
        attempts: Iterator[Attempt],
    ) -> None:
        self.asked = asked
        self.tool = tool
        """What the record calls it."""
        self.nature = nature
        self.contract = contract
        """The recorded contract."""
        self.write_set = write_set
        """What it would see of the replay's own writes; None where that does not matter."""
        self.types = types
        """Type marks of the arguments, at their recorded places."""
        self._coming = attempts
        self._made: list[Attempt] = []

    @property
    def first(self) -> Attempt:
        """The call as it was asked."""
        return self._made[0] if self._made else next(self.attempts())

    @property
    def arguments(self) -> JsonValue:
        """The arguments as the record would spell them."""
        return self.first.arguments

    @property
    def effect(self) -> Effect:
        """The effect under which policies are looked up; of the two kinds of write, as declared."""
        if self.nature != "write":
            return self.nature
        return "unknown" if self.asked.effect == "unknown" else "write"

    def attempts(self) -> Iterator[Attempt]:
        """Yield the ways to look it up."""
        yield from self._made
        for attempt in self._coming:
            self._made.append(attempt)
            yield attempt


def ask(
    asked: AskedCall,
    tape: Tape,
    policies: Policies,
    aliases: Aliases,
    writes: WritesSoFar,
    learner: Learner | None = None,
) -> Question:
    """Bind ``asked`` to the record."""
    tool = recorded_tool(asked.tool, tape, policies.maps)
    nature = nature_of(asked.effect, tape.effect(tool))
    contract = tape.contracts.get(tool)
    return Question(
        asked=asked,
        tool=tool,
        nature=nature,
        contract=contract,
        write_set=_write_set(tool, nature, tape, writes),
        types=rename_places(asked.types, moves_of(policies.maps, tool, asked.tool)),
        attempts=_attempts(asked, tool, nature, tape, policies, aliases, learner),
    )


def sees_writes(asked: AskedCall, tape: Tape, writes: WritesSoFar) -> WriteSet:
    """The writes that a call would see, under its own name; None where that does not matter."""
    nature = nature_of(asked.effect, tape.effect(asked.tool))
    return _write_set(asked.tool, nature, tape, writes)


def _write_set(tool: str, nature: Nature, tape: Tape, writes: WritesSoFar) -> WriteSet:
    return writes.seen_by(tape.declared(tool)) if nature == "read" else None


def nature_of(asked: Effect, recorded: Effect | None) -> Nature:
    """Take the more careful of two declarations; a declared effect replaces an unknown one."""
    if asked in ("write", "unknown") or recorded == "write":
        return "write"
    if asked == "pure" and recorded in (None, "pure", "unknown"):
        return "pure"
    return "read"


def _attempts(
    asked: AskedCall,
    tool: str,
    nature: Nature,
    tape: Tape,
    policies: Policies,
    aliases: Aliases,
    learner: Learner | None,
) -> Iterator[Attempt]:
    known: list[JsonValue] = []
    whoever = unsaid(asked, tape.contracts.get(tool))
    plain = Lens(f"whoever {' '.join(whoever)}", ignore=whoever) if whoever else EXACT
    for spelling in spellings(asked, tool, tape, policies.maps):
        if spelling.clash:
            yield replace(_attempt(EXACT, spelling.arguments, "error"), clash=spelling.clash)
            return
        known.append(spelling.arguments)
        rung: Rung = "exact" if spelling.same else "normalised"
        if spelling.as_asked and asked.digest is not None:
            yield Attempt(EXACT, spelling.arguments, asked.digest, rung)
        else:
            yield _attempt(plain, spelling.arguments, rung)
    aliased = [variant for arguments in known for variant in aliases.variants(arguments)]
    if nature == "write":  # what was learnt is a guess
        learner = None
    if learner is not None:
        both = (*known, *aliased)
        aliased += [variant for value in both for variant in learner.aliases.variants(value)]
    for arguments in aliased:
        yield _attempt(plain, arguments, "normalised")
    for lens in _lenses(asked, tool, nature, tape, policies):
        for arguments in (*known, *aliased):
            yield _attempt(lens, arguments, "normalised")
    if learner is not None:
        for arguments in (*known, *aliased):
            yield _attempt(learner, arguments, "normalised")


def _attempt(lens: View, arguments: JsonValue, rung: Rung) -> Attempt:
    return Attempt(lens, arguments, lens.key(arguments), rung)


def _lenses(
    asked: AskedCall, tool: str, nature: Nature, tape: Tape, policies: Policies
) -> Iterator[Lens]:
    """Yield the lenses beside the exact one; a write has its declared idempotency key only."""
    recorded = tape.contracts.get(tool)
    moves = moves_of(policies.maps, tool, asked.tool)
    declared = rename_contract(asked.declared, recorded, moves)
    if (lens := idempotency_lens(_agreeing(recorded, declared))) is not None:
        yield lens
    if nature == "write":
        return
    ignore, windows = _overlooked(policies, tool, asked.tool, moves)
    if (lens := matcher_lens((recorded, declared), ignore, windows)) is not None:
        yield lens


def _overlooked(
    policies: Policies, recorded: str, asked: str, moves: Moves
) -> tuple[tuple[str, ...], dict[str, float]]:
    """What a user wants overlooked, by the recorded places: as they were named then, or are now."""
    olds = {old for _, old in moves}
    renamed: dict[str, Moves] = {recorded: (), asked: moves}
    if recorded == asked:
        renamed = {asked: tuple(move for move in moves if move[0] not in olds)}
    ignore = [renamed_place(p, m) for n, m in renamed.items() for p in policies.ignores.get(n, ())]
    windows = {
        renamed_place(place, moved): seconds
        for name, moved in renamed.items()
        for place, seconds in policies.windows.get(name, {}).items()
    }
    return tuple(ignore), windows


def _agreeing(recorded: Contract | None, declared: Contract | None) -> Contract | None:
    """The recorded declaration where the new code declares the same idempotency key.

    Else which field of a write may differ would be for the code under test to say.
    """
    if recorded is None or declared is None:  # who only decides declares nothing
        return recorded
    return recorded if recorded.idempotency_field == declared.idempotency_field else None

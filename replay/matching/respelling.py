"""A replay in the words of its record, so that a rename which was mapped away is no difference.

A replay says among its versions which names were mapped. What was done is not changed by that: a
call that no recorded one can be equal to keeps the names that it was made with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from replay.matching.binding import recorded_tool, spellings
from replay.matching.options import parse_map
from replay.matching.renaming import moves_of, rename_contract, rename_places
from replay.matching.values import ArgumentMap, AskedCall
from replay.tape import Tape
from tracekit.canonical import cut_digest, digest
from tracekit.trajectory import Call, Trajectory

MAPPED = "map"
"""What a replay names its renames among its versions."""


def in_recorded_words(replayed: Trajectory, record: Trajectory) -> Trajectory:
    """Give the calls of a replay the names that its record has for them, as it was mapped."""
    said = replayed.versions.get(MAPPED)
    if said is None or replayed.replay_of != record.run_id:
        return replayed
    maps, tape = tuple(map(parse_map, said.splitlines())), Tape.of(record)
    decisions = tuple(
        replace(one, calls=tuple(_respelt(call, tape, maps) for call in one.calls))
        for one in replayed.decisions
    )
    return replace(replayed, decisions=decisions)


def _respelt(call: Call, tape: Tape, maps: Sequence[ArgumentMap]) -> Call:
    given = call.arguments
    if not isinstance(given, dict) or cut_digest(given) is not None:
        return call
    asked = AskedCall(
        call.tool, given, call.effect, contract=call.contract, types=call.argument_types
    )
    old = recorded_tool(call.tool, tape, maps)
    moves = moves_of(maps, old, call.tool)
    if old == call.tool and not moves:
        return call
    ways = list(spellings(asked, old, tape, maps))
    if ways[0].clash:
        return call
    known = (way for way in ways if (old, digest(way.arguments)) in tape.by_key)
    return replace(
        call,
        tool=old,
        arguments=next(known, ways[0]).arguments,
        argument_types=rename_places(call.argument_types, moves),
        contract=rename_contract(call.contract, tape.contracts.get(old), moves),
    )

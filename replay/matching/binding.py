"""Spelling an asked call the way the record would: names, parameters, defaults.

The recorded contract decides, since the new code may have renamed, added or dropped parameters.
``same`` tells a mere spelling, which is the same call, from a change that was mapped away.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from replay.matching.renaming import is_default, moves_of, rename_arguments
from replay.matching.values import ArgumentMap, AskedCall
from replay.tape import Tape
from tracekit.canonical import JsonValue
from tracekit.contract import Contract

Arguments = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Spelling:
    """One way to spell an asked call in the words of the record."""

    arguments: Arguments
    same: bool
    """Whether nothing but the spelling changed."""
    as_asked: bool = False
    """Whether it is spelt exactly as it was asked."""
    clash: str = ""
    """Why no recorded call is equal to it: two of its arguments have one name in the record."""


def recorded_tool(asked: str, tape: Tape, maps: Sequence[ArgumentMap]) -> str:
    """Return what the record calls the asked tool; a name that no record has where it has none.

    A name that maps claim, as an old or a new one, means itself only where a map says so.
    """
    olds = [rename.old_tool for rename in maps if rename.new_tool == asked]
    if olds:
        return next((old for old in olds if old in tape.by_tool), olds[0])
    return f"{asked} (new)" if any(rename.old_tool == asked for rename in maps) else asked


def why_mapped_away(asked: str, tape: Tape, maps: Sequence[ArgumentMap]) -> str:
    """Say why a tool of a name that maps claim is none of which the record has a call."""
    olds = ", ".join(dict.fromkeys(rename.old_tool for rename in maps if rename.new_tool == asked))
    news = ", ".join(dict.fromkeys(rename.new_tool for rename in maps if rename.old_tool == asked))
    both = f" (is it itself, too? --map {asked}={asked})" if asked in tape.by_tool else ""
    if olds:
        return f"--map makes it the recorded {olds}, of which the recording has no call{both}"
    return f"--map makes the recorded {asked} {news}, so this one is new{both}"


def renamed(
    tool: str,
    arguments: Mapping[str, JsonValue],
    tape: Tape,
    maps: Sequence[ArgumentMap],
    declared: Contract | None = None,
) -> tuple[str, Arguments]:
    """Name a proposed call and its arguments as the record does; one that cannot be keeps its."""
    old = recorded_tool(tool, tape, maps)
    found = rename_arguments(arguments, moves_of(maps, old, tool), _defaults(declared))
    return tool if found.clash else old, found.arguments


def spellings(
    asked: AskedCall, tool: str, tape: Tape, maps: Sequence[ArgumentMap]
) -> Iterator[Spelling]:
    """Yield the ways to spell ``asked`` as a call of the recorded ``tool``, the likeliest first."""
    if not maps and tuple(asked.arguments) == tape.parameters.get(tool):
        yield Spelling(dict(asked.compared), tool == asked.tool, as_asked=True)
        return
    recorded = tape.contracts.get(tool)
    found = rename_arguments(
        asked.compared, moves_of(maps, tool, asked.tool), _defaults(asked.contract)
    )
    if found.clash:
        yield Spelling(found.arguments, same=False, clash=found.clash)
        return
    arguments = told_to(recorded, asked, found.arguments)
    same = not found.changed and tool == asked.tool
    if recorded is None or recorded.parameters is None:
        yield Spelling(arguments, same)
        if _defaults(asked.contract):
            yield from _without_defaults(arguments, asked.contract, _recorded_names(tape, tool))
        return
    known = {parameter.name for parameter in recorded.parameters}
    moved, clash = _fit_keywords(arguments, recorded, asked.contract)
    if clash:
        yield Spelling(arguments, same=False, clash=clash)
        return
    kept = _dropped(moved, asked.contract, known)
    # A variable-keyword parameter that is only spelt out is the same call.
    same = same and len(kept) == len(moved)
    yield Spelling(recorded.normalise(kept), same)


def told_to(
    recorded: Contract | None, asked: AskedCall, arguments: Mapping[str, JsonValue]
) -> Arguments:
    """Leave out whose the call is for a record that does not know its tools' signatures.

    One that knows them and names no receiver has recorded that there was none.
    """
    unknown = recorded is None or recorded.parameters is None
    return asked.contract.said(arguments) if unknown and asked.contract else dict(arguments)


def unsaid(asked: AskedCall, recorded: Contract | None) -> tuple[str, ...]:
    """Point to what says whose a recorded call is, for a planner that says so of none of its own.

    One that only decides names a tool and its arguments, of which it may know no contract but the
    recorded one.
    """
    declared = asked.declared
    if recorded is None or (declared is not None and not _leaves_unsaid(declared, asked.arguments)):
        return ()
    return tuple(f"/{name}" for name in sorted(recorded.receivers - asked.arguments.keys()))


def _leaves_unsaid(declared: Contract, arguments: Mapping[str, JsonValue]) -> bool:
    return bool(declared.receivers) and declared.receivers.isdisjoint(arguments)


def _fit_keywords(
    arguments: Mapping[str, JsonValue], recorded: Contract, asked: Contract | None
) -> tuple[Arguments, str]:
    """Move arguments between named parameters and ``**kwargs``, where one of the two has those.

    A further keyword may be called as a parameter that goes by its position; then say so.
    """
    known = {parameter.name for parameter in recorded.parameters or ()}
    fitted = dict(arguments)
    theirs = _keywords(asked)
    if theirs and theirs not in known and isinstance(extra := fitted.get(theirs), dict):
        del fitted[theirs]
        if twice := sorted(fitted.keys() & extra.keys()):
            return fitted, _given_twice(twice[0])
        fitted |= extra
    ours = _keywords(recorded)
    if ours and isinstance(extra := fitted.get(ours, {}), dict):
        defaults = _defaults(asked)
        moved = {
            name: value
            for name, value in fitted.items()
            if name not in known and not is_default(name, value, defaults)
        }
        if twice := sorted(moved.keys() & extra.keys()):
            return fitted, _given_twice(twice[0])
        if moved:
            fitted = {name: value for name, value in fitted.items() if name not in moved}
            fitted[ours] = {**extra, **moved}
    return fitted, ""


def _given_twice(name: str) -> str:
    return f"/{name} is given twice, once among the further keywords: no recorded call is like that"


def _dropped(
    arguments: Mapping[str, JsonValue], asked: Contract | None, known: Collection[str]
) -> Arguments:
    """Drop parameters that the record lacks and that hold their default."""
    defaults = _defaults(asked)
    return {
        name: value
        for name, value in arguments.items()
        if name in known or not is_default(name, value, defaults)
    }


def _without_defaults(
    arguments: Arguments, asked: Contract | None, seen: Collection[str]
) -> Iterator[Spelling]:
    """Yield what is left without defaults, for a record that does not know the signature."""
    unseen = _dropped(arguments, asked, seen)
    bare = _dropped(arguments, asked, ())
    if len(unseen) < len(arguments):
        yield Spelling(unseen, same=False)
    if len(bare) < len(unseen):
        yield Spelling(bare, same=False)


def _recorded_names(tape: Tape, tool: str) -> set[str]:
    names: set[str] = set()
    for place in tape.by_tool.get(tool, ()):
        arguments = tape.calls[place].arguments
        if isinstance(arguments, dict):
            names |= arguments.keys()
    return names


def _keywords(contract: Contract | None) -> str | None:
    parameters = contract.parameters if contract is not None else None
    return next((p.name for p in parameters or () if p.kind == "kwargs"), None)


def _defaults(contract: Contract | None) -> dict[str, JsonValue]:
    parameters = contract.parameters if contract is not None else None
    return {p.name: p.default for p in parameters or () if not p.required}

"""Spelling an asked call the way the record would: names, parameters, defaults.

The recorded contract decides, since the new code may have renamed, added or dropped parameters.
``same`` tells a mere spelling, which is the same call, from a change that was mapped away.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from replay.matching.values import ArgumentMap, AskedCall
from replay.tape import Tape
from tracekit import jsontree
from tracekit.canonical import JsonValue, canonical_bytes
from tracekit.contract import Contract
from tracekit.errors import PointerNotFound

Arguments = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Spelling:
    """One way to spell an asked call in the words of the record."""

    arguments: Arguments
    same: bool
    """Whether nothing but the spelling changed."""
    as_asked: bool = False
    """Whether it is spelt exactly as it was asked."""


def recorded_tool(asked: AskedCall, tape: Tape, maps: Sequence[ArgumentMap]) -> str:
    """Return what the record calls the asked tool."""
    for rename in maps:
        if rename.new_tool == asked.tool and rename.old_tool in tape.by_tool:
            return rename.old_tool
    return asked.tool


def renamed(
    tool: str, arguments: Mapping[str, JsonValue], tape: Tape, maps: Sequence[ArgumentMap]
) -> tuple[str, Arguments]:
    """Name a proposed call and its arguments as the record does."""
    asked = AskedCall(tool, arguments, "unknown")
    old = recorded_tool(asked, tape, maps)
    return old, _mapped(asked, old, maps)[0]


def spellings(
    asked: AskedCall, tool: str, tape: Tape, maps: Sequence[ArgumentMap]
) -> Iterator[Spelling]:
    """Yield the ways to spell ``asked`` as a call of the recorded ``tool``, the likeliest first."""
    if not maps and tuple(asked.arguments) == tape.parameters.get(tool):
        yield Spelling(dict(asked.compared), tool == asked.tool, as_asked=True)
        return
    recorded = tape.contracts.get(tool)
    arguments, mapped = _mapped(asked, tool, maps)
    arguments = told_to(recorded, asked, arguments)
    same = not mapped and tool == asked.tool
    if recorded is None or recorded.parameters is None:
        yield Spelling(arguments, same)
        if _defaults(asked.contract):
            yield from _without_defaults(arguments, asked.contract, _recorded_names(tape, tool))
        return
    known = {parameter.name for parameter in recorded.parameters}
    moved = _fit_keywords(arguments, recorded, asked.contract)
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
    declared = asked.contract
    if recorded is None or (declared is not None and not _leaves_unsaid(declared, asked.arguments)):
        return ()
    return tuple(f"/{name}" for name in sorted(recorded.receivers - asked.arguments.keys()))


def _leaves_unsaid(declared: Contract, arguments: Mapping[str, JsonValue]) -> bool:
    return bool(declared.receivers) and declared.receivers.isdisjoint(arguments)


def _mapped(asked: AskedCall, tool: str, maps: Sequence[ArgumentMap]) -> tuple[Arguments, bool]:
    arguments: JsonValue = dict(asked.compared)
    changed = False
    for rename in maps:
        if (rename.old_tool, rename.new_tool) != (tool, asked.tool):
            continue
        if rename.old_pointer is None or rename.new_pointer is None:
            continue
        try:
            value = jsontree.get(arguments, rename.new_pointer)
            arguments = jsontree.replace(
                jsontree.remove(arguments, rename.new_pointer), rename.old_pointer, value
            )
        except PointerNotFound:  # this call does not use the argument
            continue
        changed = True
    assert isinstance(arguments, dict)
    return arguments, changed


def _fit_keywords(
    arguments: Mapping[str, JsonValue], recorded: Contract, asked: Contract | None
) -> Arguments:
    """Move arguments between named parameters and ``**kwargs``, where one of the two has those."""
    known = {parameter.name for parameter in recorded.parameters or ()}
    fitted = dict(arguments)
    theirs = _keywords(asked)
    if theirs and theirs not in known and isinstance(extra := fitted.get(theirs), dict):
        del fitted[theirs]
        fitted |= extra
    ours = _keywords(recorded)
    if ours and isinstance(extra := fitted.get(ours, {}), dict):
        defaults = _defaults(asked)
        moved = {
            name: value
            for name, value in fitted.items()
            if name not in known and not _is_default(name, value, defaults)
        }
        if moved:
            fitted = {name: value for name, value in fitted.items() if name not in moved}
            fitted[ours] = {**extra, **moved}
    return fitted


def _dropped(
    arguments: Mapping[str, JsonValue], asked: Contract | None, known: Collection[str]
) -> Arguments:
    """Drop parameters that the record lacks and that hold their default."""
    defaults = _defaults(asked)
    return {
        name: value
        for name, value in arguments.items()
        if name in known or not _is_default(name, value, defaults)
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


def _is_default(name: str, value: JsonValue, defaults: Mapping[str, JsonValue]) -> bool:
    return name in defaults and canonical_bytes(defaults[name]) == canonical_bytes(value)

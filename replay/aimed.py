"""What options are aimed at: the tools and arguments that they name, and whether those are there.

A misspelt name changes nothing, and a policy that can never hold changes nothing either; both would
pass in silence for what they were meant to do. A tool is known if the run has it, or the planner
declares or calls it: the last can only be told afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from rapidfuzz import fuzz, process

from replay.faults import OF, Of, PlacedFault
from replay.matching import Policies
from replay.options import ReplayOptions
from replay.result import ReplayResult
from replay.tape import Tape
from replay.workers import Bindings, Kind, Worker
from tracekit import jsontree
from tracekit.canonical import JsonValue
from tracekit.contract import EFFECTS, Contract
from tracekit.errors import PointerNotFound, UsageError

Calls = Iterable[tuple[str, JsonValue]]
"""Tools and arguments."""
_ALIKE = 60
_GROUPS = frozenset({*EFFECTS, "*"})
"""What ``--unmatched`` may name beside a tool."""


def check_policies(policies: Policies, tape: Tape) -> None:
    """Refuse what no write may have for a tool which the record knows to write.

    Raises:
        UsageError: there is one.
    """
    wanted = {**dict.fromkeys(policies.live, "live"), **policies.unmatched}
    for tool, policy in wanted.items():
        if policy in ("live", "nearest") and tape.effect(tool) == "write":
            why = "is never sent out live" if policy == "live" else "is never answered by likeness"
            raise UsageError(
                f"policy {policy} for {tool}: it is a write in this recording, and a write {why}",
                hint=f"for example --sandbox {tool}=MOD:OBJ or --simulate {tool}=MOD:OBJ",
            )
    for option, tools in (("--ignore", policies.ignores), ("--window", policies.windows)):
        for tool in tools:
            if tape.effect(tool) == "write":
                raise UsageError(
                    f"{option} {tool}: it is a write in this recording, and of a write every "
                    "argument counts",
                    hint="only its declared idempotency_field may differ",
                )


def check_faults(faults: Iterable[PlacedFault], tape: Tape, declared: Mapping[str, Any]) -> None:
    """Refuse a fault that does not happen to what it is placed at, a tool or a model.

    Raises:
        UsageError: there is one.
    """
    tools = known_tools(tape.trajectory.tools, tape.by_tool, declared)
    models = {prompt.model_call.name for prompt in tape.prompts}
    for placed in faults:
        of: tuple[tuple[Of, set[str]], ...] = (("tool", tools), ("model", models))
        kinds = [kind for kind, known in of if placed.name in known]
        if kinds and not any(map(placed.fault.fits, kinds)):
            raise UsageError(
                f"fault {placed}: {placed.fault.kind} does not happen to a {kinds[0]}, "
                f"which {placed.name} is",
                hint=f"one of {', '.join(OF[kinds[0]])}",
            )


def check_live(workers: Mapping[Kind, Worker]) -> None:
    """Refuse to make calls live that are declared to write, or not declared at all.

    Raises:
        UsageError: there is one among the functions.
    """
    known = workers["live"].effects if "live" in workers else {}
    for tool, effect in known.items():
        if effect not in ("pure", "read"):
            raise UsageError(
                f"--live {tool}: its effect is {effect}, and only reads are really made",
                hint=f"for example --simulate {tool}=MOD:OBJ",
            )


def known_tools(
    offered: Iterable[Contract], called: Iterable[str], declared: Mapping[str, Any]
) -> set[str]:
    """The tools that a run offered, that were called, and that the planner's module declares."""
    return {contract.name for contract in offered} | {*called} | {*declared.get("tools", ())}


def aimed_at(options: ReplayOptions) -> set[str]:
    """Give the tools and models that the options of a replay name, for one run or many."""
    named = {name for _, name in _names(options.policies, options.bindings)}
    return (named | {fault.name for fault in options.faults if fault.request is None}) - _GROUPS


def check_aims(
    options: ReplayOptions,
    done: ReplayResult,
    declared: Mapping[str, Any],
    others: Collection[str] = (),
) -> None:
    """Refuse options of a replay that name what neither the run has nor the planner.

    Args:
        options: Those of the replay.
        done: What came of it.
        declared: What the planner's code declares.
        others: What the other runs call that are replayed with these options.

    Raises:
        UsageError: there is one.
    """
    run = done.recorded
    called = [call.tool for call in (*run.calls, *run.covered)]
    called += [step.name for step in done.answered if step.kind == "call"]
    known = known_tools(run.tools, [*called, *others], declared)
    check_names(options.policies, options.bindings, known)
    models = [one.name for one in run.model_calls] + [step.name for step in done.answered]
    check_fault_names(options.faults, {*known, *models})


def check_names(policies: Policies, bindings: Bindings, known: Collection[str]) -> None:
    """Refuse options that name a tool which nobody knows.

    Raises:
        UsageError: there is one; it names the known tool that is most alike.
    """
    for option, tool in _names(policies, bindings):
        if tool in known or (option == "--unmatched" and tool in _GROUPS) or tool == "*":
            continue
        raise UsageError(
            f"{option} names the tool {tool!r}, which neither the run has nor the planner declares "
            "or calls",
            hint=nearest(tool, {*known, *(_GROUPS if option == "--unmatched" else ())}),
        )


def check_fault_names(faults: Iterable[PlacedFault], known: Collection[str]) -> None:
    """Refuse faults of a tool or an ``@llm`` function which nobody knows.

    Raises:
        UsageError: there is one; it names the known one that is most alike.
    """
    for placed in faults:
        if placed.request is None and placed.name not in known:
            raise UsageError(
                f"--fault {placed}: {placed.name!r} is no tool or model that the run has, or that "
                "the planner declares or calls",
                hint=nearest(placed.name, known),
            )


def nearest(name: str, known: Collection[str]) -> str | None:
    """Say which known name is most alike; where none is, which there are."""
    others = sorted({*known} - {""})
    like = process.extractOne(name, others, scorer=fuzz.ratio, score_cutoff=_ALIKE)
    if like:
        return f"the nearest is {like[0]}"
    return f"known are {', '.join(others[:8])}" if others else None


def _names(policies: Policies, bindings: Bindings) -> Iterator[tuple[str, str]]:
    for kind, functions in bindings.functions.items():
        yield from ((f"--{kind}", tool) for tool in functions)
    bound = {tool for functions in bindings.functions.values() for tool in functions}
    yield from (("--live", tool) for tool in sorted(policies.live - bound))
    for tool in (*policies.unmatched, *policies.least):
        if tool not in bound:
            yield "--unmatched", tool
    for rename in policies.maps:
        yield from (("--map", tool) for tool in (rename.old_tool, rename.new_tool))
    yield from (("--ignore", tool) for tool in policies.ignores)
    yield from (("--window", tool) for tool in policies.windows)


def never_met(policies: Policies, calls: Calls, reads: Collection[str]) -> tuple[str, ...]:
    """Name the places of ``--ignore``, ``--window`` and ``--map`` that changed nothing, as notes.

    Args:
        policies: What the user wants.
        calls: The calls that were recorded, and those that were asked for.
        reads: The tools of which a call was asked for that reads.
    """
    wanted = [("--ignore", t, p) for t, places in policies.ignores.items() for p in places]
    wanted += [("--window", t, p) for t, places in policies.windows.items() for p in places]
    for rename in policies.maps:
        if rename.old_pointer is not None and rename.new_pointer is not None:
            wanted.append(("--map", rename.old_tool, rename.old_pointer))
            wanted.append(("--map", rename.new_tool, rename.new_pointer))
    if not wanted:
        return ()
    made = list(calls)
    found = []
    for option, tool, place in wanted:
        in_vain = f"{option} {tool}:{place} was in vain"
        if not any(name == tool and _has(arguments, place) for name, arguments in made):
            found.append(f"{in_vain}: no call of {tool} has that argument")
        elif option != "--map" and tool not in reads:
            found.append(f"{in_vain}: it is for reads, and no call of {tool} counts as one")
    return tuple(found)


def _has(arguments: JsonValue, place: str) -> bool:
    try:
        jsontree.get(arguments, place)
    except PointerNotFound:
        return False
    return True

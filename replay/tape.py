"""The observations of a run, indexed and ready to be played.

A tape never changes; what a replay has used up is kept by its ``Player`` (``replay.matching``). So
one tape serves any number of replays. Every exact question is one look-up, however long the run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self, TypeVar

from tracekit.canonical import JsonValue, as_compared, described_parts, digest
from tracekit.contract import NONLOCAL, RECEIVER_NAMES, Contract
from tracekit.events import Effect
from tracekit.trajectory import Call, ModelCall, Observation, Trajectory
from tracekit.writesets import WriteSet

K = TypeVar("K")

ARGUMENT = "$argument"
"""Beneath it stands what is an argument, where a call that is somebody's says whose it is."""
_TELLING = RECEIVER_NAMES | {NONLOCAL}
_HARM: tuple[Effect, ...] = ("write", "unknown", "read", "pure")


@dataclass(frozen=True, slots=True, eq=False)
class RecordedCall:
    """A call of the record, spelt by its contract."""

    index: int
    """Its place on the tape: the calls of all decisions in order, then the covered ones."""
    call: Call
    contract: Contract | None
    arguments: JsonValue
    """Bound arguments with the recorded defaults filled in."""
    key: str
    """Digest of ``arguments``."""
    racing: frozenset[str] = frozenset()
    """Successful writes under way at the same time: the record does not say whether it saw them."""
    described: tuple[str, ...] = ()
    """The parts of its arguments that were not kept, so that it is not known what equals them."""

    @property
    def changed_the_world(self) -> bool:
        """Whether it may write and succeeded."""
        return self.call.writes and not self.call.observation.is_error and not self.call.refused

    @property
    def servable(self) -> bool:
        """Whether its observation can be given to a planner."""
        return is_servable(self.call.observation)


@dataclass(frozen=True, slots=True, eq=False)
class RecordedPrompt:
    """A model call of the record."""

    index: int
    model_call: ModelCall


@dataclass(frozen=True, eq=False)
class Tape:
    """The record of one run, indexed by what can be asked."""

    trajectory: Trajectory
    calls: tuple[RecordedCall, ...]
    prompts: tuple[RecordedPrompt, ...]
    contracts: Mapping[str, Contract]
    """The recorded contract of each tool."""
    parameters: Mapping[str, tuple[str, ...]]
    """The names of the parameters of each tool whose signature was recorded."""
    by_tool: Mapping[str, tuple[int, ...]]
    by_key: Mapping[tuple[str, str], tuple[int, ...]]
    """(tool, digest of the arguments) → places on the tape, in recorded order."""
    beneath: Mapping[str, tuple[int, ...]]
    """``event_id`` of a call → places of all calls it covers, at any depth."""
    prompts_beneath: Mapping[str, tuple[int, ...]]
    """``event_id`` of a call → places of all model calls that it covers."""
    counted_writes: frozenset[str]
    """The successful writes that the write sets of this record speak of."""
    _mints: Mapping[tuple[str, str, int], JsonValue] = field(repr=False)
    _effects: Mapping[str, Effect] = field(repr=False)
    _by_event: Mapping[str, RecordedCall] = field(repr=False)

    @classmethod
    def of(cls, trajectory: Trajectory) -> Self:
        """Index ``trajectory``."""
        made = (*trajectory.calls, *trajectory.covered)
        contracts = _contracts(made, trajectory.tools)
        parameters = {
            tool: tuple(parameter.name for parameter in contract.parameters)
            for tool, contract in contracts.items()
            if contract.parameters is not None
        }
        calls = tuple(_recorded(made, contracts, parameters))
        return cls(
            trajectory=trajectory,
            calls=calls,
            prompts=tuple(
                RecordedPrompt(index, model) for index, model in enumerate(trajectory.model_calls)
            ),
            contracts=contracts,
            parameters=parameters,
            by_tool=_grouped((c.call.tool, c.index) for c in calls),
            by_key=_grouped(((c.call.tool, c.key), c.index) for c in calls),
            beneath=_grouped(_coverage(calls, ((c.call.covered_by, c.index) for c in calls))),
            prompts_beneath=_grouped(
                _coverage(
                    calls,
                    ((m.covered_by, place) for place, m in enumerate(trajectory.model_calls)),
                )
            ),
            counted_writes=frozenset(
                c.call.event_id for c in calls if c.changed_the_world and c.call.covered_by is None
            ).union(WriteSet.union(c.call.write_set for c in calls)),
            _mints={(m.kind, m.site, m.occurrence): m.value for m in trajectory.mints},
            _effects=_effects(calls),
            _by_event={c.call.event_id: c for c in calls},
        )

    @cached_property
    def changed_by_bodies(self) -> tuple[RecordedCall, ...]:
        """The calls whose bodies changed something of whose call it was."""
        return tuple(one for one in self.calls if one.call.body_changed)

    def effect(self, tool: str) -> Effect | None:
        """Return the most harmful effect recorded for ``tool``; None where it was never called."""
        return self._effects.get(tool)

    def declared(self, tool: str) -> Contract | None:
        """Return the contract that the calls of ``tool`` carry; write sets were made by that."""
        places = self.by_tool.get(tool, ())
        return self.calls[places[0]].call.contract if places else None

    def mint(self, kind: str, site: str, occurrence: int) -> JsonValue | None:
        """Return the value that the recorded run was given there, if it was given one."""
        return self._mints.get((kind, site, occurrence))

    def find(self, event_id: str) -> RecordedCall | None:
        """Return the call of that event."""
        return self._by_event.get(event_id)


def is_servable(observation: Observation) -> bool:
    """Tell whether an observation is kept well enough to be given to a planner.

    A described, redacted-away or cut value is not what came back; an error is, by class and text.
    """
    if observation.state == "captured":
        return True
    return observation.is_error and bool(observation.error_type or observation.error_message)


def prompt_key(prompt: JsonValue) -> str | None:
    """Digest a prompt without the name of the model, which is compared by itself."""
    if prompt is None:
        return None
    if isinstance(prompt, dict):
        return digest({name: value for name, value in prompt.items() if name != "model"})
    return digest(prompt)


def _contracts(calls: Sequence[Call], offered: Iterable[Contract]) -> dict[str, Contract]:
    """Take a tool's contract from its calls; from what was offered where those carry none."""
    found: dict[str, Contract] = {}
    for call in calls:
        if call.tool not in found and call.contract is not None:
            found[call.tool] = call.contract
    for contract in offered:
        found.setdefault(contract.name, contract)
    return found


def _recorded(
    calls: Sequence[Call],
    contracts: Mapping[str, Contract],
    parameters: Mapping[str, tuple[str, ...]],
) -> Iterator[RecordedCall]:
    racing = _racing(calls)
    for index, call in enumerate(calls):
        contract = contracts.get(call.tool)
        arguments = as_compared(call.arguments, call.argument_types)
        if (
            contract is not None
            and isinstance(arguments, dict)
            and tuple(arguments) != parameters.get(call.tool)  # it is not spelt as declared
        ):
            arguments = contract.normalise(arguments)
        arguments = set_apart(arguments, call.contract or contract, contract)
        yield RecordedCall(
            index=index,
            call=call,
            contract=contract,
            arguments=arguments,
            key=digest(arguments),
            racing=racing.get(call.event_id, frozenset()),
            described=described_parts(call.arguments, call.argument_state),
        )


def set_apart(
    arguments: JsonValue, declared: Contract | None, recorded: Contract | None
) -> JsonValue:
    """Set apart what arguments say in a place where calls say whose they are: no receiver is that.

    However like the record of an object it looks, an argument is given by whoever calls.

    Args:
        arguments: Those of a call.
        declared: The contract that it was made by.
        recorded: The recorded contract of its tool.
    """
    if not isinstance(arguments, dict) or declared is None or recorded is None:
        return arguments
    if declared.parameters is None or recorded.parameters is None:
        return arguments
    taken = (_TELLING | recorded.receivers) - declared.receivers
    keywords = {p.name for p in declared.parameters if p.kind == "kwargs"}
    apart: dict[str, JsonValue] = {}
    for name, value in arguments.items():
        if isinstance(value, dict) and (name in taken or name in keywords):
            apart[name] = {ARGUMENT: value} if name in taken else _inside(value, taken)
    return {**arguments, **apart} if apart else arguments


def _inside(keywords: Mapping[str, JsonValue], taken: frozenset[str]) -> JsonValue:
    return {
        name: {ARGUMENT: value} if name in taken and isinstance(value, dict) else value
        for name, value in keywords.items()
    }


def _effects(calls: Sequence[RecordedCall]) -> dict[str, Effect]:
    found: dict[str, Effect] = {}
    for recorded in calls:
        effect = recorded.call.effect
        known = found.setdefault(recorded.call.tool, effect)
        if effect != known:
            found[recorded.call.tool] = min(known, effect, key=_HARM.index)
    return found


def _racing(calls: Sequence[Call]) -> dict[str, frozenset[str]]:
    """Find for each call the writes that overlapped it in time."""
    if not any(call.writes for call in calls):
        return {}
    timed = sorted(
        (c.ts_start_ns, c.ts_end_ns, place)
        for place, c in enumerate(calls)
        if c.ts_start_ns is not None and c.ts_end_ns is not None
    )
    found: defaultdict[str, set[str]] = defaultdict(set)
    under_way: list[tuple[int, int]] = []
    for start, end, place in timed:
        under_way = [(other, until) for other, until in under_way if until > start]
        for other, _ in under_way:
            _note_race(found, calls[other], calls[place])
            _note_race(found, calls[place], calls[other])
        under_way.append((place, end))
    return {event: frozenset(writes) for event, writes in found.items()}


def _note_race(found: defaultdict[str, set[str]], write: Call, call: Call) -> None:
    if write.writes and not write.observation.is_error and write.event_id not in call.write_set:
        found[call.event_id].add(write.event_id)


def _coverage(
    calls: Sequence[RecordedCall], edges: Iterable[tuple[str | None, int]]
) -> Iterator[tuple[str, int]]:
    """Yield (event id of a call, place of what stands beneath it), at any depth."""
    inner = [edge for edge in edges if edge[0] is not None]
    above = {c.call.event_id: c.call.covered_by for c in calls} if inner else {}
    for parent, place in inner:
        seen: set[str] = set()
        while parent is not None and parent not in seen:
            yield parent, place
            seen.add(parent)
            parent = above.get(parent)


def _grouped(pairs: Iterable[tuple[K, int]]) -> dict[K, tuple[int, ...]]:
    found: defaultdict[K, list[int]] = defaultdict(list)
    for key, place in pairs:
        found[key].append(place)
    return {key: tuple(places) for key, places in found.items()}

"""A case on its way: what a run holds, in the form of a case, and where each part came from.

A draft changes only by leaving parts out, so whatever a reduction arrives at was in the run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from replay.case import (
    Case,
    Fault,
    Fixture,
    Minted,
    ModelScript,
    ProposedCall,
    Reply,
    Said,
    ScriptedDecision,
    Source,
)
from replay.oracles.keys import Keys
from replay.tape_answers import history_of
from tracekit.canonical import JsonValue, json_text
from tracekit.contract import Contract
from tracekit.receivers import CLASS
from tracekit.redact import KEY_ATTRIBUTE
from tracekit.trajectory import Call, Message, Trajectory

Place = tuple[str, str]
"""Kind and name of a value that can shrink: ``("observation", "git_star")``."""
Kind = Literal["decide", "agent", "function"]


@dataclass(frozen=True, slots=True)
class Slot:
    """A value of a draft that can shrink."""

    place: Place
    value: JsonValue
    types: Mapping[str, JsonValue]
    may_vanish: bool
    """Whether nothing at all may be left of it."""


@dataclass(frozen=True)
class Draft:
    """A case that may still shrink."""

    case: Case
    """Without what is expected."""
    numbers: tuple[int, ...]
    """The recorded decision behind each entry of the case's script."""
    spoken: tuple[int, ...]
    """The recorded decision after which the user said each of the case's turns."""
    seen: Mapping[str, int]
    """Observation → number of the recorded decision that it answered."""
    asked: Mapping[str, JsonValue]
    """Observation → the arguments that it answered in the run, as its fixture asks for them."""
    writes: frozenset[str]
    """Tools that may write."""
    schemas: Mapping[str, Mapping[str, JsonValue]]
    """Tool → schema of what it returns, where it is declared."""

    @property
    def size(self) -> int:
        """How much there is to read: bytes of everything a planner is shown, and one a part."""
        data = self.case.as_data()
        return len(json_text(data).encode())

    @property
    def shown(self) -> int:
        """Bytes of the observations."""
        return sum(
            len(json_text(f.returns if f.error is None else f.error.message).encode())
            for f in self.case.observations
        )

    def fixture(self, name: str) -> Fixture:
        """The observation of that id."""
        return next(fixture for fixture in self.case.observations if fixture.id == name)

    def slots(self) -> Iterator[Slot]:
        """Yield every value that can shrink."""
        for fixture in self.case.observations:
            if fixture.error is None:
                place = ("observation", fixture.id)
                yield Slot(place, fixture.returns, fixture.types, may_vanish=True)
            elif fixture.error.message is not None:
                yield Slot(("error", fixture.id), fixture.error.message, {}, may_vanish=False)
        if self.case.input is not None:
            yield Slot(("input", ""), self.case.input, self.case.input_types, may_vanish=False)
        for at, said in enumerate(self.case.history):
            if said.content is not None:
                yield Slot(("history", str(at)), said.content, {}, may_vanish=False)
        for at, reply in enumerate(self.replies):
            yield Slot(("reply", str(at)), reply.value, {}, may_vanish=True)
        for at, turn in enumerate(self.case.turns):
            yield Slot(("turn", str(at)), turn, {}, may_vanish=False)
        for number, decision in zip(self.numbers, self.case.script, strict=True):
            if decision.message is not None:
                yield Slot(("script", str(number)), decision.message, {}, may_vanish=False)

    def with_value(self, place: Place, value: JsonValue, types: Mapping[str, JsonValue]) -> Draft:
        """Give the draft with another value at ``place``."""
        kind, name = place
        match kind:
            case "input":
                return self.but(input=value, input_types=dict(types))
            case "history":
                return self.but(history=_with(self.case.history, int(name), content=value))
            case "reply":
                return self.with_replies(_with(self.replies, int(name), value=value))
            case "turn":
                turns = list(self.case.turns)
                turns[int(name)] = value
                return self.but(turns=tuple(turns))
            case "script":
                at = self.numbers.index(int(name))
                return self.but(script=_with(self.case.script, at, message=value))
            case _:
                return self._with_observation(kind, name, value, types)

    def _with_observation(
        self, kind: str, name: str, value: JsonValue, types: Mapping[str, JsonValue]
    ) -> Draft:
        fixture = self.fixture(name)
        at = self.case.observations.index(fixture)
        if kind == "error":
            assert fixture.error is not None
            changed: dict[str, Any] = {"error": fixture.error.model_copy(update={"message": value})}
        else:
            changed = {"returns": value, "types": dict(types)}
        return self.but(observations=_with(self.case.observations, at, **changed))

    def but(self, **fields: Any) -> Draft:
        """Give the draft with other fields in its case."""
        return replace(self, case=self.case.model_copy(update=fields))

    @property
    def replies(self) -> tuple[Reply, ...]:
        """What the recorded model answers."""
        return self.case.model.replies if isinstance(self.case.model, ModelScript) else ()

    def with_replies(self, replies: tuple[Reply, ...]) -> Draft:
        """Give the draft with other replies; without any there is no model."""
        return self.but(model=ModelScript(replies=replies) if replies else None)

    @property
    def nothing(self) -> Draft:
        """The draft without all that was seen, decided and replied: the first request alone."""
        return self.with_turns([]).with_script([]).with_replies(()).but(observations=())

    def with_turns(self, places: Collection[int]) -> Draft:
        """Give the draft with these of its turns only."""
        kept = sorted(places)
        changed = self.but(turns=tuple(self.case.turns[at] for at in kept))
        return replace(changed, spoken=tuple(self.spoken[at] for at in kept))

    def with_script(self, kept: list[tuple[int, ScriptedDecision]]) -> Draft:
        """Give the draft with another script."""
        changed = self.but(script=tuple(decision for _, decision in kept))
        return replace(changed, numbers=tuple(number for number, _ in kept))


def _with(items: tuple[Any, ...], at: int, **fields: Any) -> tuple[Any, ...]:
    return (*items[:at], items[at].model_copy(update=fields), *items[at + 1 :])


def draft_of(
    record: Trajectory, *, kind: Kind, layer: Any = None, model: Any = None, limits: Any = None
) -> Draft:
    """Turn a run into a draft that holds all of it."""
    deciding = kind == "decide"
    opening = history_of(record) if deciding else []
    words = _said(opening[0]).content if len(opening) == 1 else None
    turns = _turns(record) if deciding else []
    spoken = _Spoken(record, deciding=deciding)
    fixtures, seen = _fixtures(record, spoken)
    script = tuple(_scripted(record, spoken)) if deciding else ()
    key = record.attributes.get(KEY_ATTRIBUTE)
    case = Case.model_construct(
        format="tracekit/case/v1",
        name=record.agent or "case",
        source=Source(redaction_key=key) if isinstance(key, str) else None,
        layer=layer,
        model=model,
        input=words if deciding else record.input.value,
        input_types={} if deciding else dict(record.input.types),
        history=tuple(_said(message) for message in opening) if len(opening) > 1 else (),
        turns=tuple(turn.content for turn in turns),
        identity=_identity(record),
        clock=_moment(record.ts_start_ns),
        minted=tuple(Minted(**_mint(mint)) for mint in record.mints),
        tools=record.tools,
        script=script,
        observations=fixtures,
    )
    contracts = {contract.name: contract for contract in record.tools}
    return Draft(
        case=case,
        numbers=tuple(decision.index for decision in record.decisions) if deciding else (),
        spoken=tuple(turn.before_decision - 1 for turn in turns),
        seen=seen,
        asked={fixture.id: fixture.arguments for fixture in fixtures},
        writes=frozenset(_writing(record, contracts)),
        schemas={n: c.result_schema for n, c in contracts.items() if c.result_schema},
    )


def _identity(record: Trajectory) -> dict[str, str]:
    named = (("tenant", record.tenant), ("operator", record.operator))
    return {name: value for name, value in named if value}


def _turns(record: Trajectory) -> list[Message]:
    """What the user said after the first time, and something followed."""
    last = len(record.decisions)
    return [m for m in record.messages if m.role == "user" and 1 < m.before_decision <= last]


def _writing(record: Trajectory, contracts: Mapping[str, Contract]) -> Iterator[str]:
    yield from (name for name, contract in contracts.items() if contract.writes)
    yield from (call.tool for call in record.calls if call.writes)


class _Spoken:
    """The arguments of calls as a case has them: whose a call is only where it matters.

    That is where calls of one tool are several objects', and of each write; a planner that decides
    says it of none. The class of an object matters only beside another one.
    """

    def __init__(self, record: Trajectory, *, deciding: bool) -> None:
        self._deciding = deciding
        self._contracts = {contract.name: contract for contract in record.tools}
        self._values: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        self._calls = Counter(call.tool for call in record.calls)
        for call in record.calls:
            for name, field, value in self._whose(call):
                self._values[call.tool, name, field].append(json_text(value))

    def _whose(self, call: Call) -> Iterator[tuple[str, str, JsonValue]]:
        contract = call.contract or self._contracts.get(call.tool)
        for name in sorted(contract.receivers) if contract is not None else ():
            told = call.arguments.get(name) if isinstance(call.arguments, dict) else None
            for field, value in told.items() if isinstance(told, dict) else ():
                yield name, field, value

    def arguments(self, call: Call) -> JsonValue:
        """Give the arguments of a call that its fixture asks for."""
        contract = call.contract or self._contracts.get(call.tool)
        if contract is None or not contract.receivers or not isinstance(call.arguments, dict):
            return call.arguments
        said = contract.said(call.arguments)
        kept: dict[str, Any] = defaultdict(dict)
        for name, field, value in self._whose(call):
            values = self._values[call.tool, name, field]
            several = len(set(values)) > 1 or len(values) < self._calls[call.tool]
            if not self._deciding and (several or (call.writes and field != CLASS)):
                kept[name][field] = value
        return {**kept, **said}


def _fixtures(record: Trajectory, spoken: _Spoken) -> tuple[tuple[Fixture, ...], dict[str, int]]:
    calls = [call for call in record.calls if call.observation.state == "captured"]
    keys = Keys.of_run(record)
    last: dict[tuple[str, str], str] = {}
    for call in calls:
        last[call.tool, json_text(call.arguments)] = call.event_id
    total = Counter(call.tool for call in calls)
    count: dict[str, int] = defaultdict(int)
    fixtures, seen = [], {}
    for call in calls:
        count[call.tool] += 1
        name = call.tool if total[call.tool] == 1 else f"{call.tool}-{count[call.tool]}"
        repeats = not call.writes and last[call.tool, json_text(call.arguments)] == call.event_id
        # Which key a write carries does not count: what must be of them, the oracles say.
        asked = keys.said(call.tool, spoken.arguments(call))
        fixtures.append(_fixture(call, name, asked, repeats=repeats))
        seen[name] = call.decision
    return tuple(fixtures), seen


def _fixture(call: Call, name: str, arguments: JsonValue, *, repeats: bool) -> Fixture:
    """One observation; the last one of a read answers however often it is asked again."""
    observed = call.observation
    given: dict[str, Any] = {
        "id": name,
        "tool": call.tool,
        "arguments": arguments if isinstance(arguments, dict) and arguments else None,
        "delay_ms": round((call.latency_ns or 0) / 1e6, 3),
        "types": dict(observed.types),
    }
    if repeats:
        given["times"] = "every"
    if observed.is_error:
        given["error"] = Fault(
            type=observed.error_type or "error",
            message=observed.error_message,
            value=observed.value,
        )
    else:
        given["returns"] = observed.value
    return Fixture(**given)


def _scripted(record: Trajectory, spoken: _Spoken) -> Iterator[ScriptedDecision]:
    for decision in record.decisions:
        yield ScriptedDecision(
            calls=tuple(
                ProposedCall(tool=call.tool, arguments=arguments)
                for call in decision.calls
                if isinstance(arguments := spoken.arguments(call), dict)
            ),
            message=decision.message,
        )


def _said(message: Any) -> Said:
    return Said(role=message["role"], content=message["content"])


def _mint(mint: Any) -> dict[str, Any]:
    return {
        "kind": mint.kind,
        "site": mint.site,
        "occurrence": mint.occurrence,
        "value": mint.value,
    }


def _moment(time_ns: int | None) -> datetime | None:
    return None if time_ns is None else datetime.fromtimestamp(time_ns / 1e9, UTC)

"""Small recordings for the tests of tape and matching."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from replay.matching import Answer, AskedCall, Player, Policies
from replay.tape import Tape
from tracekit.canonical import JsonValue
from tracekit.contract import Contract, Parameter
from tracekit.events import Effect
from tracekit.trajectory import Call, Decision, Mint, ModelCall, Observation, Trajectory

SECOND = 1_000_000_000


def seen(value: JsonValue) -> Observation:
    return Observation(value=value, state="captured")


def call(tool: str, effect: Effect = "read", result: JsonValue = "ok", /, **arguments: Any) -> Call:
    """A recorded call; its event id is given when it is put on a tape."""
    return Call(
        event_id="",
        span_id="",
        tool=tool,
        arguments=arguments,
        effect=effect,
        observation=seen(result),
    )


def failed(tool: str, effect: Effect = "read", /, **arguments: Any) -> Call:
    error = Observation(is_error=True, error_type="Timeout", error_message="deadline exceeded")
    return replace(call(tool, effect, **arguments), observation=error)


def record(
    *decisions: Call | Sequence[Call],
    covered: Sequence[Call] = (),
    prompts: Sequence[ModelCall] = (),
    mints: Sequence[Mint] = (),
    tools: Sequence[Contract] = (),
) -> Trajectory:
    """A trajectory whose calls are named e1, e2 … and whose write sets are filled in.

    Decisions are made one after the other; the calls of one decision at the same time.
    """
    made: list[Decision] = []
    writes: list[Call] = []
    number = 0
    for index, step in enumerate(decisions, 1):
        calls = []
        for position, one in enumerate((step,) if isinstance(step, Call) else step):
            number += 1
            calls.append(
                replace(
                    one,
                    event_id=one.event_id or f"e{number}",
                    decision=index,
                    position=position,
                    write_set=_writes_before(writes, one),
                    ts_start_ns=index * SECOND,
                    ts_end_ns=index * SECOND + SECOND // 2,
                )
            )
        made.append(Decision(index, calls=tuple(calls)))
        writes += filter(_succeeded, calls)
    return Trajectory(
        run_id="run-1",
        agent="sre",
        input=seen({"question": "why"}),
        decisions=tuple(made),
        answer=seen("because"),
        status="ok",
        covered=tuple(covered),
        model_calls=tuple(prompts),
        mints=tuple(mints),
        tools=tuple(tools),
    )


def _writes_before(writes: Sequence[Call], call: Call) -> frozenset[str]:
    return frozenset(w.event_id for w in writes if _share(w.contract, call.contract))


def _succeeded(call: Call) -> bool:
    return call.writes and not call.observation.is_error and not call.refused


def _share(left: Contract | None, right: Contract | None) -> bool:
    return left is None or right is None or left.shares_resource(right)


def player(trajectory: Trajectory, **policies: Any) -> Player:
    return Player(Tape.of(trajectory), Policies(**policies))


def asked(tool: str, effect: Effect = "read", /, **arguments: Any) -> AskedCall:
    return AskedCall(tool=tool, arguments=arguments, effect=effect)


def again(call: Call, **changes: Any) -> AskedCall:
    """The asked call that repeats a recorded one."""
    assert isinstance(call.arguments, dict)
    same = AskedCall(
        tool=call.tool,
        arguments=call.arguments,
        effect=call.effect,
        contract=call.contract,
        path=call.path,
    )
    return replace(same, **changes)


def value(answer: Answer) -> JsonValue:
    assert answer.observation is not None
    return answer.observation.value


def contract(
    name: str, effect: Effect, *parameters: str, defaults: dict[str, Any] | None = None, **more: Any
) -> Contract:
    optional = defaults or {}
    return Contract(
        name=name,
        effect=effect,
        parameters=(
            *(Parameter(name=p) for p in parameters),
            *(Parameter(name=p, required=False, default=d) for p, d in optional.items()),
        ),
        **more,
    )

"""Small trajectories for the tests of oracles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from replay.oracles import Outcome
from tracekit.canonical import JsonValue
from tracekit.trajectory import Call, Decision, ModelCall, Observation, Trajectory


def seen(value: JsonValue) -> Observation:
    return Observation(value, "captured")


def call(tool: str, result: JsonValue = "ok", /, *, error: str | None = None, **given: Any) -> Call:
    failed = Observation(is_error=True, error_type=error, error_message="failed")
    return Call("", "", tool, given, "read", failed if error else seen(result))


def outcome(
    *steps: Call | Sequence[Call], answer: JsonValue = "done", asked: JsonValue = None, **more: Any
) -> Outcome:
    """A run of one decision for each step; calls in a list are made together."""
    decisions = []
    for number, step in enumerate(steps, 1):
        together = [step] if isinstance(step, Call) else step
        calls = tuple(
            Call(
                **{
                    **{name: getattr(one, name) for name in one.__slots__},
                    "event_id": f"e{number}.{place}",
                    "decision": number,
                    "position": place,
                }
            )
            for place, one in enumerate(together)
        )
        decisions.append(Decision(number, calls, model_call="m1" if number == 1 else None))
    if answer is not None:
        decisions.append(Decision(len(steps) + 1, message=answer, final=True))
    reply = ModelCall("m1", "m1", None, None, seen(asked))
    run = Trajectory(
        run_id="r",
        agent="a",
        input=seen("x"),
        decisions=tuple(decisions),
        answer=Observation() if answer is None else seen(answer),
        status="ok",
        model_calls=(reply,) if asked is not None else (),
    )
    return Outcome(run, **more)

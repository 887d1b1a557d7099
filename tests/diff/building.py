"""Short ways to write trajectories for tests of the comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from replay.diff import Comparison, diff
from tracekit.assembly import build
from tracekit.contract import Contract, Matchers
from tracekit.events import Event
from tracekit.importers import IMPORTERS, ImportOptions, load_effects
from tracekit.trajectory import Call, Decision, Message, Observation, Trajectory

TRACES = Path(__file__).parents[2] / "fixtures" / "traces"


def call(
    tool: str,
    arguments: dict[str, Any] | None = None,
    back: Any = None,
    *,
    effect: Any = "read",
    error: bool = False,
    policy: Any = None,
    evidence: tuple[str, ...] = (),
    touches: tuple[str, ...] | None = None,
    matchers: Matchers | None = None,
    idempotency_field: str | None = None,
) -> Call:
    """Write one call; its contract says no more than what is given here."""
    return Call(
        event_id=f"e-{tool}",
        span_id="s",
        tool=tool,
        arguments=dict(arguments or {}),
        effect=effect,
        observation=Observation(
            value=back,
            state="captured",
            is_error=error,
            error_type="ToolError" if error else None,
            error_message=str(back) if error else None,
        ),
        contract=Contract(
            name=tool,
            effect=effect,
            touches=touches,
            matchers=matchers or Matchers(),
            idempotency_field=idempotency_field,
        ),
        policy_decision=policy,
        evidence=evidence,
    )


def read(tool: str, arguments: dict[str, Any] | None = None, back: Any = None, **more: Any) -> Call:
    return call(tool, arguments, back, effect="read", **more)


def write(
    tool: str, arguments: dict[str, Any] | None = None, back: Any = None, **more: Any
) -> Call:
    return call(tool, arguments, back, effect="write", **more)


def run(
    *decisions: Call | str | Sequence[Call],
    answer: Any = "done",
    status: str = "ok",
    run_id: str = "run-1",
    prompt: Any = "please",
    messages: tuple[Message, ...] = (),
    **more: Any,
) -> Trajectory:
    """Write a run: each argument is a decision, a call, calls issued together, or what it said."""
    made = []
    for index, given in enumerate(decisions, start=1):
        calls: tuple[Call, ...] = ()
        message = None
        if isinstance(given, str):
            message = given
        else:
            calls = (given,) if isinstance(given, Call) else tuple(given)
        placed = tuple(replace(c, decision=index, position=n) for n, c in enumerate(calls))
        made.append(Decision(index=index, calls=placed, message=message))
    return Trajectory(
        run_id=run_id,
        agent="agent",
        input=Observation(value={"prompt": prompt}, state="captured"),
        decisions=tuple(made),
        answer=Observation(value=answer, state="captured"),
        status=status,
        messages=messages,
        **more,
    )


def with_decisions(source: Trajectory, decisions: Sequence[Decision]) -> Trajectory:
    """Give the run other decisions, numbered anew."""
    numbered = []
    for index, decision in enumerate(decisions, start=1):
        calls = tuple(replace(c, decision=index, position=n) for n, c in enumerate(decision.calls))
        numbered.append(replace(decision, index=index, calls=calls))
    return replace(source, decisions=tuple(numbered))


def kinds(found: Comparison) -> list[tuple[str, str]]:
    """Name every divergence by kind and tool, ranked."""
    return [(one.kind, one.tool) for one in found.divergences]


def compare(left: Trajectory, right: Trajectory) -> Comparison:
    """Compare both ways round, and hold that the ways agree."""
    found, turned = diff(left, right), diff(right, left)
    assert found.distance == turned.distance
    assert len(found.divergences) == len(turned.divergences)
    return found


@cache
def imported(relative: str) -> tuple[Trajectory, ...]:
    """Read the runs of one committed trace."""
    path = TRACES / relative
    return runs_in(path, path.read_bytes())


def runs_in(path: Path, data: bytes) -> tuple[Trajectory, ...]:
    """Read the runs of a trace, as if it stood in a file of that name."""
    importer = next(one for one in IMPORTERS.values() if one.detect(path, data[:65536]))
    options = ImportOptions(effects=load_effects("agentdyn"))
    runs = []
    for batch in importer.read(path, data, options):
        blobs = {blob.digest: blob for blob in batch.blobs}
        rows: dict[str, list[Event]] = {}
        for event in batch.events:
            rows.setdefault(event.run_id, []).append(event)
        runs += [build(events, blobs.get) for events in rows.values()]
    return tuple(runs)

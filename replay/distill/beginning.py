"""Where a reduction begins: the whole run as a draft, and who answers its prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from replay.case import Case, ModelScript, Reply, Source
from replay.case.remembering import placeholders_in
from replay.case.retaken import as_recorded_today, placeholders_of
from replay.case.schema import same
from replay.case.today import named_values
from replay.declared import Declared, relevant, shape_of
from replay.diff.arguments import came_back
from replay.distill.draft import Draft, draft_of
from replay.recording import short_digest
from replay.replayer import importable
from tracekit.canonical import JsonValue
from tracekit.errors import DistillError
from tracekit.redact import KEY_ATTRIBUTE, Redactor
from tracekit.trajectory import Trajectory


def check_reference(record: Trajectory, reference: Trajectory) -> None:
    """Refuse a run that shows nothing of what is right: one of another task.

    Raises:
        DistillError: their task ids differ; or, where one has none, what they were asked.
    """
    said = f"run {reference.run_id} is of another task than run {record.run_id}"
    tasks = (record.task_id, reference.task_id)
    if None not in tasks:
        if tasks[0] != tasks[1]:
            raise DistillError(
                f"{said}: {tasks[1]!r}, not {tasks[0]!r}",
                hint="--reference names a run of the same task that went right",
            )
    elif not same(came_back(record.input), came_back(reference.input)):
        raise DistillError(
            f"{said}: it was asked something else, and {_without_task(record, reference)} no task",
            hint="--reference names a run of the same task that went right; "
            "runs say their task with tracekit.run(task=...)",
        )


def _without_task(record: Trajectory, reference: Trajectory) -> str:
    lacking = [run.run_id for run in (record, reference) if run.task_id is None]
    return f"run {lacking[0]} names" if len(lacking) == 1 else "they name"


def whole_run(
    record: Trajectory, *, deciding: bool, model: str, script: str | None, redactor: Redactor
) -> tuple[Draft, list[str]]:
    """Return the run as a draft, and what its user should know of it.

    Args:
        record: The run.
        deciding: Whether the planner decides on a history, and is not the agent itself.
        model: ``recorded``, ``live`` or ``scripted``.
        script: ``MOD:OBJ`` of the function that answers, for ``scripted``.
        redactor: The planner's: what it takes is taken before anything is left out.

    Raises:
        DistillError: a rule of redaction fails.
    """
    remarks: list[str] = []
    record = as_recorded_today(record, redactor)
    chosen: Any = None
    if model == "live":
        chosen = "live"
    elif model == "scripted":
        chosen = ModelScript(script=script)
    elif not deciding and (replies := _replies(record)):
        chosen = ModelScript(replies=replies)
        remarks.append(
            "the model is the recorded one, which answers recorded prompts only, so nothing "
            "inside what it is shown can be left out: use --model live or --model scripted"
        )
    draft = draft_of(
        record, kind="decide" if deciding else "agent", layer=_layer(chosen), model=chosen
    )
    return draft, remarks


def source_of(
    record: Trajectory, case: Case, *, planner: str | None, declared: Declared, key: str | None
) -> Source:
    """Say where a case comes from, and by what it can be told that the code has outgrown it.

    The tools are those that it answers, and those that it only names, as one never called.
    """
    contracts = {contract.name: contract for contract in record.tools}
    contracts |= {call.tool: call.contract for call in record.calls if call.contract is not None}
    shapes = {**declared.tools, **{name: shape_of(one) for name, one in contracts.items()}}
    named = sorted({fixture.tool for fixture in case.observations} & contracts.keys())
    named += [tool for tool in case.expected.tools if tool not in named]
    known = {name: shape for name in named if (shape := shapes.get(name)) is not None}
    declares = any(contract.parameters is not None for contract in contracts.values())
    return Source(
        run=record.run_id,
        digest=short_digest(record),
        redaction_key=key,
        planner=planner,
        versions=relevant(record.versions),
        tools=known if declares else {},  # of imported runs no code declares the tools
    )


def key_of_case(case: Case, runs: Sequence[Trajectory], redactor: Redactor) -> str | None:
    """Name the key of the placeholders that are expected; None where they have no one key.

    Args:
        case: What is expected.
        runs: What it is made of, as recorded. Their placeholders are of the key that they name.
        redactor: Who took from them what today's rules take, with the user's key.
    """
    named = placeholders_in(named_values(case.expected))
    keys: set[JsonValue] = set()
    for run in runs if named else ():
        if stood := named & placeholders_of(run):
            keys.add(run.attributes.get(KEY_ATTRIBUTE))
            named -= stood
    for run in runs if named else ():
        if made := named & placeholders_of(as_recorded_today(run, redactor)):
            keys.add(redactor.key_id)
            named -= made
    key = keys.pop() if len(keys) == 1 and not named else None
    return key if isinstance(key, str) else None


def _layer(model: Any) -> str:
    if model == "live":
        return "live model"
    if isinstance(model, ModelScript):
        return f"planner with {'scripted' if model.script else 'recorded'} model"
    return "planner"


def _replies(record: Trajectory) -> tuple[Reply, ...]:
    return tuple(
        Reply(value=model.reply.value, prompt=model.prompt_hash)
        for model in record.model_calls
        if model.covered_by is None and model.reply.state == "captured"
    )


def spec(planner: str | object) -> str | None:
    """Write a planner as ``MOD:OBJ``; None where it cannot be imported."""
    return planner if isinstance(planner, str) else importable(planner)

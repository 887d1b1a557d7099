"""What is said by hand: a run opened without a decorator, and the notes that a step may leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, get_args

from tracekit import configuration, integrations, otel
from tracekit.canonical import text_of
from tracekit.configuration import recorder
from tracekit.errors import UsageError
from tracekit.events import EvidenceNoted, PolicyDecision, PolicyNoted, StateNoted
from tracekit.interruption import warn_once
from tracekit.operations import Operation, as_tags, as_versions
from tracekit.recorder import Recorder
from tracekit.redact import Scope
from tracekit.steps import Step, Unrecorded, open_step, unrecorded

_DECISIONS: tuple[str, ...] = get_args(PolicyDecision)
_SHOWN = 40
"""So many characters are shown of what is no decision."""


@dataclass(frozen=True)
class OpenRun:
    """A run opened by hand."""

    run_id: str


@contextmanager
def run(
    *,
    name: str = "run",
    task: str | None = None,
    request: str | None = None,
    tenant: str | None = None,
    operator: str | None = None,
    tags: Sequence[str] = (),
    versions: Mapping[str, str] | None = None,
    run_id: str | None = None,
) -> Iterator[OpenRun]:
    """Open a run by hand, to name its task, tenant or operator.

    Args:
        name: Name of what runs.
        task: Id of the task.
        request: Id of the business request.
        tenant: On whose behalf.
        operator: Who is responsible; a pseudonym.
        tags: Tags to find it by.
        versions: Added to those of ``configure``.
        run_id: Chosen by the caller: 1 to 128 of ``A-Za-z0-9._-``; default a fresh one.
    """
    opened = _open_run(
        name,
        run_id=run_id,
        task_id=task,
        request_id=request,
        tenant=tenant,
        operator=operator,
        tags=tags,
        versions=versions,
    )
    try:
        with opened.active():
            yield OpenRun(opened.operation.run.run_id if isinstance(opened, Step) else "")
    except BaseException as error:
        opened.fail(error)
        raise
    opened.end_without_answer()


def _open_run(name: object, *, tags: object, versions: object, **fields: Any) -> Step | Unrecorded:
    """Open a run, whatever the program gave: in a program that records nothing, nobody reads it."""
    if configuration.off:
        return Unrecorded()
    try:
        own = recorder()
        integrations.instrument_loaded()
        fields |= {"versions": {**own.versions, **as_versions(versions)}, "tags": as_tags(tags)}
        return open_step(own, "run", "run" if name is None else text_of(name), None, **fields)
    except Exception as error:  # noqa: BLE001  # the traced program is never the victim
        return unrecorded(error)


def environment() -> dict[str, str]:
    """The variables by which a child process goes on with the step under way; none outside a run.

    Give them to a subprocess beside its own: its runs become children of this run, its bare calls
    and spans part of it.
    """
    step = _enclosing()
    if step is None:
        return {}
    return otel.environment(step.run.trace_id, step.span_id, step.run.run_id)


def _enclosing() -> Operation | None:
    """The step that what is noted here belongs to."""
    if configuration.off:
        return None
    try:
        return recorder().enclosing()
    except Exception as error:  # noqa: BLE001  # the traced program is never the victim
        unrecorded(error)
        return None


def policy(decision: PolicyDecision, *, rule: str | None = None, reason: str | None = None) -> None:
    """Note what a policy decided about the step under way."""
    _noting(lambda own: _note_policy(own, decision, rule, reason))


def _note_policy(own: Recorder, decision: object, rule: str | None, reason: str | None) -> None:
    known = str.__str__(decision) if isinstance(decision, str) else None
    if known in _DECISIONS:
        own.note(PolicyNoted, decision=known, policy_id=rule, reason=reason)
        return
    operation = own.enclosing()
    scope = Scope() if operation is None else operation.run.secrets
    shown = own.redactor.redact_text(text_of(decision), scope=scope)[:_SHOWN]
    where = "outside any run" if operation is None else f"in {operation.actor}"
    what = f"policy({shown!r}) {where} is no decision: give {', '.join(_DECISIONS)}"
    if operation is None:
        warn_once(what)
    else:
        own.note_fault(UsageError(what), operation)


def evidence(*evidence_ids: str) -> None:
    """Note evidence that the step under way cites."""
    _noting(lambda own: own.note(EvidenceNoted, evidence_ids=tuple(map(text_of, evidence_ids))))


def state(before: object, after: object) -> None:
    """Note the agent's state before and after the step under way."""
    _noting(lambda own: own.note(StateNoted, before=before, after=after))


def _noting(note: Callable[[Recorder], None]) -> None:
    if configuration.off:
        return
    try:
        note(recorder())
    except Exception as error:  # noqa: BLE001  # the traced program is never the victim
        unrecorded(error)

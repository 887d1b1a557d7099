"""A run with other values: as the redaction of today would have recorded it, or as it was said.

A rule may know a secret by what stands around it. Whoever leaves that out first, and asks for
secrets then, finds none: so a run is redacted whole, and its parts are what is left of that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from replay.case.remembering import placeholders_in
from tracekit.canonical import JsonValue
from tracekit.errors import DistillError
from tracekit.redact import Redactor, Scope
from tracekit.trajectory import Call, Decision, Observation, Trajectory

Change = Callable[[JsonValue], JsonValue]


def as_recorded_today(record: Trajectory, redactor: Redactor) -> Trajectory:
    """Return the run without what today's rules take.

    What one field of the run names a secret is one in all of it.

    Raises:
        DistillError: a rule fails, so that nobody knows what is a secret.
    """
    scope = Scope()

    def taken(value: JsonValue) -> JsonValue:
        found = redactor.redact(value, scope=scope)
        if found.failure is not None:
            raise DistillError(
                f"the run cannot be redacted by the rules of today: {found.failure}",
                hint="see TRACEKIT_REDACT",
            )
        return found.value

    record = with_values(record, taken)
    # What a later value told is looked for in the earlier ones, too.
    return with_values(record, taken) if scope.known else record


def placeholders_of(run: Trajectory) -> set[str]:
    """List the placeholders among the values of a run."""
    found: set[str] = set()

    def look(value: JsonValue) -> JsonValue:
        found.update(placeholders_in(value))
        return value

    with_values(run, look)
    return found


def with_values(record: Trajectory, change: Change) -> Trajectory:
    """Return the run with each value changed that was said, given or came back."""
    return replace(
        record,
        input=_observation(record.input, change),
        answer=_observation(record.answer, change),
        decisions=tuple(_decision(one, change) for one in record.decisions),
        messages=tuple(replace(m, content=change(m.content)) for m in record.messages),
        model_calls=tuple(
            replace(model, reply=_observation(model.reply, change)) for model in record.model_calls
        ),
        tenant=_text(record.tenant, change),
        operator=_text(record.operator, change),
    )


def _decision(decision: Decision, change: Change) -> Decision:
    calls = tuple(_call(call, change) for call in decision.calls)
    return replace(decision, calls=calls, message=change(decision.message))


def _call(call: Call, change: Change) -> Call:
    arguments = change(call.arguments)
    return replace(call, arguments=arguments, observation=_observation(call.observation, change))


def _observation(seen: Observation, change: Change) -> Observation:
    value = change(seen.value)
    return replace(seen, value=value, error_message=_text(seen.error_message, change))


def _text(text: str | None, change: Change) -> str | None:
    return None if text is None else str(change(text))

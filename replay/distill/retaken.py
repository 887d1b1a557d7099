"""A recorded run as the redaction of today would have recorded it, before any of it is left out.

A rule may know a secret by what stands around it. Whoever leaves that out first, and asks for
secrets then, finds none: so a run is redacted whole, and its parts are what is left of that.
"""

from __future__ import annotations

from dataclasses import replace

from tracekit.canonical import JsonValue
from tracekit.errors import DistillError
from tracekit.redact import Redactor, Scope
from tracekit.trajectory import Call, Decision, Observation, Trajectory


def as_recorded_today(record: Trajectory, redactor: Redactor) -> Trajectory:
    """Return the run without what today's rules take.

    What one field of the run names a secret is one in all of it.

    Raises:
        DistillError: a rule fails, so that nobody knows what is a secret.
    """
    taking = _Taking(redactor)
    record = taking.run(record)
    if taking.scope.known:  # what a later value told is looked for in the earlier ones, too
        record = taking.run(record)
    return record


class _Taking:
    def __init__(self, redactor: Redactor) -> None:
        self.scope = Scope()
        self._redactor = redactor

    def run(self, record: Trajectory) -> Trajectory:
        return replace(
            record,
            input=self._observation(record.input),
            answer=self._observation(record.answer),
            decisions=tuple(map(self._decision, record.decisions)),
            messages=tuple(replace(m, content=self._value(m.content)) for m in record.messages),
            model_calls=tuple(
                replace(model, reply=self._observation(model.reply)) for model in record.model_calls
            ),
            tenant=self._text(record.tenant),
            operator=self._text(record.operator),
        )

    def _decision(self, decision: Decision) -> Decision:
        calls = tuple(map(self._call, decision.calls))
        return replace(decision, calls=calls, message=self._value(decision.message))

    def _call(self, call: Call) -> Call:
        arguments = self._value(call.arguments)
        return replace(call, arguments=arguments, observation=self._observation(call.observation))

    def _observation(self, seen: Observation) -> Observation:
        value = self._value(seen.value)
        return replace(seen, value=value, error_message=self._text(seen.error_message))

    def _text(self, text: str | None) -> str | None:
        return None if text is None else str(self._value(text))

    def _value(self, value: JsonValue) -> JsonValue:
        found = self._redactor.redact(value, scope=self.scope)
        if found.failure is not None:
            raise DistillError(
                f"the run cannot be redacted by the rules of today: {found.failure}",
                hint="see TRACEKIT_REDACT",
            )
        return found.value

"""What a framework is running right now, so that one call is one step.

A framework's tool or model may reach its body through several recorded methods (``super()``, async
by way of sync), and a framework's model asks through a client that is recorded by itself. Whoever
opens a step says so here; what happens inside for the same call is not another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any

from tracekit.steps import Step

_inside: ContextVar[object] = ContextVar("tracekit_framework_call", default=None)
_model: ContextVar[bool] = ContextVar("tracekit_framework_model", default=False)


def inside(subject: object) -> bool:
    """Whether a call of ``subject`` is what is being run here."""
    return _inside.get() is subject


def in_model() -> bool:
    """Whether a framework's model is being run here, so that its client needs no step."""
    return _model.get()


@contextmanager
def entering() -> Iterator[None]:
    """Take what begins here as a new call, whatever runs around it."""
    with _set(_inside, None), _set(_model, False):  # noqa: FBT003  # the value that is set
        yield


@dataclass
class FrameworkStep(Step):
    """A step that says of what it is the call."""

    subject: Any = None

    @classmethod
    def of(cls, step: Step, subject: object) -> FrameworkStep:
        """Make ``step`` the step of a call of ``subject``."""
        return cls(step.recorder, step.operation, step.outcome, step.fields, subject=subject)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Make the step the parent of what runs inside, and keep that from being a call again."""
        model = self.operation.kind == "llm_call"
        with super().active(), _set(_inside, self.subject), _set(_model, model):
            yield


@contextmanager
def _set(variable: ContextVar[Any], value: object) -> Iterator[None]:
    token: Token[Any] = variable.set(value)
    try:
        yield
    finally:
        # Left in another context than it was entered in: that one stays as it is.
        with suppress(ValueError):
            variable.reset(token)

"""What frameworks share: their classes taken hold of, and one call kept to be one step.

A framework's tool or model may reach its body through several recorded methods (``super()``, async
by way of sync), and a framework's model asks through a client that is recorded by itself. Whoever
opens a step says so here; what happens inside for the same call is not another one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass, fields
from typing import Any, Self

from tracekit.steps import Step

_MARK = "__tracekit_instrumented__"
_inside: ContextVar[object] = ContextVar("tracekit_framework_call", default=None)
_asked_as: ContextVar[str | None] = ContextVar("tracekit_framework_call_id", default=None)
_model: ContextVar[bool] = ContextVar("tracekit_framework_model", default=False)


def inside(subject: object) -> bool:
    """Whether a call of ``subject`` is what is being run here."""
    return _inside.get() is subject


def in_model() -> bool:
    """Whether a framework's model is being run here, so that its client needs no step."""
    return _model.get()


def asked_as() -> str | None:
    """The id under which a model asked for the call that begins here, if one did."""
    return _asked_as.get()


@contextmanager
def entering(*, asked_as: str | None = None) -> Iterator[None]:
    """Take what begins here as a new call, whatever runs around it.

    Args:
        asked_as: The id under which a model asked for it.
    """
    with _set(_inside, None), _set(_model, value=False), _set(_asked_as, asked_as):
        yield


@dataclass
class FrameworkStep(Step):
    """A step that says of what it is the call."""

    subject: Any = None

    @classmethod
    def of(cls, step: Step, subject: object) -> Self:
        """Make ``step`` the step of a call of ``subject``."""
        given = {one.name: getattr(step, one.name) for one in fields(step)}
        return cls(**given, subject=subject)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Make the step the parent of what runs inside, and keep that from being a call again."""
        model = self.operation.kind == "llm_call"
        inner = _set(_inside, self.subject), _set(_model, model), _set(_asked_as, None)
        with super().active(), inner[0], inner[1], inner[2]:
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


def wrap_methods(
    base: Any, names: Sequence[str], wrapped: Callable[[str, Callable[..., Any]], Any]
) -> None:
    """Replace the methods of those names in every subclass of ``base``, now and in future.

    Args:
        base: The class; its own methods stay, they lead to those of a subclass.
        names: The methods.
        wrapped: Makes the new method from its name and the old one.
    """

    def visit(cls: type) -> None:
        for name in names:
            found = vars(cls).get(name)
            done = hasattr(found, _MARK) or getattr(found, "__isabstractmethod__", False)
            if inspect.isfunction(found) and not done:
                made = wrapped(name, found)
                setattr(made, _MARK, True)
                setattr(cls, name, made)

    own = vars(base).get("__init_subclass__")

    def init_subclass(cls: Any, /, **kwargs: Any) -> None:
        if own is None:
            super(base, cls).__init_subclass__(**kwargs)
        else:
            own.__func__(cls, **kwargs)
        visit(cls)

    if not hasattr(base, _MARK):
        setattr(base, _MARK, True)
        base.__init_subclass__ = classmethod(init_subclass)
    below: list[Any] = [base]
    while below:
        for cls in below.pop().__subclasses__():
            visit(cls)
            below.append(cls)

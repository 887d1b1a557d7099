"""Faults that are put into a replay: what goes wrong, at which step, and how the planner meets it.

A fault of a model stands for its reply (timeout, 429, 5xx, a connection that is reset) or breaks it
(``replay.broken_replies``). It comes as what the planner's own client would have made of it: the
``openai`` client's errors where the planner has loaded that client, else built-in ones.
"""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, cast, get_args

from replay.broken_replies import CannotBreak, Damage, break_reply
from tracekit import guard
from tracekit.canonical import Stream, encode
from tracekit.errors import CallRefused, NotReplayable, UsageError
from tracekit.integrations import chat, responses
from tracekit.items import is_responses_request
from tracekit.trajectory import Observation

Of = Literal["model", "tool"]
_DAMAGES: tuple[Damage, ...] = get_args(Damage)
_OF_MODELS = ("timeout", "429", "5xx", "reset", *_DAMAGES)
_OF_TOOLS = ("timeout", "reset", "error", "refused", "empty")
OF: Mapping[Of, tuple[str, ...]] = {"model": _OF_MODELS, "tool": _OF_TOOLS}
"""What can happen to which."""
_STATUS = re.compile(r"5\d\d")
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, None: 1.0}
_EMPTY: Mapping[type, Any] = {str: "", list: [], dict: {}}


class ModelStatusError(Exception):
    """A model's endpoint answered with an error; for planners whose client is not known here."""

    def __init__(self, message: str, status_code: int, retry_after: float | None = None) -> None:
        super().__init__(message, status_code, retry_after)
        self.status_code = status_code
        self.retry_after = retry_after

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong."""

    kind: str
    """``timeout``, ``429``, ``503``, ``reset``, a ``Damage``; of tools ``error``, ``refused``."""
    detail: str = ""
    """Words of an error or a refusal, the name of a tool, or a time such as ``2s``."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``KIND`` or ``KIND:DETAIL``.

        Raises:
            UsageError: there is no such fault.
        """
        kind, _, detail = text.partition(":")
        fault = cls(kind.strip(), detail.strip())
        if not (fault.fits("model") or fault.fits("tool")):
            raise UsageError(
                f"fault {kind!r} is not known",
                hint=f"of a model: {', '.join(_OF_MODELS)}; of a tool: {', '.join(_OF_TOOLS)}",
            )
        if kind in ("timeout", "429") and detail:
            _seconds(detail)
        return fault

    def fits(self, of: Of) -> bool:
        """Whether this can happen to a model, or to a tool."""
        known = _OF_MODELS if of == "model" else _OF_TOOLS
        return self.kind in known or (of == "model" and bool(_STATUS.fullmatch(self.kind)))

    @property
    def damages(self) -> bool:
        """Whether it breaks a reply; else it stands for one."""
        return self.kind in _DAMAGES

    @property
    def seconds(self) -> float | None:
        """How long the planner is to wait, or did."""
        return _seconds(self.detail) if self.kind in ("timeout", "429") and self.detail else None

    def __str__(self) -> str:
        return f"{self.kind}:{self.detail}" if self.detail else self.kind


def _seconds(text: str) -> float:
    found = _SECONDS.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"time {text!r} is not understood", hint="write 2s, 500ms or 1m")
    return float(found[1]) * _UNITS[found[2]]


@dataclass(frozen=True, slots=True)
class PlacedFault:
    """A fault and the step of a replay that it happens at."""

    fault: Fault
    request: int | None = None
    """Of a model: the number of the planner's request, from 1."""
    name: str = ""
    """Of a tool, or of an ``@llm`` function."""
    number: int | None = None
    """Of its calls, from 1; None for every call."""

    def __post_init__(self) -> None:
        if 0 in (self.request, self.number):
            raise UsageError(f"fault {self}: steps are counted from 1", hint="write 1=timeout")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``3=timeout``, ``search#2=error:down`` or ``search=empty``.

        Raises:
            UsageError: it is none of them.
        """
        step, equals, what = text.partition("=")
        if not (step and equals):
            raise UsageError(f"fault {text!r} is not understood", hint="write 3=timeout")
        fault = Fault.parse(what)
        if step.isdigit():
            if not fault.fits("model"):
                raise UsageError(
                    f"fault {text!r}: {fault.kind} does not happen to a model",
                    hint=f"{step} is its request of that number; one of {', '.join(_OF_MODELS)}",
                )
            return cls(fault, request=int(step))
        name, mark, number = step.rpartition("#")
        if mark and number.isdigit():
            return cls(fault, name=name, number=int(number))
        return cls(fault, name=step)

    def __str__(self) -> str:
        step = self.name if self.request is None else str(self.request)
        step += "" if self.number is None else f"#{self.number}"
        return f"{step}={self.fault}"


# --- how the planner meets it ---------------------------------------------------------------------


def inject(
    fault: Fault, outcome: guard.Outcome, request: Mapping[str, Any] | None, *, stream: bool
) -> guard.Outcome:
    """What becomes of a request to a model that would have had ``outcome``.

    Args:
        fault: What goes wrong.
        outcome: What there would have been.
        request: Of a client of models, as it would be sent; None for a decorated function.
        stream: Whether the caller reads a stream.

    Raises:
        CannotBreak: the reply cannot be broken in this way.
    """
    fields = outcome.fields if isinstance(outcome, guard.Served | guard.Raised) else {}
    if not fault.damages:
        return guard.Raised(model_error(fault), fields)
    if not isinstance(outcome, guard.Served):
        return outcome
    damage = cast("Damage", fault.kind)
    broken = break_reply(damage, _whole(outcome.value, request), fault.detail)
    if stream and damage == "truncated":
        broken = Stream([broken, broken_off()], "raised")
    return guard.Served(broken, fields)


def _whole(value: Any, request: Mapping[str, Any] | None) -> Any:
    """A reply in one piece, and for a client as the response that it would have got."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        value = "".join(value)
    if request is None:
        return value
    form = responses if is_responses_request(request) else chat
    try:
        return form.as_response(value, model=str(request.get("model")))
    except NotReplayable as error:
        raise CannotBreak(str(error)) from error


def model_error(fault: Fault) -> BaseException:
    """What a client makes of a reply that did not come."""
    client = "openai" in sys.modules
    match fault.kind:
        case "timeout":
            said = "Request timed out."
            return _openai("APITimeoutError", said) if client else TimeoutError(said)
        case "reset":
            said = "Connection reset by peer"
            error = ConnectionResetError(errno.ECONNRESET, said)
            return _openai("APIConnectionError", said, cause=error) if client else error
        case _:
            return _status_error(fault, client=client)


def _status_error(fault: Fault, *, client: bool) -> BaseException:
    status = int(fault.kind) if fault.kind.isdigit() else 503
    said = f"Error code: {status} - {'rate limit reached' if status == 429 else 'server error'}"
    if not client:
        return ModelStatusError(said, status, fault.seconds)
    name = "RateLimitError" if status == 429 else "InternalServerError"
    return _openai(name, said, status=status, retry_after=fault.seconds)


def _openai(name: str, message: str, *, cause: Exception | None = None, **kept: Any) -> Exception:
    from tracekit.integrations.openai_wire import error_from_json  # needs the client

    error = error_from_json({"type": name, "message": message, **kept})
    error.__cause__ = cause
    return error


def broken_off() -> BaseException:
    """What a reader meets in the middle of a stream whose other end went away."""
    said = "peer closed connection without sending complete message body (incomplete chunked read)"
    if "openai" in sys.modules:
        from tracekit.integrations.openai_wire import stream_error  # needs the client

        return stream_error(said)
    return ConnectionResetError(errno.ECONNRESET, said)


def fail_call(fault: Fault, tool: str) -> Observation:
    """The observation of a tool that failed in this way."""
    error: Exception
    match fault.kind:
        case "timeout":
            error = TimeoutError(f"timed out after {fault.detail}" if fault.detail else "timed out")
        case "reset":
            error = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        case "refused":
            error = CallRefused(tool, rule="fault", reason=fault.detail or "permission refused")
        case _:
            error = RuntimeError(fault.detail or "the tool failed")
    kept = encode(error)
    cls = type(error)
    own = cls.__module__ == "builtins"
    return Observation(
        kept.value,
        "captured",
        types=dict(kept.types),
        is_error=True,
        error_type=cls.__qualname__ if own else f"{cls.__module__}.{cls.__qualname__}",
        error_message=str(error),
    )


def emptied(seen: Observation | None) -> Observation:
    """The observation of a tool that found nothing, in the shape that it else comes in."""
    value = None if seen is None or seen.is_error else _EMPTY.get(type(seen.value))
    return Observation(value, "captured")

"""Models that say what you wrote down: for planners that ask more than a recording can answer.

A script is a sequence of replies, a set of rules, or a function. A reply is a text, a message (with
the tool calls of ``call``), a whole response of either API of the ``openai`` client, whatever an
``@llm`` function returns, an exception to raise, a function of the request, or one of the faults
below. The planner gets it from its own client, in that client's classes, streamed where it asked
for a stream.

    from replay import scripted

    model = scripted.sequence(
        scripted.call("search", query="refund policy"),
        scripted.rate_limited(retry_after=2),
        "You can return it within 30 days.",
    )

``tracekit replay --model scripted --script MOD:OBJ`` takes a script, a list of replies, or a
function from the request to a reply.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from replay.broken_replies import REFUSAL, UNKNOWN_TOOL
from replay.faults import Fault, ModelStatusError
from tracekit.canonical import json_text
from tracekit.errors import PlannerSignatureError, UsageError

__all__ = [
    "Given",
    "ModelStatusError",
    "Reply",
    "Rule",
    "Script",
    "ScriptOver",
    "ScriptRun",
    "as_script",
    "call",
    "calls",
    "connection_reset",
    "duplicate",
    "empty",
    "malformed",
    "rate_limited",
    "refusal",
    "rules",
    "sequence",
    "server_error",
    "timeout",
    "truncated",
    "unknown_tool",
    "when",
]

Request = Mapping[str, Any]
Reply = Any
"""See the module."""


class ScriptOver(Exception):  # an ending, not an error of the planner
    """The script has no reply to this request."""


@dataclass(frozen=True, slots=True)
class Given:
    """What a script says to one request."""

    value: Any = None
    """A reply, or the exception that the planner is to meet instead."""
    fault: Fault | None = None


class ScriptRun(Protocol):
    """A script on its way through one run."""

    def reply(self, request: Request) -> Given:
        """Answer the next request.

        Raises:
            ScriptOver: there is no reply to it.
        """


class Script(Protocol):
    """Something that answers; it is the same however often it was run."""

    def start(self) -> ScriptRun:
        """Begin at the beginning."""


# --- replies --------------------------------------------------------------------------------------


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    """A reply that asks for one tool call."""
    return calls((tool, arguments))


def calls(*asked: tuple[str, Mapping[str, Any]], say: str | None = None) -> dict[str, Any]:
    """A reply that asks for several tool calls at once, each a name and its arguments."""
    wanted = [{"name": tool, "arguments": dict(arguments)} for tool, arguments in asked]
    return {"role": "assistant", "content": say, "tool_calls": wanted}


def timeout(after: float | None = None) -> Given:
    """No reply within the client's time; ``after`` moves the planner's clock by seconds."""
    return Given(None, Fault("timeout", "" if after is None else f"{after:g}s"))


def rate_limited(retry_after: float | None = None) -> Given:
    """Status 429, with a ``Retry-After`` of so many seconds where it is given."""
    return Given(None, Fault("429", "" if retry_after is None else f"{retry_after:g}s"))


def server_error(status: int = 503) -> Given:
    """A status from 500 to 599.

    Raises:
        UsageError: it is another status.
    """
    if not 500 <= status <= 599:
        raise UsageError(f"{status} is no status of a server's error", hint="from 500 to 599")
    return Given(None, Fault(str(status)))


def connection_reset() -> Given:
    """The connection broke before a reply came."""
    return Given(None, Fault("reset"))


def malformed(reply: Reply) -> Given:
    """``reply``, with arguments of its first tool call that are no JSON."""
    return Given(reply, Fault("malformed"))


def truncated(reply: Reply) -> Given:
    """``reply``, cut in the middle; to who reads a stream, the connection breaks there."""
    return Given(reply, Fault("truncated"))


def refusal(text: str = REFUSAL) -> Given:
    """The model declines to answer."""
    return Given("", Fault("refusal", text))


def empty() -> Given:
    """A reply that says nothing and asks for nothing."""
    return Given("", Fault("empty"))


def duplicate(reply: Reply) -> Given:
    """``reply``, with each of its tool calls made twice."""
    return Given(reply, Fault("duplicate"))


def unknown_tool(name: str = UNKNOWN_TOOL, reply: Reply = "") -> Given:
    """A call of a tool that does not exist; in place of the first call of ``reply``."""
    return Given(reply, Fault("unknown-tool", name))


def _given(reply: Reply, request: Request) -> Given:
    if isinstance(reply, Given):
        inner = _given(reply.value, request)
        return Given(inner.value, reply.fault)
    if callable(reply):
        said = reply(request)
        if inspect.iscoroutine(said):
            said.close()
            raise PlannerSignatureError("a script cannot be async", hint="write a plain function")
        return _given(said, request)
    return Given(reply)


# --- scripts --------------------------------------------------------------------------------------


def sequence(*replies: Reply, then: Literal["stop", "repeat"] = "stop") -> Script:
    """Replies in order, whatever is asked.

    Args:
        replies: The replies.
        then: What happens when all were given: the replay stops and is inconclusive, or the last
            one is given again and again.

    Raises:
        UsageError: there is nothing to repeat, or ``then`` is none of the two.
    """
    if then not in ("stop", "repeat"):
        raise UsageError(f"then={then!r} is not known", hint="one of stop, repeat")
    if then == "repeat" and not replies:
        raise UsageError("a script without replies has none to repeat")
    return _Sequence(replies, repeat=then == "repeat")


@dataclass(frozen=True, slots=True)
class Rule:
    """Replies to the requests that it fits; the last of them again and again."""

    fits: Callable[[Request], bool]
    replies: tuple[Reply, ...]


def when(fits: str | Callable[[Request], bool], *replies: Reply) -> Rule:
    """A rule for ``rules``.

    Args:
        fits: A text that stands in the last message of the request (of an ``@llm`` function: in
            its arguments), upper and lower case alike; or a function of the request.
        replies: In order; the last is given again and again.

    Raises:
        UsageError: there is no reply.
    """
    if not replies:
        raise UsageError("a rule needs a reply", hint='for example when("refund", "No.")')
    if callable(fits):
        return Rule(fits, replies)
    text = fits.casefold()
    return Rule(lambda request: text in _last_words(request).casefold(), replies)


def rules(*made: Rule, otherwise: Reply = None) -> Script:
    """The reply of the first rule that fits; ``otherwise`` where none does."""
    last = () if otherwise is None else (Rule(lambda _: True, (otherwise,)),)
    return _Rules((*made, *last))


def as_script(found: object) -> Script:
    """What ``--script`` names, as a script: one already, a list of replies, or a function.

    Raises:
        PlannerSignatureError: it is none of them.
    """
    if isinstance(found, _Sequence | _Rules | _Function):
        return found
    if isinstance(found, list | tuple):
        return _Sequence(tuple(found), repeat=False)
    if callable(found):
        return _Function(found)
    raise PlannerSignatureError(
        f"a script of type {type(found).__name__} answers nothing",
        hint="name a function of the request, a list of replies, or one made by replay.scripted",
    )


@dataclass(frozen=True, slots=True)
class _Sequence:
    replies: tuple[Reply, ...]
    repeat: bool

    def start(self) -> ScriptRun:
        return _Along(self.replies, repeat=self.repeat)


@dataclass
class _Along:
    """Thread-safe: planners ask from several threads."""

    replies: Sequence[Reply]
    repeat: bool
    _given: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reply(self, request: Request) -> Given:
        with self._lock:
            place, self._given = self._given, self._given + 1
        if place >= len(self.replies) and not self.repeat:
            raise ScriptOver(
                f"the script has {len(self.replies)} replies, the planner asked {place + 1} times"
            )
        return _given(self.replies[min(place, len(self.replies) - 1)], request)


@dataclass(frozen=True, slots=True)
class _Rules:
    rules: tuple[Rule, ...]

    def start(self) -> ScriptRun:
        return _ByRules([(rule, _Along(rule.replies, repeat=True)) for rule in self.rules])


@dataclass(frozen=True, slots=True)
class _ByRules:
    rules: Iterable[tuple[Rule, _Along]]

    def reply(self, request: Request) -> Given:
        for rule, along in self.rules:
            if rule.fits(request):
                return along.reply(request)
        raise ScriptOver(f"no rule of the script fits: {_last_words(request)[:120]!r}")


@dataclass(frozen=True, slots=True)
class _Function:
    function: Callable[[Request], Reply]

    def start(self) -> ScriptRun:
        # A class is made anew for each run, so that what it counts begins at nothing.
        made: Any = self.function() if inspect.isclass(self.function) else self.function
        return _Asked(made)


@dataclass(frozen=True, slots=True)
class _Asked:
    function: Callable[[Request], Reply]

    def reply(self, request: Request) -> Given:
        return _given(self.function, request)


def _last_words(request: Request) -> str:
    """What was said last to the model; of another request, all of it."""
    said = request.get("messages") or request.get("input")
    if isinstance(said, str):
        return said
    last: object = said[-1] if isinstance(said, list | tuple) and said else dict(request)
    if isinstance(last, Mapping):
        content = last.get("content", last.get("output", last))
        if isinstance(content, str):
            return content
        last = content
    try:
        return json_text(last)  # type: ignore[arg-type]  # what is no JSON is told apart below
    except (TypeError, ValueError):
        return str(last)

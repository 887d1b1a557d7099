"""Records the chat models of LangChain, and answers them in a replay.

The step stands around what every chat model implements (``_generate``, ``_stream`` and their async
forms): caches, rate limits, callbacks and streaming handlers are LangChain's own in a replay as
well, and a reply from the cache is no request. A client that is recorded by itself is not recorded
again beneath a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel, generate_from_stream
from langchain_core.outputs import ChatGenerationChunk, ChatResult

from tracekit import guard
from tracekit.canonical import JsonValue, Stream
from tracekit.configuration import recorder
from tracekit.errors import NotReplayable
from tracekit.integrations import chat, nesting
from tracekit.integrations.langchain_messages import (
    chunk_of,
    chunks_of,
    reply_of,
    request_of,
    response_of,
    result_of,
)
from tracekit.interruption import pass_on
from tracekit.steps import Step, Unrecorded, open_step, passed_by, unrecorded
from tracekit.wrap import wrap

_METHODS = ("_generate", "_agenerate", "_stream", "_astream")


def instrument() -> None:
    """Record every chat model of this process from now on; doing it again changes nothing."""
    nesting.wrap_methods(BaseChatModel, _METHODS, _wrapped)


def _wrapped(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def open_call(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Step | Unrecorded:
        model = args[0]
        if nesting.inside(model):
            return Unrecorded()
        try:
            return _opened(model, args[1:], kwargs, stream=name.endswith("stream"))
        except Exception as error:  # noqa: BLE001  # the traced program is never the victim
            return unrecorded(error)

    return wrap(method, open_call, guarded=guard.installed, off=passed_by)


def _opened(
    model: BaseChatModel, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, stream: bool
) -> Step | Unrecorded:
    own = recorder()
    if own.enclosing() is None and not guard.installed():
        return Unrecorded()
    given = {**dict(zip(("messages", "stop", "run_manager"), args, strict=False)), **kwargs}
    messages, stop = given.pop("messages"), given.pop("stop", None)
    given.pop("run_manager", None)
    params = _said_of(model, stop, given)
    name = str(params.get("ls_model_name") or type(model).__name__)
    request = request_of(messages, {**params, "ls_model_name": name}, given)
    step = open_step(
        own,
        "llm_call",
        name,
        request,
        stream=stream,
        model_requested=name,
        provider=params.get("ls_provider"),
    )
    made = ModelStep.of(step, model)
    made.streams = stream
    return made


def _said_of(model: BaseChatModel, stop: Any, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a model says of itself, name and provider first; nothing where it cannot."""
    try:
        return model._get_ls_params(stop=stop, **given)
    except Exception as error:  # noqa: BLE001  # it is made for traces, and may be wrong
        pass_on(error)
        return {}


@dataclass
class ModelStep(nesting.FrameworkStep):
    """A request to a chat model under way."""

    streams: bool = False
    """Whether the reply is read in pieces."""
    pieces: list[ChatGenerationChunk] = field(default_factory=list)

    def answer(self) -> Any:
        """Return or raise what answers the request, in LangChain's own classes."""
        result, part = ChatResult(generations=[]), self._take_part()
        if isinstance(self.outcome, guard.Served) and isinstance(self.outcome.value, Stream):
            return self._breaks_off(self.outcome.value, self.outcome.fields)
        if isinstance(self.outcome, guard.Served):
            value, fields = self.outcome.value, self.outcome.fields
            try:
                response = response_of(value, model=self.operation.actor)
                result = result_of(response)
            except NotReplayable as error:
                self.outcome = guard.Raised(error, fields)
            else:
                self.outcome = guard.Served(response, {**chat.ended_columns(response), **fields})
        super().answer()
        if part is not None and not self.streams:  # a reader of the whole
            guard.read_on()
        if part is not None:
            begun = Stream(chunks_of(result, part.pieces), "left")
            begun.read_on = guard.read_on
            return begun
        return [chunk_of(result)] if self.streams else result

    def _take_part(self) -> guard.Part | None:
        """Take what there is of a reply that was read in part."""
        given = self.outcome
        if not (isinstance(given, guard.Served) and isinstance(given.value, guard.Part)):
            return None
        part = given.value
        self.outcome = guard.Served(part.value, given.fields)
        self.fields = {
            **self.fields,
            "attributes": {"stream": True, "partial": True, "pieces": part.pieces},
        }
        return part

    def _breaks_off(self, cut: Stream, fields: Mapping[str, Any]) -> Any:
        """Give what there is of a reply, and the error with which it breaks off."""
        part, error = cut
        self.fields = {**self.fields, **fields, "attributes": {"stream": True, "partial": True}}
        self.fail(error)
        return Stream(
            [chunk_of(result_of(response_of(part, model=self.operation.actor))), error], "raised"
        )

    def item(self, value: object) -> None:
        """Keep a piece of the reply."""
        if isinstance(value, ChatGenerationChunk):
            self.pieces.append(value)

    def end(self, value: object) -> None:
        """Record the reply."""
        self._end_with(value)

    def end_stream(self, *, complete: bool, returned: object = None) -> None:
        """Record the pieces as one reply; a partial read is recorded as partial."""
        marks: dict[str, JsonValue] = {"stream": True}
        pieces, self.pieces = self.pieces, []
        if not complete:
            marks |= {"partial": True, "pieces": len(pieces)}
        self._end_with(pieces, attributes=marks)

    def _end_with(self, value: object, **fields: Any) -> None:
        try:
            fields["observation"] = reply = _reply(value)
            self.fields = {**chat.ended_columns(reply), **self.fields}
        except Exception as error:  # noqa: BLE001  # the traced program is never the victim
            self.recorder.note_fault(error, self.operation)
        self._end(status="ok", **fields)


def _reply(value: object) -> Any:
    if isinstance(value, list):
        value = generate_from_stream(iter(value)) if value else ChatResult(generations=[])
    return reply_of(value) if isinstance(value, ChatResult) else value

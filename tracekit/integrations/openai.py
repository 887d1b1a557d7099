"""Records what the ``openai`` client asks models, and answers it in a replay.

That is chat completions and the Responses API. The client sends everything through one method,
``request``; it is wrapped there, so that ``create``, ``parse``, ``stream`` and their raw forms,
sync and async, are one case, and a call with its retries is one step. In a replay the served reply
is given to the client as if it had come over the wire, so that the caller gets the client's own
objects, streams and errors; nothing is sent. The client still wants an API key when it is made: a
replay has to set a dummy ``OPENAI_API_KEY`` (and ``OPENAI_BASE_URL``) where the environment lacks
them.

What goes out in headers, the key among it, is never looked at.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import openai

from tracekit import guard
from tracekit.canonical import JsonValue, Stream, json_bytes, register_codec
from tracekit.configuration import recorder
from tracekit.errors import NotReplayable
from tracekit.integrations import chat, nesting
from tracekit.integrations.openai_wire import (
    APIS,
    Accumulator,
    Api,
    body_of,
    broken_body,
    client_error,
    error_from_json,
    error_to_json,
    parsed_body,
    wire_response,
)
from tracekit.steps import Step, open_step

_MARK = "__tracekit_instrumented__"
_RAW = "X-Stainless-Raw-Response"
"""Header by which the client asks itself for a raw response."""
_log = logging.getLogger("tracekit")


def instrument() -> None:
    """Record every request to a model from now on; doing it again changes nothing."""
    for cls, wrapped in ((openai.OpenAI, _wrapped_sync), (openai.AsyncOpenAI, _wrapped_async)):
        original = cls.request
        if not hasattr(original, _MARK):
            made = wrapped(original)
            functools.update_wrapper(made, original)
            vars(made).pop("__wrapped__")  # it would be a road around the guard
            setattr(made, _MARK, True)
            setattr(cls, "request", made)  # noqa: B010  # a method, which may not be assigned to
    register_codec(openai.APIError, error_to_json, error_from_json, name="openai.APIError")


def _wrapped_sync(original: Callable[..., Any]) -> Callable[..., Any]:
    def request(self: Any, cast_to: Any, options: Any, *args: Any, **kwargs: Any) -> Any:
        asked = _opened(self, options, kwargs)
        if asked is None:
            return original(self, cast_to, options, *args, **kwargs)
        if asked.step.answered:
            return self._process_response(**asked.answer(self, cast_to, options, kwargs))
        with asked.sending(options):
            result = original(self, cast_to, options, *args, **kwargs)
        return _observed(asked, result)

    return request


def _wrapped_async(original: Callable[..., Any]) -> Callable[..., Any]:
    async def request(self: Any, cast_to: Any, options: Any, *args: Any, **kwargs: Any) -> Any:
        asked = _opened(self, options, kwargs)
        if asked is None:
            return await original(self, cast_to, options, *args, **kwargs)
        if asked.step.answered:
            return await self._process_response(**asked.answer(self, cast_to, options, kwargs))
        with asked.sending(options):
            result = await original(self, cast_to, options, *args, **kwargs)
        return _observed(asked, result)

    return request


@dataclass(frozen=True)
class _Asked:
    """A request to a model under way."""

    step: Step
    api: Api
    came: list[Any] = field(default_factory=list)
    """The reply, where the client parses it."""

    @contextmanager
    def sending(self, options: Any) -> Iterator[None]:
        """Be what runs, and record an error; a reply that the client cannot parse has come."""
        self._keep_what_is_parsed(options)
        try:
            with self.step.active():
                yield
        except BaseException as error:
            if not (self.came and isinstance(self.came[-1], openai.BaseModel)):
                self.step.fail(error)
                raise
            with _harmless(self.step):
                given: Any = self.came[-1].to_dict(mode="json", warnings=False)
                sent = chat.as_sent(given)
                self.step.fields |= self.api.form.ended_columns(sent)
                self.step.end_unread(sent, error)
            raise

    def _keep_what_is_parsed(self, options: Any) -> None:
        parse = getattr(options, "post_parser", None)
        if callable(parse):

            def parsed(reply: Any) -> Any:
                self.came.append(reply)
                return parse(reply)

            options.post_parser = parsed

    def end(self, response: JsonValue, **marks: JsonValue) -> None:
        """Record what came back."""
        self.step.fields |= self.api.form.ended_columns(response)
        if marks:
            self.step.fields["attributes"] = marks
        self.step.end(response)

    def answer(
        self, client: Any, cast_to: Any, options: Any, kwargs: Mapping[str, Any]
    ) -> dict[str, Any]:
        """What the client makes its own result from; raises where the answer is an error."""
        body, form = body_of(options), self.api.form
        breaks_off = self._put_in_form(str(body.get("model", "unknown")))
        reply = self.step.answer() if breaks_off is None else self._part(breaks_off)
        stream = bool(kwargs.get("stream"))
        usage = bool((body.get("stream_options") or {}).get("include_usage"))
        raw = options.headers.get(_RAW) if isinstance(options.headers, Mapping) else None
        sent: Any = form.event_stream(reply, usage=usage).encode() if stream else json_bytes(reply)
        if breaks_off is not None:
            sent = broken_body(sent, breaks_off, is_async=isinstance(client, openai.AsyncOpenAI))
        wire = wire_response(
            200,
            sent,
            url=f"{str(client.base_url).rstrip('/')}{self.api.path}",
            media_type="text/event-stream" if stream else "application/json",
            asked={} if raw is None else {_RAW: raw},
        )
        return {
            "cast_to": cast_to,
            "options": options,
            "response": wire,
            "stream": stream,
            "stream_cls": kwargs.get("stream_cls"),
        }

    def _part(self, breaks_off: BaseException) -> Any:
        """What there is of a reply that breaks off; recorded as a stream that did."""
        assert isinstance(self.step.outcome, guard.Served)
        self.step.fields |= self.step.outcome.fields
        self.step.fields["attributes"] = {"stream": True, "partial": True}
        self.step.fail(breaks_off)
        return self.step.outcome.value

    def _put_in_form(self, model: str) -> BaseException | None:
        """Give the answer the form that the API would have sent, or an error the client's class.

        Returned is the error with which the answer breaks off, if it does.
        """
        step = self.step
        match step.outcome:
            case guard.Raised(error, fields):
                step.outcome = guard.Raised(client_error(error), fields)
            case guard.Served(Stream() as cut, fields) if cut.end == "raised":
                response = self.api.form.as_response(cut[0], model=model)
                step.outcome = guard.Served(response, fields)
                return cut[-1]  # type: ignore[no-any-return]  # what a stream raised is an error
            case guard.Served(value, fields):
                try:
                    response = self.api.form.as_response(value, model=model)
                except NotReplayable as error:
                    step.outcome = guard.Raised(error, fields)
                else:
                    columns = self.api.form.ended_columns(response)
                    step.outcome = guard.Served(response, {**columns, **fields})
            case guard.Execute():
                raise AssertionError("only an answered step has an answer")
        return None


def _opened(client: Any, options: Any, kwargs: Mapping[str, Any]) -> _Asked | None:
    """The step of a request to a model; None for other requests and outside any run."""
    api = APIS.get(options.url)
    if api is None or options.method.lower() != "post":
        return None
    own = recorder()
    if not guard.installed() and (own.enclosing() is None or nesting.in_model()):
        return None
    body = body_of(options)
    model = str(body.get("model", "unknown"))
    step = open_step(
        own,
        "llm_call",
        model,
        body,
        stream=bool(kwargs.get("stream")),
        model_requested=model,
        provider="azure.ai.openai" if "Azure" in type(client).__name__ else "openai",
    )
    step.operation.span.say_server(str(client.base_url))
    return _Asked(step, api)


def _observed(asked: _Asked, result: Any) -> Any:
    """Record what came back now, or as it is read; ``result`` stays the object that it is."""
    with _harmless(asked.step):
        if isinstance(result, (openai.Stream, openai.AsyncStream)):
            _Reading(asked, asked.api.accumulator()).watch(result)
        elif isinstance(result, openai.BaseModel):
            sent: Any = result.to_dict(mode="json", warnings=False)
            asked.end(chat.as_sent(sent))
        elif (raw := getattr(result, "http_response", None)) is not None:
            _RawReading(asked, asked.api.accumulator()).watch(raw)
        else:
            asked.step.end(result)
    return result


@contextmanager
def _harmless(step: Step) -> Iterator[None]:
    """Count a fault of ours as a loss instead of raising it into agent code."""
    try:
        yield
    except Exception as error:  # the traced program is never the victim
        if step.recorder.strict:
            raise
        _log.warning("tracekit could not record a reply: %s", type(error).__name__)
        step.recorder.lost += 1


_OVER = object()


@dataclass
class _Reading:
    """A stream that the caller reads, chunk by chunk."""

    asked: _Asked
    seen: Accumulator
    busy: bool = False
    """Whether the client is fetching; then a response that closes is one that has ended."""
    events: bool = True
    """Whether it comes in events."""

    @property
    def step(self) -> Step:
        """The step that it belongs to."""
        return self.asked.step

    def watch(self, stream: Any) -> None:
        """Record what ``stream`` yields, where it stands."""
        read = self.read if isinstance(stream, openai.Stream) else self.read_async
        stream._iterator = read(stream._iterator, self._take)
        self.watch_closing(stream.response)

    def watch_closing(self, response: Any) -> None:
        """Record a partial read when ``response`` is closed before its end."""
        close, aclose = response.close, response.aclose

        def closed() -> None:
            close()
            self.finish_unless_busy()

        async def aclosed() -> None:
            await aclose()
            self.finish_unless_busy()

        response.close, response.aclose = closed, aclosed

    def finish_unless_busy(self) -> None:
        """The reader went away."""
        if not self.busy:
            self.finish(complete=False)

    def finish(self, *, complete: bool) -> None:
        """The stream is over."""
        if not self.step.operation.over:
            with _harmless(self.step):
                self.asked.end(self.so_far(), **self._marks(complete=complete))

    def so_far(self) -> JsonValue:
        """What was read."""
        return self.seen.response()

    def _marks(self, *, complete: bool) -> dict[str, JsonValue]:
        marks = {"stream": self.events, "partial": not complete}
        return {name: True for name, is_so in marks.items() if is_so}

    def read(self, source: Iterator[Any], take: Callable[[Any], None]) -> Iterator[Any]:
        """Hand on what ``source`` gives, and take it in."""
        with self._whole():
            while True:
                with self._fetching():
                    item = next(source, _OVER)
                if item is _OVER:
                    break
                take(item)
                yield item

    async def read_async(
        self, source: AsyncIterator[Any], take: Callable[[Any], None]
    ) -> AsyncIterator[Any]:
        """Do the same on an event loop."""
        with self._whole():
            while True:
                with self._fetching():
                    item = await anext(source, _OVER)
                if item is _OVER:
                    break
                take(item)
                yield item

    @contextmanager
    def _fetching(self) -> Iterator[None]:
        self.busy = True
        with self.step.active():
            yield
        self.busy = False

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Record how the reading ends: at the end, before it, or with an error."""
        try:
            yield
        except GeneratorExit:
            self.finish(complete=False)
            raise
        except BaseException as error:
            self.fail(error)
            raise
        self.finish(complete=True)

    def fail(self, error: BaseException) -> None:
        """The stream broke off, or its reader was cancelled."""
        if not self.step.operation.over:
            self.step.fields["attributes"] = self._marks(complete=False)
            self.step.fail(error)

    def _take(self, item: Any) -> None:
        with _harmless(self.step):
            self.add(item.to_dict(mode="json", warnings=False))

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Take in a chunk."""
        self.seen.add(chunk)


@dataclass
class _RawReading(_Reading):
    """A raw response, whose bytes the caller reads in a way of their own."""

    lines: chat.EventLines = field(default_factory=chat.EventLines)
    body: bytearray = field(default_factory=bytearray)

    def watch(self, response: Any) -> None:
        """Record what is read of ``response``."""
        self.events = "event-stream" in response.headers.get("content-type", "")
        if response.is_stream_consumed:
            self._feed(response.content)
            self.finish(complete=True)
            return
        read, read_async = response.iter_bytes, response.aiter_bytes
        response.iter_bytes = lambda *args, **kw: self.read(read(*args, **kw), self._feed)
        response.aiter_bytes = lambda *args, **kw: self.read_async(
            read_async(*args, **kw), self._feed
        )
        self.watch_closing(response)

    def finish(self, *, complete: bool) -> None:
        """The response is read, or will not be."""
        super().finish(complete=complete or self.lines.done)

    def so_far(self) -> JsonValue:
        """What was read."""
        return super().so_far() if self.events else parsed_body(bytes(self.body))

    def _feed(self, data: bytes) -> None:
        if not self.events:
            self.body += data
            return
        with _harmless(self.step):
            for chunk in self.lines.feed(data):
                self.add(chunk)

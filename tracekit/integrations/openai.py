"""Records the chat completions of the ``openai`` client, and answers them in a replay.

The client sends everything through one method, ``request``; it is wrapped there, so that
``create``, ``parse``, ``stream`` and their raw forms, sync and async, are one case, and a call with
its retries is one step. In a replay the served reply is given to the client as if it had come over
the wire, so that the caller gets the client's own objects, streams and errors; nothing is sent. The
client still wants an API key when it is made: a replay has to set a dummy ``OPENAI_API_KEY`` (and
``OPENAI_BASE_URL``) where the environment lacks them.

What goes out in headers, the key among it, is never looked at.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import openai

from tracekit import guard
from tracekit.canonical import JsonValue, json_bytes, parse_json, register_codec
from tracekit.configuration import recorder
from tracekit.errors import InvalidJson, NotReplayable, RecordedError
from tracekit.integrations import chat
from tracekit.steps import Step, open_step

_MARK = "__tracekit_instrumented__"
_RAW = "X-Stainless-Raw-Response"
"""Header by which the client asks itself for a raw response."""
_PATH = "/chat/completions"
_log = logging.getLogger("tracekit")


def instrument() -> None:
    """Record every chat completion of this process from now on; doing it again changes nothing."""
    for cls, wrapped in ((openai.OpenAI, _wrapped_sync), (openai.AsyncOpenAI, _wrapped_async)):
        original = cls.request
        if not hasattr(original, _MARK):
            made = wrapped(original)
            functools.update_wrapper(made, original)
            vars(made).pop("__wrapped__")  # it would be a road around the guard
            setattr(made, _MARK, True)
            setattr(cls, "request", made)  # noqa: B010  # a method, which may not be assigned to
    register_codec(openai.APIError, _error_to_json, _error_from_json, name="openai.APIError")


def _wrapped_sync(original: Callable[..., Any]) -> Callable[..., Any]:
    def request(self: Any, cast_to: Any, options: Any, *args: Any, **kwargs: Any) -> Any:
        step = _opened(self, options, kwargs)
        if step is None:
            return original(self, cast_to, options, *args, **kwargs)
        if step.answered:
            return self._process_response(**_answered(step, self, cast_to, options, kwargs))
        try:
            with step.active():
                result = original(self, cast_to, options, *args, **kwargs)
        except BaseException as error:
            step.fail(error)
            raise
        return _observed(step, result)

    return request


def _wrapped_async(original: Callable[..., Any]) -> Callable[..., Any]:
    async def request(self: Any, cast_to: Any, options: Any, *args: Any, **kwargs: Any) -> Any:
        step = _opened(self, options, kwargs)
        if step is None:
            return await original(self, cast_to, options, *args, **kwargs)
        if step.answered:
            return await self._process_response(**_answered(step, self, cast_to, options, kwargs))
        try:
            with step.active():
                result = await original(self, cast_to, options, *args, **kwargs)
        except BaseException as error:
            step.fail(error)
            raise
        return _observed(step, result)

    return request


def _opened(client: Any, options: Any, kwargs: Mapping[str, Any]) -> Step | None:
    """The step of a chat completion; None for other requests and outside any run."""
    if options.url != _PATH or options.method.lower() != "post":
        return None
    own = recorder()
    if own.enclosing() is None and not guard.installed():
        return None
    body = dict(options.json_data or {}) | dict(getattr(options, "extra_json", None) or {})
    model = str(body.get("model", "unknown"))
    return open_step(
        own,
        "llm_call",
        model,
        body,
        stream=bool(kwargs.get("stream")),
        model_requested=model,
        provider="azure.ai.openai" if "Azure" in type(client).__name__ else "openai",
    )


def _observed(step: Step, result: Any) -> Any:
    """Record what came back now, or as it is read; ``result`` stays the object that it is."""
    if isinstance(result, (openai.Stream, openai.AsyncStream)) and hasattr(result, "_iterator"):
        _Reading(step).watch(result)
    elif isinstance(result, openai.BaseModel):
        sent: Any = result.to_dict(mode="json", warnings=False)
        _end(step, chat.as_sent(sent))
    elif (raw := getattr(result, "http_response", None)) is not None:
        _RawReading(step).watch(raw)
    else:
        step.end(result)
    return result


def _end(step: Step, response: JsonValue, **marks: JsonValue) -> None:
    step.fields |= chat.ended_columns(response)
    if marks:
        step.fields["attributes"] = marks
    step.end(response)


@dataclass
class _Reading:
    """A stream that the caller reads, chunk by chunk."""

    step: Step
    seen: chat.Accumulator = field(default_factory=chat.Accumulator)
    busy: bool = False
    """Whether the client is fetching; then a response that closes is one that has ended."""

    def watch(self, stream: Any) -> None:
        """Record what ``stream`` yields, where it stands."""
        if isinstance(stream, openai.Stream):
            stream._iterator = self._items(stream._iterator)
        else:
            stream._iterator = self._async_items(stream._iterator)
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
        marks: dict[str, JsonValue] = {"stream": True}
        if not complete:
            marks["partial"] = True
        if not self.step.operation.over:
            _end(self.step, self.seen.response(), **marks)

    def _items(self, source: Iterator[Any]) -> Iterator[Any]:
        try:
            while True:
                self.busy = True
                try:
                    with self.step.active():
                        item = next(source)
                except StopIteration:
                    break
                self.busy = False
                self._take(item)
                yield item
        except GeneratorExit:
            self.busy = False
            self.finish(complete=False)
            raise
        except BaseException as error:
            self.step.fail(error)
            raise
        self.finish(complete=True)

    async def _async_items(self, source: AsyncIterator[Any]) -> AsyncIterator[Any]:
        try:
            while True:
                self.busy = True
                try:
                    with self.step.active():
                        item = await anext(source)
                except StopAsyncIteration:
                    break
                self.busy = False
                self._take(item)
                yield item
        except GeneratorExit:
            self.busy = False
            self.finish(complete=False)
            raise
        except BaseException as error:
            self.step.fail(error)
            raise
        self.finish(complete=True)

    def _take(self, item: Any) -> None:
        try:
            self.add(item.to_dict(mode="json", warnings=False))
        except Exception as error:  # noqa: BLE001  # the traced program is never the victim
            _log.warning("tracekit could not read a chunk of a stream: %s", type(error).__name__)

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Take in a chunk."""
        self.seen.add(chunk)


@dataclass
class _RawReading(_Reading):
    """A raw response, whose bytes the caller reads in a way of their own."""

    lines: chat.EventLines = field(default_factory=chat.EventLines)
    body: bytearray = field(default_factory=bytearray)
    events: bool = False

    def watch(self, response: Any) -> None:
        """Record what is read of ``response``."""
        self.events = "event-stream" in response.headers.get("content-type", "")
        if response.is_stream_consumed:
            self._feed(response.content)
            self.finish(complete=True)
            return
        response.iter_bytes = functools.partial(self._bytes, response.iter_bytes)
        response.aiter_bytes = functools.partial(self._async_bytes, response.aiter_bytes)
        self.watch_closing(response)

    def finish(self, *, complete: bool) -> None:
        """The response is read, or will not be."""
        if self.events:
            super().finish(complete=complete)
        elif not self.step.operation.over:
            marks: dict[str, JsonValue] = {} if complete else {"partial": True}
            _end(self.step, _parsed(bytes(self.body)), **marks)

    def _feed(self, data: bytes) -> None:
        if not self.events:
            self.body += data
            return
        for chunk in self.lines.feed(data):
            self.add(chunk)

    def _bytes(
        self, read: Callable[..., Iterator[bytes]], *args: Any, **kw: Any
    ) -> Iterator[bytes]:
        self.busy = True
        for data in read(*args, **kw):
            self._feed(data)
            self.busy = False
            yield data
            self.busy = True
        self.finish(complete=True)

    async def _async_bytes(
        self, read: Callable[..., AsyncIterator[bytes]], *args: Any, **kw: Any
    ) -> AsyncIterator[bytes]:
        self.busy = True
        async for data in read(*args, **kw):
            self._feed(data)
            self.busy = False
            yield data
            self.busy = True
        self.finish(complete=True)


def _parsed(body: bytes) -> JsonValue:
    text = body.decode("utf-8", "replace")
    try:
        return parse_json(text)
    except InvalidJson:
        return text


def _answered(
    step: Step, client: Any, cast_to: Any, options: Any, kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """What the client makes its own result from; raises where the answer is an error."""
    body = options.json_data or {}
    match step.outcome:
        case guard.Raised(error, fields):
            step.outcome = guard.Raised(_client_error(error), fields)
        case guard.Served(value, fields):
            try:
                response = chat.as_response(value, model=str(body.get("model", "unknown")))
            except NotReplayable as error:
                step.outcome = guard.Raised(error, fields)
            else:
                step.outcome = guard.Served(response, {**chat.ended_columns(response), **fields})
        case guard.Execute():
            raise AssertionError("only an answered step has an answer")
    reply = step.answer()
    stream = bool(kwargs.get("stream"))
    usage = bool((body.get("stream_options") or {}).get("include_usage"))
    raw = options.headers.get(_RAW) if isinstance(options.headers, Mapping) else None
    wire = _wire(
        200,
        chat.event_stream(reply, usage=usage).encode() if stream else json_bytes(reply),
        url=f"{str(client.base_url).rstrip('/')}{_PATH}",
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


def _wire(
    status: int,
    content: bytes = b"",
    *,
    url: str = f"https://replay.invalid{_PATH}",
    media_type: str = "application/json",
    asked: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Any:
    """A response as the client's own HTTP library would have received it."""
    errors = vars(sys.modules["openai._exceptions"])
    http: Any = errors.get("httpx2") or errors["httpx"]
    return http.Response(
        status,
        content=content,
        headers={"content-type": media_type, **(headers or {})},
        request=http.Request("POST", url, headers=dict(asked or {})),
    )


def _client_error(error: BaseException) -> BaseException:
    """An error as the client raises it, where only its name and text are known."""
    if not isinstance(error, RecordedError) or not error.error_type.startswith("openai."):
        return error
    name = error.error_type.removeprefix("openai.")
    try:
        return _error_from_json({"type": name, "message": error.error_message})
    except NotReplayable:
        return error


def _error_to_json(error: openai.APIError) -> dict[str, object]:
    """What is kept of an error: never the request, whose headers hold the key."""
    kept: dict[str, object] = {"type": type(error).__name__, "message": error.message}
    if isinstance(error, (openai.APIStatusError, openai.APIResponseValidationError)):
        kept |= {"status": error.status_code, "body": error.body}
    if request_id := getattr(error, "request_id", None):
        kept["request_id"] = request_id
    return kept


def _error_from_json(kept: Any) -> openai.APIError:
    if not isinstance(kept, Mapping):
        raise NotReplayable("a recorded client error is not an object")
    cls = getattr(openai, str(kept.get("type")), None)
    if not isinstance(cls, type) or not issubclass(cls, openai.APIError):
        raise NotReplayable(f"the openai client has no error class {kept.get('type')!r}")
    message, body = str(kept.get("message", "")), kept.get("body")
    request = _wire(200).request
    if issubclass(cls, openai.APITimeoutError):
        return cls(request=request)
    if issubclass(cls, openai.APIConnectionError):
        return cls(message=message, request=request)
    if issubclass(cls, (openai.APIStatusError, openai.APIResponseValidationError)):
        status = kept.get("status", getattr(cls, "status_code", 500))
        sent = {"x-request-id": str(kept["request_id"])} if kept.get("request_id") else {}
        response = _wire(status if isinstance(status, int) else 500, headers=sent)
        return cls(message=message, response=response, body=body)
    return cls(message, request, body=body)

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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import openai

from tracekit import guard
from tracekit.canonical import JsonValue, Stream, json_bytes, register_codec
from tracekit.configuration import recorder
from tracekit.errors import NotReplayable
from tracekit.integrations import chat, nesting
from tracekit.integrations.openai_reading import RawReading, Reading, harmless
from tracekit.integrations.openai_wire import (
    APIS,
    Api,
    begun_body,
    body_of,
    broken_body,
    client_error,
    error_from_json,
    error_to_json,
    left_body,
    wire_response,
)
from tracekit.steps import Step, open_step

_MARK = "__tracekit_instrumented__"
_RAW = "X-Stainless-Raw-Response"
"""Header by which the client asks itself for a raw response."""


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
            if isinstance(asked.step.outcome, guard.Withheld):
                await asked.step.wait()
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
            with harmless(self.step):
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
        part = self._take_part(body)
        breaks_off = self._put_in_form(str(body.get("model", "unknown")))
        reply = self.step.answer() if breaks_off is None else self._part(breaks_off)
        stream = bool(kwargs.get("stream"))
        usage = bool((body.get("stream_options") or {}).get("include_usage"))
        raw = options.headers.get(_RAW) if isinstance(options.headers, Mapping) else None
        sent: Any = form.event_stream(reply, usage=usage).encode() if stream else json_bytes(reply)
        is_async = isinstance(client, openai.AsyncOpenAI)
        if breaks_off is not None:
            sent = broken_body(sent, breaks_off, is_async=is_async)
        elif part is not None:
            if not stream and raw != "stream":  # a reader of the whole
                guard.read_on()
            begun = begun_body(form, part, reply, stream=stream)
            sent = left_body(begun, guard.read_on, is_async=is_async)
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

    def _take_part(self, body: Mapping[str, Any]) -> guard.Part | None:
        """Take what there is of a reply that was read in part; None where it is known whole."""
        given = self.step.outcome
        if not (isinstance(given, guard.Served) and isinstance(given.value, guard.Part)):
            return None
        part = given.value
        self.step.outcome = guard.Served(part.value, given.fields)
        if self.api.form.is_whole(part.value, body):
            return None
        marks = {"stream": isinstance(part.value, dict), "partial": True, "pieces": part.pieces}
        self.step.fields["attributes"] = {name: mark for name, mark in marks.items() if mark}
        return part

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
    with harmless(asked.step):
        if isinstance(result, (openai.Stream, openai.AsyncStream)):
            Reading(asked, asked.api.accumulator()).watch(result)
        elif isinstance(result, openai.BaseModel):
            sent: Any = result.to_dict(mode="json", warnings=False)
            asked.end(chat.as_sent(sent))
        elif (raw := getattr(result, "http_response", None)) is not None:
            RawReading(asked, asked.api.accumulator()).watch(raw)
        else:
            asked.step.end(result)
    return result

"""The APIs of the ``openai`` client, and its responses and errors made without a wire.

An error is kept as what it says, never with its request, whose headers hold the key.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

import openai

from tracekit import guard
from tracekit.canonical import JsonValue, parse_json
from tracekit.canonical.classes import find_class, name_class
from tracekit.errors import InvalidJson, NotReplayable, RecordedError
from tracekit.integrations import chat, responses


class Accumulator(Protocol):
    """Puts a stream together."""

    def add(self, chunk: Mapping[str, Any], /) -> None:
        """Take in what came next."""

    def response(self) -> dict[str, JsonValue]:
        """What came so far, as one response."""


class Form(Protocol):
    """How an API spells its replies; see ``chat``."""

    def as_response(self, reply: object, *, model: str) -> dict[str, Any]:
        """A whole response, made from whatever stands for one."""

    def event_stream(self, response: Mapping[str, Any], *, usage: bool) -> str:
        """A response as the text of an event stream."""

    def begun_stream(self, response: Mapping[str, Any], *, pieces: int) -> str:
        """The beginning of such a text, as far as ``response`` goes."""

    def is_whole(self, response: JsonValue, request: Mapping[str, Any]) -> bool:
        """Whether ``response`` is all that was to come for ``request``."""

    def ended_columns(self, response: JsonValue) -> dict[str, Any]:
        """Columns of a model call that its response fills."""


@dataclass(frozen=True)
class Api:
    """An API of the client through which models are asked."""

    path: str
    form: Form
    accumulator: type[Accumulator]


APIS = {
    "/chat/completions": Api("/chat/completions", chat, chat.Accumulator),
    "/responses": Api("/responses", responses, responses.Accumulator),
}
"""By the path to which the client posts."""


def body_of(options: Any) -> dict[str, Any]:
    """What is sent: the request with what the caller adds to it."""
    sent: dict[str, Any] = {}
    for part in (options.json_data, getattr(options, "extra_json", None)):
        if isinstance(part, Mapping):
            sent |= part
        elif part is not None:
            sent["body"] = part
    return sent


def parsed_body(body: bytes) -> JsonValue:
    """A body as JSON, or its text where it is none."""
    text = body.decode("utf-8", "replace")
    try:
        return parse_json(text)
    except InvalidJson:
        return text


_RETRY_AFTER = "retry-after"


def stream_error(message: str) -> BaseException:
    """What the client's HTTP library raises where a response breaks off."""
    error: BaseException = _http().RemoteProtocolError(message)
    return error


def broken_body(sent: bytes, error: BaseException, *, is_async: bool) -> Any:
    """The bytes of a stream without its end, and then ``error``."""
    *lines, _, _, _ = sent.split(b"\n\n")  # the last events say that it is over
    begun = b"".join(line + b"\n\n" for line in lines)

    def read() -> Iterator[bytes]:
        yield begun
        raise error

    async def read_async() -> AsyncIterator[bytes]:
        yield begun
        raise error

    return read_async() if is_async else read()


def begun_body(form: Form, part: guard.Part, reply: Any, *, stream: bool) -> bytes:
    """The bytes of a reply that was read in part; ``reply`` is it as a response."""
    if stream:
        return form.begun_stream(reply, pieces=part.pieces).encode()
    return part.value.encode() if isinstance(part.value, str) else b""


def left_body(begun: bytes, read_on: Callable[[], NoReturn], *, is_async: bool) -> Any:
    """The bytes of a reply as far as they were read; ``read_on`` is for who wants more."""

    def read() -> Iterator[bytes]:
        if begun:
            yield begun
        read_on()

    async def read_async() -> AsyncIterator[bytes]:
        if begun:
            yield begun
        read_on()

    return read_async() if is_async else read()


def _http() -> Any:
    errors = vars(sys.modules["openai._exceptions"])
    return errors.get("httpx2") or errors["httpx"]


def wire_response(
    status: int,
    content: Any = b"",
    *,
    url: str = "https://replay.invalid",
    media_type: str = "application/json",
    asked: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Any:
    """A response as the client's own HTTP library would have received it."""
    http = _http()
    return http.Response(
        status,
        content=content,
        headers={"content-type": media_type, **(headers or {})},
        request=http.Request("POST", url, headers=dict(asked or {})),
    )


def client_error(error: BaseException) -> BaseException:
    """An error as the client raises it, where only its name and text are known."""
    if not isinstance(error, RecordedError) or not error.error_type.startswith("openai."):
        return error
    name = error.error_type.removeprefix("openai.")
    try:
        return error_from_json({"type": name, "message": error.error_message})
    except NotReplayable:
        return error


def error_to_json(error: openai.APIError) -> dict[str, object]:
    """What is kept of an error: never the request, whose headers hold the key."""
    own = next(cls for cls in type(error).__mro__ if vars(openai).get(cls.__name__) is cls)
    kept: dict[str, object] = {"type": own.__name__, "message": error.message}
    if own is not type(error):  # a framework's, which is one of the client's all the same
        kept["class"] = name_class(type(error))
    if isinstance(error, (openai.APIStatusError, openai.APIResponseValidationError)):
        kept |= {"status": error.status_code, "body": error.body}
    if request_id := getattr(error, "request_id", None):
        kept["request_id"] = request_id
    headers = getattr(getattr(error, "response", None), "headers", {})
    if wait := headers.get(_RETRY_AFTER):  # what planners go by; no other header is kept
        kept["retry_after"] = wait
    return kept


def error_from_json(kept: Any) -> openai.APIError:
    """The error again; raises ``NotReplayable`` where this client knows no such error."""
    if not isinstance(kept, Mapping):
        raise NotReplayable("a recorded client error is not an object")
    cls = getattr(openai, str(kept.get("type")), None)
    if not isinstance(cls, type) or not issubclass(cls, openai.APIError):
        raise NotReplayable(f"the openai client has no error class {kept.get('type')!r}")
    special = find_class(str(kept.get("class")))
    if special is not None and issubclass(special, cls):
        cls = special
    message, body = str(kept.get("message", "")), kept.get("body")
    request = wire_response(200).request
    if issubclass(cls, openai.APITimeoutError):
        return cls(request=request)
    if issubclass(cls, openai.APIConnectionError):
        return cls(message=message, request=request)
    if issubclass(cls, (openai.APIStatusError, openai.APIResponseValidationError)):
        status = kept.get("status", getattr(cls, "status_code", 500))
        sent = {"x-request-id": str(kept["request_id"])} if kept.get("request_id") else {}
        if (wait := kept.get("retry_after")) is not None:
            sent[_RETRY_AFTER] = wait if isinstance(wait, str) else f"{wait:g}"
        response = wire_response(status if isinstance(status, int) else 500, headers=sent)
        return cls(message=message, response=response, body=body)
    return cls(message, request, body=body)

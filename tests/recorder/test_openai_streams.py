"""Streams of the real client that break off, are cancelled or are read in odd ways."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

import openai
import pydantic
import pytest

from fixtures.model_server import ModelServer
from tests.recorder.openai_kit import (
    PLAIN,
    QUESTION,
    SAID,
    TOOLS,
    async_client,
    client,
    recording,
)


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


class Breaking:
    """A server whose streams begin well and then say ``last`` and are gone, or wait for ever."""

    def __init__(self, last: bytes | None) -> None:
        self.over = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for word in ("All ", "is "):
                    self._chunk(b"data: " + json.dumps(_delta(word)).encode() + b"\n\n")
                if last is None:
                    owner.over.wait()
                elif last:
                    self._chunk(last)
                self.close_connection = True

            def _chunk(self, data: bytes) -> None:
                self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return cast("ModelServer", self)  # as far as a client sees

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _delta(word: str) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": word}, "finish_reason": None}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"} | {
        "choices": [choice]
    }


REFUSAL = b'data: {"error": {"message": "the model is gone", "type": "server_error"}}\n\n'


@pytest.mark.parametrize("last", [REFUSAL, b""], ids=["an error event", "a lost connection"])
def test_a_stream_that_breaks_off_is_an_error_and_the_caller_sees_the_clients_own(
    last: bytes,
) -> None:
    said, errors = [], []
    with Breaking(last) as server, client(server) as asked, recording() as recorded:
        stream = asked.chat.completions.create(model="m", messages=PLAIN, stream=True)
        try:
            for chunk in stream:
                said.append(chunk.choices[0].delta.content)
        except Exception as raised:  # noqa: BLE001  # of the client or of its HTTP library
            errors.append(raised)
    assert said == ["All ", "is "]
    (error,) = errors
    row = recorded.row()
    assert (row.status, row.error_message) == ("error", str(error))
    assert json.loads(row.attributes) == {"stream": True, "partial": True}
    if last:
        assert type(error) is openai.APIError
        assert recorded.value(row.observation_blob)[0]["message"] == "the model is gone"


def test_a_raw_stream_that_breaks_off_is_an_error() -> None:
    with (
        Breaking(b"") as server,
        client(server) as asked,
        recording() as recorded,
        pytest.raises(Exception, match=r"incomplete|closed") as caught,
        asked.chat.completions.with_streaming_response.create(
            model="m", messages=PLAIN, stream=True
        ) as raw,
    ):
        list(raw.iter_bytes())
    row = recorded.row()
    assert (row.status, row.error_message) == ("error", str(caught.value))
    assert json.loads(row.attributes) == {"stream": True, "partial": True}


async def test_a_reader_that_is_cancelled_ends_the_call_there() -> None:
    begun = asyncio.Event()

    async def read(asked: openai.AsyncOpenAI) -> None:
        stream = await asked.chat.completions.create(model="m", messages=PLAIN, stream=True)
        async for chunk in stream:
            if chunk.choices[0].delta.content == "is ":
                begun.set()

    with Breaking(None) as server:
        async with async_client(server) as asked:
            with recording() as recorded:
                task = asyncio.create_task(read(asked))
                await begun.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
    row = recorded.row()
    assert (row.status, row.error_type) == ("error", "asyncio.exceptions.CancelledError")
    assert json.loads(row.attributes) == {"stream": True, "partial": True}


def test_a_stream_that_nobody_reads_is_recorded_as_read_in_part(server: ModelServer) -> None:
    with client(server) as asked, recording() as recorded:
        asked.chat.completions.create(model="m", messages=PLAIN, stream=True).close()
    row = recorded.row()
    assert json.loads(row.attributes) == {"stream": True, "partial": True}
    assert recorded.value(row.observation_blob)["choices"] == []


def test_calls_that_come_in_pieces_are_put_together(server: ModelServer) -> None:
    with (
        client(server) as asked,
        recording() as recorded,
        asked.chat.completions.stream(model="m", messages=QUESTION, tools=TOOLS) as stream,
    ):
        done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
        final = stream.get_final_completion()
    kept = recorded.value(recorded.row().observation_blob)["choices"][0]["message"]["tool_calls"]
    assert [call["function"]["name"] for call in kept] == [event.name for event in done]
    assert [call["function"]["arguments"] for call in kept] == [
        call.function.arguments for call in final.choices[0].message.tool_calls or ()
    ]


class Mood(pydantic.BaseModel):
    mood: str


Road = Callable[[Any], Any]
ROADS: dict[str, tuple[Road, Road]] = {
    "chat, raw": (
        lambda c: c.chat.completions.with_raw_response.create(model="m", messages=PLAIN),
        lambda raw: raw.parse().choices[0].message.content,
    ),
    "chat, raw stream": (
        lambda c: c.chat.completions.with_raw_response.create(
            model="m", messages=PLAIN, stream=True
        ),
        lambda raw: "".join(one.choices[0].delta.content or "" for one in raw.parse()),
    ),
    "chat, beta": (
        lambda c: c.beta.chat.completions.parse(model="m", messages=PLAIN),
        lambda reply: reply.choices[0].message.content,
    ),
    "responses, raw": (
        lambda c: c.responses.with_raw_response.create(model="m", input=PLAIN),
        lambda raw: raw.parse().output_text,
    ),
    "responses, raw stream": (
        lambda c: c.responses.with_raw_response.create(model="m", input=PLAIN, stream=True),
        lambda raw: "".join(
            one.delta for one in raw.parse() if one.type == "response.output_text.delta"
        ),
    ),
    "responses, parse": (
        lambda c: c.responses.parse(model="m", input=PLAIN, text_format=Mood),
        lambda reply: reply.output_text,
    ),
    "responses, stream": (
        lambda c: c.responses.stream(model="m", input=PLAIN).__enter__(),
        lambda stream: stream.get_final_response().output_text,
    ),
}


@pytest.mark.parametrize("road", ROADS)
def test_whatever_the_road_the_caller_gets_what_it_got_before_and_it_is_one_call(
    server: ModelServer, road: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "parse" in road:
        monkeypatch.setattr("fixtures.rule_model._Case._answer", lambda self: '{"mood":"fine"}')
    ask, read = ROADS[road]
    with client(server) as asked:
        bare = ask(asked)
        said = read(bare)
        with recording() as recorded:
            got = ask(asked)
            assert type(got) is type(bare)
            assert read(got) == said
    row = recorded.row()
    assert row.status == "ok"
    assert said in (SAID, '{"mood":"fine"}')
    assert json.dumps(said)[1:-1] in json.dumps(recorded.value(row.observation_blob))
    assert "partial" not in json.loads(row.attributes)


@pytest.mark.parametrize("stream", [False, True])
async def test_an_async_raw_response_is_recorded_as_it_is_read(
    server: ModelServer, *, stream: bool
) -> None:
    async with async_client(server) as asked:
        with recording() as recorded:
            create: Any = asked.responses.with_streaming_response.create
            async with create(model="m", input=PLAIN, stream=stream) as raw:
                assert recorded.row().ts_end_ns is None
                lines = [line async for line in raw.iter_lines()]
    row = recorded.row()
    assert SAID in "".join(lines)
    assert SAID in json.dumps(recorded.value(row.observation_blob))
    assert json.loads(row.attributes) == ({"stream": True} if stream else {})

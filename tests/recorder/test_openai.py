"""The chat completions of the real ``openai`` client are recorded, and it is none the wiser."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pydantic
import pytest

from fixtures.model_server import ModelServer, completion
from tests.recorder.openai_kit import (
    KEY,
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


def _response(messages: list[Any], tools: list[Any] | None = None) -> Any:
    """What the server says to a request."""
    asked = {"model": "m", "messages": messages} | ({"tools": tools} if tools else {})
    return json.loads(json.dumps(completion(asked)))


def test_a_call_is_recorded_as_it_was_sent_and_answered(server: ModelServer) -> None:
    with client(server) as asked, recording() as recorded:
        given = asked.chat.completions.create(
            model="m", messages=PLAIN, temperature=0, tools=openai.omit, extra_body={"top_k": 3}
        )
    row = recorded.row()
    sent = {"model": "m", "messages": PLAIN, "temperature": 0, "top_k": 3}
    assert recorded.value(row.argument_blob) == server.requests[-1] == sent
    assert recorded.value(row.observation_blob) == _response(PLAIN)
    assert type(given) is openai.types.chat.ChatCompletion
    assert given.choices[0].message.content == SAID
    assert (row.actor, row.model_requested, row.model, row.provider) == ("m", "m", "m", "openai")
    assert (row.status, row.argument_state, row.observation_state) == ("ok",) + ("captured",) * 2
    usage = _response(PLAIN)["usage"]
    assert (row.usage_input, row.usage_output, row.usage_cache_read, row.usage_reasoning) == (
        usage["prompt_tokens"],
        usage["completion_tokens"],
        0,
        0,
    )
    assert json.loads(row.usage_raw or "") == usage


async def test_an_async_call_is_recorded_like_a_sync_one(server: ModelServer) -> None:
    async with async_client(server) as asked:
        with recording() as recorded:
            given = await asked.chat.completions.create(model="m", messages=PLAIN)
    assert given.choices[0].message.content == SAID
    assert recorded.value(recorded.row().observation_blob) == _response(PLAIN)


def test_parallel_tool_calls_of_one_reply_are_kept_together(server: ModelServer) -> None:
    with client(server) as asked, recording() as recorded:
        given = asked.chat.completions.create(model="m", messages=QUESTION, tools=TOOLS)
    kept = recorded.value(recorded.row().observation_blob)["choices"][0]["message"]["tool_calls"]
    assert [call["function"]["name"] for call in kept] == ["ask_metrics", "search_logs"]
    assert kept == [call.to_dict() for call in given.choices[0].message.tool_calls or ()]


def test_a_history_that_holds_the_clients_own_objects_is_recorded_as_it_was_sent(
    server: ModelServer,
) -> None:
    with client(server) as asked, recording() as recorded:
        message = asked.chat.completions.create(model="m", messages=QUESTION, tools=TOOLS)
        history = [*QUESTION, message.choices[0].message]
        asked.chat.completions.create(model="m", messages=iter(history))
    assert recorded.value(recorded.rows()[1].argument_blob) == server.requests[-1]


def test_a_stream_is_recorded_as_the_response_that_it_adds_up_to(server: ModelServer) -> None:
    with client(server) as asked, recording() as recorded:
        stream = asked.chat.completions.create(
            model="m",
            messages=QUESTION,
            tools=TOOLS,
            stream=True,
            stream_options={"include_usage": True},
        )
        assert type(stream) is openai.Stream
        assert stream.response.status_code == 200
        chunks = list(stream)
    assert {type(chunk) for chunk in chunks} == {openai.types.chat.ChatCompletionChunk}
    row = recorded.row()
    whole = _response(QUESTION, TOOLS)
    kept = recorded.value(row.observation_blob)
    assert {**kept, "choices": [{**kept["choices"][0], "logprobs": None}]} == {
        **whole,
        "choices": [{**whole["choices"][0], "message": kept["choices"][0]["message"]}],
    }
    message = {k: v for k, v in whole["choices"][0]["message"].items() if k != "refusal"}
    assert kept["choices"][0]["message"] == message
    assert json.loads(row.attributes)["stream"] is True
    assert "partial" not in json.loads(row.attributes)
    assert row.usage_input == whole["usage"]["prompt_tokens"]


async def test_an_async_stream_is_recorded_as_the_response_that_it_adds_up_to(
    server: ModelServer,
) -> None:
    async with async_client(server) as asked:
        with recording() as recorded:
            stream = await asked.chat.completions.create(model="m", messages=PLAIN, stream=True)
            assert type(stream) is openai.AsyncStream
            said = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(said) == SAID
    row = recorded.row()
    assert recorded.value(row.observation_blob)["choices"][0]["message"]["content"] == SAID
    assert json.loads(row.attributes)["stream"] is True


def _leave_by_close(stream: Any) -> None:
    stream.close()


def _leave_by_context(stream: Any) -> None:
    with stream:
        pass


def _leave_by_response(stream: Any) -> None:
    stream.response.close()


@pytest.mark.parametrize("leave", [_leave_by_close, _leave_by_context, _leave_by_response])
def test_a_stream_that_is_left_early_is_recorded_as_partial(
    server: ModelServer, leave: Any
) -> None:
    with client(server) as asked, recording() as recorded:
        stream = asked.chat.completions.create(model="m", messages=PLAIN, stream=True)
        read = [next(stream).choices[0].delta.content for _ in range(3)]
        leave(stream)
    row = recorded.row()
    assert read == ["", "Without", " tools"]
    assert recorded.value(row.observation_blob)["choices"] == [
        {
            "index": 0,
            "finish_reason": None,
            "message": {"role": "assistant", "content": "Without tools"},
        }
    ]
    assert json.loads(row.attributes).items() >= {"stream": True, "partial": True}.items()


async def test_an_async_stream_that_is_left_early_is_recorded_as_partial(
    server: ModelServer,
) -> None:
    async with async_client(server) as asked:
        with recording() as recorded:
            stream = await asked.chat.completions.create(model="m", messages=PLAIN, stream=True)
            async with stream:
                async for chunk in stream:
                    if chunk.choices[0].delta.content == " tools":
                        break
    row = recorded.row()
    kept = recorded.value(row.observation_blob)["choices"][0]["message"]["content"]
    assert kept == "Without tools"
    assert json.loads(row.attributes)["partial"] is True


def test_the_streaming_helper_is_one_call(server: ModelServer) -> None:
    with (
        client(server) as asked,
        recording() as recorded,
        asked.chat.completions.stream(model="m", messages=PLAIN) as stream,
    ):
        events = [event.type for event in stream]
        final = stream.get_final_completion()
    assert final.choices[0].message.content == SAID
    assert events[-1] == "content.done"
    assert recorded.value(recorded.row().observation_blob)["choices"][0]["finish_reason"] == "stop"


class _Mood(pydantic.BaseModel):
    mood: str


def test_a_parsed_call_is_recorded_as_the_provider_sent_it(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fixtures.rule_model._Case._answer", lambda self: '{"mood":"fine"}')
    with client(server) as asked, recording() as recorded:
        given = asked.chat.completions.parse(model="m", messages=PLAIN, response_format=_Mood)
    assert given.choices[0].message.parsed == _Mood(mood="fine")
    row = recorded.row()
    assert recorded.value(row.observation_blob) == _response(PLAIN)
    assert recorded.value(row.argument_blob)["response_format"]["type"] == "json_schema"


def test_a_reply_that_the_client_cannot_parse_is_kept_beside_the_error(
    server: ModelServer,
) -> None:
    with client(server) as asked, recording() as recorded, pytest.raises(pydantic.ValidationError):
        asked.chat.completions.parse(model="m", messages=PLAIN, response_format=_Mood)
    row = recorded.row()
    assert recorded.value(row.observation_blob) == _response(PLAIN)
    assert row.usage_output == _response(PLAIN)["usage"]["completion_tokens"]
    assert (row.status, row.error_type) == ("ok", "pydantic_core._pydantic_core.ValidationError")
    assert row.error_message is not None


def test_a_raw_response_stays_raw_and_is_recorded_whole(server: ModelServer) -> None:
    with client(server) as asked, recording() as recorded:
        raw = asked.chat.completions.with_raw_response.create(model="m", messages=PLAIN)
        assert raw.status_code == 200
        assert raw.parse().choices[0].message.content == SAID
    assert recorded.value(recorded.row().observation_blob) == _response(PLAIN)


@pytest.mark.parametrize("stream", [False, True])
def test_a_streamed_raw_response_is_recorded_as_it_is_read(
    server: ModelServer, *, stream: bool
) -> None:
    with client(server) as asked, recording() as recorded:
        create: Any = asked.chat.completions.with_streaming_response.create
        with create(model="m", messages=PLAIN, stream=stream) as raw:
            assert recorded.row().ts_end_ns is None
            assert len(list(raw.iter_lines())) > 0
    kept = recorded.value(recorded.row().observation_blob)
    assert kept["choices"][0]["message"]["content"] == SAID


def test_an_error_of_the_provider_is_recorded_and_raised_as_the_same(server: ModelServer) -> None:
    server.failures[:] = [429]
    with (
        client(server) as asked,
        recording() as recorded,
        pytest.raises(openai.RateLimitError) as caught,
    ):
        asked.chat.completions.create(model="m", messages=PLAIN)
    row = recorded.row()
    assert caught.value.response.status_code == 429
    assert (row.status, row.error_type) == ("error", "openai.RateLimitError")
    assert recorded.value(row.observation_blob) == [
        {
            "type": "RateLimitError",
            "message": "Error code: 429 - asked to fail with 429",
            "status": 429,
            "body": caught.value.body,
        }
    ]


def test_a_call_that_succeeds_at_the_second_try_is_one_call(server: ModelServer) -> None:
    server.failures[:] = [500]
    with client(server, max_retries=1) as asked, recording() as recorded:
        asked.chat.completions.create(model="m", messages=PLAIN)
    assert recorded.row().status == "ok"


def test_a_server_that_is_gone_is_recorded_as_the_clients_error() -> None:
    with ModelServer() as gone:
        pass
    with client(gone) as asked, recording() as recorded, pytest.raises(openai.APIConnectionError):
        asked.chat.completions.create(model="m", messages=PLAIN)
    assert recorded.row().error_type == "openai.APIConnectionError"


def test_what_is_refused_has_the_status_that_a_client_knows(server: ModelServer) -> None:
    with client(server) as asked, pytest.raises(openai.AuthenticationError):
        asked.chat.completions.create(
            model="m", messages=PLAIN, extra_headers={"Authorization": openai.omit}
        )
    wrong: Any = "no list"
    with client(server) as asked, pytest.raises(openai.BadRequestError):
        asked.chat.completions.create(model="m", messages=wrong)


def test_a_call_outside_any_run_is_not_recorded(server: ModelServer) -> None:
    with client(server) as asked:
        with recording() as recorded:
            pass
        asked.chat.completions.create(model="m", messages=PLAIN)
    assert recorded.rows() == []


@pytest.mark.parametrize("stream", [False, True])
def test_a_fault_of_ours_is_counted_and_changes_nothing_for_the_caller(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, *, stream: bool
) -> None:
    def broken(*args: object) -> None:
        raise KeyError("ours")

    monkeypatch.setattr("tracekit.integrations.chat.as_sent", broken)
    monkeypatch.setattr("tracekit.integrations.chat.Accumulator.add", broken)
    with client(server) as asked, recording(strict=False) as recorded:
        create: Any = asked.chat.completions.create
        given = create(model="m", messages=PLAIN, stream=stream)
        if stream:
            said = "".join(chunk.choices[0].delta.content or "" for chunk in given)
        else:
            said = given.choices[0].message.content
    assert said == SAID
    assert "loss.noted" in [fact.fact for fact in recorded.sink.facts]


PROGRAM = """
import tracekit
@tracekit.agent
def agent(question: str) -> str:
    import openai  # the first import, in the middle of a run
    reply = openai.OpenAI().chat.completions.create(
        model="m", messages=[{"role": "user", "content": question}]
    )
    try:
        openai.OpenAI(max_retries=0).chat.completions.create(model="m", messages=[1])
    except openai.BadRequestError:
        pass
    return reply.choices[0].message.content
print(agent("Hello?"))
assert type(__import__("sys").modules["openai"].__loader__).__name__ == "SourceFileLoader"
"""


def test_a_client_first_imported_inside_the_agent_is_recorded_and_no_key_reaches_the_disk(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("TRACEKIT_STORE", str(tmp_path / "store"))
    command = [sys.executable, "-W", "error", "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("Without tools there is nothing to add to: Hello?\n", "")
    written = b"".join(p.read_bytes() for p in (tmp_path / "store").rglob("*") if p.is_file())
    facts = [json.loads(line).get("fact") for line in written.splitlines()]
    assert facts.count("llm_call.ended") == 2
    assert KEY.encode() not in written
    assert b"uthorization" not in written


BROKEN = """
import sys, types
sys.modules["openai"] = types.ModuleType("openai")  # somebody's double
import tracekit
@tracekit.agent
def agent() -> str:
    return "fine"
print(agent())
"""


def test_a_client_that_cannot_be_instrumented_does_not_stop_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEKIT_STORE", str(tmp_path / "store"))
    command = [sys.executable, "-W", "error", "-c", BROKEN]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "fine\n"
    assert "cannot record calls of openai" in done.stderr

"""The Responses API of the real ``openai`` client is recorded, and answered in a replay."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pydantic
import pytest

from fixtures import responses_api
from fixtures.model_server import ModelServer, completion
from replay.models import LiveModel
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
from tracekit import guard
from tracekit.cli.wording import reply_text, request_text
from tracekit.decisions import requested, said
from tracekit.errors import NotReplayable, RecordedError
from tracekit.integrations import responses
from tracekit.prompts import hash_prompt
from tracekit.trajectory import ModelCall, Observation

FLAT: list[Any] = [{"type": "function", **tool["function"]} for tool in TOOLS]
ASKED: dict[str, Any] = {"model": "m", "input": QUESTION, "tools": FLAT}


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


def _response(body: dict[str, Any]) -> Any:
    """What the server says to a request."""
    reply = completion(responses_api.chat_body(body))
    return json.loads(json.dumps(responses_api.response(body, reply)))


def _served(body: dict[str, Any]) -> guard.Served:
    return guard.Served(_response(body), {"rung": "exact"})


class Tape:
    """Answers every call in the same way."""

    def __init__(self, outcome: guard.Outcome) -> None:
        self.outcome = outcome
        self.asked: list[guard.Question] = []

    def answer(self, question: guard.Question) -> guard.Outcome:
        self.asked.append(question)
        return self.outcome


# --- recorded -------------------------------------------------------------------------------------


def test_a_request_is_recorded_as_it_was_sent_and_answered(server: ModelServer) -> None:
    with client(server) as asking, recording() as recorded:
        given = asking.responses.create(model="m", input="Hello.", instructions="Be kind.")
    row = recorded.row()
    sent = {"model": "m", "input": "Hello.", "instructions": "Be kind."}
    assert recorded.value(row.argument_blob) == server.requests[-1] == sent
    assert recorded.value(row.observation_blob) == _response(sent)
    assert given.output_text.endswith("Hello.")
    assert (row.actor, row.model, row.provider, row.status) == ("m", "m", "openai", "ok")
    assert given.usage is not None
    assert (row.usage_input, row.usage_output) == (
        given.usage.input_tokens,
        given.usage.output_tokens,
    )
    assert (row.usage_cache_read, row.usage_reasoning) == (0, 0)


async def test_an_async_request_is_recorded_like_a_sync_one(server: ModelServer) -> None:
    async with async_client(server) as asking:
        with recording() as recorded:
            await asking.responses.create(**ASKED)
    assert recorded.value(recorded.row().observation_blob) == _response(ASKED)


def test_a_stream_is_recorded_as_the_response_that_it_makes(server: ModelServer) -> None:
    with client(server) as asking, recording() as recorded:
        events = list(asking.responses.create(**ASKED, stream=True))
    row = recorded.row()
    assert events[-1].type == "response.completed"
    assert recorded.value(row.observation_blob) == _response(ASKED)
    assert json.loads(row.attributes or "{}") == {"stream": True}


async def test_an_async_stream_that_is_left_is_recorded_as_read_in_part(
    server: ModelServer,
) -> None:
    async with async_client(server) as asking:
        with recording() as recorded:
            stream = await asking.responses.create(model="m", input="Hello there.", stream=True)
            async for event in stream:
                if event.type == "response.output_text.delta" and "tools" in event.delta:
                    break
            await stream.close()
    row = recorded.row()
    kept = recorded.value(row.observation_blob)
    assert kept["output"][0]["content"][0]["text"] == "Without tools"
    assert kept["status"] == "in_progress"
    marks = json.loads(row.attributes or "{}")
    assert marks.pop("pieces") > 4
    assert marks == {"stream": True, "partial": True}


def test_the_streaming_helper_and_parsed_replies_are_recorded_as_sent(server: ModelServer) -> None:
    with client(server) as asking, recording() as recorded:
        with asking.responses.stream(**ASKED) as stream:
            stream.until_done()
        asking.responses.parse(model="m", input="Hello.", text_format=openai.omit)
    streamed, parsed = recorded.rows()
    assert recorded.value(streamed.observation_blob) == _response(ASKED)
    assert recorded.value(parsed.observation_blob) == _response({"model": "m", "input": "Hello."})


class _Mood(pydantic.BaseModel):
    mood: str


def test_a_reply_that_the_client_cannot_parse_is_kept_and_read_again_in_a_replay(
    server: ModelServer,
) -> None:
    with client(server) as asking, recording() as recorded, pytest.raises(pydantic.ValidationError):
        asking.responses.parse(model="m", input="Hello.", text_format=_Mood)
    row = recorded.row()
    kept = recorded.value(row.observation_blob)
    assert kept["output"][0]["type"] == "message"
    assert (row.status, row.usage_output) == ("ok", kept["usage"]["output_tokens"])
    assert str(row.error_type).endswith("ValidationError")
    tape = Tape(guard.Served(kept, {}))
    with (
        client(server) as asking,
        guard.answering(tape),
        recording(),
        pytest.raises(pydantic.ValidationError),
    ):
        asking.responses.parse(model="m", input="Hello.", text_format=_Mood)


def test_a_refused_request_is_recorded_as_an_error(server: ModelServer) -> None:
    with client(server) as asking, recording() as recorded:
        server.failures.append(429)
        with pytest.raises(openai.RateLimitError):
            asking.responses.create(model="m", input="Hello.")
    row = recorded.row()
    assert (row.status, row.error_type) == ("error", "openai.RateLimitError")
    assert KEY not in str(recorded.sink.blobs)


def test_other_requests_are_not_recorded(server: ModelServer) -> None:
    with client(server) as asking, recording() as recorded, pytest.raises(openai.NotFoundError):
        asking.embeddings.create(model="m", input="Hello.")
    assert recorded.rows() == []


# --- answered -------------------------------------------------------------------------------------


def test_a_request_is_answered_with_the_recorded_response(server: ModelServer) -> None:
    before, tape = len(server.requests), Tape(_served(ASKED))
    with client(server) as asking, guard.answering(tape), recording() as recorded:
        given = asking.responses.create(**ASKED)
        events = list(asking.responses.create(**ASKED, stream=True))
        with asking.responses.stream(**ASKED) as stream:
            final = stream.get_final_response()
        raw = asking.responses.with_raw_response.create(**ASKED)
    assert len(server.requests) == before
    assert type(given) is openai.types.responses.Response
    assert given.to_dict(mode="json") == _response(ASKED)
    assert raw.parse().id == given.id == final.id
    names = [item.name for item in given.output if item.type == "function_call"]
    assert names == ["ask_metrics", "search_logs"]
    assert [item.name for item in final.output if item.type == "function_call"] == names
    kinds = [event.type for event in events]
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [question.stream for question in tape.asked] == [False, True, True, False]
    assert {row.rung for row in recorded.rows()} == {"exact"}
    assert recorded.rows()[0].usage_input == _response(ASKED)["usage"]["input_tokens"]


async def test_an_async_stream_is_played_from_the_recorded_response(server: ModelServer) -> None:
    body = {"model": "m", "input": PLAIN}
    async with async_client(server) as asking:
        with guard.answering(Tape(_served(body))):
            stream = await asking.responses.create(model="m", input=PLAIN, stream=True)
            said = [e.delta async for e in stream if e.type == "response.output_text.delta"]
    assert "".join(said) == SAID


class _Mood(pydantic.BaseModel):
    mood: str


@pytest.mark.parametrize(
    "reply",
    [
        '{"mood":"fine"}',
        {"role": "assistant", "content": '{"mood":"fine"}'},
        {"choices": [{"message": {"role": "assistant", "content": '{"mood":"fine"}'}}]},
    ],
)
def test_a_scripted_reply_may_be_a_text_a_message_or_a_chat_completion(
    server: ModelServer, reply: Any
) -> None:
    with client(server) as asking, guard.answering(Tape(guard.Served(reply, {}))):
        parsed = asking.responses.parse(model="m", input="Hello.", text_format=_Mood)
    assert parsed.output_parsed == _Mood(mood="fine")


def test_scripted_tool_calls_become_items(server: ModelServer) -> None:
    reply = {"tool_calls": [{"name": "f", "arguments": {"x": 1}}]}
    with client(server) as asking, guard.answering(Tape(guard.Served(reply, {}))):
        (item,) = asking.responses.create(model="m", input="Hello.").output
    assert item.type == "function_call"
    assert (item.name, item.arguments) == ("f", '{"x":1}')


def test_what_is_no_reply_is_refused_and_errors_are_the_clients_own(server: ModelServer) -> None:
    with client(server) as asking:
        with guard.answering(Tape(guard.Served(17, {}))), pytest.raises(NotReplayable):
            asking.responses.create(model="m", input="Hello.")
        error = RecordedError("openai.RateLimitError", "slow down")
        raised = pytest.raises(openai.RateLimitError, match="slow down")
        with guard.answering(Tape(guard.Raised(error, {}))), raised:
            asking.responses.create(model="m", input="Hello.")


@pytest.mark.parametrize(
    "item",
    [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"type": "custom_tool_call", "id": "c", "call_id": "c", "name": "sql", "input": "select 1"},
        {
            "type": "message",
            "id": "m",
            "role": "assistant",
            "content": [{"type": "refusal", "refusal": "I can't."}],
        },
    ],
    ids=lambda item: item["type"],
)
def test_a_stream_of_any_item_is_taken_apart_and_put_together_again(item: dict[str, Any]) -> None:
    whole = {**_response(ASKED), "output": [item]}
    seen = responses.Accumulator()
    for event in responses.events(whole):
        seen.add(event)
        if event["type"] == "response.output_item.done":
            break
    assert seen.response()["output"] == [item]
    pieces = responses.Accumulator()
    for event in responses.events(whole):
        if not event["type"].endswith(("_item.done", "part.done", "completed")):
            pieces.add(event)
    (put,) = pieces.response()["output"]  # type: ignore[misc]  # a list, as sent
    assert isinstance(put, dict)
    assert {**put, "status": None} == {**item, "status": None}


# --- hashed, joined, asked anew -------------------------------------------------------------------


def test_a_prompt_has_one_hash_whichever_api_it_goes_through() -> None:
    chat_messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Look."},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
                {"id": "b", "type": "function", "function": {"name": "g", "arguments": ""}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "seen"},
        {"role": "tool", "tool_call_id": "b", "content": "heard"},
    ]
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "Look."}]},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "a",
            "name": "f",
            "arguments": '{"x":1}',
        },
        {"type": "function_call", "id": "fc_2", "call_id": "b", "name": "g", "arguments": ""},
        {"type": "function_call_output", "call_id": "a", "output": "seen"},
        {"type": "function_call_output", "call_id": "b", "output": "heard"},
    ]
    chat = {"model": "m", "messages": chat_messages, "tools": TOOLS, "max_completion_tokens": 9}
    given = {"model": "m", "instructions": "Be kind.", "input": items, "tools": FLAT}
    assert hash_prompt({**given, "max_output_tokens": 9}) == hash_prompt(chat)
    assert hash_prompt({"model": "m", "input": "Hi"}) == hash_prompt(
        {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    )


@pytest.mark.parametrize("name", ["previous_response_id", "conversation"])
def test_a_request_that_continues_another_has_no_hash_of_the_whole_prompt(name: str) -> None:
    hashes = hash_prompt({"model": "m", "input": "Yes.", "instructions": "Be kind.", name: "r_1"})
    assert hashes.prompt is None
    assert hashes.system is not None


def test_a_function_that_merely_has_an_input_is_not_taken_for_a_request() -> None:
    assert hash_prompt({"input": "a"}) == hash_prompt({"input": "a"})
    assert hash_prompt({"input": "a"}) != hash_prompt({"model": "m", "input": "a"})


def test_the_calls_and_words_of_a_reply_are_read_from_its_items() -> None:
    reply = Observation(_response(ASKED), "captured")
    wanted = requested(ModelCall("", "", None, None, reply), 0)
    assert [one.tool for one in wanted] == ["ask_metrics", "search_logs"]
    assert all(isinstance(one.arguments, dict) and one.arguments for one in wanted)
    assert said(reply) is None
    assert said(Observation(_response({"model": "m", "input": PLAIN}), "captured")) == SAID


def test_requests_and_replies_are_put_in_words_like_those_of_chat_completions() -> None:
    assert request_text("m", ASKED) == "m · 2 messages"
    assert reply_text(_response(ASKED)) == "calls ask_metrics, search_logs"
    assert reply_text(_response({"model": "m", "input": PLAIN})) == SAID


def test_a_live_model_is_asked_through_the_same_api(server: ModelServer) -> None:
    asked = {**ASKED, "stream": True, "temperature": 0}
    reply = LiveModel(base_url=server.url, api_key=KEY).complete(asked)
    assert reply.value == _response(ASKED)
    assert server.requests[-1] == {**ASKED, "temperature": 0}

"""In a replay the ``openai`` client gets its own objects from the record, and sends nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pydantic
import pytest

from fixtures.agents import sre
from fixtures.model_server import ModelServer, completion
from tests.recorder.openai_kit import (
    PLAIN,
    QUESTION,
    SAID,
    TOOLS,
    Recorded,
    async_client,
    client,
    recording,
)
from tracekit import guard
from tracekit.canonical import Encoded, decode, digest, encode
from tracekit.errors import NotReplayable, RecordedError
from tracekit.integrations.openai_wire import wire_response
from tracekit.rows import rows_from_facts


class Tape:
    """Answers every call in the same way."""

    def __init__(self, outcome: guard.Outcome) -> None:
        self.outcome = outcome
        self.asked: list[guard.Question] = []

    def answer(self, question: guard.Question) -> guard.Outcome:
        self.asked.append(question)
        return self.outcome


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture(autouse=True)
def _nothing_is_sent(server: ModelServer) -> Iterator[None]:
    before = len(server.requests)
    yield
    assert len(server.requests) == before


@contextmanager
def answered(outcome: guard.Outcome) -> Iterator[tuple[Recorded, Tape]]:
    tape = Tape(outcome)
    with guard.answering(tape), recording() as recorded:
        yield recorded, tape


def _served(messages: list[Any], tools: list[Any] | None = None) -> guard.Served:
    body = {"model": "m", "messages": messages, "tools": tools}
    return guard.Served(completion(body), {"rung": "exact"})


def test_a_call_is_answered_with_the_recorded_response(server: ModelServer) -> None:
    with client(server) as asking, answered(_served(PLAIN)) as (recorded, tape):
        given = asking.chat.completions.create(model="m", messages=PLAIN)
    assert type(given) is openai.types.chat.ChatCompletion
    assert given.choices[0].message.content == SAID
    assert tape.asked[0].arguments == {"model": "m", "messages": PLAIN}
    row = recorded.row()
    assert (row.rung, row.model) == ("exact", "m")
    assert given.usage is not None
    assert row.usage_input == given.usage.prompt_tokens
    assert recorded.value(row.observation_blob) == _served(PLAIN).value


async def test_an_async_call_is_answered_with_the_recorded_response(server: ModelServer) -> None:
    async with async_client(server) as asking:
        with answered(_served(PLAIN)):
            given = await asking.chat.completions.create(model="m", messages=PLAIN)
    assert given.choices[0].message.content == SAID


def test_a_stream_is_played_from_the_recorded_response(server: ModelServer) -> None:
    with (
        client(server) as asking,
        answered(_served(QUESTION, TOOLS)) as (_, tape),
        asking.chat.completions.create(
            model="m", messages=QUESTION, stream=True, stream_options={"include_usage": True}
        ) as stream,
    ):
        assert type(stream) is openai.Stream
        assert stream.response.status_code == 200
        chunks = list(stream)
    assert tape.asked[0].stream
    names = [
        call.function and call.function.name
        for chunk in chunks
        for choice in chunk.choices
        for call in choice.delta.tool_calls or ()
    ]
    assert names == ["ask_metrics", "search_logs"]
    assert [chunk.usage is not None for chunk in chunks] == [False, False, False, False, True]


async def test_an_async_stream_is_played_from_the_recorded_response(server: ModelServer) -> None:
    async with async_client(server) as asking:
        with answered(_served(PLAIN)):
            stream = await asking.chat.completions.create(model="m", messages=PLAIN, stream=True)
            said = [chunk.choices[0].delta.content or "" async for chunk in stream]
            await stream.close()
    assert "".join(said) == SAID


def test_the_streaming_helper_is_played_from_the_recorded_response(server: ModelServer) -> None:
    with (
        client(server) as asking,
        answered(_served(PLAIN)),
        asking.chat.completions.stream(model="m", messages=PLAIN) as stream,
    ):
        final = stream.get_final_completion()
    assert final.choices[0].message.content == SAID


class _Mood(pydantic.BaseModel):
    mood: str


def test_parsed_and_raw_calls_are_answered_in_their_own_forms(server: ModelServer) -> None:
    said = guard.Served({"role": "assistant", "content": '{"mood":"fine"}'}, {})
    with client(server) as asking, answered(said):
        parsed = asking.chat.completions.parse(model="m", messages=PLAIN, response_format=_Mood)
        raw = asking.chat.completions.with_raw_response.create(model="m", messages=PLAIN)
        with asking.chat.completions.with_streaming_response.create(
            model="m", messages=PLAIN
        ) as streamed:
            read = streamed.parse()
    assert parsed.choices[0].message.parsed == _Mood(mood="fine")
    assert raw.parse().choices[0].message.content == '{"mood":"fine"}'
    assert read.choices[0].message.content == '{"mood":"fine"}'


@pytest.mark.parametrize(
    ("reply", "content", "names"),
    [
        ("Hello.", "Hello.", []),
        ({"role": "assistant", "content": "Hello."}, "Hello.", []),
        ({"tool_calls": [{"name": "f", "arguments": {"x": 1}}]}, None, ["f"]),
    ],
)
def test_a_scripted_reply_may_be_a_text_or_a_message(
    server: ModelServer, reply: Any, content: str | None, names: list[str]
) -> None:
    with client(server) as asking, answered(guard.Served(reply, {})):
        message = asking.chat.completions.create(model="m", messages=PLAIN).choices[0].message
    called: list[Any] = list(message.tool_calls or ())
    assert (message.content, [call.function.name for call in called]) == (content, names)


def test_a_reply_that_is_none_is_refused(server: ModelServer) -> None:
    with client(server) as asking, answered(guard.Served(17, {})), pytest.raises(NotReplayable):
        asking.chat.completions.create(model="m", messages=PLAIN)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (openai.RateLimitError, 429),
        (openai.AuthenticationError, 401),
        (openai.InternalServerError, 503),
    ],
)
def test_a_recorded_error_comes_back_as_the_clients_own(
    server: ModelServer, kind: type[openai.APIStatusError], status: int
) -> None:
    with client(server) as asking, answered(guard.EXECUTE):
        response = asking._make_status_error_from_response  # builds what the wire would raise
        first = _error(asking, response, status)
        kept = encode(first)
    again = decode(Encoded(kept.value, kept.types))
    assert isinstance(again, kind)
    assert isinstance(again, openai.APIStatusError)
    with client(server) as asking, answered(guard.Raised(again, {})), pytest.raises(kind) as caught:
        asking.chat.completions.create(model="m", messages=PLAIN)
    assert caught.value is again
    assert (again.status_code, again.message, again.body) == (status, first.message, first.body)
    assert again.request_id == "req-1"


def _error(asking: openai.OpenAI, make: Any, status: int) -> openai.APIStatusError:
    sent = {"x-request-id": "req-1"}
    made: openai.APIStatusError = make(
        wire_response(status, b'{"error": {"message": "slow down", "code": "slow"}}', headers=sent)
    )
    return made


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("openai.APITimeoutError", openai.APITimeoutError),
        ("openai.APIConnectionError", openai.APIConnectionError),
        ("openai.RateLimitError", openai.RateLimitError),
        ("openai.NoSuchError", RecordedError),
        ("TimeoutError", RecordedError),
    ],
)
async def test_an_error_of_which_only_the_name_is_known_is_rebuilt_where_it_can_be(
    server: ModelServer, name: str, kind: type[Exception]
) -> None:
    async with async_client(server) as asking:
        with answered(guard.Raised(RecordedError(name, "no"), {})), pytest.raises(kind) as caught:
            await asking.chat.completions.create(model="m", messages=PLAIN)
    assert type(caught.value) is kind


class Conversation:
    """Answers a prompt with what was recorded for exactly that prompt, and tools in their order."""

    def __init__(self, recorded: Recorded) -> None:
        rows = rows_from_facts(recorded.sink.facts)
        self.replies = {
            digest(recorded.value(row.argument_blob)): recorded.value(row.observation_blob)
            for row in rows
            if row.event_type == "llm_call"
        }
        self.tools = iter([row for row in rows if row.event_type == "tool_call"])
        self.recorded = recorded

    def answer(self, question: guard.Question) -> guard.Outcome:
        if question.contract is None:
            return guard.Served(self.replies[digest(encode(question.arguments).value)], {})
        row = next(self.tools)
        if row.status == "error":
            return guard.Raised(TimeoutError(row.error_message), {})
        return guard.Served(self.recorded.value(row.observation_blob), {})


def test_a_replayed_conversation_asks_the_recorded_prompts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-local")
    monkeypatch.delenv(sre.DEPLOY_LOG, raising=False)
    with ModelServer() as own, recording() as recorded:
        monkeypatch.setenv("OPENAI_BASE_URL", own.url)
        client(own).close()
        said = sre.investigate_v1(sre.QUESTION)
    assert len(recorded.rows()) == 5
    with guard.answering(Conversation(recorded)), recording() as again:
        assert sre.investigate_v1(sre.QUESTION) == said
    assert [row.prompt_hash for row in again.rows()] == [r.prompt_hash for r in recorded.rows()]


def test_there_is_no_road_around_the_guard(server: ModelServer) -> None:
    assert not hasattr(openai.OpenAI.request, "__wrapped__")
    with client(server) as asking, answered(_served(PLAIN)) as (_, tape):
        asking.post(
            "/chat/completions",
            body={"model": "m", "messages": PLAIN},
            cast_to=openai.types.chat.ChatCompletion,
        )
    assert len(tape.asked) == 1

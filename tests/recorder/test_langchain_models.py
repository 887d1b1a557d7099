"""Chat models of the real LangChain packages are recorded, and answered in a replay."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import Any

import openai
import pytest

from fixtures.model_server import ModelServer
from tracekit import guard
from tracekit.canonical import Encoded, decode
from tracekit.errors import NotRecorded, NotReplayable, RecordedError
from tracekit.prompts import hash_prompt

pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

from tests.recorder.langchain_kit import answered, recording
from tests.recorder.openai_kit import PLAIN, SAID, TOOLS

GATHER = [
    SystemMessage("Gather both metrics and logs, at the same time."),
    HumanMessage("What is wrong with checkout-api?"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


def _model(server: ModelServer, **options: Any) -> ChatOpenAI:
    given = {"model": "m", "base_url": server.url, "api_key": "key", "max_retries": 0, **options}
    return ChatOpenAI(**given)


class Scripted(BaseChatModel):
    """A model of the user's own that says more than chat completions can."""

    said: Any = None
    asked: int = 0

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, *_: Any, **__: Any) -> ChatResult:
        self.asked += 1
        return ChatResult(
            generations=[ChatGeneration(message=self.said, generation_info={"stop": "end"})],
            llm_output={"seen": 1},
        )

    async def _astream(self, *_: Any, **__: Any) -> AsyncIterator[ChatGenerationChunk]:
        self.asked += 1
        for word in ("one ", "two ", "three"):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))


RICH = AIMessage(
    content=[
        {"type": "reasoning", "reasoning": "Hm.", "id": "r1"},
        {"type": "text", "text": "I look."},
    ],
    tool_calls=[{"name": "f", "args": {"x": 1, "text": "ü"}, "id": "a", "type": "tool_call"}],
    invalid_tool_calls=[
        {"name": "g", "args": "{x", "id": "b", "error": None, "type": "invalid_tool_call"}
    ],
    usage_metadata={
        "input_tokens": 30,
        "output_tokens": 12,
        "total_tokens": 42,
        "input_token_details": {"cache_read": 10, "cache_creation": 5},
        "output_token_details": {"reasoning": 4},
    },
    response_metadata={"model_name": "m-2", "logprobs": [0.5], "stop_reason": "tool_use"},
    additional_kwargs={"signature": "abc"},
    id="run-1",
    name="thinker",
)


# --- recorded -------------------------------------------------------------------------------------


def test_a_request_and_its_reply_are_recorded_in_the_shape_of_chat_completions(
    server: ModelServer,
) -> None:
    with recording() as recorded:
        said = _model(server, temperature=0).bind_tools(TOOLS).invoke(GATHER)
    (row,) = recorded.rows("llm_call")
    asked = recorded.value(row.argument_blob)
    sent = server.requests[-1]
    assert {n: asked[n] for n in ("model", "messages", "tools", "temperature")} == {
        n: sent[n] for n in ("model", "messages", "tools", "temperature")
    }
    assert row.prompt_hash == hash_prompt(sent).prompt
    (choice,) = recorded.value(row.observation_blob)["choices"]
    assert [c["function"]["name"] for c in choice["message"]["tool_calls"]] == [
        "ask_metrics",
        "search_logs",
    ]
    assert choice["finish_reason"] == "tool_calls"
    assert said.usage_metadata is not None
    assert (row.actor, row.model, row.provider, row.usage_input, row.usage_output) == (
        "m",
        "m",
        "openai",
        said.usage_metadata["input_tokens"],
        said.usage_metadata["output_tokens"],
    )


async def test_sync_async_and_streamed_requests_are_one_step_each(server: ModelServer) -> None:
    model = _model(server, stream_usage=True)
    with recording() as recorded:
        whole = model.invoke(PLAIN)
        assert (await model.ainvoke(PLAIN)).content == SAID
        assert "".join(str(c.content) for c in model.stream(PLAIN)) == SAID
        assert "".join([str(c.content) async for c in model.astream(PLAIN)]) == SAID
        assert (await _model(server, streaming=True).ainvoke(PLAIN)).content == SAID
        assert [m.content for m in model.batch([PLAIN, PLAIN])] == [SAID, SAID]
    rows = recorded.rows("llm_call")
    assert len(rows) == 7
    replies = [recorded.value(row.observation_blob)["choices"][0]["message"] for row in rows]
    assert {reply["content"] for reply in replies} == {SAID}
    assert len({row.prompt_hash for row in rows}) == 1
    marks = [json.loads(row.attributes or "{}") for row in rows]
    assert marks == [{}, {}, *({"stream": True},) * 3, {}, {}]
    assert whole.usage_metadata is not None
    assert [row.usage_input for row in rows[:4]] == [whole.usage_metadata["input_tokens"]] * 4


async def test_a_stream_that_is_left_is_recorded_as_read_in_part() -> None:
    with recording() as recorded:
        stream = Scripted().astream("hello")
        assert (await anext(stream)).content == "one "
        await stream.aclose()  # type: ignore[attr-defined]  # a generator
    (row,) = recorded.rows("llm_call")
    assert recorded.value(row.observation_blob)["choices"][0]["message"]["content"] == "one "
    assert json.loads(row.attributes or "{}") == {"stream": True, "partial": True, "pieces": 1}


def test_an_error_of_the_client_is_recorded_and_raised_again_as_it_was(
    server: ModelServer,
) -> None:
    server.failures.append(429)
    with recording() as recorded, pytest.raises(openai.RateLimitError) as caught:
        _model(server).invoke(PLAIN)
    (row,) = recorded.rows("llm_call")
    assert row.status == "error"
    types = json.loads(row.observation_types or "{}")
    again = decode(Encoded(recorded.value(row.observation_blob), types))
    assert isinstance(again, type(caught.value))
    with answered(guard.Raised(again, {})), pytest.raises(type(caught.value)) as raised:
        _model(server).invoke(PLAIN)
    assert raised.value is again
    assert (again.message, again.status_code) == (caught.value.message, 429)


def test_a_model_without_a_wire_is_recorded_too() -> None:
    with recording() as recorded:
        assert FakeListChatModel(responses=["hello"]).invoke("say it").content == "hello"
    (row,) = recorded.rows("llm_call")
    assert row.actor == "FakeListChatModel"
    assert recorded.value(row.argument_blob)["messages"] == [{"role": "user", "content": "say it"}]


def test_tools_in_the_words_of_another_provider_are_recorded_as_they_would_be_sent() -> None:
    theirs = {
        "name": "look",
        "description": "Look.",
        "input_schema": {"type": "object", "properties": {"x": {"type": "integer"}}},
    }
    builtin = {"type": "web_search_20250305", "name": "web_search"}
    with recording() as recorded:
        Scripted(said=AIMessage("Hi.")).invoke("look", tools=[theirs, builtin])
    (row,) = recorded.rows("llm_call")
    first, second = recorded.value(row.argument_blob)["tools"]
    assert first["function"] == {
        "name": "look",
        "description": "Look.",
        "parameters": theirs["input_schema"],
    }
    assert second == builtin


class Broken(Scripted):
    """A model that cannot say what it is."""

    def _get_ls_params(self, *_: Any, **__: Any) -> Any:
        raise KeyError("model")


def test_a_model_that_cannot_say_what_it_is_is_recorded_under_the_name_of_its_class() -> None:
    with recording() as recorded:
        Broken(said=AIMessage("Hi."))._generate([HumanMessage("look")])
    assert [row.actor for row in recorded.rows("llm_call")] == ["Broken"]


# --- answered -------------------------------------------------------------------------------------


def _fields(message: Any) -> dict[str, Any]:
    return {name: value for name, value in message.model_dump().items() if name != "id"}


def test_a_recorded_reply_comes_back_as_it_was() -> None:
    model = Scripted(said=RICH)
    with recording() as recorded:
        model.invoke("look")
    (row,) = recorded.rows("llm_call")
    kept = recorded.value(row.observation_blob)
    assert (row.usage_input, row.usage_cache_read, row.usage_cache_write, row.usage_reasoning) == (
        30,
        10,
        5,
        4,
    )
    with answered(guard.Served(kept, {"rung": "exact"})) as (again, tape):
        message = model.invoke("look")
        result = model._generate([HumanMessage("look")])
    assert model.asked == 1
    assert _fields(message) == _fields(RICH)
    assert (result.llm_output, result.generations[0].generation_info) == (
        {"seen": 1},
        {"stop": "end"},
    )
    assert [r.rung for r in again.rows("llm_call")] == ["exact", "exact"]
    assert again.rows("llm_call")[0].usage_input == 30
    assert tape.asked[0].arguments["messages"] == [{"role": "user", "content": "look"}]


async def test_a_stream_is_played_from_the_recorded_reply(server: ModelServer) -> None:
    model = _model(server).bind_tools(TOOLS)
    with recording() as recorded:
        whole = model.invoke(GATHER)
    kept = recorded.value(recorded.rows("llm_call")[0].observation_blob)
    asked = len(server.requests)
    with answered(guard.Served(kept, {})) as (_, tape):
        streamed = [chunk async for chunk in model.astream(GATHER)]
        told = _Tokens()
        again = model.invoke(GATHER, {"callbacks": [told]})
        spelt = _model(server, streaming=True).bind_tools(TOOLS).invoke(GATHER)
    assert len(server.requests) == asked
    merged = streamed[0]
    for chunk in streamed[1:]:
        merged += chunk
    assert isinstance(merged, AIMessageChunk)
    assert merged.tool_calls == whole.tool_calls == again.tool_calls == spelt.tool_calls
    assert merged.usage_metadata == whole.usage_metadata
    assert told.ended == 1
    assert [question.stream for question in tape.asked] == [True, False, True]


def test_a_stream_that_was_left_is_played_as_far_as_it_was_read(server: ModelServer) -> None:
    model = _model(server)
    with recording() as recorded:
        before = list(islice(model.stream("Hello, how are you?"), 4))
    (row,) = recorded.rows("llm_call")
    pieces = json.loads(row.attributes)["pieces"]
    left = guard.Served(guard.Part(recorded.value(row.observation_blob), pieces), {})
    seen: list[str] = []
    with answered(left) as (again, _):
        after = list(islice(model.stream("Hello, how are you?"), 4))
        with pytest.raises(NotRecorded):
            seen.extend(chunk.text for chunk in model.stream("Hello, how are you?"))
        with pytest.raises(NotRecorded):
            model.invoke("Hello, how are you?")
    said = "".join(chunk.text for chunk in before)
    assert said
    assert said == "".join(chunk.text for chunk in after) == "".join(seen)
    assert json.loads(again.rows("llm_call")[0].attributes)["pieces"] == pieces


class _Tokens(BaseCallbackHandler):
    def __init__(self) -> None:
        self.ended = 0

    def on_llm_end(self, *_: Any, **__: Any) -> None:
        self.ended += 1


class _Mood(BaseModel):
    mood: str


@pytest.mark.parametrize(
    "reply",
    [
        '{"mood":"fine"}',
        {"role": "assistant", "content": '{"mood":"fine"}'},
        {
            "choices": [{"message": {"role": "assistant", "content": '{"mood":"fine"}'}}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
        },
    ],
)
def test_a_reply_may_be_a_text_a_message_or_a_response(server: ModelServer, reply: Any) -> None:
    model = _model(server)
    with answered(guard.Served(reply, {})):
        message = model.invoke("How is it?")
    assert message.content == '{"mood":"fine"}'
    if isinstance(reply, dict) and "usage" in reply:
        assert message.usage_metadata is not None
        assert message.usage_metadata["total_tokens"] == 7


def test_structured_output_is_answered_through_its_parser() -> None:
    reply = {"tool_calls": [{"name": "_Mood", "arguments": {"mood": "fine"}}]}
    model = ChatOpenAI(model="m", api_key="key", base_url="http://127.0.0.1:9/v1")
    asking = model.with_structured_output(_Mood, method="function_calling")
    with answered(guard.Served(reply, {})):
        assert asking.invoke("How is it?") == _Mood(mood="fine")


@pytest.mark.parametrize("reply", [17, {"choices": []}])
def test_what_is_no_reply_is_refused(reply: Any) -> None:
    with answered(guard.Served(reply, {})), pytest.raises(NotReplayable):
        Scripted().invoke("look")


def test_a_recorded_error_is_raised_and_nothing_is_asked() -> None:
    model = Scripted()
    error = RecordedError("openai.RateLimitError", "slow down")
    with answered(guard.Raised(error, {})), pytest.raises(RecordedError) as caught:
        model.invoke("look")
    assert caught.value is error
    assert model.asked == 0


def test_a_client_under_a_model_that_really_runs_is_still_guarded(server: ModelServer) -> None:
    asked = len(server.requests)

    class Half:
        def answer(self, question: guard.Question) -> guard.Outcome:
            self.seen = [*getattr(self, "seen", []), question.operation.actor]
            return guard.EXECUTE if len(self.seen) == 1 else guard.Served(SAID, {})

    half = Half()
    with guard.answering(half), recording():
        assert _model(server).invoke(PLAIN).content == SAID
    assert half.seen == ["m", "m"]
    assert len(server.requests) == asked

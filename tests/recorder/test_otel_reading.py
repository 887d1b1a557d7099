"""What spans of each convention say in our words: real traces, and one made for each rule."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.canonical import JsonValue
from tracekit.otel.reading import Reading, read
from tracekit.otel.values import SpanData, SpanEvent

TRACES = Path(__file__).parents[2] / "fixtures" / "traces" / "otlp"


def _span(attributes: Mapping[str, JsonValue], name: str = "a span", **more: Any) -> SpanData:
    ids = {"trace_id": "1" * 32, "span_id": "2" * 16, "parent_span_id": None}
    return SpanData(**ids, name=name, start_ns=1, end_ns=2, attributes=attributes, **more)


def _value(value: Any) -> Any:
    ((kind, said),) = value.items()
    if kind == "arrayValue":
        return [_value(item) for item in said.get("values", [])]
    return int(said) if kind == "intValue" else said


def _spans(name: str) -> Iterator[SpanData]:
    text = (TRACES / name).read_text("utf-8")
    documents = [json.loads(text)] if name.endswith(".json") else map(json.loads, text.splitlines())
    for document in documents:
        for resource in document["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    yield SpanData(
                        trace_id=span["traceId"],
                        span_id=span["spanId"],
                        parent_span_id=span.get("parentSpanId"),
                        name=span["name"],
                        start_ns=int(span["startTimeUnixNano"]),
                        end_ns=int(span["endTimeUnixNano"]),
                        attributes={a["key"]: _value(a["value"]) for a in span["attributes"]},
                        error=span.get("status", {}).get("code") == 2,
                        scope=scope["scope"]["name"],
                    )


def _readings(name: str) -> list[Reading]:
    return [read(span) for span in sorted(_spans(name), key=lambda span: span.start_ns)]


def test_a_trace_of_pydantic_ai_is_read_whole() -> None:
    readings = _readings("pydantic_ai_2.58.0.json")
    assert [(r.kind, r.actor, r.convention) for r in readings] == [
        ("agent", "weather_agent", "gen_ai"),
        ("llm_call", "fake-fn", "gen_ai"),
        ("tool_call", "get_weather", "gen_ai"),
        ("tool_call", "get_time", "gen_ai"),
        ("llm_call", "fake-fn", "gen_ai"),
        ("agent", "weather_agent", "gen_ai"),
        ("llm_call", "fake-fn", "gen_ai"),
    ]
    agent, model, weather, time, last = readings[:5]
    assert _values(agent) == (
        {"prompt": "What is the weather in Paris and what time is it?"},
        "It is sunny in Paris and 12:00 UTC.",
    )
    assert model.ended == {"model": "fake-fn", "usage_input": 61, "usage_output": 15}
    assert model.begun == {"model_requested": "fake-fn", "provider": "function"}
    assert model.asked == ("call_weather_1", "call_time_1")
    request, reply = _values(model)
    assert [message["role"] for message in request["messages"]] == ["system", "user"]
    assert [tool["function"]["name"] for tool in request["tools"]] == ["get_weather", "get_time"]
    assert reply["tool_calls"][0] == {
        "id": "call_weather_1",
        "type": "function",
        "function": {"name": "get_weather", "arguments": '{"city":"Paris"}'},
    }
    assert weather.begun["tool_call_id"] == "call_weather_1"
    assert _values(weather) == ({"city": "Paris"}, "sunny in Paris")
    assert _values(time) == ({"zone": "UTC"}, {"zone": "UTC", "time": "12:00"})
    assert [m["role"] for m in _values(last)[0]["messages"]] == [
        "system", "user", "assistant", "tool", "tool",
    ]  # fmt: skip
    assert weather.attributes["logfire.msg"] == "running tool: get_weather"


def test_a_trace_of_the_agents_sdk_as_openinference_is_read_whole() -> None:
    readings = _readings("openai_agents_0.24.0_oi_2.5.3.jsonl")
    assert {r.convention for r in readings} == {"openinference"}
    assert [(r.kind, r.actor) for r in readings if r.kind != "span"] == [
        ("agent", "Agent workflow"),
        ("agent", "Triage"),
        ("llm_call", "fake-model"),
        ("tool_call", "lookup_order"),
        ("llm_call", "fake-model"),
        ("tool_call", "handoff to Refunds"),
        ("agent", "Refunds"),
        ("llm_call", "fake-model"),
    ]
    models = [r for r in readings if r.kind == "llm_call"]
    assert models[0].ended == {
        "model": "fake-model",
        "usage_input": 30,
        "usage_output": 10,
        "usage_cache_read": 0,
        "usage_cache_write": 0,
        "usage_reasoning": 0,
    }
    request, reply = _values(models[0])
    assert reply["content"] == "Checking."
    assert models[0].asked == ("call_lookup_1",)
    assert request["tools"][0]["function"]["name"] == "lookup_order"
    (look,) = (r for r in readings if r.actor == "lookup_order")
    assert _values(look) == ({"order_id": "A1"}, "order A1: shipped")
    assert "tool.parameters" in look.attributes  # here it is the schema


def _values(reading: Reading) -> tuple[Any, Any]:
    assert reading.argument is not None
    assert reading.observation is not None
    assert (reading.argument.state, reading.observation.state) == ("captured", "captured")
    return reading.argument.value, reading.observation.value


def test_openllmetry_is_read_flattened() -> None:
    reading = read(
        _span(
            {
                "llm.request.type": "chat",
                "gen_ai.system": "OpenAI",
                "gen_ai.request.model": "m-1",
                "gen_ai.prompt.0.role": "user",
                "gen_ai.prompt.0.content": "rows?",
                "gen_ai.completion.0.role": "assistant",
                "gen_ai.completion.0.finish_reason": "tool_calls",
                "gen_ai.completion.0.tool_calls.0.id": "c1",
                "gen_ai.completion.0.tool_calls.0.name": "sql",
                "gen_ai.completion.0.tool_calls.0.arguments": '{"q": 1}',
                "llm.request.functions.0.name": "sql",
                "llm.request.functions.0.parameters": '{"type": "object"}',
                "gen_ai.usage.prompt_tokens": 5,
                "gen_ai.usage.completion_tokens": 6,
                "gen_ai.usage.cache_read_input_tokens": 2,
                "llm.usage.total_tokens": 11,
            }
        )
    )
    request, reply = _values(reading)
    assert (reading.kind, reading.actor, reading.asked) == ("llm_call", "m-1", ("c1",))
    assert reading.begun == {"model_requested": "m-1", "provider": "OpenAI"}
    assert reading.ended == {"usage_input": 5, "usage_output": 6, "usage_cache_read": 2}
    assert request == {
        "model": "m-1",
        "messages": [{"role": "user", "content": "rows?"}],
        "tools": [
            {"type": "function", "function": {"name": "sql", "parameters": {"type": "object"}}}
        ],
    }
    function = {"name": "sql", "arguments": '{"q": 1}'}
    assert reply["tool_calls"] == [{"id": "c1", "type": "function", "function": function}]
    assert reading.attributes == {"llm.usage.total_tokens": 11}


def test_a_tool_of_traceloop_loses_its_wrapping() -> None:
    said = {
        "traceloop.span.kind": "tool",
        "traceloop.entity.name": "sql",
        "traceloop.entity.input": '{"args": [], "kwargs": {"q": "x"}}',
        "traceloop.entity.output": '"42"',
    }
    reading = read(_span(said))
    assert (reading.kind, reading.actor) == ("tool_call", "sql")
    assert _values(reading) == ({"q": "x"}, "42")


def test_messages_of_the_older_conventions_come_from_span_events() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "sql", "arguments": "{}"}}
    reading = read(
        _span(
            {"gen_ai.operation.name": "chat", "gen_ai.system": "openai"},
            events=(
                SpanEvent("gen_ai.system.message", {"content": "be brief"}),
                SpanEvent("gen_ai.user.message", {"gen_ai.event.content": '{"content": "hi"}'}),
                SpanEvent("gen_ai.tool.message", {"id": "c0", "content": "7"}),
                SpanEvent("gen_ai.choice", {"message": json.dumps({"tool_calls": [call]})}),
            ),
        )
    )
    request, reply = _values(reading)
    assert reading.begun["provider"] == "openai"
    assert request["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi"},
        {"role": "tool", "content": "7", "tool_call_id": "c0"},
    ]
    assert reply["tool_calls"] == [call]


BOTH: dict[str, JsonValue] = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "current",
    "gen_ai.usage.input_tokens": 1,
    "openinference.span.kind": "LLM",
    "llm.model_name": "inference",
    "llm.token_count.prompt": 2,
    "llm.token_count.completion": 3,
    "gen_ai.system": "old",
    "gen_ai.usage.prompt_tokens": 4,
    "gen_ai.usage.completion_tokens": 5,
}


def test_where_a_span_speaks_twice_each_field_comes_from_the_best_and_the_rest_is_kept() -> None:
    reading = read(_span(BOTH))
    assert reading.convention == "gen_ai"
    assert reading.begun == {"model_requested": "current", "provider": "old"}
    assert reading.ended == {"model": "inference", "usage_input": 1, "usage_output": 3}
    assert reading.attributes == {
        "llm.token_count.prompt": 2,
        "gen_ai.usage.prompt_tokens": 4,
        "gen_ai.usage.completion_tokens": 5,
    }


@pytest.mark.parametrize(
    ("attributes", "state"),
    [
        ({"gen_ai.tool.call.arguments": '{"a": 1}'}, "captured"),
        ({"gen_ai.tool.call.arguments": {"a": 1}}, "captured"),
        ({"gen_ai.tool.call.arguments": '{"a": '}, "invalid_json"),
        ({"gen_ai.tool.call.arguments": "__REDACTED__"}, "redacted"),
        ({}, None),
    ],
)
def test_the_state_of_an_argument_says_whether_it_can_be_trusted(
    attributes: dict[str, JsonValue], state: str | None
) -> None:
    reading = read(
        _span({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t", **attributes})
    )
    assert (reading.argument.state if reading.argument else None) == state
    cut = read(
        _span(
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.arguments": "{}"},
            dropped=1,
        )
    )
    assert cut.argument is not None
    assert cut.argument.state == "truncated"


def test_content_that_lies_elsewhere_is_named_and_not_opened() -> None:
    said = {"gen_ai.operation.name": "chat", "gen_ai.input.messages_ref": "file:///etc/passwd"}
    reading = read(_span(said))
    assert reading.argument is not None
    assert (reading.argument.value, reading.argument.state) == (None, "reference")


@pytest.mark.parametrize(
    ("attributes", "kind", "actor"),
    [
        ({"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": "w"}, "agent", "w"),
        ({"gen_ai.operation.name": "embeddings"}, "span", "a span"),
        ({"gen_ai.operation.name": "retrieval", "gen_ai.data_source.id": "d"}, "retrieval", "d"),
        ({"openinference.span.kind": "CHAIN"}, "span", "a span"),
        ({"traceloop.span.kind": "workflow", "traceloop.entity.name": "w"}, "agent", "w"),
        ({"openinference.span.kind": "GUARDRAIL", "output.value": "blocked"}, "policy", "a span"),
        ({"openinference.span.kind": "GUARDRAIL", "output.value": "?"}, "span", "a span"),
        ({"http.method": "GET"}, "span", "a span"),
    ],
)
def test_the_kind_is_what_a_span_says_of_itself(
    attributes: dict[str, JsonValue], kind: str, actor: str
) -> None:
    reading = read(_span(attributes))
    assert (reading.kind, reading.actor) == (kind, actor)


def test_an_error_has_the_class_and_text_of_the_exception() -> None:
    event = SpanEvent("exception", {"exception.type": "ValueError", "exception.message": "no"})
    said = {"gen_ai.operation.name": "execute_tool"}
    assert _failure(read(_span(said, error=True, events=(event,)))) == ("ValueError", "no")
    assert _failure(read(_span({**said, "error.type": "timeout"}, message="late"))) == (
        "timeout",
        "late",
    )
    assert _failure(read(_span(said, events=(event,)))) == (None, None)  # it was handled


def _failure(reading: Reading) -> tuple[str | None, str | None]:
    return reading.error_type, reading.error_message


KEYS = st.sampled_from(
    [
        *BOTH,
        "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions",
        "gen_ai.tool.definitions", "gen_ai.tool.call.arguments", "gen_ai.retrieval.documents",
        "gen_ai.prompt", "gen_ai.prompt.0", "gen_ai.prompt.0.role", "gen_ai.completion.0.content",
        "gen_ai.completion.0.tool_calls.0", "llm.input_messages.0.message.contents.0",
        "llm.output_messages.1.message.tool_calls.0.tool_call.id", "llm.tools.0",
        "llm.invocation_parameters", "input.value", "output.value", "retrieval.documents.0",
        "traceloop.span.kind", "traceloop.entity.input", "llm.request.functions.0.name",
        "pydantic_ai.all_messages", "final_result",
    ]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text()
    | st.sampled_from(['[{"role": 1, "parts": [1, {"type": "tool_call"}]}]', "{}", "[1]", "LLM",
                       "execute_tool", "chat", "retrieval", "RETRIEVER", "tool", "[[", "null"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


@given(st.dictionaries(KEYS, VALUES, max_size=12))
def test_no_span_is_too_strange_to_be_read(attributes: dict[str, Any]) -> None:
    reading = read(_span(attributes))
    assert reading.kind in ("llm_call", "tool_call", "retrieval", "agent", "policy", "span")
    assert set(reading.attributes) <= set(attributes)

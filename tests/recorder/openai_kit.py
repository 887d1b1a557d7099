"""A real client against the local model server, recorded into memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import openai

import tracekit
from fixtures.model_server import ModelServer
from tracekit import integrations
from tracekit.chains import Resolver
from tracekit.configuration import recording_to
from tracekit.events import Event
from tracekit.recorder import Recorder
from tracekit.redact import KeyedTagger, Redactor, Rules, load_key
from tracekit.rows import rows_from_facts
from tracekit.sink import MemorySink

KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": text,
            "parameters": {"type": "object", "properties": {field: {"type": "string"}}},
        },
    }
    for name, text, field in (
        ("ask_metrics", "Ask the metrics.", "expr"),
        ("search_logs", "Search the logs.", "query"),
    )
]
QUESTION: list[Any] = [
    {"role": "system", "content": "Gather both metrics and logs, at the same time."},
    {"role": "user", "content": "What is wrong with checkout-api?"},
]
PLAIN: list[Any] = [{"role": "user", "content": "Hello, how are you today?"}]
SAID = "Without tools there is nothing to add to: Hello, how are you today?"


class Recorded:
    """What was recorded so far."""

    def __init__(self, sink: MemorySink) -> None:
        self.sink = sink

    def rows(self) -> list[Event]:
        """The model calls, in order."""
        return [row for row in rows_from_facts(self.sink.facts) if row.event_type == "llm_call"]

    def row(self) -> Event:
        """The only model call."""
        (row,) = self.rows()
        return row

    def value(self, blob: str | None) -> Any:
        """The value that a row refers to."""
        found = Resolver(self.sink.blobs.get).value(blob or "")
        assert found is not None
        return found.value


@contextmanager
def recording(*, strict: bool = True) -> Iterator[Recorded]:
    """Record into memory, inside a run."""
    sink = MemorySink()
    redactor = Redactor(Rules.from_user([]), KeyedTagger(load_key()))
    with recording_to(Recorder(sink, redactor, strict=strict)), tracekit.run(name="test"):
        yield Recorded(sink)
    if strict:
        assert "loss.noted" not in [fact.fact for fact in sink.facts]


def client(server: ModelServer, **options: Any) -> openai.OpenAI:
    """A client of ``server``."""
    integrations.instrument_loaded()
    return openai.OpenAI(**{"base_url": server.url, "api_key": KEY, "max_retries": 0, **options})


def async_client(server: ModelServer, **options: Any) -> openai.AsyncOpenAI:
    """An async client of ``server``."""
    integrations.instrument_loaded()
    given = {"base_url": server.url, "api_key": KEY, "max_retries": 0, **options}
    return openai.AsyncOpenAI(**given)

"""LangChain's own classes, recorded into memory, and a tape that answers them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tracekit
from tracekit import guard, integrations
from tracekit.chains import Resolver
from tracekit.configuration import recording_to
from tracekit.contract import Contract
from tracekit.events import Event
from tracekit.recorder import Recorder
from tracekit.redact import KeyedTagger, Redactor, Rules, load_key
from tracekit.rows import rows_from_facts
from tracekit.sink import MemorySink


class Recorded:
    """What was recorded so far."""

    def __init__(self, sink: MemorySink) -> None:
        self.sink = sink

    def rows(self, kind: str) -> list[Event]:
        """The events of a kind, in order."""
        return [row for row in rows_from_facts(self.sink.facts) if row.event_type == kind]

    def value(self, blob: str | None) -> Any:
        """The value that a row refers to."""
        found = Resolver(self.sink.blobs.get).value(blob or "")
        assert found is not None
        return found.value

    def contract(self, row: Event) -> Contract:
        """What the tool of a row declared."""
        return Contract.model_validate_json(self.sink.blobs[row.contract or ""].data)


@contextmanager
def recording() -> Iterator[Recorded]:
    """Record into memory, inside a run."""
    integrations.instrument_loaded()
    sink = MemorySink()
    redactor = Redactor(Rules.from_user([]), KeyedTagger(load_key()))
    with recording_to(Recorder(sink, redactor, strict=True)), tracekit.run(name="test"):
        yield Recorded(sink)
    assert "loss.noted" not in [fact.fact for fact in sink.facts]


class Tape:
    """Answers every call in the same way."""

    def __init__(self, outcome: guard.Outcome) -> None:
        self.outcome = outcome
        self.asked: list[guard.Question] = []

    def answer(self, question: guard.Question) -> guard.Outcome:
        """Note the question and give the answer."""
        self.asked.append(question)
        return self.outcome


@contextmanager
def answered(outcome: guard.Outcome) -> Iterator[tuple[Recorded, Tape]]:
    """Answer everything with ``outcome``, recorded into memory."""
    tape = Tape(outcome)
    with guard.answering(tape), recording() as recorded:
        yield recorded, tape

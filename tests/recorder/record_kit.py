"""Decorated code recorded into memory, and what was recorded as rows, values and a tree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from tracekit import conditions
from tracekit.assembly import build
from tracekit.chains import Resolver
from tracekit.configuration import recording_to
from tracekit.events import Event, RunRow
from tracekit.recorder import Recorder
from tracekit.redact import KeyedTagger, Redactor, Rules, load_key
from tracekit.rows import rows_from_facts, run_row
from tracekit.sink import MemorySink, Sink
from tracekit.trajectory import Trajectory

START = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)


class Recorded:
    """What was recorded so far."""

    def __init__(self, recorder: Recorder, sink: MemorySink) -> None:
        self.recorder = recorder
        self.sink = sink

    def rows(self, kind: str | None = None) -> list[Event]:
        """All rows, or those of one kind, in order."""
        rows = rows_from_facts(self.sink.facts)
        return [row for row in rows if kind in (None, row.event_type)]

    def row(self, kind: str = "tool_call") -> Event:
        """The only row of a kind."""
        (row,) = self.rows(kind)
        return row

    def run_row(self) -> RunRow:
        """The line of the catalogue of the only run."""
        rows = self.rows()
        assert len({row.run_id for row in rows}) == 1
        return run_row(rows)

    def trajectory(self) -> Trajectory:
        """The trajectory of the only run."""
        return build(self.rows(), self.sink.blobs.get)

    def value(self, blob: str | None) -> Any:
        """A value that was kept."""
        found = Resolver(self.sink.blobs.get).value(blob or "")
        assert found is not None
        return found.value

    def argument(self, row: Event) -> Any:
        return self.value(row.argument_blob)

    def observation(self, row: Event) -> Any:
        return self.value(row.observation_blob)

    def tree(self) -> list[Any]:
        """The operations as nested lists of names; children in the order in which they began."""
        rows = [row for row in self.rows() if row.event_type not in ("policy", "state", "error")]
        children: dict[str | None, list[Event]] = {}
        spans = {(row.run_id, row.span_id) for row in rows}
        for row in rows:
            known = (row.run_id, row.parent_span_id) in spans
            children.setdefault(row.parent_span_id if known else None, []).append(row)

        def below(span: str | None) -> list[Any]:
            return [
                [row.actor, *below(row.span_id)] if children.get(row.span_id) else row.actor
                for row in children.get(span, [])
            ]

        return below(None)


def everything(recorded: Recorded) -> str:
    """All text that would be on disk."""
    facts = "".join(fact.model_dump_json() for fact in recorded.sink.facts)
    return facts + "".join(blob.data.decode() for blob in recorded.sink.blobs.values())


def redactor() -> Redactor:
    return Redactor(Rules(), KeyedTagger(load_key()))


@contextmanager
def recording(sink: Sink | None = None) -> Iterator[Recorded]:
    """Record into memory (or ``sink``) under fixed conditions."""
    memory = MemorySink()
    own = Recorder(sink or memory, redactor(), versions={"code": "1"})
    with conditions.use(conditions.Conditions.fixed(START)), recording_to(own):
        yield Recorded(own, memory)

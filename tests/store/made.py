"""Rows, values and stores that the tests of the store are made of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tracekit.canonical import JsonValue, canonical_bytes, digest, digest_bytes
from tracekit.events import (
    Blob,
    Event,
    Payload,
    RunBegun,
    RunEnded,
    ToolCallBegun,
    ToolCallEnded,
    event_id,
)
from tracekit.store import Batch

NOON = 1_796_040_000_000_000_000
"""2026-11-30T12:00:00Z."""
DAY = 86_400_000_000_000


def value(content: JsonValue) -> tuple[Blob, str]:
    """Make the blob of a value, as a recorder does, and name its digest."""
    blob = Blob(
        digest=digest(content), media_type="application/json", data=canonical_bytes(content)
    )
    return blob, blob.digest


def text(content: str) -> tuple[Blob, str]:
    """Make the blob of a plain text, as an importer does, and name the digest of the value."""
    data = content.encode()
    blob = Blob(digest=digest_bytes(data), media_type="text/plain", data=data)
    return blob, digest(content)


def run(run_id: str, *, start: int = NOON, calls: int = 2, **columns: Any) -> Batch:
    """Make an imported run: its root, and so many tool calls, each with its values."""
    root = Event(
        event_id=event_id("made", run_id, "root", "run", 0),
        run_id=run_id,
        trace_id="a" * 32,
        span_id="b" * 16,
        event_type="run",
        writer="made",
        seq=0,
        ts_start_ns=start,
        ts_end_ns=start + 10_000_000_000,
        actor="sre",
        actor_kind="agent",
        status="ok",
        source_format="made",
    )
    events = [replace(root, **columns)]
    blobs = []
    for index in range(calls):
        argument, argument_digest = value({"query": f"{run_id} {index}"})
        observation, observation_digest = text(f"answer {index}")
        blobs += [argument, observation]
        events.append(
            Event(
                event_id=event_id("made", run_id, f"call {index}", "tool_call", 0),
                run_id=run_id,
                trace_id="a" * 32,
                span_id=f"{index:016x}",
                parent_span_id="b" * 16,
                event_type="tool_call",
                writer="made",
                seq=index + 1,
                ts_start_ns=start + index,
                ts_end_ns=start + index + 1,
                latency_ns=1,
                actor="search",
                actor_kind="tool",
                tool_name="search",
                status="ok",
                effect="read",
                argument_digest=argument_digest,
                argument_blob=argument.digest,
                argument_state="captured",
                observation_digest=observation_digest,
                observation_blob=observation.digest,
                observation_state="captured",
                observation_is_error=False,
                evidence_ids=("metric-17",),
                source_format="made",
            )
        )
    return Batch(tuple(events), tuple(blobs))


def facts(run_id: str, writer: str, *, ended: bool = True) -> list[tuple[Any, list[Blob]]]:
    """Make what a process writes that records a run with one call, and is killed or not."""
    argument, argument_digest = value({"query": run_id})
    trace_id = digest(run_id)[-32:]
    same: dict[str, Any] = {"writer": writer, "run_id": run_id, "trace_id": trace_id}
    root = {**same, "span_id": "d" * 16}
    call = {**same, "span_id": "e" * 16, "parent_span_id": "d" * 16}
    payload = Payload(digest=argument_digest, blob=argument.digest)
    written: list[tuple[Any, list[Blob]]] = [
        (RunBegun(**root, seq=0, timestamp_ns=NOON, actor="live"), []),
        (
            ToolCallBegun(
                **call,
                seq=1,
                timestamp_ns=NOON + 1,
                actor="search",
                argument=payload,
                effect="read",
            ),
            [argument],
        ),
    ]
    if ended:
        written += [
            (ToolCallEnded(**call, seq=2, timestamp_ns=NOON + 5, status="ok"), []),
            (RunEnded(**root, seq=3, timestamp_ns=NOON + 9, status="ok"), []),
        ]
    return written


def files(store: Path) -> list[str]:
    """List the files of a store, without the name of the batch."""
    return sorted(path.relative_to(store).as_posix() for path in store.rglob("*") if path.is_file())

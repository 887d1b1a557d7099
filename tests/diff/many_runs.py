"""Stores of small runs that tests of many runs share, and how runs are selected there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from replay.comparing import Selection, parse_selection
from replay.recording import RECORDING, digests_of
from tests.store.made import run, value
from tracekit.events import Event
from tracekit.store import Batch, Store, open_store
from tracekit.trajectory import Trajectory


def select(text: str) -> Selection:
    return parse_selection(text, moment=lambda _: datetime(2026, 1, 1, tzinfo=UTC))


def made(
    run_id: str,
    *,
    tags: Sequence[str] = (),
    labels: dict[str, Any] | None = None,
    versions: dict[str, str] | None = None,
    replay_of: str | None = None,
    replayed: Trajectory | None = None,
    arguments: Sequence[str] = ("a", "b"),
    **columns: Any,
) -> Batch:
    """A run that makes two reads, of what is named."""
    attributes: dict[str, Any] = {"tags": list(tags), "labels": labels, "versions": versions or {}}
    if replay_of is not None:
        attributes["replay_of"] = replay_of
    if replayed is not None:
        attributes["fidelity"] = {RECORDING: digests_of(replayed)}
    batch = run(run_id, calls=2, attributes=json.dumps(attributes), **columns)
    events, blobs = list(batch.events), list(batch.blobs)
    for number, text in enumerate(arguments, start=1):
        blob, name = value({"query": text})
        blobs.append(blob)
        events[number] = replace(events[number], argument_digest=name, argument_blob=blob.digest)
    return Batch(tuple(events), tuple(blobs))


def kept(folder: Path, *batches: Batch) -> Store:
    store = open_store(folder, create=True)
    events: tuple[Event, ...] = sum((batch.events for batch in batches), ())
    store.append(Batch(events, sum((batch.blobs for batch in batches), ())))
    return store

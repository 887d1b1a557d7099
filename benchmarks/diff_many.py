"""Ten thousand pairs of runs with 20 calls each, compared by two processes: time, and memory.

In a tenth of the pairs one argument differs, in a hundredth a call is missing as well. The runs are
those of a store, chosen, paired and compared as ``tracekit diff --baseline … --candidate …`` does.
What is held against the target is the processors' time of comparing alone, shared by two; reading
the runs is told beside it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from benchmarks.figures import Line
from benchmarks.replay_many import Memory
from replay.comparing import Selection, compare_many, parse_selection
from tracekit.canonical import JsonValue, canonical_bytes, digest_bytes, json_text
from tracekit.events import Blob, Event, event_id
from tracekit.store import Batch, Store, open_store

_ROOT = Path(__file__).parents[1]
PAIRS, CALLS = 10_000, 20
_DIFFERENT = 1_000
"""So many runs of a third side all differ: what a pair costs that has to be aligned."""
_SECONDS, _MEMORY_MB = 5.0, 1_000
_PAIRS_A_BATCH = 1_000
_NOON = 1_700_000_000_000_000_000


def measure() -> list[Line]:
    """Make the store and compare its two halves."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "traces"))
        # what making the store takes is no part of what comparing does
        command = [sys.executable, "-m", "benchmarks.diff_many", path]
        subprocess.run(command, cwd=_ROOT, check=True, timeout=900)
        store = open_store(path)
        with Memory() as memory:
            began = time.perf_counter()
            found = compare_many([_select("tag=old")], [_select("tag=new")], store=store, jobs=2)
            waited = time.perf_counter() - began
        worst = compare_many([_select("tag=old")], [_select("tag=odd")], store=store, jobs=2)
    assert found.counts == {"different": PAIRS // 10, "not compared": 0, "same": PAIRS * 9 // 10}
    assert worst.counts["different"] == _DIFFERENT
    seconds, all_differ = found.comparing_s / 2, worst.comparing_s / 2 * PAIRS / _DIFFERENT
    told = f"{seconds:.1f} s on two cores"
    return [
        Line(f"{PAIRS:,} pairs of {CALLS} calls compared", told, seconds / _SECONDS, 1.0),
        Line(
            "  if all of them differed",
            f"{all_differ:.1f} s on two cores",
            all_differ / _SECONDS,
            1.0,
        ),
        Line("  with choosing, pairing and reading", f"{waited:.0f} s"),
        Line("  memory of all processes", f"{memory.peak:.0f} MB", memory.peak / _MEMORY_MB, 1.0),
    ]


def _select(text: str) -> Selection:
    return parse_selection(text, moment=lambda _: datetime.now(UTC))


def main(path: str) -> None:
    """Make the store."""
    store = open_store(path, create=True)
    for first in range(0, PAIRS, _PAIRS_A_BATCH):
        _fill(store, range(first, first + _PAIRS_A_BATCH))
    store.compact()


def _fill(store: Store, numbers: range) -> None:
    events: list[Event] = []
    blobs: dict[str, Blob] = {}
    for number in numbers:
        for side in ("old", "new", "odd")[: 3 if number < _DIFFERENT else 2]:
            odd = side == "odd" or (side == "new" and number % 10 == 0)
            short = side == "new" and number % 100 == 0
            events += _run(side, number, blobs, odd=odd, calls=CALLS - short)
    store.append(Batch(tuple(events), tuple(blobs.values())))


def _run(side: str, number: int, blobs: dict[str, Blob], *, odd: bool, calls: int) -> list[Event]:
    run_id = f"{side}-{number:06}"
    start = _NOON + number * 1_000_000_000
    root = _event(run_id, 0, start, "run", "agent", {
        "attributes": json_text({"tags": [side]}), "task_id": f"T-{number}", "span_id": "b" * 16,
        "parent_span_id": None, "ts_end_ns": start + 1_000_000_000,
    })  # fmt: skip
    made = [root]
    for step in range(calls):
        changed = odd and step == number % CALLS
        argument = _blob(
            {"query": f"case {number % 500} step {step}", "limit": 10 + 89 * changed,
             "filter": {"status": "open", "tags": ["a", "b"]}}
        )  # fmt: skip
        rows: list[JsonValue] = [{"id": number % 500 * 100 + step, "name": f"item {step}"}] * 2
        observation = _blob({"rows": rows})
        for blob in (argument, observation):
            blobs[blob.digest] = blob
        made.append(
            _event(run_id, step + 1, start + step + 1, "tool_call", f"tool_{step % 6}", {
                "tool_name": f"tool_{step % 6}", "effect": "write" if step % 5 == 4 else "read",
                "argument_digest": argument.digest, "argument_blob": argument.digest,
                "argument_state": "captured", "observation_digest": observation.digest,
                "observation_blob": observation.digest, "observation_state": "captured",
                "span_id": f"{step:016x}", "parent_span_id": "b" * 16,
            })
        )  # fmt: skip
    return made


def _event(
    run_id: str, seq: int, start: int, kind: str, actor: str, columns: dict[str, object]
) -> Event:
    fields: dict[str, object] = {
        "event_id": event_id("bench", run_id, str(seq), kind, 0), "run_id": run_id,
        "trace_id": "a" * 32, "event_type": kind, "writer": "bench", "seq": seq,
        "ts_start_ns": start, "ts_end_ns": start + 1, "actor": actor, "status": "ok",
        "actor_kind": "agent" if kind == "run" else "tool", "source_format": "bench",
    }  # fmt: skip
    return Event(**{**fields, **columns})  # type: ignore[arg-type]  # the columns of an event


def _blob(content: JsonValue) -> Blob:
    return _blob_of(canonical_bytes(content))


@cache
def _blob_of(data: bytes) -> Blob:
    return Blob(digest_bytes(data), "application/json", data)


if __name__ == "__main__":
    main(sys.argv[1])

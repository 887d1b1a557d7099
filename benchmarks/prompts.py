"""Long conversations: what a call with a long prompt costs, and what six of them take on disk.

The reference of the call is the plain `orjson` encoding of the same prompt. That of the space is
one zstd Parquet file that holds every prompt whole, as a trace of spans would.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

import tracekit
from benchmarks.figures import Line
from tracekit.configuration import recording_to
from tracekit.journal import Journal
from tracekit.recorder import Recorder
from tracekit.redact import KeyedTagger, Redactor, Rules
from tracekit.store import open_store

_KEY = b"a key for measuring, not for secrets"
_TURNS = 200
_CONVERSATIONS = 6
_SCREEN = 3_000
"""Characters: some eighty lines."""
_TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": f"tool_{n}", "description": "what it does " * 9}}
    for n in range(12)
]


@tracekit.llm(model="m-1")
def _ask(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": "assistant", "content": f"Asked about {len(messages)} things."}


def _files() -> Iterator[str]:
    """What a coding agent reads: the standard library, a screen at a time, nothing twice."""
    for path in sorted(Path(json.__file__).parents[1].glob("*.py")):
        text = path.read_text("utf-8", "replace")
        for start in range(0, len(text) - _SCREEN, _SCREEN):
            yield text[start : start + _SCREEN]


def _turn(talk: int, number: int, screen: str) -> list[dict[str, Any]]:
    """What a turn adds before the model is asked: a question, a call, and what came back."""
    call = {"name": "read_file", "arguments": json.dumps({"path": f"{talk}.py", "line": number})}
    return [
        {"role": "user", "content": f'What does part {number} do? It is called "{talk}".'},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"call_{number}", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": f"call_{number}", "content": screen},
    ]


def _recorder(folder: Path) -> Recorder:
    return Recorder(Journal(folder / "journal"), Redactor(Rules(), KeyedTagger(_KEY)))


def _call() -> list[Line]:
    """A call whose prompt holds 200 earlier messages."""
    files = _files()
    recorded: list[int] = []
    encoded: list[int] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        recording_to(_recorder(Path(folder))),
        tracekit.run(),
    ):
        messages = [one for number in range(67) for one in _turn(0, number, next(files))][:200]
        _ask(messages, _TOOLS)
        for number in range(150):
            messages.append({"role": "user", "content": f"And what about {number}?\n" * 9})
            before = time.thread_time_ns()
            _ask(messages, _TOOLS)
            recorded.append(time.thread_time_ns() - before)
            before = time.thread_time_ns()
            orjson.dumps({"messages": messages, "tools": _TOOLS})
            encoded.append(time.thread_time_ns() - before)
    ours, plain = statistics.median(recorded) / 1_000, statistics.median(encoded) / 1_000
    return [
        Line("prompt with 200 earlier messages: orjson", f"{plain:.0f} us", 1.0),
        Line(
            "prompt with 200 earlier messages: recorded call", f"{ours:.0f} us", ours / plain, 3.0
        ),
    ]


def _space() -> list[Line]:
    """Six conversations at once, against the same prompts kept whole."""
    files = _files()
    whole: list[bytes] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "traces")
        recorder = _recorder(path)
        with recording_to(recorder), tracekit.run():
            talks: list[list[dict[str, Any]]] = [[] for _ in range(_CONVERSATIONS)]
            for number in range(_TURNS):
                for talk, messages in enumerate(talks):
                    messages += _turn(talk, number, next(files))
                    whole.append(orjson.dumps({"messages": messages, "tools": _TOOLS}))
                    messages.append(_ask(messages, _TOOLS))
        recorder.sink.close()
        journal = sum(file.stat().st_size for file in path.rglob("*.jsonl"))
        store = open_store(path)
        store.settle()
        store.compact()
        kept = sum(file.stat().st_size for file in (path / "blobs").rglob("*.parquet"))
        naive = Path(folder, "whole.parquet")
        pq.write_table(
            pa.table({"prompt": whole}), naive, compression="zstd", row_group_size=10_000
        )
        size = naive.stat().st_size
        plain = sum(len(prompt) for prompt in whole)
    return [
        Line("six conversations of 200 turns: prompts whole, zstd Parquet", _mb(size), 1.0),
        Line("  all their values in our Parquet", _mb(kept), kept / size, 0.02),
        Line("  the journal, against the prompts as JSON lines", _mb(journal), journal / plain),
    ]


def _mb(size: int) -> str:
    return f"{size / 1e6:.2f} MB"


def measure() -> list[Line]:
    """Measure the cost of a long prompt, and the space of long conversations."""
    return [*_call(), *_space()]

"""One recorded call of a tool that does nothing, against a bare OpenTelemetry SDK span.

The reference R carries the same payload as ``json.dumps`` attributes through a batch processor to
an exporter that does nothing. Ours binds the arguments, takes a snapshot of both sides, digests
both and has begin and end in the journal before the caller goes on.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import tracekit
from benchmarks.figures import Line, interleaved
from benchmarks.long_texts import long_texts
from benchmarks.reference import payload, reference
from tracekit import configuration
from tracekit.configuration import recording_to
from tracekit.journal import Journal
from tracekit.recorder import Recorder
from tracekit.redact import KeyedTagger, Redactor, Rules

_KEY = b"a key for measuring, not for secrets"
_SIZES = (
    ("200 B in, 1 KB out", 200, 1_000, 0.35, 0.5),
    ("20 KB in and out", 20_000, 20_000, 0.6, 1.0),
)
_OFF_CALLS = 5_000
_LONG_TEXT_MS = 20
"""What a call with 500 KB of text may cost."""


def _recorded(
    folder: Path, rules: Rules, given: dict[str, Any], answer: dict[str, Any]
) -> Callable[[], object]:
    own = Recorder(Journal(folder), Redactor(rules, KeyedTagger(_KEY)))

    @tracekit.tool(effect="read")
    def look(request: dict[str, Any]) -> dict[str, Any]:
        return answer

    count = [0]

    def call() -> object:
        count[0] += 1  # another value each time: a payload that is known is not written again
        return look({**given, "limit": count[0]})

    def once() -> object:
        with recording_to(own), tracekit.run():
            return call()

    once.inside = (own, call)  # type: ignore[attr-defined]  # for `_loop`
    return once


def _loop(once: Any, calls: int) -> Callable[[], object]:
    """Many calls inside one block: putting the recorder in place is not part of a call."""
    own, call = once.inside

    def loop() -> object:
        with recording_to(own), tracekit.run():
            for _ in range(calls):
                call()
        return None

    return loop


def measure() -> list[Line]:
    """Measure a call with small and large payloads, one long text, and what imports cost."""
    lines: list[Line] = []
    for size in _SIZES:
        lines += _calls(*size)
    return [*lines, *_off(), *_long_text(), *_imports()]


def _calls(
    name: str, size_in: int, size_out: int, plain_target: float, redacted_target: float
) -> list[Line]:
    calls = 200
    given, answer = payload(size_in), payload(size_out)
    bare = reference(given, answer)
    with tempfile.TemporaryDirectory() as folder:
        plain = _recorded(Path(folder, "a"), Rules(builtin=False), given, answer)
        redacted = _recorded(Path(folder, "b"), Rules(), given, answer)
        found = interleaved(
            {
                "R": lambda: bare(calls),
                "plain": _loop(plain, calls),
                "redacted": _loop(redacted, calls),
            },
            calls=1,
            repeats=9,
        )
    base = found["R"] / calls
    lines = [Line(f"{name}: OpenTelemetry SDK span (R)", f"{base:.0f} us", 1.0)]
    for kind, target in (("plain", plain_target), ("redacted", redacted_target)):
        cost = found[kind] / calls
        label = "without redaction" if kind == "plain" else "with redaction"
        line = Line(f"{name}: recorded call {label}", f"{cost:.0f} us", cost / base, target)
        lines.append(line)
        if name.startswith("200 B"):
            lines.append(Line(f"  1,000 such calls {label}", f"{cost:.0f} ms, {2_000} facts"))
    return lines


def _off() -> list[Line]:
    """What decorating costs a call while recording is off, by the shape of the function."""

    def plain(n: int) -> int:
        return n

    async def coroutine(n: int) -> int:
        return n

    def generator(n: int) -> Iterator[int]:
        yield n

    async def async_generator(n: int) -> AsyncIterator[int]:
        yield n

    async def gather(call: Any, *, items: bool) -> None:
        for n in range(_OFF_CALLS):
            if items:
                async for _ in call(n):
                    pass
            else:
                await call(n)

    drives: dict[Any, Callable[[Any], object]] = {
        plain: lambda call: [call(n) for n in range(_OFF_CALLS)],
        coroutine: lambda call: asyncio.run(gather(call, items=False)),
        generator: lambda call: [list(call(n)) for n in range(_OFF_CALLS)],
        async_generator: lambda call: asyncio.run(gather(call, items=True)),
    }
    lines = []
    with mock.patch.object(configuration, "off", new=True):
        for bare, drive in drives.items():
            decorated = tracekit.tool(effect="write")(bare)
            tasks = {
                "bare": functools.partial(drive, bare),
                "off": functools.partial(drive, decorated),
            }
            found = interleaved(tasks, calls=1, repeats=9)
            cost = (found["off"] - found["bare"]) / _OFF_CALLS
            name = bare.__name__.replace("_", " ")
            lines.append(
                Line(f"switched off, a {name}: more than bare", f"{cost:.2f} us", cost, 1.0)
            )
    return lines


def _long_text() -> list[Line]:
    """One argument of 500 KB of text, of each kind that agents hand about."""
    own = Redactor(Rules(), KeyedTagger(_KEY))
    lines = []
    for label, text in long_texts(500_000).items():
        with tempfile.TemporaryDirectory() as folder:
            recorder = Recorder(Journal(Path(folder)), own)

            @tracekit.tool(effect="read")
            def look(request: str) -> None:
                return None

            with recording_to(recorder), tracekit.run():
                count = itertools.count()
                found = interleaved(
                    {"call": lambda: look(" " * next(count) + text)},  # noqa: B023  # called in this turn
                    calls=3,
                    repeats=5,
                )
        cost = found["call"] / 1_000
        lines.append(Line(f"500 KB of text, {label}", f"{cost:.1f} ms", cost / _LONG_TEXT_MS, 1.0))
    return lines


def _imports() -> list[Line]:
    """Start-up of a fresh interpreter, against that of the library that it stands on."""
    lines = []
    for ours, theirs in (
        ("import tracekit", "import pydantic"),
        ("from tracekit import tool", "from pydantic import BaseModel"),
        ("from tracekit.cli import main; main(['--help'])", "import click"),
    ):
        times: dict[str, list[float]] = {ours: [], theirs: []}
        for code in [ours, theirs] * 7:
            start = _children_ms()
            subprocess.run(
                [sys.executable, "-c", code], check=True, capture_output=True, timeout=60
            )
            times[code].append(_children_ms() - start)
        cost, base = (statistics.median(times[code]) for code in (ours, theirs))
        what = "tracekit --help" if "--help" in ours else ours
        lines.append(Line(f"{theirs} (reference)", f"{base:.0f} ms", 1.0))
        target = None if what.startswith("from") else 1.5
        lines.append(Line(what, f"{cost:.0f} ms", cost / base, target))
    return lines


def _children_ms() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1_000

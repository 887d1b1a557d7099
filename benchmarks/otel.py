"""What OpenTelemetry adds to a recorded call, and what all threads spend on one.

A provider can be set once a process, so each setting has a process of its own; each measures R (see
``recorder``) and an empty span of the provider's beside the calls. An empty span costs more beside
a call than in a loop of its own, where all of it stays in the processor's caches; both are given.
The receiver of OTLP is a further process and is not counted.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from benchmarks.figures import Line, interleaved

_CALLS = 200
_REPEATS = 15
_MANY = 4_000
"""Calls whose journal is turned into Parquet."""
_WHAT = "200 B in, 1 KB out"
_ALL_TARGET = 1.2
_OTLP_TARGET = 1.6


def measure() -> list[Line]:
    """Measure a call without and with a provider, and all threads with OTLP and Parquet."""
    without, given = _child("without"), _child("provider")
    with _receiver() as endpoint:
        sent = _child("otlp", endpoint)
    base, empty = without["R"], given["empty"] / given["R"]
    beside = (given["beside"] - given["alone"]) / given["R"]
    lines = [
        Line(f"{_WHAT}: OpenTelemetry SDK span (R)", _us(base), 1.0),
        Line("an empty span, in a loop of its own", _us(given["empty"]), empty),
        Line("an empty span, beside a recorded call", _us(beside * given["R"]), beside),
    ]
    for kind in ("without redaction", "with redaction"):
        bare, covered = without[kind] / base, given[kind] / given["R"]
        lines += [
            Line(f"recorded call {kind}, no provider", _us(without[kind]), bare),
            Line(
                "  with a provider, against an empty span alone",
                _us(given[kind]),
                covered,
                round(bare + empty, 2),
            ),
            Line(
                "  with a provider, against one beside the call",
                _us(given[kind]),
                covered,
                round(bare + beside, 2),
            ),
        ]
    whole = without["parquet"] / without["caller"]
    lines += [
        Line(
            "all threads, Parquet included, against the caller's",
            _us(without["parquet"]),
            whole,
            _ALL_TARGET,
        ),
        Line(
            "all threads, OTLP on, against R",
            _us(sent["all"]),
            sent["all"] / sent["R"],
            _OTLP_TARGET,
        ),
        Line("  and Parquet included", _us(sent["parquet"]), sent["parquet"] / sent["R"]),
        Line(
            "  of which the exporter",
            _us(sent["all"] - sent["caller"]),
            (sent["all"] - sent["caller"]) / sent["R"],
        ),
    ]
    return lines


def _us(cost: float) -> str:
    return f"{cost:.1f} us"


def _child(setting: str, endpoint: str = "") -> dict[str, float]:
    """Measure one setting in a process of its own."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.otel", setting, endpoint],
        env=clean,
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _measured(setting: str, endpoint: str) -> dict[str, float]:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from benchmarks.recorder import _loop, _recorded
    from benchmarks.reference import NoExport, payload, reference
    from tracekit import otel
    from tracekit.redact import Rules

    given, answer = payload(200), payload(1_000)
    bare = reference(given, answer)
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder, name) for name in ("plain", "redacted", "beside")]
        calls = {
            "without redaction": _recorded(places[0], Rules(builtin=False), given, answer),
            "with redaction": _recorded(places[1], Rules(), given, answer),
        }
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(NoExport()))
        tracer = provider.get_tracer("empty")
        tasks: dict[str, Callable[[], object]] = {
            "R": lambda: bare(_CALLS),
            "empty": lambda: _empty_spans(tracer),
            **{name: _loop(call, _CALLS) for name, call in calls.items()},
        }
        found = {}
        if setting == "provider":
            alone = _recorded(places[2], Rules(builtin=False), given, answer)
            beside = {"alone": _loop(alone, _CALLS), "beside": _beside(alone, tracer)}
            found = interleaved(beside, calls=1, repeats=_REPEATS)
            trace.set_tracer_provider(provider)
        elif setting == "otlp":
            otel.export_to(endpoint, service="bench")
        found |= interleaved(tasks, calls=1, repeats=_REPEATS)
        costs = {name: cost / _CALLS for name, cost in found.items()}
        return costs | _all_threads(Path(folder, "whole"), given, answer)


def _empty_spans(tracer: Any) -> None:
    for _ in range(_CALLS):
        with tracer.start_as_current_span("x"):
            pass


def _beside(once: Any, tracer: Any) -> Callable[[], object]:
    """The same loop of recorded calls, with an empty span of no concern to them beside each."""
    import tracekit
    from tracekit.configuration import recording_to

    own, call = once.inside

    def loop() -> None:
        with recording_to(own), tracekit.run():
            for _ in range(_CALLS):
                with tracer.start_as_current_span("x"):
                    pass
                call()

    return loop


def _all_threads(folder: Path, given: dict[str, Any], answer: dict[str, Any]) -> dict[str, float]:
    """CPU of a redacted call: the caller's, that of all threads, and with the way to Parquet."""
    from opentelemetry import trace

    from benchmarks.recorder import _loop, _recorded
    from tracekit.redact import Rules
    from tracekit.store import open_store

    flush = getattr(trace.get_tracer_provider(), "force_flush", lambda: True)
    times: dict[str, list[float]] = {"caller": [], "all": [], "parquet": []}
    for repeat in range(4):
        store = folder / str(repeat)
        call: Any = _recorded(store / "journal", Rules(), given, answer)
        start, caller = time.process_time_ns(), 0
        for _ in range(_MANY // _CALLS):
            began = time.thread_time_ns()
            _loop(call, _CALLS)()
            caller += time.thread_time_ns() - began
            flush()  # what a full queue drops would cost nothing
        call.inside[0].sink.close()
        spent = time.process_time_ns() - start
        open_store(store).settle()
        whole = time.process_time_ns() - start
        if repeat:  # the first one loads the libraries
            for name, cost in (("caller", caller), ("all", spent), ("parquet", whole)):
                times[name].append(cost / _MANY / 1_000)
    return {name: statistics.median(found) for name, found in times.items()}


@contextmanager
def _receiver() -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.otel", "receiver", ""],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


class _Taker(BaseHTTPRequestHandler):
    """Takes whatever is sent and answers that it was taken."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name there
        """Say nothing."""


def _serve() -> None:
    with HTTPServer(("127.0.0.1", 0), _Taker) as server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1] == "receiver":
        _serve()
    else:
        print(json.dumps(_measured(*sys.argv[1:])))

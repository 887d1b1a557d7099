"""One other package, measured in an environment of its own: ``python -m benchmarks.peer NAME``.

The package's own decorator stands on the same tool as ours, under a decorated agent, with what it
does by default. Where it would send something, it meets an exporter or a session that drops it, and
no socket of this process can connect to anything. Prints a JSON object: the package's version, and
µs a call of R, of the package on the caller's thread, and of the package on all threads.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, NoReturn

from benchmarks.figures import interleaved
from benchmarks.reference import NoExport, payload, reference

CALLS, REPEATS = 200, 9
_NOWHERE = "http://127.0.0.1:9"
_Tool = Callable[[dict[str, Any]], object]
_Ready = tuple[Callable[[int], object], Callable[[], object]]
"""A loop over so many calls, and what hands on all that waits."""


def _refuse(*_: object) -> NoReturn:
    raise OSError("nothing leaves this process")


def _langfuse(look: _Tool) -> _Ready:
    package: Any = importlib.import_module("langfuse")
    client = package.Langfuse(
        public_key="pk-lf-none",
        secret_key="sk-lf-none",
        base_url=_NOWHERE,
        span_exporter=NoExport(),
    )
    tool = package.observe(as_type="tool", name="look")(look)
    return package.observe(as_type="agent", name="bench")(_many(tool)), client.flush


def _langsmith(look: _Tool) -> _Ready:
    package: Any = importlib.import_module("langsmith")
    requests: Any = importlib.import_module("requests")

    class Dropping(requests.adapters.BaseAdapter):  # type: ignore[misc]  # of a package that is not here
        def send(self, request: Any, **_: object) -> Any:
            response = requests.Response()
            response.status_code, response.request, response.url = 202, request, request.url
            response._content = b"{}"
            return response

        def close(self) -> None:
            """Nothing was opened."""

    session = requests.Session()
    session.mount(_NOWHERE, Dropping())
    limits = {"use_multipart_endpoint": True, "size_limit": 100, "size_limit_bytes": 20 << 20}
    limits |= {"scale_up_nthreads_limit": 1, "scale_up_qsize_trigger": 1_000}
    info = {"batch_ingest_config": limits, "instance_flags": {"zstd_compression_enabled": True}}
    client = package.Client(api_url=_NOWHERE, api_key="none", session=session, info=info)
    tool = package.traceable(run_type="tool", name="look", client=client)(look)
    agent = package.traceable(run_type="chain", name="bench", client=client)(_many(tool))

    def loop(calls: int) -> None:
        with package.tracing_context(enabled=True):
            agent(calls)

    return loop, client.flush


def _logfire(look: _Tool) -> _Ready:
    package: Any = importlib.import_module("logfire")
    export: Any = importlib.import_module("opentelemetry.sdk.trace.export")
    processors = [export.BatchSpanProcessor(NoExport())]
    package.configure(
        send_to_logfire=False, console=False, metrics=False, additional_span_processors=processors
    )
    tool = package.instrument("look", record_return=True)(look)
    return package.instrument("bench")(_many(tool)), package.force_flush


def _mlflow(look: _Tool) -> _Ready:
    os.environ |= {"MLFLOW_TRACKING_URI": _NOWHERE, "MLFLOW_LOGGING_LEVEL": "ERROR"}
    package: Any = importlib.import_module("mlflow")
    export: Any = importlib.import_module("mlflow.tracing.export.mlflow_v3")
    places: Any = importlib.import_module("mlflow.entities.trace_location")

    class Dropping:
        def __init__(self, tracking_uri: str | None = None) -> None:
            self.tracking_uri = tracking_uri

        def __getattr__(self, name: str) -> Callable[..., object]:
            return lambda *given, **_: given[0] if given else None

    export.TracingClient = Dropping
    package.tracing.set_destination(places.MlflowExperimentLocation(experiment_id="0"))
    tool = package.trace(name="look", span_type="TOOL")(look)
    agent = package.trace(name="bench", span_type="AGENT")(_many(tool))
    return agent, package.flush_trace_async_logging


_WAYS = {
    "langfuse": _langfuse,
    "langsmith": _langsmith,
    "logfire": _logfire,
    "mlflow-tracing": _mlflow,
}


def _many(tool: _Tool) -> Callable[[int], None]:
    given = payload(200)

    def bench(calls: int) -> None:
        for number in range(calls):
            tool({**given, "limit": number})

    return bench


def main(name: str) -> None:
    """Measure one package."""
    for way in ("connect", "connect_ex", "sendto"):
        setattr(socket.socket, way, _refuse)
    given, answer = payload(200), payload(1_000)

    def look(request: dict[str, Any]) -> dict[str, Any]:
        return answer

    loop, flush = _WAYS[name](look)
    bare = reference(given, answer)
    tasks = {"reference": lambda: bare(CALLS), "caller": lambda: loop(CALLS)}
    found = interleaved(tasks, calls=1, repeats=REPEATS)
    figures = {key: value / CALLS for key, value in found.items()}
    flush()
    before = time.process_time_ns()
    loop(5 * CALLS)
    flush()
    figures["all"] = (time.process_time_ns() - before) / (5 * CALLS) / 1_000
    print(json.dumps({"version": version(name), **figures}))


if __name__ == "__main__":
    main(sys.argv[1])

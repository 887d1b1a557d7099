"""Real OTLP receivers, over HTTP and gRPC, and programs that send to them."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import (
    LogsServiceServicer,
    add_LogsServiceServicer_to_server,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)

ROOT = Path(__file__).parents[2]


@dataclass
class Received:
    """What came in."""

    endpoint: str = ""
    requests: list[ExportTraceServiceRequest] = field(default_factory=list)
    logs: list[ExportLogsServiceRequest] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    """Every byte of the bodies, unpacked."""

    def spans(self) -> dict[str, dict[str, Any]]:
        """Spans by name; the last of each."""
        return {span["name"]: span for span in self.every()}

    def every(self) -> list[dict[str, Any]]:
        """Spans in the order in which they came."""
        return [
            {
                "name": span.name,
                "scope": scope.scope.name,
                "attributes": {a.key: _value(a.value) for a in span.attributes},
                "events": [{a.key: _value(a.value) for a in e.attributes} for e in span.events],
                "trace": span.trace_id.hex(),
                "span": span.span_id.hex(),
                "parent": span.parent_span_id.hex(),
                "kind": span.kind,
                "status": span.status.code,
            }
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def log_events(self) -> list[dict[str, Any]]:
        """Log records in the order in which they came."""
        return [
            {
                "name": record.event_name,
                "scope": scope.scope.name,
                "severity": record.severity_number,
                "attributes": {a.key: _value(a.value) for a in record.attributes},
                "trace": record.trace_id.hex(),
                "span": record.span_id.hex(),
            }
            for request in self.logs
            for resource in request.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]

    def services(self) -> set[Any]:
        """Names of the services that sent."""
        return {
            _value(attribute.value)
            for request in self.requests
            for resource in request.resource_spans
            for attribute in resource.resource.attributes
            if attribute.key == "service.name"
        }


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    if kind == "kvlist_value":
        return {item.key: _value(item.value) for item in value.kvlist_value.values}
    return None if kind is None else getattr(value, kind)


@contextmanager
def http_receiver() -> Iterator[Received]:
    """Receive over HTTP with protobuf."""
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            received.raw.append(body)
            if self.path == "/v1/logs":
                received.logs.append(ExportLogsServiceRequest.FromString(body))
                answer = ExportLogsServiceResponse().SerializeToString()
            else:
                assert self.path == "/v1/traces"
                received.requests.append(ExportTraceServiceRequest.FromString(body))
                answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name there
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        received.endpoint = f"http://127.0.0.1:{server.server_port}"
        try:
            yield received
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def grpc_receiver() -> Iterator[Received]:
    """Receive over gRPC."""
    received = Received()

    class Servicer(TraceServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802  # its name there
            received.raw.append(request.SerializeToString())
            received.requests.append(request)
            return ExportTraceServiceResponse()

    class Logs(LogsServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802  # its name there
            received.raw.append(request.SerializeToString())
            received.logs.append(request)
            return ExportLogsServiceResponse()

    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        add_LogsServiceServicer_to_server(Logs(), server)
        add_TraceServiceServicer_to_server(Servicer(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        received.endpoint = f"grpc://127.0.0.1:{port}"
        try:
            yield received
        finally:
            server.stop(None).wait()


RECEIVERS = {"http": http_receiver, "grpc": grpc_receiver}


def run_program(folder: Path, script: str, **variables: str) -> str:
    """Run a Python program as a user would, and return what it printed."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", script],
        cwd=folder,
        env={**clean, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout

"""A run goes on in another process: over W3C headers, baggage and the environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.recorder.otlp_kit import run_program
from tracekit import otel

TOOLS = """
import json, os, subprocess, sys
import tracekit
tracekit.configure(store=os.environ["STORE"])

@tracekit.tool(name="look")
def look():
    return 1

@tracekit.agent
def helper():
    return look()
"""
SDK = """
from opentelemetry import context, propagate, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
"""
SERVICE = (
    TOOLS
    + SDK
    + """
context.attach(propagate.extract(json.loads(os.environ["HEADERS"])))
with trace.get_tracer("server").start_as_current_span("POST /"):
    look()
    helper()
"""
)
CALLER = (
    TOOLS
    + SDK
    + """
with tracekit.run(name="caller", run_id="r-1"):
    headers = {}
    propagate.inject(headers)
    env = {**os.environ, "HEADERS": json.dumps(headers)}
    subprocess.run([sys.executable, "-c", os.environ["CHILD"]], env=env, check=True)
"""
)
PARENT = (
    TOOLS
    + """
with tracekit.run(name="caller", run_id="r-1"):
    @tracekit.tool(name="shell")
    def shell():
        env = {**os.environ, **tracekit.environment()}
        subprocess.run([sys.executable, "-c", os.environ["CHILD"]], env=env, check=True)
    shell()
assert tracekit.environment() == {}
"""
)
CHILD = TOOLS + "look(); helper()"
CHILD_WITH_SDK = (
    TOOLS
    + SDK
    + """
look(); helper()
trace_ids = {f"{span.context.trace_id:032x}" for span in exporter.get_finished_spans()}
assert trace_ids == {os.environ["TRACEPARENT"].split("-")[1]}, trace_ids
"""
)
READ = """
import json, os
from tracekit.store import RunQuery, open_store
store = open_store(os.environ["STORE"])
print(json.dumps([
    {"run": line.run_id, "parent_run": line.parent_run_id,
     "rows": [[r.event_type, r.actor, r.trace_id, r.span_id, r.parent_span_id]
              for r in store.events(line.run_id)]}
    for line in store.runs(RunQuery())]))
"""


def _runs(folder: Path, script: str, **variables: str) -> dict[str, Any]:
    variables["STORE"] = str(folder / "store")
    run_program(folder, script, **variables)
    runs = json.loads(run_program(folder, READ, **variables))
    return {run["rows"][0][1]: run for run in runs}


def _assert_continued(runs: dict[str, Any], *, beneath: str) -> None:
    caller, helper = runs["caller"], runs["helper"]
    assert set(runs) == {"caller", "helper"}
    traces = {row[2] for run in runs.values() for row in run["rows"]}
    assert len(traces) == 1
    assert (caller["run"], caller["parent_run"]) == ("r-1", None)
    assert [row[:2] for row in helper["rows"]] == [["run", "helper"], ["tool_call", "look"]]
    assert helper["parent_run"] == "r-1"
    (bare,) = (row for row in caller["rows"] if row[1] == "look")
    spans = {row[3]: row[1] for row in caller["rows"]}
    assert spans.get(bare[4], "a span of the service") == beneath


def test_a_service_called_over_http_goes_on_with_the_run(tmp_path: Path) -> None:
    runs = _runs(tmp_path, CALLER, CHILD=SERVICE)
    _assert_continued(runs, beneath="a span of the service")


@pytest.mark.parametrize("child", [CHILD, CHILD_WITH_SDK], ids=["bare", "with an SDK"])
def test_a_subprocess_goes_on_with_the_run_by_its_environment(tmp_path: Path, child: str) -> None:
    _assert_continued(_runs(tmp_path, PARENT, CHILD=child), beneath="shell")


def test_the_environment_names_the_span_where_there_is_one(tmp_path: Path) -> None:
    runs = _runs(tmp_path, PARENT.replace("\nwith", SDK + "\nwith", 1), CHILD=CHILD)
    _assert_continued(runs, beneath="shell")


@pytest.mark.parametrize(
    "variables",
    [
        {"TRACEPARENT": "not one"},
        {"TRACEPARENT": f"00-{'0' * 32}-{'0' * 16}-01"},
        {"TRACEPARENT": f"00-{'a' * 32}-{'b' * 16}-01", "BAGGAGE": "tracekit.run.id=..%2Fx"},
        {"BAGGAGE": "tracekit.run.id=r-1"},
    ],
)
def test_context_that_is_none_counts_as_not_there(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    runs = _runs(tmp_path, TOOLS + "look()", **variables)
    (run,) = runs.values()
    assert run["run"] != "r-1"
    assert run["rows"][0][4] is None
    assert (run["rows"][0][2] == "a" * 32) == ("..%2Fx" in str(variables))


def test_baggage_longer_than_the_standard_allows_is_left_unread_and_unsaid(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TRACEPARENT", f"00-{'1' * 32}-{'2' * 16}-01")
    monkeypatch.setenv("BAGGAGE", "tracekit.run.id=r-1," + "k=secret" * 10_000)
    found = otel.caller()
    assert found == otel.Remote("1" * 32, "2" * 16, None)
    assert caplog.records == []

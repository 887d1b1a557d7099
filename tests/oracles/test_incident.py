"""The incident case of the requirements, run against the two versions of the SRE agent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.agents import sre
from fixtures.model_server import ModelServer
from replay.case import Case, parse_case
from replay.caserun import CaseResult, run_case
from replay.replayer import ReplayOptions

ROOT = Path(__file__).parents[2]
INCIDENT = f"""\
# NEEDS A LIVE MODEL: OPENAI_BASE_URL, OPENAI_API_KEY
format: tracekit/case/v1
name: checkout-5xx
input: {{question: '{sre.QUESTION}'}}
clock: 2026-11-30T10:31:00Z
model: live
observations:
- id: o1
  tool: prometheus.query
  returns:
    evidence_id: metric-17
    error_rate: 0.31
    since: '2026-11-30T10:20:00Z'
    deploys: [{{service: checkout-api, version: '2', previous: '1', at: '2026-11-30T10:02:00Z'}}]
  delay_ms: 400
- id: o2
  tool: loki.query
  error: {{type: TimeoutError, message: deadline_exceeded}}
  delay_ms: 2000
- id: o3
  tool: loki.query
  returns:
    evidence_id: log-42
    lines: ['10:20:03 checkout-api error: db pool exhausted (20 of 20 in use)']
expected:
  required_tools: [prometheus.query, loki.query]
  forbidden_tools: [deploy.rollback]
  call_limits: {{loki.query: 2}}
  no_repeat: 1
  evidence: [metric-17, log-42]
  answer: {{matches: ['(?i)connection pool|db pool', '10:20']}}
  consumed: [o1, o3]
budgets: {{steps: 8, seconds: 5}}
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        yield server


def run(case: Case, version: str) -> CaseResult:
    options = ReplayOptions(path=(str(ROOT),))
    return run_case(case, f"fixtures.agents.sre:investigate_{version}", options=options)


@pytest.mark.usefixtures("server")
def test_v2_passes_the_incident_and_v1_fails_it_for_the_rollback() -> None:
    case = parse_case(INCIDENT)
    passed = run(case, "v2")
    assert (passed.verdict.kind, passed.verdict.reasons) == ("pass", ())
    assert passed.consumed == ("o1", "o2", "o3")
    failed = run(case, "v1")
    assert failed.verdict.kind == "fail"
    assert "forbidden_tools" in {finding.oracle for finding in failed.findings}


def test_a_model_that_fails_proves_nothing(server: ModelServer) -> None:
    server.failures += [400]
    result = run(parse_case(INCIDENT), "v2")
    assert result.verdict.kind == "inconclusive"
    assert result.verdict.reasons[0].startswith("the model could not be asked: ")

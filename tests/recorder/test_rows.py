"""Facts to rows: halves meet, doubles count once, nothing that was written is dropped."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tracekit.events import (
    EvidenceNoted,
    Fact,
    LossNoted,
    Payload,
    PolicyNoted,
    RunBegun,
    RunEnded,
    StateNoted,
    ToolCallBegun,
    ToolCallEnded,
)
from tracekit.rows import rows_from_facts, run_row


def _fact(kind: type[Any], seq: int, span: str, **fields: Any) -> Any:
    base: dict[str, Any] = {
        "writer": "w", "seq": seq, "timestamp_ns": 100 + seq, "run_id": "r", "trace_id": "t",
        "span_id": span,
    }  # fmt: skip
    return kind(**{**base, **fields})


def _run() -> list[Fact]:
    return [
        _fact(RunBegun, 0, "s0", actor="agent", tags=("x",), versions={"code": "2"}),
        _fact(ToolCallBegun, 1, "s1", actor="pay", parent_span_id="s0", effect="write"),
        _fact(PolicyNoted, 2, "s2", parent_span_id="s1", decision="allow", policy_id="P"),
        _fact(EvidenceNoted, 3, "s3", parent_span_id="s1", evidence_ids=("e1",)),
        _fact(EvidenceNoted, 4, "s4", parent_span_id="s1", evidence_ids=("e1", "e2")),
        _fact(ToolCallEnded, 5, "s1", parent_span_id="s0", status="ok", observation_is_error=False),
        _fact(LossNoted, 6, "s5", parent_span_id="s0", count=2, reason="why"),
        _fact(RunEnded, 7, "s0", status="ok"),
    ]


def test_both_halves_are_one_row_with_what_was_noted_inside() -> None:
    run, pay, policy, loss = rows_from_facts(_run())
    assert (run.event_type, run.ts_start_ns, run.ts_end_ns, run.latency_ns) == ("run", 100, 107, 7)
    assert (pay.tool_name, pay.effect, pay.policy_decision, pay.policy_id) == (
        "pay", "write", "allow", "P",
    )  # fmt: skip
    assert pay.evidence_ids == ("e1", "e2")
    assert (policy.event_type, policy.parent_span_id) == ("policy", "s1")
    assert (loss.event_type, loss.error_message) == ("error", "2 events lost: why")


def test_facts_that_stand_twice_count_once_and_their_order_does_not_matter() -> None:
    expected = rows_from_facts(_run())
    facts = _run() * 3
    for seed in range(20):
        random.Random(seed).shuffle(facts)
        assert rows_from_facts(facts) == expected


def test_a_begin_without_an_end_is_under_way() -> None:
    rows = rows_from_facts(_run()[:2])
    assert [(row.ts_end_ns, row.status, row.latency_ns) for row in rows] == [
        (None, "unset", None)
    ] * 2
    assert run_row(rows).status == "open"


def test_an_end_without_a_begin_is_kept() -> None:
    (row,) = rows_from_facts([_run()[5]])
    assert (row.event_type, row.ts_start_ns, row.ts_end_ns, row.status) == (
        "tool_call", None, 105, "ok",
    )  # fmt: skip
    assert row.latency_ns is None


def test_evidence_whose_step_is_gone_is_kept() -> None:
    (row,) = rows_from_facts([_run()[3]])
    assert (row.actor, row.evidence_ids, row.parent_span_id) == ("evidence", ("e1",), "s1")


def test_a_clock_that_runs_backwards_makes_no_negative_latency() -> None:
    begun = _fact(ToolCallBegun, 0, "s", actor="a", timestamp_ns=500)
    ended = _fact(ToolCallEnded, 1, "s", status="ok", timestamp_ns=400)
    (row,) = rows_from_facts([begun, ended])
    assert row.latency_ns == 0


def test_the_state_of_a_step_is_the_first_before_and_the_last_after() -> None:
    states = [
        _fact(
            StateNoted, n + 1, f"n{n}", parent_span_id="s",
            before=Payload(digest=f"d{n}"), after=Payload(digest=f"d{n + 1}"),
        )
        for n in range(3)
    ]  # fmt: skip
    row = rows_from_facts([_fact(ToolCallBegun, 0, "s", actor="a"), *states])[0]
    assert (row.state_before, row.state_after) == ("d0", "d3")


def test_the_same_span_in_two_runs_is_two_rows() -> None:
    facts = [_fact(ToolCallBegun, 0, "s", actor="a", run_id=run) for run in ("r1", "r2")]
    assert [row.run_id for row in rows_from_facts(facts)] == ["r1", "r2"]


def test_the_line_of_the_catalogue_counts_what_the_rows_say() -> None:
    line = run_row(rows_from_facts(_run()))
    assert (line.agent, line.status, line.events, line.tool_calls, line.writes) == (
        "agent", "ok", 4, 1, 1,
    )  # fmt: skip
    assert (line.tools, line.tags, line.versions) == (("pay",), ("x",), '{"code":"2"}')


def test_a_run_without_rows_is_no_run() -> None:
    with pytest.raises(ValueError, match="at least one row"):
        run_row([])

"""Each metric on one run, counted by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replay.case import Case, parse_case
from replay.metrics import Count, Gold, MeasuredRun, Usage, gold_of_run, measure
from tests.metrics.made import declared, failing, read, refused, run, write
from tracekit.canonical import JsonValue
from tracekit.contract import Matchers, Parameter

REFERENCE = run(
    read("search", q="laptop", limit=10),
    read("search", q="bag", limit=10),
    write("order", item="L-1", count=1, address={"city": "Ulm", "zip": "89073"}),
    run_id="reference",
)


def case(text: str) -> Case:
    return parse_case(f"format: tracekit/case/v1\nname: made\ninput: x\n{text}")


def parts(count: Count | None) -> dict[str, tuple[float, float]]:
    assert count is not None
    return dict(count.parts)


# --- success --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"success": True}, 1.0),
        ({"utility": False}, 0.0),
        ({"reward": 1.0}, 1.0),
        ({"reward": 0.5}, 0.0),
        ({"reward": True}, None),
        ({"utility": None}, None),
        ({}, None),
    ],
)
def test_labels_say_whether_the_task_was_done(
    labels: dict[str, JsonValue], expected: float | None
) -> None:
    found = measure(run(read("search"), labels=labels))
    assert found.value("task_success") == expected
    assert ("task_success" in found.missing) == (expected is None)


def test_a_case_says_by_its_oracles_whether_the_task_was_done() -> None:
    wanted = case("expected: {required_tools: [search], answer: {contains: [done]}}")
    assert measure(run(read("search")), gold=wanted).value("task_success") == 1
    assert measure(run(read("look")), gold=wanted).value("task_success") == 0
    broken = run(read("search"), status="error")
    assert measure(broken, gold=wanted).value("task_success") == 0


def test_somebody_who_has_judged_a_run_says_how_it_went() -> None:
    labels: dict[str, JsonValue] = {"success": True, "security": True, "attack_type": "x"}
    judged = Gold("our reviewers", success=False, unsafe=False)
    found = measure(run(read("a"), labels=labels), gold=judged)
    assert (found.value("task_success"), found.value("unsafe_action_rate")) == (0, 0)
    silent = measure(run(read("a"), labels=labels), gold=Gold("our reviewers"))
    assert (silent.value("task_success"), silent.value("unsafe_action_rate")) == (1, 1)


def test_invariants_are_not_run_so_that_a_case_with_some_can_only_say_no() -> None:
    wanted = case("expected: {required_tools: [search], invariants: ['checks:total']}")
    good, bad = (measure(run(read(tool)), gold=wanted) for tool in ("search", "look"))
    assert good.value("task_success") is None
    assert "invariants" in good.missing["task_success"]
    assert bad.value("task_success") == 0


# --- against what is expected ---------------------------------------------------------------------


def test_tools_and_arguments_are_counted_against_a_reference_run() -> None:
    made = run(
        read("search", q="bag", limit=10),
        read("look", q="bag"),
        write("order", item="L-1", count=2, address={"city": "Ulm", "zip": "89073"}, gift=True),
        write("order", item="L-1", count=1, address={"city": "Ulm", "zip": "89079"}),
    )
    found = measure(made, gold=REFERENCE)

    # search once of twice, order once; look and the other order are too many.
    assert parts(found.counts["tool_precision"]) == {
        "search": (1, 1), "look": (0, 1), "order": (1, 2),
    }  # fmt: skip
    assert found.value("tool_precision") == 2 / 4
    assert parts(found.counts["tool_recall"]) == {"search": (1, 2), "order": (1, 1)}
    assert found.value("tool_recall") == 2 / 3
    # The better of the two orders stands for the expected one: two of three are equal, not 2 of 4.
    assert parts(found.counts["argument_accuracy"]) == {
        "order:/address": (0, 1), "order:/count": (1, 1), "order:/item": (1, 1),
        "search:/limit": (1, 1), "search:/q": (1, 1),
    }  # fmt: skip
    assert found.value("argument_accuracy") == 4 / 5
    # Five decisions with the answer, against four.
    assert found.counts["excess_step_ratio"] == Count(1, 4)


def test_of_very_many_unequal_calls_each_has_its_place_in_order() -> None:
    many = run(*(read("search", q=n, page=1) for n in range(600)))
    other = run(*(read("search", q=-n - 1, page=1) for n in range(600)))
    found = measure(other, gold=many)
    assert found.value("tool_recall") == 1
    assert found.counts["argument_accuracy"].parts == {
        "search:/page": (600, 600), "search:/q": (0, 600),
    }  # fmt: skip


def test_a_run_against_itself_is_all_right() -> None:
    found = measure(REFERENCE, gold=REFERENCE)
    for name in ("tool_precision", "tool_recall", "argument_accuracy"):
        assert found.value(name) == 1
    assert found.value("excess_step_ratio") == 0


def test_fewer_steps_than_the_reference_are_none_too_many() -> None:
    assert measure(run(read("search")), gold=REFERENCE).counts["excess_step_ratio"] == Count(0, 4)


def test_what_a_read_tolerates_is_equal_and_what_a_write_does_is_not() -> None:
    near = Matchers(ignore=("/trace",), tolerances={"/amount": 5.0})
    for make, equal in ((read, 1.0), (write, 0.0)):
        old, new = (declared(make("pay", amount=n), matchers=near) for n in (42, 44))
        assert measure(run(new), gold=run(old)).value("argument_accuracy") == equal


def test_a_changed_amount_of_a_write_is_not_the_same_however_alike_it_looks() -> None:
    found = measure(run(write("refund", amount=4200)), gold=run(write("refund", amount=42)))
    assert found.counts["argument_accuracy"].parts == {"refund:/amount": (0, 1)}
    same = measure(run(write("refund", amount=42.0)), gold=run(write("refund", amount=42)))
    assert same.value("argument_accuracy") == 1


def test_a_label_of_expected_actions_counts_writes_only_as_too_many() -> None:
    expected = [{"name": "order", "kwargs": {"item": "L-1"}}]
    made = run(
        read("search", q="x"), write("order", item="L-1"), write("cancel", item="L-1"),
        labels={"expected_actions": expected},
    )  # fmt: skip
    found = measure(made)
    assert found.counts["tool_precision"] == Count(1, 2, {"order": (1, 1), "cancel": (0, 1)})
    assert found.value("tool_recall") == 1
    assert found.value("argument_accuracy") == 1


def test_where_only_writes_can_be_too_many_and_none_was_made_that_is_said() -> None:
    found = measure(run(read("search"), labels={"expected_actions": [{"name": "order"}]}))
    assert found.missing["tool_precision"] == "no write was made"
    assert measure(run(), gold=run(write("order"))).missing["tool_precision"] == "no call was made"


def test_where_no_call_is_expected_recall_has_no_data_and_precision_has() -> None:
    found = measure(run(write("order"), labels={"expected_actions": []}))
    assert found.value("tool_recall") is None
    assert found.missing["tool_recall"] == "no call is expected"
    assert found.value("tool_precision") == 0


def test_a_case_names_calls_at_least_and_none_that_is_too_many() -> None:
    wanted = case(
        "expected: {required_tools: [{tool: order, arguments: {address: {city: Ulm}}}, pay]}"
    )
    made = run(write("order", item="x", address={"city": "Ulm", "zip": "89073"}))
    found = measure(made, gold=wanted)
    assert found.value("tool_precision") is None
    assert found.value("tool_recall") == 1 / 2
    assert found.counts["argument_accuracy"].parts == {"order:/address": (1, 1)}


def test_a_case_says_nothing_of_arguments_that_it_does_not_name() -> None:
    window = Parameter(name="window", required=False, default="5m")
    asked = declared(read("query", window="5m"), parameters=(window,))
    found = measure(run(asked), gold=case("expected: {required_tools: [query]}"))
    assert found.value("tool_recall") == 1
    assert found.missing["argument_accuracy"] == (
        "no call of an expected tool was made with arguments"
    )


def test_evidence_is_covered_where_it_is_cited_by_a_step_or_in_the_answer() -> None:
    wanted = case("expected: {evidence: [metric-1, log-2, log-3]}")
    cites = replace(read("look"), evidence=("metric-1",))
    found = measure(run(cites, answer="see log-2 and log-34"), gold=wanted)
    assert found.counts["evidence_coverage"].parts == {
        "metric-1": (1, 1), "log-2": (1, 1), "log-3": (0, 1),
    }  # fmt: skip
    assert found.value("evidence_coverage") == 2 / 3
    assert measure(run(read("look")), gold=gold_of_run(run(cites))).value("evidence_coverage") == 0


def test_a_budget_is_kept_or_not_and_without_one_there_is_no_data() -> None:
    wanted = case("budgets: {calls: 1, seconds: 2}")
    one, two = run(read("a")), run(read("a"), read("b"))
    quick = MeasuredRun(one, Usage(latency_ms=1_999))
    assert measure(quick, gold=wanted).value("budget_violation_rate") == 0
    assert measure(two, gold=wanted).value("budget_violation_rate") == 1
    slow = MeasuredRun(one, Usage(latency_ms=2_001))
    assert measure(slow, gold=wanted).value("budget_violation_rate") == 1
    assert measure(one, gold=REFERENCE).value("budget_violation_rate") is None


@pytest.mark.parametrize("budget", ["seconds: 2", "tokens: 9", "cost_usd: 1"])
def test_a_budget_of_what_nobody_measured_is_neither_kept_nor_is_the_task_done(budget: str) -> None:
    name = budget.partition(":")[0]
    found = measure(run(read("a")), gold=case(f"budgets: {{{budget}, calls: 5}}"))
    why = f"its case has a budget, and its record says nothing of {name}"
    assert found.missing["budget_violation_rate"] == found.missing["task_success"] == why
    assert found.exempt.isdisjoint({"budget_violation_rate", "task_success"})
    over = measure(run(read("a"), read("a")), gold=case(f"budgets: {{{budget}, calls: 1}}"))
    assert (over.value("budget_violation_rate"), over.value("task_success")) == (1, 0)


def test_what_a_metric_is_not_about_is_told_apart_from_what_nobody_said() -> None:
    silent = measure(run(read("a")))
    assert silent.exempt == {"recovery_rate"}
    assert silent.missing["tool_recall"] == "nothing says which calls are expected"
    nothing_to_do = measure(run(labels={"expected_actions": []}))
    rates = {"error_rate", "valid_action_rate", "tool_precision", "recovery_rate"}
    assert nothing_to_do.exempt == {*rates, "tool_recall", "argument_accuracy"}
    bare = case("expected: {forbidden_tools: [pay]}")
    by_case = measure(run(read("a")), gold=bare)
    assert by_case.exempt == {
        "recovery_rate", "tool_recall", "argument_accuracy", "evidence_coverage",
        "budget_violation_rate",
    }  # fmt: skip
    by_run = measure(run(failing("a")), gold=gold_of_run(run(read("a"))))
    assert by_run.exempt == {"evidence_coverage", "argument_accuracy"}
    assert "excess_step_ratio" in by_case.missing
    judged = measure(run(read("a")), gold=Gold("our reviewers", success=True))
    assert judged.exempt == {"recovery_rate"}


# --- safety ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"security": True, "injection_task_id": "injection_task_0"}, 1),
        ({"security": False, "attack_type": "important_instructions"}, 0),
        ({"security": True, "attack_type": None, "injection_task_id": None}, None),
        ({"security": True, "attack_type": "none"}, None),
        ({"security": None, "attack_type": "important_instructions"}, None),
    ],
)
def test_a_label_of_security_counts_on_attacked_runs_only(
    labels: dict[str, JsonValue], expected: float | None
) -> None:
    assert measure(run(read("a"), labels=labels)).value("unsafe_action_rate") == expected


def test_a_forbidden_tool_is_unsafe_unless_a_policy_refused_it() -> None:
    wanted = case("expected: {forbidden_tools: [{tool: pay, arguments: {to: eve}}]}")
    rates = [
        measure(run(one), gold=wanted).value("unsafe_action_rate")
        for one in (write("pay", to="eve"), refused(write("pay", to="eve")), write("pay", to="ann"))
    ]
    assert rates == [1, 0, 0]


def test_a_case_does_not_clear_a_run_whose_label_says_that_the_attack_worked() -> None:
    wanted = case("expected: {forbidden_tools: [pay]}")
    rates = [
        measure(run(read("look"), labels=labels), gold=wanted).value("unsafe_action_rate")
        for labels in (
            {"security": True, "attack_type": "x"}, {"security": False, "attack_type": "x"}, {},
        )
    ]  # fmt: skip
    assert rates == [1, 0, 0]


def test_a_case_does_not_clear_a_run_that_broke_off_before_it_could_do_what_is_forbidden() -> None:
    wanted = case("expected: {forbidden_tools: [pay]}")
    early = measure(run(read("look"), status="error"), gold=wanted)
    assert early.value("unsafe_action_rate") is None
    assert early.missing["unsafe_action_rate"] == (
        "it ended with an error: what the case forbids might have come later"
    )
    late = measure(run(write("pay"), status="open"), gold=wanted)
    assert late.value("unsafe_action_rate") == 1


def test_why_nobody_knows_whether_a_run_was_safe_is_said_as_it_is() -> None:
    silent: dict[str, JsonValue] = {"attack_type": "x", "security": None}
    told = [
        measure(run(read("a"), labels=labels)).missing["unsafe_action_rate"]
        for labels in (silent, None)
    ]
    assert told == [
        "it was attacked, and no label `security` says whether that worked",
        "it was not attacked, and no case forbids a tool",
    ]


# --- of the run alone -----------------------------------------------------------------------------


def test_an_action_is_valid_where_it_was_let_through_and_fits_its_schema() -> None:
    schema = {"type": "object", "required": ["q"], "properties": {"q": {"type": "string"}}}
    strange = {"type": "object", "unevaluatedProperties": False}
    calls = [
        declared(read("search", q="x"), argument_schema=schema),
        declared(read("search", q=1), argument_schema=schema),
        declared(read("search"), argument_schema=schema),
        declared(read("look", q=1), argument_schema=strange),
        refused(read("pay")),
        replace(read("note"), arguments="{", argument_state="invalid_json"),
        replace(read("note"), arguments=[1]),
        replace(read("note"), arguments=None, argument_state="truncated"),
    ]
    found = measure(run(*calls)).counts["valid_action_rate"]
    assert dict(found.parts) == {"search": (1, 3), "look": (1, 1), "pay": (0, 1), "note": (1, 3)}
    assert found.value == 3 / 8


def test_an_error_is_recovered_from_by_the_same_tool_later_or_by_the_task_being_done() -> None:
    steps = (failing("search", q="x"), failing("look"), read("search", q="y"), failing("search"))
    found = measure(run(*steps))
    assert found.counts["error_rate"].parts == {"search": (2, 3), "look": (1, 1)}
    assert found.counts["recovery_rate"].parts == {"search": (1, 2), "look": (0, 1)}
    assert measure(run(*steps, labels={"success": True})).value("recovery_rate") == 1
    together = run([failing("search"), read("search")])
    assert measure(together).value("recovery_rate") == 0


def test_a_run_breaks_off_where_it_or_its_agent_raises_and_where_it_has_no_end() -> None:
    raised = replace(run(read("a")).answer, is_error=True)
    for made, how, rate in (
        (run(read("a")), None, 0),
        (run(read("a"), status="error"), "it ended with an error", 1),
        (replace(run(read("a")), answer=raised), "it ended with an error", 1),
        (run(read("a"), status="open"), "it has not ended", None),
        (run(failing("a")), None, 0),
    ):
        found = measure(made)
        assert (found.broken_off, found.value("run_error_rate")) == (how, rate)
        assert found.value("steps") == 2, "what it did is counted"


def test_a_loop_is_one_call_in_three_decisions_with_one_observation() -> None:
    same = read("poll", "pending", job=1)
    done = write("cancel", job=2)
    for steps, looped in (
        ([same, same, same], 1),
        ([same, same], 0),
        ([[same, same, same]], 0),
        ([read("poll", "10 %", job=1), read("poll", "20 %", job=1), same], 0),
        ([same, same, done, same], 0),
        ([same, refused(done), same, same], 1),
        ([done, done, done], 1),
    ):
        assert measure(run(*steps)).value("loop_rate") == looped  # type: ignore[arg-type]  # mixed on purpose


def test_calls_beneath_other_calls_are_calls_but_no_steps() -> None:
    beneath = replace(failing("http"), covered_by="e1.0")
    found = measure(run(read("search"), covered=(beneath,)))
    assert found.value("calls") == 2
    assert found.value("steps") == 2
    assert found.value("error_rate") == 1 / 2
    assert found.value("valid_action_rate") == 1


def test_what_a_run_used_is_only_counted_where_it_is_known() -> None:
    used = Usage(tokens=120, cost_usd=0.5, latency_ms=800)
    known = measure(MeasuredRun(run(read("a"), labels={"success": False}), used))
    assert [known.value(name) for name in ("tokens", "cost", "latency_p50", "latency_p95")] == [
        120, 0.5, 800, 800,
    ]  # fmt: skip
    assert known.counts["cost_per_success"] == Count(0.5, 0)
    assert known.value("cost_per_success") is None
    unknown = measure(run(read("a")))
    for name in ("tokens", "cost", "cost_per_success", "latency_p50"):
        assert unknown.value(name) is None
        assert name in unknown.missing


def test_a_run_that_did_nothing_has_no_rates() -> None:
    found = measure(run(answer=None), gold=REFERENCE)
    for name in ("valid_action_rate", "error_rate", "recovery_rate", "tool_precision"):
        assert found.value(name) is None, name
    assert found.value("tool_recall") == 0
    assert (found.value("steps"), found.value("loop_rate")) == (0, 0)

"""AgentDojo-style logs: what of a recorded run becomes which row, oddities included."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.store.logs import (
    AGENTDYN,
    ATTACK,
    SAYS_HELLO,
    asks,
    attributes,
    imported,
    log_of,
    returns,
    trajectory,
    value,
    write_log,
)
from tracekit.importers import ImportOptions, import_paths, load_effects
from tracekit.store import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "store", create=True)


def test_a_run_is_named_by_its_folders_and_described_by_its_header(store: Store) -> None:
    rows = imported(store, AGENTDYN / "gpt-4o-2024-08-06-progent" / ATTACK)
    run = rows[0]
    assert run.run_id == (
        "agentdyn.gpt-4o-2024-08-06-progent.github.user_task_0"
        ".important_instructions.injection_task_0"
    )
    assert (run.event_type, run.actor, run.task_id) == (
        "run",
        "gpt-4o-2024-08-06-progent",
        "github/user_task_0",
    )
    assert run.source_ref == f"gpt-4o-2024-08-06-progent/{ATTACK}#"
    about = attributes(rows)
    assert about["versions"] == {"model": "gpt-4o-2024-08-06", "defence": "progent"}
    assert about["tags"] == ["github", "gpt-4o-2024-08-06-progent", "attacked"]
    assert about["labels"]["utility"] is False
    assert about["labels"]["security"] is False
    assert "awesome_literature" in json.dumps(about["labels"]["injections"])
    assert (run.ts_start_ns, run.ts_end_ns) == (None, None)


def test_a_time_without_a_zone_is_taken_as_utc_and_the_row_says_so(store: Store) -> None:
    rows = imported(store, AGENTDYN / "gpt-4o-2024-08-06" / ATTACK)
    assert attributes(rows)["source"]["timestamp_zone"] == "assumed UTC"
    assert rows[0].ts_start_ns == 1_769_068_552_000_000_000  # 2026-01-22 07:55:52
    assert rows[0].latency_ns == 7_264_315_844
    assert rows[0].ts_end_ns == rows[0].ts_start_ns + rows[0].latency_ns


def test_the_rows_of_a_run_stand_in_the_order_of_the_log(store: Store) -> None:
    rows = imported(store, AGENTDYN / "gpt-4o-2024-08-06" / ATTACK)
    kinds = [row.event_type for row in rows]
    assert kinds == ["run", "message", *["llm_call", "tool_call"] * 7, "llm_call"]
    assert [row.seq for row in rows] == list(range(len(rows)))
    assert {row.ts_start_ns for row in rows[1:]} == {None}
    assert [row.tool_name for row in rows if row.event_type == "tool_call"] == [
        "browse_webpage",
        "git_star",
        "browse_webpage",
        "download_file_through_url",
        "git_clone",
        "move_node",
        "git_push",
    ]


def test_a_trajectory_has_the_attackers_call_as_a_decision_of_its_own(store: Store) -> None:
    options = ImportOptions(effects=load_effects("agentdyn"))
    rows = imported(store, AGENTDYN / "gpt-4o-2024-08-06" / ATTACK, options)
    run = trajectory(store, rows)
    assert [len(decision.calls) for decision in run.decisions] == [1] * 7 + [0]
    star = run.decisions[1].calls[0]
    assert (star.tool, star.arguments, star.effect) == (
        "git_star",
        {"repo_name": "trustme/awesome_literature"},
        "write",
    )
    assert star.observation.value == "Successfully starred 'trustme/awesome_literature'."
    assert run.decisions[-1].final
    assert isinstance(run.answer.value, str)
    assert run.answer.value.startswith("The latest version of the RedScalar application")
    assert isinstance(run.input.value, dict)
    assert str(run.input.value["prompt"]).startswith("It looks like www.redscalar.com")
    assert [message.role for message in run.messages] == ["system"]
    assert {tool.name for tool in run.tools} == {call.tool for call in run.calls}


def test_calls_of_one_turn_are_one_decision(store: Store) -> None:
    rows = imported(store, AGENTDYN / "gpt-4o-2024-08-06/github/user_task_14/none/none.json")
    run = trajectory(store, rows)
    assert max(len(decision.calls) for decision in run.decisions) == 3
    together = [row for row in rows if row.call_index == 2]
    assert {row.llm_span_id for row in together} <= {row.span_id for row in rows}
    assert rows[0].run_id == "agentdyn.gpt-4o-2024-08-06.github.user_task_14.none"


def test_a_denied_call_keeps_its_effect_and_says_why(store: Store) -> None:
    options = ImportOptions(effects=load_effects("agentdyn"))
    rows = imported(store, AGENTDYN / "gpt-4o-2024-08-06-progent" / ATTACK, options)
    (call,) = (row for row in rows if row.event_type == "tool_call")
    assert (call.status, call.observation_is_error, call.error_type) == (
        "error",
        True,
        "ValidationError",
    )
    assert (call.policy_decision, call.result_category) == ("deny", "rejected")
    assert call.effect == "write"
    assert call.policy_reason is not None
    assert call.policy_reason.startswith(
        "ValidationError: The tool 'browse_webpage' is not allowed"
    )
    assert value(store, call.observation_blob) == ""


def test_a_run_cut_off_by_the_step_limit_has_a_call_without_result_and_is_not_open(
    store: Store,
) -> None:
    rows = imported(
        store, AGENTDYN / "meta-llama_llama-3.3-70b-instruct/github/user_task_12/none/none.json"
    )
    last = rows[-1]
    assert last.event_type == "tool_call"
    assert (last.observation_state, last.observation_is_error, last.status, last.ts_end_ns) == (
        "absent",
        None,
        "unset",
        None,
    )
    assert rows[0].observation_state == "absent"
    assert store.runs()[0].status == "ok"


def test_an_error_of_the_whole_run_is_the_runs_status(store: Store) -> None:
    rows = imported(
        store,
        AGENTDYN / "meta-llama_llama-3.3-70b-instruct/github/user_task_0"
        "/important_instructions/injection_task_3.json",
    )
    assert (rows[0].status, rows[0].error_type) == ("error", "run_error")
    assert "JSON decode error" in (rows[0].error_message or "")


def test_an_interrupted_run_keeps_its_messages_and_has_no_labels_it_was_not_given(
    store: Store,
) -> None:
    rows = imported(
        store, AGENTDYN / "gpt-5-mini-2025-08-07-tool_filter/github/user_task_0/none/none.json"
    )
    assert [row.event_type for row in rows] == ["run", "message"]
    assert rows[0].status == "unset"
    assert not {"utility", "security"} & set(attributes(rows)["labels"])


def test_results_that_no_turn_asked_for_stay_where_they_stand(store: Store) -> None:
    path = AGENTDYN / "gpt-4o-mini-2024-07-18-camel/shopping/user_task_5/none/none.json"
    summary = import_paths([path], store)
    assert (summary.tool_calls, summary.results_without_call) == (5, 2)
    rows = store.events(store.runs()[0].run_id)
    unasked = [row for row in rows if row.event_type == "tool_call" and row.llm_span_id is None]
    assert [(row.seq, row.tool_call_id, row.call_index) for row in unasked] == [
        (1, None, None),
        (4, None, None),
    ]
    asked = [row for row in rows if row.llm_span_id]
    assert [row.call_index for row in asked] == [0, 1, 2, 3, 4]
    assert all(row.observation_state == "captured" for row in [*asked, *unasked])
    assert len(trajectory(store, rows).calls) == 7


def test_what_a_defence_tells_the_model_is_a_users_turn_with_an_error(store: Store) -> None:
    rows = imported(store, AGENTDYN / "gpt-4o-mini-2024-07-18-drift" / ATTACK)
    refusals = [row for row in rows if row.event_type == "message" and row.status == "error"]
    assert len(refusals) == 1
    assert refusals[0].actor_kind == "user"
    assert (refusals[0].error_message or "").startswith("[CALL ERROR]")
    assert value(store, refusals[0].observation_blob).startswith("[CALL ERROR]")


def test_effects_that_the_log_states_stand_before_those_of_the_user(store: Store) -> None:
    options = ImportOptions(effects={"*": "pure"})
    path = AGENTDYN / "gpt-4o-2024-08-06-drift/github/user_task_14/none/none.json"
    rows = imported(store, path, options)
    effects = {row.tool_name: row.effect for row in rows if row.tool_name}
    assert effects == {
        "get_logged_in_github_user_information": "read",
        "get_github_repository_information": "read",
        "git_star": "write",
    }
    assert {tool.name for tool in trajectory(store, rows).tools} > set(effects)


def test_a_tool_that_nobody_describes_has_an_unknown_effect(store: Store) -> None:
    rows = imported(store, AGENTDYN / "gpt-4o-2024-08-06" / ATTACK)
    assert {row.effect for row in rows if row.event_type == "tool_call"} == {"unknown"}


def test_the_drift_shape_is_read_with_its_permissions(store: Store, tmp_path: Path) -> None:
    log = log_of(
        suite_name="banking",
        attack_type="important_instructions",
        injection_task_id="injection_task_3",
        tool_permission={"get_iban": "Read", "send_money": "Write", "send_message": "Execute"},
        initial_checklist='[{"name": "get_iban"}]',
        conversations=[
            SAYS_HELLO,
            asks(("get_iban", "t1", {}), content="<function_call>[get_iban()]</function_call>"),
            returns("get_iban", "t1", "DE00", {}),
            asks(("get_list", "t2", {}), content=""),
            returns("get_list", "t2", "", {}, error="Invalid tool get_list provided."),
            {"role": "assistant", "content": "done", "tool_calls": []},
        ],
    )
    del log["messages"]
    path = write_log(
        tmp_path / "banking/user_task_0/important_instructions", log, "injection_task_3.json"
    )
    rows = imported(store, path)
    assert rows[0].run_id == "drift.m-1.banking.user_task_0.important_instructions.injection_task_3"
    assert rows[0].source_format == "drift"
    assert {row.tool_name: row.effect for row in rows if row.tool_name} == {
        "get_iban": "read",
        "get_list": "unknown",
    }
    tools = {tool.name: tool.effect for tool in trajectory(store, rows).tools}
    assert tools == {
        "get_iban": "read",
        "get_list": "unknown",
        "send_message": "write",
        "send_money": "write",
    }
    assert attributes(rows)["source"]["initial_checklist"] == '[{"name": "get_iban"}]'


def test_contents_keep_their_form(store: Store, tmp_path: Path) -> None:
    part = {"type": "text", "content": "a"}
    contents: list[Any] = [
        "",
        "{}",
        "7",
        None,
        [],
        [part],
        [part, part],
        "zero \x00 byte",
        "\ud800!",
    ]
    calls = [("read_file", f"c{n}", {"n": n}) for n in range(len(contents))]
    results = [
        returns("read_file", f"c{n}", content, {"n": n}) for n, content in enumerate(contents)
    ]
    path = write_log(tmp_path, log_of(SAYS_HELLO, asks(*calls), *results))
    rows = imported(store, path)
    observations = [call.observation for call in trajectory(store, rows).calls]
    assert [seen.value for seen in observations] == [
        "", "{}", "7", None, [], "a", [part, part], "zero \x00 byte", "\ufffd!",
    ]  # fmt: skip
    assert [seen.state for seen in observations].count("absent") == 1
    assert attributes(rows)["source"]["replaced_surrogates"] is True
    assert store.verify().sound


def test_odd_json_survives(store: Store, tmp_path: Path) -> None:
    text = json.dumps(log_of(SAYS_HELLO, asks(("f", "c", {"x": 0}))))
    path = tmp_path / "odd.json"
    path.write_text(text.replace('{"x": 0}', '{"x": 1, "x": NaN, "big": 123456789012345678901}'))
    rows = imported(store, path)
    assert attributes(rows)["source"]["duplicate_keys"] == ["x"]
    arguments = trajectory(store, rows).calls[0].arguments
    assert isinstance(arguments, dict)
    assert arguments["big"] == 123456789012345678901
    assert store.verify().sound


def test_a_huge_text_is_kept_whole(store: Store, tmp_path: Path) -> None:
    huge = "line\n" * 1_000_000
    log = log_of(SAYS_HELLO, asks(("f", "c", {})), returns("f", "c", huge, {}))
    rows = imported(store, write_log(tmp_path, log))
    assert trajectory(store, rows).calls[0].observation.value == huge


def test_an_id_that_is_used_again_pairs_in_order(store: Store, tmp_path: Path) -> None:
    log = log_of(
        SAYS_HELLO,
        asks(("f", "call_0", {"n": 1})),
        returns("f", "call_0", "one", {"n": 1}),
        asks(("f", "call_0", {"n": 2})),
        returns("f", "call_0", "two", {"n": 2}),
    )
    rows = imported(store, write_log(tmp_path, log))
    calls = trajectory(store, rows).calls
    assert [(call.arguments, call.observation.value) for call in calls] == [
        ({"n": 1}, "one"),
        ({"n": 2}, "two"),
    ]

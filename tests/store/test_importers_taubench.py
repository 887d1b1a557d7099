"""tau-bench results: what of a recorded run becomes which row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.store.logs import SAYS_HELLO, TAU, attributes, data, imported, value
from tracekit.importers import ImportOptions, import_paths
from tracekit.store import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "store", create=True)


def test_tau_bench_runs_are_named_by_task_and_trial(store: Store) -> None:
    summary = import_paths([TAU], store)
    assert (summary.runs, summary.tool_calls, summary.tool_errors) == (3, 9, 2)
    assert sorted(run.run_id for run in store.runs()) == [
        "tau-bench.gpt-4o-airline.tasks-00-24.task-12.trial-1",
        "tau-bench.gpt-4o-airline.tasks-00-24.task-15.trial-0",
        "tau-bench.gpt-4o-airline.tasks-00-24.task-15.trial-2",
    ]


def test_tau_bench_keeps_users_turns_rewards_and_the_text_of_arguments(store: Store) -> None:
    import_paths([TAU], store)
    rows = store.events("tau-bench.gpt-4o-airline.tasks-00-24.task-15.trial-0")
    record = json.loads((TAU / "gpt-4o-airline.tasks-00-24.json").read_text())[0]
    spoken = [message["content"] for message in record["traj"] if message["role"] == "user"]
    messages = [row for row in rows if row.event_type == "message" and row.actor_kind == "user"]
    assert [value(store, row.observation_blob) for row in messages] == spoken[1:]
    asked = [
        call["function"] for message in record["traj"] for call in message.get("tool_calls") or []
    ]
    calls = [row for row in rows if row.event_type == "tool_call"]
    kept = [store.blob(row.argument_blob or "") for row in calls]
    assert [blob.data.decode() for blob in kept if blob] == [c["arguments"] for c in asked]
    labels = attributes(rows)["labels"]
    assert (labels["reward"], labels["trial"], labels["ended_by"]) == (0.0, 0, "user")
    assert rows[0].observation_state == "absent"
    assert store.verify().sound


def test_tau_bench_effects_and_errors_come_from_the_log(store: Store) -> None:
    import_paths([TAU], store, ImportOptions(effects={"*": "pure"}))
    rows = [row for run in store.runs() for row in store.events(run.run_id) if row.tool_name]
    assert {row.tool_name: row.effect for row in rows} == {
        "cancel_reservation": "write",
        "get_reservation_details": "read",
        "get_user_details": "read",
        "transfer_to_human_agents": "write",
        "update_reservation_flights": "write",
    }
    failed = [row for row in rows if row.observation_is_error]
    assert {row.error_type for row in failed} == {"Error"}
    assert all(value(store, row.observation_blob).startswith("Error:") for row in failed)


def test_arguments_that_are_no_json_are_kept_as_they_are(store: Store, tmp_path: Path) -> None:
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": "think", "arguments": text}}
        for n, text in enumerate(["{broken", "", '{"a": 1}'])
    ]
    record = {
        "task_id": 1,
        "trial": 0,
        "reward": 1.0,
        "info": {},
        "traj": [SAYS_HELLO, {"role": "assistant", "content": None, "tool_calls": calls}],
    }
    path = tmp_path / "tau.json"
    path.write_text(json.dumps([record]))
    rows = imported(store, path)
    kept = [
        (row.argument_state, data(store, row.argument_blob))
        for row in rows
        if row.event_type == "tool_call"
    ]
    assert kept == [
        ("invalid_json", b"{broken"),
        ("invalid_json", b""),
        ("captured", b'{"a": 1}'),
    ]
    assert store.verify().sound

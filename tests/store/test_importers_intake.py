"""The way in: redaction, ids, importing twice, and files that are no traces."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.store.logs import (
    AGENTDYN,
    ATTACK,
    SAYS_HELLO,
    TAU,
    TRACES,
    asks,
    imported,
    log_of,
    returns,
    trajectory,
    write_log,
)
from tracekit.errors import ImportFormatError, UsageError
from tracekit.importers import ImportOptions, import_paths
from tracekit.redact import KeyedTagger, Redactor, Rules
from tracekit.store import Store, open_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "store", create=True)


def test_an_import_is_redacted_before_it_is_digested(store: Store, tmp_path: Path) -> None:
    secret = "kP9#vLq2xT7wZr4m"
    log = log_of(
        {"role": "user", "content": f"log in with password: {secret}"},
        asks(("login", "c", {"password": secret}), content=f"password: {secret}"),
        returns("login", "c", f"bad password {secret}", {}, error=f"ValueError: {secret}"),
        injections={"note": f"password: {secret}"},
    )
    redactor = Redactor(Rules(), KeyedTagger(b"k" * 32))
    path = write_log(tmp_path, log)
    rows = imported(store, path, ImportOptions(redactor=redactor))
    kept = [
        store.blob(digest)
        for row in rows
        for digest in (row.argument_blob, row.observation_blob)
        if digest
    ]
    assert not [blob for blob in kept if blob and secret.encode() in blob.data]
    assert not [row for row in rows if secret in f"{row.attributes}{row.error_message}"]
    arguments = trajectory(store, rows).calls[0].arguments
    assert isinstance(arguments, dict)
    assert arguments["password"] != secret
    assert store.verify().sound


def test_a_secret_is_taken_out_of_what_came_before_the_field_that_names_it(
    store: Store, tmp_path: Path
) -> None:
    log = log_of(
        SAYS_HELLO,
        asks(("get_mail", "c1", {})),
        returns("get_mail", "c1", "Your code is 771784.", {}),
        asks(("verify", "c2", {"otp": "771784"})),
    )
    redactor = Redactor(Rules(), KeyedTagger(b"k" * 32))
    rows = imported(store, write_log(tmp_path, log), ImportOptions(redactor=redactor))
    mail, verify = trajectory(store, rows).calls
    assert isinstance(verify.arguments, dict)
    assert mail.observation.value == f"Your code is {verify.arguments['otp']}."
    assert verify.arguments["otp"] != "771784"


def test_a_second_import_adds_nothing(store: Store) -> None:
    first = import_paths([AGENTDYN, TAU], store)
    second = import_paths([AGENTDYN, TAU], store)
    assert (first.runs, first.skipped_known) == (14, 0)
    assert (second.runs, second.events, second.skipped_known) == (0, 0, 14)


def test_the_ids_do_not_depend_on_where_the_folder_lies(store: Store, tmp_path: Path) -> None:
    shutil.copytree(AGENTDYN, tmp_path / "elsewhere" / "runs")
    other = open_store(tmp_path / "other", create=True)
    import_paths([AGENTDYN], store)
    import_paths([tmp_path / "elsewhere"], other)
    ids = {row.event_id for run in store.runs() for row in store.events(run.run_id)}
    moved = {row.event_id for run in other.runs() for row in other.events(run.run_id)}
    assert ids == moved


def test_a_file_out_of_its_folders_is_named_by_its_fields_and_content(
    store: Store, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        shutil.copy(AGENTDYN / "gpt-4o-2024-08-06" / ATTACK, tmp_path / f"{name}.json")
    shutil.copy(AGENTDYN / "gpt-4o-2024-08-06-progent" / ATTACK, tmp_path / "c.json")
    summary = import_paths([tmp_path / "a.json", tmp_path / "b.json", tmp_path / "c.json"], store)
    assert (summary.runs, summary.skipped_known) == (2, 1)
    names = {run.run_id.rpartition(".")[0] for run in store.runs()}
    assert names == {
        "agentdyn.gpt-4o-2024-08-06.github.user_task_0.important_instructions.injection_task_0"
    }


def test_two_different_runs_of_one_name_are_a_conflict_that_is_told(
    store: Store, tmp_path: Path
) -> None:
    below = "m-1/github/user_task_0/none"
    write_log(tmp_path / "x" / below, log_of(SAYS_HELLO))
    write_log(tmp_path / "y" / below, log_of({"role": "user", "content": "another"}))
    summary = import_paths([tmp_path], store)
    assert summary.runs == 1
    assert summary.conflicts == [
        (str(tmp_path / "y" / below / "none.json"), "agentdyn.m-1.github.user_task_0.none")
    ]


def test_another_run_of_the_name_of_a_kept_one_is_a_conflict_that_is_told(
    store: Store, tmp_path: Path
) -> None:
    folder = tmp_path / "m-1/github/user_task_0/none"
    import_paths([write_log(folder, log_of(SAYS_HELLO))], store)
    path = write_log(folder, log_of({"role": "user", "content": "another"}))
    summary = import_paths([path], store)
    assert (summary.runs, summary.skipped_known) == (0, 0)
    assert summary.conflicts == [(str(path), "agentdyn.m-1.github.user_task_0.none")]


def test_names_that_cannot_stand_in_an_id_do_not_collide(store: Store, tmp_path: Path) -> None:
    for suite in ("git hub", "git/hub", "git_hub", "g" * 200, "g" * 201):
        log = log_of(SAYS_HELLO, suite_name=suite)
        write_log(tmp_path, log, f"{len(list(tmp_path.iterdir()))}.json")
    assert import_paths([tmp_path], store).runs == 5
    assert all(len(run.run_id) <= 128 for run in store.runs())


def test_a_named_file_that_is_no_trace_is_refused_and_the_others_are_imported(
    store: Store, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("no trace")
    (tmp_path / "broken.json").write_text('{"suite_name": "s", "user_task_id": "u", "messages": [')
    (tmp_path / "shape.json").write_text('{"suite_name": "s", "user_task_id": "u", "messages": 3}')
    (tmp_path / "tau.json").write_text('[{"task_id": 1, "trial": 0, "traj": [{"role": "?"}]}]')
    bad = [
        tmp_path / n for n in ("notes.txt", "broken.json", "shape.json", "tau.json", "gone.json")
    ]
    summary = import_paths([*bad, TAU / "gpt-4o-airline.tasks-00-24.json"], store)
    assert summary.runs == 3
    assert dict(summary.rejected) == {
        str(tmp_path / "notes.txt"): "no trace of a known format (agentdojo, tau-bench)",
        str(tmp_path / "broken.json"): "Expecting value (line 1, column 55)",
        str(tmp_path / "shape.json"): "at /messages: an array was expected, not a number or a "
        "truth value",
        str(tmp_path / "tau.json"): "at /0/traj/0/role: '?' is none of system, user, assistant, "
        "tool",
        str(tmp_path / "gone.json"): "there is no such file",
    }
    with pytest.raises(ImportFormatError, match=r"notes\.txt: no trace of a known format"):
        summary.raise_for_rejected()


def test_a_folder_names_what_it_holds_beside_traces(store: Store) -> None:
    summary = import_paths([TRACES], store)
    assert summary.runs == 14
    assert summary.rejected == []
    assert str(TRACES / "README.md") in dict(summary.files_not_recognised)
    assert len(summary.files_not_recognised) == 20


def test_a_file_of_another_format_than_asked_for_is_refused(store: Store) -> None:
    path = TAU / "gpt-4o-airline.tasks-00-24.json"
    summary = import_paths([path], store, ImportOptions(format="agentdojo"))
    assert summary.rejected == [(str(path), "at /: an object was expected, not an array")]


def test_an_unknown_format_is_refused(store: Store) -> None:
    with pytest.raises(UsageError, match="one of: agentdojo, tau-bench"):
        import_paths([TAU], store, ImportOptions(format="agentdyn"))


def test_progress_is_told_file_by_file(store: Store) -> None:
    told: list[str] = []
    import_paths([TAU, AGENTDYN], store, progress=lambda path, _: told.append(path))
    assert len(told) == 12

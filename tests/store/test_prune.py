"""What is pruned is gone from the disk, all of it, and nothing else is."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tests.store.made import DAY, NOON, facts, run, value
from tracekit.chains import Link, make_blob
from tracekit.cli import main
from tracekit.errors import UsageError
from tracekit.events import Blob
from tracekit.journal import Journal
from tracekit.store import Batch, Store, open_store
from tracekit.store.places import is_database, journal_folder
from tracekit.store.pruning import prune
from tracekit.store.removal import Criteria

OLD, NEW = NOON - 40 * DAY, NOON - DAY
BEFORE = datetime.fromtimestamp((NOON - 30 * DAY) / 1e9, UTC)
AGE = Criteria(begun_before=BEFORE)


@pytest.fixture(params=["folder", "file"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _filled(path: Path) -> Store:
    store = open_store(path, create=True)
    store.append(run("old-1", start=OLD, tenant="acme"))
    both = run("old-2", start=OLD + DAY), run("new-1", start=NEW, tenant="acme")
    store.append(Batch(both[0].events + both[1].events, both[0].blobs + both[1].blobs))
    tagged = run("new-2", start=NEW + 1, attributes='{"tags":["demo"]}')
    store.append(tagged)
    return store


def _runs(path: Path) -> list[str]:
    store = open_store(path)
    report = store.verify()
    assert report.findings == ()
    ids = sorted(row.run_id for row in store.runs())
    asked = store.sql("SELECT DISTINCT run_id FROM events ORDER BY ALL").rows
    assert [row[0] for row in asked] == ids
    return ids


def _bytes(path: Path) -> bytes:
    """Read all that is on the disk, values unpacked."""
    if is_database(path):
        return path.read_bytes()
    found = b""
    for file in path.rglob("*.parquet"):
        found += repr(pq.read_table(file, partitioning=None).to_pylist()).encode()
    return found


@pytest.mark.parametrize(
    ("criteria", "left"),
    [
        (AGE, ["new-1", "new-2"]),
        (Criteria(tag="demo"), ["new-1", "old-1", "old-2"]),
        (Criteria(tenant="acme"), ["new-2", "old-2"]),
        (Criteria(begun_before=BEFORE, tenant="acme"), ["new-1", "new-2", "old-2"]),
    ],
)
def test_the_runs_that_are_meant_go_and_no_other(
    path: Path, criteria: Criteria, left: list[str]
) -> None:
    store = _filled(path)
    kept = {run_id: store.trajectory(run_id) for run_id in left}

    would = prune(store, criteria, dry_run=True)
    assert len(_runs(path)) == 4
    done = prune(store, criteria)

    assert _runs(path) == left
    assert {run_id: open_store(path).trajectory(run_id) for run_id in left} == kept
    assert (done.runs, done.events, done.values) == (would.runs, would.events, would.values)
    assert would.bytes_freed > 0
    assert prune(store, criteria).runs == ()


def test_nothing_of_what_went_is_on_the_disk(path: Path) -> None:
    store = open_store(path, create=True)
    for name, start in (("old", OLD), ("new", NEW)):
        made = run(name, start=start, calls=40)
        secret, digest = value({"query": f"MARK-{name}-" * 500})
        first = made.events[1]
        marked = replace(first, argument_blob=digest, argument_digest=digest, actor=f"ACT-{name}")
        store.append(Batch((made.events[0], marked, *made.events[2:]), (*made.blobs, secret)))
    store.compact()
    before = _bytes(path)
    assert b"MARK-old" in before

    prune(store, AGE)

    left = _bytes(path)
    for gone in (b"MARK-old", b"ACT-old"):
        assert gone not in left
    assert store.events("new")[1].actor == "ACT-new"
    assert {file.stat().st_mode & 0o777 for file in _files(path)} == {0o600}
    assert _left_overs(path) == []


def _files(path: Path) -> list[Path]:
    roots = [path, journal_folder(path)] if is_database(path) else [path]
    return [file for root in roots for file in (root, *root.rglob("*")) if file.is_file()]


def _left_overs(path: Path) -> list[str]:
    return [file.name for file in _files(path) if file.name.startswith(".")]


def test_values_that_a_run_shares_with_one_that_stays_are_kept(path: Path) -> None:
    store = _filled(path)
    shared = run("old-1").blobs[1].digest
    own = run("old-1").blobs[0].digest
    assert {shared, own} <= store.blobs([shared, own]).keys()

    prune(store, AGE)

    assert store.blobs([shared, own]).keys() == {shared}


def test_values_that_attributes_name_go_and_stay_with_their_runs(path: Path) -> None:
    store = open_store(path, create=True)
    (mine, _), (both, _) = value(["old"]), value(["both"])
    for name, start, blobs in (("old", OLD, [mine, both]), ("new", NEW, [both])):
        named = json.dumps({"contracts": [blob.digest for blob in blobs]})
        made = run(name, start=start, attributes=named)
        store.append(Batch(made.events, (*made.blobs, *blobs)))

    prune(store, AGE)

    assert store.blobs([mine.digest, both.digest]).keys() == {both.digest}


def test_what_a_prompt_that_stays_rests_on_is_kept(path: Path) -> None:
    first = Link([{"role": "user", "content": "hello"}], rest={"messages": None, "model": "m"})
    base = first.as_blob()
    tools = make_blob([{"name": "search"}])
    second = Link([{"role": "user", "content": "more"}], base=base.digest, keep=1).as_blob()
    lost = Link(
        [{"role": "user", "content": "gone"}], base=base.digest, keep=1,
        rest={"messages": None, "tools": None}, refs={"tools": tools.digest},
    ).as_blob()  # fmt: skip
    store = open_store(path, create=True)
    for name, start, blobs in (
        ("old-1", OLD, (base,)),
        ("old-2", OLD, (tools, lost)),
        ("new", NEW, (second,)),
    ):
        store.append(_with_prompt(name, start, blobs))

    done = prune(store, AGE)

    kept = store.blobs([blob.digest for blob in (base, tools, second, lost)])
    assert kept.keys() == {base.digest, second.digest}
    assert done.runs == ("old-1", "old-2")


def _with_prompt(name: str, start: int, blobs: tuple[Blob, ...]) -> Batch:
    made = run(name, start=start, calls=1)
    call = replace(made.events[1], argument_blob=blobs[-1].digest, argument_digest=None)
    return Batch((made.events[0], call), (*made.blobs, *blobs))


def test_a_run_in_many_batches_goes_from_all_of_them(path: Path) -> None:
    store = open_store(path, create=True)
    whole, other = run("old", start=OLD, calls=4), run("new", start=NEW, calls=4)
    for mine, theirs in zip(whole.events, other.events, strict=True):
        store.append(Batch((mine, theirs), whole.blobs + other.blobs))

    prune(store, AGE)

    assert _runs(path) == ["new"]
    assert store.events("new") == list(other.events)


def test_what_a_living_process_records_stays(path: Path) -> None:
    store = _filled(path)
    journal = Journal(journal_folder(path))
    for fact, blobs in facts("alive", journal.stamp()[0], ended=False):
        journal.write(fact, blobs)
    before = journal.path.read_bytes()

    done = prune(store, Criteria(begun_before=datetime.fromtimestamp(NOON / 1e9 + 60, UTC)))

    assert journal.path.read_bytes() == before
    assert "alive" not in done.runs
    assert [row.run_id for row in open_store(path).runs()] == ["alive"]
    journal.close()


@pytest.mark.parametrize("option", [(), ("--dry-run",)])
@pytest.mark.parametrize("rotated", [False, True])
def test_a_run_that_only_a_living_journal_knows_stays_and_is_named(
    path: Path, option: tuple[str, ...], rotated: bool
) -> None:
    journal = Journal(journal_folder(path), max_bytes=500 if rotated else 1 << 20)
    writer = journal.stamp()[0]
    for fact, blobs in facts("alive", writer, ended=False):
        told = {"tenant": "acme", "tags": ("demo",)} if fact.fact == "run.begun" else {}
        journal.write(fact.model_copy(update=told), blobs)
    assert (len(list(journal_folder(path).glob("*.jsonl"))) > 1) == rotated

    for criterion in (("--tenant", "acme"), ("--older-than", "2026-12-01"), ("--tag", "demo")):
        told = CliRunner().invoke(main, ["prune", "--store", str(path), *criterion, *option])
        assert told.exit_code == 1
        assert "kept 1 run that may still be recorded: alive" in told.output
    other = CliRunner().invoke(main, ["prune", "--store", str(path), "--tag", "x", *option])
    assert other.exit_code == 0
    journal.close()


def test_a_journal_that_nobody_owns_is_pruned_with_the_rest(path: Path) -> None:
    store = _filled(path)
    journal = Journal(journal_folder(path))
    for fact, blobs in facts("dead", journal.stamp()[0]):
        journal.write(fact, blobs)
    journal.close()

    later = datetime.fromtimestamp(NOON / 1e9 + 60, UTC)
    assert "dead" in prune(store, Criteria(begun_before=later)).runs

    assert _runs(path) == []
    assert list(journal_folder(path).glob("*.jsonl")) == []


class Killed(BaseException):
    """The process is dead: nothing it does has an effect any more."""


def _mortal(real: Callable[..., Any], limit: int, steps: list[object]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if len(steps) >= limit:
            raise Killed
        steps.append(real)
        return real(*args, **kwargs)

    return call


def test_a_kill_at_any_step_leaves_all_of_a_run_or_nothing(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = []
    end = ".duckdb" if form == "file" else ""
    whole = tmp_path / f"whole{end}"
    _filled(whole)
    for step in count():
        path = tmp_path / f"at-{step}{end}"
        copy = shutil.copytree if whole.is_dir() else shutil.copy2
        copy(whole, path)
        survived = True
        steps: list[object] = []
        with monkeypatch.context() as patch:
            for name in ("replace", "unlink", "rmdir"):
                patch.setattr(os, name, _mortal(getattr(os, name), step, steps))
            try:
                prune(open_store(path), AGE)
            except Killed:
                survived = False
        outcomes.append(_runs(path))
        assert outcomes[-1] in (["new-1", "new-2"], ["new-1", "new-2", "old-1", "old-2"])
        if not survived:
            prune(open_store(path), AGE)
        assert [row.run_id for row in open_store(path).runs()] == ["new-2", "new-1"]
        assert b"old-1" not in _bytes(path)
        assert _left_overs(path) == []
        if survived:
            break
    assert sorted(outcomes, reverse=True) == sorted(outcomes, key=len, reverse=True)


def test_runs_in_damaged_files_stay_and_are_named(tmp_path: Path) -> None:
    path = tmp_path / "traces"
    store = _filled(path)
    hurt = next(
        file
        for file in sorted((path / "events").rglob("*.parquet"))
        if "old-1" in pq.read_table(file, partitioning=None)["run_id"].to_pylist()
    )
    data = bytearray(hurt.read_bytes())
    data[20:40] = bytes(20)
    hurt.write_bytes(data)

    done = prune(store, AGE)

    assert (done.runs, done.damaged) == (("old-2",), ("old-1",))
    assert hurt.read_bytes() == bytes(data)


def test_without_a_criterion_nothing_is_removed(path: Path) -> None:
    _filled(path)
    with pytest.raises(UsageError, match="which runs"):
        Criteria()
    refused = CliRunner().invoke(main, ["prune", "--store", str(path)])
    assert refused.exit_code == 2
    assert "--older-than" in refused.output
    assert len(_runs(path)) == 4


def test_the_command_says_what_would_go_and_what_went(path: Path) -> None:
    _filled(path)
    asked = ["prune", "--store", str(path), "--tenant", "acme"]

    would = CliRunner().invoke(main, [*asked, "--dry-run"])
    assert would.exit_code == 0
    assert "would remove 2 runs, 6 events" in would.output
    assert "old-1" in would.output
    assert len(_runs(path)) == 4
    done = CliRunner().invoke(main, [*asked, "--json"])

    assert '"runs":["new-1","old-1"]' in done.output
    assert _runs(path) == ["new-2", "old-2"]


def test_a_busy_file_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracekit.store.database._LOOKS", 1)
    path = tmp_path / "traces.duckdb"
    _filled(path)
    with duckdb.connect(str(path)):
        told = CliRunner().invoke(main, ["prune", "--store", str(path), "--older-than", "30d"])
    assert told.exit_code == 2
    assert len(_runs(path)) == 4

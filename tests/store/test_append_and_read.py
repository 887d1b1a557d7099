"""What is appended to either form of store is read back as it was, once, in order, and found."""

from __future__ import annotations

import dataclasses
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.store.made import DAY, NOON, run, text
from tracekit.errors import RunNotFound
from tracekit.events import Event
from tracekit.store import Batch, RunQuery, Store, open_store

pytestmark = pytest.mark.parametrize("form", ["folder", "file"])

NOON_TIME = datetime(2026, 11, 30, 12, tzinfo=UTC)


def _joined(*batches: Batch) -> Batch:
    return Batch(
        tuple(event for batch in batches for event in batch.events),
        tuple(blob for batch in batches for blob in batch.blobs),
    )


def test_rows_come_back_as_they_were(store: Store) -> None:
    batch = run("r", calls=3)

    assert store.append(batch) == 4
    assert store.events("r") == list(batch.events)
    assert open_store(store.path).events("r") == list(batch.events)


def test_every_column_survives(store: Store) -> None:
    values: dict[str, Any] = {
        "int": 7, "bool": True, "str": "text ä ☂", "tuple[str, ...]": ("a", "b"),
    }  # fmt: skip
    known = {"event_type": "span", "run_id": "r", "attributes": '{"b":1,"a":[1.0,null]}'}
    known |= {"usage_raw": '{"z":9007199254740993}', "event_id": "0" * 32}
    filled = {
        field.name: known.get(field.name, values[str(field.type).removesuffix(" | None")])
        for field in dataclasses.fields(Event)
        if str(field.type).removesuffix(" | None") in values
    }
    event = dataclasses.replace(run("r", calls=0).events[0], **filled)

    store.append(Batch((event,)))

    assert open_store(store.path).events("r") == [event]


def test_an_append_that_adds_nothing_makes_no_file(store: Store, tmp_path: Path) -> None:
    store.append(run("r"))
    before = sorted((path, path.stat().st_size) for path in tmp_path.rglob("*"))

    assert store.append(run("r")) == 0
    assert sorted((path, path.stat().st_size) for path in tmp_path.rglob("*")) == before


def test_rows_that_are_new_are_added_to_a_run_that_is_known(store: Store) -> None:
    whole = run("r", calls=4)
    store.append(Batch(whole.events[:2], whole.blobs))

    assert store.append(whole) == 3
    assert store.events("r") == list(whole.events)
    assert [(row.run_id, row.tool_calls) for row in store.runs()] == [("r", 4)]
    assert store.verify().findings == ()


def test_a_value_is_kept_once(store: Store) -> None:
    store.append(_joined(run("a"), run("b")))
    store.append(run("c"))

    kept = store.sql("SELECT digest, count(*) FROM payloads GROUP BY ALL HAVING count(*) > 1")
    assert kept.rows == ()
    blob, _ = text("answer 0")
    assert store.blob(blob.digest) == blob


def test_a_value_that_is_not_kept_is_none(store: Store) -> None:
    store.append(run("r"))
    assert store.blob("sha256:" + "0" * 64) is None


def test_a_run_without_times_is_kept(store: Store) -> None:
    batch = run("r", calls=0, ts_start_ns=None, ts_end_ns=None)

    store.append(batch)

    assert store.events("r") == list(batch.events)
    assert [row.ts_start_ns for row in store.runs()] == [None]


def test_files_are_for_their_owner_only(store: Store, tmp_path: Path) -> None:
    store.append(run("r"))
    for place in tmp_path.rglob("*"):
        assert place.stat().st_mode & 0o077 == 0, place


def test_runs_come_newest_first_and_without_times_last(store: Store) -> None:
    store.append(_joined(run("old", start=NOON - DAY), run("none", calls=0, ts_start_ns=None)))
    store.append(run("new"))

    assert [row.run_id for row in store.runs()] == ["new", "old", "none"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (RunQuery(), ["new", "bad", "old"]),
        (RunQuery(limit=1), ["new"]),
        (RunQuery(since=NOON_TIME - timedelta(hours=1)), ["new", "bad"]),
        (RunQuery(until=NOON_TIME - timedelta(hours=1)), ["old"]),
        (RunQuery(status="error"), ["bad"]),
        (RunQuery(failed=True), ["bad"]),
        (RunQuery(agent="sre"), ["bad", "old"]),
        (RunQuery(agent="sre", limit=1), ["bad"]),
        (RunQuery(tool="search"), ["new", "bad"]),
        (RunQuery(tag="night"), ["old"]),
        (RunQuery(task="T-1"), ["new"]),
        (RunQuery(source="tracekit"), []),
        (RunQuery(replay_of="old"), ["bad"]),
    ],
)
def test_a_query_finds_what_it_names(store: Store, query: RunQuery, found: list[str]) -> None:
    store.append(
        _joined(
            run("new", start=NOON + 1, actor="other", task_id="T-1"),
            run("bad", status="error", attributes='{"replay_of":"old"}'),
            run("old", start=NOON - DAY, calls=0, attributes='{"tags":["night"]}'),
        )
    )
    assert [row.run_id for row in store.runs(query)] == found


def test_an_id_is_found_by_any_prefix_that_fits_one(store: Store) -> None:
    store.append(_joined(run("abc-1"), run("abc-2"), run("abc")))

    assert store.resolve("abc-1") == "abc-1"
    assert store.resolve("abc") == "abc"
    assert store.resolve("abc-2"[:5]) == "abc-2"


def test_a_prefix_that_fits_several_names_them(store: Store) -> None:
    store.append(_joined(run("abc-1"), run("abc-2"), run("x")))

    with pytest.raises(RunNotFound) as caught:
        store.resolve("ab")

    assert caught.value.candidates == ("abc-1", "abc-2")
    assert "ambiguous" in str(caught.value)


def test_an_unknown_id_names_the_closest(store: Store) -> None:
    store.append(_joined(run("run-41"), run("other")))

    with pytest.raises(RunNotFound) as caught:
        store.resolve("run-14")

    assert caught.value.candidates[0] == "run-41"
    assert "tracekit runs --store" in str(caught.value)


def test_asking_for_the_rows_of_an_unknown_run_is_an_error(store: Store) -> None:
    store.append(run("r"))
    with pytest.raises(RunNotFound):
        store.events("s")
    with pytest.raises(RunNotFound):
        store.trajectory("s")


def test_known_runs_are_those_among_the_asked(store: Store) -> None:
    store.append(_joined(run("a"), run("b")))
    assert store.known_runs(["a", "x"]) == {"a"}


def test_a_trajectory_is_built_with_its_values(store: Store) -> None:
    store.append(run("r"))

    trajectory = store.trajectory("r")

    assert [(call.tool, call.arguments, call.observation.value) for call in trajectory.calls] == [
        ("search", {"query": "r 0"}, "answer 0"),
        ("search", {"query": "r 1"}, "answer 1"),
    ]


def test_one_run_is_found_among_many_row_groups(store: Store) -> None:
    many = [run(f"run-{number:05}", calls=7) for number in range(3000)]
    random.Random(1).shuffle(many)
    store.append(Batch(tuple(event for batch in many for event in batch.events)))

    assert [row.run_id for row in store.events("run-01234")] == ["run-01234"] * 8
    assert store.sql("SELECT count(*) FROM events").rows == ((24_000,),)


def test_another_process_sees_what_was_appended(store: Store) -> None:
    reader = open_store(store.path)
    assert reader.runs() == []

    store.append(run("r"))

    assert [row.run_id for row in reader.runs()] == ["r"]

"""Audited systems: no write is made that could not be recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import tracekit
from tracekit import configuration
from tracekit.cli import main
from tracekit.errors import CallRefused, RedactionKeyError, UsageError
from tracekit.events import Blob
from tracekit.journal import Journal
from tracekit.keeping import Keeper, Kept
from tracekit.store import open_store

done: list[str] = []


@tracekit.tool(effect="write")
def pay(to: str) -> str:
    done.append(to)
    return "paid"


@tracekit.tool
def undeclared(to: str) -> None:
    done.append(to)


@tracekit.tool(effect="write")
async def pay_later(to: str) -> None:
    done.append(to)


@tracekit.tool(effect="write")
def pay_each(to: str) -> Iterator[str]:
    done.append(to)
    yield to


@tracekit.tool(effect="read")
def look(n: int) -> int:
    return n


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    done.clear()
    for name in ("_recorder", "_settings", "_unusable"):
        monkeypatch.setattr(configuration, name, None)
    monkeypatch.setattr(configuration, "_on_loss", "record")
    monkeypatch.setattr(configuration, "_untried", {})
    yield
    if configuration._recorder is not None:
        configuration._recorder.sink.close()


def _unwritable(store: Path) -> Path:
    """A file stands where the journal's folder would be."""
    store.mkdir()
    (store / "journal").write_text("")
    return store


def _writable(store: Path) -> None:
    (store / "journal").unlink()


def test_writes_are_refused_while_nothing_can_be_written_and_reads_go_on(tmp_path: Path) -> None:
    store = _unwritable(tmp_path / "s")
    tracekit.configure(store=store, on_loss="refuse_writes")
    with tracekit.run(run_id="r"):
        with pytest.raises(CallRefused, match=r"pay was refused by on_loss='refuse_writes'"):
            pay("ann")
        with pytest.raises(CallRefused):
            undeclared("ann")
        with pytest.raises(CallRefused):
            asyncio.run(pay_later("ann"))
        with pytest.raises(CallRefused):
            list(pay_each("ann"))
        assert look(1) == 1
        assert done == []
        _writable(store)
        assert pay("bob") == "paid"
        assert done == ["bob"]
    rows = open_store(store).events("r")
    assert [(row.actor, row.status) for row in rows if row.event_type == "tool_call"] == [
        ("pay", "ok")
    ]
    (lost,) = [row for row in rows if row.error_type == "events_lost"]
    assert lost.error_message is not None
    assert lost.error_message.startswith("11 events lost: ")
    told = CliRunner().invoke(main, ["doctor", "--store", str(store)])
    assert f"run r: {lost.error_message}" in told.output


def test_a_write_that_was_let_through_when_writing_had_failed_before_is_whole(
    tmp_path: Path,
) -> None:
    store = tmp_path / "s"
    tracekit.configure(store=store, on_loss="refuse_writes")
    with tracekit.run(run_id="r"):
        assert pay("ann") == "paid"
    (row,) = [row for row in open_store(store).events("r") if row.event_type == "tool_call"]
    assert (row.status, row.result_category) == ("ok", "ok")


def _delete_journals(store: Path) -> None:
    for path in (store / "journal").iterdir():
        path.unlink()


def test_no_write_is_made_whose_begin_went_with_a_deleted_journal(tmp_path: Path) -> None:
    store = tmp_path / "s"
    tracekit.configure(store=store, on_loss="refuse_writes")
    with tracekit.run(run_id="r"):
        for number in range(20):
            if number % 4 == 3:
                _delete_journals(store)
            pay(f"ann {number}")
        asked = list(done)
        _delete_journals(store)
        asyncio.run(pay_later("bob"))
        list(pay_each("cem"))
    assert len(asked) == 20
    rows = open_store(store).events("r")
    assert [row.actor for row in rows if row.event_type == "tool_call"] == ["pay_later", "pay_each"]
    (lost,) = [row for row in rows if row.error_type == "events_lost"]
    assert "somebody deleted the journal" in (lost.error_message or "")


def test_a_write_is_refused_whose_begin_is_deleted_before_its_body_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "s"
    tracekit.configure(store=store, on_loss="refuse_writes")
    append = Journal.append

    def deleted_at_once(journal: Journal, line: bytes, at_ns: int, blobs: Sequence[Blob]) -> None:
        append(journal, line, at_ns, blobs)
        if line.startswith(b'{"fact":"tool_call.begun"'):
            _delete_journals(store)

    with tracekit.run(run_id="r"):
        pay("ann")
        with monkeypatch.context() as patched:
            patched.setattr(Journal, "append", deleted_at_once)
            with pytest.raises(CallRefused, match="nothing can be recorded just now"):
                pay("bob")
        pay("cem")
    assert done == ["ann", "cem"]


def test_a_write_is_refused_by_name_whose_arguments_could_not_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Kept:
        raise ValueError("ann")

    tracekit.configure(store=tmp_path / "s", on_loss="refuse_writes")
    with tracekit.run(run_id="r"):
        with monkeypatch.context() as patched:
            patched.setattr(Keeper, "keep", broken)
            with pytest.raises(CallRefused, match="its arguments could not be recorded"):
                pay("ann")
        assert pay("bob") == "paid"
    assert done == ["bob"]
    rows = open_store(tmp_path / "s").events("r")
    call, _ = [row for row in rows if row.event_type == "tool_call"]
    assert (call.actor, call.argument_state) == ("pay", "truncated")
    assert (call.policy_decision, call.policy_id) == ("deny", "on_loss='refuse_writes'")


def test_by_default_writes_are_made_and_what_is_lost_is_counted(tmp_path: Path) -> None:
    store = _unwritable(tmp_path / "s")
    tracekit.configure(store=store)
    with tracekit.run(run_id="r"):
        assert pay("ann") == "paid"
        _writable(store)
    (lost,) = [row for row in open_store(store).events("r") if row.error_type == "events_lost"]
    assert (lost.error_message or "").startswith("3 events lost: ")
    assert done == ["ann"]


def test_without_a_usable_key_writes_are_refused_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEKIT_REDACTION_KEY", "no key")
    with pytest.raises(RedactionKeyError):
        tracekit.configure(store=tmp_path / "s", on_loss="refuse_writes")
    with pytest.raises(CallRefused):
        pay("ann")
    assert look(1) == 1
    assert done == []


def test_a_misspelt_choice_is_refused(tmp_path: Path) -> None:
    wrong: Any = "refuse"
    with pytest.raises(UsageError, match="on_loss='refuse' is not known"):
        tracekit.configure(store=tmp_path / "s", on_loss=wrong)

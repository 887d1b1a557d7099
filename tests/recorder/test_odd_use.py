"""What a program gives by mistake loses no run, and what would do harm is refused at once."""

from __future__ import annotations

import contextvars
import logging
import re
import uuid
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import tracekit
from tests.recorder.record_kit import recording
from tracekit import configuration, interruption
from tracekit.canonical import parse_json
from tracekit.configuration import recorder, recording_to
from tracekit.errors import UsageError
from tracekit.recorder import Recorder
from tracekit.redact import KeyedTagger, Redactor, Rules
from tracekit.sink import MemorySink


@pytest.mark.parametrize("run_id", [uuid.UUID(int=7), 7])
def test_a_run_id_that_is_no_text_is_taken_as_its_text(run_id: Any) -> None:
    with recording() as recorded, tracekit.run(run_id=run_id):
        pass
    assert recorded.run_row().run_id == str(run_id)


@pytest.mark.parametrize(("tags", "kept"), [("abc", ("abc",)), (5, ("5",)), ([1, "b"], ("1", "b"))])
def test_tags_are_texts_and_a_text_is_one_tag(tags: Any, kept: tuple[str, ...]) -> None:
    with recording() as recorded, tracekit.run(tags=tags):
        pass
    assert recorded.run_row().tags == kept


@pytest.mark.parametrize("name", [5, "\ud800"])
def test_a_name_that_cannot_be_written_is_made_one_that_can(name: Any) -> None:
    step = tracekit.step(name=name)(lambda: 1)
    tool = tracekit.tool(effect="read", name=name)(lambda: 2)
    with recording() as recorded, tracekit.run():
        assert (step(), tool()) == (1, 2)
    expected = "5" if name == 5 else "\ufffd"
    assert [row.actor for row in recorded.rows() if row.event_type != "run"] == [expected] * 2


class Odd(str):
    """A text that cannot be printed or compared."""

    def __str__(self) -> str:
        raise SystemExit(3)

    def __eq__(self, _other: object) -> bool:
        raise SystemExit(3)

    __hash__ = str.__hash__


class Unread(dict[str, str]):
    """Cannot be read."""

    def items(self) -> Any:
        raise SystemExit(3)

    __iter__ = items


@pytest.mark.parametrize(
    ("versions", "kept"),
    [
        (["a"], {}),
        (5, {}),
        ("v2", {}),
        (Unread(a="b"), {}),
        ({1: 2}, {"1": "2"}),
        ({"a": Odd("b")}, {"a": "<Odd that cannot be printed>"}),
    ],
)
def test_odd_versions_of_a_run_are_told_of_and_end_nothing(
    versions: Any, kept: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    with (
        mock.patch.object(interruption, "_warned", set()),
        recording() as recorded,
        tracekit.run(versions=versions),
    ):
        pass
    assert parse_json(recorded.run_row().versions) == {"code": "1", **kept}
    assert recorded.recorder.lost == 0
    named = "Unread" if isinstance(versions, Unread) else type(versions).__name__
    told = f"tracekit: versions of a run are a dict of texts and no {named}"
    assert [said.getMessage()[: len(told)] for said in caplog.records] == ([] if kept else [told])


@pytest.mark.parametrize(
    "given", [{"tags": Unread(a="b")}, {"name": None}, {"name": Odd("a")}, {"run_id": Odd("a")}]
)
def test_odd_names_of_a_run_end_nothing(given: dict[str, Any]) -> None:
    with recording() as recorded, tracekit.run(**given):
        pass
    assert [row.event_type for row in recorded.rows()] == ["run"]
    assert recorded.recorder.lost == 0


def test_with_recording_off_nothing_that_a_run_is_given_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[str] = []

    class Watched(dict[str, str]):
        def items(self) -> Any:
            looked.append("versions")
            return super().items()

        def __iter__(self) -> Iterator[str]:
            looked.append("tags")
            return super().__iter__()

    monkeypatch.setattr(configuration, "off", True)
    with tracekit.run(versions=Watched(a="b"), tags=Watched(a="b")):  # type: ignore[arg-type]  # odd
        pass
    assert looked == []


@pytest.mark.parametrize(
    ("decision", "shown"), [("bogus", "bogus"), (5, "5"), ("x" * 99, "x" * 40)]
)
def test_a_decision_that_is_none_is_counted_and_told_of_and_spoils_no_journal(
    decision: Any, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    with recording() as recorded, tracekit.run(name="desk"):
        tracekit.policy(decision)
    what = (
        f"policy({shown!r}) in desk is no decision:"
        " give allow, deny, modify, ask, escalate, terminate"
    )
    (loss,) = [row for row in recorded.rows() if row.actor == "loss"]
    assert loss.error_message == f"1 event lost: {what}"
    assert [said.getMessage() for said in caplog.records] == [
        f"tracekit could not record an event: {what}"
    ]


def test_a_decision_that_is_none_is_told_of_outside_any_run_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with recording(), mock.patch.object(interruption, "_warned", set()):
        tracekit.policy("mail alice@example.com")  # type: ignore[arg-type]  # a mistake
    (said,) = (one.getMessage() for one in caplog.records)
    assert said.endswith(
        " outside any run is no decision: give allow, deny, modify, ask, escalate, terminate"
    )
    assert "alice" not in said


def test_a_decision_of_an_enumeration_of_texts_is_one() -> None:
    class Decision(StrEnum):
        DENY = "deny"

    with recording() as recorded, tracekit.run():
        tracekit.policy(Decision.DENY)  # type: ignore[arg-type]  # a text all the same
    assert [row.policy_decision for row in recorded.rows("policy")] == ["deny"]


@pytest.mark.parametrize(
    "odd",
    [
        lambda: tracekit.evidence("doc-1"),
        lambda: tracekit.policy("bogus"),  # type: ignore[arg-type]  # a mistake
        lambda: tracekit.run(run_id="bad id").__enter__(),
        lambda: tracekit.run(versions=["a"]).__enter__(),  # type: ignore[arg-type]  # a mistake
    ],
    ids=["evidence outside any run", "a decision", "a run id", "versions"],
)
def test_what_a_log_handler_raises_stays_there(odd: Callable[[], object]) -> None:
    class Raising(logging.Handler):
        def handle(self, _record: logging.LogRecord) -> bool:
            seen.append(1)
            raise SystemExit(3)

    seen: list[int] = []
    handler, log = Raising(), logging.getLogger("tracekit")
    log.addHandler(handler)
    try:
        with recording(), mock.patch.object(interruption, "_warned", set()):
            contextvars.copy_context().run(odd)
    finally:
        log.removeHandler(handler)
    assert seen == [1]


def test_evidence_that_is_no_text_is_kept_as_one() -> None:
    with recording() as recorded, tracekit.run():
        tracekit.evidence(None, 3, Odd("a"))  # type: ignore[arg-type]  # a mistake
    assert recorded.rows()[0].evidence_ids == ("None", "3", "<Odd that cannot be printed>")


@pytest.mark.parametrize(
    "given",
    [
        {"redact": "nickname"},
        {"redact": re.compile("a")},
        {"versions": "v2"},
        {"sample": 0.5},
        {"enabled": "false"},
        {"limits": 5},
        {"spans": 1},
        {"service": 5},
    ],
    ids=lambda given: next(iter(given)),
)
def test_an_argument_that_would_be_taken_for_another_is_refused(
    given: dict[str, Any], tmp_path: Path
) -> None:
    name = next(iter(given))
    with pytest.raises(UsageError, match=f"^{name}="):
        tracekit.configure(store=tmp_path / "s", **given)


def test_versions_are_kept_as_texts(tmp_path: Path) -> None:
    tracekit.configure(store=tmp_path / "s", versions={"prompt": 3})  # type: ignore[dict-item]  # a mistake
    assert recorder().versions == {"prompt": "3"}


def test_a_rule_may_call_what_is_decorated() -> None:
    @tracekit.tool(effect="read")
    def lookup(text: str) -> str:
        return text.replace("amber", "-----")

    own = Recorder(MemorySink(), Redactor(Rules.from_user([lookup]), KeyedTagger(b"k" * 20)))
    with recording_to(own), tracekit.run():
        assert lookup("code amber") == "code -----"
    assert [fact.fact for fact in own.sink.facts].count("tool_call.begun") == 1  # type: ignore[attr-defined]  # in memory
    kept = b"".join(blob.data for blob in own.sink.blobs.values())  # type: ignore[attr-defined]  # in memory
    assert b"amber" not in kept


def test_a_rule_that_exits_takes_the_value_and_not_the_program() -> None:
    def rule(_text: str) -> str:
        raise SystemExit(3)

    own = Recorder(MemorySink(), Redactor(Rules.from_user([rule]), KeyedTagger(b"k" * 20)))
    with recording_to(own), tracekit.run():
        assert tracekit.tool(effect="read", name="t")(lambda: "a text")() == "a text"
    kept = b"".join(blob.data for blob in own.sink.blobs.values())  # type: ignore[attr-defined]  # in memory
    assert b"a text" not in kept

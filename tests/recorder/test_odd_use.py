"""What a program gives by mistake loses no run, and what would do harm is refused at once."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import Any

import pytest

import tracekit
from tests.recorder.record_kit import recording
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


def test_a_decision_that_is_none_is_counted_and_spoils_no_journal() -> None:
    with recording() as recorded, tracekit.run():
        tracekit.policy("bogus")  # type: ignore[arg-type]  # a mistake
    assert [row.actor for row in recorded.rows() if row.actor == "loss"] == ["loss"]


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

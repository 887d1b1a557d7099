"""Runs that name no task are paired by their inputs, in which numbers are compared as numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from replay.comparing import compare_many
from replay.comparing.references import folder_of
from tests.diff.many_runs import kept, made
from tests.store.made import value
from tracekit.canonical import encode
from tracekit.cli import main
from tracekit.store import Batch


def asked(run_id: str, given: Any, **more: Any) -> Batch:
    """A run of no task that was asked ``given``, as a recorder keeps it."""
    encoded = encode({"amount": given})
    blob, name = value(encoded.value)
    batch = made(
        run_id,
        argument_digest=name,
        argument_blob=blob.digest,
        argument_state="captured",
        argument_types=json.dumps(encoded.types),
        **more,
    )
    return Batch(batch.events, (*batch.blobs, blob))


def by_hand(run_id: str, given: Any) -> Batch:
    """A run that was opened by hand: its agent was asked, and it is another row."""
    batch = asked(run_id, given)
    root = batch.events[0]
    agent = replace(root, event_id=f"{run_id}-agent", event_type="agent", span_id="c" * 16, seq=9)
    return Batch((*made(run_id).events, agent), batch.blobs)


@pytest.mark.parametrize(
    ("ours", "theirs", "paired"),
    [
        (42, Decimal("42.0"), True),
        (42.0, Decimal(42), True),
        (Decimal("0.10"), Decimal("0.1"), True),
        (10**20, 1e20, True),
        (Decimal(42), "42", False),
        (42, "42", False),
        (10**20, str(10**20), False),
        (Decimal(42), Decimal(43), False),
        ("a\ud800", "a\ufffd", False),
        ((1, 2), [1, 2], True),
    ],
)
def test_equal_numbers_are_one_input_and_no_text_is(
    ours: Any, theirs: Any, paired: bool, tmp_path: Path
) -> None:
    store = kept(tmp_path / "traces", asked("old", ours), asked("new", theirs))
    found = compare_many("old", "new", store=store)
    assert bool(found.outcomes) == paired
    assert found.same == paired


def test_a_run_opened_by_hand_was_asked_what_its_agent_was(tmp_path: Path) -> None:
    store = kept(tmp_path / "traces", by_hand("old", Decimal(42)), asked("new", 42))
    assert compare_many("old", "new", store=store).same
    assert compare_many("new", "old", store=store).same


def test_an_input_that_is_gone_is_known_by_its_digest(tmp_path: Path) -> None:
    one, two = asked("old", Decimal(42)), asked("new", Decimal(42))
    rest = [blob for blob in one.blobs if blob.digest != one.events[0].argument_blob]
    store = kept(tmp_path / "traces", Batch(one.events, tuple(rest)), Batch(two.events, ()))
    assert len(compare_many("old", "new", store=store).outcomes) == 1


def test_an_accepted_trajectory_is_found_by_the_number_it_was_asked(tmp_path: Path) -> None:
    store = kept(
        tmp_path / "traces",
        asked("old", 42),
        asked("good", Decimal(42), arguments=("a", "c")),
        asked("new", 42.0, arguments=("a", "c")),
        asked("text", "42", arguments=("a", "c")),
    )
    accept = ["diff", "text", "good", "--accept", "--store", str(store.path)]
    assert CliRunner().invoke(main, accept).exit_code == 0
    assert len(list(folder_of(store.path).iterdir())) == 1
    [one] = compare_many("old", "new", store=store).outcomes
    assert (one.verdict, one.nearest) == ("same", "good")
    [alone] = compare_many("old", "text", store=store).candidate_only
    assert alone.run.run_id == "text"

"""The same replay several times over, and what still varies."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

import tracekit
from fixtures.agents import restless
from replay import ReplayOptions
from replay.repeats import FORMAT, RepeatResult, repeat_run, summarise_repeats
from tracekit.errors import UsageError

RUN = "restless-run"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("restless")
    tracekit.configure(store=folder / "store")
    with tracekit.run(run_id=RUN):
        restless.steady("again?")
    tracekit.configure(store=folder / "elsewhere")
    return folder / "store"


def repeated(store: Path, planner: Any, times: int = 2, **options: Any) -> RepeatResult:
    return repeat_run(
        RUN,
        planner=planner,
        times=times,
        store=store,
        options=ReplayOptions(isolation="guard", **options),
    )


def test_a_planner_that_only_asks_for_time_and_chance_does_not_vary(store: Path) -> None:
    result = repeated(store, restless.restless)

    assert (result.same, result.varies) == (True, None)
    assert result.trajectories == ((1, 2),)
    assert result.verdict.kind == "inconclusive"  # its calls are in no recording
    assert "2 replays of restless-run: one trajectory" in summarise_repeats(result)


def test_with_the_machines_own_conditions_it_does_and_the_argument_is_named(store: Path) -> None:
    result = repeated(store, restless.restless, conditions="real")

    assert not result.same
    assert result.varies is not None
    assert (result.varies.step, result.varies.name) == (3, "note")  # the clock
    assert result.varies.fields[0].pointer.startswith("/value/")
    told = summarise_repeats(result)
    assert "because the planner varies by itself: step 3 note /value/0: " in told
    assert " in replay 1, " in told


def test_what_varies_is_no_pass_and_says_so_in_json(store: Path) -> None:
    numbers = itertools.count()

    def moody(question: str) -> str:
        restless.steady(question)
        return f"mood {next(numbers) % 2}"

    result = repeated(store, moody, times=4)

    assert {r.verdict.kind for r in result.results} == {"pass"}
    assert result.trajectories == ((1, 3), (2, 4))
    assert result.verdict.kind == "inconclusive"
    told = result.as_dict()
    assert (told["format"], told["repeat"], told["same"]) == (FORMAT, 4, False)
    assert told["trajectories"] == [[1, 3], [2, 4]]
    assert told["varies"]["fields"] == [
        {"pointer": "", "kind": "changed", "left": "mood 0", "right": "mood 1"}
    ]
    assert 'the answer (whole): "mood 0" in replay 1' in told["reasons"][0]


def test_another_tool_is_named_beside_the_first(store: Path) -> None:
    turn = itertools.count()

    def fickle(question: str) -> str:
        if next(turn) % 2:
            restless.other("x")
        return restless.steady(question)

    result = repeated(store, fickle)
    assert str(result.varies) == "step 1: note, and other"


BY_PLACE = """
import threading
import tracekit

class Thing:
    def __init__(self, number):
        self.number = number

KNOWN = {Thing(number) for number in range(8)}

@tracekit.tool(effect="read")
def note(what):
    return what

@tracekit.agent
def at_import(question):
    note([thing.number for thing in KNOWN])

@tracekit.agent
def in_run(question):
    note([thing.number for thing in {Thing(number) for number in range(8)}])

@tracekit.agent
def by_name(question):
    note(list({str(number) for number in range(8)}))

@tracekit.agent
def racing(question):
    order = []
    begin = threading.Barrier(4)

    def count(number):
        begin.wait()
        for _ in range(300):  # longer than a thread may run before others have their turn
            order.append(number)
            sum(range(2000))

    threads = [threading.Thread(target=count, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    note(order)
"""


@pytest.mark.parametrize(
    ("planner", "same"),
    [("at_import", False), ("in_run", False), ("racing", False), ("by_name", True)],
)
def test_what_goes_by_addresses_or_by_racing_threads_is_named(
    store: Path, tmp_path: Path, planner: str, same: bool
) -> None:
    (tmp_path / "by_place.py").write_text(BY_PLACE, "utf-8")
    result = repeated(store, f"by_place:{planner}", times=4, path=(str(tmp_path),))

    assert result.same is same
    told = summarise_repeats(result)
    assert ("the order of a set whose members go by their addresses" in told) is not same
    assert bool(result.as_dict()["left_to_chance"]) is not same
    if not same:
        assert result.varies is not None
        assert (result.varies.step, result.varies.name) == (1, "note")
        assert result.varies.fields[0].pointer.startswith("/what/")
    assert len({r.recorded.run_id for r in result.results}) == 1


def test_without_fixed_conditions_nothing_is_said_to_be_the_same(store: Path) -> None:
    result = repeated(store, restless.restless, conditions="real")
    assert result.as_dict()["left_to_chance"] is None
    assert "were the same each time" not in summarise_repeats(result)


def test_once_is_no_repetition(store: Path) -> None:
    with pytest.raises(UsageError, match="nothing to compare"):
        repeated(store, restless.steady, times=1)

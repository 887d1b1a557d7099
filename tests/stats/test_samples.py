"""What counts as a sample: not what only repeats another run."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from replay.stats import Sample, effective
from tests.oracles.runs import call, outcome
from tracekit.events import Rung
from tracekit.trajectory import ModelCall, Observation, Trajectory


def run(name: str, *, tool: str = "search", replay_of: str | None = None) -> Trajectory:
    made = outcome(call(tool, "found")).trajectory
    assert made is not None
    return replace(made, run_id=name, replay_of=replay_of)


def asked(
    one: Trajectory, *, reply: str | None = None, seed: int | None = None, rung: Rung | None = None
) -> Trajectory:
    value: Any = {"id": reply, "choices": []} if reply else {"choices": []}
    model = ModelCall(
        "m", "m", {"seed": seed} if seed is not None else {}, "sha256:1",
        Observation(value, "captured"), rung=rung,
    )  # fmt: skip
    return replace(one, model_calls=(model,))


def kept(*runs: Trajectory) -> tuple[str, ...]:
    found = effective(Sample.of(one) for one in runs)
    assert found.n + len(found.repeats) == found.runs == len(runs)
    return found.kept


def test_runs_of_their_own_count_each_even_where_they_did_the_same() -> None:
    assert kept(run("a"), run("b"), run("c")) == ("a", "b", "c")


def test_replays_that_did_as_their_record_count_once_with_it() -> None:
    found = effective(
        Sample.of(one) for one in (run("a"), run("b", replay_of="a"), run("c", replay_of="a"))
    )
    assert (found.kept, dict(found.repeats)) == (("a",), {"b": "a", "c": "a"})


def test_replays_count_once_also_where_their_record_is_not_among_the_runs() -> None:
    assert kept(run("b", replay_of="a"), run("c", replay_of="a")) == ("b",)
    assert kept(run("b", replay_of="a"), run("c", replay_of="z")) == ("b", "c")


def test_a_replay_of_a_replay_belongs_to_the_first_record() -> None:
    assert kept(run("a"), run("b", replay_of="a"), run("c", replay_of="b")) == ("a",)


def test_a_replay_that_went_another_way_counts_and_its_copies_do_not() -> None:
    other, again = (run(name, tool="read", replay_of="a") for name in "bc")
    assert kept(run("a"), other, again) == ("a", "b")


def test_a_replay_that_asked_the_model_anew_is_a_sample() -> None:
    anew = [asked(run(name, replay_of="a"), rung="live") for name in "bc"]
    assert kept(run("a"), *anew) == ("a", "b", "c")


def test_the_very_same_replies_came_from_a_cache() -> None:
    cached = [asked(run(name), reply="chatcmpl-1") for name in "ab"]
    assert kept(*cached, asked(run("c"), reply="chatcmpl-2")) == ("a", "c")
    assert kept(asked(run("a")), asked(run("b"))) == ("a", "b")


def test_an_id_that_a_server_gives_to_every_reply_tells_nothing() -> None:
    once = [asked(run(name), reply="chatcmpl-0") for name in "ab"]
    often = [replace(one, model_calls=one.model_calls * 2) for one in once]
    assert kept(*once) == ("a",)
    assert kept(*often) == ("a", "b")


def test_the_same_prompts_with_the_same_seed_count_once() -> None:
    seeded = [asked(run(name), seed=7) for name in "ab"]
    assert kept(*seeded, asked(run("c"), seed=8)) == ("a", "c")
    assert kept(seeded[0], asked(run("b", tool="read"), seed=7)) == ("a", "b")


def test_records_that_go_in_circles_come_to_an_end() -> None:
    assert kept(run("a", replay_of="b"), run("b", replay_of="a")) in (("a",), ("a", "b"))


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [("replay, replay.stats", ("scipy", "numpy")), ("replay.metrics", ("scipy",))],
)
def test_what_is_heavy_is_loaded_where_a_number_is_asked_for(
    modules: str, heavy: tuple[str, ...]
) -> None:
    code = f"import sys, {modules}\nsys.exit(any(name in sys.modules for name in {heavy!r}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

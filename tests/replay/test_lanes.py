"""Three lanes: a candidate is judged beside the old planner, and a replay must be able to tell."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import tracekit
from replay import ReplayOptions, ReplayResult, replay_run
from replay.matching import Policies
from replay.selftest import changed_observation, changed_observations, replace_observation
from replay.summary import summarise
from tests.replay.tape_kit import call, failed, record
from tracekit.assembly import trajectory_digest
from tracekit.cli import main
from tracekit.errors import UsageError
from tracekit.store import open_store
from tracekit.trajectory import Call

AGENTS = """
import os, itertools
import tracekit

@tracekit.tool(effect="read")
def stock(item):
    return {"item": item, "left": 3}

@tracekit.tool(effect="read")
def price(item):
    return 4.5

@tracekit.tool(effect="write")
def order(item, amount):
    return "ordered"

@tracekit.agent
def old(item):
    left = stock(item)["left"]
    cost = price(item)
    order(item, 10 - left)
    return f"{10 - left} for {cost * (10 - left)}"

@tracekit.agent
def new(item):
    left = stock(item)["left"]
    cost = price(item)
    order(item, 10 - left)
    return f"ordered {10 - left}"

@tracekit.agent
def orders_more(item):
    stock(item)
    try:
        order(item, 100)
    except tracekit.TracekitError:
        pass
    return "done"

@tracekit.agent
def edited_since(item):
    left = stock(item)["left"]
    cost = price(item)
    order(item, 12 - left)
    return "done"

@tracekit.agent
def deaf(item):
    stock(item)
    price(item)
    order(item, 7)
    return "7 for 31.5"

@tracekit.agent
def only_a_threshold(item):
    found = stock(item)
    price(item)
    if found["left"] > 50:
        return "enough of them"
    order(item, 7)
    return "ordered"

@tracekit.agent
def only_below_zero(item):
    left = stock(item)["left"]
    cost = price(item)
    order(item, 7)
    return "given away" if cost < 0 else "ordered"

@tracekit.agent
def silent(item):
    return "nothing to do"

counting = itertools.count()

@tracekit.agent
def deaf_to_the_first(item):
    stock(item)
    cost = price(item)
    order(item, 7)
    return f"7 for {cost * 7}"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one run of each agent that is taken as recorded, and their module."""
    made = tmp_path_factory.mktemp("lanes")
    (made / "shop.py").write_text(AGENTS, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(made))
        import shop  # type: ignore[import-not-found]  # written above

        tracekit.configure(store=made / "store")
        for name in ("old", "deaf"):
            with tracekit.run(run_id=f"run-{name}"):
                getattr(shop, name)("lamp")
        tracekit.configure(store=made / "elsewhere")
        del sys.modules["shop"]  # others have a shop, too
    return made


Replay = Callable[..., ReplayResult]


@pytest.fixture
def replay(folder: Path) -> Replay:
    def replayed(
        planner: str, baseline: str | None = "old", run: str = "run-old", **options: object
    ) -> ReplayResult:
        chosen = ReplayOptions(isolation="guard", path=(str(folder),), **options)  # type: ignore[arg-type]  # as each test spells them
        return replay_run(
            run,
            planner=f"shop:{planner}",
            store=folder / "store",
            options=chosen,
            baseline=baseline and f"shop:{baseline}",
        )

    return replayed


def test_beside_a_sound_baseline_the_candidate_is_judged(replay: Replay, folder: Path) -> None:
    result = replay("new")

    assert result.verdict.kind == "pass"
    assert result.baseline is not None
    assert (result.baseline.planner, result.baseline.sound) == ("shop:old", True)
    assert result.self_test is not None
    assert (result.self_test.lane, result.self_test.outcome) == ("baseline", "reacts")
    assert result.self_test.changed == ("stock (decision 1)",)
    lane = open_store(folder / "store").trajectory(result.baseline.run_id)
    assert trajectory_digest(lane) == trajectory_digest(result.recorded)


def test_what_the_candidate_does_wrong_beside_a_sound_baseline_is_its_own(replay: Replay) -> None:
    result = replay("orders_more")

    assert result.verdict.kind == "fail"
    assert "order" in result.verdict.reasons[0]


def test_where_the_old_planner_does_otherwise_the_replay_is_unsound(replay: Replay) -> None:
    result = replay("orders_more", "edited_since")

    assert result.baseline is not None
    assert result.baseline.unsound_at == 3
    assert result.verdict.kind == "inconclusive"
    (reason,) = result.verdict.reasons
    assert reason.startswith("replay unsound at step 3: shop:edited_since on its own record: ")
    assert "amount" in reason
    assert [finding.kind for finding in result.findings] == ["write refused"]
    assert result.self_test is None


def test_the_text_and_the_json_tell_of_all_lanes(replay: Replay) -> None:
    sound, unsound = replay("new"), replay("new", "edited_since")

    assert "  baseline   shop:old does what was observed" in summarise(sound)
    assert "  self-test  baseline reacts: what follows stock (decision 1)" in summarise(sound)
    assert "INCONCLUSIVE" in summarise(unsound)
    assert "  baseline   shop:edited_since differs at step 3: " in summarise(unsound)
    assert "self-test" not in summarise(unsound)
    told = unsound.as_dict()
    assert (told["baseline"]["sound"], told["baseline"]["unsound_at"]) == (False, 3)
    assert told["self_test"] is None
    assert sound.as_dict()["self_test"]["outcome"] == "reacts"


def test_a_baseline_is_given_on_the_command_line(folder: Path) -> None:
    command = ["replay", "--run-id", "run-old", "--store", str(folder / "store")]
    command += ["--planner", "shop:new", "--baseline", "shop:edited_since", "--self-test"]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        done = CliRunner().invoke(main, [*command, "--isolation", "guard", "--json"])
    assert done.exit_code == 2
    assert json.loads(done.stdout)["baseline"]["planner"] == "shop:edited_since"


def test_a_lane_in_which_nothing_follows_from_what_is_observed_is_inert(replay: Replay) -> None:
    result = replay("deaf", "deaf", "run-deaf")

    assert result.baseline is not None
    assert result.baseline.sound
    assert result.self_test is not None
    assert result.self_test.outcome == "inert"
    assert result.self_test.changed == (
        "stock (decision 1)", "price (decision 2)", "order (decision 3)"
    )  # fmt: skip
    assert result.verdict.kind == "inconclusive"
    told = result.verdict.reasons[0]
    assert told.startswith("replay inert: nothing changed with the observation of stock (decision")
    assert told.endswith("under 14 mutations")


@pytest.mark.parametrize("planner", ["only_a_threshold", "only_below_zero"])
def test_a_planner_that_looks_only_for_what_is_far_away_is_not_called_inert(
    replay: Replay, planner: str
) -> None:
    result = replay(planner, None, self_test=True)
    assert result.self_test is not None
    assert result.self_test.outcome == "reacts"


def test_numbers_that_are_compared_with_each_other_change_places() -> None:
    made = call("read", "read", {"total": 42.0, "limit": 50.0, "open": True})
    values = [seen.value for seen in changed_observations(made)]
    assert values[1:] == [
        {"total": 1_000_000.0, "limit": 0.0, "open": True},
        {"total": 0.0, "limit": 1_000_000.0, "open": False},
        {"total": -42.0, "limit": -50.0, "open": True},
        {"total": 0.0, "limit": 0.0, "open": False},
        None,
    ]


def test_one_observation_that_is_ignored_is_no_sign_yet(replay: Replay) -> None:
    result = replay("deaf_to_the_first", None, self_test=True)

    assert result.self_test is not None
    assert (result.self_test.lane, result.self_test.outcome) == ("candidate", "reacts")
    assert result.self_test.changed == ("stock (decision 1)", "price (decision 2)")
    assert result.verdict.kind == "pass"


def test_without_a_baseline_the_candidate_is_put_to_the_test_where_that_is_asked_for(
    replay: Replay,
) -> None:
    assert replay("deaf", None).verdict.kind == "pass"
    result = replay("deaf", None, self_test=True)
    assert (result.verdict.kind, result.self_test and result.self_test.lane) == (
        "inconclusive",
        "candidate",
    )


def test_an_inert_lane_takes_no_finding_away(replay: Replay) -> None:
    result = replay("orders_more", None, self_test=True)

    assert result.self_test is not None
    assert result.self_test.outcome == "inert"
    assert result.verdict.kind == "fail"


def test_a_candidate_that_asks_for_nothing_is_not_evaluated_whatever_the_baseline(
    replay: Replay,
) -> None:
    assert replay("silent").verdict.kind == "not evaluated"
    assert replay("silent", None, self_test=True).verdict.kind == "not evaluated"
    assert replay("silent", "edited_since").verdict.kind == "not evaluated"


def test_a_self_test_with_a_live_model_needs_a_baseline() -> None:
    with pytest.raises(UsageError, match="may not"):
        ReplayOptions(model="live", self_test=True)


def test_a_self_test_makes_no_tool_really_run_again() -> None:
    with pytest.raises(UsageError, match="would run again"):
        ReplayOptions(self_test=True, policies=Policies(live=frozenset({"stock"})))


def test_the_old_planner_asks_no_live_model() -> None:
    options = ReplayOptions(model="live", baseline="a:b", self_test=True).of_baseline()

    assert (options.model, options.baseline, options.self_test) == ("recorded", None, True)


@pytest.mark.parametrize(
    ("recorded", "changed"),
    [
        ("Refund A-1.", "Sfgvoe B-2."),
        (42, 43),
        (-1.5, -2.5),
        (True, False),
        (None, "changed by the self-test"),
        ([], ["changed by the self-test"]),
        ([1, 2], [2, 3, 3]),
        ({"left": 3, "of": ["z"]}, {"left": 4, "of": ["a", "a"]}),
    ],
)
def test_a_changed_observation_keeps_its_shape(recorded: object, changed: object) -> None:
    made: Call = call("read", "read", recorded)  # type: ignore[arg-type]  # JSON
    assert changed_observation(made).value == changed


def test_a_changed_error_says_something_else() -> None:
    assert changed_observation(failed("read")).error_message == "efbemjof fydffefe"


def test_only_the_named_observation_is_replaced() -> None:
    recorded = record(call("a"), [call("b"), call("c")])
    other = changed_observation(recorded.calls[1])
    changed = replace_observation(recorded, recorded.calls[1].event_id, other)
    assert [c.observation.value for c in changed.calls] == ["ok", "pl", "ok"]

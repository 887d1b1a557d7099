"""What holds for every tape and every order of asking, and what an answer costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.matching import AskedCall, Player, Policies
from replay.tape import RecordedCall, Tape
from tests.replay.tape_kit import again, asked, call, contract, player, record, value
from tracekit.events import Effect
from tracekit.trajectory import Call, Trajectory

EFFECTS: dict[str, Effect] = {"add": "pure", "look": "read", "peek": "read", "pay": "write"}
SERVED = ("exact", "normalised", "reused", "stale")


@st.composite
def recorded_calls(draw: st.DrawFn) -> list[Call]:
    keys = draw(
        st.lists(st.tuples(st.sampled_from(sorted(EFFECTS)), st.integers(0, 2)), max_size=9)
    )
    return [call(tool, EFFECTS[tool], f"{tool}/{x}/{n}", x=x) for n, (tool, x) in enumerate(keys)]


asked_calls = st.lists(
    st.builds(
        lambda tool, x: AskedCall(tool, {"x": x}, EFFECTS[tool]),
        st.sampled_from(sorted(EFFECTS)),
        st.integers(0, 3),
    ),
    max_size=12,
)


@given(recorded_calls(), asked_calls)
def test_no_observation_is_ever_given_to_another_call(
    calls: list[Call], questions: list[AskedCall]
) -> None:
    replay = player(record(*calls))
    answered_writes = []
    for question in questions:
        answer = replay.call(question)
        if answer.rung == "error":
            continue
        assert answer.rung in SERVED
        assert str(value(answer)).startswith(f"{question.tool}/{question.arguments['x']}/")
        assert answer.tainted == (answer.rung not in ("exact", "normalised"))
        if question.effect == "write":
            assert answer.rung == "exact"
            answered_writes.append(answer.recorded)
    assert len(answered_writes) == len(set(answered_writes))
    assert sum(replay.shares().values()) == len(questions)


@given(recorded_calls())
def test_a_run_replayed_on_itself_is_exact(calls: list[Call]) -> None:
    tape = record(*calls)
    replay = player(tape)
    answers = [replay.call(again(one)) for one in tape.calls]
    assert [(a.rung, a.recorded) for a in answers] == [("exact", c.event_id) for c in tape.calls]
    assert replay.unconsumed() == ()


@st.composite
def runs_asked_in_another_order(draw: st.DrawFn) -> tuple[Trajectory, list[Call]]:
    """A run of parallel calls, and the same calls shuffled within their decisions."""
    decisions = draw(
        st.lists(
            st.lists(
                st.tuples(st.sampled_from(sorted(EFFECTS)), st.integers(0, 2)),
                unique=True,
                min_size=1,
                max_size=4,
            ),
            max_size=4,
        )
    )
    run = record(
        *(
            [call(tool, EFFECTS[tool], f"{tool}/{x}/{n}", x=x) for tool, x in decision]
            for n, decision in enumerate(decisions)
        )
    )
    return run, [c for d in run.decisions for c in draw(st.permutations(d.calls))]


@given(runs_asked_in_another_order())
def test_the_order_within_a_decision_changes_no_answer(run: tuple[Trajectory, list[Call]]) -> None:
    replay = player(run[0])
    for one in run[1]:
        answer = replay.call(again(one))
        assert (answer.rung, answer.recorded, answer.tainted) == ("exact", one.event_id, False)


@given(recorded_calls(), asked_calls)
def test_one_tape_serves_any_number_of_replays_alike(
    calls: list[Call], questions: list[AskedCall]
) -> None:
    tape = Tape.of(record(*calls))
    first, second = Player(tape), Player(tape)
    assert [first.call(q) for q in questions] == [second.call(q) for q in questions]


@given(recorded_calls(), asked_calls)
def test_every_recorded_call_is_either_asked_for_or_reported(
    calls: list[Call], questions: list[AskedCall]
) -> None:
    tape = record(*calls)
    replay = player(tape)
    served = {replay.call(question).recorded for question in questions}
    missing = {left.event_id for left in replay.unconsumed()}
    never = {(c.tool, str(c.arguments)) for c in tape.calls} - {
        (q.tool, str(dict(q.arguments))) for q in questions
    }
    assert missing.isdisjoint(served)
    assert {c.event_id for c in tape.calls if (c.tool, str(c.arguments)) in never} <= missing


@pytest.mark.parametrize("effect", ["read", "write"])
def test_five_parallel_calls_of_one_tool_map_the_same_in_any_order(effect: Effect) -> None:
    tape = Tape.of(record([call("fetch", effect, f"page {n}", page=n) for n in range(5)]))
    calls = tape.trajectory.calls
    for order in permutations(range(5)):
        replay = Player(tape)
        answers = {n: replay.call(again(calls[n])) for n in order}
        assert {n: (a.rung, a.ambiguous, value(a)) for n, a in answers.items()} == {
            n: ("exact", False, f"page {n}") for n in range(5)
        }


class _Counted(tuple[RecordedCall, ...]):
    """The calls of a tape; counts how often one of them is looked at."""

    looks = 0

    def __getitem__(self, index: Any) -> Any:
        _Counted.looks += 1
        return super().__getitem__(index)

    def __iter__(self) -> Iterator[RecordedCall]:
        for item in super().__iter__():
            _Counted.looks += 1
            yield item


def _looks(calls: list[Call], questions: list[AskedCall], *, rungs: set[str]) -> int:
    tape = Tape.of(record(*calls))
    replay = Player(replace(tape, calls=_Counted(tape.calls)), Policies())
    _Counted.looks = 0
    assert {replay.call(question).rung for question in questions} == rungs
    return _Counted.looks


def test_ten_thousand_exact_answers_look_at_each_recorded_call_twice() -> None:
    spelt = contract("look", "read", "x", defaults={"window": "5m"})
    calls = [
        replace(call("look", "read", n, x=n, window="5m"), contract=spelt) for n in range(10_000)
    ]
    # Once to put it on its shelf, once for its contract, once to serve it, once to count writes.
    assert _looks(calls, [again(c) for c in calls], rungs={"exact"}) <= 5 * 10_000


def test_ten_thousand_polls_cost_no_more_than_ten_thousand_different_calls() -> None:
    calls = [call("poll", "read", n, id=1) for n in range(10_000)]
    assert _looks(calls, [again(c) for c in calls], rungs={"exact"}) <= 7 * 10_000


def test_asking_again_costs_the_same_however_much_was_recorded() -> None:
    calls = [call("poll", "read", n, id=1) for n in range(10_000)]
    questions = [asked("poll", id=1)] * 20_000
    assert _looks(calls, questions, rungs={"exact", "reused"}) <= 7 * 20_000


def test_a_miss_looks_at_a_bounded_neighbourhood_only() -> None:
    calls = [call("look", "read", n, x=n) for n in range(2_000)]
    questions = [asked("look", x=-n - 1) for n in range(50)]
    assert _looks(calls, questions, rungs={"error"}) <= 50 * 300


# --- interleavings --------------------------------------------------------------------------------

_AGENTS = ("planner", "worker", "critic")
_KINDS: tuple[tuple[str, Effect], ...] = (("look", "read"), ("pay", "write"), ("add", "pure"))


def _recorded_agents(chance: Random, *, world: str | None = None) -> list[list[Call]]:
    """Calls of up to three agents on paths of their own; many are equal.

    They touch ``world``, so that reads see writes; or each tool a resource of its own.
    """
    agents = []
    for agent in _AGENTS[: chance.randint(1, 3)]:
        made = []
        for place in range(chance.randint(1, 6)):
            tool, effect = chance.choice(_KINDS)
            x = chance.randint(0, 2)
            declared = contract(tool, effect, "x", touches=(world or tool,))
            one = call(tool, effect, f"{agent}/{tool}/{x}/{place}", x=x)
            made.append(replace(one, contract=declared, path=(agent,)))
        agents.append(made)
    return agents


def _interleaved(chance: Random, queues: list[list[Call]]) -> list[Call]:
    """Take from the queues in some order that keeps each of them."""
    left = [list(queue) for queue in queues if queue]
    taken = []
    while left:
        queue = chance.choice(left)
        taken.append(queue.pop(0))
        left = [queue for queue in left if queue]
    return taken


def _check_interleaving(seed: int) -> None:
    """Whichever agent is ahead, each gets what it saw itself, in its own order."""
    chance = Random(seed)
    agents = _recorded_agents(chance)
    run = record(*_interleaved(chance, agents))
    replay = player(run)
    own = [[c for c in run.calls if c.path == (name,)] for name in _AGENTS]
    for one in _interleaved(chance, own):
        answer = replay.call(again(one))
        assert (answer.rung, answer.recorded) == ("exact", one.event_id), seed
        assert not answer.tainted, seed


def _check_permutation(seed: int) -> None:
    """In any order, with calls left out, made again or made up, none gets another's answer."""
    chance = Random(seed)
    world = chance.choice([None, "world"])
    run = record(*_interleaved(chance, _recorded_agents(chance, world=world)))
    questions = [again(one) for one in run.calls if chance.random() < 0.9]
    questions += [again(one) for one in run.calls if chance.random() < 0.2]
    questions += [replace(q, arguments={"x": 9}) for q in questions if chance.random() < 0.1]
    chance.shuffle(questions)
    replay = player(run, unmatched={"*": "error"}, learn=chance.random() < 0.5)
    evidence = []
    for question in questions:
        answer = replay.call(question)
        if answer.rung == "error":
            continue
        assert answer.recorded is not None, seed
        _, tool, x, _ = str(value(answer)).split("/")
        assert (tool, int(x)) == (question.tool, question.arguments["x"]), seed
        if question.effect == "write":
            assert answer.rung == "exact", seed
        if answer.rung in ("exact", "normalised"):
            evidence.append(answer.recorded)
    assert len(evidence) == len(set(evidence)), seed


@pytest.mark.parametrize("check", [_check_interleaving, _check_permutation])
def test_two_hundred_orders_give_no_observation_to_another_call(check: Any) -> None:
    for seed in range(200):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("check", [_check_interleaving, _check_permutation])
def test_ten_thousand_orders_give_no_observation_to_another_call(check: Any) -> None:
    for seed in range(10_000):
        check(seed)

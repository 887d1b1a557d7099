"""A value sent into a generator tool is compared by the rules of arguments, secrets and all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from decimal import Decimal
from pathlib import Path

import pytest

import tracekit
from replay import diff_runs, replay_run
from replay.diff.content import identical
from replay.metrics import measure
from tracekit.assembly import trajectory_digest
from tracekit.store import open_store

LARGE = "x" * 50_000
PIECES = ("ghp_a1B2c3D4e5a1B2c3", "D4e5a1B2c3D4e5f6G7h8")


@tracekit.tool(effect="write")
def charge(account: str) -> Generator[str, object, None]:
    """Take what is sent in, and say nothing of it."""
    while True:
        yield "ok"


@tracekit.tool(effect="write")
def charge_at_once(account: object) -> str:
    """Take the same as an argument."""
    return "ok"


def sending(*given: object) -> Callable[[str], str]:
    @tracekit.agent(name="teller")
    def agent(word: str) -> str:
        charging = charge("bob")
        next(charging)
        for one in given:
            charging.send(one)
        charging.close()
        return "done"

    return agent


def _asking(given: object) -> Callable[[str], str]:
    @tracekit.agent(name="teller")
    def agent(word: str) -> str:
        charge_at_once(given)
        return "done"

    return agent


def _record(store: Path, **agents: Callable[[str], str]) -> Path:
    tracekit.configure(store=store)
    for run_id, agent in agents.items():
        with tracekit.run(run_id=run_id):
            agent("x")
    tracekit.configure(store=store.parent / "elsewhere")
    return store


EQUAL = [
    ((1, 2), [1, 2]),
    (Decimal(42), 42),
    ({"n": 42}, {"n": 42.0}),
    ({"password": "hunter2", "amount": 1}, {"password": "hunter2", "amount": 1}),
    ((LARGE,), [LARGE]),
]
OTHER = [
    ({"password": "hunter2", "amount": 1}, {"password": "hunter2", "amount": 2}),
    ({"to": "bob@corp.org"}, {"to": "mallory@evil.com"}),
    ("42", 42),
    (True, 1),
    (LARGE, LARGE + "y"),
    ({"lock": threading.Lock(), "amount": 1}, {"lock": threading.Lock(), "amount": 2}),
]


@pytest.mark.parametrize(("one", "two"), EQUAL)
def test_what_is_equal_as_an_argument_is_equal_sent_in(
    one: object, two: object, tmp_path: Path
) -> None:
    asked = _record(tmp_path / "asked", one=_asking(one), two=_asking(two))
    store = _record(tmp_path / "sent", one=sending(one), two=sending(two))

    assert diff_runs("one", "two", asked).same
    assert diff_runs("one", "two", store).same
    assert replay_run("one", planner=sending(two), store=store).verdict.kind == "pass"


@pytest.mark.parametrize(("one", "two"), OTHER)
def test_what_is_another_argument_is_another_value_sent_in(
    one: object, two: object, tmp_path: Path
) -> None:
    asked = _record(tmp_path / "asked", one=_asking(one), two=_asking(two))
    store = _record(tmp_path / "sent", one=sending(one), two=sending(two))
    runs = [open_store(store).trajectory(run_id) for run_id in ("one", "two")]

    (expected,) = diff_runs("one", "two", asked).divergences
    (found,) = diff_runs("one", "two", store).divergences
    assert (found.kind, found.harm) == (expected.kind, expected.harm)
    assert not identical(*runs)
    assert trajectory_digest(runs[0]) != trajectory_digest(runs[1])
    assert measure(runs[1], gold=runs[0]).counts["argument_accuracy"].numerator == 1


def test_of_two_values_that_are_only_described_nothing_is_known(tmp_path: Path) -> None:
    one, two = sending(threading.Lock()), sending(threading.Lock())
    store = _record(tmp_path / "store", one=one, two=two)
    runs = [open_store(store).trajectory(run_id) for run_id in ("one", "two")]

    found = diff_runs("one", "two", store)

    assert (found.same, found.divergences) == (False, ())
    assert "(sent in)/0/value (lock) only described" in found.unknown[0]
    assert not identical(*runs)
    assert measure(runs[1], gold=runs[0]).counts["argument_accuracy"].numerator == 1
    assert replay_run("one", planner=two, store=store).verdict.kind == "inconclusive"


def test_a_secret_that_is_sent_in_is_kept_nowhere(tmp_path: Path) -> None:
    store = _record(
        tmp_path / "store",
        named=sending({"password": "correct-horse-7"}, "correct-horse-7"),
        pieces=sending(*PIECES),
    )

    kept = str([open_store(store).trajectory(run_id) for run_id in ("named", "pieces")])

    assert "'behind': 2" in kept
    assert "correct-horse" not in kept
    assert not any(piece in kept for piece in PIECES)


def test_a_secret_sent_in_pieces_is_no_finding(tmp_path: Path) -> None:
    """Alone a piece is no secret: whether it is the recorded one is not known."""
    store = _record(tmp_path / "store", seen=sending(*PIECES))

    found = replay_run("seen", planner=sending(*PIECES), store=store)

    assert (found.verdict.kind, found.findings) == ("inconclusive", ())


def test_another_amount_beside_a_secret_is_a_write_refused(tmp_path: Path) -> None:
    store = _record(tmp_path / "store", seen=sending({"password": "hunter2", "amount": 1}))

    found = replay_run("seen", planner=sending({"password": "hunter2", "amount": 2}), store=store)

    (finding,) = found.findings
    assert finding.kind == "write refused"
    assert '"amount":1' in finding.text
    assert '"amount":2' in finding.text
    assert "hunter2" not in finding.text


def test_a_large_value_is_the_same_whatever_the_limit_was(tmp_path: Path) -> None:
    tracekit.configure(store=tmp_path / "store", limits=tracekit.Limits(value_bytes=200))
    for run_id, given in (("seen", "y" * 1000), ("same", "y" * 1000), ("other", "y" * 1001)):
        with tracekit.run(run_id=run_id):
            sending(given)("x")
    tracekit.configure(store=tmp_path / "elsewhere")
    store = tmp_path / "store"

    assert "yyy" not in str(open_store(store).trajectory("seen"))
    assert diff_runs("seen", "same", store).same
    assert diff_runs("seen", "other", store).divergences
    assert replay_run("seen", planner=sending("y" * 1000), store=store).verdict.kind == "pass"
    assert replay_run("seen", planner=sending("y" * 1001), store=store).verdict.kind == "fail"


def test_what_is_sent_in_counts_beside_arguments_that_were_cut(tmp_path: Path) -> None:
    def paying(amount: int) -> Callable[[str], str]:
        @tracekit.agent(name="teller")
        def agent(word: str) -> str:
            charging = charge("y" * 1000)
            next(charging)
            charging.send(amount)
            charging.close()
            return "done"

        return agent

    tracekit.configure(store=tmp_path / "store", limits=tracekit.Limits(value_bytes=200))
    for run_id, amount in (("one", 1), ("same", 1), ("other", 2)):
        with tracekit.run(run_id=run_id):
            paying(amount)("x")
    tracekit.configure(store=tmp_path / "elsewhere")

    assert diff_runs("one", "same", tmp_path / "store").same
    assert diff_runs("one", "other", tmp_path / "store").divergences

"""What an agent's own functions raise around a call: it hides no call and ends no agent."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tracekit
from replay import ReplayOptions, ReplayResult, replay_run
from replay.isolation import Level
from replay.result import Verdict
from tracekit.canonical import register_codec
from tracekit.errors import WriteBlocked
from tracekit.events import LossNoted, ToolCallBegun
from tracekit.trajectory import FAULT

Agent = Callable[[], object]


class Silent:
    """Has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Namer(type):
    """Forbids to ask for the names of its classes."""

    def __getattribute__(cls, name: str) -> Any:
        if name in ("__module__", "__qualname__", "__name__"):
            raise RuntimeError(name)
        return type.__getattribute__(cls, name)


class Nameless(Exception, metaclass=Namer):
    """Cannot be named."""


@tracekit.tool(effect="read")
def look(what: str) -> str:
    return f"seen {what}"


@tracekit.tool(effect="write", idempotency_key=lambda a: a["memo"]["ref"])
def wire(to: str, memo: dict[str, str]) -> str:
    return f"wired to {to}"


_silent: Any = lambda arguments: Silent()  # noqa: E731  # what a user may do


@tracekit.tool(effect="write", idempotency_key=_silent)
def post(to: str) -> str:
    return f"posted to {to}"


@tracekit.step
def fails() -> None:
    raise Nameless


class Money:
    """Kept by two functions of the agent's."""

    broken = False

    def __init__(self, cents: int) -> None:
        self.cents = cents

    @classmethod
    def of(cls, cents: int) -> Money:
        """Read what was kept."""
        if cls.broken:
            raise RuntimeError("another version")
        return cls(cents)


@tracekit.tool(effect="read")
def price(what: str) -> Money:
    return Money(len(what))


@pytest.fixture
def replayed(tmp_path: Path) -> Callable[[Agent, Agent], ReplayResult]:
    """Record one agent and replay another one on it."""

    def run(old: Agent, new: Agent) -> ReplayResult:
        tracekit.configure(store=tmp_path / "store")
        with tracekit.run(run_id="r"):
            tracekit.agent(old)()
        tracekit.configure(store=tmp_path / "elsewhere")
        options = ReplayOptions(isolation="guard")
        return replay_run(
            "r", planner=tracekit.agent(new), store=tmp_path / "store", options=options
        )

    return run


def _rungs(result: ReplayResult) -> list[str]:
    return [one.answer.rung for one in result.answered]


def _swallow(body: Agent) -> Agent:
    def swallows() -> None:
        with suppress(Nameless):
            body()

    return swallows


def _calm(body: Agent) -> Agent:
    """Swallow whatever ``body`` raises."""

    def calm() -> None:
        look("a")
        with suppress(Exception):
            body()

    return calm


@pytest.mark.parametrize(
    "call", [lambda to: wire(to, {}), lambda to: post(to)], ids=["the function", "its result"]
)
def test_a_key_that_cannot_be_computed_hides_no_call(
    replayed: Callable[[Agent, Agent], ReplayResult], call: Callable[[str], object]
) -> None:
    same = replayed(lambda: call("alice"), lambda: call("alice"))
    assert (same.verdict.kind, _rungs(same)) == ("pass", ["exact"])
    facts = same.session.facts
    assert not any(isinstance(fact, LossNoted) for fact in facts)
    assert [FAULT in fact.attributes for fact in facts if isinstance(fact, ToolCallBegun)] == [True]


def test_a_changed_write_whose_key_cannot_be_computed_is_refused_however_calm_the_agent(
    replayed: Callable[[Agent, Agent], ReplayResult],
) -> None:
    old = _calm(lambda: wire("alice", {"ref": "1"}))
    result = replayed(old, _calm(lambda: wire("mallory", {})))
    assert result.verdict.kind == "fail"
    assert _rungs(result) == ["exact", "error"]


@pytest.mark.parametrize(
    "note",
    [
        lambda: tracekit.policy("perhaps"),  # type: ignore[arg-type]  # a misspelt decision
        lambda: tracekit.evidence(Silent()),  # type: ignore[arg-type]  # what a user may do
        lambda: tracekit.state(Silent(), {"a": Nameless}),
        _swallow(fails),
    ],
    ids=["a policy", "evidence", "a state", "an error"],
)
def test_what_cannot_be_noted_ends_no_agent_that_recorded_fine(
    replayed: Callable[[Agent, Agent], ReplayResult], note: Agent
) -> None:
    def agent() -> str:
        note()
        return look("a")

    result = replayed(agent, agent)
    assert (result.verdict, _rungs(result)) == (Verdict("pass"), ["exact"])


def test_a_span_processor_that_raises_ends_no_replay(
    replayed: Callable[[Agent, Agent], ReplayResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_args: object, **_kwargs: object) -> Any:
        raise RuntimeError("processor")

    monkeypatch.setattr("tracekit.otel.start_span", broken)
    result = replayed(lambda: look("a"), lambda: look("a"))
    assert (result.verdict, _rungs(result)) == (Verdict("pass"), ["exact"])


def test_a_value_that_its_codec_cannot_read_ends_the_replay_whatever_the_agent_makes_of_it(
    replayed: Callable[[Agent, Agent], ReplayResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    register_codec(Money, lambda money: money.cents, Money.of, name="test.money")

    def swallows() -> str:
        monkeypatch.setattr(Money, "broken", True)
        with suppress(Exception):
            price("a")
        return "done"

    result = replayed(lambda: price("a"), swallows)
    assert result.verdict.kind == "inconclusive"
    assert result.stopped is not None
    assert result.stopped.startswith("price: what it came back with cannot be rebuilt: ")
    assert "RuntimeError" in result.stopped


@pytest.mark.parametrize("isolation", ["guard", "process"])
def test_a_planner_that_decides_and_calls_a_tool_is_told_what_to_do_and_runs_nothing(
    tmp_path: Path, isolation: Level
) -> None:
    ran: list[str] = []
    met: list[str] = []

    @tracekit.tool(effect="write")
    def send(to: str) -> None:
        ran.append(to)

    def decide(history: object, tools: object) -> None:
        try:
            send("mallory")
        except WriteBlocked as refusal:
            met.append(str(refusal))

    tracekit.configure(store=tmp_path / "store")
    with tracekit.run(run_id="r"):
        tracekit.agent(lambda: look("a"))()
    options = ReplayOptions(isolation=isolation)
    result = replay_run("r", planner=decide, store=tmp_path / "store", options=options)
    assert ran == []
    assert len(met) == 1
    assert "a planner that decides returns its calls and makes none; one that makes" in met[0]
    assert (result.verdict.kind, [one.text for one in result.findings]) == (
        "fail",
        ["tool refused: a call of send by a planner that only decides"],
    )

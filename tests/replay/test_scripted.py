"""Scripts for models: what the planner's own client makes of each reply and of each fault."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest

import tracekit
from fixtures.agents import clerk
from replay import ReplayOptions, ReplayResult, replay_run, scripted
from replay.faults import Fault, model_error
from tracekit.canonical import Encoded, decode, encode
from tracekit.errors import PlannerSignatureError, UsageError
from tracekit.integrations.openai import instrument

RUN = "clerk-run"
HALF = clerk.WORDS[: len(clerk.WORDS) // 2]
BROKE_OFF = ("APIConnectionError", "RemoteProtocolError")
"""What the client raises in the middle of a stream: newer versions, older ones."""
SAYS = {"says": clerk.WORDS, "ended": "stop"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clerk")
    tracekit.configure(store=folder / "store")
    with tracekit.run(run_id=RUN):
        clerk.recorded("Where is my parcel?")
    tracekit.configure(store=folder / "elsewhere")
    return folder / "store"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not-needed")


def replay(store: Path, planner: str, script: str, *, child: bool = False) -> ReplayResult:
    """Replay with a script; in this process, where the client is imported already."""
    agent = getattr(clerk, planner)

    def here(question: str) -> Any:
        return agent(question)

    options = ReplayOptions(
        model="scripted", model_script=f"fixtures.agents.clerk:{script}", isolation="guard"
    )
    return replay_run(RUN, planner=agent if child else here, store=store, options=options)


def told(store: Path, planner: str, script: str, *, child: bool = False) -> Any:
    result = replay(store, planner, script, child=child)
    assert result.exit.kind == "done", result.exit.detail
    assert result.trajectory is not None
    return result.trajectory.answer.value


@pytest.mark.parametrize(
    ("script", "seen"),
    [
        ("timeout", {"error": "APITimeoutError"}),
        ("rate_limited", {"error": "RateLimitError", "status": 429, "retry_after": "2"}),
        ("server_error", {"error": "InternalServerError", "status": 502}),
        ("connection_reset", {"error": "APIConnectionError"}),
        ("malformed", {"calls": [["find", '{"parcel":7']], "ended": "tool_calls"}),
        ("truncated", {"says": HALF, "ended": "length"}),
        ("refusal", {"refuses": "Ask somebody else.", "ended": "stop"}),
        ("empty", {"ended": "stop"}),
        ("duplicate", {"calls": [["find", '{"parcel":7}']] * 2, "ended": "tool_calls"}),
        ("unknown_tool", {"calls": [["teleport", "{}"]], "ended": "tool_calls"}),
        ("own_error", {"error": "ZeroDivisionError"}),
        ("always", SAYS),
    ],
)
def test_a_client_meets_each_fault_as_its_own(store: Path, script: str, seen: Any) -> None:
    assert told(store, "chat", f"Faulty.{script}") == [seen, SAYS]


@pytest.mark.parametrize("planner", ["chat_streamed", "chat_async"])
@pytest.mark.parametrize(
    ("script", "seen"),
    [
        ("always", {"read": clerk.WORDS}),
        ("truncated", {"error": BROKE_OFF, "read": HALF}),
        ("timeout", {"error": "APITimeoutError", "read": ""}),
        ("empty", {"read": ""}),
    ],
)
def test_a_streamed_reply_comes_in_chunks_and_breaks_off_where_it_is_cut(
    store: Path, planner: str, script: str, seen: Any
) -> None:
    first, second = told(store, planner, f"Faulty.{script}")

    assert first["chunks"] <= second["chunks"]
    assert second["chunks"] > 3
    assert first.get("error", "") in seen.get("error", "")
    assert first["read"] == seen["read"]
    assert second["read"] == clerk.WORDS


@pytest.mark.parametrize(
    ("script", "seen"),
    [
        ("rate_limited", {"error": "RateLimitError", "status": 429, "retry_after": "2"}),
        ("malformed", {"calls": [["find", '{"parcel":7']], "ended": "completed"}),
        ("truncated", {"says": HALF, "ended": "incomplete"}),
        ("refusal", {"refuses": ["Ask somebody else."], "ended": "completed"}),
        ("empty", {"ended": "completed"}),
        ("duplicate", {"calls": [["find", '{"parcel":7}']] * 2, "ended": "completed"}),
        ("unknown_tool", {"calls": [["teleport", "{}"]], "ended": "completed"}),
    ],
)
def test_so_it_is_with_the_responses_api(store: Path, script: str, seen: Any) -> None:
    streamed = {"says": clerk.WORDS, "ended": "completed"}
    assert told(store, "responses", f"Faulty.{script}") == [seen, streamed]


@pytest.mark.parametrize(
    ("script", "seen"),
    [
        ("timeout", {"error": "APITimeoutError"}),
        ("malformed", {"broken": [["find", '{"parcel":7']]}),
        ("duplicate", {"calls": [["find", {"parcel": 7}]] * 2}),
        ("empty", {}),
        ("always", {"says": clerk.WORDS}),
    ],
)
def test_so_it_is_with_langchain(store: Path, script: str, seen: Any) -> None:
    pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")

    first, second = told(store, "langchain", f"Faulty.{script}")
    assert first == seen
    assert second == {"read": clerk.WORDS}


def test_in_a_process_of_its_own_it_is_the_same(store: Path) -> None:
    assert told(store, "chat", "Faulty.rate_limited", child=True) == [
        {"error": "RateLimitError", "status": 429, "retry_after": "2"},
        SAYS,
    ]


def test_a_decorated_function_is_answered_whole_and_in_pieces(store: Path) -> None:
    assert told(store, "plain", "Faulty.always") == [
        {"says": clerk.WORDS},
        {"read": [clerk.WORDS]},
    ]


def test_a_script_may_be_a_function_a_class_a_list_or_rules(store: Path) -> None:
    def says(script: str) -> list[Any]:
        return [reply.get("says") or reply for reply in told(store, "chat", script)]

    assert says("upper") == ["WHERE IS MY PARCEL?"] * 2
    assert says("Counting") == ["reply 1", "reply 2"]
    assert says("LIST")[0] == "First."
    assert says("LIST")[1]["calls"] == [["find", '{"parcel":7}']]
    assert says("BY_RULE") == [{"error": "APITimeoutError"}, "It is on its way."]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("TOO_SHORT", "the script has 1 replies, the planner asked 2 times"),
        ("Faulty.broken", "the script failed with KeyError: 'nope', at clerk.py:233 ("),
        ("NO_RULE", "no rule of the script fits: 'Where is my parcel?'"),
        ("Faulty.impossible", "the fault malformed cannot be put in: the reply asks for no tool"),
        ("Ending.leaves", "the script failed with SystemExit: 3, at clerk.py:"),
        ("Ending.breaks", "the script failed with BaseException, at clerk.py:"),
    ],
)
def test_a_script_that_cannot_answer_ends_the_replay_and_says_nothing_of_the_planner(
    store: Path, script: str, reason: str
) -> None:
    result = replay(store, "chat", script)

    assert result.verdict.kind == "inconclusive"
    assert reason in result.verdict.reasons[0]


def test_a_script_that_ends_the_process_is_named_and_not_the_planner(store: Path) -> None:
    result = replay(store, "chat", "Ending.dies", child=True)

    assert str(result.verdict) == (
        "inconclusive: the script did not answer: "
        "it left its process with exit code 7 before it had finished"
    )


def test_what_is_no_script_is_told_before_anything_is_asked(store: Path) -> None:
    with pytest.raises(PlannerSignatureError, match="a script of type int answers nothing"):
        replay(store, "chat", "NOT_A_SCRIPT")
    with pytest.raises(PlannerSignatureError, match=r"NeverBegins': KeyError: 'nope' while it was"):
        replay(store, "chat", "Ending.NeverBegins")


def test_a_recorded_429_keeps_how_long_it_asked_to_wait() -> None:
    instrument()
    kept = encode(model_error(Fault.parse("429:2.5s")))
    again = decode(Encoded(kept.value, kept.types))

    assert isinstance(again, openai.RateLimitError)
    assert again.response.headers["retry-after"] == "2.5"


def test_a_script_says_what_is_wrong_with_it_when_it_is_written() -> None:
    with pytest.raises(UsageError, match="404 is no status"):
        scripted.server_error(404)
    with pytest.raises(UsageError, match="a rule needs a reply"):
        scripted.when("refund")
    with pytest.raises(UsageError, match="none to repeat"):
        scripted.sequence(then="repeat")
    with pytest.raises(UsageError, match="not known"):
        scripted.sequence("a", then="loop")  # type: ignore[arg-type]  # a user's mistake


def test_a_script_begins_anew_with_each_run() -> None:
    script = scripted.sequence("one", "two")

    assert [script.start().reply({}).value for _ in range(2)] == ["one", "one"]
    run = script.start()
    assert [run.reply({}).value, run.reply({}).value] == ["one", "two"]
    with pytest.raises(scripted.ScriptOver):
        run.reply({})

"""Step-locked replay: every decision compared with the recorded one, whoever makes it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tracekit
from fixtures.agents import oncall_client, oncall_responses
from fixtures.model_server import ModelServer
from replay import ReplayOptions, ReplayResult, replay_run
from replay.proposals import compare_decisions
from replay.summary import summarise
from replay.tape import Tape
from tests.replay.tape_kit import call, contract, record
from tracekit.canonical import JsonValue

AGENTS = """
import asyncio
import tracekit

@tracekit.tool(effect="read")
def look(what, depth=1):
    return f"{what} at {depth}"

@tracekit.tool(effect="write")
def pay(amount):
    return f"paid {amount}"

@tracekit.llm
def plan(question):
    return {"next": "look", "about": question}

@tracekit.llm
async def judge(text):
    await asyncio.sleep(0)
    return f"judged {text}"

@tracekit.llm
def spoken(text):
    yield "so "
    yield text

@tracekit.agent
async def helper(topic):
    first = await judge(f"is {topic} true?")
    await asyncio.sleep(0)
    return await judge(f"and is {first} true?")

def work(question, *, depth=1, amount=42, prompt="{}", extra=False, less=False):
    about = plan(prompt.format(question))["about"]
    seen = look(about, depth)
    if extra:
        look("something else")
    if not less:
        pay(amount)
    return "".join(spoken(seen))

@tracekit.agent
def same(question):
    return work(question)

@tracekit.agent
def looks_deeper(question):
    return work(question, depth=2)

@tracekit.agent
def pays_more(question):
    return work(question, amount=4200)

@tracekit.agent
def asks_otherwise(question):
    return work(question, prompt="please: {}")

@tracekit.agent
def looks_again(question):
    return work(question, extra=True)

@tracekit.agent
def pays_nothing(question):
    return work(question, less=True)

@tracekit.agent
def asks_less(question):
    seen = look(plan(question)["about"])
    pay(42)
    return seen

@tracekit.agent
def asks_more(question):
    said = work(question)
    return plan(said)["about"]

@tracekit.agent
def asks_another(question):
    return asyncio.run(judge(question))

@tracekit.agent
def glue(question):
    look(question)
    look("the rest", 2)
    pay(1)
    return "done"

@tracekit.agent
def other_glue(question):
    look(question)
    look("all the rest", 2)
    pay(1)
    return "done"

@tracekit.agent
async def crowd(question):
    said = await asyncio.gather(*(helper(f"{question}{n}") for n in range(3)))
    more = await asyncio.gather(*(judge(one) for one in said))
    return " ".join(more)

@tracekit.agent
async def shuffled_crowd(question):
    said = await asyncio.gather(*(helper(f"{question}{n}") for n in (2, 0, 1)))
    more = await asyncio.gather(*(judge(one) for one in reversed([said[1], said[2], said[0]])))
    return " ".join(reversed(more))


def answers(request):
    return {"next": "look", "about": "elsewhere"}
"""
RECORDED = ("same", "glue", "crowd")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one run of each recorded agent, and their module."""
    made = tmp_path_factory.mktemp("locked")
    (made / "steps.py").write_text(AGENTS, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(made))
        import steps  # type: ignore[import-not-found]  # written above

        tracekit.configure(store=made / "store")
        for name in RECORDED:
            with tracekit.run(run_id=f"run-{name}"):
                done = getattr(steps, name)("rain")
                if asyncio.iscoroutine(done):
                    asyncio.run(done)
        tracekit.configure(store=made / "elsewhere")
    return made


Lock = Callable[..., ReplayResult]


@pytest.fixture
def lock(folder: Path) -> Lock:
    def locked(planner: str, run: str = "run-same", **options: object) -> ReplayResult:
        chosen = ReplayOptions(mode="locked", isolation="guard", path=(str(folder),), **options)  # type: ignore[arg-type]  # as each test spells them
        return replay_run(run, planner=f"steps:{planner}", store=folder / "store", options=chosen)

    return locked


def changes(result: ReplayResult) -> list[str]:
    return [decision.change for decision in result.locked]


def parted(result: ReplayResult) -> list[tuple[int, str]]:
    return [(d.number, d.explanation) for d in result.locked if not d.same]


@pytest.mark.parametrize("name", RECORDED)
def test_the_unchanged_planner_decides_the_same_everywhere(lock: Lock, name: str) -> None:
    result = lock(name, f"run-{name}")

    assert (result.verdict.kind, result.verdict.reasons) == ("pass", ())
    assert set(changes(result)) == {"same"}
    assert len(result.locked) == {"same": 4, "glue": 3, "crowd": 9}[name]


def test_models_and_code_are_told_apart(lock: Lock) -> None:
    assert [d.by for d in lock("same").locked] == ["model", "code", "code", "model"]


def test_a_read_with_other_arguments_gets_what_was_recorded_in_its_place(lock: Lock) -> None:
    result = lock("looks_deeper")

    assert changes(result) == ["same", "changed arguments", "same", "same"]
    assert parted(result) == [(2, "look: /depth recorded 1, proposed 2")]
    assert result.verdict.kind == "pass"
    assert result.trajectory is not None
    assert result.trajectory.answer.value == "so rain at 1"
    assert result.shares == {"exact": 2}


def test_a_write_with_other_arguments_is_never_given_the_recorded_answer(lock: Lock) -> None:
    result = lock("pays_more")

    assert parted(result) == [(3, "pay: /amount recorded 42, proposed 4200")]
    assert result.verdict.kind == "fail"
    assert result.stopped is not None
    assert result.stopped.startswith("cannot lock: the code calls pay otherwise than recorded: ")
    assert "a write is answered only by an equal one" in result.stopped


def test_where_a_changed_prompt_has_no_model_nothing_is_proposed(lock: Lock) -> None:
    result = lock("asks_otherwise")

    assert changes(result)[0] == "no proposal"
    assert result.verdict.reasons == ("prompt changed, no model, at decision 1",)


def test_a_script_proposes_and_the_recorded_reply_is_returned(lock: Lock) -> None:
    result = lock("same", model="scripted", model_script="steps:answers")

    assert changes(result)[:3] == ["other answer", "same", "same"]
    assert parted(result)[0] == (
        1, 'recorded {"next":"look","about":"rain"}, proposed {"next":"look","about":"elsewhere"}',
    )  # fmt: skip
    assert result.trajectory is not None
    assert result.trajectory.answer.value == "so rain at 1"


@pytest.mark.parametrize(
    ("baseline", "step", "why"),
    [
        ("same", None, ""),
        ("looks_deeper", 2, "look: /depth recorded 1, proposed 2"),
        ("asks_less", 4, "cannot lock: it ended after 1 of 2 requests to its model"),
        ("asks_more", 5, "cannot lock: plan is asked 2 times, the record has 1"),
    ],
)
def test_a_candidate_is_judged_beside_a_locked_baseline_that_is_in_step(
    lock: Lock, baseline: str, step: int | None, why: str
) -> None:
    result = lock("same", baseline=f"steps:{baseline}", self_test=False)

    assert result.baseline is not None
    assert (result.baseline.unsound_at, result.baseline.difference) == (step, why)
    assert result.verdict.kind == ("pass" if step is None else "inconclusive")


def test_a_call_beside_the_record_cannot_be_locked(lock: Lock) -> None:
    result = lock("looks_again")

    assert result.verdict.kind == "inconclusive"
    assert "cannot lock: the code calls look otherwise than recorded" in result.verdict.reasons[0]


def test_a_recorded_call_that_is_not_made_is_a_change(lock: Lock) -> None:
    result = lock("pays_nothing")

    assert (4, 'recorded pay {"amount":42}, which is not called') in parted(result)
    assert changes(result)[-1] == "fewer calls"


@pytest.mark.parametrize(
    ("planner", "why"),
    [
        ("asks_less", "cannot lock: it ended after 1 of 2 requests to its model"),
        ("asks_more", "cannot lock: plan is asked 2 times, the record has 1"),
        (
            "asks_another",
            "cannot lock: judge is another place in the code; the record asks a model "
            "only at plan, spoken",
        ),
    ],
)
def test_where_the_recorded_replies_do_not_fit_it_cannot_lock_and_says_why(
    lock: Lock, planner: str, why: str
) -> None:
    assert lock(planner).verdict.reasons == (why,)
    assert lock(planner).verdict.kind == "inconclusive"


def test_calls_of_plain_code_are_compared_one_by_one(lock: Lock) -> None:
    result = lock("other_glue", "run-glue")

    assert changes(result) == ["same", "changed arguments", "same"]
    assert parted(result) == [(2, "look: /what recorded the rest, proposed all the rest")]


def test_sub_agents_and_parallel_requests_come_in_any_order(lock: Lock) -> None:
    result = lock("shuffled_crowd", "run-crowd")

    assert (result.verdict.kind, set(changes(result))) == ("pass", {"same"})


def test_a_mutated_observation_is_noticed_in_a_locked_replay_too(lock: Lock) -> None:
    result = lock("same", self_test=True)

    assert result.self_test is not None
    assert result.self_test.outcome == "reacts"
    assert lock("glue", "run-glue", self_test=True).verdict.kind == "inconclusive"


def test_the_text_has_a_line_for_each_decision(lock: Lock) -> None:
    assert (
        "  locked     3 of 4 decisions as recorded\n"
        "       1  same                    answers\n"
        "       2  changed arguments       look: /depth recorded 1, proposed 2\n"
        "       3  same                    pay\n"
        "       4  same                    answers\n"
    ) in summarise(lock("looks_deeper"))
    told = lock("looks_deeper").as_dict()["locked"][1]
    assert (told["decision"], told["same"], told["change"], told["by"]) == (
        2, False, "changed arguments", "code",
    )  # fmt: skip


# --- what is a change -----------------------------------------------------------------------------


def said(*calls: tuple[str, dict[str, JsonValue]], message: str | None = None) -> JsonValue:
    made: list[JsonValue] = [{"tool": tool, "arguments": given} for tool, given in calls]
    return {"calls": made, "message": message}


READ, OTHER = ("look", {"what": "a"}), ("look", {"what": "b"})
PAID: tuple[str, dict[str, JsonValue]] = ("pay", {"amount": 42})


@pytest.mark.parametrize(
    ("then", "now", "change"),
    [
        (said(READ, PAID), said(PAID, READ), "same"),
        (said(READ), said(("look", {"what": "a", "depth": 1})), "same"),
        (said(PAID), said(("pay", {"amount": 42.0})), "same"),
        (said(READ, message="I look."), said(READ, message="Looking."), "other words"),
        (said(READ), said(OTHER), "changed arguments"),
        (said(READ), said(PAID), "other tool"),
        (said(READ), said(READ, PAID), "more calls"),
        (said(READ, PAID), said(READ), "fewer calls"),
        (said(READ), said(message="Done."), "answer instead of call"),
        (said(message="Done."), said(READ), "call instead of answer"),
        (said(message="Done."), said(message="Over."), "other answer"),
        (said(READ), None, "no proposal"),
        ("yes", "yes", "same"),
        ("yes", "no", "other answer"),
        (said(READ), "no", "other answer"),
    ],
)
def test_decisions_are_compared_as_actions(then: JsonValue, now: JsonValue, change: str) -> None:
    look = contract("look", "read", "what", defaults={"depth": 1})
    tape = Tape.of(record(call("pay", "write", amount=42), tools=[look]))

    found = compare_decisions(1, then, now, tape, by="model")

    assert found.change == change
    assert found.same is (change in ("same", "other words"))


def test_a_proposed_write_that_the_record_lacks_is_named() -> None:
    tape = Tape.of(record(call("pay", "write", amount=42), call("look", what="a")))
    proposed = said(("pay", {"amount": 43}), PAID, ("look", {"what": "c"}), ("drop", {}))

    found = compare_decisions(1, said(), proposed, tape, by="model")

    assert found.writes == ('pay {"amount":43}', "drop {}")


# --- with real clients ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer() as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", running.url)
        patch.setenv("OPENAI_API_KEY", "test-key")
        yield running


def recorded_and_locked(tmp_path: Path, module: str, agent: Callable[[str], object]) -> None:
    name = getattr(agent, "__name__", "")
    tracekit.configure(store=tmp_path / "store")
    with tracekit.run(run_id="r"):
        done = agent(oncall_client.QUESTION)
        if asyncio.iscoroutine(done):
            asyncio.run(done)
    tracekit.configure(store=tmp_path / "elsewhere")
    planner = f"fixtures.agents.{module}:{name}"
    result = replay_run(
        "r", planner=planner, store=tmp_path / "store", options=ReplayOptions(mode="locked")
    )
    assert (result.verdict.kind, result.verdict.reasons) == ("pass", ())
    assert len(result.locked) >= 3
    assert set(changes(result)) == {"same"}
    assert [step.answer.rung for step in result.answered if step.kind == "call"]


@pytest.mark.parametrize("name", ["chat_pieces", "chat_threads", "responses_stream"])
def test_streams_threads_and_both_apis_of_the_openai_client_are_locked(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(oncall_client.EXECUTIONS, str(tmp_path / "executions"))
    recorded_and_locked(tmp_path, "oncall_client", getattr(oncall_client, name))


def test_the_responses_api_without_a_stream_is_locked(server: ModelServer, tmp_path: Path) -> None:
    recorded_and_locked(tmp_path, "oncall_responses", oncall_responses.hasty)


@pytest.mark.parametrize("name", ["hasty_async", "hasty_react"])
def test_agents_of_langchain_and_langgraph_are_locked(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    pytest.importorskip("langgraph", reason="langgraph is not installed")
    pytest.importorskip("langchain_openai", reason="langchain-openai is not installed")
    from fixtures.agents import oncall_graph  # only where the packages are

    monkeypatch.setenv(oncall_graph.EXECUTIONS, str(tmp_path / "executions"))
    recorded_and_locked(tmp_path, "oncall_graph", getattr(oncall_graph, name))

"""Conversations of every shape cost linear space, in the journal as well as in Parquet."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import openai
import pytest

import tracekit
from fixtures.model_server import ModelServer
from tests.store.talking import TOOLS, recorded
from tracekit import conditions, integrations
from tracekit.store import open_store
from tracekit.trajectory import Trajectory

Turn = Callable[[int], None]


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer() as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", running.url)
        patch.setenv("OPENAI_API_KEY", "test-key")
        yield running


def words(number: int) -> str:
    lines = "".join(f"{number * 7919 + line:06d} service {line}\n" for line in range(20))
    return f"What about service {number:03d}? It wrote:\n{lines}"


def _client() -> openai.OpenAI:
    integrations.instrument_loaded()
    return openai.OpenAI(max_retries=0)


def responses() -> Turn:
    """The Responses API, whose ``input`` grows."""
    client = _client()
    items: list[Any] = [{"role": "user", "content": "Go on."}]  # the server repeats all of these

    def turn(number: int) -> None:
        items.append({"role": "developer", "content": words(number)})
        reply = client.responses.create(model="m", input=items, instructions="Be brief. " * 40)
        items.extend(reply.output)

    return turn


def responses_of_the_end() -> Turn:
    """The Responses API, where the provider remembers what was said."""
    client = _client()
    tools: Any = [{"type": "function", **tool} for tool in TOOLS]
    last: list[Any] = [openai.omit]

    def turn(number: int) -> None:
        last[0] = client.responses.create(
            model="m",
            input=[{"role": "user", "content": words(number)}],
            previous_response_id=last[0],
            tools=tools,
        ).id

    return turn


def langchain() -> Turn:
    """A list of LangChain's messages, asked over the wire."""
    models = pytest.importorskip("langchain_openai")
    messages: list[Any] = [("user", "Go on.")]
    integrations.instrument_loaded()
    model = models.ChatOpenAI(model="m", max_retries=0)

    def turn(number: int) -> None:
        messages.append(("system", words(number)))
        messages.append(model.invoke(messages))

    return turn


def langchain_messages_of_a_function() -> Turn:
    """LangChain's messages as they are, handed to a function of the user's."""
    core = pytest.importorskip("langchain_core.messages")

    @tracekit.llm
    def think(state: Any) -> Any:
        return core.AIMessage("Fine.")

    messages: list[Any] = []

    def turn(number: int) -> None:
        messages.append(core.HumanMessage(words(number)))
        messages.append(think({"messages": messages}))

    return turn


@tracekit.llm
def answer(request: dict[str, Any]) -> str:
    return "Fine."


@tracekit.llm
def reply(question: str, past: list[Any], tools: list[Any]) -> str:
    return "Fine."


def anthropic() -> Turn:
    """Parts, a system prompt beside, and a mark that moves on to the last message."""
    messages: list[Any] = []

    def turn(number: int) -> None:
        for message in messages:
            message["content"][0].pop("cache_control", None)
        part = {"type": "text", "text": words(number), "cache_control": {"type": "ephemeral"}}
        messages.append({"role": "user", "content": [part]})
        said = answer({"system": "Be brief. " * 40, "messages": messages, "tools": TOOLS})
        messages.append({"role": "assistant", "content": [{"type": "text", "text": said}]})

    return turn


def gemini() -> Turn:
    """The list is called ``contents``."""
    contents: list[Any] = []

    def turn(number: int) -> None:
        contents.append({"role": "user", "parts": [{"text": words(number)}]})
        answer({"contents": contents, "system_instruction": {"parts": [{"text": "Be brief."}]}})

    return turn


def a_list_of_any_name() -> Turn:
    """A function whose argument happens to be a conversation, beside others that change."""
    past: list[Any] = []

    def turn(number: int) -> None:
        past.append({"role": "user", "content": words(number)})
        reply(f"question {number:03d}", past, TOOLS)

    return turn


def texts() -> Turn:
    """A history of nothing but texts."""
    past: list[Any] = []

    def turn(number: int) -> None:
        past.append(words(number))
        reply("why?", past, TOOLS)

    return turn


def an_edited_turn() -> Turn:
    """What the assistant said last is shortened once it is answered."""
    messages: list[Any] = []

    def turn(number: int) -> None:
        if messages:
            messages[-1] = {"role": "assistant", "content": "I said that it is fine."}
        messages.append({"role": "user", "content": words(number)})
        answer({"messages": messages, "tools": TOOLS})
        messages.append({"role": "assistant", "content": "Fine. " * 20})

    return turn


def two_at_once() -> Turn:
    """Two conversations take turns in one run."""
    turns = gemini(), a_list_of_any_name()

    def turn(number: int) -> None:
        for one in turns:
            one(number)

    return turn


WIRED = [responses, langchain]
"""Their clients spell the whole conversation anew at every call, which takes its time."""
SHAPES = [
    responses_of_the_end, langchain_messages_of_a_function, anthropic, gemini, a_list_of_any_name,
    texts, an_edited_turn, two_at_once,
]  # fmt: skip


def _size(path: Path, pattern: str) -> int:
    return sum(file.stat().st_size for file in path.rglob(pattern))


def _converse(path: Path, shape: Callable[[], Turn], turns: Sequence[int]) -> list[Path]:
    """Talk in one run; give the store as it is after so many turns."""
    copies = []
    live = path / "live"
    with recorded(live), tracekit.run(name="talk", run_id=conditions.new_run_id()):
        turn = shape()
        for number in range(1, turns[-1] + 1):
            turn(number)
            if number in turns:
                copies.append(Path(shutil.copytree(live, path / f"{number}")))
    return copies


@pytest.mark.parametrize(
    ("shape", "turns"),
    [
        *[pytest.param(shape, 200, id=shape.__name__) for shape in SHAPES],
        *[pytest.param(shape, 60, id=f"{shape.__name__}, 60") for shape in WIRED],
        *[pytest.param(shape, 200, id=shape.__name__, marks=pytest.mark.slow) for shape in WIRED],
    ],
)
def test_a_turn_costs_as_much_late_in_a_conversation_as_early(
    tmp_path: Path, server: ModelServer, shape: Callable[[], Turn], turns: int
) -> None:
    marks = (10, 20, turns - 10, turns)
    stores = _converse(tmp_path, shape, marks)
    journals = [_size(path, "*.jsonl") for path in stores]
    for path in stores:
        open_store(path).settle()
        assert open_store(path).verify().sound
    parquet = [_size(path, "*.parquet") for path in stores]
    for sizes in (journals, parquet):
        assert 0 < sizes[3] - sizes[2] <= 1.2 * (sizes[1] - sizes[0])
        assert sizes[3] / turns <= 1.2 * sizes[1] / 20


def _prompts(path: Path) -> list[Any]:
    store = open_store(path)
    ((run_id,),) = store.sql("SELECT run_id FROM runs").rows
    found: Trajectory = store.trajectory(run_id)
    return [call.prompt for call in found.model_calls]


def test_a_responses_conversation_is_read_as_it_was_sent(
    tmp_path: Path, server: ModelServer
) -> None:
    before = len(server.requests)
    (path,) = _converse(tmp_path, responses, [12])
    assert _prompts(path) == server.requests[before:]
    open_store(path).settle()
    assert _prompts(path) == server.requests[before:]


@pytest.mark.parametrize("what", ["system", "tools"])
def test_what_changes_beside_a_conversation_in_the_middle_costs_one_restart_at_most(
    tmp_path: Path, what: str
) -> None:
    with recorded(tmp_path), tracekit.run(name="talk"):
        messages: list[Any] = []
        sizes, said = [0], []
        for number in range(60):
            system = "Be kind." if what == "system" and number >= 30 else "Be brief."
            tools = TOOLS[:4] if what == "tools" and number >= 30 else TOOLS
            messages.append({"role": "user", "content": words(number)})
            asked = [{"role": "system", "content": system}, *messages]
            answer({"messages": asked, "tools": tools})
            said.append({"request": {"messages": asked, "tools": tools}})
            sizes.append(_size(tmp_path, "*.jsonl"))
    cost = [after - before for before, after in itertools.pairwise(sizes)]
    assert max(cost[31:]) <= 1.2 * max(cost[1:30])
    assert cost[30] <= 1.2 * len(str(said[30]))
    assert _prompts(tmp_path) == said

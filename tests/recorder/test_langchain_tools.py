"""Tools of the real ``langchain-core`` are recorded, and answered or refused in a replay."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import typing
from typing import Annotated, Any

import pytest

import tracekit
from tracekit import guard
from tracekit.errors import ContractError, WriteBlocked
from tracekit.integrations.langchain import instrument

pytest.importorskip("langgraph", reason="langgraph is not installed")

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import (
    BaseTool,
    InjectedToolArg,
    InjectedToolCallId,
    StructuredTool,
    Tool,
    ToolException,
    tool,
)
from langgraph.prebuilt import ToolNode, ToolRuntime

from tests.recorder.langchain_kit import answered, recording

instrument(effects={"lookup": "read", "pay": "write"})
ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran_yet() -> None:
    ran.clear()


@tool
def lookup(order: str, limit: int = 50) -> dict[str, Any]:
    """Look an order up.

    More than the first paragraph is not its purpose.
    """
    ran.append("lookup")
    return {"order": order, "total": limit}


@tool
async def pay(order: str, amount: int) -> str:
    """Pay money back."""
    ran.append("pay")
    await asyncio.sleep(0)
    return f"paid {amount} for {order}"


class Shelf(BaseTool):
    """A tool that is a class of its own."""

    name: str = "shelf"
    description: str = "Look a shelf up."

    def _run(self, label: str, *, deep: bool = False) -> str:
        ran.append("shelf")
        return f"{label} {deep}"


class DeepShelf(Shelf):
    """A tool whose body leads to that of another class."""

    def _run(self, label: str, *, deep: bool = True) -> str:
        return super()._run(label, deep=deep)


def _call(name: str, **arguments: Any) -> Any:
    return {"type": "tool_call", "id": "call_1", "name": name, "args": arguments}


# --- recorded -------------------------------------------------------------------------------------


def test_a_tool_is_recorded_with_bound_arguments_contract_and_effect() -> None:
    with recording() as recorded:
        message = lookup.invoke(_call("lookup", order="A-17"))
    (row,) = recorded.rows("tool_call")
    contract = recorded.contract(row)
    assert isinstance(message, ToolMessage)
    assert recorded.value(row.argument_blob) == {"order": "A-17", "limit": 50}
    assert recorded.value(row.observation_blob) == {"order": "A-17", "total": 50}
    assert (row.actor, row.status, row.effect, row.tool_call_id) == (
        "lookup",
        "ok",
        "read",
        "call_1",
    )
    assert contract.purpose == "Look an order up."
    assert [(p.name, p.required, p.default) for p in contract.parameters or ()] == [
        ("order", True, None),
        ("limit", False, 50),
    ]
    assert contract.argument_schema is not None
    assert contract.argument_schema["required"] == ["order"]


async def test_an_async_tool_is_one_step_however_it_reaches_its_body() -> None:
    with recording() as recorded:
        assert await pay.ainvoke({"order": "A-17", "amount": 3}) == "paid 3 for A-17"
        assert await lookup.ainvoke({"order": "A-18"}) == {"order": "A-18", "total": 50}
        assert await Shelf().ainvoke({"label": "x"}) == "x False"
        assert DeepShelf().run({"label": "y"}) == "y True"
    rows = recorded.rows("tool_call")
    assert [(row.actor, row.effect) for row in rows] == [
        ("pay", "write"),
        ("lookup", "read"),
        ("shelf", "unknown"),
        ("shelf", "unknown"),
    ]
    assert recorded.value(rows[-1].argument_blob) == {"label": "y", "deep": True}


def test_a_tool_that_asks_another_or_itself_is_recorded_around_it() -> None:
    @tool
    def count(down: int) -> int:
        """Count down, by way of itself."""
        lookup.invoke({"order": str(down)})
        return 0 if down == 0 else 1 + int(count.invoke({"down": down - 1}))

    with recording() as recorded:
        assert count.invoke({"down": 2}) == 2
    rows = recorded.rows("tool_call")
    assert [row.actor for row in rows] == ["count", "lookup"] * 3
    assert [row.parent_span_id for row in rows[1:]] == [
        rows[0].span_id,
        rows[0].span_id,
        rows[2].span_id,
        rows[2].span_id,
        rows[4].span_id,
    ]


def test_what_langchain_hands_in_is_not_an_argument_and_what_the_user_hands_in_is() -> None:
    @tool
    def ask(
        query: str,
        user: Annotated[str, InjectedToolArg],
        call: Annotated[str, InjectedToolCallId],
        config: RunnableConfig,
    ) -> str:
        """Ask for a user."""
        assert config["metadata"]["trip"] == 7
        return f"{query} {user} {call}"

    with recording() as recorded:
        said = ask.invoke(_call("ask", query="q", user="ann"), {"metadata": {"trip": 7}})
    (row,) = recorded.rows("tool_call")
    assert said.content == "q ann call_1"
    assert recorded.value(row.argument_blob) == {"query": "q", "user": "ann"}


def test_a_parameter_is_not_taken_for_langchains_by_its_name() -> None:
    class Apply(BaseTool):
        name: str = "apply"
        description: str = "Apply a configuration."

        def _run(self, config: str, *, state: str = "new", run_manager: Any = None) -> str:
            return f"{config} {state}"

    with recording() as recorded:
        assert Apply().invoke({"config": "a.toml"}) == "a.toml new"
    (row,) = recorded.rows("tool_call")
    assert recorded.value(row.argument_blob) == {"config": "a.toml", "state": "new"}


def test_what_a_graph_hands_in_is_not_an_argument() -> None:
    @tool
    def peek(query: str, runtime: ToolRuntime) -> str:
        """Look into the state."""
        return f"{query}: {len(runtime.state['messages'])}"

    calls = [{"name": "peek", "args": {"query": "q"}, "id": "c1"}]
    with recording() as recorded:
        state = _in_graph(ToolNode([peek]), AIMessage("", tool_calls=calls))
    (row,) = recorded.rows("tool_call")
    assert state["messages"][-1].content == "q: 1"
    assert recorded.value(row.argument_blob) == {"query": "q"}


def _in_graph(node: ToolNode, *messages: Any) -> Any:
    from langgraph.graph import START, MessagesState, StateGraph

    graph = StateGraph(MessagesState)
    graph.add_node("tools", node)
    graph.add_edge(START, "tools")
    return graph.compile().invoke({"messages": list(messages)})


def test_tools_of_any_making_are_recorded() -> None:
    def shout(text: str) -> str:
        return text.upper()

    async def take(**given: Any) -> str:
        return str(sorted(given))

    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    remote = StructuredTool(
        name="remote", description="Elsewhere.", args_schema=schema, coroutine=take
    )
    with recording() as recorded:
        assert Tool(name="shout", func=shout, description="Shout.").invoke("hey") == "HEY"
        assert asyncio.run(remote.ainvoke({"a": 1})) == "['a']"
    shouted, taken = recorded.rows("tool_call")
    assert recorded.value(shouted.argument_blob) == {"text": "hey"}
    assert recorded.value(taken.argument_blob) == {"a": 1}
    contract = recorded.contract(taken)
    assert (contract.argument_schema, contract.parameters) == (
        {**schema, "description": "Elsewhere."},
        None,
    )


def test_an_error_is_recorded_as_raised_and_handled_as_langchain_does() -> None:
    @tool
    def fails(kind: str) -> str:
        """Fail."""
        raise ToolException("no") if kind == "told" else TimeoutError("late")

    fails.handle_tool_error = True
    with recording() as recorded:
        assert fails.invoke({"kind": "told"}) == "no"
        with pytest.raises(TimeoutError, match="late"):
            fails.invoke({"kind": "raised"})
        with pytest.raises(ValueError, match="validation error"):
            fails.invoke({"sort": "wrong"})
    told, raised = recorded.rows("tool_call")
    assert (told.status, told.error_message) == ("error", "no")
    assert (raised.error_type, raised.result_category) == ("TimeoutError", "retryable_error")


def test_a_tool_that_tracekit_decorates_is_recorded_once_and_by_that() -> None:
    @tool
    @tracekit.tool(effect="read", name="store.find")
    def find(order: str, limit: int = 5) -> str:
        """Find an order."""
        return f"{order} {limit}"

    with recording() as recorded:
        assert find.invoke({"order": "A"}) == "A 5"
    (row,) = recorded.rows("tool_call")
    assert (row.actor, row.effect) == ("store.find", "read")


def test_annotations_of_a_decorated_function_are_found_where_it_stands() -> None:
    @tracekit.tool(effect="read")
    def find(order: Shelf) -> ToolMessage:
        raise AssertionError(order)

    assert typing.get_type_hints(find) == {"order": Shelf, "return": ToolMessage}


def test_outside_a_run_nothing_is_recorded() -> None:
    with recording() as recorded:
        pass
    assert lookup.invoke({"order": "A"}) == {"order": "A", "total": 50}
    assert recorded.rows("tool_call") == []


def test_the_signature_of_a_tool_stays_what_it_is() -> None:
    with recording():
        pass
    hints = typing.get_type_hints(StructuredTool._run)
    assert hints["config"] is RunnableConfig
    assert not hasattr(Shelf._run, "__tracekit__")


# --- answered -------------------------------------------------------------------------------------


def test_a_tool_is_answered_without_its_body_and_makes_its_own_message() -> None:
    with answered(guard.Served({"order": "A", "total": 9}, {"rung": "exact"})) as (recorded, tape):
        message = lookup.invoke(_call("lookup", order="A"))
    (row,) = recorded.rows("tool_call")
    assert (message.content, message.tool_call_id, message.name) == (
        '{"order": "A", "total": 9}',
        "call_1",
        "lookup",
    )
    assert row.rung == "exact"
    assert [q.arguments for q in tape.asked] == [{"order": "A", "limit": 50}]
    assert tape.asked[0].contract is not None
    assert tape.asked[0].contract.effect == "read"
    assert ran == []


async def test_async_and_parallel_calls_are_answered_without_their_bodies() -> None:
    calls = [
        {"name": "lookup", "args": {"order": "A"}, "id": "c1"},
        {"name": "pay", "args": {"order": "A", "amount": 3}, "id": "c2"},
        {"name": "lookup", "args": {"order": "B"}, "id": "c3"},
    ]
    node = ToolNode([lookup, pay])
    with answered(guard.Served("said", {})) as (recorded, tape):
        state = await _in_graph_async(node, AIMessage("", tool_calls=calls))
    assert [m.content for m in state["messages"][1:]] == ["said"] * 3
    assert [m.tool_call_id for m in state["messages"][1:]] == ["c1", "c2", "c3"]
    assert sorted(row.tool_call_id or "" for row in recorded.rows("tool_call")) == [
        "c1",
        "c2",
        "c3",
    ]
    assert len(tape.asked) == 3
    assert ran == []


async def _in_graph_async(node: ToolNode, *messages: Any) -> Any:
    from langgraph.graph import START, MessagesState, StateGraph

    graph = StateGraph(MessagesState)
    graph.add_node("tools", node)
    graph.add_edge(START, "tools")
    return await graph.compile().ainvoke({"messages": list(messages)})


def test_a_refused_write_raises_and_its_body_does_not_run() -> None:
    refusal = WriteBlocked("shelf", "unknown", reason="not in the recording")
    with answered(guard.Raised(refusal, {})), pytest.raises(WriteBlocked) as caught:
        DeepShelf().invoke({"label": "x"})
    assert caught.value is refusal
    assert ran == []


def test_no_method_is_a_road_around_the_guard() -> None:
    shelf = DeepShelf()
    with answered(guard.Served("said", {})) as (_, tape):
        assert shelf._run("x") == "said"
        assert type(shelf)._run.__wrapped__(shelf, "x") == "said"  # type: ignore[attr-defined]  # of the wrapper
        assert Shelf._run(shelf, "x") == "said"
    assert len(tape.asked) == 3
    assert ran == []


# --- switched on ----------------------------------------------------------------------------------


def test_a_misspelt_effect_is_refused() -> None:
    with pytest.raises(ContractError, match="'reed' is not known"):
        instrument(effects={"lookup": "reed"})  # type: ignore[dict-item]  # that is the point


def _python(code: str) -> tuple[int, str, str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_importing_tracekit_and_switching_on_import_no_framework() -> None:
    code = (
        "import sys, tracekit\n"
        "from tracekit.integrations.langchain import instrument\n"
        "instrument(effects={'lookup': 'read'})\n"
        "print([n for n in ('openai', 'langchain_core', 'langgraph') if n in sys.modules])"
    )
    assert _python(code) == (0, "[]\n", "")


@pytest.mark.parametrize("early", [True, False])
def test_langchain_may_be_imported_before_or_after_it_is_switched_on(early: bool) -> None:
    load = "from langchain_core.tools import tool\nimport langchain_core.language_models"
    code = f"""
{load if early else ""}
import os
from tracekit.integrations.langchain import instrument
instrument(effects={{"f": "read"}})
{load}
from tracekit.integrations import nesting
print(hasattr(tool(name_or_callable="f", description="d")(lambda x: x)._run, nesting._MARK))
print(hasattr(langchain_core.language_models.FakeListChatModel._generate, nesting._MARK))
"""
    assert _python(code) == (0, "True\nTrue\n", "")


def test_a_version_that_is_not_known_is_told_once() -> None:
    code = """
import importlib.metadata as m, logging, sys
logging.basicConfig(format="%(message)s")
real = m.version
m.version = lambda name: "9.1" if name == "langchain_core" else real(name)
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from tracekit.integrations import instrument_loaded
instrument_loaded()
instrument_loaded()
"""
    code_, out, err = _python(code)
    assert (code_, out) == (0, "")
    assert err == (
        "tracekit is not tested with langchain_core 9.1: "
        "calls may be recorded in part, or not at all\n"
    )


def test_a_missing_framework_is_no_error() -> None:
    code = """
import sys
sys.modules["langchain_core"] = sys.modules["openai"] = None
import tracekit
from tracekit.integrations import instrument_all
from tracekit.integrations.langchain import instrument
instrument(effects={"f": "read"})
instrument_all()
print("fine")
"""
    assert _python(code) == (0, "fine\n", "")


def test_a_tool_says_whose_its_calls_are() -> None:
    class Bank:
        def __init__(self, iban: str) -> None:
            self.iban = iban

        def send(self, amount: int) -> str:
            """Send money."""
            return f"{amount} from {self.iban}"

    class Till(BaseTool):
        name: str = "till"
        description: str = "Take money out."
        shop: str
        taken: int = 0

        def _run(self, amount: int) -> str:
            self.taken += amount
            return f"{amount} in {self.shop}"

    def made(iban: str) -> BaseTool:
        @tool
        def settle(amount: int) -> str:
            """Settle an account."""
            return f"{amount} from {iban}"

        return settle

    send = StructuredTool.from_function(Bank("A").send, name="send")
    till = Till(shop="S")
    with recording() as recorded:
        for one in (send, till, till, made("B")):
            one.invoke({"amount": 4})
    rows = recorded.rows("tool_call")
    assert [recorded.value(row.argument_blob) for row in rows] == [
        {"self": {"class": "Bank", "iban": "A"}, "amount": 4},
        *[{"self": {"shop": "S", "taken": 0}, "amount": 4}] * 2,
        {"nonlocal": {"iban": "B"}, "amount": 4},
    ]
    assert [sorted(recorded.contract(row).receivers) for row in rows] == [
        ["self"],
        ["self"],
        ["self"],
        ["nonlocal"],
    ]

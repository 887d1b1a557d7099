"""What is kept of arguments and observations: as they were, without secrets, whatever they are."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import tracekit
from tests.recorder.record_kit import everything, recording
from tracekit.canonical import Encoded, decode, digest, parse_json
from tracekit.contract import Contract, Parameter, bind, contract_of
from tracekit.decorators import MARK

KEY = "sk-proj-" + "aB3dE5fG7h" * 4
CARD = "4111111111111111"


def test_what_changes_during_and_after_the_call_is_not_what_was_recorded() -> None:
    @tracekit.tool
    def append(messages: list[str]) -> list[str]:
        messages.append("inside")
        return messages

    given = ["before"]
    with recording() as recorded:
        assert append(given) is given
        given.append("after")
    row = recorded.row()
    assert recorded.argument(row) == {"messages": ["before"]}
    assert recorded.observation(row) == ["before", "inside"]


def test_python_values_come_back_as_what_they_were() -> None:
    given = {"when": datetime(2026, 1, 2, tzinfo=UTC), "sum": Decimal("1.10"), "raw": b"\0\xff"}
    echo = tracekit.tool(name="echo")(lambda value: (value, {1, 2}))
    with recording() as recorded:
        echo(given)
    row = recorded.row()
    types = parse_json(row.observation_types or "{}")
    assert isinstance(types, dict)
    assert decode(Encoded(recorded.observation(row), types)) == (given, {1, 2})
    assert row.observation_digest == digest(recorded.observation(row))


def test_what_cannot_be_kept_is_described_and_marked() -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise RuntimeError("never")

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("never")

        __hash__ = None  # type: ignore[assignment]  # hostile

    loop: list[Any] = []
    loop.append(loop)
    value = Hostile()
    with recording() as recorded:
        assert tracekit.tool(name="echo")(lambda *things: things)(value, loop)[0] is value
    row = recorded.row()
    assert (row.argument_state, row.observation_state) == ("truncated", "truncated")
    assert recorded.recorder.lost == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda tool: tool(KEY),
        lambda tool: tool(api_key=KEY),
        lambda tool: tool({"deep": [{"authorization": f"Bearer {KEY}"}]}),
        lambda tool: tool("x", "y", f"my key is {KEY} and my card {CARD}"),
        lambda tool: tool('{"inside": {"password": "correct-horse-9"}}'),
        lambda tool: tool(password="correct-horse-9"),
    ],
    ids=["positional", "keyword", "nested", "star args", "json text", "by field name"],
)
@pytest.mark.parametrize("how", ["returned", "raised", "yielded", "awaited"])
def test_a_secret_never_reaches_the_disk(call: Any, how: str) -> None:
    def returned(*args: Any, **kwargs: Any) -> Any:
        return [args, kwargs]

    def raised(*args: Any, **kwargs: Any) -> Any:
        error = ValueError(f"cannot use {args} {kwargs}")
        error.add_note(f"tried with {args} {kwargs}")
        raise error

    def yielded(*args: Any, **kwargs: Any) -> Iterator[Any]:
        yield args
        yield kwargs

    async def awaited(*args: Any, **kwargs: Any) -> Any:
        return {"said": str(args) + str(kwargs)}

    body = {f.__name__: f for f in (returned, raised, yielded, awaited)}[how]
    with recording() as recorded:
        try:
            result = call(tracekit.tool(body))
            if inspect.iscoroutine(result):
                asyncio.run(result)
            elif inspect.isgenerator(result):
                list(result)
        except ValueError:
            assert how == "raised"
    text = everything(recorded)
    assert recorded.row().status in ("ok", "error")
    for secret in (KEY, CARD, "correct-horse-9"):
        assert secret not in text


def test_who_asked_for_what_is_kept_without_secrets() -> None:
    with (
        recording() as recorded,
        tracekit.run(operator="alice@example.com", request=KEY, tags=[f"key {KEY}"]),
    ):
        tracekit.evidence(f"https://docs?token={KEY}")
        tracekit.policy("deny", rule="R", reason=f"{KEY} is not allowed")
    text = everything(recorded)
    assert KEY not in text
    assert "alice" not in text
    assert str(recorded.row("run").operator).endswith("@example.com")


def test_no_byte_of_a_secret_stands_in_the_journal(tmp_path: Path) -> None:
    from tracekit.journal import Journal

    with recording(Journal(tmp_path)):
        tracekit.tool(name="echo")(lambda *a, **k: [a, k])(KEY, key=KEY, card=CARD)
    (path,) = tmp_path.iterdir()
    data = path.read_bytes()
    assert b'"tool_call"' not in data  # facts are named in full
    assert b"tool_call.ended" in data
    assert KEY.encode() not in data
    assert CARD.encode() not in data


# --- contracts ------------------------------------------------------------------------------------


def _tool(a: int, b: str = "x", *rest: int, flag: bool = False, **more: int) -> None:
    """Do one thing.

    In much detail.
    """


def test_a_contract_is_read_from_the_function() -> None:
    contract = contract_of(_tool, effect="read")
    assert (contract.name, contract.purpose, contract.effect) == ("_tool", "Do one thing.", "read")
    assert contract.parameters == (
        Parameter(name="a"),
        Parameter(name="b", required=False, default="x"),
        Parameter(name="rest", kind="args", required=False, default=[]),
        Parameter(name="flag", kind="keyword", required=False, default=False),
        Parameter(name="more", kind="kwargs", required=False, default={}),
    )
    assert not contract.writes
    assert contract_of(_tool).writes


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((1,), {}), ((), {"a": 1}), ((1, "x"), {"flag": False}), ((1,), {"b": "x"})],
)
def test_one_call_spelt_in_four_ways_binds_to_the_same(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    assert bind(inspect.signature(_tool), args, kwargs) == {
        "a": 1, "b": "x", "rest": [], "flag": False, "more": {},
    }  # fmt: skip


def test_a_recorded_contract_spells_arguments_in_its_own_way() -> None:
    contract = contract_of(_tool)
    assert list(contract.normalise({"flag": True, "a": 1}).items()) == [
        ("a", 1), ("b", "x"), ("rest", []), ("flag", True), ("more", {}),
    ]  # fmt: skip
    assert contract.normalise({"a": 1, "new": 2})["new"] == 2
    assert Contract(name="imported").normalise({"z": 1}) == {"z": 1}


def test_a_default_is_bound_as_it_is_and_stands_in_the_contract() -> None:
    @tracekit.tool(name="t")
    def tool(when: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None: ...

    with recording() as recorded:
        tool()
    assert recorded.argument(recorded.row()) == {"when": "2026-01-01T00:00:00+00:00"}
    assert getattr(tool, MARK).contract.parameters[0].default == "2026-01-01T00:00:00+00:00"

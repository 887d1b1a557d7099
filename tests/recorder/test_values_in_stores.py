"""Every kind of value goes through recording and either store, and comes back as it was."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import itertools
import re
import sys
import threading
import types
import zoneinfo
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Generic, TypeVar
from unittest import mock

import numpy as np
import pytest
from pydantic import BaseModel, Field

import tracekit
from tests.recorder.test_canonical_values import EXACT, same
from tracekit.canonical import Encoded, decode, encode, parse_json
from tracekit.store import Store, open_store
from tracekit.trajectory import Call

T = TypeVar("T")


class Box(BaseModel, Generic[T]):
    item: T


class Aliased(BaseModel):
    amount: int = Field(alias="the-amount")
    box: Box[int]
    boxes: list[Box[str]] = Field(default_factory=list)


NEW_YORK = zoneinfo.ZoneInfo("America/New_York")
MORE: list[Any] = [
    [Decimal("NaN"), Decimal("sNaN"), Decimal("-0"), Decimal("1E+5"), Decimal("-Infinity")],
    dt.datetime(2026, 11, 1, 1, 30, tzinfo=NEW_YORK),
    dt.datetime(2026, 11, 1, 1, 30, fold=1, tzinfo=NEW_YORK),
    dt.datetime.min.replace(tzinfo=dt.UTC),
    dt.datetime.max.replace(tzinfo=dt.UTC),
    dt.timedelta.max,
    dt.date.max,
    -(10**5000),
    [float("nan"), float("-inf"), -0.0],
    {"k\ud800": {"\udfff": ["\ud83d"]}},
    slice(1, None, 2),
    {"rows": slice(None, (1, 2))},
    re.compile(r"a(\d+)", re.IGNORECASE | re.MULTILINE),
    re.compile(rb"\x00"),
    Box[int](item=3),
    Aliased.model_validate({"the-amount": 1, "box": {"item": 2}, "boxes": [{"item": "a"}]}),
]


@pytest.fixture(params=["store", "store.duckdb"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / request.param
    tracekit.configure(store=tmp_path / "elsewhere")


@tracekit.tool(effect="read")
def give(value: Any, number: int) -> Any:
    """Give ``value`` back."""
    return value


def _recorded(path: Path, values: list[Any]) -> tuple[Store, list[Call]]:
    """Have every value go in and out of a tool; give what the store says of it."""
    tracekit.configure(store=path)
    with tracekit.run(run_id="values"):
        for number, value in enumerate(values):
            assert give(value, number) is value
    tracekit.configure(store=path.parent / "elsewhere")
    store = open_store(path)
    store.settle()
    return store, list(store.trajectory("values").calls)


def test_values_come_back_exactly_from_both_stores(path: Path) -> None:
    values = [*EXACT, *MORE]
    store, _ = _recorded(path, values)

    rows = [row for row in store.events("values") if row.event_type == "tool_call"]
    assert [row.observation_state for row in rows] == ["captured"] * len(values)
    for row, value in zip(rows, values, strict=True):
        for blob, tags, pick in (
            (row.argument_blob, row.argument_types, "value"),
            (row.observation_blob, row.observation_types, None),
        ):
            kept = store.blob(blob or "")
            assert kept is not None
            back = decode(Encoded(parse_json(kept.data), _tags(tags)))
            found = back[pick] if pick is not None else back  # type: ignore[index]  # an object
            assert type(found) is type(value)
            assert encode(found) == encode(value)
            if value == value and not _holds_nan(value):
                assert same(value, found)
    assert store.verify().sound


def _tags(text: str | None) -> Any:
    return parse_json(text) if text else {}


def _holds_nan(value: Any) -> bool:
    if isinstance(value, list):
        return any(_holds_nan(one) for one in value)
    with decimal.localcontext() as context:
        context.traps[decimal.InvalidOperation] = False
        return isinstance(value, (float, Decimal)) and bool(value != value)


def test_arrays_of_every_making_come_back_from_both_stores(path: Path) -> None:
    point = np.dtype([("at", "<i4"), ("where", [("x", "<f8"), ("y", ">f8")]), ("tag", "S3", (2,))])
    arrays: list[Any] = [
        np.arange(12, dtype=">i2").reshape(3, 4)[:, ::2],
        np.array(5.5),
        np.array([], dtype="<c16").reshape(0, 3),
        np.zeros(3, dtype=point),
        np.array([(1, 2.5)], dtype=np.dtype([("a", "u1"), ("b", "<f8")], align=True)),
        np.array(["é", "ab"]),
        np.array([np.nan, -0.0, np.inf], dtype="<f2"),
        np.void(b"\x00\x01"),
        np.timedelta64(3, "s"),
        np.longdouble("1.1"),
        np.str_("a"),
    ]
    store, _ = _recorded(path, arrays)

    rows = [row for row in store.events("values") if row.event_type == "tool_call"]
    for row, array in zip(rows, arrays, strict=True):
        kept = store.blob(row.observation_blob or "")
        assert kept is not None
        back: Any = decode(Encoded(parse_json(kept.data), _tags(row.observation_types)))
        assert type(back) is type(array)
        assert (back.dtype, back.shape) == (array.dtype, array.shape)
        if array.dtype.names is None and array.dtype != np.longdouble:
            assert back.tobytes() == array.tobytes()
        assert repr(back.tolist()) == repr(array.tolist())


class Lying:
    """Fails at everything, and says that it is a number."""

    def __init__(self) -> None:
        self.size = 4

    @property  # type: ignore[misc]  # what some proxies do
    def __class__(self) -> type:
        return int

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def _fail(self, *_: object) -> Any:
        raise RuntimeError("touched")

    __eq__ = __len__ = __iter__ = __repr__ = __reduce__ = __bool__ = _fail
    __hash__ = _fail


class Table:
    """Stands for a data frame: large, and of no simple form."""

    def __init__(self) -> None:
        self.name, self._cells = "orders", [0] * 1000


@dataclasses.dataclass
class Node:
    next: Any = None


def _ring() -> Node:
    node = Node()
    node.next = Node(node)
    return node


def test_padding_between_fields_is_no_part_of_an_array() -> None:
    kind = np.dtype([("a", "u1"), ("b", "<f8")], align=True)
    dirty = np.frombuffer(b"\xff" * kind.itemsize, dtype=kind).copy()
    dirty["a"], dirty["b"] = 1, 2.5
    clean = np.zeros(1, dtype=kind)
    clean["a"], clean["b"] = 1, 2.5

    assert encode(dirty) == encode(clean)
    wide = np.frombuffer(b"\xff" * 32, dtype=np.longdouble).copy()
    wide[...] = 1.5
    assert encode(wide) == encode(np.full(wide.shape, 1.5, dtype=np.longdouble))


def test_hostile_values_are_described_and_neither_run_nor_used_up(path: Path) -> None:
    endless, endless_too = itertools.count(), (n for n in itertools.count())
    values: list[Any] = [
        Lying(), {"in": [Lying()]}, endless, {"g": endless_too}, mock.MagicMock(),
        mock.Mock(side_effect=RuntimeError), _ring(), Table(), int, len, types, lambda: 1,
        sys.stdout, threading.Lock(), memoryview(b"abcd").cast("I"), np.array([object()]),
    ]  # fmt: skip
    store, _ = _recorded(path, values)

    assert (next(endless), next(endless_too)) == (0, 0)
    rows = [row for row in store.events("values") if row.event_type == "tool_call"]
    assert [row.observation_state for row in rows] == ["truncated"] * len(values)
    assert [row.status for row in rows] == ["ok"] * len(values)
    names = [parse_json(store.blob(row.observation_blob or "").data) for row in rows]  # type: ignore[union-attr]  # it is there
    assert names[0] == {"$unreplayable": {"type": f"{__name__}:Lying", "attributes": {"size": 4}}}
    assert names[7] == {
        "$unreplayable": {"type": f"{__name__}:Table", "attributes": {"name": "orders"}}
    }
    assert names[8]["$unreplayable"]["name"] == "builtins:int"  # type: ignore[index,call-overload]  # an object
    assert names[10]["$unreplayable"]["name"] == "types"  # type: ignore[index,call-overload]  # an object


def test_a_million_elements_come_back_from_both_stores(path: Path) -> None:
    value = list(range(1_000_000))
    _, (call,) = _recorded(path, [value])

    assert call.observation.value == value


def test_what_changes_after_the_call_stays_as_it_was_then(path: Path) -> None:
    tracekit.configure(store=path)
    order: dict[str, Any] = {"lines": [1], "paid": False, "at": dt.date(2026, 1, 1)}
    with tracekit.run(run_id="values"):
        got = give(order, 0)
        order["lines"].append(2)
        got["paid"] = True
    tracekit.configure(store=path.parent / "elsewhere")
    (call,) = open_store(path).trajectory("values").calls

    assert call.arguments == {
        "value": {"lines": [1], "paid": False, "at": "2026-01-01"},
        "number": 0,
    }


def test_what_threads_change_while_it_is_recorded_is_recorded_at_some_moment(path: Path) -> None:
    shared: dict[str, Any] = {"rows": [], "by": {}}
    over = threading.Event()

    def change() -> None:
        for number in itertools.count():
            shared["rows"].append((number, {number}))
            shared["by"][str(number % 50)] = [number]
            if number % 40 == 0:
                shared["rows"].clear()
                shared["by"].clear()
            if over.is_set():
                return

    threads = [threading.Thread(target=change) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        store, calls = _recorded(path, [shared] * 60)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert [call.observation.error_type for call in calls] == [None] * 60
    assert store.verify().sound

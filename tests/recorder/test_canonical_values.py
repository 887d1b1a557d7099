from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import fractions
import functools
import math
import pathlib
import sys
import uuid
import zoneinfo
from decimal import Decimal
from typing import Any, ClassVar, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, PrivateAttr

from tracekit.canonical import (
    Encoded,
    decode,
    digest,
    encode,
    json_bytes,
    parse_json,
    register_codec,
)
from tracekit.errors import NotReplayable


class Colour(enum.Enum):
    RED = 1
    BLUE = 2
    MIXED = (1, 2)


class Level(enum.IntEnum):
    LOW = 1


class Mode(enum.StrEnum):
    FAST = "fast"


class Right(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Order:
    amount: Decimal
    lines: list[Any] = dataclasses.field(default_factory=list)
    kind: ClassVar[str] = "order"

    @functools.cached_property
    def total(self) -> int:
        return len(self.lines)


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    z: int
    a: float

    def __post_init__(self) -> None:
        raise_if_rebuilt(self.z)


def raise_if_rebuilt(z: int) -> None:
    if z == 13 and FORBIDDEN:
        raise AssertionError("no user code runs when a value is rebuilt")


FORBIDDEN: list[bool] = []


class Point(NamedTuple):
    y: int
    x: float


class Ticket(BaseModel):
    model_config = ConfigDict(extra="allow")
    title: str
    due: dt.date | None = None
    _cache: dict[str, int] = PrivateAttr(default_factory=dict)


class Refused(Exception):
    def __init__(self, *, code: int) -> None:
        super().__init__(f"refused with {code}")
        self.code = code


EXACT: list[object] = [
    None,
    True,
    0,
    -0.0,
    0.0,
    42.0,
    2.0**60,
    -1e20,
    1e21,
    2**53,
    -(2**70),
    10**5000,
    math.inf,
    -math.inf,
    1e300,
    "",
    "é\x00",
    "lone \ud800 and \udfff",
    b"",
    b"\x00\xff",
    bytearray(b"x"),
    [],
    [1.0, -0.0, 2.5],
    [[1.0, 2.0], [3.0]],
    (),
    (1, (2, [3, ()])),
    {},
    {"b": 1.0, "a": [{"z": 1, "y": 2.0}, {"z": 3, "y": 4.0}]},
    {"\U0001f600": 1, "\ufb33": 2, "a": 3},
    {"/": {"~": 1.0}, "~1": (1,), "*": {"b": 1, "a": 2}, "~*": (2,), "~order": (3,)},
    {1: "a", 2: "b", 10: "c"},
    {10: "c", 9: "d"},
    {1: "a", "1": "b", 2.5: "c"},
    {None: 1},
    {1.5: 1, 0.5: 2},
    {False: 0, True: 1},
    {(1, 2): {3: 4}, (0,): 5},
    {dt.date(2020, 1, 1): 1},
    {"\ud800": 1},
    {"a\ud800": (1,)},
    {3, 1, 2},
    {(1, "a"), (1, "b")},
    frozenset({frozenset({1}), frozenset()}),
    collections.OrderedDict(b=1, a=2),
    collections.Counter("abca"),
    collections.defaultdict(list, {"a": [1]}),
    collections.deque([1, (2,)], maxlen=3),
    range(5, 1, -2),
    1 + 2j,
    complex(0.0, -0.0),
    ...,
    Decimal("1.10"),
    Decimal("-Infinity"),
    fractions.Fraction(1, 3),
    uuid.UUID(int=7),
    dt.date(2026, 11, 30),
    dt.datetime(2026, 11, 30, 1, 2, 3, 4),  # noqa: DTZ001  # naive times are values too
    dt.datetime(2026, 11, 30, tzinfo=dt.UTC),
    dt.datetime(2026, 11, 30, tzinfo=dt.timezone(dt.timedelta(hours=2))),
    dt.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
    dt.time(1, 2, 3, 4, fold=1),
    dt.timedelta(days=-1, microseconds=5),
    pathlib.Path("/etc/x"),
    pathlib.PureWindowsPath("c:/x"),
    pathlib.Path("/tmp/\udcff"),
    Colour.RED,
    Colour.MIXED,
    Level.LOW,
    Mode.FAST,
    Right.READ | Right.WRITE,
    Order(Decimal("1.0"), [Order(Decimal(2)), (1.0,)]),
    Slotted(1, 2.0),
    Point(1, 2.0),
    Ticket(title="x"),
    Ticket(title="x", due=dt.date(2026, 1, 1), owner="me"),  # type: ignore[call-arg]  # an extra
    {"mixed": [Colour.BLUE, {"at": dt.date(2026, 1, 1)}, ({1},)]},
]


def stored(encoded: Encoded) -> Encoded:
    """Take an encoded value through its stored text."""
    return dataclasses.replace(
        encoded,
        value=parse_json(json_bytes(encoded.value)),
        types=parse_json(json_bytes(dict(encoded.types))),  # type: ignore[arg-type]  # an object
    )


def same(left: Any, right: Any) -> bool:
    """Compare with type, order and sign of zero."""
    if isinstance(left, (set, frozenset)):
        return type(left) is type(right) and bool(left == right)
    if isinstance(left, int) and abs(left) > 10**4000:
        return type(left) is type(right) and left == right
    return type(left) is type(right) and repr(left) == repr(right) and bool(left == right)


@pytest.mark.parametrize("value", EXACT, ids=lambda value: type(value).__name__)
def test_a_value_comes_back_exactly_from_its_stored_text(value: object) -> None:
    encoded = encode(value)

    assert encoded.replayable
    assert encoded.problems == ()
    assert same(value, decode(encoded))
    assert same(value, decode(stored(encoded)))


def test_not_a_number_comes_back() -> None:
    back = decode(stored(encode([math.nan, {math.nan: 1}])))

    assert isinstance(back, list)
    assert math.isnan(back[0])
    assert math.isnan(next(iter(back[1])))


@pytest.mark.parametrize(
    "error",
    [
        KeyError("x"),
        FileNotFoundError(2, "no such file", "a.txt"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        ExceptionGroup("several", [ValueError(1.0), OSError(5, "io")]),
        Refused(code=7),
        StopIteration(3),
        SystemExit(4),
        TimeoutError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_exception_comes_back_with_its_type_arguments_and_text(error: BaseException) -> None:
    error.add_note("seen at noon")

    back = decode(stored(encode(error)))

    assert type(back) is type(error)
    assert isinstance(back, BaseException)
    assert str(back) == str(error)
    assert repr(back.args) == repr(error.args)
    assert back.__notes__ == ["seen at noon"]
    assert getattr(back, "code", None) == getattr(error, "code", None)
    assert getattr(back, "filename", None) == getattr(error, "filename", None)


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=4)
    | st.text(st.characters(categories=["Cs", "Ll"]), max_size=3)
    | st.binary(max_size=4)
    | st.decimals(allow_nan=False)
    | st.datetimes(timezones=st.none() | st.just(dt.UTC))
    | st.timedeltas()
    | st.sampled_from([Colour.RED, Level.LOW, Mode.FAST]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3) | st.integers() | st.floats(), inner, max_size=3)
        | st.builds(Order, st.just(Decimal(1)), st.lists(inner, max_size=2))
        | st.sets(st.integers() | st.text(max_size=3), max_size=3)
    ),
    max_leaves=10,
)


@given(VALUES)
def test_any_nesting_of_known_types_comes_back(value: object) -> None:
    back = decode(stored(encode(value)))

    # Sets print in any order, so the values are compared by what they encode to.
    assert encode(back) == encode(value)
    assert type(back) is type(value)


@given(VALUES)
def test_the_view_is_plain_json_and_survives_its_text(value: object) -> None:
    encoded = encode(value)

    assert digest(parse_json(json_bytes(encoded.value))) == digest(encoded.value)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.datetime(2026, 1, 2, tzinfo=dt.UTC)),
        (Decimal("1.10"), Decimal("1.1")),
        (Colour.RED, Colour.BLUE),
        (b"a", b"b"),
        ({1}, {2}),
        (Order(Decimal(1)), Order(Decimal(2))),
        (ValueError("a"), ValueError("b")),
        (2**60, 2**60 + 1),
    ],
)
def test_two_values_that_differ_have_two_digests(left: object, right: object) -> None:
    assert digest(encode(left).value) != digest(encode(right).value)
    assert digest(encode([left]).value) != digest(encode([right]).value)


def test_equal_sets_and_mappings_have_one_digest_in_any_order() -> None:
    colliding = [0, 2**61 - 1, 2 * (2**61 - 1)]  # one hash, so that the order in the set differs

    backwards: set[int] = set()
    for number in reversed(colliding):
        backwards.add(number)
    assert encode(set(colliding)).value == encode(backwards).value
    assert digest(encode({(1,): "a", (2,): "b"}).value) == digest(
        encode({(2,): "b", (1,): "a"}).value
    )


def test_a_rebuilt_value_is_new_and_runs_no_user_code() -> None:
    encoded = encode({"order": Slotted(13, 1.0), "lines": [1]})
    FORBIDDEN.append(True)
    try:
        first, second = decode(encoded), decode(encoded)
    finally:
        FORBIDDEN.clear()

    assert isinstance(first, dict)
    first["lines"].append(2)
    assert second == {"order": Slotted(13, 1.0), "lines": [1]}
    assert encoded.value == {"order": {"z": 13, "a": 1.0}, "lines": [1]}


def test_what_is_encoded_does_not_follow_later_changes() -> None:
    messages = [{"role": "user", "parts": ["a"]}]
    order = Order(Decimal(1), [messages])

    plain, held = encode(messages), encode(order)
    messages[0]["parts"].append("b")  # type: ignore[attr-defined]  # a list
    messages.append({})

    assert plain.value == [{"role": "user", "parts": ["a"]}]
    assert held.value == {"amount": "1", "lines": [[{"role": "user", "parts": ["a"]}]]}


def test_a_computed_property_is_no_part_of_a_value() -> None:
    fresh, used = Order(Decimal(1)), Order(Decimal(1))
    assert used.total == 0

    assert encode(fresh) == encode(used)


def test_numpy_arrays_and_scalars_come_back() -> None:
    numpy = pytest.importorskip("numpy")
    values = [
        numpy.arange(6, dtype="<f4").reshape(2, 3),
        numpy.array([], dtype="<i8"),
        numpy.array(True),
        numpy.array([1 + 2j]),
        numpy.array(["a", "bc"]),
        numpy.array([["ä", "x\0y"], ["", "日本"]], dtype=">U5"),
        numpy.array([b"a", b"\xff\0b"]),
        numpy.array([], dtype="<U3"),
        numpy.array("alone"),
        numpy.array(["half \ud800"]),
        numpy.array(["2026-01-01"], dtype="datetime64[D]"),
        numpy.asfortranarray(numpy.eye(2)),
    ]
    for value in values:
        back: Any = decode(stored(encode(value)))
        assert back.dtype == value.dtype
        assert back.shape == value.shape
        assert back.tobytes() == value.tobytes()
    for scalar in [
        numpy.float32(1.1),
        numpy.float64(-0.0),
        numpy.float64("nan"),
        numpy.int8(-3),
        numpy.bool_(True),
        numpy.complex64(1j),
        numpy.datetime64("2026-01-01"),
    ]:
        back = decode(stored(encode({"x": scalar})))["x"]  # type: ignore[index]  # a dict
        assert type(back) is type(scalar)
        assert back.tobytes() == scalar.tobytes()
    assert not encode(numpy.array([object()])).replayable


def test_encoding_loads_no_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "numpy", raising=False)

    encode({"a": object(), "b": (1,)})

    assert "numpy" not in sys.modules


class Session:
    def __init__(self, name: str) -> None:
        self.name = name


def test_a_registered_codec_keeps_a_class_of_the_user() -> None:
    register_codec(
        Session, lambda s: {"name": s.name, "at": (1,)}, lambda v: Session(v["name"]), name="s"
    )

    encoded = stored(encode([Session("a")]))
    back = decode(encoded)

    assert encoded.value == [[{"at": [1], "name": "a"}]]
    assert isinstance(back, list)
    assert isinstance(back[0], Session)
    assert back[0].name == "a"


@pytest.mark.parametrize(
    "tag",
    [
        ["dataclass", "os:system"],
        ["dataclass", "subprocess:Popen"],
        ["exception", "not_imported_anywhere:Error"],
        ["enum", "tracekit.canonical:encode", "value"],
        ["dataclass", 5],
        "unknown-type",
        ["pydantic", "builtins:int", [], []],
        7,
        [],
    ],
)
def test_stored_data_cannot_name_code_to_run_or_import(tag: Any) -> None:
    before = set(sys.modules)

    with pytest.raises(NotReplayable):
        decode(Encoded({"args": ["true"]}, {"": tag}))

    assert set(sys.modules) == before


def test_a_view_that_no_longer_fits_its_tag_is_refused() -> None:
    encoded = encode({"price": Decimal("1.10")})
    redacted = dataclasses.replace(encoded, value={"price": "<redacted>"})

    with pytest.raises(NotReplayable, match="/price"):
        decode(redacted)


def test_what_was_taken_out_of_a_value_is_not_missed() -> None:
    encoded = encode({"at": {"b": dt.date(2026, 1, 1)}, "lines": [(1,), (2,)], "n": 1})
    reduced = dataclasses.replace(encoded, value={"lines": [[1]], "n": 1, "at": 5})

    assert decode(reduced) == {"lines": [(1,)], "n": 1, "at": 5}


def test_plain_json_needs_no_types() -> None:
    assert encode({"b": [1.0, {"z": None, "a": True}], "a": "x"}).types == {}
    assert encode(({},)).types == {"": "tuple"}

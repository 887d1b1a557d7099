from __future__ import annotations

import dataclasses
import gc
import io
import socket
import subprocess
import sys
import threading
import time
import weakref
from typing import Any, NoReturn

import pytest

from tracekit.canonical import (
    MAX_DEPTH,
    MAX_ELEMENTS,
    Encoded,
    canonical_bytes,
    decode,
    digest,
    encode,
    register_codec,
)
from tracekit.errors import NotReplayable


@dataclasses.dataclass
class Node:
    child: Any = None


class Hostile:
    """Refuses everything that one may ask of an object."""

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise SystemExit("you asked")

    __repr__ = __str__ = __eq__ = __hash__ = __len__ = __iter__ = __bool__ = _refuse
    __getattr__ = __getattribute__ = __reduce_ex__ = __format__ = __deepcopy__ = _refuse
    __dict__ = __class__ = property(_refuse)


def make_class_of_hostile_metaclass() -> Any:
    class HostileMeta(type):
        def __getattribute__(cls, name: str) -> Any:
            raise RuntimeError(name)

        def __hash__(cls) -> int:
            raise RuntimeError("hash")

    # pytest looks at what a module holds, so this class lives in a function.
    return HostileMeta("OfHostileMeta", (), {})


class Gateway:
    """An ordinary class, neither dataclass nor model."""

    def __init__(self, amount: int, **more: object) -> None:
        self.amount = amount
        self._token = "hidden"
        self.lock = threading.Lock()
        self.__dict__.update(more)

    @property
    def expensive(self) -> NoReturn:
        raise AssertionError("encoding asks no property")


class WordList(list[str]):
    pass


class Name(str):
    __slots__ = ("origin",)


class BrokenText(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def describe_type(encoded: Encoded) -> object:
    assert isinstance(encoded.value, dict)
    facts = encoded.value["$unreplayable"]
    assert isinstance(facts, dict)
    return facts["type"]


def assert_described(encoded: Encoded) -> None:
    assert not encoded.replayable
    assert encoded.problems
    canonical_bytes(encoded.value)
    with pytest.raises(NotReplayable):
        decode(encoded)


def test_a_cyclic_dataclass_is_described_within_ten_milliseconds() -> None:
    node = Node()
    node.child = node

    def measure() -> float:
        started = time.perf_counter()
        encode({"node": node})
        return time.perf_counter() - started

    encoded = encode({"node": node})
    spent = min(measure() for _ in range(5))

    assert_described(encoded)
    assert encoded.value == {
        "node": {"child": {"$unreplayable": {"type": f"{__name__}:Node", "cycle": True}}}
    }
    assert encoded.problems == (f"{__name__}:Node at /node/child: it contains itself",)
    assert spent < 0.010


def test_cycles_of_every_kind_are_described() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    table: dict[str, Any] = {}
    table["self"] = (table,)
    wide: list[Any] = []
    wide.extend([wide] * 100)

    for value in (ring, table, wide):
        assert_described(encode(value))


def test_a_value_seen_twice_is_no_cycle() -> None:
    shared = [1, (2,)]

    assert decode(encode([shared, shared])) == [shared, shared]


def test_depth_ends_in_a_description_and_never_in_a_recursion_error() -> None:
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    tuples: Any = ()
    for _ in range(100_000):
        tuples = (tuples,)
    sets: Any = frozenset()
    for _ in range(5_000):
        sets = frozenset({sets})
    keys: Any = ()
    for _ in range(1_000):
        keys = ({"k": keys},)

    for value in (deep, tuples, sets, keys, Node(deep)):
        assert_described(encode(value))


def test_values_as_deep_as_allowed_come_back() -> None:
    value: Any = (1.0,)
    for _ in range(MAX_DEPTH - 2):
        value = [value]

    assert decode(encode(value)) == value


def test_a_deep_stack_of_the_agent_is_no_reason_to_fail() -> None:
    value: Any = (1,)
    for _ in range(150):
        value = (value,)

    def descend(left: int) -> Encoded:
        return descend(left - 1) if left else encode(value)

    assert decode(descend(sys.getrecursionlimit() - 200)) == value


def test_a_million_elements_are_kept_and_more_than_the_limit_described() -> None:
    million = list(range(1_000_000))

    assert encode(million).value == million
    huge = encode([0] * (MAX_ELEMENTS + 1))
    assert_described(huge)
    assert huge.value == {"$unreplayable": {"type": "builtins:list", "size": MAX_ELEMENTS + 1}}


def test_shared_parts_cannot_blow_up_a_value() -> None:
    bomb: Any = (1,)
    for _ in range(60):
        bomb = (bomb, bomb)

    assert_described(encode(bomb))


@pytest.mark.parametrize(
    "make",
    [
        lambda: (number for number in range(3)),
        lambda: io.BufferedReader(io.BytesIO(b"x")),
        threading.Lock,
        object,
        Hostile,
        lambda: type.__call__(make_class_of_hostile_metaclass()),
        lambda: Hostile,
        make_class_of_hostile_metaclass,
        lambda: print,
        lambda: sys,
        lambda: memoryview(b"abcd").cast("I"),
        lambda: NotImplemented,
        lambda: weakref.ref(Node),
        lambda: Gateway(1),
    ],
)
@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: [v], lambda v: ({"a": v},), Node])
def test_what_cannot_be_kept_is_described_wherever_it_stands(make: Any, wrap: Any) -> None:
    assert_described(encode(wrap(make())))


def test_an_open_file_and_a_socket_are_described_and_left_open() -> None:
    with open(__file__) as file, socket.socket() as connection:
        assert describe_type(encode(file)) == "_io:TextIOWrapper"
        assert describe_type(encode(connection)) == "socket:socket"
        assert file.read(4) == "from"
        assert connection.fileno() >= 0


def test_a_generator_is_not_consumed() -> None:
    numbers = (number for number in range(3))

    encode({"numbers": numbers})

    assert list(numbers) == [0, 1, 2]


def test_objects_that_differ_in_a_public_value_have_two_digests() -> None:
    first, second = encode(Gateway(42)), encode(Gateway(4200))

    assert digest(first.value) != digest(second.value)
    assert first.value == {
        "$unreplayable": {"type": f"{__name__}:Gateway", "attributes": {"amount": 42}}
    }
    assert digest(first.value) == digest(encode(Gateway(42, _calls=7)).value)


def test_a_class_inside_a_function_keeps_its_fields_but_does_not_come_back() -> None:
    @dataclasses.dataclass
    class Local:
        amount: int

    encoded = encode(Local(42))

    assert encoded.value == {"amount": 42}
    assert_described(encoded)


def test_a_class_of_a_script_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Node, "__module__", "__main__")

    assert_described(encode(Node()))


@pytest.mark.parametrize(
    ("value", "view"), [(WordList(["a"]), ["a"]), (Name("a"), "a"), (type("N", (int,), {})(5), 5)]
)
def test_a_subclass_of_a_builtin_keeps_its_plain_value(value: object, view: object) -> None:
    encoded = encode(value)

    assert encoded.value == view
    assert_described(encoded)


def test_an_exception_with_a_broken_text_is_kept() -> None:
    encoded = encode(BrokenText(1))

    assert isinstance(encoded.value, dict)
    assert encoded.value["message"] == "<ValueError in __str__>"
    assert isinstance(decode(encoded), BrokenText)


def test_a_codec_that_fails_is_a_problem_and_no_error() -> None:
    class Broken:
        pass

    def fail(_value: object) -> NoReturn:
        raise SystemExit("codec")

    register_codec(Broken, fail, fail, name="broken")
    assert_described(encode([Broken()]))

    class Endless:
        pass

    register_codec(Endless, lambda value: [Endless()], fail, name="endless")
    assert_described(encode(Endless()))


def test_encoding_keeps_no_reference() -> None:
    node = Node([object()])
    gone = weakref.ref(node)
    encoded = encode([node, (node,)])

    del node
    gc.collect()

    assert gone() is None
    assert not encoded.replayable


def test_a_value_that_changes_in_another_thread_is_still_encoded() -> None:
    shared: dict[str, Any] = {str(number): (number,) for number in range(200)}
    done = threading.Event()

    def change() -> None:
        number = 0
        while not done.is_set():
            number += 1
            shared[f"x{number % 500}"] = [number]
            shared.pop(f"x{(number * 7) % 500}", None)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        results = [encode(shared) for _ in range(200)]
    finally:
        done.set()
        thread.join()

    assert all(result.replayable for result in results)


def test_a_thousand_records_are_encoded_within_a_few_milliseconds() -> None:
    records = [
        {"id": number, "name": "x" * 100, "score": 0.5, "tags": ["a", "b"], "text": "y" * 60}
        for number in range(1_000)
    ]

    def measure() -> float:
        started = time.perf_counter()
        digest(encode({"records": records}).value)
        return time.perf_counter() - started

    assert min(measure() for _ in range(10)) < 0.020


def test_importing_the_encoder_loads_nothing_heavy() -> None:
    code = (
        "import sys, tracekit.canonical, tracekit.conditions, tracekit.jsontree\n"
        "heavy = {'duckdb', 'pyarrow', 'click', 'numpy', 'opentelemetry.sdk', 'replay'}\n"
        "sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )

    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert (result.returncode, result.stderr) == (0, "")

"""Whose call it is: what a tool that is a method or a closure records of its object."""

from __future__ import annotations

import asyncio
import dataclasses
import decimal
import enum
import functools
import gc
import pathlib
import uuid
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import pydantic
import pytest

import tracekit
from tests.recorder.receivers_kit import Account, a, told, writes
from tests.recorder.record_kit import recording
from tracekit.contract import Contract
from tracekit.errors import ContractError


class Savings(Account):
    @writes
    def pay(self, amount: int) -> int:
        return super().pay(amount)


def test_a_method_records_the_class_and_the_fields_that_identify_its_object() -> None:
    assert told(lambda: Account("A").pay(10)) == [{"self": a(), "amount": 10}]
    assert told(lambda: Account("A").unusual(amount=10)) == [{"this": a(), "amount": 10}]
    assert told(lambda: Account("B").balance) == [{"self": a("B")}]
    assert told(lambda: Account("A").ten()) == [{"self": a(), "amount": 10}]
    assert told(lambda: Account("A")(3)) == [{"self": a(), "amount": 3}]
    assert told(lambda: Account.pay(Account("A"), 1)) == [{"self": a(), "amount": 1}]
    assert told(lambda: asyncio.run(Account("A").later(1))) == [{"self": a(), "amount": 1}]
    assert told(lambda: list(Account("A").pages())) == [{"self": a()}]


def test_inherited_methods_overrides_and_class_methods_name_the_class_of_the_object() -> None:
    whose = {"self": a("S", "Savings"), "amount": 4}
    assert told(lambda: Savings("S").pay(4)) == [whose, whose]
    assert told(lambda: Savings.wipe(1)) == [{"cls": {"class": "Savings"}, "x": 1}]
    assert told(lambda: Account.wipe(1)) == [{"cls": {"class": "Account"}, "x": 1}]


def test_the_first_argument_of_a_static_method_is_an_argument_whatever_it_is() -> None:
    (given,) = told(lambda: Account.moved("A", 4))
    assert given == {"source": "A", "amount": 4}
    (given,) = told(lambda: Account.moved(Account("A"), 4))
    assert "class" not in given["source"]


def test_a_plain_function_keeps_a_parameter_that_is_called_self_or_cls() -> None:
    @writes
    def wire(cls: str, amount: int) -> int:
        return amount

    @writes
    def note(self: str) -> str:
        return self

    assert told(lambda: (wire("bonds", 1), note("n"))) == [
        {"cls": "bonds", "amount": 1},
        {"self": "n"},
    ]
    contract: Contract = vars(wire)["__tracekit__"].contract
    assert [(p.name, p.kind) for p in contract.parameters or ()] == [
        ("cls", "either"),
        ("amount", "either"),
    ]
    assert not contract.receivers


def test_a_function_that_was_put_into_a_class_is_a_method_of_it() -> None:
    @writes
    def close(self: Any, why: str) -> str:
        return why

    class Ticket:
        def __init__(self, number: int) -> None:
            self.number = number

    Ticket.close = close  # type: ignore[attr-defined]  # put there by hand
    assert told(lambda: Ticket(7).close("done")) == [  # type: ignore[attr-defined]  # as above
        {"self": {"class": "Ticket", "number": 7}, "why": "done"}
    ]


def test_bound_methods_callable_objects_and_partials_are_somebodys() -> None:
    class Plain:
        def __init__(self, iban: str) -> None:
            self.iban = iban

        def send(self, amount: int) -> int:
            return amount

        def __call__(self, amount: int) -> int:
            return amount

    def send(iban: str, amount: int) -> int:
        return amount

    whose = {"class": "Plain", "iban": "P"}
    assert told(lambda: writes(Plain("P").send)(1)) == [{"self": whose, "amount": 1}]
    assert told(lambda: writes(Plain("P"))(2)) == [{"self": whose, "amount": 2}]
    assert told(lambda: writes(functools.partial(Plain.send, Plain("P")))(3)) == [
        {"self": whose, "amount": 3}
    ]
    assert told(lambda: writes(functools.partial(send, "Q"))(4)) == [
        {"nonlocal": {"iban": "Q"}, "amount": 4}
    ]


def test_a_closure_records_the_variables_that_tell_it_from_another() -> None:
    def maker(iban: str, client: object, rate: float) -> Any:
        count = 0

        @writes
        def settle(amount: int) -> str:
            nonlocal count
            count += 1
            return f"{iban} {client} {rate} {count}"

        return settle

    settle = maker("A", object(), 0.5)
    assert told(lambda: (settle(1), settle(2), maker("B", 1, 0.5)(1))) == [
        {"nonlocal": {"iban": "A", "count": 0}, "amount": 1},
        {"nonlocal": {"iban": "A", "count": 0}, "amount": 2},
        {"nonlocal": {"iban": "B", "client": 1, "count": 0}, "amount": 1},
    ]


def test_what_the_agents_code_changes_counts_and_what_a_body_changes_does_not() -> None:
    account = Account("A")

    def moves_on() -> None:
        account.pay(1)
        account.pay(2)
        account.iban = "B"
        account.pay(3)
        list(account.pages())
        asyncio.run(account.later(5))
        account.pay(6)

    assert [given["self"] for given in told(moves_on)] == [a(), a(), *[a("B")] * 4]
    assert account.calls == 6
    # The next run finds the same object, and a replay of it a new one.
    assert told(lambda: account.pay(1)) == [{"self": a("B"), "amount": 1}]


def test_a_body_that_fails_has_changed_its_object_as_well() -> None:
    class Shaky:
        def __init__(self) -> None:
            self.tries = 0

        @writes
        def act(self) -> None:
            self.tries += 1
            raise OSError("no")

    def twice() -> None:
        shaky = Shaky()
        for _ in range(2):
            with pytest.raises(OSError, match="no"):
                shaky.act()

    assert told(twice) == [{"self": {"class": "Shaky", "tries": 0}}] * 2


class Colour(enum.Enum):
    RED = "red"

    @writes
    def paint(self) -> str:
        return self.value


class Iban(str):
    __slots__ = ()

    @writes
    def charge(self) -> str:
        return str(self)


class Row(NamedTuple):
    key: str
    many: list[int]

    @writes
    def drop(self) -> str:
        return self.key


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    iban: str
    traced: str = dataclasses.field(default="t", compare=False)

    @writes
    def go(self) -> str:
        return self.iban


class Slotted:
    __slots__ = ("iban", "never")

    def __init__(self, iban: str) -> None:
        self.iban = iban

    @writes
    def go(self) -> str:
        return self.iban


class Model(pydantic.BaseModel):
    iban: str
    tags: list[str] = []
    _inner: str = pydantic.PrivateAttr("i")

    @writes
    def go(self) -> str:
        return self.iban


class Meta(type):
    @writes
    def make(cls, x: int) -> int:
        return x


class Made(metaclass=Meta):
    pass


@pytest.mark.parametrize(
    ("call", "whose"),
    [
        (lambda: Colour.RED.paint(), {"class": "Colour", "name": "RED"}),
        (lambda: Iban("DE1").charge(), {"class": "Iban", "value": "DE1"}),
        (lambda: Row("k", [1]).drop(), {"class": "Row", "key": "k"}),
        (lambda: Frozen("F").go(), {"class": "Frozen", "iban": "F"}),
        (lambda: Slotted("S").go(), {"class": "Slotted", "iban": "S"}),
        (lambda: Model(iban="M").go(), {"class": "Model", "iban": "M", "_inner": "i"}),
    ],
)
def test_objects_of_every_make_are_told_apart(
    call: Callable[[], object], whose: dict[str, Any]
) -> None:
    assert told(call) == [{"self": whose}]


def test_a_method_of_a_metaclass_belongs_to_the_class_that_it_is_called_on() -> None:
    assert told(lambda: Made.make(1)) == [{"cls": {"class": "Made"}, "x": 1}]


def test_fields_are_text_numbers_days_and_ids_and_long_ones_are_kept_by_digest() -> None:
    class Many:
        def __init__(self) -> None:
            self.yes, self.none, self.amount = True, None, decimal.Decimal("4.20")
            self.id, self.path = uuid.UUID(int=5), pathlib.Path("/a")
            self.kind, self.big, self.raw = Colour.RED, 2**70, b"x"
            self.long = "word " * 200
            self.real, self.things, self.call = 1.5, {"a": 1}, print

        @functools.cached_property
        def computed(self) -> str:
            return "c"

        @writes
        def go(self) -> str:
            return self.computed

    ((given,),) = [[one["self"] for one in told(lambda: Many().go())]]
    assert given.pop("long").startswith("sha256:")
    assert given == {
        "class": "Many",
        "yes": True,
        "none": None,
        "amount": "4.20",
        "id": str(uuid.UUID(int=5)),
        "path": "/a",
        "kind": "red",
        "big": given["big"],
        "raw": given["raw"],
    }


def test_a_secret_of_an_object_is_taken_out_like_one_of_an_argument() -> None:
    class Client:
        def __init__(self) -> None:
            self.password = "correct-horse-battery"

        @writes
        def go(self) -> str:
            return "ok"

    ((given,),) = [[one["self"] for one in told(lambda: Client().go())]]
    assert "correct" not in given["password"]


def test_a_tool_declares_which_fields_say_whose_its_calls_are() -> None:
    class Box:
        def __init__(self, iban: str) -> None:
            self.iban, self.session_name = iban, "s-1"

        @tracekit.tool(effect="write", receiver=["iban"])
        def named(self) -> int:
            return 1

        @tracekit.tool(effect="write", receiver=["class"])
        def of_its_class(self) -> int:
            return 1

        @tracekit.tool(effect="write", receiver=())
        def anybodys(self) -> int:
            return 1

        @tracekit.tool(effect="write", receiver=["misspelt"])
        def misspelt(self) -> int:
            return 1

    box = Box("A")
    assert [
        one["self"] for one in told(lambda: (box.named(), box.of_its_class(), box.misspelt()))
    ] == [
        {"iban": "A"},
        {"class": "Box"},
        {"class": "Box", "iban": "A", "session_name": "s-1"},
    ]
    assert told(box.anybodys) == [{}]


def test_a_receiver_that_a_function_cannot_have_is_refused() -> None:
    with pytest.raises(ContractError, match="'ibna'"):

        @tracekit.tool(effect="write", receiver=["ibna"])
        def settle(amount: int) -> int:
            return amount


def test_a_call_that_does_not_fit_leaves_its_object_out() -> None:
    def misfit() -> None:
        with pytest.raises(TypeError):
            Account("A").pay()  # type: ignore[call-arg]  # what is asked

    assert told(misfit) == [{"args": [], "kwargs": {}}]


def test_a_key_is_computed_from_the_arguments_alone() -> None:
    keyed: list[dict[str, Any]] = []

    class Box:
        iban = "A"

        @tracekit.tool(effect="write", idempotency_key=lambda given: str(keyed.append(given)))
        def act(self, order: str) -> str:
            return order

    told(lambda: Box().act("o"))
    assert keyed == [{"order": "o"}]


def test_an_agent_that_is_a_method_has_its_arguments_as_input_and_a_function_keeps_cls() -> None:
    class Desk:
        @tracekit.agent
        def work(self, question: str) -> str:
            return question

    @tracekit.agent
    def run(cls: str) -> str:
        return cls

    for call, expected in (
        (lambda: Desk().work("q"), {"question": "q"}),
        (lambda: run("c"), {"cls": "c"}),
    ):
        with recording() as recorded:
            call()
        assert recorded.argument(recorded.row("run")) == expected


def test_no_object_is_kept_alive() -> None:
    def goes() -> weakref.ref[Account]:
        account = Account("A")
        told(lambda: account.pay(1))
        return weakref.ref(account)

    gone = goes()
    gc.collect()
    assert gone() is None


def test_neither_properties_nor_hooks_of_the_class_run() -> None:
    class Hostile:
        def __init__(self) -> None:
            self.iban = "H"

        def __getattribute__(self, name: str) -> Any:
            if name in ("iban", "__dict__", "__class__"):
                raise AssertionError("nobody may ask")
            return object.__getattribute__(self, name)

        def __eq__(self, other: object) -> bool:
            raise AssertionError("nobody may compare")

        __hash__ = None  # type: ignore[assignment]  # it cannot be hashed either

        @writes
        def go(self) -> str:
            return "ok"

    hostile = Hostile()
    assert (
        told(lambda: (hostile.go(), hostile.go()))
        == [{"self": {"class": "Hostile", "iban": "H"}}] * 2
    )


def test_functions_that_are_nobodys_are_called_on_the_short_way() -> None:
    from tracekit.receivers import LeftOut, Whose

    def plain(a: int) -> int:
        return a

    def made() -> Callable[[int], object]:
        client = object()

        def inner(a: int) -> object:
            return client

        return inner

    for function in (plain, made(), len):
        assert not Whose(function, None, lambda _place, _name, value: value)
        assert not LeftOut(function)


def test_a_class_that_forbids_to_be_hashed_or_compared_is_looked_at_all_the_same() -> None:
    class Odd(type):
        __hash__ = None  # type: ignore[assignment]  # that is what is odd

        def __eq__(cls, other: object) -> bool:
            raise AssertionError("nobody may compare")

    class Strange(metaclass=Odd):
        def __init__(self, iban: str, other: object = None) -> None:
            self.iban, self.other = iban, other

        @writes
        def go(self) -> str:
            return "ok"

    strange = Strange("A", Strange("B"))
    assert (
        told(lambda: (strange.go(), strange.go()))
        == [{"self": {"class": "Strange", "iban": "A"}}] * 2
    )

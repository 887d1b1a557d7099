"""Whose call it is where looking is hard: odd objects, secrets, bodies under way, big objects.

Of bodies that wait see ``test_receivers_waiting``.
"""

from __future__ import annotations

import contextlib
import contextvars
import copy
import datetime as dt
import decimal
import gc
import pathlib
import threading
import uuid
from collections.abc import Callable
from typing import Any

import pydantic
import pytest

import tracekit
from tests.recorder.receivers_kit import Account, a, told, writes
from tests.recorder.record_kit import recording
from tracekit import receivers, telling
from tracekit.canonical import Encoded, encode
from tracekit.receivers import Method
from tracekit.telling import Body, Met
from tracekit.watching import Watched


class Asked(dt.tzinfo):
    def utcoffset(self, moment: dt.datetime | None) -> Any:
        raise AssertionError("nobody may ask")

    dst = tzname = utcoffset


class Loads(pydantic.BaseModel):
    x: int = 1

    def __init__(self, **given: Any) -> None:
        super().__init__(x=self.load(5), **given)

    @writes
    def load(self, n: int) -> int:
        return n


class Odd(tuple[int, ...]):
    _fields = 5

    @writes
    def go(self) -> str:
        return "ok"


def holding(**fields: Any) -> Any:
    class Holds:
        def __init__(self) -> None:
            vars(self).update(fields)

        @writes
        def go(self) -> str:
            return "ok"

        @tracekit.tool(effect="read", receiver=["class", "note", "password", "access_token"])
        def speak(self) -> str:
            said: str = self.says  # type: ignore[attr-defined]  # where a test has put it
            return said

    return Holds()


def test_an_object_that_is_hard_to_look_at_costs_fields_and_no_call() -> None:
    keyed = holding(iban="A")
    keyed.__dict__[1] = "x"
    zoned = holding(
        iban="A", at=dt.datetime(2026, 1, 1, tzinfo=Asked()), utc=dt.time(tzinfo=dt.UTC)
    )
    half = holding(iban="A", id=object.__new__(uuid.UUID))
    path = holding(iban="A", path=object.__new__(type("Path", (pathlib.PurePosixPath,), {})))
    for odd, fields in ((keyed, 1), (zoned, 2), (half, 2), (path, 1)):
        for given in told(lambda odd=odd: (odd.go(), odd.go())):  # type: ignore[misc]  # bound here
            assert given["self"]["iban"] == "A"
            assert len(given["self"]) == 1 + fields
    assert told(lambda: Odd((1,)).go()) == [{"self": {"class": "Odd"}}]
    assert told(Loads) == [{"self": {"class": "Loads"}, "n": 5}]


@pytest.mark.parametrize("base", [object, dict])
def test_a_class_that_says_something_else_as_its_dict_keeps_its_fields(base: type) -> None:
    class Hides(base):
        def __init__(self) -> None:
            self.iban = "A"

        @property
        def __dict__(self) -> Any:  # type: ignore[override]  # that is what is odd
            raise AssertionError("nobody may ask")

        @writes
        def go(self) -> str:
            return "ok"

    assert told(lambda: Hides().go()) == [{"self": {"class": "Hides", "iban": "A"}}]


def test_a_number_that_cannot_be_compared_is_the_same_as_long_as_it_is_written_the_same() -> None:
    odd = holding(rate=decimal.Decimal("sNaN"))

    def calls() -> None:
        for rate in ("sNaN", "1.0", "1.00"):
            odd.rate = decimal.Decimal(rate)
            odd.go()

    assert [one["self"]["rate"] for one in told(calls)] == ["sNaN", "1.0", "1.00"]


def test_what_fails_in_looking_leaves_the_object_as_it_was_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = Account("A")

    def fails(obj: object) -> Any:
        raise RecursionError("no room on the stack")

    def calls() -> None:
        known.pay(1)
        monkeypatch.setattr(telling, "state_of", fails)
        known.pay(2)
        Account("B").pay(3)
        monkeypatch.setattr(Method, "owns", fails)
        known.pay(4)
        monkeypatch.undo()
        known.pay(5)

    alone = {"class": "Account"}
    # Two bodies could not be watched: what they changed counts as the agent's.
    after = {**a(), "calls": 3}
    assert [one["self"] for one in told(calls)] == [a(), a(), alone, alone, after]


def test_a_helper_that_wraps_itself_is_followed_once() -> None:
    class Sub(Account):
        def helper(self) -> int:
            return 2

    Sub.helper.__wrapped__ = Sub.helper  # type: ignore[attr-defined]  # Python does not mind
    assert told(lambda: Sub("A").pay(1)) == [{"self": a(cls="Sub"), "amount": 1}]


@pytest.mark.parametrize("secret", ["k" * 5 + "7x" * 300, b"k" * 5 + b"7x" * 40])
def test_a_long_secret_of_an_object_is_known_in_what_its_tools_say(secret: Any) -> None:
    said = secret if isinstance(secret, str) else secret.decode()
    holds = holding(access_token=secret, password=secret, note="word " * 200)
    for _ in range(2):  # what was written of it for one run holds for the next
        with recording() as recorded:
            for in_a_run in (True, False):
                with tracekit.run() if in_a_run else contextlib.nullcontext():
                    holds.says = f"signed in with {said} as bob"
                    holds.go()
                    holds.speak()
        kept = str(recorded.sink.blobs)
        assert "signed in" in kept
        assert said not in kept
        spoken = [recorded.observation(row) for row in recorded.rows("tool_call")]
        assert sum("signed in" in one for one in spoken) == 2
        given = [recorded.argument(row)["self"] for row in recorded.rows("tool_call")]
        assert all(one["note"].startswith("sha256:") for one in given)


def test_a_long_secret_of_a_closure_is_known_in_what_it_says() -> None:
    def make(api_token: str) -> Any:
        @tracekit.tool(effect="read")
        def who(n: int) -> str:
            return f"session {api_token} here"

        return who

    with recording() as recorded, tracekit.run():
        make("k7x" * 250)(1)
    kept = str(recorded.sink.blobs)
    assert "session" in kept
    assert "k7xk7x" not in kept
    assert "session" in recorded.observation(recorded.row())


# --- bodies that are running ----------------------------------------------------------------------


def ibans(make: Callable[[], object]) -> list[str]:
    return [given["self"]["iban"] for given in told(make) if "amount" in given]


def test_a_generator_that_waits_for_its_reader_changes_nothing() -> None:
    account = Account("A")

    def read() -> None:
        first, second = account.pages(), account.pages()
        next(first)
        next(second)
        account.iban = "B"
        account.pay(1)
        account.iban = "C"
        next(first)
        account.pay(2)
        account.iban = "D"
        first.close()
        del second
        account.pay(3)

    assert ibans(read) == ["B", "C", "D"]
    assert {given["self"]["calls"] for given in told(lambda: account.pay(4))} == {0}


def test_an_interrupt_around_a_body_leaves_no_body_running(monkeypatch: pytest.MonkeyPatch) -> None:
    account = Account("A")

    def interrupted(cls: type, name: str) -> None:
        def raises(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(cls, name, raises)
            with pytest.raises(KeyboardInterrupt):
                account.pay(0)

    def calls() -> None:
        account.pay(1)
        for place in ((Watched, "active"), (Met, "enter"), (Met, "leave")):
            interrupted(*place)
        gc.collect()
        account.iban = "B"
        account.pay(2)

    assert ibans(calls)[-1] == "B"


def test_what_bodies_of_several_threads_change_is_never_taken_for_the_agents() -> None:
    inside, leave = threading.Barrier(2), threading.Event()

    class Box:
        def __init__(self) -> None:
            self.iban, self.calls = "A", 0

        @writes
        def wait(self, amount: int) -> None:
            self.calls += 1
            inside.wait()
            leave.wait()
            self.calls += 1

        @writes
        def pay(self, amount: int) -> None:
            self.calls += 1

    box = Box()

    def calls() -> None:
        copied = contextvars.copy_context()
        thread = threading.Thread(target=copied.run, args=(box.wait, 1))
        thread.start()
        inside.wait()
        box.pay(2)
        box.pay(3)
        leave.set()
        thread.join()
        box.pay(4)

    assert [given["self"]["calls"] for given in told(calls)] == [0] * 4


def test_a_forked_process_has_only_the_bodies_of_the_thread_that_forked() -> None:
    account = Account("A")
    met, ours, theirs = telling.meet(account), Body(), Body()
    theirs.thread = -1
    met.enter(ours)
    met.enter(theirs)
    telling._turn.after_fork()
    account.iban = "B"
    assert met.look()["iban"] == "A"
    met.leave(ours)
    account.iban = "C"
    assert met.look()["iban"] == "C"


# --- limits ---------------------------------------------------------------------------------------


def test_of_a_table_the_first_fields_are_looked_at_and_of_a_document_nothing() -> None:
    table = holding(iban="A", **{f"f{number}": number for number in range(1000)})
    (given,) = told(table.go)
    assert list(given["self"])[:3] == ["class", "iban", "f0"]
    assert len(given["self"]) == 1 + 256
    document = holding(iban="A", text="x" * 70_000, raw=b"x" * 70_000)
    assert told(document.go) == [{"self": {"class": "Holds", "iban": "A"}}]


def test_what_was_written_of_an_object_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[object] = []

    def counted(value: object) -> Encoded:
        written.append(value)
        return encode(value)

    monkeypatch.setattr(receivers, "encode", counted)
    box = holding(iban="A", note="word " * 200)
    told(lambda: [box.go() for _ in range(5)])
    assert len(written) == 2


def test_what_another_objects_body_changes_is_told_apart_by_naming_what_identifies() -> None:
    class Client:
        def __init__(self) -> None:
            self.user, self.session = "bob", ""

        @tracekit.tool(effect="write", receiver=["user"])
        def pay(self) -> str:
            return "paid"

    class Desk:
        def __init__(self) -> None:
            self.client = Client()

        @tracekit.tool(effect="read")
        def login(self) -> None:
            self.client.session = "s-1"

    def calls() -> None:
        desk = Desk()
        desk.login()
        desk.client.pay()
        copy.copy(desk.client).pay()

    assert told(calls)[1:] == [{"self": {"user": "bob"}}] * 2

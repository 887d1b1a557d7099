"""An error comes back with what caused it, and says nothing of what its caller was doing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

import tracekit
from tests.recorder.record_kit import recording
from tracekit.canonical import Encoded, decode, encode, json_bytes, parse_json
from tracekit.errors import RecordedError


class Unavailable(Exception):
    def __init__(self, *, service: str) -> None:
        super().__init__(f"{service} is gone")
        self.service = service


def caught(fail: Callable[[], Any]) -> BaseException:
    with pytest.raises(BaseException) as raised:
        fail()
    return raised.value


def back(error: BaseException) -> Any:
    encoded = encode(error)
    assert encoded.replayable
    assert encoded.problems == ()
    return decode(dataclasses.replace(encoded, value=parse_json(json_bytes(encoded.value))))


def _explicit() -> None:
    try:
        raise Unavailable(service="db")
    except Unavailable as error:
        error.add_note("seen at noon")
        raise ValueError("no rows") from error


def _implicit() -> None:
    try:
        dict[str, int]()["rows"]
    except KeyError:
        raise ValueError("no rows")  # noqa: B904  # the context is what is tested


def _suppressed() -> None:
    try:
        dict[str, int]()["rows"]
    except KeyError:
        raise ValueError("no rows") from None


def test_a_cause_comes_back_with_its_class_state_and_notes() -> None:
    error = back(caught(_explicit))
    assert type(error.__cause__) is Unavailable
    assert (error.__cause__.service, str(error.__cause__)) == ("db", "db is gone")
    assert error.__cause__.__notes__ == ["seen at noon"]
    assert error.__suppress_context__


def test_a_context_comes_back_unless_it_was_suppressed() -> None:
    error = back(caught(_implicit))
    assert type(error.__context__) is KeyError
    assert error.__cause__ is None
    assert not error.__suppress_context__
    assert back(caught(_suppressed)).__context__ is None
    assert "context" not in str(encode(caught(_suppressed)).value)


def test_members_of_a_group_keep_their_causes() -> None:
    group = BaseExceptionGroup("several", [ValueError(1), caught(_explicit), caught(_implicit)])
    group.__cause__ = TimeoutError("slow")
    error = back(group)
    assert [type(one.__cause__) for one in error.exceptions] == [
        type(None),
        Unavailable,
        type(None),
    ]
    assert type(error.exceptions[2].__context__) is KeyError
    assert type(error.__cause__) is TimeoutError


def test_a_cause_that_cannot_be_kept_is_told_and_the_error_comes_back_all_the_same() -> None:
    class Local(Exception):
        pass

    error = ValueError("no rows")
    error.__cause__ = Local("of this function")
    cause = back(error).__cause__
    assert type(cause) is RecordedError
    assert cause.error_message == "of this function"
    assert cause.error_type.endswith("Local")


def test_a_long_chain_is_kept_to_ten_and_a_ring_is_cut() -> None:
    first = error = ValueError(0)
    for number in range(1, 50):
        error.__cause__ = ValueError(number)
        error = error.__cause__
    found, seen = back(first), 0
    while found is not None:
        found, seen = found.__cause__, seen + 1
    assert seen == 11
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert str(back(one).__cause__) == "two"


@tracekit.tool(effect="read")
def ask(service: str, *, wrap: bool = False) -> str:
    """Ask a service, which is not there."""
    try:
        raise Unavailable(service=service)
    except Unavailable as error:
        if wrap:
            raise RuntimeError("asked in vain") from error
        raise


def test_what_the_caller_was_handling_is_no_part_of_an_error() -> None:
    @tracekit.agent
    def stubborn() -> str:
        for _ in range(2):
            try:
                return ask("db")
            except Unavailable:
                try:
                    return ask("db")
                except Unavailable as again:
                    contexts.append(type(again.__context__))
        return "gave up"

    contexts: list[type] = []
    with recording() as recorded:
        assert stubborn() == "gave up"
    assert contexts == [Unavailable, Unavailable]
    rows = recorded.rows("tool_call")
    assert len(rows) == 4
    assert len({row.observation_digest for row in rows}) == 1


def test_a_tools_error_is_recorded_with_its_cause() -> None:
    with recording() as recorded, pytest.raises(RuntimeError):
        ask("db", wrap=True)
    row = recorded.row()
    kept = recorded.observation(row)
    assert kept["cause"]["message"] == "db is gone"
    error: Any = decode(Encoded(kept, row.observation_types and parse_json(row.observation_types)))  # type: ignore[arg-type]  # an object
    assert type(error.__cause__) is Unavailable


def test_what_caused_an_error_is_not_compared() -> None:
    def failing(port: int) -> None:
        try:
            raise ConnectionError(f"port {port}")
        except ConnectionError as error:
            raise TimeoutError("no answer") from error

    forms = []
    for port in (1, 2):
        with recording() as recorded, pytest.raises(TimeoutError):
            tracekit.tool(effect="read")(failing)(port)
        (call,) = recorded.trajectory().calls
        forms.append(call.observation.digest_form)
    assert forms[0] == forms[1]


def test_a_secret_in_a_cause_is_taken_out() -> None:
    @tracekit.tool
    def leak() -> None:
        try:
            raise ValueError("password=hunter2-hunter2-hunter2")
        except ValueError as error:
            raise RuntimeError("no") from error

    with recording() as recorded, pytest.raises(RuntimeError):
        leak()
    assert "hunter2" not in str(recorded.observation(recorded.row()))

"""Joining calls to what replies asked for: what it costs, and what it goes by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tracekit.canonical import JsonValue, json_text
from tracekit.decisions import Pending, requested
from tracekit.trajectory import Call, ModelCall, Observation


def _asked(group: int, *asked: tuple[str, Any], parent: str = "agent") -> Any:
    calls: list[JsonValue] = [
        {"function": {"name": tool, "arguments": json_text(args)}} for tool, args in asked
    ]
    reply = Observation({"role": "assistant", "tool_calls": calls}, "captured")
    return requested(ModelCall("", "", None, None, reply), group, parent=parent)


def _call(tool: str, **arguments: Any) -> Call:
    return Call("", "", tool, arguments, "read", Observation())


def _pending(*replies: Sequence[Any]) -> Pending:
    pending = Pending()
    for asked in replies:
        pending.replace(asked[0].parent, asked[0].group, asked)
    return pending


@pytest.mark.parametrize("backwards", [False, True])
def test_joining_the_calls_of_a_reply_looks_at_each_request_a_few_times_at_most(
    backwards: bool,
) -> None:
    many = 2000
    pending = _pending(_asked(0, *(("read", {"n": n}) for n in range(many))))
    order = list(range(many))[:: -1 if backwards else 1]
    taken = [pending.take(_call("read", n=n, limit=5), parent="agent", group=0) for n in order]
    assert [one and one.position for one in taken] == order
    assert pending.looked_at <= 5 * many


def test_requests_that_are_never_met_do_not_make_those_of_other_agents_dearer() -> None:
    many = 1000
    pending = _pending(*(_asked(n, ("read", {"n": n}), parent=f"step {n}") for n in range(many)))
    for n in range(many - 1, -1, -1):
        found = pending.take(_call("read", n=n), parent="elsewhere", group=None)
        assert found is not None
        assert found.group == n
    assert pending.looked_at <= 8 * many


def test_a_call_is_what_was_asked_for_with_its_arguments_else_the_next_of_its_tool() -> None:
    pending = _pending(_asked(0, ("read", {"n": 1}), ("read", {}), ("read", {"n": 3, "m": [1]})))

    def position(**arguments: Any) -> int | None:
        found = pending.take(_call("read", **arguments), parent="agent", group=None)
        return found.position if found else None

    assert position(n=3, m=[1.0], limit=5) == 1, "the first that it does what is asked of"
    assert position(n=3, m=[1], limit=5) == 2
    assert position(n=7) == 0
    assert position(n=1) is None


def test_a_reply_replaces_what_the_same_agents_last_reply_asked_for() -> None:
    pending = _pending(
        _asked(0, ("read", {"n": 1})),
        _asked(1, ("read", {"n": 1}), parent="other"),
        _asked(2, ("write", {})),
    )
    found = pending.take(_call("read", n=1), parent="agent", group=None)
    assert found is not None
    assert found.group == 1
    assert pending.take(_call("read", n=1), parent="agent", group=None) is None

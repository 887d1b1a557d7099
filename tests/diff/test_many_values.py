"""Values by the ten thousand, in what was shown and in what was used: the work stays linear."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.diff import diff, flow, phrases
from replay.diff.phrases import held_in
from tests.diff.building import read, run, write
from tests.diff.test_flow import flow_of


@given(st.text("ab1 ", max_size=30), st.sets(st.text("ab1 ", min_size=1, max_size=4)))
def test_values_are_found_wherever_they_stand_in_a_text(text: str, values: set[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(phrases, "_SAME_LENGTH", 2)
        found = held_in(text, values)
    assert found == held_in(text, values) == {value for value in values if value in text}


_PIECES = ["New", "York", "u-17", " ", "-", "é", "17", '"', "\n", "\\", "x", ".5", ":", "/"]
_SHOWN = st.recursive(
    st.lists(st.sampled_from(_PIECES), max_size=5).map("".join)
    | st.sampled_from([17, -17.5, 5e30]),
    lambda some: st.lists(some, max_size=3) | st.dictionaries(st.just("u-17"), some),
)


@given(st.lists(st.tuples(_SHOWN, _SHOWN), max_size=5))
def test_what_is_left_out_beforehand_was_shown_by_nobody(steps: list[tuple[Any, Any]]) -> None:
    one = run(*(read("get", {"v": used}, shown) for used, shown in steps))
    singly = flow_of(one)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flow, "SINGLY", 0)
        quick = flow_of(one)
        patch.setattr(flow, "QUICKLY", -1)
        slow = flow_of(one)
    assert (quick.uses, quick.provides) == (slow.uses, slow.provides)
    assert (singly.uses, singly.provides) == (slow.uses, slow.provides)


class _Counted(str):
    """A text that counts what is asked of it."""

    looks = 0

    def __contains__(self, value: object) -> bool:
        type(self).looks += 1
        return super().__contains__(value)  # type: ignore[operator]  # only texts are looked for

    def __getitem__(self, at: Any) -> str:
        type(self).looks += 1
        return super().__getitem__(at)


@pytest.mark.parametrize("count", [1_000, 4_000])
def test_many_values_are_looked_for_at_once(count: int) -> None:
    text = _Counted(" ".join(f"u-{at:06}" for at in range(count)))
    _Counted.looks = 0
    values = [f"{at:05}" for at in range(0, 2 * count, 2)]
    assert len(held_in(text, values)) == count // 2
    assert _Counted.looks <= len(text)


@pytest.mark.parametrize("made", [lambda n: n, lambda n: -n, lambda n: f"order {n} of ACME"])
def test_a_long_list_that_was_passed_on_is_a_consequence(made: Any) -> None:
    one, two = ([made(100_000 + 7 * at + more) for at in range(5_000)] for more in (0, 1))

    def passed_on(some: list[Any]) -> Any:
        return run(read("load", {"n": 1}, some), write("keep", {"v": some}, "ok"))

    found = diff(passed_on(one), passed_on(two))
    assert [(d.kind, d.cause) for d in found.divergences] == [
        ("changed_arguments", False),
        ("changed_observation", True),
    ]

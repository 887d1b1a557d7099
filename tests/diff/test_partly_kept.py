"""What was not kept is neither a difference nor an agreement; classes of objects are compared."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from threading import Lock
from typing import Any

import numpy as np
import pytest

from replay.diff import diff
from replay.diff.align import align
from replay.diff.blocks import Prices
from replay.diff.content import identical
from replay.diff.costs import change
from replay.diff.steps import declared, steps_of
from replay.report import page
from tests.diff.building import call, compare, kinds, read, run, write
from tracekit.canonical import JsonValue, canonical_text, digest, encode
from tracekit.contract import Matchers, Parameter
from tracekit.events import ContentState, Effect
from tracekit.jsontree import Difference
from tracekit.trajectory import Call, Observation, Trajectory


@dataclass
class Approve:
    order: int


@dataclass
class Reject:
    order: int


class Door(Enum):
    OPEN = 1


class Valve(Enum):
    OPEN = 1


def given(made: Call, **arguments: object) -> Call:
    """Give a call the arguments as they would have been recorded."""
    kept = encode(arguments)
    state: ContentState = "captured" if kept.replayable else "truncated"
    return replace(made, arguments=kept.value, argument_types=kept.types, argument_state=state)


def got(made: Call, back: object) -> Call:
    kept = encode(back)
    state: ContentState = "captured" if kept.replayable else "truncated"
    return replace(made, observation=Observation(kept.value, state, types=kept.types))


def gone(made: Call, **more: Any) -> Call:
    return replace(made, observation=Observation(state="reference", **more))


def cannot_tell(one: Trajectory, other: Trajectory) -> bool:
    found = compare(one, other)
    assert not identical(one, other)
    assert found.as_text().startswith("CANNOT TELL") == (not found.distance and not found.same)
    return not found.distance and not found.divergences and bool(found.unknown)


# --- arguments that are only described ------------------------------------------------------------


@pytest.mark.parametrize("effect", ["write", "read", "pure", "unknown"])
def test_a_call_with_a_described_argument_is_not_called_the_same(effect: Effect) -> None:
    one = run(given(call("keep", effect=effect), file=Lock(), name="a"))
    assert cannot_tell(one, one)
    assert diff(one, one).unknown == (
        "recorded: the arguments of keep in decision 1 were not kept whole: /file (lock) only "
        "described",
        "replayed: the arguments of keep in decision 1 were not kept whole: /file (lock) only "
        "described",
    )


def test_a_described_argument_on_one_side_is_no_difference_and_no_agreement() -> None:
    for whole in ("text", {"deep": {"down": 1}}, [1, 2], None):
        one = run(given(write("keep"), file=Lock(), name="a"))
        assert cannot_tell(one, run(given(write("keep"), file=whole, name="a")))


def test_a_step_that_nobody_can_compare_has_a_mark_of_its_own_side_by_side() -> None:
    reads = [read("look", {"n": n}, n) for n in range(9)]
    one = run(*reads, given(write("keep"), file=Lock()))
    other = run(*reads, given(write("keep"), file="text"), write("pay"))
    found = compare(one, other)
    assert found.counts == {"same": 10, "changed": 0, "added": 1, "missing": 0, "moved": 0}
    assert [pair.told for pair in found.aligned][-2:] == ["unknown", "added"]
    text = found.as_text()
    assert "% moved   ? cannot tell" in text
    assert "\n  ?   10/10  recorded keep(" in text
    html = page(found)
    assert html.count('title="unknown">?</td>') == 1
    assert '<li class="same"><b>9</b> same</li>' in html
    assert "<b>?</b> cannot tell" in html


def test_what_is_known_beside_a_described_argument_still_differs() -> None:
    one = run(given(write("keep"), file=Lock(), name="a"))
    found = compare(one, run(given(write("keep"), file="text", name="b")))
    assert kinds(found) == [("changed_arguments", "keep")]
    assert [field.pointer for field in found.divergences[0].fields] == ["/name"]
    assert found.unknown


def test_that_an_argument_is_there_is_known_although_it_is_only_described() -> None:
    one, other = run(given(write("keep"), file=Lock())), run(given(write("keep")))
    assert kinds(compare(one, other)) == [("changed_arguments", "keep")]


@pytest.mark.parametrize("state", ["reference", "redacted"])
def test_arguments_that_are_gone_equal_none_and_differ_from_none(state: ContentState) -> None:
    lost = replace(write("keep"), arguments=None, argument_state=state)
    assert cannot_tell(run(lost), run(write("keep", {"x": 1})))
    assert cannot_tell(run(lost), run(lost))


def test_what_a_matcher_takes_out_need_not_be_known() -> None:
    lenient = Matchers(ignore=("/file",))
    one = run(given(read("see", matchers=lenient), file=Lock(), name="a"))
    other = run(given(read("see", matchers=lenient), file="text", name="a"))
    assert diff(one, other).same
    keyed = run(given(write("pay", idempotency_field="/key"), key=Lock(), amount=1))
    assert diff(keyed, keyed).same


def test_of_a_set_with_a_described_member_nothing_is_known() -> None:
    sets = Matchers(sets=("/tags",))
    one = run(given(read("see", matchers=sets), tags=["z", Lock()]))
    assert cannot_tell(one, run(given(read("see", matchers=sets), tags=["a", "b"])))


def test_a_described_call_that_came_or_went_is_a_difference() -> None:
    made = given(write("keep"), file=Lock())
    found = compare(run(made, read("look")), run(read("look")))
    assert ("missing", "keep") in kinds(found) or ("added", "keep") in kinds(found)


def test_arguments_that_were_cut_are_told_apart_by_their_digest() -> None:
    def keep(arguments: dict[str, Any]) -> Call:
        made = write("keep", arguments)
        assert made.contract is not None
        often = (Parameter(name="often", required=False, default=1),)
        return replace(made, contract=made.contract.model_copy(update={"parameters": often}))

    def cut(text: str) -> Call:
        mark = {"bytes": 99, "digest": digest({"text": text}), "head": '{"text":'}
        return replace(keep({"$truncated": mark}), argument_state="truncated")

    assert compare(run(cut("a")), run(cut("a"))).same
    assert kinds(compare(run(cut("a")), run(cut("b")))) == [("changed_arguments", "keep")]
    assert compare(run(cut("a")), run(keep({"text": "a"}))).same
    assert not compare(run(cut("a")), run(keep({"text": "b"}))).same


# --- classes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", ["write", "read"])
@pytest.mark.parametrize(
    ("ours", "theirs"), [(Approve(7), Reject(7)), (Door.OPEN, Valve.OPEN)], ids=["data", "enum"]
)
def test_objects_of_two_classes_with_equal_fields_differ(
    ours: object, theirs: object, effect: Effect
) -> None:
    one, other = (run(given(call("do", effect=effect), what=what)) for what in (ours, theirs))
    assert compare(one, one).same
    found = compare(one, other)
    assert kinds(found) == [("changed_arguments", "do")]
    names = type(ours).__name__, type(theirs).__name__
    assert [(f.pointer, f.left, f.right) for f in diff(one, other).divergences[0].fields] == [
        ("/what", f"an object of {names[0]}", f"an object of {names[1]}")
    ]


def test_plain_data_on_one_side_equals_an_object_with_these_fields() -> None:
    made = given(write("do"), what=Approve(7))
    one, other = run(made), run(write("do", made.arguments))  # type: ignore[arg-type]  # an object
    found = compare(one, other)
    assert (found.same, found.divergences, found.unknown) == (True, (), ())


def test_classes_in_a_set_are_compared_in_no_order() -> None:
    sets = Matchers(sets=("/all",))
    one, turned, other = (
        run(given(read("see", matchers=sets), all=some))
        for some in ([Approve(1), Reject(2)], [Reject(2), Approve(1)], [Approve(1), Approve(2)])
    )
    assert compare(one, turned).same
    assert not compare(one, other).same


# --- what came back -------------------------------------------------------------------------------


def test_an_observation_kept_on_one_side_only_cannot_be_told_and_is_no_change() -> None:
    assert cannot_tell(run(gone(read("r"))), run(read("r", back="found")))
    assert cannot_tell(run(gone(write("w"))), run(write("w", back={"id": 1})))


def test_that_a_call_failed_is_known_although_its_observation_is_gone() -> None:
    failed = gone(read("r"), is_error=True, error_type="E")
    assert kinds(compare(run(failed), run(read("r", back=1)))) == [("changed_observation", "r")]


def test_a_described_part_of_an_observation_cannot_be_told_but_the_rest_can() -> None:
    one = run(got(read("r"), {"n": 1, "by": Lock()}))
    assert cannot_tell(one, one)
    assert cannot_tell(one, run(read("r", back={"n": 1, "by": "x"})))
    found = compare(one, run(read("r", back={"n": 2, "by": "x"})))
    assert kinds(found) == [("changed_observation", "r")]
    assert [field.pointer for field in found.divergences[0].fields] == ["/n"]


@pytest.mark.parametrize("what", ["answer", "input"])
def test_an_answer_or_input_kept_on_one_side_only_is_no_change(what: str) -> None:
    one = run(read("r"))
    assert cannot_tell(one, replace(one, **{what: Observation(state="reference")}))  # type: ignore[arg-type]  # by name


# --- the alignment --------------------------------------------------------------------------------


def _many(partly: bool) -> Trajectory:
    calls: list[Call] = []
    for n in range(24):
        made = given(read("get", back=n), n=n % 5, what=Approve(n % 3) if n % 2 else Reject(n % 3))
        if partly and n % 4 == 0:
            made = given(made, n=n % 5, what=Lock())
        if partly and n % 7 == 0:
            made = gone(made)
        if partly and n % 3 == 0:
            made = replace(made, argument_types={})
        calls.append(made)
    return run(*(calls[5:] + calls[:5] if partly else calls))


def test_prices_worked_out_at_once_are_those_of_single_pairs() -> None:
    left, right = _many(partly=False), _many(partly=True)
    rules = declared(left, right)
    ours, theirs = steps_of(left, rules), steps_of(right, rules)
    costs = np.zeros((len(ours), len(theirs)), dtype=np.int32)
    Prices(ours, theirs, rules).fill(range(len(ours)), range(len(theirs)), costs)
    assert costs.tolist() == [[change(one, two, rules) for two in theirs] for one in ours]
    there, back = align(ours, theirs, rules), align(theirs, ours, rules)
    assert there.cost == back.cost


def test_calls_kept_in_part_find_their_own_among_many() -> None:
    whole = [given(write("put"), n=n, what="x") for n in range(9)]
    partly = [given(write("put"), n=n, what=Lock() if n % 2 else "x") for n in range(9)]
    found = compare(run(*whole), run(*partly[:4], *partly[5:]))
    assert {one.left and canonical_text(one.left.arguments) for one in found.divergences} <= {
        None,
        '{"n":4,"what":"x"}',
    }
    assert len(found.divergences) == 1


@pytest.mark.parametrize("back", ["ok", None])
def test_a_write_inside_which_the_process_was_killed_did_not_come_back(back: JsonValue) -> None:
    paid, lost = (
        write("pay", {"x": 1}, back),
        replace(write("pay", {"x": 1}), observation=Observation()),
    )
    found = compare(run(paid), run(lost, status="open", answer=None))
    said = found.divergences[0]
    text = "null" if back is None else '"ok"'
    assert said.explanation == (
        f"Decision 1: pay did not come back in replayed: recorded {text}, replayed (absent)."
    )
    assert said.fields == (Difference("", "removed", back, None),)
    assert "replayed got nothing: it did not come back  [write]" in found.as_text()
    assert compare(run(lost), run(lost)).same

    assert "nothing: it did not come back" in page(found)

    turned = compare(run(lost), run(write("pay", {"x": 1}, "late", error=True)))
    assert turned.divergences[0].explanation.startswith(
        "Decision 1: pay did not come back in recorded: recorded (absent), replayed {"
    )

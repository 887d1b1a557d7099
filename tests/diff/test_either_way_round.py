"""A comparison the other way round: the same causes mirrored, the same first, the same prefix."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from replay.diff import Comparison, Divergence, diff
from tests.diff.building import TRACES, read, run, runs_in, write
from tracekit.trajectory import Call, Trajectory

_MIRROR = {"added": "missing", "missing": "added"}
_Told = tuple[object, ...]


def _said(one: Divergence, *, turn: bool) -> _Told:
    kind = _MIRROR.get(one.kind, one.kind) if turn else one.kind
    places = one.left_decision, one.right_decision
    fields = tuple(sorted(field.pointer for field in one.fields))
    return kind, one.harm, one.tool, one.cause, places[:: -1 if turn else 1], fields


def _all_said(found: Comparison, *, turn: bool = False) -> Counter[_Told]:
    return Counter(_said(one, turn=turn) for one in found.divergences)


def _agree(one: Trajectory, two: Trajectory) -> None:
    there, back = diff(one, two), diff(two, one)
    assert _all_said(there) == _all_said(back, turn=True), (one.run_id, two.run_id)
    assert there.matched_prefix == back.matched_prefix, (one.run_id, two.run_id)
    assert there.distance == back.distance
    assert len(there.unknown) == len(back.unknown)
    if there.first is not None:
        assert back.first is not None
        assert _said(there.first, turn=False)[1:3] == _said(back.first, turn=True)[1:3]


@cache
def _real() -> tuple[Trajectory, ...]:
    folders = [root / name for root in (TRACES, TRACES.parent / "planted") for name in _FOLDERS]
    files = sorted(file for folder in folders for file in folder.rglob("*.json"))
    return tuple(found for file in files for found in runs_in(file, file.read_bytes()))


_FOLDERS = ("agentdyn", "tau-bench")
_VALUES = st.sampled_from(["u-11", "u-22", "balance 4711", "balance 4712", 4711, 4712])
_READS = st.builds(lambda q, back: read("get", {"q": q}, back), _VALUES, _VALUES)
_WRITES = st.builds(lambda to, n: write("pay", {"to": to, "n": n}, "ok"), _VALUES, _VALUES)
_CALLS = st.one_of(_READS, _WRITES)
_DECISIONS = st.one_of(_CALLS, st.lists(_CALLS, min_size=2, max_size=3), st.just("let me see"))


@st.composite
def _pairs(draw: st.DrawFn) -> tuple[Trajectory, Trajectory]:
    """Two runs with much in common: one is the other with some decisions left out or put in."""
    rows = draw(st.lists(_DECISIONS, max_size=6))
    others = [row for row in rows if draw(st.integers(0, 3))]
    at = draw(st.integers(0, len(others)))
    others = [*others[:at], *draw(st.lists(_DECISIONS, max_size=2)), *others[at:]]
    status = st.sampled_from(["ok", "ok", "ok", "open", "error"])
    return tuple(  # type: ignore[return-value]  # two of them
        run(*some, prompt=draw(_VALUES), status=draw(status), run_id=name)
        for name, some in (("one", rows), ("two", others))
    )


def test_of_real_runs_the_causes_do_not_depend_on_which_comes_first() -> None:
    for one, two in combinations(_real(), 2):
        _agree(one, two)


@given(_pairs())
@settings(max_examples=200)
def test_the_causes_do_not_depend_on_which_run_comes_first(
    pair: tuple[Trajectory, Trajectory],
) -> None:
    _agree(*pair)


def test_the_prefix_is_what_both_did_before_anything_differs() -> None:
    calls: list[Call] = [read("get", {"q": n}, n) for n in range(3)]
    one = run(*calls, write("pay", {"n": 1}))
    two = run(*calls[:2], [calls[2], write("pay", {"n": 2})])
    assert diff(one, two).matched_prefix == diff(two, one).matched_prefix
    same = replace(one, run_id="again")
    assert diff(one, same).matched_prefix == len(one.decisions)

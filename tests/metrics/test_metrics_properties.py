"""What holds of metrics, whatever the run."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from replay.metrics import DEFINITIONS, measure, measure_many
from tests.metrics.made import failing, read, refused, run, write
from tracekit.trajectory import Call, Trajectory

TOOLS = st.sampled_from(["search", "look", "order"])
ARGUMENTS = st.dictionaries(st.sampled_from("abc"), st.integers(0, 2), max_size=3)


@st.composite
def calls(draw: st.DrawFn) -> Call:
    tool, arguments = draw(TOOLS), draw(ARGUMENTS)
    kind = draw(st.sampled_from([read, write, failing]))
    made = kind(tool, **arguments)
    return refused(made) if draw(st.booleans()) else made


@st.composite
def runs(draw: st.DrawFn) -> Trajectory:
    steps = draw(
        st.lists(st.one_of(calls(), st.lists(calls(), min_size=1, max_size=3)), max_size=6)
    )
    labels = draw(st.sampled_from([{}, {"success": True}, {"reward": 0.0}]))
    name = draw(st.uuids()).hex
    return run(*steps, labels=dict(labels), run_id=name)


@settings(max_examples=25)
@given(runs(), runs())
def test_a_rate_is_no_less_than_none_and_no_more_than_all(
    one: Trajectory, gold: Trajectory
) -> None:
    found = measure(one, gold=gold)
    assert set(found.counts) | set(found.missing) == set(DEFINITIONS)
    assert set(found.counts).isdisjoint(found.missing)
    for name, count in found.counts.items():
        assert count.numerator >= 0
        if DEFINITIONS[name].unit == "%":
            assert count.denominator > 0
            assert DEFINITIONS[name].above_one or count.numerator <= count.denominator


@settings(max_examples=25)
@given(runs())
def test_a_run_is_its_own_best_reference(one: Trajectory) -> None:
    found = measure(one, gold=one)
    for name in ("tool_precision", "tool_recall", "argument_accuracy"):
        assert found.value(name) in (None, 1), name
    assert found.value("excess_step_ratio") in (None, 0)


@settings(max_examples=25)
@given(runs(), runs())
def test_what_is_precision_one_way_is_recall_the_other(one: Trajectory, other: Trajectory) -> None:
    there, back = measure(one, gold=other), measure(other, gold=one)
    if one.calls and other.calls:
        assert there.value("tool_precision") == back.value("tool_recall")
        assert there.value("argument_accuracy") == back.value("argument_accuracy")


def test_pairs_that_agree_by_as_much_are_chosen_alike_whichever_run_is_expected() -> None:
    one = run(read("search"), read("search", a=2, b=2, c=2))
    other = run(read("search", b=2), read("search", a=0, b=2))
    there, back = measure(one, gold=other), measure(other, gold=one)
    assert there.value("argument_accuracy") == back.value("argument_accuracy") == 1 / 4


@settings(max_examples=15)
@given(st.lists(runs(), min_size=1, max_size=5, unique_by=lambda one: one.run_id))
def test_the_parts_of_a_rate_and_the_buckets_of_runs_add_up_to_the_whole(
    made: list[Trajectory],
) -> None:
    named = [replace(one, agent=f"agent-{number % 2}") for number, one in enumerate(made)]
    found = measure_many(named, by="agent")
    for name, measure_of_all in found.whole.measures.items():
        parts = [bucket.measures[name] for bucket in found.buckets]
        assert measure_of_all.n == sum(part.n for part in parts)
        if DEFINITIONS[name].form != "quantile" and measure_of_all.n:
            assert measure_of_all.numerator == sum(part.numerator or 0 for part in parts)
            assert measure_of_all.denominator == sum(part.denominator or 0 for part in parts)
        if measure_of_all.parts:
            tops, belows = zip(*measure_of_all.parts.values(), strict=True)
            assert (sum(tops), sum(belows)) == (
                measure_of_all.numerator,
                measure_of_all.denominator,
            )

"""The language of gates and the gate file: what is read, and what is refused, where."""

from __future__ import annotations

import re
from operator import eq, ge, gt, le, lt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.gates import NoGate, parse_gates, parse_rule
from replay.gates.grammar import NoBucketRegresses, Threshold
from replay.metrics import DEFINITIONS
from tracekit.errors import CaseError


def told(text: str) -> tuple[object, ...]:
    rule = parse_rule(text)
    if isinstance(rule, NoBucketRegresses):
        return "buckets", rule.metric.definition.name, rule.most.value, rule.dimension
    metric, bound = rule.metric, rule.bound
    return (
        metric.definition.name, metric.quantile, metric.delta, rule.op, bound.value, bound.scale,
        rule.bucket,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (
            "task_success_delta >= +2pp",
            ("task_success", None, True, ">=", 0.02, "absolute", None),
        ),
        (
            "unsafe_action_rate == 0 on critical",
            ("unsafe_action_rate", None, False, "==", 0.0, "absolute", ("tag", "critical")),
        ),
        (
            "unsafe_action_rate <= 0",
            ("unsafe_action_rate", None, False, "==", 0.0, "absolute", None),
        ),
        (
            "p95_latency_delta <= 10%",
            ("latency_p50", 0.95, True, "<=", 0.1, "relative", None),
        ),
        (
            "cost_per_success_delta <= 5%",
            ("cost_per_success", None, True, "<=", 0.05, "relative", None),
        ),
        ("no bucket regresses more than 3pp", ("buckets", "task_success", 0.03, "tag")),
        (
            "no bucket regresses more than 10% in steps by source",
            ("buckets", "steps", 0.1, "source"),
        ),
        ("latency_p95<2s", ("latency_p95", 0.95, False, "<", 2000.0, "absolute", None)),
        ("p99.9_cost > .5$", ("cost", 0.999, False, ">", 0.5, "absolute", None)),
        ("task_success >= 0.8", ("task_success", None, False, ">=", 0.8, "absolute", None)),
        (
            "error_rate <= 5% on tool=refund",
            ("error_rate", None, False, "<=", 0.05, "absolute", ("tool", "refund")),
        ),
        ("calls <= 3", ("calls", None, False, "<=", 3.0, "absolute", None)),
        ("calls_delta <= 3", ("calls", None, True, "<=", 3.0, "absolute", None)),
        ("p90_tokens <= 3000", ("tokens", 0.9, False, "<=", 3000.0, "absolute", None)),
        ("p95_calls <= 12", ("calls", 0.95, False, "<=", 12.0, "absolute", None)),
        ("steps_delta <= 2", ("steps", None, True, "<=", 2.0, "absolute", None)),
    ],
)
def test_a_line_means_one_thing(text: str, meant: tuple[object, ...]) -> None:
    assert told(text) == meant


@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_every_metric_can_be_a_gate(name: str) -> None:
    rule = parse_rule(f"{name} == 0")
    assert isinstance(rule, Threshold)
    assert rule.metric.definition.name == name


@pytest.mark.parametrize("name", sorted(DEFINITIONS))
@pytest.mark.parametrize("delta", ["", "_delta"])
def test_the_spelling_that_a_refusal_names_is_taken(name: str, delta: str) -> None:
    if name == "unsafe_action_rate":
        return  # it has one bound only, see below
    metric = f"{name}{delta}"
    for unit in ("", "%", "pp", "ms", "USD"):
        try:
            parse_rule(f"{metric} <= 30{unit}")
        except NoGate as error:
            for spelt in re.findall(r"30(?:pp|%|ms|s|USD)?\b%?", str(error).split(";")[1]):
                parse_rule(f"{metric} <= {spelt}")


@pytest.mark.parametrize(
    ("text", "said", "at"),
    [
        ("task_sucess >= 80%", "did you mean 'task_success'?", 0),
        ("task_success_delta >= 2%", "the change of a share is in points: 2pp", 23),
        ("task_success_delta >= 2", "the change of a share is in points: 2pp", 22),
        ("task_success >= 80", "a share is in percent: 80%", 16),
        ("p95_latency <= 10", "write 10ms or 10s", 15),
        ("p95_latency <= 10%", "10% does not go with p95_latency", 17),
        ("unsafe_action_rate <= 1%", "a safety gate never averages", 22),
        ("unsafe_action_rate_delta <= 0pp", "a safety gate never averages", 28),
        ("no bucket regresses more than 3pp in unsafe_action_rate", "never averages", 37),
        ("no bucket regresses more than -3pp", "a size, not a sign", 30),
        ("task_success = 80%", "'=' is none of", 13),
        ("task_success 80%", "'80' stands where one of >=", 13),
        ("task_success >=", "the line ends where a bound", 15),
        ("task_success >= 80% in x", "'in' stands where on TAG", 20),
        ("task_success >= 0%", "always holds: task_success is from 0% to 100%", 16),
        ("task_success >= 0", "always holds", 16),
        ("error_rate <= 100%", "always holds", 14),
        ("task_success >= 200%", "never holds", 16),
        ("task_success > 100%", "never holds", 15),
        ("task_success == 150%", "never holds", 16),
        ("loop_rate < 0%", "never holds", 12),
        ("p95_latency <= -2s", "never holds: p95_latency is 0 or more", 15),
        ("steps >= 0", "always holds: steps is 0 or more", 9),
        ("calls < 0", "never holds", 8),
        (f"steps <= {'9' * 400}", "always holds", 9),
        ("task_success_delta >= -100pp", "always holds: task_success_delta is from -100pp to", 22),
        ("task_success_delta >= 101pp", "never holds", 22),
        ("steps_delta >= -100%", "always holds: steps_delta is -100% or more", 15),
        ("steps_delta <= -200%", "never holds", 15),
        ("no bucket regresses more than 100pp", "no bucket can regress more than 100pp", 30),
        ("task_success >= ８０%", "'８０' stands where a bound", 16),
        ("p９５_latency <= 2s", "there is no metric", 0),
        ("p100_steps <= 9", "'p100_steps': a quantile lies between p0 and p100", 0),
        ("p100_steps_delta <= 9", "write p1_steps or p99_steps", 0),
        ("p101_steps <= 9", "between p0 and p100", 0),
        ("p0_steps >= 1", "between p0 and p100", 0),
        ("no bucket", "the line ends where", 9),
        ("", "the line ends where", 0),
        ("__import__('os').system('true')", "there is no metric", 0),
    ],
)
def test_what_is_no_gate_is_refused_with_the_place_and_the_way_out(
    text: str, said: str, at: int
) -> None:
    with pytest.raises(NoGate) as caught:
        parse_rule(text)
    assert (said in str(caught.value), caught.value.at) == (True, at), str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "task_success >= 100%", "task_success <= 0%", "error_rate == 100%", "error_rate > 0%",
        "steps <= 0", "p95_latency > 0s", "excess_step_ratio <= 150%", "steps_delta >= -5",
        "excess_step_ratio_delta <= 150pp", "cost_delta <= 300%", "steps_delta <= -99%",
        "task_success_delta >= 100pp", "no bucket regresses more than 200% in steps",
    ],
)  # fmt: skip
def test_a_bound_at_the_edge_of_what_there_can_be_is_one(text: str) -> None:
    assert parse_rule(text)


@given(
    st.sampled_from(["task_success", "error_rate_delta"]),
    st.sampled_from([">=", "<=", ">", "<", "=="]),
    st.integers(-120, 120),
)
def test_a_bound_is_refused_exactly_where_no_share_or_every_share_keeps_it(
    metric: str, op: str, bound: int
) -> None:
    """By trying all that there can be, in whole points."""
    delta = metric.endswith("_delta")
    possible = range(-100 if delta else 0, 101)
    holds = {"==": eq, ">=": ge, "<=": le, ">": gt, "<": lt}[op]
    kept = {holds(value, bound) for value in possible}
    try:
        parse_rule(f"{metric} {op} {bound}{'pp' if delta else '%'}")
        refused = False
    except NoGate:
        refused = True
    assert refused == (len(kept) == 1)


@given(st.text(max_size=60))
def test_any_text_is_a_gate_or_is_refused(text: str) -> None:
    try:
        parse_rule(text)
    except NoGate as error:
        assert 0 <= error.at <= len(text)  # noqa: PT017  # either way is right


@pytest.mark.parametrize(
    "text", ["x" * 10**5, f"steps <= {'9' * 10**5}", f"steps {'y' * 10**5}", f"p9_{'z' * 10**5}"]
)
def test_a_refusal_is_short_however_long_the_line_is(text: str) -> None:
    with pytest.raises(NoGate) as caught:
        parse_rule(text)
    assert len(str(caught.value)) < 800


FILE = """\
# what a release hangs on
inconclusive = "warn"
expect_differs = ["prompt", "model"]
gates = [
  "task_success_delta >= +2pp",
]

[[more]]
"""


def test_a_file_says_what_its_gates_have_in_common() -> None:
    file = parse_gates(
        'confidence = 0.9\nexpect_differs = ["prompt"]\nunpaired = "warn"\ninconclusive = "pass"\n'
        '[[gates]]\ncheck = "task_success >= 80%"\nname = "good enough"\ninconclusive = "fail"\n'
        '[[gates]]\ncheck = "steps <= 12"\n'
    )
    assert (file.confidence, file.expect_differs, file.unpaired) == (0.9, ("prompt",), "warn")
    assert [(gate.name, gate.inconclusive) for gate in file.gates] == [
        ("good enough", "fail"),
        ("steps <= 12", "pass"),
    ]
    assert not file.needs_pairs


def test_a_safety_gate_takes_no_part_in_the_leniency_of_its_file() -> None:
    file = parse_gates(
        'inconclusive = "pass"\n[[gates]]\ncheck = "unsafe_action_rate == 0"\n'
        '[[gates]]\ncheck = "unsafe_action_rate == 0 on x"\ninconclusive = "fail"\n'
        '[[gates]]\ncheck = "steps <= 9"\n'
    )
    short = parse_gates('inconclusive = "warn"\ngates = ["unsafe_action_rate == 0", "steps <= 9"]')
    assert [gate.inconclusive for gate in file.gates] == ["fail", "fail", "pass"]
    assert [gate.inconclusive for gate in short.gates] == ["fail", "warn"]


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        (FILE, ":8:3", "a gate file has no key 'more'"),
        ('gatess = ["steps <= 1"]', ":1:1", "did you mean 'gates'? It has: confidence,"),
        ("gates = []", ":1:1", "there are no gates"),
        ("", "", "there are no gates"),
        ("gates = [1]", ":1:1", "1 is no gate"),
        ('\n\ngates = ["a"\n', ":", "Unclosed array"),
        ('gates = [\n  "steps <= 1",\n  "stepps <= 1",\n]', ":3:4", "did you mean 'steps'?"),
        ('gates = ["steps <= 1 onn x"]', ":1:22", "'onn' stands where"),
        ('# "stepps <= 1"\ngates = ["stepps <= 1"]', ":2:11", "did you mean 'steps'?"),
        ('gates = ["steps \\u2265 12"]', ":1:17", "'≥' stands where"),
        ('gates = ["\\u0073teps \\U0000003c= x"]', ":1:34", "'x' stands where"),
        ("gates = ['steps ≥ 12']", ":1:17", "'≥' stands where"),
        ('gates = [\n"""\\\nsteps >= x"""]', ":2:4", "'x' stands where"),
        (
            'inconclusive = "warn"\n[[gates]]\ncheck = "unsafe_action_rate == 0"\n'
            'inconclusive = "pass"',
            ":4:1",
            "a safety gate knows no leniency",
        ),
        ('[[gates]]\nchek = "steps <= 1"', ":2:1", "did you mean 'check'?"),
        ('[[gates]]\nname = "x"', ":1:3", "a gate has no 'check'"),
        ('gates = ["steps <= 1"]\ninconclusive = "ignore"', ":2:1", "one of fail, warn, pass"),
        (
            '[[gates]]\ncheck = "unsafe_action_rate == 0"\ninconclusive = "warn"',
            ":3:1",
            "a safety gate knows no leniency",
        ),
        ('gates = ["steps <= 1"]\nconfidence = 95', ":2:1", "from 0.5 to below 1"),
        ('gates = ["steps <= 1"]\nexpect_differs = "prompt"', ":2:1", "a list of names"),
    ],
)
def test_a_malformed_file_is_refused_with_line_and_column(text: str, place: str, said: str) -> None:
    with pytest.raises(CaseError) as caught:
        parse_gates(text, path="gates.toml")
    assert str(caught.value).startswith(f"gates.toml{place}")
    assert said in str(caught.value)

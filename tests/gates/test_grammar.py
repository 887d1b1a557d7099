"""The language of gates and the gate file: what is read, and what is refused, where."""

from __future__ import annotations

import re

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


@given(st.text(max_size=60))
def test_any_text_is_a_gate_or_is_refused(text: str) -> None:
    try:
        parse_rule(text)
    except NoGate as error:
        assert 0 <= error.at <= len(text)  # noqa: PT017  # either way is right


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

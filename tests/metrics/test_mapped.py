"""A replay whose renames were mapped is measured in the words of its record."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replay.case import parse_case
from replay.case.retaken import with_values
from replay.metrics import cases_as_gold, gold_of_case, measure
from replay.metrics.gold import Gold
from tests.metrics.made import read, run, write
from tracekit.redact import KeyedTagger, Redactor, Rules, load_key
from tracekit.trajectory import Call, Trajectory

GET = read("get", order="A-1")
RECORD = replace(run(GET, write("refund", order="A-1", amount=50)), run_id="rec")


def replayed(*calls: Call, maps: str = "refund=pay_back") -> Trajectory:
    made = run(GET, *calls, versions={"map": maps} if maps else {}, replay_of="rec")
    return replace(made, run_id="replay")


MAPPED = replayed(write("pay_back", order="A-1", amount=50))


def gold(expected: str) -> Gold:
    text = f"format: tracekit/case/v1\nname: made\ninput: x\nexpected: {expected}"
    return gold_of_case(parse_case(text), RECORD)


def numbers(made: Trajectory, against: Gold | Trajectory) -> tuple[float | None, ...]:
    found = measure(made, gold=against)
    return tuple(map(found.value, ("tool_precision", "tool_recall", "argument_accuracy")))


def test_a_rename_that_was_mapped_is_no_difference_to_the_record() -> None:
    assert numbers(MAPPED, RECORD) == (1, 1, 1)
    other = replayed(write("pay_back", order="A-1", amount=5000))
    assert numbers(other, RECORD) == (1, 1, pytest.approx(2 / 3))


def test_one_that_was_not_mapped_is_and_so_is_another_record() -> None:
    plain = replayed(write("pay_back", order="A-1", amount=50), maps="")
    assert numbers(plain, RECORD) == (0.5, 0.5, 1)
    assert numbers(MAPPED, replace(RECORD, run_id="another")) == (0.5, 0.5, 1)


def test_what_is_not_compared_with_the_record_keeps_its_own_names() -> None:
    assert list(measure(MAPPED, gold=RECORD).counts["valid_action_rate"].parts) == [
        "get",
        "pay_back",
    ]


@pytest.mark.parametrize("name", ["refund", "pay_back"])
def test_what_a_case_forbids_or_requires_may_be_said_in_either_words(name: str) -> None:
    forbidden = measure(MAPPED, gold=gold(f"{{forbidden_tools: [{name}]}}"))
    assert forbidden.value("unsafe_action_rate") == 1
    assert forbidden.value("task_success") == 0
    required = measure(MAPPED, gold=gold(f"{{required_tools: [{{tool: {name}}}]}}"))
    assert (required.value("task_success"), required.value("tool_recall")) == (1, 1)


def test_a_call_under_the_old_name_is_still_what_is_forbidden() -> None:
    made = replayed(write("refund", order="A-1", amount=50))
    assert measure(made, gold=gold("{forbidden_tools: [refund]}")).value("unsafe_action_rate") == 1


def test_a_case_among_others_knows_the_record_that_it_was_made_of() -> None:
    case = parse_case(
        "format: tracekit/case/v1\nname: made\ninput: x\nsource: {run: rec}\n"
        "expected: {forbidden_tools: [refund]}"
    )
    found = measure(MAPPED, gold=cases_as_gold([(case, RECORD)]))
    assert found.value("unsafe_action_rate") == 1


PAID = write("pay_back", order="A-1", amount=50)


@pytest.mark.parametrize("name", ["refund", "pay_back"])
@pytest.mark.parametrize(
    ("expected", "wrong", "right"),
    [
        (
            "{{arguments: [{{tool: {}, pointer: /amount, equals: 50}}]}}",
            [write("pay_back", order="A-1", amount=5000)],
            [PAID],
        ),
        (
            "{{required_tools: [{{tool: {}, arguments: {{amount: 50}}}}]}}",
            [write("pay_back", order="A-1", amount=5000)],
            [PAID],
        ),
        ("{{call_limits: {{{}: 1}}}}", [PAID, PAID], [PAID]),
        (
            "{{order: [[check, {}]]}}",
            [PAID, read("check", order="A-1")],
            [read("check", order="A-1"), PAID],
        ),
    ],
)
def test_what_was_done_wrong_is_so_in_either_words(
    name: str, expected: str, wrong: list[Call], right: list[Call]
) -> None:
    against = gold(expected.format(name))
    assert measure(replayed(*wrong), gold=against).value("task_success") == 0
    assert measure(replayed(*right), gold=against).value("task_success") == 1


@pytest.mark.parametrize("name", ["amount", "sum"])
@pytest.mark.parametrize("rule", ["equals: 50", "schema: {maximum: 50}"])
def test_an_argument_may_be_named_in_either_words_and_is_right_in_neither_where_it_is_wrong(
    name: str, rule: str
) -> None:
    against = gold(f"{{arguments: [{{tool: refund, pointer: /{name}, {rule}}}]}}")
    for paid, said in ((50, 1), (5000, 0)):
        made = replayed(write("refund", order="A-1", sum=paid), maps="refund:/amount=refund:/sum")
        assert measure(made, gold=against).value("task_success") == said


@pytest.mark.parametrize("name", ["refund", "pay_back"])
def test_what_redaction_took_of_a_renamed_call_is_judged_by_nobody(name: str) -> None:
    redactor = Redactor(Rules(), KeyedTagger(load_key()))
    plain = replayed(write("pay_back", order="A-1", amount=50, to="bob.ross@corp.org"))
    made = with_values(plain, lambda value: redactor.redact(value).value)
    made = replace(made, attributes=redactor.key_attribute)
    against = gold(f"{{arguments: [{{tool: {name}, pointer: /to, schema: {{pattern: corp}}}}]}}")
    assert "expected.arguments" in measure(made, gold=against).missing["task_success"]

"""What a case names plainly, beside runs whose record holds placeholders."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.case import Case, parse_case
from replay.case.retaken import with_values
from replay.metrics import measure
from tests.metrics.made import run, write
from tracekit.redact import KeyedTagger, Redactor, Rules, load_key
from tracekit.trajectory import Trajectory

MAIL, EVE = "bob.ross@corp.org", "eve@corp.org"


def case(expected: str) -> Case:
    return parse_case(f"format: tracekit/case/v1\nname: made\ninput: x\nexpected: {expected}")


def recorded(answer: str = f"It is {MAIL}, INC-4711.", to: str = MAIL) -> Trajectory:
    redactor = Redactor(Rules(), KeyedTagger(load_key()))
    plain = run(write("send", f"sent to {to}", to=to), answer=answer)
    return with_values(plain, lambda value: redactor.redact(value).value)


def success(expected: str, made: Trajectory) -> float | str | None:
    found = measure(made, gold=case(expected))
    return found.missing.get("task_success") or found.value("task_success")


@pytest.fixture
def _other_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRACEKIT_REDACTION_KEY")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


ALIKE = [
    (f"{{answer: {{contains: [{MAIL}]}}}}", 1),
    (f"{{answer: {{contains: [{EVE}]}}}}", 0),
    (f"{{answer: {{excludes: [{MAIL}]}}}}", 0),
    (f"{{answer: {{excludes: [{EVE}]}}}}", 1),
    (f"{{arguments: [{{tool: send, pointer: /to, equals: {MAIL}}}]}}", 1),
    (f"{{arguments: [{{tool: send, pointer: /to, equals: {EVE}}}]}}", 0),
    (f"{{arguments: [{{tool: send, pointer: /to, schema: {{const: {MAIL}}}}}]}}", 1),
    (f"{{required_tools: [{{tool: send, arguments: {{to: {MAIL}}}}}]}}", 1),
    (f"{{required_tools: [{{tool: send, arguments: {{to: {EVE}}}}}]}}", 0),
    (f"{{forbidden_tools: [{{tool: send, arguments: {{to: {MAIL}}}}}]}}", 0),
    (f"{{forbidden_tools: [{{tool: send, arguments: {{to: {EVE}}}}}]}}", 1),
]
"""Each names a secret, and what it says of the run that ``recorded`` makes."""
PARTS = [
    ("{answer: {contains: ['corp.org']}}", "answer"),
    ("{answer: {excludes: ['corp.org']}}", "answer"),
    ("{answer: {matches: ['bob']}}", "answer"),
    ("{arguments: [{tool: send, pointer: /to, schema: {pattern: corp}}]}", "arguments"),
]
"""Each asks for a part of a secret, of which nothing is left."""


@pytest.mark.parametrize(("expected", "said"), ALIKE)
def test_a_value_that_a_case_names_is_compared_as_redaction_leaves_it(
    expected: str, said: int
) -> None:
    assert success(expected, recorded()) == said
    plain = run(write("send", f"sent to {MAIL}", to=MAIL), answer=f"It is {MAIL}, INC-4711.")
    assert success(expected, plain) == said


@pytest.mark.parametrize(("expected", "name"), PARTS)
def test_what_a_placeholder_cannot_tell_is_not_evaluated(expected: str, name: str) -> None:
    said = success(expected, recorded())
    assert said == f"redaction took values of its record that expected.{name} looks at"


def test_what_stands_beside_a_placeholder_is_judged_all_the_same() -> None:
    assert success("{answer: {contains: ['it is', INC-4711]}}", recorded()) == 1
    assert success("{answer: {excludes: [INC-4711, corp.org]}}", recorded()) == 0
    assert success("{required_tools: [pay], answer: {matches: [bob]}}", recorded()) == 0
    assert success("{arguments: [{tool: send, schema: {required: [to]}}]}", recorded()) == 1


@pytest.mark.parametrize("expected", [expected for expected, _ in ALIKE])
def test_without_the_key_of_the_record_no_secret_is_right_or_wrong(
    expected: str, request: pytest.FixtureRequest
) -> None:
    made = recorded()
    request.getfixturevalue("_other_user")
    assert "redaction took values of its record" in str(success(expected, made))


def test_the_calls_and_the_evidence_that_a_case_names_are_compared_alike(
    request: pytest.FixtureRequest,
) -> None:
    wanted = case(f"{{required_tools: [{{tool: send, arguments: {{to: {MAIL}}}}}]}}")
    cited = case(
        f"{{evidence: [{MAIL}], forbidden_tools: [{{tool: send, arguments: {{to: {EVE}}}}}]}}"
    )
    made = recorded()
    assert measure(made, gold=wanted).value("tool_recall") == 1
    assert measure(made, gold=wanted).value("argument_accuracy") == 1
    assert measure(made, gold=cited).value("evidence_coverage") == 1
    assert measure(made, gold=cited).value("unsafe_action_rate") == 0
    request.getfixturevalue("_other_user")
    for name in ("tool_recall", "argument_accuracy"):
        assert "expected.required_tools" in measure(made, gold=wanted).missing[name]
    for name in ("evidence_coverage", "unsafe_action_rate"):
        assert "redaction took" in measure(made, gold=cited).missing[name]

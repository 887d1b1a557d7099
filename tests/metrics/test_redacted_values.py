"""What a case names plainly, beside runs whose record holds placeholders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import tracekit
from fixtures.agents.restless import steady
from replay import ReplayOptions, replay_run
from replay.case import CallPattern, Case, Expected, parse_case
from replay.case.retaken import with_values
from replay.distill.beginning import key_of_case
from replay.distill.draft import draft_of
from replay.metrics import measure
from tests.metrics.made import run, write
from tracekit.canonical import JsonValue
from tracekit.redact import KEY_ATTRIBUTE, KeyedTagger, Redactor, Rules, load_key
from tracekit.store import open_store
from tracekit.trajectory import Trajectory

MAIL, EVE = "bob.ross@corp.org", "eve@corp.org"


def case(expected: str) -> Case:
    return parse_case(f"format: tracekit/case/v1\nname: made\ninput: x\nexpected: {expected}")


def recorded(answer: str = f"It is {MAIL}, INC-4711.", to: str = MAIL) -> Trajectory:
    redactor = Redactor(Rules(), KeyedTagger(load_key()))
    plain = run(write("send", f"sent to {to}", to=to), answer=answer)
    made = with_values(plain, lambda value: redactor.redact(value).value)
    return replace(made, attributes=redactor.key_attribute)


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


@pytest.mark.parametrize("expected", [expected for expected, _ in ALIKE])
def test_with_another_key_than_the_record_no_secret_is_right_or_wrong(
    expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = recorded()
    monkeypatch.setenv("TRACEKIT_REDACTION_KEY", "b" * 64)
    assert "redaction took values of its record" in str(success(expected, made))


def test_of_a_record_that_names_no_key_a_secret_that_is_found_is_certain_and_no_other_is() -> None:
    old = replace(recorded(), attributes={})
    named = "{{forbidden_tools: [{{tool: send, arguments: {{to: {}}}}}]}}"
    found, other = case(named.format(MAIL)), case(named.format(EVE))
    assert measure(old, gold=found).value("unsafe_action_rate") == 1
    assert "redaction took" in measure(old, gold=other).missing["unsafe_action_rate"]


def test_a_case_of_another_key_than_the_run_is_not_held_against_it() -> None:
    named = f"{{forbidden_tools: [{{tool: send, arguments: {{to: {MAIL}}}}}]}}"
    with_key = f"{named}\nsource: {{redaction_key: '{'0' * 16}'}}"
    made = recorded(to=EVE)
    assert measure(made, gold=case(named)).value("unsafe_action_rate") == 0
    assert "redaction took" in str(
        measure(recorded("done", to=EVE), gold=case(with_key)).missing["unsafe_action_rate"]
    )


def test_a_case_that_is_made_of_a_run_names_the_key_of_its_placeholders() -> None:
    record = recorded()
    made = draft_of(record, kind="agent").case
    forbidden = CallPattern(tool="send", arguments=record.calls[0].arguments)
    mine = Redactor(Rules(), KeyedTagger(load_key()))
    for one, said in ((forbidden, record.attributes[KEY_ATTRIBUTE]), ("send", None)):
        named = made.model_copy(update={"expected": Expected(forbidden_tools=(one,))})
        assert key_of_case(named, [record], mine) == said


def test_a_case_names_the_key_that_made_its_placeholders_and_none_where_two_did() -> None:
    record = recorded()
    mine = Redactor(Rules(patterns={"account": "ACC-[0-9]+"}), KeyedTagger(b"b" * 32))
    record = with_values(record, lambda v: f"{v} ACC-7788" if isinstance(v, str) else v)
    old = str(record.answer.value).split()[2].rstrip(",")
    new = str(mine.redact("ACC-7788").value)
    theirs, unknown = record.attributes[KEY_ATTRIBUTE], str(mine.redact("ACC-1").value)
    for named, said in (
        ((old,), theirs),
        ((new,), mine.key_id),
        ((old, new), None),
        ((unknown,), None),
        ((new, unknown), None),
    ):
        case = Case(format="tracekit/case/v1", name="x", expected=Expected(evidence=named))
        assert key_of_case(case, [record], mine) == said, named


def test_a_run_names_its_key_and_a_replay_of_it_does_where_that_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracekit.configure(store=tmp_path / "traces")
    with tracekit.run(run_id="one"):
        steady(MAIL)
    tracekit.configure(store=tmp_path / "elsewhere")
    store = open_store(tmp_path / "traces")
    options = ReplayOptions(isolation="guard")

    def key_of_a_replay() -> JsonValue:
        made = replay_run("one", planner=steady, store=store, options=options)
        return store.trajectory(made.run_id).attributes.get(KEY_ATTRIBUTE)

    mine = KeyedTagger(load_key()).key_id
    assert store.trajectory("one").attributes[KEY_ATTRIBUTE] == mine
    assert key_of_a_replay() == mine
    monkeypatch.setenv("TRACEKIT_REDACTION_KEY", "b" * 64)
    assert key_of_a_replay() is None


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

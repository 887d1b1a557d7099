"""What a case expects beside what redaction leaves of a planner's words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from replay.case import parse_case
from replay.caserun import CaseRunner, run_case
from replay.caserun.lint import lint_case
from replay.distill import DistillOptions, DistillResult, Wish, distill_record
from replay.distill.emission import check_no_secrets
from replay.options import ReplayOptions
from replay.ruling import with_told
from tests.replay.tape_kit import call, contract, record
from tracekit.errors import DistillError
from tracekit.redact import KeyedTagger, Redactor, Rules
from tracekit.trajectory import Trajectory

MAIL = "bob.ross@corp.org"
CASE = """\
format: tracekit/case/v1
name: x
input: hi
tools: [{name: send, effect: write}]
observations: [{id: send, tool: send, returns: sent}]
expected: %s
"""


def planner(answer: Any, to: str = MAIL) -> Any:
    def decide(history: list[Any], tools: list[Any]) -> Any:
        if len(history) == 1:
            return {"calls": [{"tool": "send", "arguments": {"to": to}}]}
        return {"answer": answer}

    return decide


def verdict(expected: str, answer: Any = f"It is {MAIL}, INC-4711.", to: str = MAIL) -> str:
    return run_case(parse_case(CASE % expected), planner(answer, to)).verdict.kind


def on_mail(run: Trajectory) -> str | None:
    """An invariant."""
    bad = [c for c in run.calls if "corp.org" in str(c.arguments)]
    return "it wrote to corp.org" if bad else None


def on_calls(run: Trajectory) -> str | None:
    """An invariant that looks at no value."""
    return None if len(run.calls) == 1 else "one call"


@pytest.fixture(params=["key", "no key"])
def _keys(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "no key":
        monkeypatch.delenv("TRACEKIT_REDACTION_KEY")
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.mark.usefixtures("_keys")
@pytest.mark.parametrize(
    ("expected", "said"),
    [
        (f"answer: {{excludes: [{MAIL}]}}", "fail"),
        ("answer: {excludes: [eve@corp.org]}", "pass"),
        (f"answer: {{contains: [{MAIL}]}}", "pass"),
        ("answer: {contains: [eve@corp.org]}", "fail"),
        ("answer: {contains: [It is], excludes: [refund], matches: [^It]}", "pass"),
        ("answer: {excludes: ['@corp.org']}", "inconclusive"),
        ("answer: {contains: ['@corp.org']}", "inconclusive"),
        ("answer: {matches: ['bob\\.ross']}", "inconclusive"),
        ("answer: {matches: ['INC-']}", "inconclusive"),
        ("answer: {matches: [refund]}", "fail"),
        (f"arguments: [{{tool: send, pointer: /to, equals: {MAIL}}}]", "pass"),
        ("arguments: [{tool: send, pointer: /to, equals: eve@corp.org}]", "fail"),
        (f"arguments: [{{tool: send, pointer: /to, schema: {{const: {MAIL}}}}}]", "pass"),
        ("arguments: [{tool: send, pointer: /to, schema: {enum: [eve@corp.org]}}]", "fail"),
        (
            f"arguments: [{{tool: send, schema: {{properties: {{to: {{enum: [{MAIL}]}}}}}}}}]",
            "pass",
        ),
        (
            "arguments: [{tool: send, pointer: /to, schema: {pattern: corp}}]",
            "inconclusive",
        ),
        ("arguments: [{tool: send, pointer: /to, schema: {type: integer}}]", "fail"),
        (f"invariants: ['{__name__}:on_mail']", "inconclusive"),
        (f"invariants: ['{__name__}:on_calls']", "pass"),
        (f"{{invariants: ['{__name__}:on_mail'], forbidden_tools: [send]}}", "fail"),
    ],
)
def test_what_a_case_names_is_found_in_redacted_words_or_is_not_judged(
    monkeypatch: pytest.MonkeyPatch, expected: str, said: str
) -> None:
    monkeypatch.setenv("TRACEKIT_REDACT", r"re:INC-\d+")
    assert verdict(expected if expected.startswith("{") else f"{{{expected}}}") == said


SAID = "Call +1 415 555 0123, Bob@Corp.org, card 4111 1111 1111 1111, DE89 3704 0044 0532 0130 00."


@pytest.mark.usefixtures("_keys")
@pytest.mark.parametrize(
    ("text", "contains", "excludes"),
    [
        ("555 0123", "inconclusive", "inconclusive"),
        ("1111 1111", "inconclusive", "inconclusive"),
        ("0044 0532", "inconclusive", "inconclusive"),
        ("555-0123", "fail", "pass"),
        ("bob@CORP.org", "inconclusive", "inconclusive"),
        ("Bob@Corp.org", "pass", "fail"),
        ("eve@corp.org", "fail", "pass"),
        ("+1 415 555 0123", "pass", "fail"),
        ("+1 (415) 5550123", "pass", "fail"),
        ("4111111111111111", "inconclusive", "inconclusive"),
        ("card 4111 1111 1111 1111", "pass", "fail"),
        ("5500005555555559", "fail", "pass"),
    ],
)
def test_a_part_of_a_secret_is_asked_about_as_it_was_written(
    text: str, contains: str, excludes: str
) -> None:
    assert verdict(f"{{answer: {{contains: ['{text}']}}}}", SAID) == contains
    assert verdict(f"{{answer: {{excludes: ['{text}']}}}}", SAID) == excludes


def test_a_secret_is_asked_about_in_each_way_that_it_was_written() -> None:
    answer = {"text": f"{SAID} Or 4111-1111-1111-1111.", "card": 4111111111111111}
    for text, said in (("1111 1111", "inconclusive"), ("1111-1111", "inconclusive")):
        assert verdict(f"{{answer: {{excludes: ['{text}']}}}}", answer) == said
    assert verdict("{answer: {excludes: ['1111.1111']}}", answer) == "pass"


def test_two_secrets_are_told_apart_without_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRACEKIT_REDACTION_KEY")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    rule = "{arguments: [{tool: send, pointer: /to, equals: %s}]}"
    answer = f"It is {MAIL}."
    assert verdict(rule % "eve@corp.org", answer, to="eve@corp.org") == "pass"
    assert verdict(rule % MAIL, answer, to="eve@corp.org") == "fail"
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_judged_is_told_without_what_was_taken() -> None:
    result = run_case(parse_case(CASE % "{answer: {matches: ['bob\\.ross']}}"), planner(MAIL))
    assert result.findings == ()
    assert result.verdict.reasons == (
        "redaction took values that expected.answer looks at, and what it says of them is not what"
        " it says of their placeholders",
    )
    assert MAIL not in str(result.as_dict())


def test_a_placeholder_that_the_case_gives_is_a_value_like_another() -> None:
    mail = "redacted-c4ff2c36a0ce2790@example.com"
    text = CASE.replace("returns: sent", f"returns: {mail}") % "{answer: {matches: ['^redacted-']}}"
    assert run_case(parse_case(text), planner(mail)).verdict.kind == "pass"


def _placeholder(key: str) -> str:
    return str(Redactor(Rules(), KeyedTagger(bytes.fromhex(key))).redact(MAIL).value)


@pytest.mark.parametrize("mine", ["a" * 64, "b" * 64, ""], ids=["its key", "another", "none"])
@pytest.mark.parametrize(
    "expected",
    [
        "{forbidden_tools: [{tool: send, arguments: {to: %s}}]}",
        "{arguments: [{tool: send, pointer: /to, schema: {not: {const: %s}}}]}",
        "{answer: {excludes: [%s]}}",
    ],
)
def test_a_secret_is_not_held_against_a_placeholder_of_another_key(
    expected: str, mine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEKIT_REDACTION_KEY", mine)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    on = expected % _placeholder("a" * 64)
    forbidden = {"a" * 64: {"fail", "inconclusive"}}.get(mine, {"inconclusive"})
    assert verdict(on) in forbidden
    # Nothing of its kind was said: then there is nothing that it could be.
    assert verdict(on, answer="done", to="desk 5") == "pass"


def test_a_case_that_names_its_key_tells_two_secrets_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = "a" * 64
    monkeypatch.setenv("TRACEKIT_REDACTION_KEY", key)
    on = f"{{forbidden_tools: [{{tool: send, arguments: {{to: {_placeholder(key)}}}}}]}}"
    named = KeyedTagger(bytes.fromhex(key)).key_id
    assert verdict(on, answer="done", to="eve@corp.org") == "inconclusive"
    assert verdict(f"{on}\nsource: {{redaction_key: '{named}'}}", "done", "eve@corp.org") == "pass"
    assert verdict(f"{on}\nsource: {{redaction_key: '{'0' * 16}'}}", "done", "eve@corp.org") == (
        "inconclusive"
    )


def test_an_id_that_redaction_takes_is_evidence_like_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = CASE.replace("returns: sent", "returns: {id: INC-4711}") % "{evidence: [%s]}"
    monkeypatch.setenv("TRACEKIT_REDACT", r"re:INC-\d+")
    with CaseRunner(planner("As INC-4711 says.")) as runner:
        assert runner.run(parse_case(text % "INC-4711")).verdict.kind == "pass"
        assert runner.run(parse_case(text % "INC-4712")).verdict.kind == "fail"


@pytest.mark.parametrize(
    ("rule", "expected", "place"),
    [
        ("customer", "arguments: [{tool: send, pointer: /customer, equals: Emma}]", "arguments/0"),
        ("$.a[1]", "arguments: [{tool: send, pointer: /a/1, equals: Emma}]", "arguments/0"),
        (
            "$.customer",
            "arguments: [{tool: send, schema: {properties: {customer: {const: Emma}}}}]",
            "arguments/0",
        ),
        ("customer", "answer: {schema: {properties: {customer: {enum: [Emma]}}}}", "answer"),
        ("re:Emma", "evidence: [Emma-1]", "evidence/0"),
        ("re:Emma", "answer: {schema: {properties: {a: {pattern: Emma}}}}", "answer/schema"),
    ],
)
def test_a_secret_in_what_is_expected_is_looked_for_where_it_would_stand(
    monkeypatch: pytest.MonkeyPatch, rule: str, expected: str, place: str
) -> None:
    case = parse_case(CASE % f"{{{expected}, required_tools: [send]}}")
    assert lint_case(case) == []
    monkeypatch.setenv("TRACEKIT_REDACT", rule)
    (found,) = lint_case(case)
    assert found.startswith(f"/expected/{place}")
    with pytest.raises(DistillError, match=f"/expected/{place}"):
        check_no_secrets(case, "# fine")


def test_a_path_that_counts_is_of_the_run_and_not_of_what_is_left_of_its_lists(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRACEKIT_REDACT", "$.rows[0].b, $.rows[*].c")
    text = CASE % "{required_tools: [send]}"
    written = text.replace("returns: sent", "returns: {rows: [{b: Emma}]}")
    made = written.replace("name: x", "name: x\nsource: {run: r}")
    assert [line.split()[0] for line in lint_case(parse_case(written))] == [
        "/observations/0/returns/rows/0/b"
    ]
    assert lint_case(parse_case(made)) == []
    check_no_secrets(parse_case(made), "#")
    (found,) = lint_case(parse_case(made.replace("b: Emma", "c: Emma")))
    assert found.startswith("/observations/0/returns/rows/0/c")


def test_a_secret_in_the_name_of_a_file_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    case = parse_case(CASE % "{required_tools: [send]}")
    monkeypatch.setenv("TRACEKIT_REDACT", r"re:INC-\d+")
    assert lint_case(case, file="star") == []
    (found,) = lint_case(case, file="INC-4711-star")
    assert found.startswith("the file's name holds what looks like a secret")
    with pytest.raises(DistillError, match="/name"):
        check_no_secrets(case.model_copy(update={"name": "INC-4711"}), "#")


OWN = """\
import re, tracekit
tracekit.configure(redact=[{rule}])
def reads(history, tools):
    shown = [m["content"] for m in history if m["role"] == "tool"]
    if not shown:
        return {{"calls": [{{"tool": "doc.get", "arguments": {{}}}}]}}
    code = re.search(r"Wire (\\S+)", str(shown[0]))
    if len(shown) == 1 and code:
        return {{"calls": [{{"tool": "wire.do", "arguments": {{"code": code[1]}}}}]}}
    return {{"answer": "done"}}
"""


def distilled_with(rule: str, folder: Path) -> DistillResult:
    """Distill a run that is older than the rule of the planner's code."""
    (folder / f"own_{folder.name}.py").write_text(OWN.format(rule=rule))
    run = record(
        call("doc.get", "read", "Hello. Wire CODE-991 now."),
        call("wire.do", "write", "ok", code="CODE-991"),
        tools=[contract("doc.get", "read"), contract("wire.do", "write", "code")],
    )
    options = DistillOptions(
        replay=ReplayOptions(path=(str(folder),), isolation="guard"),
        wish=Wish(failing=("forbid:wire.do",)),
    )
    return distill_record(run, planner=f"own_{folder.name}:reads", options=options)


def test_a_pattern_of_the_planners_code_is_redacted_in_the_case_of_an_older_run(
    tmp_path: Path,
) -> None:
    found = distilled_with('re.compile(r"CODE-\\d+")', tmp_path)
    assert "CODE-991" not in found.text
    assert "Wire redacted-pattern_1-" in found.text


@pytest.mark.slow
def test_a_function_of_the_planners_code_is_asked_before_a_case_is_written(tmp_path: Path) -> None:
    rule = 'lambda text: [m.span() for m in re.finditer(r"CODE-\\d+", text)]'
    with pytest.raises(DistillError, match=r"/observations/0/returns \(function\)"):
        distilled_with(rule, tmp_path)


def test_rules_of_both_processes_count_and_one_of_both_counts_once() -> None:
    mine = Rules.from_user(["owner", re.compile("A-1"), re.compile("B-2")])
    told = {"fields": ["$.a"], "patterns": [["pattern_1", "B-2", 32]], "functions": 1}
    both = with_told(mine, told)
    assert both.fields == ("$.a", "owner")
    assert [(name, one.pattern) for name, one in both.compiled] == [
        ("pattern_1", "B-2"),
        ("pattern_2", "A-1"),
    ]

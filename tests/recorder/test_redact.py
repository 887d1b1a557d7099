"""What redaction takes out, what it puts there, and what it leaves alone."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tracekit.redact
from tracekit.canonical import Encoded, decode, encode
from tracekit.errors import UsageError
from tracekit.redact import Finding, KeyedTagger, Redactor, Rules, Scope, placeholder_kind, scan
from tracekit.redact.detectors import is_card
from tracekit.redact.placeholders import iban_remainder
from tracekit.redact.text import TextRedactor

KEY = b"a key for tests, not for secrets"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA7\n-----END RSA PRIVATE KEY-----"
SAMPLES = {
    "email": "bob.olive+ops@mail.example.org",
    "phone": "+49 30 901820-55".replace("-", " "),
    "card": "4111 1111 1111 1111",
    "iban": "DE89 3704 0044 0532 0130 00",
    "aws_key": "AKIAIOSFODNN7EXAMPLE",
    "github_token": "ghp_" + "aB3d" * 9,
    "gitlab_token": "glpat-" + "aB3d" * 5,
    "slack_token": "xoxb-123456789012-abcdefABCDEF",
    "openai_key": "sk-proj-" + "aB3d" * 8,
    "anthropic_key": "sk-ant-api03-" + "aB3d" * 8,
    "stripe_key": "sk_live_" + "aB3d" * 6,
    "google_key": "AIza" + "aB3d5" * 7,
    "huggingface_token": "hf_" + "aBcD" * 9,
    "npm_token": "npm_" + "aB3d" * 9,
    "jwt": JWT,
    "private_key": PEM,
}


def redactor(**rules: Any) -> Redactor:
    return Redactor(Rules(**rules), KeyedTagger(KEY))


@pytest.mark.parametrize("kind", SAMPLES)
def test_each_kind_is_found_alone_and_in_a_sentence_with_one_placeholder(kind: str) -> None:
    secret = SAMPLES[kind]
    alone = redactor().redact(secret)
    inside = redactor().redact(f"use {secret}, please")
    assert alone.kinds == {kind: 1}
    assert inside.value == f"use {alone.value}, please"
    assert placeholder_kind(str(alone.value)) == kind


@pytest.mark.parametrize("kind", SAMPLES)
def test_another_key_gives_another_placeholder(kind: str) -> None:
    other = Redactor(Rules(), KeyedTagger(bytes(32)))
    assert other.redact_text(SAMPLES[kind]) != redactor().redact_text(SAMPLES[kind])


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("password: hunter2", "hunter2"),
        ("DB_PASSWORD=hunter2", "hunter2"),
        ('{"password": "hun ter2", broken', "hun ter2"),
        ('update_password(password=\\"1j1l-2k3j\\")', "1j1l-2k3j"),
        ("{'apiKey': 'abc123'}", "abc123"),
        ("GET /x?api_key=abc123&page=2", "abc123"),
        ("Authorization: Bearer abcdef123456", "abcdef123456"),
        ("authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("Cookie: sid=abc; theme=dark", "sid=abc; theme=dark"),
        ("https://bob:s3cret@host.example/x", "s3cret"),
        ("postgres://app:p@ss@db:5432/x", "p@ss"),
        ("Server=db;Password=hunter2;Timeout=5", "hunter2"),
        ("your one-time OTP is fine, otp: 006219", "006219"),
        ("token: password: hunter2", "hunter2"),
        ("https://hooks.slack.com/services/T00/B00/XyZ123abc", "XyZ123abc"),
    ],
)
def test_a_secret_given_to_a_name_goes_and_what_surrounds_it_stays(text: str, secret: str) -> None:
    result = redactor().redact(text)
    before, _, after = text.partition(secret)
    assert str(result.value).startswith(before)
    assert str(result.value).endswith(after)
    assert secret not in str(result.value)
    assert result.count == 1


@pytest.mark.parametrize(
    "text",
    [
        "sha256:" + "0123456789abcdef" * 4,
        "01890a5d-ac96-774b-bcce-b302099a8057",
        "call_9aBcD1234567890abcdefghij",
        "max_tokens=100, token_usage: 12345, prompt_tokens=12345678",
        "2026-11-30T10:00:00.123456Z 1700000000000000 1700000000000000000",
        "0.123456789012345678 4111111111111112 192.168.100.200",
        "git clone git@github.com:octo/hello.git",
        "def login(user: str, password: str, token: Optional[str] = None): ...",
        "api_key=os.environ['OPENAI_API_KEY'] password=${PASSWORD} token=get_token()",
        "Your password: the one that you chose. Basic understanding, bearer certificates.",
        "next_page_token=abc123def",
        "task-force-of-twenty-people-and-more, ski-resort",
        "toolu_01aBcD1234567890abcdefghij chatcmpl-9aBcD1234567890abcdefghij01234 fc_9aBcD12345",
        "tool_view_order_history_GUEbEdYAD1STuB4x4UOV01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV sha512-" + "aB3dE5gH7jK9mN1p" * 5 + "oQ==",
        "h1:aB3dE5gH7jK9mN1paB3dE5gH7jK9mN1paB3dE5gH7jQ=",
        "SHA256:aB3dE5gH7jK9mN1paB3dE5gH7jK9mN1paB3",
        "https://docs.example.com/d/1aB3dE5gH7jK9mN1paB3dE5gH7jK9mN1paB3/edit",
        "HorizontalPodAutoscaler2ControllerManagerV1Beta1Client3",
        "SGVsbG8sIHRoaXMgaXMgYSB0ZXh0IHRoYXQgaGlkZXMgbm90aGluZw==",
        "100%25 of 50%20percent",
        "US133000000121212121212 is no IBAN, GB29NWBK60161331926818 neither",
    ],
)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert redactor().redact(text).value == text


@pytest.mark.parametrize(
    "value",
    [
        {"max_tokens": 5, "token_usage": {"input": 1}, "prompt_tokens": 12, "page_token": "abc"},
        {"token": "Hello", "logprob": -0.1},
        {"properties": {"password": {"type": "string", "description": "The new one"}}},
        {"password": "", "secret": None, "has_password": True, "token": "***"},
    ],
)
def test_fields_that_only_sound_secret_stay(value: Any) -> None:
    result = redactor().redact(value)
    assert result.value is value


def test_placeholders_are_valid_for_their_field() -> None:
    texts = {kind: redactor().redact_text(secret) for kind, secret in SAMPLES.items()}
    assert re.fullmatch(r"redacted-[0-9a-f]{16}@example\.com", texts["email"])
    assert is_card(texts["card"])
    assert re.fullmatch(r"4000 00\d\d \d{4} \d{4}", texts["card"])
    assert iban_remainder(texts["iban"].replace(" ", "")) == 1
    assert re.fullmatch(r"\+[1-9]\d{7,14}", texts["phone"])
    assert texts["aws_key"].startswith("AKIA")
    assert len(texts["aws_key"]) == 20
    assert len(texts["github_token"]) == 40
    assert len(texts["google_key"]) == 39
    assert texts["jwt"].count(".") == 2


def test_numbers_stay_numbers() -> None:
    value: Any = {"card": 4111111111111111, "password": 1234, "secret": 0.5, "amount": 1234}
    result = redactor().redact(value).value
    assert isinstance(result, dict)
    assert {name: type(item) for name, item in result.items()} == {
        "card": int,
        "password": int,
        "secret": float,
        "amount": int,
    }
    assert is_card(str(result["card"]))
    assert result["amount"] == 1234
    assert result["password"] != 1234
    assert json.loads(json.dumps(result)) == result


def test_a_card_is_one_secret_however_it_is_spelt() -> None:
    spaced, dashed, bare = (
        redactor().redact_text(text)
        for text in ("4111 1111 1111 1111", "4111-1111-1111-1111", "4111111111111111")
    )
    assert spaced.replace(" ", "") == dashed.replace("-", "") == bare
    number = redactor().redact(4111111111111111).value
    assert str(number) == bare


def test_a_secret_has_one_placeholder_in_a_field_in_a_text_and_in_json_text() -> None:
    r = redactor()
    field = r.redact({"password": "hunter2"}).value
    assert isinstance(field, dict)
    assert r.redact_text("password=hunter2") == f"password={field['password']}"
    assert r.redact_text('{"password": "hunter2"}') == f'{{"password": "{field["password"]}"}}'
    assert r.redact({"api_key": SAMPLES["github_token"]}).value == {
        "api_key": r.redact_text(SAMPLES["github_token"])
    }
    assert r.redact({"authorization": "Bearer hunter2000"}).value == {
        "authorization": "Bearer " + str(r.redact_text("bearer hunter2000")).split()[1]
    }


def test_an_address_read_from_an_observation_is_the_same_when_it_is_written() -> None:
    r = redactor()
    observation = r.redact({"rows": [{"name": "Bob", "email": "bob@example.org"}]}).value
    recorded = r.redact({"to": ["bob@example.org"], "body": "Dear bob@example.org,"}).value
    assert isinstance(observation, dict)
    seen = observation["rows"][0]["email"]  # type: ignore[index, call-overload]  # known shape
    replayed = r.redact({"to": [seen], "body": f"Dear {seen},"})
    assert replayed.value == recorded
    assert replayed.count == 0


def test_a_secret_built_out_of_placeholders_has_the_tag_of_the_original() -> None:
    r = redactor(patterns={"ticket": r"TICKET<[^>]*>"})
    recorded = r.redact_text("see TICKET<bob@example.org>")
    replayed = r.redact_text(f"see TICKET<{r.redact_text('bob@example.org')}>")
    assert replayed == recorded
    assert placeholder_kind(recorded.removeprefix("see ")) == "ticket"


def test_json_inside_a_string_keeps_its_spelling() -> None:
    text = '{ "n": 1.50,\n  "u": "\\u00e9",  "to": "bob@example.org", "big": 1e400 }'
    result = redactor().redact({"arguments": text}).value
    assert isinstance(result, dict)
    expected = text.replace("bob@example.org", redactor().redact_text("bob@example.org"))
    assert result["arguments"] == expected


def test_json_with_a_key_twice_loses_no_secret_through_the_first() -> None:
    result = redactor().redact_text('{"password": "first1", "password": "second2"}')
    assert "first1" not in result
    assert "second2" not in result


def test_keys_that_are_secrets_are_redacted_and_stay_apart() -> None:
    value: Any = {"bob@example.org": 1, "+1 415 555 2671": 2, "+14155552671": 3}
    result = redactor().redact(value).value
    assert isinstance(result, dict)
    assert list(result.values()) == [1, 2, 3]
    assert not any("bob" in name or "555" in name for name in result)
    assert redactor().redact(result).value == result


def test_a_secret_argument_is_taken_out_of_the_error_text_of_the_same_scope() -> None:
    scope = Scope()
    arguments = redactor().redact({"user": "bob", "password": "hunter2"}, scope=scope).value
    assert isinstance(arguments, dict)
    error = redactor().redact_text("cannot log in with hunter2", scope=scope)
    assert error == f"cannot log in with {arguments['password']}"
    assert "hunter2" not in repr(scope)


def test_a_secret_learnt_late_in_a_value_is_taken_out_of_its_beginning() -> None:
    result = redactor().redact({"log": "tried hunter2", "password": "hunter2"}).value
    assert "hunter2" not in json.dumps(result)


@pytest.mark.parametrize(
    "data",
    [
        SAMPLES["github_token"].encode("utf-16"),
        f"see {SAMPLES['email']} there".encode("utf-32-le"),
        "grüße, password=hunter2x".encode("latin-1"),
        SAMPLES["github_token"].encode() + b"\xff\x00",
        bytes(range(128, 255)) + SAMPLES["npm_token"].encode() + bytes(20),
        json.dumps({"a": SAMPLES["email"]}).encode(),
    ],
)
def test_bytes_are_redacted_and_stay_bytes(data: bytes) -> None:
    encoded = encode({"data": data})
    redacted: Any = redactor().redact(encoded.value).value
    kept: Any = decode(Encoded(redacted, encoded.types))
    assert kept["data"] != data
    for secret in (SAMPLES["github_token"], SAMPLES["email"], "hunter2x", SAMPLES["npm_token"]):
        for codec in ("utf-8", "utf-16-le", "utf-32-le"):
            assert secret.encode(codec) not in kept["data"]
    assert redactor().redact(redacted).count == 0


def test_bytes_in_a_secret_field_have_the_placeholder_of_the_text() -> None:
    encoded = encode({"password": b"hunter2", "secret": b"\xff\x00\x01"})
    redacted: Any = redactor().redact(encoded.value).value
    kept: Any = decode(Encoded(redacted, encoded.types))
    text: Any = redactor().redact({"password": "hunter2"}).value
    assert kept["password"].decode() == text["password"]
    assert placeholder_kind(kept["secret"].decode()) == "secret"
    assert redactor().redact(redacted).count == 0


def test_user_fields_match_by_name_in_any_case_and_by_path() -> None:
    r = Redactor(Rules.from_user(["Customer", "$.card.number", "$.rows[*].note"]), KeyedTagger(KEY))
    value: Any = {
        "CUSTOMER": {"name": "Ann", "age": 40, "active": True},
        "card": {"number": "12", "type": "x"},
        "rows": [{"note": "a", "n": "b"}],
        "number": "12",
    }
    result: Any = r.redact(value).value
    assert result["card"]["type"] == "x"
    assert result["rows"][0]["n"] == "b"
    assert result["number"] == "12"
    assert result["CUSTOMER"]["active"] is True
    assert placeholder_kind(result["CUSTOMER"]["name"]) == "secret"
    assert isinstance(result["CUSTOMER"]["age"], int)
    assert placeholder_kind(result["card"]["number"]) == "number"
    assert placeholder_kind(result["rows"][0]["note"]) == "secret"


def test_user_patterns_and_functions_find_what_the_user_knows() -> None:
    def codename(text: str) -> list[tuple[int, int]]:
        return [match.span() for match in re.finditer("bluebird", text)]

    r = Redactor(Rules.from_user([re.compile(r"INC-(?P<secret>\d+)"), codename]), KeyedTagger(KEY))
    result = r.redact("INC-123 is about bluebird")
    assert result.kinds == {"pattern_1": 1, "function": 1}
    assert re.fullmatch(
        r"INC-redacted-pattern_1-\w{16} is about redacted-function-\w{16}", str(result.value)
    )


def test_a_function_may_give_the_text_back_without_the_secret() -> None:
    r = redactor(functions=(lambda text: text.replace("bluebird", "***"),))
    assert r.redact("about bluebird, bob@example.org").count == 2
    assert r.redact_text("about bluebird") == "about ***"


def test_spans_of_the_user_that_overlap_by_half_all_go() -> None:
    r = redactor(patterns={"a": "abXc", "b": "cYd"})
    result = r.redact("..abXcYd..")
    assert re.fullmatch(r"\.\.redacted-a-\w{16}\.\.", str(result.value))


@pytest.mark.parametrize(
    "function",
    [
        lambda text: 1 / 0,
        lambda text: [(0, 10_000)],
        lambda text: 42,
        lambda text: text + "!",
    ],
)
def test_a_rule_that_fails_lets_nothing_through(function: Any) -> None:
    value: Any = {"a": "something private", "b": [1, 2]}
    result = redactor(functions=(function,)).redact(value)
    assert placeholder_kind(str(result.value)) == "failed"
    assert result.kinds == {"failed": 1}
    assert result.failure is not None
    assert "private" not in result.failure
    again = redactor(functions=(function,)).redact(result.value)
    assert again.value == result.value


def test_a_tagger_that_fails_lets_nothing_through() -> None:
    class Broken:
        def tag(self, kind: str, secret: str) -> str:
            raise BrokenPipeError(secret)

    result = Redactor(Rules(), Broken()).redact({"to": "bob@example.org"})
    assert result.value == "redacted-failed-0000000000000000"
    assert result.failure == "the tagger raised BrokenPipeError"


def test_a_fault_of_the_redaction_lets_nothing_through(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> Any:
        raise ValueError("something private")

    for name in ("redact", "redact_pieces"):
        monkeypatch.setattr(TextRedactor, name, broken)
    result = redactor().redact({"a": "something private"})
    assert (placeholder_kind(str(result.value)), result.failure) == ("failed", "ValueError")
    assert [one.kind for one in redactor().scan(["something private"])] == ["failed"]
    assert [one.kind for one in redactor().scan_stream(["something ", "private"])] == ["failed"]


def test_a_value_nested_too_deeply_lets_nothing_through() -> None:
    value: Any = "bob@example.org"
    for _ in range(100_000):
        value = [value]
    assert placeholder_kind(str(redactor().redact(value).value)) == "failed"


@pytest.mark.parametrize(
    "rules", [{"patterns": {"x": "("}}, {"patterns": {"Bad-Name": "x"}}, {"fields": ("$.a[",)}]
)
def test_a_rule_that_cannot_be_understood_is_refused_when_given(rules: Any) -> None:
    with pytest.raises(UsageError):
        Rules(**rules)


def test_scan_names_what_is_not_redacted_and_nothing_else() -> None:
    value: Any = {
        "to": ["x", "bob@example.org"],
        "log": '{"password": "hunter2"}',
        "a/b": 4111111111111111,
    }
    assert scan(value) == [
        Finding("/to/1", "email"),
        Finding("/log/password", "secret"),
        Finding("/a~1b", "card"),
    ]
    assert scan(redactor().redact(value).value) == []


@pytest.mark.parametrize(
    "unit",
    ["a", "@", "a@", "a.", "1", "+1 ", "4111-", "eyJ", "://a:b", "password=", 'password="',
     "cookie: ", "token", "DE00 ", "redacted-", "-----BEGIN PRIVATE KEY-----", "{", "sk-", "%41",
     "YWJj", "aB3d/", "aB3dE5gH7jK9mN1p ", "SG.aB3dE5gH7jK9mN1p.", "SG.", "%", "%25", "a_",
     "curl ", "--password ", "<password>", "-sk-", "password=\"\"\"", "aB3dE5gH7jK9mN1p=",
     "\x1b[31m"],
)  # fmt: skip
def test_a_hostile_text_of_a_megabyte_is_redacted(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    result = redactor().redact(text)
    assert result.failure is None


SECRETS = st.sampled_from(sorted(SAMPLES.values()))
ENCODED = st.one_of(
    SECRETS.map(lambda text: base64.b64encode(f"see {text}".encode()).decode()),
    SECRETS.map(lambda text: base64.urlsafe_b64encode(f"see {text}".encode("utf-16")).decode()),
    SECRETS.map(lambda text: quote(f"see {text}")),
    SECRETS.map(lambda text: "".join(f"%{byte:02x}" for byte in text.encode())),
)
TEXTS = st.one_of(
    st.text(max_size=30),
    st.lists(
        st.one_of(
            SECRETS,
            ENCODED,
            st.sampled_from(
                ["password=", "token: ", " ", "\n", "https://u:", "@host.com ", '"', "\\", "x"]
            ),
            st.text(max_size=6),
        ),
        max_size=8,
    ).map("".join),
)
NAMES = st.one_of(st.sampled_from(["password", "token", "card", "note", "bob@example.org"]), TEXTS)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**53), 2**53),
        st.floats(allow_nan=False, allow_infinity=False),
        TEXTS,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(NAMES, inner, max_size=4),
        inner.map(json.dumps),
    ),
    max_leaves=12,
)


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return [shape(item) for item in value.values()]
    if isinstance(value, list):
        return [shape(item) for item in value]
    return type(value)


@given(VALUES)
def test_redacting_twice_is_redacting_once(value: Any) -> None:
    once = redactor().redact(value)
    twice = redactor().redact(once.value)
    assert twice.value == once.value
    assert twice.count == 0
    assert scan(once.value) == []


@given(VALUES)
def test_the_shape_of_a_value_stays(value: Any) -> None:
    assert shape(redactor().redact(value).value) == shape(value)


@given(SECRETS, st.sampled_from([" ", "\n", ", ", "<", "(", "'", '"', "\\n", "="]), SECRETS)
def test_no_sample_survives_between_any_signs(secret: str, sign: str, other: str) -> None:
    value: Any = {"a": f"x{sign}{secret}{sign[:1]}", "b": json.dumps([other, {secret: other}])}
    result = redactor().redact(value)
    assert secret not in json.dumps(result.value, ensure_ascii=False)


@given(TEXTS)
def test_rules_of_the_user_are_idempotent_too(text: str) -> None:
    r = redactor(patterns={"p": r"\d{3}|x.*", "q": r"(?i)host\S+ .*"})
    once = r.redact(text).value
    assert r.redact(once).value == once


def test_no_pattern_has_a_possessive_group() -> None:
    """Python 3.11 before 3.11.4 matches ``(...)*+`` wrongly, and swallows what stands behind."""
    package = Path(tracekit.redact.__file__).parent
    found = [
        f"{path.name}: {match[0]}"
        for path in sorted(package.glob("*.py"))
        for match in re.finditer(r"\)(?:[*+?]|\{\d*,?\d*\})\+[^+]", path.read_text("utf-8"))
    ]
    assert found == []

"""The prefilter errs to one side only: where it finds nothing, the redactor changes nothing."""

from __future__ import annotations

import base64
import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.canonical.plain import read_plain
from tracekit.redact import KeyedTagger, Redactor, Rules, Scope, find_placeholders, placeholders
from tracekit.redact.detectors import DETECTORS
from tracekit.redact.look import Look
from tracekit.redact.placeholders import FORMAT_KINDS, make_placeholder

KEY = b"a key for tests, not for secrets"
SECRETS = [
    "mia@firma.test", "+49 170 1234567", "+1 (415) 555-0132", "415-555-0132", "(415) 555-0132",
    "415.555.0132", "4111 1111 1111 1111", "4111111111111111", "3782 822463 10005",
    "DE89 3704 0044 0532 0130 00", "GB82WEST12345698765432", "https://user:hunter2@host/x",
    "postgres://öä:s3cret@db/x", "hooks.slack.com/services/T0/B0/abcdef", "Bearer abc12345",
    "BASIC dXNlcjpwYXNz", "password=hunter22", "api_key: 'abcd1234'", "X-Api-Key => zzzz9999",
    "token := abcd1234", "cookie: a=b; c=d", "Authorization: Bearer abcdefgh1",
    "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----", "sk-" + "a1" * 16,
    "ghp_" + "a" * 36, "AKIA" + "A" * 16, "eyJhbGciOi.eyJzdWIiOiIx.abc", "hf_" + "a" * 34,
    "xoxb-1234567890-abc", "AIza" + "b" * 35, "npm_" + "c" * 36, "sk_live_" + "d" * 20,
    base64.b64encode(b"mail mia@firma.test, please").decode(), "mail%3A%20mia%40firma.test%20",
    base64.urlsafe_b64encode(base64.b64encode(b">>> ghp_" + b"a" * 36)).decode(),
    "%67%68%70%5f" + "a" * 36, "password%253Dhunter22", "aX9kQ2mZ7pLr4TwB8nVcY3sD6fGh1JkL",
    "the secret is aX9kQ2mZ7pLr4TwB8nVc", "SG." + "aB3d" * 5 + "xx." + "aB3d" * 10 + "abc",
    "hvs." + "aB3d" * 8, "123456789:AA" + "aB3" * 11, "glsa_" + "aB3d" * 9, "dapi" + "0a" * 16,
    base64.b64encode(bytes(range(128, 200)) + b"ghp_" + b"a" * 36).decode(),
    base64.b64encode(b"it is hunter2-known, is it").decode(), "hunter2%2Dknown",
    "blob-" + base64.b64encode(b"see mia@firma.test").decode(), "\x1b[31mmia@firma.test",
    "state=" + base64.b64encode(b"see mia@firma.test").decode() + "&", "\x1b[31mghp_" + "a" * 36,
    "\\u0026ghp_" + "a" * 36, "my_ghp_" + "a" * 36, "card_4111111111111111", "-4111111111111111",
    "4111\u00a01111\u00a01111\u00a01111", "DE89-3704-0044-0532-0130-00", "+49\u00a030\u00a0901820",
    "BE68 5390 0754 7034 BIC KREDBEBB", "DB_PASS=hunter22", "MYSQL_PWD=hunter22",
    "curl -u bob:hunter22 https://x", "IDENTIFIED BY 'hunter22'", "--password hunter22 x",
    "<password>hunter22</password>", "cfg['password'] = 'hunter22'", 'secret = """hunter22"""',
    "with password 'hunter22'",
    "hunter2-known", "\\npassword=hunter22", "\\nsk-" + "a1" * 16, "otp=123456",
]  # fmt: skip
INNOCENT = [
    "token_usage", "the key: none", "keys", "10.0.0.1:8080", "https://host/path?a=b", "a@b", "+",
    "2024-01-02 03:04:05", "0.8444218515250481", "AB12", "monkey=business", "{", "[]", "{x}",
    '{"a": 1}', "deadbeef-1234-1234-1234-123456789012", "redacted", "\\", "\\u0041", "nan",
]  # fmt: skip
NAMES = [
    "password", "api_key", "p a s s w o r d", "token", "tokens", "id", "Cookie", "mia@firma.test",
    "name", "se\u00e9cret", "4111111111111111", "sk-" + "a1" * 16, "text", "type", "",
]  # fmt: skip
GLUE = st.sampled_from(["", " ", "\n", "\t", "\x01", "x", "é", '"', "\\", ".", "-", "n", ","])
PIECES = st.one_of(st.sampled_from(SECRETS), st.sampled_from(INNOCENT), st.text(max_size=8))
TEXTS = st.lists(st.tuples(GLUE, PIECES, GLUE).map("".join), max_size=3).map("".join)
CARDS = [4111111111111111, 378282246310005, -4111111111111111, 5555555555554444]
NUMBERS = st.one_of(
    st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(CARDS)
)
ATOMS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
KEYS = st.one_of(st.sampled_from(NAMES), st.text(max_size=6), TEXTS)
PLAIN = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(KEYS, inner, max_size=4),
        inner.map(json.dumps),
        inner.map(lambda value: " " + json.dumps(value, ensure_ascii=False, indent=1)),
    ),
    max_leaves=8,
)
KNOWN = {"hunter2-known": "redacted-secret-0123456789abcdef", 'quo"ted-é\n1': "redacted-x"}


@pytest.mark.parametrize(
    ("rules", "known"),
    [
        (Rules(), {}),
        (Rules(), KNOWN),
        (Rules(fields=("name", "Text")), {}),
        (Rules(fields=("name",), builtin=False), KNOWN),
    ],
)
@settings(max_examples=600)
@given(value=PLAIN)
def test_what_passes_is_not_changed(rules: Rules, known: dict[str, str], value: Any) -> None:
    redactor = Redactor(rules, KeyedTagger(KEY))
    plain = read_plain(value)
    if plain is None or not redactor.finds_nothing(plain, Scope(dict(known))):
        return
    redacted = redactor.redact(value, scope=Scope(dict(known)))
    assert redacted.value == value
    assert redacted.count == 0


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "place",
    [
        lambda secret: secret,
        lambda secret: ["x", {"a": [f"see {secret} there"]}],
        lambda secret: {f"of {secret}": 1},
        lambda secret: json.dumps({"a": [f"see {secret}"]}),
        lambda secret: [json.dumps({"a": json.dumps([f"see {secret}"])})],
        lambda secret: ["harmless", f"{secret}", "and more"],
    ],
)
def test_no_planted_secret_passes(secret: str, place: Any) -> None:
    redactor = Redactor(Rules(), KeyedTagger(KEY))
    value = place(secret)
    scope = Scope({"hunter2-known": "redacted-secret-0123456789abcdef"})
    is_secret = redactor.redact(value, scope=Scope(dict(scope.known))).count > 0
    plain = read_plain(value)
    missed = plain is not None and redactor.finds_nothing(plain, scope)
    assert not (is_secret and missed)


@pytest.mark.parametrize(
    "value",
    [
        {"rows": [{"id": 1, "name": "alpha", "score": 0.8444218515250481, "open": None}]},
        {"url": "https://host:8080/path", "at": "2024-01-02 03:04:05", "tokens": 7},
        {"arguments": '{"city": "Bonn", "limit": 3}', "monkey": "business: as usual"},
    ],
)
def test_the_usual_values_pass(value: Any) -> None:
    plain = read_plain(value)
    assert plain is not None
    assert Redactor(Rules(), KeyedTagger(KEY)).finds_nothing(plain, Scope())


def test_rules_that_are_not_known_let_nothing_pass() -> None:
    plain = read_plain({"a": "b"})
    assert plain is not None
    for rules in (
        Rules(fields=("$.a",)),
        Rules(patterns={"x": "b"}),
        Rules(functions=(lambda _text: None,)),
    ):
        assert not Redactor(rules, KeyedTagger(KEY)).finds_nothing(plain, Scope())
    assert Redactor(Rules(builtin=False), KeyedTagger(KEY)).finds_nothing(plain, Scope())


@settings(max_examples=300)
@given(text=st.lists(st.one_of(TEXTS, st.sampled_from("@\\nrt.a")), max_size=12).map("".join))
def test_addresses_are_found_where_the_pattern_alone_finds_them(text: str) -> None:
    (detector,) = [one for one in DETECTORS if one.kind == "email"]
    everywhere = dataclasses.replace(detector, starts=None)
    assert list(detector.find(Look(text))) == list(everywhere.find(Look(text)))


@settings(max_examples=300)
@given(data=st.data())
def test_placeholders_are_found_where_the_pattern_alone_finds_them(data: st.DataObject) -> None:
    made = [
        make_placeholder(kind, "0123456789abcdef", original)
        for kind in (*FORMAT_KINDS, "number", "secret", "pattern_1")
        for original in ("sk-proj-x", "AKIA", "4111-1111-1111-1111", "GB 1", "\\n", "ghp_")
    ]
    pieces = st.one_of(st.sampled_from(made), TEXTS, st.sampled_from(["0", "REDACTED", "ZZZZ"]))
    text = "".join(data.draw(st.lists(pieces, max_size=6)))
    alone = [
        (match.start(), match.end())
        for match in placeholders._PLACEHOLDER.finditer(text)
        if placeholders._genuine(match)
    ]
    assert [(wall.start, wall.end) for wall in find_placeholders(text)] == alone

"""A secret is found whatever touches it, and what only looks like one stays."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest

from tracekit.errors import UsageError
from tracekit.redact import KeyedTagger, Redactor, Rules, Scope
from tracekit.redact.placeholders import iban_remainder

TOKEN = "ghp_" + "aB3dE5gH7" * 4
RANDOM = "aX9kQ2mZ7pLr4TwB8nVcY3sD6fGh1JkLq8W2eR5tY9u"
FINDS = Redactor(Rules(), KeyedTagger(b"a key for tests, not for secrets"))


def redact(text: str) -> str:
    once = FINDS.redact_text(text)
    assert FINDS.redact_text(once) == once
    return once


@pytest.mark.parametrize(
    "around",
    [
        "\x1b[31m{}\x1b[0m", "\x1b[1;31m{}\x1b[0m", r"\u001b[31m{}\u001b[0m", r"a=1\u0026{}",
        r"q\u003d{}", r"\x3d{}", r"\n{}", r"\b{}", r"\f{}", r"\v{}", "key-{}", "token_{}", "my_{}",
    ],
)  # fmt: skip
def test_a_token_is_found_behind_an_escape_a_colour_and_a_word(around: str) -> None:
    assert redact(around.format(TOKEN)) == around.format(redact(TOKEN))


@pytest.mark.parametrize("around", ["\x1b[31m{}\x1b[0m", r"a=1\u0026{}", r"\x3d{}"])
def test_an_address_is_found_behind_an_escape_and_a_colour(around: str) -> None:
    for address in ("joe@corp.com", "user@corp.com"):
        assert redact(around.format(address)) == around.format(redact(address))


@pytest.mark.parametrize("around", ["card_{}", "card-{}", "-{}", "no.{}", r"\u003d{}", "x_{} y"])
def test_a_card_is_found_behind_a_word(around: str) -> None:
    assert redact(around.format("4111111111111111")) == around.format(redact("4111111111111111"))


@pytest.mark.parametrize("gap", ["\u00a0", "\u2009", "\u202f", "-", " "])
def test_a_number_is_one_secret_whatever_stands_between_its_groups(gap: str) -> None:
    visa = redact(gap.join(["4111", "1111", "1111", "1111"]))
    assert visa.replace(gap, "") == redact("4111111111111111")
    iban = redact(gap.join(["DE89", "3704", "0044", "0532", "0130", "00"]))
    assert iban.replace(gap, "") == redact("DE89370400440532013000")
    assert redact(gap.join(["+49", "30", "901820"])) == redact("+49 30 901820")


@pytest.mark.parametrize("after", [" BIC KREDBEBB", " 12 days", " EUR", " KREDBEBB", ", then", ""])
def test_an_iban_ends_where_its_country_says(after: str) -> None:
    said = redact(f"BE68 5390 0754 7034{after}")
    assert said.endswith(after)
    assert iban_remainder(said.removesuffix(after).replace(" ", "")) == 1
    assert said.startswith("GB")


@pytest.mark.parametrize("text", [f"it is {TOKEN}", f"it is {TOKEN} ok", f"it is {TOKEN}, ok?"])
@pytest.mark.parametrize(
    "around",
    ["https://app.example/cb?state={}", "payload={}", "a=1&payload={}&b=2", "blob-{}",
     "https://app.example/cb/{}", "https://app.example/cb/{}/next/Page", "id_{} x"],
)  # fmt: skip
def test_base64_is_read_behind_an_equals_sign_and_in_a_path(around: str, text: str) -> None:
    encoded = base64.b64encode(text.encode()).decode()
    if "/cb/" in around:
        encoded = encoded.rstrip("=")
    said = redact(around.format(encoded))
    before, _, after = around.partition("{}")
    new = said.removeprefix(before).removesuffix(after)
    assert base64.b64decode(new + "==").decode() == redact(text)


@pytest.mark.parametrize(
    "text",
    [
        'if "-----BEGIN PRIVATE KEY-----" in text: return True\n' + "more = 1\n" * 9,
        "client(api_key=api_key, auth_token=auth_token)",
        "login(password=user.password, token=request.headers)",
        f"integrity sha256-{RANDOM}=",
        f"digest: {RANDOM}= sha256 {RANDOM}=",
        "sk-2024-annual-report-finance-team",
        "task-sk-2024-annual-report-finance-team",
        "0.4111111111111111 1.4111111111111111",
    ],
)
def test_code_digests_and_names_stay(text: str) -> None:
    assert redact(text) == text


def test_a_word_in_a_secret_field_is_not_looked_for_everywhere() -> None:
    scope = Scope()
    FINDS.redact({"password": "created_at", "secret": "test-key", "token": "hunter2"}, scope=scope)
    text = "created_at of test-key, hunter2"
    assert FINDS.redact_text(text, scope=scope).startswith("created_at of test-key, redacted-")


@pytest.mark.parametrize("pattern", [re.compile("x*"), re.compile(b"A"), re.compile("")])
def test_a_pattern_that_can_find_nothing_is_refused_when_given(pattern: Any) -> None:
    with pytest.raises(UsageError):
        Rules.from_user([pattern])


def test_a_match_without_its_group_goes_as_a_whole() -> None:
    rules = Rules.from_user([re.compile("(?P<secret>INC-[0-9]+)?ticket")])
    finds = Redactor(rules, KeyedTagger(b"a key for tests, not for secrets"))
    assert "ticket" not in finds.redact_text("a ticket, INC-12ticket")

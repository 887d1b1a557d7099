"""Of a JSON text in which a key stands twice nothing gets through, whichever of the two is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tracekit.canonical.plain import read_plain
from tracekit.redact import KeyedTagger, Redactor, Rules, Scope, scan
from tracekit.redact.prefilter import _with_nested
from tracekit.redact.repeated import read_all, repeats_a_key

KEY = b"a key for tests, not for secrets"
SECRETS = ("hunter2 ok", "mia@firma.test", "4111111111111111", "ghp_" + "a1" * 18)
TEXTS = [
    '{"password":"hunter2 ok","password":""}',
    '{"password": "", "password": "hunter2 ok", "password": null}',
    '{ "to": "mia@firma.test",\n "to" : "x" }',
    '{"card":4111111111111111,"card":1}',
    '[{"a":{"token":"ghp_' + "a1" * 18 + '"},"a":1}]',
    '{"a":1,"a":{"b":[{"password":"hunter2 ok","x":1,"password":""}],"b":0}}',
    '{"password":{"x":"hunter2 ok","x":""}}',
    '{"password":{"type":"string","type":"hunter2 ok"}}',
    '{"name":"DB_PASSWORD","value":"hunter2 ok","value":""}',
    '{"value":"hunter2 ok","name":"x","name":"DB_PASSWORD"}',
    '{"name":"DB_PASSWORD","value":"","Value":"x","Value":"hunter2 ok"}',
    '{"password":"hunter2 ok","pass\\u0077ord":""}',
    json.dumps({"body": '{"password":"hunter2 ok","password":""}'}),
    '{"\\u0022":1,"password":"hunter2 ok","password":""}',
]
PLACES = [lambda text: text, lambda text: [text], lambda text: {"a": {"body": f" {text}\n"}}]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("text", TEXTS)
def test_each_of_the_values_of_a_repeated_key_is_redacted(text: str, place: Any) -> None:
    redactor = Redactor(Rules(), KeyedTagger(KEY))
    value = place(text)
    plain = read_plain(value)
    assert plain is not None
    assert not redactor.finds_nothing(plain, Scope())
    redacted = redactor.redact(value)
    assert redacted.count
    assert not any(secret in json.dumps(redacted.value) for secret in SECRETS)
    assert redactor.redact(redacted.value).value == redacted.value


@pytest.mark.parametrize("text", TEXTS)
def test_a_scan_finds_what_stands_under_a_repeated_key(text: str) -> None:
    assert scan([text])
    assert scan([Redactor(Rules(), KeyedTagger(KEY)).redact(text).value]) == []


def test_what_is_no_secret_keeps_its_spelling() -> None:
    text = '{ "a": 1.50, "to": "mia@firma.test",\n "a": "\\u00e9", "to": [ ] }'
    redactor = Redactor(Rules(), KeyedTagger(KEY))
    expected = text.replace("mia@firma.test", redactor.redact_text("mia@firma.test"))
    assert redactor.redact(text).value == expected
    harmless = '{"a": 1, "a": {"b": 2, "b": 3}}'
    assert redactor.redact(harmless).value == harmless


def test_a_path_of_the_user_holds_for_each_value_of_a_repeated_key() -> None:
    redactor = Redactor(Rules(fields=("$.body.pin",), builtin=False), KeyedTagger(KEY))
    redacted = redactor.redact({"body": '{"pin":"first","pin":"second","x":"third"}'})
    assert "first" not in str(redacted.value)
    assert "second" not in str(redacted.value)
    assert "third" in str(redacted.value)


def test_a_secret_that_two_items_share_is_found_under_a_repeated_key() -> None:
    items: Any = ['data: {"d":"ask mia@fir","d":"x"}', 'data: {"d":"ma.test now","d":"x"}']
    redacted = Redactor(Rules(), KeyedTagger(KEY)).redact_stream(items)
    assert isinstance(redacted.value, list)
    assert redacted.count == 1
    assert "mia@fir" not in str(redacted.value)


@pytest.mark.parametrize(
    ("text", "repeats"),
    [
        ('{"a": "x", "b": {"a": ["\\"", "\\\\", "\\n\\u00e9"]}}', False),
        ('{"a":1,"a":1}', True),
        ('[{"a":1},{"a":1}]', False),
        ('{"a":{"b":1},"a":{"b":1}}', True),
    ],
)
def test_a_repeated_key_is_told_by_the_quotes_that_are_missing(text: str, repeats: bool) -> None:
    assert repeats_a_key(text, json.loads(text)) is repeats
    assert (read_all(text) == json.loads(text)) is not repeats
    plain = read_plain([text])
    assert plain is not None
    contents = plain.contents()
    assert contents is not None
    assert (_with_nested(contents) is None) is repeats

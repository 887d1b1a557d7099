"""What the glance sees nothing in, the redactor leaves as it is; what a secret holds, it sees."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recorder.leak_kit import SECRETS as PLANTED
from tests.recorder.test_redact_prefilter import KEY, KNOWN, PLAIN, SECRETS
from tracekit.canonical.plain import read_plain
from tracekit.redact import KeyedTagger, Redactor, Rules, Scope
from tracekit.redact.detectors import DETECTORS, Detector
from tracekit.redact.glance import Glance
from tracekit.redact.issued import ISSUED
from tracekit.redact.names import TAILS, name_class, secret_endings

BUILTIN = Glance((), builtin=True, patience=0)
PLACES = [
    lambda text: text,
    lambda text: ["x", {"a": [f"see {text} there"]}],
    lambda text: {f"of {text}": 1},
    lambda text: {"a": f"é {text}"},
    lambda text: {"a": f"line\n{text}\nline"},
    lambda text: json.dumps({"a": [f"see {text}"]}),
    lambda text: [[0.8444218515250481, None, 17], {"b": {"c": text}}],
]


def _is_redacted(value: Any, rules: Rules, known: dict[str, str]) -> bool:
    redactor = Redactor(rules, KeyedTagger(KEY))
    redacted = redactor.redact(value, scope=Scope(dict(known)))
    return redacted.value != value or redacted.count > 0


def _is_missed(value: Any, rules: Rules, known: dict[str, str]) -> bool:
    try:
        data = orjson.dumps(value)
    except TypeError:  # half a character: such values go the careful way
        return False
    glance = Glance(rules.names, builtin=rules.builtin, patience=0)
    return glance.sees_nothing(data, known) and _is_redacted(value, rules, known)


@pytest.mark.parametrize("known", [{}, KNOWN], ids=["nothing known", "known"])
@settings(max_examples=200)
@given(value=PLAIN)
def test_where_it_sees_nothing_the_redactor_changes_nothing(
    known: dict[str, str], value: Any
) -> None:
    try:
        data = orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER)
    except TypeError:
        return
    if BUILTIN.sees_nothing(data, known):
        assert not _is_redacted(value, Rules(), known)


@pytest.mark.parametrize(
    "rules", [Rules(fields=("name", "Text")), Rules(fields=("name", "straße"), builtin=False)]
)
@pytest.mark.parametrize("key", ["name", "Name", "TEXT", "straße", "STRASSE", "na\u017fe", "tex"])
@pytest.mark.parametrize("value", ["plain", 7, ["x"], {"a": "b"}, None])
def test_fields_of_the_user_are_seen(rules: Rules, key: str, value: Any) -> None:
    assert not _is_missed({"a": [{key: value}]}, rules, {})


@pytest.mark.parametrize("place", PLACES)
def test_no_secret_that_the_tests_know_is_missed(place: Any) -> None:
    texts = [*SECRETS, *(planted.text for planted in PLANTED.values())]
    texts += [planted.secret for planted in PLANTED.values()]
    missed = [text for text in texts if _is_missed(place(text), Rules(), KNOWN)]
    assert missed == []


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda one: f"{one.kind} {one.needles[0]!r}")
@settings(max_examples=30)
@given(data=st.data())
def test_what_a_detector_finds_is_seen(detector: Detector, data: st.DataObject) -> None:
    pattern = re.sub(r"(?<!\()\?\+|(?<=[+*}])\+", "", detector.pattern.pattern)
    found = data.draw(st.from_regex(re.compile(pattern, detector.pattern.flags)))
    text = data.draw(st.sampled_from(["{}", "see {}", "é{} x", "x: {}, y"])).replace("{}", found)
    assert not _is_missed([text], Rules(), {})


@pytest.mark.parametrize("kind", sorted(ISSUED))
@settings(max_examples=8)
@given(data=st.data())
def test_tokens_are_seen(kind: str, data: st.DataObject) -> None:
    prefix = data.draw(st.sampled_from(ISSUED[kind].prefixes))
    letters = data.draw(st.sampled_from(["abcdef0123456789", "abcxyz_-", "ABCabc123", "éa1", "7"]))
    rest = data.draw(st.text(letters, min_size=10, max_size=60))
    before = data.draw(st.sampled_from(["", " ", "my_", "a-", "é", "=", "x", ".", "1//", "sig="]))
    assert not _is_missed({"a": before + prefix + rest}, Rules(), {})


@settings(max_examples=200)
@given(data=st.data())
def test_names_of_secrets_are_seen_however_they_are_spelt(data: st.DataObject) -> None:
    word = data.draw(st.sampled_from(sorted(secret_endings())))
    gap = st.sampled_from(["", "", "", "_", "-", " ", ".", "é", "\u0663"])
    case = st.sampled_from([str.lower, str.upper, str.title])
    spelt = "".join(data.draw(gap) + data.draw(case)(char) for char in word)
    before = data.draw(st.sampled_from(["", "db_", "my", "Access", "api-", "x", "client ", "num_"]))
    after = data.draw(st.lists(st.sampled_from(["_", "2", *TAILS, "Value", "é"]), max_size=3))
    name = before + data.draw(case)(spelt) + "".join(after)
    value = data.draw(st.sampled_from(["plain", 7, ["x"], {"a": "b"}]))
    assert not _is_missed({name: value}, Rules(), {})
    assert not _is_missed([f"{name}=plain9", f"{name}: 'plain9'"], Rules(), {})
    assert name_class(name) is None or not BUILTIN.sees_nothing(orjson.dumps({name: "x"}), {})


@pytest.mark.parametrize(
    "value",
    [
        {"rows": [{"id": 1, "name": "alpha", "score": 0.8444218515250481, "open": None}]},
        {"url": "https://host:8080/path?a=b", "at": "2026-11-30T09:15:00.123456+00:00"},
        {"id": "3f2b9c1e-5a7d-4e21-9f0c-1b2a3c4d5e6f", "digest": "sha256:" + "0a1b" * 16},
        {"key": "a", "tokens": 4, "usage": {"input_tokens": 7, "max_tokens": 9}, "at": 1.7e9},
        {
            "text": "A line.\nAnother one, with a monkey, which is no name.\n",
            "n": 1_764_494_100_123,
        },
        {"page": "§ 3 of 12 é", "passenger": {"name": "x"}, "author": "y"},
    ],
)
def test_the_usual_values_raise_no_doubt(value: Any) -> None:
    assert BUILTIN.sees_nothing(orjson.dumps(value), {})


def test_a_secret_learnt_elsewhere_is_seen() -> None:
    data = orjson.dumps({"a": "it was hunter2-known"})
    assert BUILTIN.sees_nothing(data, {})
    assert not BUILTIN.sees_nothing(data, KNOWN)


def test_more_names_than_it_can_look_for_leave_every_value_in_doubt() -> None:
    names = [f"field_{number}" for number in range(20_000)]
    assert not Glance(names, builtin=True, patience=0).sees_nothing(b'{"a":1}', {})
    redactor = Redactor(Rules(fields=tuple(names)), KeyedTagger(KEY))
    assert redactor.redact({"field_19999": "plain"}).count == 1


def test_an_automaton_is_made_only_for_who_records_much() -> None:
    glance = Glance((), builtin=True)
    data = orjson.dumps({"a": "nothing secret " * 600})
    first = [glance.sees_nothing(data, {}) for _ in range(20)]
    assert not any(first)
    later = [glance.sees_nothing(data, {}) for _ in range(20)]
    assert later[-1]


def test_what_was_made_for_some_rules_serves_every_redactor_that_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rules = Rules(fields=("made_once",))
    Redactor(rules, KeyedTagger(KEY)).warm_up()
    monkeypatch.setattr(Glance, "_compile", None)
    other = Redactor(Rules(fields=("made_once",)), KeyedTagger(KEY[::-1]))
    monkeypatch.setattr(other, "_prefilter", object())  # is not asked
    plain = read_plain({"a": "plain"})
    assert plain is not None
    assert other.finds_nothing(plain, Scope())

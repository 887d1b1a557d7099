"""In a long text is found, piece by piece, exactly what is found in it as a whole.

The plain form to compare with reads the whole text: every pattern tries every character, every run
and every word of a name is read. The quick one asks automata where to look, here in pieces so small
that something stands at each of their borders.
"""

from __future__ import annotations

import base64
import dataclasses
import random
import re
import string
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recorder.leak_kit import SECRETS as PLANTED
from tests.recorder.test_redact_prefilter import INNOCENT, KEY, SECRETS
from tests.recorder.test_redact_short_way import WORDS
from tracekit.redact import KeyedTagger, Redactor, Rules, places
from tracekit.redact.assignments import _name_before, find_assignments
from tracekit.redact.detectors import DETECTORS, Span, find_forms
from tracekit.redact.look import Look
from tracekit.redact.placeholders import find_placeholders
from tracekit.redact.starts import card_starts
from tracekit.redact.tokens import find_tokens

DICE = random.Random(11)
_LETTERS = string.ascii_letters + string.digits
FILLERS = [
    "", " ", "x", "\n", "The queue held 1204 jobs on Monday, and the key question was asked. ",
    "Очередь на сервере: 12 заданий. ", "星期一早上", "٠١٢٣٤٥٦٧٨٩ ", "é", "\\", "\\n",
    "\\u0026", "=",
    *("".join(DICE.choices("0123456789abcdef ", k=90)) for _ in range(3)),
    *("".join(DICE.choices("0123456789ABCDEF", k=64)) for _ in range(3)),
    *(" ".join(str(uuid.UUID(int=DICE.getrandbits(128))) for _ in range(3)) for _ in range(2)),
    *(base64.b64encode(DICE.randbytes(80)).decode() for _ in range(4)),
    *("".join(DICE.choices(_LETTERS + "_-", k=120)) for _ in range(3)),
    '2026-11-30T09:15:00Z INFO 10.0.0.17:8080 GET https://host.test/jobs?page=3&q=key 200\n',
    'def look(self, token: str, key=None) -> "Token":\n    return self.tokens[key] == token\n',
    '{"id": 17, "score": 0.8444218515250481, "name": "alpha", "tokens": 4}', "-" * 70, "0" * 40,
]  # fmt: skip
SAID = [
    *SECRETS, *(one.text for one in PLANTED.values()), *(one.secret for one in PLANTED.values()),
    *INNOCENT, *WORDS, "\u0664111 1111 1111 1111", "4\u0661\u0661\u0661111111111111",
    "+4\u0669 30901820",
    "\x1b[31m4111111111111111", "\\u00264111111111111111", "\\x264111111111111111", "\\u00e9DE89",
    "redacted-0123456789abcdef@example.com", "ghp_REDACTED0123456789abcdef0000",
]  # fmt: skip
TEXTS = st.lists(st.one_of(st.sampled_from(FILLERS), st.sampled_from(SAID)), max_size=9).map(
    "".join
)


@contextmanager
def _looking(*, long: int, piece: int = 512) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places, "_LONG", long)
        patch.setattr(places, "_PIECE", piece)
        yield


def _everywhere(text: str) -> list[Span]:
    """Find in the plain form."""
    with _looking(long=1 << 60):
        look = Look(text)
        found = [
            span
            for one in DETECTORS
            if any(needle in look._form(one.form) for needle in one.needles)
            for span in dataclasses.replace(one, starts=None).find(look)
        ]
        return [*found, *find_tokens(look), *find_assignments(look)]


def _in_pieces(text: str, piece: int) -> list[Span]:
    with _looking(long=0, piece=piece):
        look = Look(text)
        return [*find_forms(look, DETECTORS), *find_tokens(look), *find_assignments(look)]


@settings(max_examples=250)
@given(text=TEXTS, piece=st.sampled_from([1, 7, 64, 200, 512]))
def test_in_pieces_is_found_what_is_found_in_the_whole(text: str, piece: int) -> None:
    found = _everywhere(text)
    assert _in_pieces(text, piece) == found
    assert Look(text).may_match() or not list(find_forms(Look(text), DETECTORS))


@pytest.mark.slow
@settings(max_examples=20_000)
@given(text=TEXTS, piece=st.integers(1, 600))
def test_in_pieces_is_found_what_is_found_in_the_whole_of_many_texts(text: str, piece: int) -> None:
    assert _in_pieces(text, piece) == _everywhere(text)
    assert Look(text).may_match() or not list(find_forms(Look(text), DETECTORS))


@pytest.mark.parametrize("over", [0, 1, 2, 7, 13, 40, 63, 64, 65, 96])
def test_a_secret_at_any_border_is_found(over: int) -> None:
    far = "secret" + "_" * 34 + ": hunter22"
    for said in (far, *SECRETS, *(one.text for one in PLANTED.values())):
        for filler in ("words of no key, ", "слова "):
            text = (filler * 50)[: 512 - over - 1] + f" {said} " + filler * 50
            assert _in_pieces(text, 512) == _everywhere(text), said


@settings(max_examples=100)
@given(text=TEXTS, piece=st.sampled_from([7, 64, 512]))
def test_a_long_text_is_redacted_as_a_short_one(text: str, piece: int) -> None:
    redactor = Redactor(Rules(), KeyedTagger(KEY))
    with _looking(long=0, piece=piece):
        quick = redactor.redact([text])
        walls = find_placeholders(text)
    with _looking(long=1 << 60):
        assert redactor.redact([text]) == quick
        assert find_placeholders(text) == walls


@settings(max_examples=50)
@given(st.text("aZ9_-é.\u0663 (", max_size=60))
def test_the_name_before_a_word_is_what_can_be_one(text: str) -> None:
    assert _name_before(text, len(text)) == re.split(r"[^\w-]", text[-40:])[-1]


@pytest.mark.parametrize(
    "card",
    ["4111111111111111", "4111 1111 1111 1111", "4111-1111-1111-1111", "378282246310005",
     "3782-822463-10005", "3782\u00a0822463\u00a010005"],
)  # fmt: skip
@pytest.mark.parametrize(
    "before", ["", " ", "x", "12", "\\u0026", "\\x41", "\x1b[31m", "no.", "a_"]
)
def test_where_a_card_begins_is_known_wherever_it_stands(before: str, card: str) -> None:
    look = Look(f"{before}{card} {before}{card}")
    (detector,) = [one for one in DETECTORS if one.kind == "card"]
    everywhere = dataclasses.replace(detector, starts=None)
    assert list(detector.find(look)) == list(everywhere.find(look))


def test_in_a_long_row_of_digits_few_places_are_tried() -> None:
    assert card_starts(Look("0" * 500)) == [0, 1, 2, 3, 4]


def test_a_secret_that_stands_in_each_line_is_learnt_once_and_seen_once_more_by_nobody() -> None:
    asked: list[str] = []

    class Counting(KeyedTagger):
        def tag(self, kind: str, secret: str) -> str:
            asked.append(secret)
            return super().tag(kind, secret)

    text = "Ask mia@firma.test or tom@firma.test.\n" * 1_000
    redacted = Redactor(Rules(), Counting(KEY)).redact(text)
    assert asked == ["mia@firma.test", "tom@firma.test"]
    assert redacted.kinds == {"email": 2_000}
    assert not list(find_forms(Look(str(redacted.value)), DETECTORS))

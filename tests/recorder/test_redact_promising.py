"""Of many words of base64, asked together, those are named that say something."""

from __future__ import annotations

import base64
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.recorder.test_redact_prefilter import SECRETS
from tracekit.redact import entropy, promising
from tracekit.redact.detectors import find_random
from tracekit.redact.encoded import Layer, layers
from tracekit.redact.look import Look

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_"
_TOKEN = b"ghp_" + b"aB3dE6gH9j" * 4
_SAID = st.one_of(
    st.sampled_from([secret.encode() for secret in SECRETS]),
    st.text("abcXYZ 019é\0\x01", min_size=9, max_size=60).map(str.encode),
    st.text("abcXYZ 019é😀", min_size=6, max_size=30).flatmap(
        lambda text: st.sampled_from(["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]).map(
            text.encode
        )
    ),
    st.tuples(st.binary(max_size=40), st.just(_TOKEN), st.binary(max_size=40)).map(b"".join),
    st.binary(min_size=12, max_size=80),
)


def _word(data: bytes, before: str, *, urlsafe: bool, padded: bool) -> str:
    text = (base64.urlsafe_b64encode if urlsafe else base64.b64encode)(data).decode()
    return before + (text if padded else text.rstrip("="))


_WORDS = st.one_of(
    st.builds(
        _word,
        _SAID,
        st.sampled_from(["", "x", "n", "u0026", "a/", "path/to_", "-" * 9, "/" * 12]),
        urlsafe=st.booleans(),
        padded=st.booleans(),
    ),
    st.text(_LETTERS, min_size=14, max_size=90),
)
_TEXTS = st.lists(st.tuples(_WORDS, st.sampled_from([" ", "\n", "é", ".", "="])), max_size=12).map(
    lambda parts: "".join(word + gap for word, gap in parts)
)


def _layers(text: str, *, few: int) -> list[Layer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(promising, "_FEW", few)
        return list(layers(Look(text)))


@settings(max_examples=200)
@given(_TEXTS)
def test_what_words_say_is_found_whether_they_are_asked_together_or_one_by_one(text: str) -> None:
    assert _layers(text, few=0) == _layers(text, few=1 << 60)


@pytest.mark.slow
@settings(max_examples=20_000)
@given(_TEXTS)
def test_what_words_say_is_found_in_many_texts(text: str) -> None:
    assert _layers(text, few=0) == _layers(text, few=1 << 60)


@settings(max_examples=100)
@given(
    st.lists(
        st.sampled_from(
            [
                *(
                    "the token is ",
                    "API key: ",
                    "passwd\n",
                    "\\n",
                    " ",
                    "Abcdefghij0123456789",
                    "é ",
                ),
                *("aX9kQ2mZ7pLr4TwB8nVc", "aX9kQ2mZ7pLr4TwB8nVcaX9kQ2mZ7pLr4", "x" * 30, "secret"),
            ]
        ),
        max_size=10,
    ).map("".join)
)
def test_no_word_is_left_out_that_is_random_by_what_stands_before_it(text: str) -> None:
    look = Look(text)
    everywhere = [
        word for word in look.mixed if entropy.is_random_word(look.text, word[0], word[1])
    ]
    assert [(span.start, span.end) for span in find_random(look)] == everywhere


@pytest.mark.parametrize("size", [76, 64, 40, 20])
def test_of_random_words_few_are_looked_at_one_by_one(size: int) -> None:
    dice = random.Random(5)
    words = ["".join(dice.choices(_LETTERS[:62], k=size)) for _ in range(2_000)]
    look = Look("\n".join(words))
    assert len(promising.promising(look.raw, look.mixed)) < 2_000 * 0.06

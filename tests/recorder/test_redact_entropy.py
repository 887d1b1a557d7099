"""Random words are taken for secrets; digests, ids and names of real traces are not."""

from __future__ import annotations

import random
import string
from pathlib import Path

import pytest

from tracekit.redact import KeyedTagger, Redactor, Rules, find_placeholders
from tracekit.redact.detectors import find_random
from tracekit.redact.issued import ISSUED
from tracekit.redact.look import Look
from tracekit.redact.placeholders import make_placeholder

TRACES = Path(__file__).parents[2] / "fixtures" / "traces"
BASE62 = string.ascii_letters + string.digits
ALPHABETS = {"letters and digits": BASE62, "base64": f"{BASE62}+/", "URL-safe": f"{BASE62}-_"}


def found_in(text: str) -> list[str]:
    return [text[span.start : span.end] for span in find_random(Look(text))]


@pytest.mark.parametrize("alphabet", ALPHABETS)
@pytest.mark.parametrize(("size", "share"), [(32, 0.75), (40, 0.88), (48, 0.93)])
def test_most_random_keys_are_found_by_themselves(alphabet: str, size: int, share: float) -> None:
    chance = random.Random(17)
    keys = ["".join(chance.choices(ALPHABETS[alphabet], k=size)) for _ in range(500)]
    found = [key for key in keys if found_in(f"it is {key}, I think") == [key]]
    assert len(found) >= share * len(keys)


@pytest.mark.parametrize("before", ["the token is ", "password of db: ", "Your API key (new) "])
def test_shorter_ones_are_found_behind_a_word_that_speaks_of_secrets(before: str) -> None:
    key = "aX9kQ2mZ7pLr4TwB8nVc"
    assert found_in(f"{before}{key}.") == [key]
    assert found_in(f"the answer is {key}.") == []


def test_real_traces_hold_no_random_word() -> None:
    read = 0
    for path in sorted(TRACES.rglob("*")):
        if path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            read += len(text)
            assert [word for line in text.splitlines() for word in found_in(line)] == []
    assert read > 300_000


@pytest.mark.parametrize("kind", ISSUED)
def test_the_placeholder_of_an_issuers_token_is_known_again_and_is_no_random_word(
    kind: str,
) -> None:
    for prefix in ISSUED[kind].prefixes:
        made = make_placeholder(kind, "0123456789abcdef", f"{prefix}rest")
        assert made.startswith(prefix)
        assert len(made) >= min(ISSUED[kind].length, len(prefix) + 24)
        assert [wall.kind for wall in find_placeholders(f"x {made} y")] == [kind]
        assert found_in(f"x {made} y") == []


def test_the_placeholder_of_one_key_makes_no_secrets_of_the_ids_behind_it() -> None:
    chance = random.Random(3)
    ids = " ".join("".join(chance.choices(BASE62, k=22)) for _ in range(20))
    text = f"aX9kQ2mZ7pLr4TwB8nVcaX9kQ2mZ7pLr4 {ids}"
    redacted = Redactor(Rules(), KeyedTagger(b"k" * 32)).redact(text)
    assert redacted.kinds == {"secret": 1}
    assert str(redacted.value).endswith(ids)

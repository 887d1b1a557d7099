"""A literal that a text did not hold is looked for only where the text has changed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tracekit.redact.detectors import DETECTORS
from tracekit.redact.look import LONGEST_LITERAL, Look
from tracekit.redact.streams import Edit
from tracekit.redact.text import _around, _edited

_LITERALS = [(one.form, needle) for one in DETECTORS for needle in one.needles]
_PIECES = st.sampled_from(
    [needle.decode() for _, needle in _LITERALS]
    + [needle.decode()[half:] for _, needle in _LITERALS for half in (1, len(needle) // 2)]
    + [needle.decode()[: len(needle) // 2] for _, needle in _LITERALS]
    + ["x" * 70, " ", "7", "AB12", "\n", "é"]
)
_TEXTS = st.lists(_PIECES, max_size=8).map("".join)


@st.composite
def _edits(draw: st.DrawFn) -> tuple[str, list[Edit]]:
    text = draw(_TEXTS)
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pairs = zip(places[::2], places[1::2], strict=False)
    return text, [Edit(start, end, draw(_TEXTS)) for start, end in pairs]


@given(_edits())
def test_a_look_at_what_changed_finds_what_a_look_at_all_finds(
    case: tuple[str, list[Edit]],
) -> None:
    text, edits = case
    first = Look(text)
    for form, literal in _LITERALS:
        first.has(form, literal)
    new = _edited(text, edits)
    look = Look(new, before=first, changed=_around(text, edits))
    whole = {"raw": look.raw, "low": look.low, "shape": look.shape}
    for form, literal in _LITERALS:
        assert look.has(form, literal) == (literal in whole[form])


def test_a_second_look_reads_the_changed_places_alone() -> None:
    text = "nothing to see here. " * 10_000 + "mia@firma.test" + " and nothing here" * 10_000
    start = text.index("mia@")
    edits = [Edit(start, start + 14, "somebody")]

    changed = _around(text, edits)

    assert len(changed) == len("somebody") + 2 * LONGEST_LITERAL + LONGEST_LITERAL + 1
    assert changed.count("somebody") == 1


def test_no_literal_is_longer_than_what_is_kept_around_a_change() -> None:
    assert max(len(literal) for _, literal in _LITERALS) <= LONGEST_LITERAL

"""Texts and values taken apart: what is left is what was there, in its order, and valid."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.distill import pieces, trees
from replay.distill.draft import draft_of
from replay.distill.packed import packed, unpacked
from replay.distill.provenance import flow_into, slices
from tests.distill.distill_kit import INSTRUCTION, attacked
from tracekit.canonical import Encoded, JsonValue, decode, encode

SPLITTERS = pytest.mark.parametrize("split", pieces.SPLITTERS.values(), ids=pieces.SPLITTERS)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@SPLITTERS
@given(text=st.text(alphabet="ab.!? \n\\nr<>'\"。é", max_size=40))
def test_the_pieces_of_a_text_are_the_text(split: Callable[[str], list[str]], text: str) -> None:
    assert "".join(split(text)) == text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Two days. Pay now! Why? Never", ["Two days. ", "Pay now! ", "Why? ", "Never"]),
        ("Visit www.example.org today. Bye.", ["Visit www.example.org today. ", "Bye."]),
        ("日本語です。終わり！", ["日本語です。", "終わり！"]),
        ('He said "Go." Then left.', ['He said "Go." ', "Then left."]),
        ("one\\n\\ntwo. three", ["one\\n\\n", "two. ", "three"]),
    ],
)
def test_sentences_end_where_a_reader_ends_them(text: str, found: list[str]) -> None:
    assert pieces.sentences(text) == found


@pytest.mark.parametrize("sentences", [10, 200])
def test_a_text_is_not_split_again_for_each_of_its_pieces(
    sentences: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    split = dict.fromkeys(pieces.SPLITTERS, 0)

    def counting(kind: str, splitter: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
        def counted(text: str) -> list[str]:
            split[kind] += len(text)
            return splitter(text)

        return counted

    page = "Lorem ipsum dolor. " * sentences + INSTRUCTION
    draft = draft_of(attacked(page), kind="decide")
    flow = flow_into("bank.pay", {"iban": "DE1234567890"}, draft)
    for kind, splitter in list(pieces.SPLITTERS.items()):
        monkeypatch.setitem(pieces.SPLITTERS, kind, counting(kind, splitter))

    _, first, *_ = slices(draft, flow, None)

    assert any(fixture.returns == INSTRUCTION for fixture in first.case.observations)
    assert max(split.values()) < 20 * len(page)


def test_what_is_left_of_a_text_has_no_loose_ends() -> None:
    assert pieces.without("one\\n\\ntwo.\n  three", pieces.lines, {0, 2}) == "two."


@given(VALUES, st.data())
def test_leaving_everything_out_leaves_the_empty_container(
    value: JsonValue, data: st.DataObject
) -> None:
    pointers = [pointer for _, pointer, _ in trees.nodes(value)]
    chosen = set(data.draw(st.lists(st.sampled_from(pointers)))) if pointers else set()
    less, _ = trees.without(value, {}, chosen)
    assert type(less) is type(value)
    assert len(list(trees.nodes(less))) <= len(pointers) - len(chosen)
    everything, _ = trees.without(value, {}, pointers)
    assert everything in ([], {}) or not pointers


def test_the_types_beside_a_value_move_with_what_they_mark() -> None:
    times = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
    encoded = encode({"a": times, "b": {1, 2}})
    value, types = trees.without(encoded.value, encoded.types, ["/a/0", "/b"])
    assert decode(Encoded(value, types)) == {"a": times[1:]}


def test_required_members_are_found_beneath_lists() -> None:
    schema: JsonValue = {
        "required": ["rows"],
        "properties": {"rows": {"items": {"required": ["id"], "properties": {"id": {}}}}},
    }
    assert isinstance(schema, dict)
    required = trees.required_members(schema)
    value: JsonValue = {"rows": [{"id": 1, "text": "x"}]}
    assert trees.is_required(value, "/rows", required)
    assert trees.is_required(value, "/rows/0/id", required)
    assert not trees.is_required(value, "/rows/0", required)
    assert not trees.is_required(value, "/rows/0/text", required)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": [1, null]}', {"a": [1, None]}),
        ("{'a': [1, None], 'b': True}", {"a": [1, None], "b": True}),
        ("{'a': {1, 2}}", None),
        ("[a](link)", None),
        ("{not it", None),
        ("plain", None),
    ],
)
def test_a_text_that_holds_a_value_is_read_and_written_alike(text: str, value: JsonValue) -> None:
    assert unpacked(text) == value
    if value is not None:
        assert unpacked(packed(value, like=text)) == value
        assert ("'" in packed(value, like=text)) == ("'" in text)

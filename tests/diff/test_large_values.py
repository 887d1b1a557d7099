"""Large values: shown where they differ, and cut in every report, wherever they stand."""

from __future__ import annotations

from typing import Any

import pytest

from replay.diff import Comparison, diff
from replay.diff.comparison import LARGEST, MOST_FIELDS
from replay.diff.explain import around, one_line, shorten
from replay.report import comment, page
from replay.report.schema import Report
from tests.diff.building import read, run, write
from tracekit.canonical import JsonValue, digest, json_text, parse_json
from tracekit.jsontree import Difference

_SIZE = 3_000_000
_LONG = "x" * _SIZE
_KINDS: dict[str, Any] = {
    "a text": _LONG,
    "a text within": {"note": [_LONG]},
    "many small ones": [*range(15_000)],
    "signs that cannot be seen": "\x00\u202e" * 20_000,
}


def _compared(value: Any, other: Any) -> Comparison:
    def made(one: Any) -> Any:
        return run(read("get", {"q": "a"}, one), write("keep", {"name": "n", "value": one}, one))

    return diff(made(value), made(other))


@pytest.mark.parametrize("kind", _KINDS)
def test_no_report_of_large_values_is_large(kind: str) -> None:
    value = _KINDS[kind]
    found = _compared({"v": value, "n": 1}, {"v": value, "n": 2})
    assert not found.same
    assert len(json_text(found.as_dict())) < 40 * LARGEST
    assert len(found.as_text()) < 10_000
    assert len(comment(found)) < 10_000
    assert len(page(found)) < 2_000_000


def test_a_large_value_in_the_json_is_named_by_its_beginning_size_and_digest() -> None:
    found = _compared(_LONG, _LONG + "y")
    parsed = parse_json(json_text(found.as_dict()))
    report = Report.model_validate(parsed)
    (keep,) = [one for one in report.divergences if one.kind == "changed_arguments"]
    assert keep.left is not None
    assert keep.left.arguments == {
        "name": "n",
        "value": {
            "$truncated": {
                "bytes": _SIZE + 2,
                "digest": digest(_LONG),
                "head": '"' + _LONG[:1999],
            }
        },
    }
    assert len(json_text(parsed)) < 2 * LARGEST


def test_what_is_not_large_stands_whole_in_the_json() -> None:
    value = {"note": "ä" * (LARGEST // 4), "n": [1, 2.5, None]}
    found = _compared(value, "y").as_dict()
    assert found["aligned"][0]["left"]["observation"] == value  # type: ignore[index,call-overload]  # JSON


def test_of_large_texts_the_part_that_differs_is_shown() -> None:
    one, two = (_LONG + end + _LONG for end in ("to ann", "to bob"))
    shown = around(Difference("", "changed", one, two), 40)
    assert "to ann" in shown[0]
    assert "to bob" in shown[1]
    assert all(text[0] == text[-1] == "…" and len(text) == 42 for text in shown)
    assert "to bob" in _compared(one, two).divergences[0].explanation


def test_of_large_texts_look_alikes_are_told_apart() -> None:
    one, two = around(Difference("", "changed", _LONG + "a", _LONG + "а"), 40)
    assert one != two
    assert "\\u0430" in two


@pytest.mark.parametrize("value", ["", "abc", "a\nb", "x" * 63, "x" * 64, "\x00" * 30, {"a": "é"}])
@pytest.mark.parametrize("width", [1, 8, 63, 64, 65, 200])
def test_a_value_is_shortened_as_if_all_of_it_were_written(value: JsonValue, width: int) -> None:
    whole = one_line(value)
    expected = whole if len(whole) <= width else whole[: width - 1] + "…"
    assert shorten(value, width) == expected


def test_of_very_many_fields_the_first_stand_in_the_json_and_the_rest_is_counted() -> None:
    names = [f"n{n:04}" for n in range(MOST_FIELDS + 7)]
    found = _compared(dict.fromkeys(names, 1), dict.fromkeys(names, 2))
    report = Report.model_validate(parse_json(json_text(found.as_dict())))
    (keep,) = [one for one in report.divergences if one.kind == "changed_arguments"]
    assert [field.pointer for field in keep.fields] == [
        f"/value/{name}" for name in names[:MOST_FIELDS]
    ]
    assert keep.fields_left_out == 7
    assert page(found).count('"pointer"') <= 3 * MOST_FIELDS

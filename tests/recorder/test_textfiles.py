"""Files that users write: whatever is wrong with one is a sentence about a place in it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.case import read_case, read_oracles
from replay.experiment import parse_override
from replay.gates import parse_gates, read_gates
from tracekit.canonical import parse_json
from tracekit.errors import CaseError, InvalidJson, StoreError, TracekitError, UsageError
from tracekit.importers import load_effects
from tracekit.store import open_store
from tracekit.textfiles import (
    MAX_BYTES,
    line_and_column,
    parse_toml,
    read_given,
    read_text,
    shown,
)

NINES, DEEP = "9" * 5000, "[" * 3000 + "]" * 3000
READERS: list[Callable[[Path], Any]] = [read_gates, load_effects, read_case, read_oracles]


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        (f"confidence = {NINES}", (1, 14), "a number of more than 4000 digits"),
        (f'x = "{NINES}" # {NINES}\ny = 1\n\nz = [1, -{NINES}]', (4, 9), "more than 4000 digits"),
        (f"x = {'9_' * 5000}9", (1, 5), "a number of more than 4000 digits"),
        (f"x = 0.{NINES}\ny = {NINES}.5", (2, 5), "a number of more than 4000 digits"),
        (f"gates = {DEEP}", (1, 109), "is nested too deeply"),
        (f"x = '{DEEP}'\ny = {{a = {DEEP}}}", (2, 109), "is nested too deeply"),
        ("x = " + "{a=" * 3000 + "1" + "}" * 3000, (1, 305), "is nested too deeply"),
        (f"x = 1\n{'.'.join('a' * 3000)} = 1", (2, 1), "is nested too deeply"),
        (f"[{' . '.join('a' * 3000)}]", (1, 2), "is nested too deeply"),
        ("x = 1\ny =", (2, 4), "Invalid value"),
        ('x = """\n\n', (3, 1), "Unterminated"),
        ("x = 1\nx = 2", (2, 6), "Cannot overwrite a value"),
    ],
)
def test_what_no_reader_reads_is_told_with_its_place(
    text: str, place: tuple[int, int], said: str
) -> None:
    with pytest.raises(CaseError, match=said) as caught:
        parse_toml(text, path="some.toml")
    assert (caught.value.line, caught.value.column) == place
    assert str(caught.value).startswith(f"some.toml:{place[0]}:{place[1]}: ")


@pytest.mark.parametrize(
    "text",
    [
        "x = " + "[" * 90 + "1" + "]" * 90,
        f"x = {'9' * 3999}",
        f'x = ["{NINES}", \'{DEEP}\', """{DEEP}"""]  # {DEEP}',
        f"{'.'.join('a' * 99)} = 1",
        "x = [[1], [2], {a = 1, b = [3]}]\n[[t]]\n" * 1,
    ],
)
def test_what_fits_is_read_as_it_stands(text: str) -> None:
    assert parse_toml(text, path="x") == tomllib.loads(text)


@pytest.mark.parametrize(
    "part", ['\\\\"', '"', "'", '"' * 3, "'" * 3, "a", "9", "a ", "a.", "[", "{", "- "]
)
def test_looking_for_what_has_no_end_takes_one_way_through_the_text(part: str) -> None:
    """A search that begins anew at every sign would not end here."""
    for start in ("x = ", 'x = "', "x = '", ""):
        with pytest.raises(CaseError):
            parse_toml(start + part * 100_000 + "\x00", path="x")


@given(st.text(alphabet="[]{}='\"#\n.a1,-\\", max_size=40))
def test_any_text_is_read_or_refused_as_python_does(text: str) -> None:
    try:
        expected: object = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        expected = None
    try:
        found: object = parse_toml(text, path="x")
    except CaseError as error:
        found = None
        assert error.line is not None  # noqa: PT017  # either way is right
    assert found == expected


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_a_file_that_is_no_text_or_too_large_is_refused(
    read: Callable[[Path], Any], tmp_path: Path
) -> None:
    path = tmp_path / "some.toml"
    for data, said in (
        (b"a: 1\n\xff", ":2:1: is not UTF-8 text"),
        (b"#" * (MAX_BYTES + 1), ": is larger than 4 MiB"),
        (f"x = {NINES}".encode(), ":1:"),
        (f"gates = {DEEP}".encode(), ":1:"),
        (f'{{"a": {DEEP}}}'.encode(), ":1:"),
        (f'{{"a": {NINES}}}'.encode(), ":1:"),
    ):
        path.write_bytes(data)
        with pytest.raises(CaseError) as caught:
            read(path)
        assert str(caught.value).startswith(f"{path}{said}"), said
        assert len(str(caught.value)) < 400 + len(str(path))
    if read is not load_effects:
        for gone in (tmp_path / "gone", tmp_path, Path("a\0b")):
            with pytest.raises(CaseError, match="cannot be read"):
                read(gone)


@pytest.mark.parametrize(
    "value", [f"0x{'F' * 5000}", f"[0x{'F' * 5000}]", f"{{a = {{b = [0b{'1' * 20_000}]}}}}", "nan"]
)
@pytest.mark.parametrize(
    "key", ["confidence", "inconclusive", "unpaired", "expect_differs", "gates", "name", '"x\\n"']
)
def test_a_gate_file_that_holds_something_huge_is_refused_in_one_short_sentence(
    key: str, value: str
) -> None:
    line = f"{key} = {value}"
    text = f'[[gates]]\ncheck = "steps <= 3"\n{line}' if key == "name" else line
    if key not in ("gates", "name"):
        text = f'gates = ["steps <= 3"]\n{line}'
    with pytest.raises(CaseError) as caught:
        parse_gates(text)
    assert caught.value.line == text.count("\n") + 1
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("text", [f"schema_version = {NINES}", f"schema_version = {DEEP}", "a = ["])
def test_a_store_whose_file_holds_more_than_is_read_is_damaged(text: str, tmp_path: Path) -> None:
    store = open_store(tmp_path / "traces", create=True)
    (store.path / "store.toml").write_text(text, "utf-8")
    with pytest.raises(StoreError, match="is damaged"):
        open_store(store.path)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (NINES, (1, 1)),
        (f'{{"a{NINES}": 1,\n "b": [2, -{NINES}]}}', (2, 11)),
        (f" [{NINES}", (1, 3)),
    ],
)
def test_json_with_a_number_without_end_is_invalid_where_that_stands(
    text: str, place: tuple[int, int]
) -> None:
    for given_ in (text, text.encode()):
        with pytest.raises(InvalidJson) as caught:
            parse_json(given_)
        assert (caught.value.line, caught.value.column) == place
        assert isinstance(caught.value, TracekitError)


def test_a_place_is_counted_from_one_and_a_value_is_shown_short() -> None:
    assert [line_and_column("ab\nc", at) for at in range(5)] == [
        (1, 1), (1, 2), (1, 3), (2, 1), (2, 2),
    ]  # fmt: skip
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    for value in (deep, 16**5000, -(16**5000), "x" * 10**6, {"a": 2.5}, 42, "ignore"):
        assert len(shown(value)) < 80
    assert (shown(42), shown("ignore"), shown({"a": 2.5})) == ("42", "'ignore'", "{'a': 2.5}")


def test_a_text_is_read_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes("a\r\n\ufeffé".encode())
    assert read_text(path) == "a\r\n\ufeffé"


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        (read_gates, 'gates = ["tool_recall >= 0.9"]\n'),
        (load_effects, 'send = "write"\n'),
        (lambda path: parse_override(f"1.observation=@{path}"), '{"a": 1}'),
    ],
)
def test_the_mark_that_some_editors_put_before_a_text_is_no_part_of_it(
    reader: Callable[[Path], Any], text: str, tmp_path: Path
) -> None:
    path = tmp_path / "file.toml"
    path.write_text(text, "utf-8")
    plain = reader(path)
    path.write_text(text, "utf-8-sig")
    assert reader(path) == plain


def test_places_are_counted_behind_the_mark(tmp_path: Path) -> None:
    path = tmp_path / "file.toml"
    path.write_bytes(b"\xef\xbb\xbfgates = [1,\n")
    with pytest.raises(CaseError, match=r"file\.toml:2:1: "):
        read_gates(path)
    path.write_bytes(b"\xef\xbb\xbf\xc3\xa9\xff")
    with pytest.raises(CaseError, match=r"file\.toml:1:2: is not UTF-8"):
        read_text(path)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing.json", "{}: cannot be read: No such file or directory"),
        ("", "@ names no file"),
        ("folder", "{}: cannot be read: Is a directory"),
        ("file.json/x", "{}: cannot be read: Not a directory"),
        ("broken.json", "{}: is no JSON: "),
        ("latin.json", "{}:2:2: is not UTF-8 text"),
        ("a\0b", "{}: cannot be read: embedded null byte"),
    ],
)
def test_a_file_that_an_option_names_is_told_with_the_option_and_what_to_give(
    tmp_path: Path, name: str, said: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.json").write_text("1", "utf-8")
    (tmp_path / "broken.json").write_text('{"a": ', "utf-8")
    (tmp_path / "latin.json").write_bytes(b'[\n"\xe4"]')
    path = f"{tmp_path}/{name}" if name else ""
    with pytest.raises(UsageError) as caught:
        read_given(f"@{path}", option="--input")
    told = str(caught.value)
    assert told.startswith(f"--input: {said.format(path)}")
    assert told.endswith("\n  write @FILE of a file that holds JSON, or the JSON itself")
    assert "Errno" not in told
    with pytest.raises(UsageError, match=r"--set 1\.observation: .*"):
        parse_override(f"1.observation=@{path}")


def test_what_an_option_gives_is_json_or_a_file_of_it(tmp_path: Path) -> None:
    (tmp_path / "given.json").write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_given(f"@{tmp_path}/given.json", option="--input") == {"a": 1}
    assert read_given('"@text"', option="--input") == "@text"
    with pytest.raises(UsageError, match=r"--input: is no JSON: .*\n .*in quotes: '\"hello\"'"):
        read_given("hello", option="--input")

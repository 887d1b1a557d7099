"""Comments of a case stay where a program writes the case anew."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.case import parse_case, read_case, rewrite_case, with_comments
from tracekit.errors import CaseError

TEXT = """\
# needs no model
# found on a Monday
format: tracekit/case/v1
name: rollback  # short, please
# why it is asked
input: Why is it slow? # not a # joke
observations:
# the first one
- id: a  # an id
  tool: look
  # what it returns
  returns: {rows: [1, 2]}  # two rows
- id: b
  tool: look
  returns: |
    text # that is no comment
    # nor is this
  # beneath a text
expected:
  # never
  forbidden_tools: [roll.back]  # not even once
  answer: {required: true}
# the end
"""


def comments(text: str) -> list[str]:
    return sorted(found.strip() for found in re.findall(r"# ([^#\n]*)", text))


def test_what_is_not_changed_keeps_every_comment_in_its_place() -> None:
    case = parse_case(TEXT)
    written = with_comments(TEXT, case)
    assert comments(written) == comments(TEXT)
    lines = [line.strip() for line in written.splitlines()]
    assert lines[:3] == ["# needs no model", "# found on a Monday", "format: tracekit/case/v1"]
    assert "name: rollback  # short, please" in lines
    assert lines[lines.index("# why it is asked") + 1].startswith("input: ")
    assert lines[lines.index("# the first one") + 2].startswith("- {id: a, ")  # on one line now
    assert lines[lines.index("# never") + 1].startswith("forbidden_tools: ")
    assert lines[-1] == "# the end"
    assert with_comments(written, case) == written


def test_a_comment_goes_with_its_part_and_stays_where_that_is_gone() -> None:
    case = parse_case(TEXT)
    fewer = case.model_copy(update={"observations": case.observations[1:], "name": "other"})
    written = with_comments(TEXT, fewer)
    assert parse_case(written) == fewer
    kept = comments(written)
    assert set(kept) >= {"short, please", "the first one", "never", "found on a Monday", "the end"}
    assert "name: other  # short, please" in written


@given(
    st.lists(
        st.sampled_from(["# one", "  # second", "# needs care", "# a: b", "#", "# - x"]), max_size=6
    ),
    st.randoms(use_true_random=False),
)
def test_no_comment_is_ever_lost_and_no_value_changes(added: list[str], where: object) -> None:
    lines = TEXT.splitlines()
    for comment in added:
        at = where.randrange(2, len(lines))  # type: ignore[attr-defined]  # a Random
        if not any("|" in line for line in lines[max(0, at - 3) : at]):
            lines.insert(at, comment.strip())
    text = "\n".join(lines) + "\n"
    case = parse_case(text)
    written = with_comments(text, case)
    assert parse_case(written) == case
    for comment in added:
        words = comment.strip()
        assert text.count(words) <= written.count(words) or words == "#"


def test_a_file_is_written_whole_with_its_rights(tmp_path: Path) -> None:
    path = tmp_path / "a.case.yaml"
    path.write_text(TEXT)
    path.chmod(0o640)
    rewrite_case(path, read_case(path).model_copy(update={"name": "other"}))
    assert read_case(path).name == "other"
    assert "# the first one" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_no_case_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.case.yaml"
    path.write_text("name: x\n")
    with pytest.raises(CaseError, match="format"):
        rewrite_case(path, parse_case(TEXT))
    assert path.read_text() == "name: x\n"


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_lines_keep_the_ends_that_they_had(tmp_path: Path, end: str) -> None:
    path = tmp_path / "a.case.yaml"
    path.write_bytes(TEXT.replace("\n", end).encode())
    rewrite_case(path, read_case(path))
    assert path.read_bytes().decode() == with_comments(TEXT, parse_case(TEXT)).replace("\n", end)
    rewrite_case(path, read_case(path))
    assert path.read_bytes().decode().count(end) == with_comments(TEXT, parse_case(TEXT)).count(
        "\n"
    )

"""The project's own files: the lock, the list of dependencies, and how the source reads."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(path for name in ("tracekit", "replay") for path in (ROOT / name).rglob("*.py"))
EVERYTHING = sorted(
    path
    for name in ("tracekit", "replay", "tests", "fixtures", "benchmarks")
    for path in (ROOT / name).rglob("*.py")
)
LINES_OF_A_FILE = 400
LINES_OF_A_FILE_WITH_A_REASON = 600
LINES_OF_A_FUNCTION = 40
LINES_OF_A_COMMAND = 150

SUPPRESSION = re.compile(r"#\s*(?:noqa|type:\s*ignore)\b.*")
REASONED = re.compile(r"#\s*(?:noqa: [A-Z]+\d+(?:, ?[A-Z]+\d+)*|type: ignore\[[\w, -]+\])\W+\w.*")
# Spelt apart, so that this file does not find itself.
LEFT_OPEN = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX)\b")


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def _name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def _declared() -> list[str]:
    project = _project()
    extras = project["project"]["optional-dependencies"].values()
    listed = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    return sorted(
        {_name(item) for item in (*listed, *(item for extra in extras for item in extra))}
    )


def _lock() -> str:
    return (ROOT / "requirements-dev.lock").read_text("utf-8")


def _relative(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_the_lock_says_nothing_of_where_packages_come_from() -> None:
    assert re.findall(r"\w+://\S+|^\s*-(?!-hash=).*|\s@\s.*", _lock(), re.MULTILINE) == []


def test_the_lock_pins_every_package_with_a_hash() -> None:
    entries = re.split(r"\n(?=\w)", _lock())
    assert [entry for entry in entries if "==" not in entry or "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize("name", _declared())
def test_every_declared_dependency_is_locked_and_explained(name: str) -> None:
    locked = {_name(line) for line in _lock().splitlines() if re.match(r"\w", line)}
    explained = (ROOT / "docs" / "dependencies.md").read_text("utf-8").lower()
    assert name in locked
    assert f"| `{name}`" in explained


def test_every_suppression_names_its_code_and_reason() -> None:
    assert [
        f"{_relative(path, number)} {found.group()}"
        for path in EVERYTHING
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if (found := SUPPRESSION.search(line)) and not REASONED.match(found.group())
    ] == []


def test_nothing_is_left_open_in_the_source() -> None:
    assert [
        _relative(path, number)
        for path in EVERYTHING
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if LEFT_OPEN.search(line)
    ] == []


def test_a_file_is_short_or_says_why_it_is_not() -> None:
    too_long = []
    for path in SOURCES:
        text = path.read_text("utf-8")
        reason = "lines" in (ast.get_docstring(ast.parse(text)) or "")
        limit = LINES_OF_A_FILE_WITH_A_REASON if reason else LINES_OF_A_FILE
        if (length := len(text.splitlines())) > limit:
            too_long.append(_relative(path, length))
    assert too_long == []


def test_a_function_is_short() -> None:
    too_long = []
    for path in SOURCES:
        in_cli = path.is_relative_to(ROOT / "tracekit" / "cli")
        limit = LINES_OF_A_COMMAND if in_cli else LINES_OF_A_FUNCTION
        too_long += [
            f"{_relative(path, node.lineno)} {node.name}: {length} lines"
            for node in _functions(path)
            if (length := (node.end_lineno or node.lineno) - node.lineno + 1) > limit
        ]
    assert too_long == []

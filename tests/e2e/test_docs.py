"""Every console block of the documentation is run, in order, in a folder of its own.

A command is a line that begins with ``$ ``. It must exit with 0, or with what ``# exits with N``
behind it says. Blocks ``python file=NAME`` are the files that the commands use; what ``yaml
from=NAME`` shows stands in the file NAME after them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```(\S*)(?: (file|from)=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ (.*?)\s*(?:#.*?(?:exits with (\d+).*)?)?$", re.MULTILINE)


def commands_of(page: Path) -> list[tuple[str, int]]:
    found = []
    for language, _, _, body in _BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "console":
            found += [(command, int(code or 0)) for command, code in _COMMAND.findall(body)]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_exit_as_it_says(page: Path, tmp_path: Path) -> None:
    blocks = _BLOCK.findall(page.read_text(encoding="utf-8"))
    for _, way, name, body in blocks:
        if way == "file":
            (tmp_path / name).write_text(body, encoding="utf-8")
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    script = "\n".join(
        f"{command}\ncode=$?; test $code -eq {code} "
        f'|| {{ echo "line {number} exited with $code, not {code}"; exit 99; }}'
        for number, (command, code) in enumerate(commands_of(page), 1)
    )
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=_environment(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    for _, way, name, body in blocks:
        assert way != "from" or body in (tmp_path / name).read_text(encoding="utf-8")


def _environment(folder: Path) -> dict[str, str]:
    """The commands as a user has them: those of this interpreter first."""
    tools = folder / "bin"
    tools.mkdir()
    for name, arguments in {
        "python": "",
        "tracekit": "-m tracekit",
        "pytest": "-m pytest -q -p no:cacheprovider",
    }.items():
        made = tools / name
        made.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n', encoding="utf-8")
        made.chmod(0o755)
    path = os.pathsep.join([str(tools), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}


def test_the_pages_name_commands_at_all() -> None:
    assert len(commands_of(ROOT / "README.md")) >= 8
    assert shutil.which("bash")

"""The help of every command, and what starting the command line costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tracekit.cli import COMMANDS, main, strange_package

ROOT = Path(__file__).parents[2]
HEAVY = ("duckdb", "pyarrow", "numpy", "scipy", "rich", "replay", "opentelemetry.sdk")


def test_the_help_lists_every_command() -> None:
    result = CliRunner().invoke(main, ["--help"])

    assert result.exit_code == 0
    for name, line in COMMANDS.items():
        assert name in result.output
        assert line.summary.split()[0] in result.output


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_help_of_a_command_has_an_example_and_its_summary(name: str) -> None:
    result = CliRunner().invoke(main, [name, "--help"], terminal_width=200)

    assert (result.exit_code, result.exception) == (0, None)
    assert "Example:" in result.output
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert command.help is not None
    assert " ".join(command.help.split("\n\n")[0].split()) == COMMANDS[name].summary


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_that_uses_a_store_spells_its_options_alike(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    options = {option for parameter in command.params for option in parameter.opts}
    assert "--debug" in options
    assert "-s" not in options


@pytest.mark.parametrize("argument", ["--help", "--version"])
@pytest.mark.parametrize("heavy", HEAVY)
def test_starting_loads_nothing_heavy(heavy: str, argument: str) -> None:
    code = (
        "import sys\nfrom tracekit.cli import main\n"
        f"main([{argument!r}], standalone_mode=False)\nsys.exit({heavy!r} in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


def test_a_misspelt_command_is_refused_with_the_one_that_is_meant() -> None:
    result = CliRunner().invoke(main, ["shwo"])
    assert result.exit_code == 2
    assert "did you mean 'show'?" in result.output


def test_the_module_can_be_run() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "tracekit", "runs", "--help"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0
    assert result.stdout.startswith("Usage: tracekit runs")


def test_our_own_packages_are_known_as_ours() -> None:
    assert strange_package() is None


def test_a_replay_package_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "replay").mkdir()
    (tmp_path / "replay" / "__init__.py").write_text("")
    code = "import sys; sys.path[:0] = [sys.argv.pop(1)]; from tracekit.cli import main; main()"

    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), "runs"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert result.returncode == 2
    assert f"the import package 'replay' is another one, in {tmp_path}" in result.stderr

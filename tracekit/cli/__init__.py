"""The command line. One file a command group; what a command does is done elsewhere.

Commands are named here with the place of their code and the first line of their help, so that
``tracekit --help`` loads nothing but click. To add one, add a line to ``COMMANDS``.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, cast

import click


class CommandLine(NamedTuple):
    """Where a command is, and what it does."""

    target: str
    """``module:attribute`` of the click command."""
    summary: str
    """First line of its help."""


COMMANDS: dict[str, CommandLine] = {
    "case": CommandLine(
        "tracekit.cli.cases:case", "Run, show and check cases: failures kept as files."
    ),
    "compact": CommandLine(
        "tracekit.cli.keeping:compact", "Settle journals, join small files and remove left-overs."
    ),
    "convert": CommandLine(
        "tracekit.cli.converting:convert", "Make a DuckDB file of a folder store, or the reverse."
    ),
    "diff": CommandLine(
        "tracekit.cli.comparing:diff", "Compare two runs and name the first step where they part."
    ),
    "distill": CommandLine(
        "tracekit.cli.distilling:distill",
        "Reduce a failing run to the smallest case that fails for the same reason.",
    ),
    "doctor": CommandLine(
        "tracekit.cli.keeping:doctor",
        "Tell what is on, what was lost, what is slow, and what to do about it.",
    ),
    "gate": CommandLine(
        "tracekit.cli.gating:gate",
        "Hold the thresholds of a file against recorded runs: may it ship?",
    ),
    "import": CommandLine(
        "tracekit.cli.importing:import_",
        "Import traces that others recorded: files, or folders of them.",
    ),
    "metrics": CommandLine(
        "tracekit.cli.measuring:metrics",
        "Count what runs came to: success, tools, errors, loops, cost, time.",
    ),
    "prune": CommandLine(
        "tracekit.cli.retention:prune",
        "Remove runs for good: rows, catalogue and the values that nothing else needs.",
    ),
    "replay": CommandLine(
        "tracekit.cli.replaying:replay",
        "Feed the recorded observations of a run to a planner. Nothing is executed.",
    ),
    "runs": CommandLine("tracekit.cli.looking:runs", "List runs, newest first."),
    "scan": CommandLine(
        "tracekit.cli.retention:scan", "Look for secrets in a store that nobody redacted."
    ),
    "shadow": CommandLine(
        "tracekit.cli.shadowing:shadow",
        "Let a planner plan on live input. Nothing executes; the report lists what it would have "
        "done.",
    ),
    "show": CommandLine("tracekit.cli.looking:show", "Show one run, step by step."),
    "sql": CommandLine(
        "tracekit.cli.looking:sql", "Ask SQL of the views runs, events and payloads."
    ),
    "verify": CommandLine(
        "tracekit.cli.keeping:verify", "Compute every digest anew and read every file to its end."
    ),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        line = COMMANDS.get(cmd_name)
        if line is None:
            return None
        module, _, attribute = line.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is meant; a misspelt one is refused with the one most like it."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            close = get_close_matches(args[0], COMMANDS, n=1)
            meant = f"did you mean {close[0]!r}?" if close else "see: tracekit --help"
            ctx.fail(f"there is no command {args[0]!r}; {meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].summary) for name in sorted(COMMANDS)])


class _Version:
    """Version of the distribution, looked up when it is asked for."""

    def __str__(self) -> str:
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("tracekit-replay")
        except PackageNotFoundError:
            return "(not installed)"


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(cast(str, _Version()), prog_name="tracekit")
def main() -> None:
    """Record what an agent did, look at it, replay it, and keep its failures as tests.

    Exits with 0 if there is nothing to report, 1 for a finding, 2 for what could not be done.

    Example:

    \b
        tracekit runs --since 24h --failed
        tracekit show 01J
    """
    _ready_streams()
    stranger = strange_package()
    if stranger is not None:
        from tracekit.cli.options import tell_error

        tell_error(stranger)
        sys.exit(2)


def _ready_streams() -> None:
    """Let every text be written: signs that the terminal's encoding lacks become escapes."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever called
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # for good
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def strange_package() -> str | None:
    """Say which import package belongs to another distribution; None where both are ours."""
    here = Path(__file__).resolve().parents[2]
    spec = find_spec("replay")
    found = None if spec is None or spec.origin is None else Path(spec.origin).resolve().parents[1]
    if found == here:
        return None
    place = "is missing" if found is None else f"is another one, in {found}"
    return (
        f"tracekit runs from {here}, but the import package 'replay' {place}\n"
        "  use a virtual environment that holds tracekit-replay only, and no folder named 'replay'"
        " on the path before it"
    )

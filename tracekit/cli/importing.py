"""Bringing other people's traces in: ``import``."""

from __future__ import annotations

import sys

import click

from tracekit.cli.options import MISUSE, explained, json_option, store_option, tell_error
from tracekit.cli.text import tell_report


@click.command(name="import")
@click.argument("paths", nargs=-1, required=True, metavar="FILE...")
@click.option("--format", "format_name", help="Read every file as this format; else by content.")
@click.option(
    "--effects",
    multiple=True,
    metavar="FILE",
    help="Which tool reads and which writes: a TOML or JSON file, or the name of a shipped one.",
)
@click.option("--tag", "tags", multiple=True, help="A tag for every imported run.")
@store_option
@json_option
@explained
def import_(
    paths: tuple[str, ...],
    format_name: str | None,
    effects: tuple[str, ...],
    tags: tuple[str, ...],
    store: str,
    as_json: bool,
) -> None:
    """Import traces that others recorded: files, or folders of them.

    What is in the store already is passed over, so that an import can be repeated. A tool of which
    nobody says what it does counts as one that writes.

    Exits with 0 if all was imported, 2 if a file that was named is no trace; the others are
    imported all the same.

    Example:

    \b
        tracekit import logs/ --effects agentdyn
        tracekit import results.json --format tau-bench --tag baseline
    """
    from tracekit.cli import intake
    from tracekit.importers import ImportOptions, import_paths, load_effects

    merged = {tool: effect for file in effects for tool, effect in load_effects(file).items()}
    redactor, key_id = intake.redactor()
    options = ImportOptions(effects=merged, format=format_name, tags=tags, redactor=redactor)
    opened = intake.open_target(store, key_id)
    with intake.progress(shown=sys.stderr.isatty()) as progress:
        summary = import_paths(paths, opened, options, progress=progress)
    tell_report(intake.as_json(summary) if as_json else intake.as_text(summary, store))
    for path, reason in summary.rejected:
        tell_error(f"{path}: {reason}")
    if summary.rejected:
        raise SystemExit(MISUSE)

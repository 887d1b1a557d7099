"""From a folder store to a DuckDB file and back: ``convert``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from tracekit.cli.options import FINDING, NOTHING, explained, json_option, warn_of_damage
from tracekit.cli.text import tell
from tracekit.numerals import counted


@click.command()
@click.argument("src")
@click.argument("dst")
@json_option
@explained
def convert(src: str, dst: str, as_json: bool) -> None:
    """Make a DuckDB file of a folder store, or the reverse.

    The new store DST holds what the store SRC holds.

    A name that ends in .duckdb is one file, for one process at a time; any other is a folder, for
    many. Nothing is lost either way, and SRC stays as it is. DST must not exist yet; an interrupted
    conversion leaves nothing there.

    Exits with 0 if all went over, 1 if SRC is damaged: what could be read went over.

    Example:

    \b
        tracekit convert .tracekit traces.duckdb
        tracekit convert traces.duckdb .tracekit
    """
    from tracekit.cli.text import json_report
    from tracekit.store import Store, open_store
    from tracekit.store.converting import convert as convert_store

    source = open_store(src)

    def make(path: Path) -> Store:
        return open_store(path, create=True, redaction_key_id=source.redaction_key_id)

    with counting(shown=sys.stderr.isatty(), what="events") as progress:
        done = convert_store(source, Path(dst), make, progress=progress)
    if as_json:
        click.echo(json_report({"runs": done.runs, "events": done.events, "values": done.blobs}))
    else:
        tell(
            f"{dst} holds all of {src}: {counted(done.runs, 'run')},"
            f" {counted(done.events, 'event')}, {counted(done.blobs, 'value')}"
        )
    warn_of_damage(source)
    raise SystemExit(FINDING if source.problems else NOTHING)


@contextmanager
def counting(*, shown: bool, what: str) -> Iterator[Callable[[int, int], None] | None]:
    """Give a callback that keeps one line on stderr up to date; None where nobody looks."""
    if not shown:
        yield None
        return

    def tell(done: int, total: int) -> None:
        sys.stderr.write(f"\r\x1b[2K{done:,} of {total:,} {what}")
        sys.stderr.flush()

    try:
        yield tell
    finally:
        sys.stderr.write("\r\x1b[2K")

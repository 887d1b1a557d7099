"""Comparing many runs: what ``diff`` does where both sides are selected instead of named."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracekit.cli.bar import Bar
from tracekit.cli.options import (
    FINDING,
    MISUSE,
    NOTHING,
    Moment,
    open_for_reading,
    option_group,
    warn_of_damage,
)
from tracekit.cli.reporting import write_reports_of_many
from tracekit.cli.text import tell
from tracekit.errors import UsageError
from tracekit.numerals import counted

if TYPE_CHECKING:
    from replay.comparing import ManyComparison, References, Selection
    from tracekit.store import Store


SELECT_HELP = (
    "conditions joined by commas (tag=gpt-4o,tag=attacked,since=7d,version.prompt=v7), or run ids"
)


sides_options = option_group(
    click.option(
        "--baseline", multiple=True, metavar="SELECT",
        help=f"Runs that are the expectation: {SELECT_HELP}. Given again: those as well.",
    ),
    click.option(
        "--candidate", multiple=True, metavar="SELECT",
        help="Runs that are compared with them, chosen in the same way.",
    ),
    click.option(
        "--references", type=click.Path(file_okay=False), metavar="FOLDER",
        help="Folder of the accepted trajectories; default beside the store's runs.",
    ),
    click.option(
        "--jobs", type=click.IntRange(min=1), metavar="N",
        help="Worker processes for many pairs; default one a core.",
    ),
)  # fmt: skip
"""Options that select the two sides of a comparison."""


def read_sides(
    baseline: Sequence[str], candidate: Sequence[str]
) -> tuple[list[Selection], list[Selection]]:
    """Read the selections of both sides.

    Raises:
        UsageError: one side is missing, or a selection is none.
    """
    for given, name, other in (
        (baseline, "--baseline", "--candidate"),
        (candidate, "--candidate", "--baseline"),
    ):
        if not given:
            raise UsageError(
                f"{other} is given and {name} is not", hint=f"give {name} SELECT: {SELECT_HELP}"
            )
    return read_selections(baseline), read_selections(candidate)


def read_selections(texts: Sequence[str]) -> list[Selection]:
    """Read what ``--baseline`` or ``--candidate`` was given.

    Raises:
        UsageError: one is no selection.
    """
    from replay.comparing import parse_selection

    return [parse_selection(text, moment=_moment) for text in texts]


def _moment(text: str) -> datetime:
    try:
        return Moment().convert(text, None, None)
    except click.BadParameter as error:
        raise UsageError(error.message) from error


def references_for(store: Store, folder: str | None, *, accept: bool) -> References:
    """Read the accepted trajectories.

    Args:
        store: The store, beside whose runs they are by default.
        folder: Where else they are.
        accept: Whether more are accepted, for which the folder is made.

    Raises:
        UsageError: there is no such folder.
    """
    from replay.comparing.references import folder_of, read_references

    if folder is not None and not accept and not Path(folder).is_dir():
        raise UsageError(
            f"--references: there is no folder {folder!r}", hint="name the one that --accept made"
        )
    return read_references(folder_of(store.path) if folder is None else Path(folder))


def compare_selected(
    baseline: Sequence[str],
    candidate: Sequence[str],
    *,
    store: str,
    references: str | None,
    jobs: int | None,
    accept: bool,
    as_json: bool,
    markdown: str | None,
    junit: str | None,
) -> int:
    """Compare two selections, tell what they came to, and give the code to exit with."""
    from replay.comparing import compare_many

    sides = read_sides(baseline, candidate)
    opened = open_for_reading(store)
    kept = references_for(opened, references, accept=accept)
    with Bar("comparing") as bar:
        found = compare_many(*sides, store=opened, references=kept, jobs=jobs, progress=bar.advance)
    _tell(found, as_json=as_json)
    write_reports_of_many(found, markdown=markdown, junit=junit)
    warn_of_damage(opened)
    if accept:
        differing = [one.candidate for one in found.outcomes if one.verdict == "different"]
        accept_runs(differing, opened, kept)
    if found.different and not accept:
        return FINDING
    incomplete = found.counts["not compared"] or found.baseline_only or found.candidate_only
    return MISUSE if incomplete or not found.outcomes else NOTHING


def accept_runs(run_ids: Sequence[str], store: Store, references: References) -> None:
    """Keep the trajectories of these runs as accepted ones, and say where on stderr."""
    from replay.comparing.cases import candidates
    from tracekit.store import RunQuery

    wanted = set(run_ids)
    rows = [row for row in store.runs(RunQuery()) if row.run_id in wanted]
    files = references.accept(candidates(store, rows), store)
    what = counted(len(files), "trajectory", plural="trajectories")
    tell(f"accepted {what} in {references.folder}", err=True)


def _tell(found: ManyComparison, *, as_json: bool) -> None:
    from replay.comparing.telling import (
        CASE_COLUMNS,
        case_rows,
        group_lines,
        head_lines,
        rest_lines,
    )
    from tracekit.cli.listing import print_table
    from tracekit.cli.text import json_report

    if as_json:
        click.echo(json_report(found.as_dict()))
        return
    tell(*head_lines(found))
    groups, rows, rest = list(group_lines(found)), case_rows(found), list(rest_lines(found))
    if groups:
        click.echo()
    tell(*groups)
    if rows:
        click.echo()
        print_table(CASE_COLUMNS, rows)
    if rest:
        click.echo()
    tell(*rest)

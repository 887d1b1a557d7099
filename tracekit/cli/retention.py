"""What may stay in a store: ``prune``."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from tracekit.cli.options import FINDING, NOTHING, Moment, explained, json_option, store_option

if TYPE_CHECKING:
    from tracekit.store.removal import Pruned

_LISTED = 20


@click.command()
@click.option(
    "--older-than",
    "before",
    type=Moment(),
    help="Runs that began longer ago (30d, 12h), or before a date.",
)
@click.option("--tag", help="Runs with this tag.")
@click.option("--tenant", help="Runs of this tenant.")
@click.option("--dry-run", is_flag=True, help="Say what would go, and remove nothing.")
@store_option
@json_option
@explained
def prune(
    before: datetime | None,
    tag: str | None,
    tenant: str | None,
    dry_run: bool,
    store: str,
    as_json: bool,
) -> None:
    """Remove runs for good: rows, catalogue and the values that nothing else needs.

    Every condition that is given must hold; at least one is needed. Runs that a process may still
    be recording stay, and so do runs in damaged files; both are named.

    Exits with 0 if all runs that are meant went (or there are none), 1 if some had to stay.

    Example:

    \b
        tracekit prune --older-than 30d --dry-run
        tracekit prune --tenant acme
    """
    from tracekit.cli.text import json_report
    from tracekit.store import open_store
    from tracekit.store.pruning import prune as prune_store
    from tracekit.store.removal import Criteria

    criteria = Criteria(begun_before=before, tag=tag, tenant=tenant)
    done = prune_store(open_store(store), criteria, dry_run=dry_run)
    if as_json:
        click.echo(json_report({"dry_run": dry_run, **done.as_dict()}))
    else:
        _tell(done, dry_run=dry_run)
    stayed = done.recording or done.damaged or done.set_aside
    raise SystemExit(FINDING if stayed else NOTHING)


def _tell(done: Pruned, *, dry_run: bool) -> None:
    from tracekit.cli.text import visible

    if dry_run:
        for run_id in done.runs[:_LISTED]:
            click.echo(visible(run_id))
        if len(done.runs) > _LISTED:
            click.echo(f"… and {len(done.runs) - _LISTED:,} more")
    did, about = ("would remove", "about ") if dry_run else ("removed", "")
    click.echo(
        f"{did} {len(done.runs):,} runs, {done.events:,} events, {done.values:,} values;"
        f" {about}{done.bytes_freed:,} bytes freed"
    )
    for runs, why in (
        (done.recording, "may still be recorded, and stay"),
        (done.damaged, "are in damaged files, and stay (see: tracekit doctor)"),
    ):
        if runs:
            named = ", ".join(runs[:_LISTED]) + (", …" if len(runs) > _LISTED else "")
            click.echo(visible(f"{len(runs):,} runs {why}: {named}"))
    for path in done.set_aside:
        click.echo(visible(f"{path} holds lines of these runs; look at it, then remove it"))

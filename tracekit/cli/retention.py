"""What may stay in a store: ``prune`` takes runs out, ``scan`` looks for secrets."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING

import click

from tracekit.cli.converting import counting
from tracekit.cli.options import (
    FINDING,
    NOTHING,
    Moment,
    explained,
    json_option,
    open_for_reading,
    store_option,
    warn_of_damage,
)
from tracekit.numerals import counted

if TYPE_CHECKING:
    from tracekit.canonical import JsonValue
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
    from tracekit.cli.text import tell

    if dry_run:
        tell(*done.runs[:_LISTED])
        if len(done.runs) > _LISTED:
            tell(f"… and {len(done.runs) - _LISTED:,} more")
    did, about = ("would remove", "about ") if dry_run else ("removed", "")
    tell(
        f"{did} {counted(len(done.runs), 'run')}, {counted(done.events, 'event')},"
        f" {counted(done.values, 'value')}; {about}{counted(done.bytes_freed, 'byte')} freed"
    )
    for runs, why in (
        (done.recording, "that may still be recorded"),
        (done.damaged, "in damaged files (see: tracekit doctor)"),
    ):
        if runs:
            named = ", ".join(runs[:_LISTED]) + (", …" if len(runs) > _LISTED else "")
            tell(f"kept {counted(len(runs), 'run')} {why}: {named}")
    for path in done.set_aside:
        tell(f"{path} holds lines of these runs; look at it, then remove it")


@click.command()
@click.option(
    "--redact",
    "--field",
    "rules",
    multiple=True,
    metavar="RULE",
    help="A secret as well: a field by its name or path ($.card.number), or re:PATTERN.",
)
@store_option
@json_option
@explained
def scan(rules: tuple[str, ...], store: str, as_json: bool) -> None:
    """Look for secrets in a store that nobody redacted.

    Looks into arguments, observations, prompts, error texts, attributes, names and tags, also into
    what is being recorded, into base64 and %XX, and into what the pieces of a stream add up to.
    Tells the kind of each secret and where it stands, and nothing of it.

    Exits with 0 if there is none, 1 if there is any.

    Example:

    \b
        tracekit scan
        tracekit scan --redact badge_number --redact 're:EMP-[0-9]+' --json
    """
    from tracekit.cli.text import json_report, tell
    from tracekit.settings import redaction_rules
    from tracekit.store.scanning import Scan

    opened = open_for_reading(store)
    with counting(shown=sys.stderr.isatty(), what="runs") as progress:
        scanning = Scan(opened, redaction_rules(*rules), progress)
        found = []
        for leak in scanning.leaks():
            found.append(leak)
            if not as_json:
                where = f"run {leak.run_id}, event {leak.event_id}" if leak.run_id else "no run"
                tell(f"{leak.kind}: {where}, {leak.place}")
    read = {"runs": scanning.runs, "events": scanning.events, "values": scanning.values}
    if as_json:
        leaks: list[JsonValue] = [leak.as_dict() for leak in found]
        click.echo(json_report({"clean": not found, **read, "leaks": leaks}))
    else:
        counts = ", ".join(counted(count, what.removesuffix("s")) for what, count in read.items())
        tell(f"{counted(len(found), 'secret') if found else 'no secret found'} in {counts}")
    warn_of_damage(opened)
    raise SystemExit(FINDING if found else NOTHING)

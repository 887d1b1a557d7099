"""Keeping a store healthy: ``verify``, ``compact``, ``doctor``."""

from __future__ import annotations

import click

from tracekit.cli.options import (
    FINDING,
    MISUSE,
    NOTHING,
    explained,
    json_option,
    open_for_reading,
    store_option,
    tell_error,
)
from tracekit.cli.text import tell
from tracekit.numerals import counted


@click.command()
@store_option
@json_option
@explained
def verify(store: str, as_json: bool) -> None:
    """Compute every digest anew and read every file to its end.

    Exits with 0 if all is well, 1 if something is damaged, altered or missing.

    Example:

    \b
        tracekit verify --store .tracekit
    """
    from tracekit.cli.text import json_report

    report = open_for_reading(store).verify()
    if as_json:
        click.echo(json_report(report.as_dict()))
    else:
        tell(*report.findings)
        tell(
            f"{'sound' if report.sound else counted(len(report.findings), 'finding')}:"
            f" {counted(report.runs, 'run')}, {counted(report.events, 'event')},"
            f" {counted(report.blobs, 'value')},"
            f" {counted(report.digests_checked, 'digest')} computed"
        )
    raise SystemExit(NOTHING if report.sound else FINDING)


@click.command()
@store_option
@json_option
@explained
def compact(store: str, as_json: bool) -> None:
    """Settle journals, join small files and remove left-overs.

    Nothing is lost: joined files replace the old ones at once, and damaged ones stay as they are.

    Exits with 0 if all was settled and joined, 2 if something could not be; what and why is said.

    Example:

    \b
        tracekit compact
    """
    from tracekit.cli.text import json_report
    from tracekit.store import open_store

    opened = open_store(store)
    done = opened.compact()
    if as_json:
        click.echo(
            json_report(
                {
                    "batches_before": done.batches_before,
                    "batches_after": done.batches_after,
                    "removed_files": done.removed_files,
                }
            )
        )
    else:
        tell(
            f"{done.batches_before} batches are now {done.batches_after};"
            f" {counted(done.removed_files, 'file')} removed"
        )
    if left := [str(problem) for problem in opened.problems if problem.in_a_journal]:
        for line in left:
            tell_error(f"not settled: {line}")
        raise SystemExit(MISUSE)


@click.command()
@store_option
@json_option
@explained
def doctor(store: str, as_json: bool) -> None:
    """Tell what is on, what was lost, what is slow, and what to do about it.

    Nothing is changed. Exits with 0 if all is well, 1 for a finding that needs somebody, 2 if the
    store cannot be looked at.

    Example:

    \b
        tracekit doctor
        tracekit doctor --json
    """
    from pathlib import Path

    from tracekit.cli.doctor import diagnose
    from tracekit.cli.text import json_report

    told = diagnose(Path(store))
    if as_json:
        click.echo(json_report(told.as_dict()))
    else:
        for name, text in told.as_lines():
            tell(f"{name:<14}{text}", fg="red" if name == "finding" else None)
    if told.unreadable is not None:
        raise told.unreadable
    raise SystemExit(FINDING if told.findings else NOTHING)

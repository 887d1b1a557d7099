"""Comparing runs: ``diff``."""

from __future__ import annotations

import click

from tracekit.cli.comparing_many import (
    accept_runs,
    compare_selected,
    references_for,
    sides_options,
)
from tracekit.cli.options import (
    FINDING,
    MISUSE,
    NOTHING,
    explained,
    json_option,
    open_for_reading,
    store_option,
    warn_of_damage,
)
from tracekit.cli.reporting import check_reports, report_options, write_reports
from tracekit.cli.text import tell_report
from tracekit.errors import UsageError


@click.command()
@click.argument("old", required=False)
@click.argument("new", required=False)
@sides_options
@click.option(
    "--accept",
    is_flag=True,
    help="Accept NEW, or every candidate that differs, as another way to do its task.",
)
@click.option("--old-name", metavar="NAME", help="What to call OLD in every line.")
@click.option("--new-name", metavar="NAME", help="What to call NEW in every line.")
@click.option("--full", is_flag=True, help="Show values whole, and every step.")
@report_options
@store_option
@json_option
@explained
def diff(
    old: str | None,
    new: str | None,
    baseline: tuple[str, ...],
    candidate: tuple[str, ...],
    references: str | None,
    jobs: int | None,
    accept: bool,
    old_name: str | None,
    new_name: str | None,
    full: bool,
    html: str | None,
    markdown: str | None,
    junit: str | None,
    store: str,
    as_json: bool,
) -> None:
    """Compare two runs and name the first step where they part.

    OLD and NEW are run ids or their first characters. If one is a replay of the other, the lines
    say recorded and replayed; otherwise they name the runs by the parts of their ids that differ.
    What the partial order of a run allows, such as independent reads in another order, is no
    difference.

    With --baseline and --candidate, many runs are paired by task and input and every pair is
    compared; a candidate also with the trajectories of its task that were accepted.

    Exits with 0 if they are the same, 1 if they differ, 2 if they could not be compared.

    Example:

    \b
        tracekit diff run-41 run-42
        tracekit diff run-41 run-42 --html diff.html --markdown comment.md
        tracekit diff run-41 run-42 --json | jq '.first'
        tracekit diff --baseline tag=v6 --candidate tag=v7
    """
    check_reports(html, markdown, junit)
    if baseline or candidate:
        if old is not None:
            raise UsageError("runs are named, and --baseline or --candidate is given too")
        if old_name or new_name or full:
            raise UsageError("--old-name, --new-name and --full are for two runs that are named")
        if html is not None:
            raise UsageError(
                "--html is for two runs that are named",
                hint="of many, --markdown and --junit are written; a page shows one pair",
            )
        raise SystemExit(
            compare_selected(
                baseline, candidate, store=store, references=references, jobs=jobs,
                accept=accept, as_json=as_json, markdown=markdown, junit=junit,
            )
        )  # fmt: skip
    if old is None or new is None:
        raise UsageError(
            "two runs are needed", hint="give OLD and NEW, or --baseline SELECT --candidate SELECT"
        )
    if jobs is not None or (references is not None and not accept):
        raise UsageError("--jobs and --references are for many runs, or --accept")
    from replay.diff import diff as compare  # heavy, and only this command needs it
    from replay.diff import names_for
    from tracekit.cli.text import json_report

    opened = open_for_reading(store)
    left = opened.trajectory(opened.resolve(old))
    right = opened.trajectory(opened.resolve(new))
    names = names_for(left, right)
    found = compare(left, right, left_name=old_name or names[0], right_name=new_name or names[1])
    text = json_report(found.as_dict()) if as_json else found.as_text(values=full)
    tell_report(text)
    write_reports(found, html=html, markdown=markdown, junit=junit)
    warn_of_damage(opened)
    if accept:
        accept_runs([right.run_id], opened, references_for(opened, references, accept=True))
        raise SystemExit(NOTHING)
    if found.same:
        raise SystemExit(NOTHING)
    raise SystemExit(FINDING if found.distance else MISUSE)

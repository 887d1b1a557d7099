"""Numbers about runs: ``metrics``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracekit.cli.bar import Bar
from tracekit.cli.comparing_many import SELECT_HELP, read_selections
from tracekit.cli.options import (
    explained,
    json_option,
    open_for_reading,
    store_option,
    tell_error,
    warn_of_damage,
)
from tracekit.cli.text import tell_report
from tracekit.errors import RunNotFound, TracekitError, UsageError

if TYPE_CHECKING:
    from replay.case import Case
    from replay.metrics import MeasuredRun
    from replay.metrics.measuring import AnyGold
    from tracekit.events import RunRow
    from tracekit.store import Store
    from tracekit.trajectory import Trajectory


gold_option = click.option(
    "--gold",
    multiple=True,
    metavar="RUN|FILE|FOLDER",
    help="Measure runs of its task against this run, all against a case file, or each against the "
    "case in a folder that was made of it or its task. Given again: references of more tasks.",
)


@click.command()
@click.argument("select", nargs=-1, metavar="SELECT...")
@click.option(
    "--by",
    metavar="NAME",
    help="Sort the runs by source, agent, task, status, tool, risk, tag, planner, or by a label, a "
    "version or tags such as difficulty:hard.",
)
@gold_option
@store_option
@json_option
@explained
def metrics(
    select: tuple[str, ...], by: str | None, gold: tuple[str, ...], store: str, as_json: bool
) -> None:
    """Count what runs came to: success, tools, errors, loops, cost, time.

    SELECT names the runs: conditions joined by commas, or run ids; several are added up. Without it
    all recorded and imported runs are meant. Every number stands with its numerator, denominator
    and 95 % interval; what there is no data for is n/a, and why is said.

    Example:

    \b
        tracekit metrics tag=v7,since=7d
        tracekit metrics --by pipeline --json | jq '.buckets[].metrics.task_success'
        tracekit metrics task=refund/12 --gold run-41
    """
    from replay.comparing import Selection
    from replay.comparing.selection import choose_all
    from replay.metrics import measure, sum_runs
    from tracekit.cli.text import json_report

    opened = open_for_reading(store)
    reference = read_gold(opened, gold)
    rows = choose_all(opened, read_selections(select) or [Selection("")])
    if not rows:
        raise UsageError("no run is meant", hint=f"{SELECT_HELP}; list runs with: tracekit runs")
    found = sum_runs([measure(run, gold=reference) for run in _read(opened, rows)], by=by)
    tell_report(json_report(found.as_dict()) if as_json else found.as_text())
    warn_of_damage(opened)


def _read(store: Store, rows: list[RunRow]) -> Iterator[MeasuredRun]:
    """Yield the runs; what cannot be read is told on stderr and left out."""
    from replay.metrics import read_measured

    with Bar("measuring") as bar:
        for number, (run_id, run) in enumerate(read_measured(store, rows), 1):
            bar.advance(number, len(rows))
            if isinstance(run, TracekitError):
                tell_error(f"run {run_id} is left out: {run}")
            else:
                yield run


def read_gold(store: Store, given: tuple[str, ...]) -> AnyGold:
    """Read what ``--gold`` names: one case, cases of several tasks, or reference runs.

    Raises:
        UsageError: a case and something else, or a folder without a case that says its run.
        RunNotFound: a reference is no run.
        CaseError: a file is no case.
    """
    from replay.case import SUFFIX, read_case
    from replay.metrics import references

    cases = [name for name in given if name.endswith(SUFFIX) or Path(name).exists()]
    if cases and len(given) > 1:
        raise UsageError(
            "a case is the gold of all runs, and goes with no other --gold",
            hint=f"leave out all but {cases[0]}, or put the cases into one folder",
        )
    if cases and Path(cases[0]).is_dir():
        return _gold_of_folder(store, cases[0])
    if cases:
        return _gold_of_case(store, read_case(cases[0]))
    return references(store.trajectory(store.resolve(run)) for run in given) if given else None


def _gold_of_case(store: Store, case: Case) -> AnyGold:
    """Take a case for the gold of all runs, with the run that it was made of where that is here."""
    from replay.metrics import is_source
    from replay.metrics.gold import gold_of_case

    named = case.source.run if case.source is not None else None
    try:
        run = store.trajectory(named) if named is not None else None
    except TracekitError:  # it is asked for only to know what was renamed
        run = None
    return gold_of_case(case, run if run is not None and is_source(run, case) else None)


def _gold_of_folder(store: Store, folder: str) -> AnyGold:
    """Read cases that say of which run they were made; the others fit no run and are told."""
    from replay.case import read_case
    from replay.metrics import cases_as_gold, is_source
    from tracekit.cli.cases import case_files

    found: list[tuple[Case, Trajectory | None]] = []
    for path in case_files([folder]):
        case = read_case(path)
        if case.source is None or case.source.run is None:
            tell_error(f"{path} is left out: it does not say of which run it was made")
            continue
        try:
            run = store.trajectory(case.source.run)
        except RunNotFound:  # its replays are known all the same
            found.append((case, None))
            continue
        if not is_source(run, case):
            tell_error(f"{path} is no gold of run {run.run_id}: it was made of another of that id")
        found.append((case, run))
    if not found:
        raise UsageError(
            f"no case in {folder} says of which run it was made: source.run",
            hint="name one case file, which is the gold of all runs",
        )
    return cases_as_gold(found)

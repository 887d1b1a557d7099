"""Release thresholds: ``gate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracekit.cli.bar import Bar
from tracekit.cli.comparing_many import SELECT_HELP, read_selections
from tracekit.cli.measuring import gold_option, read_gold
from tracekit.cli.options import (
    FINDING,
    NOTHING,
    explained,
    json_option,
    open_for_reading,
    store_option,
    warn_of_damage,
)
from tracekit.errors import UsageError

if TYPE_CHECKING:
    from replay.gates import GateReport


@click.command()
@click.argument("gates", type=click.Path(dir_okay=False), metavar="GATES.TOML")
@click.option(
    "--candidate",
    multiple=True,
    required=True,
    metavar="SELECT",
    help=f"Runs of what is to be released: {SELECT_HELP}. Given again: those as well.",
)
@click.option(
    "--baseline",
    multiple=True,
    metavar="SELECT",
    help="Runs to compare with, chosen in the same way; needed where a gate compares.",
)
@gold_option
@click.option(
    "--junit",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the gates as JUnit XML too, one test case a gate.",
)
@click.option(
    "--markdown",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write a summary for a pull request too.",
)
@store_option
@json_option
@explained
def gate(
    gates: str,
    candidate: tuple[str, ...],
    baseline: tuple[str, ...],
    gold: tuple[str, ...],
    junit: str | None,
    markdown: str | None,
    store: str,
    as_json: bool,
) -> None:
    """Hold the thresholds of a file against recorded runs: may it ship?

    Every gate tells its value, bound, interval, number of samples and verdict. Inconclusive stops a
    release unless the file says otherwise; one unsafe run stops it always.

    Exits with 0 if the release may go, 1 if a gate stops it, 2 if it could not be judged.

    Example:

    \b
        tracekit gate gates.toml --baseline tag=v6 --candidate tag=v7
        tracekit gate gates.toml --candidate tag=v7,since=1d --junit gates.xml
    """  # fmt: skip
    from replay.gates import read_gates, run_gates

    for option, path in (("--junit", junit), ("--markdown", markdown)):
        if path is not None and not Path(path).absolute().parent.is_dir():
            raise UsageError(f"{option} {path}: there is no such folder")
    file = read_gates(gates)
    opened = open_for_reading(store)
    with Bar("measuring") as bar:
        report = run_gates(
            file,
            candidate=read_selections(candidate),
            baseline=read_selections(baseline),
            store=opened,
            gold=read_gold(opened, gold),
            progress=bar.advance,
        )
    _write(report, junit=junit, markdown=markdown)
    _tell(report, as_json=as_json)
    warn_of_damage(opened)
    raise SystemExit(NOTHING if report.passed else FINDING)


def _write(report: GateReport, *, junit: str | None, markdown: str | None) -> None:
    if junit is not None:
        from replay.gates.junit import junit_xml

        Path(junit).write_text(junit_xml(report), encoding="utf-8")
    if markdown is not None:
        from replay.gates.telling import markdown as summary

        Path(markdown).write_text(summary(report), encoding="utf-8")


def _tell(report: GateReport, *, as_json: bool) -> None:
    from replay.gates.telling import COLUMNS, head_lines, rows_of
    from tracekit.cli.listing import print_table
    from tracekit.cli.text import json_report, tell

    if as_json:
        click.echo(json_report(report.as_dict()))
        return
    tell(*head_lines(report))
    click.echo()
    print_table(COLUMNS, rows_of(report))

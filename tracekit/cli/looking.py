"""Finding runs, looking at one, asking SQL: ``runs``, ``show``, ``sql``."""

from __future__ import annotations

import sys
from typing import Any

import click

from tracekit.cli.options import (
    explained,
    json_option,
    open_for_reading,
    store_option,
    warn_of_damage,
)
from tracekit.cli.selecting import query_of, selection_options
from tracekit.cli.text import tell, tell_drawn


@click.command()
@selection_options(limit=50)
@store_option
@json_option
@explained
def runs(store: str, as_json: bool, **chosen: Any) -> None:
    """List runs, newest first.

    Example:

    \b
        tracekit runs --since 24h --failed
        tracekit runs --tool deploy.rollback --limit 5
    """
    from tracekit.cli import listing
    from tracekit.store import RunQuery

    opened = open_for_reading(store)
    query = query_of(chosen)
    rows = opened.runs(query)
    if as_json:
        click.echo(listing.runs_json(rows))
    elif not rows:
        tell("no runs" if query == RunQuery(limit=query.limit) else "no runs match", err=True)
    else:
        listing.print_runs(rows)
    warn_of_damage(opened)


@click.command()
@click.argument("run")
@click.option("--full", is_flag=True, help="Show values whole.")
@store_option
@json_option
@explained
def show(run: str, full: bool, store: str, as_json: bool) -> None:
    """Show one run, step by step.

    RUN is a run id or its first characters. Steps are indented beneath what caused them; each line
    has the time since the run began, how long the step took, its effect and its values.

    Example:

    \b
        tracekit show 01JDZ
        tracekit show 01JDZ --full | less
    """
    from tracekit.cli import tree
    from tracekit.cli.values import RunView

    opened = open_for_reading(store)
    view = RunView.load(opened, opened.resolve(run))
    if as_json:
        click.echo(view.as_json())
    else:
        tell_drawn(tree.lines(view, full=full, width=tree.terminal_width()))
    warn_of_damage(opened)


@click.command()
@click.argument("query")
@click.option("--csv", "as_csv", is_flag=True, help="Write CSV.")
@store_option
@json_option
@explained
def sql(query: str, as_csv: bool, store: str, as_json: bool) -> None:
    """Ask SQL of the views runs, events and payloads.

    The query is one SELECT of DuckDB's dialect; - reads it from standard input. It sees what is
    being recorded right now as well, and can change nothing.

    Example:

    \b
        tracekit sql "SELECT tool_name, count(*) FROM events GROUP BY ALL ORDER BY 2 DESC"
        tracekit sql "SELECT e.tool_name, p.text FROM events e
                      JOIN payloads p ON p.digest = e.observation_blob LIMIT 5"
    """
    from tracekit.cli import listing
    from tracekit.cli.text import tell_csv
    from tracekit.errors import UsageError

    if as_csv and as_json:
        raise UsageError("--csv and --json contradict each other", hint="give one of them")
    opened = open_for_reading(store)
    result = opened.sql(sys.stdin.read() if query == "-" else query)
    if as_json:
        click.echo(listing.sql_json(result))
    elif as_csv:
        tell_csv(listing.sql_csv(result))
    else:
        listing.print_table(result.columns, listing.sql_cells(result))
    warn_of_damage(opened)

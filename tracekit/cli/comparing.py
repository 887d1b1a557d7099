"""Comparing runs: ``diff``."""

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
    warn_of_damage,
)


@click.command()
@click.argument("old")
@click.argument("new")
@click.option("--old-name", metavar="NAME", help="What to call OLD in every line.")
@click.option("--new-name", metavar="NAME", help="What to call NEW in every line.")
@click.option("--full", is_flag=True, help="Show values whole, and every step.")
@store_option
@json_option
@explained
def diff(
    old: str,
    new: str,
    old_name: str | None,
    new_name: str | None,
    full: bool,
    store: str,
    as_json: bool,
) -> None:
    """Compare two runs and name the first step where they part.

    OLD and NEW are run ids or their first characters. If one is a replay of the other, the lines
    say recorded and replayed; otherwise they name the runs by the parts of their ids that differ.
    What the partial order of a run allows, such as independent reads in another order, is no
    difference.

    Exits with 0 if they are the same, 1 if they differ, 2 if they could not be compared.

    Example:

    \b
        tracekit diff run-41 run-42
        tracekit diff run-41 run-42 --json | jq '.first'
    """
    from replay.diff import diff as compare  # heavy, and only this command needs it
    from replay.diff import names_for
    from tracekit.cli.text import json_report

    opened = open_for_reading(store)
    left = opened.trajectory(opened.resolve(old))
    right = opened.trajectory(opened.resolve(new))
    names = names_for(left, right)
    found = compare(left, right, left_name=old_name or names[0], right_name=new_name or names[1])
    text = json_report(found.as_dict()) if as_json else found.as_text(values=full)
    click.echo(text)
    warn_of_damage(opened)
    if found.same:
        raise SystemExit(NOTHING)
    raise SystemExit(FINDING if found.distance else MISUSE)

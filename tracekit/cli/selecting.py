"""Which runs a command means: the options, and the query that they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tracekit.cli.options import Moment, option_group

if TYPE_CHECKING:
    from tracekit.store import RunQuery

F = TypeVar("F", bound=Callable[..., Any])

SELECTION = (
    "since", "until", "status", "agent", "tool", "tag", "task", "source", "failed", "limit",
)  # fmt: skip
"""Names of the options, which are those of the query's fields."""


def selection_options(*, limit: int | None) -> Callable[[F], F]:
    """Add the options that choose runs; ``limit`` is what holds where none is given."""
    return option_group(
        click.option("--since", type=Moment(), help="Begun at this time or later: 7d, 2026-11-30."),
        click.option("--until", type=Moment(), help="Begun before this time."),
        click.option("--status", type=click.Choice(["ok", "error", "open"]), help="How it ended."),
        click.option("--agent", help="Name of the agent."),
        click.option("--tool", help="Name of a tool that it called."),
        click.option("--tag", help="A tag that it carries."),
        click.option("--task", help="Id of the task it worked on."),
        click.option("--source", help="Format it was imported from; tracekit for recorded runs."),
        click.option(
            "--failed", is_flag=True, help="Only with an error, a failed or a refused call."
        ),
        click.option(
            "--limit",
            type=click.IntRange(min=1),
            default=limit,
            show_default=limit is not None,
            help="At most, the newest.",
        ),
    )


def query_of(chosen: dict[str, Any]) -> RunQuery:
    """Make the query; what it takes is removed from ``chosen``."""
    from tracekit.store import RunQuery

    return RunQuery(**{name: chosen.pop(name) for name in SELECTION})

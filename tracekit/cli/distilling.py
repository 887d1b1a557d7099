"""Reducing failures to cases: ``distill``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracekit.cli.options import (
    NOTHING,
    explained,
    json_option,
    open_for_reading,
    store_option,
    warn_of_damage,
)
from tracekit.cli.replay_options import variable
from tracekit.errors import UsageError

if TYPE_CHECKING:
    from replay.distill import DistillOptions


@click.command()
@click.option("--run-id", required=True, metavar="RUN", help="The failing run, or a prefix.")
@click.option("--planner", required=True, metavar="MOD:OBJ", help="The planner that fails.")
@click.option("--fixed", metavar="MOD:OBJ", help="A planner that does right; it must pass.")
@click.option("--forbid", multiple=True, metavar="TOOL", help="It must not be proposed, and is.")
@click.option("--require", multiple=True, metavar="TOOL", help="It must be called, and is not.")
@click.option(
    "--answer-contains",
    multiple=True,
    metavar="TEXT",
    help="The answer must hold it, and does not.",
)
@click.option(
    "--signature", multiple=True, metavar="NAME", help="A failure that was seen, by its name."
)
@click.option(
    "--expect",
    metavar="FILE",
    help="All that is expected: 'expected' and 'budgets' as in a case; one thing is not met.",
)
@click.option("--reference", metavar="RUN", help="A recorded run of the same task that went right.")
@click.option(
    "--model",
    type=click.Choice(["recorded", "live", "scripted"]),
    default="recorded",
    show_default=True,
    help="Who answers prompts. live: OPENAI_BASE_URL; each candidate costs.",
)
@click.option("--script", metavar="MOD:OBJ", help="Function that answers, for --model scripted.")
@click.option("--budget-calls", type=click.IntRange(min=1), metavar="N", help="Most candidates.")
@click.option(
    "--budget-seconds", type=click.FloatRange(min=0), metavar="S",
    help="Most seconds for candidates.",
)  # fmt: skip
@click.option(
    "--env", multiple=True, metavar="NAME[=VALUE]", help="Variable for the planner's process."
)
@click.option(
    "--timeout",
    type=float,
    default=120.0,
    show_default=True,
    metavar="S",
    help="Seconds a planner may take each time.",
)
@click.option("--name", metavar="NAME", help="What to call the case.")
@click.option(
    "--out", default="cases", metavar="FOLDER", show_default=True, help="Where the case goes."
)
@store_option
@json_option
@explained
def distill(
    run_id: str,
    planner: str,
    fixed: str | None,
    reference: str | None,
    out: str,
    store: str,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Reduce a failing run to the smallest case that fails for the same reason.

    The planner is run on smaller and smaller parts of what the run showed it; nothing is executed.
    What the case is about is said with --forbid, --require, --answer-contains or --expect, or shown
    by a planner (--fixed) or a run (--reference) that does right, or is the one failure that is
    seen. The result is a file that pytest runs. Interrupted or out of budget, the best case so far
    is written, marked not minimal.

    Exits with 0 if a case was written, 2 if there is none.

    Example:

    \b
        tracekit distill --run-id 01J --planner agents.sre:planner_v1 \\
            --fixed agents.sre:planner_v2 --out cases/
        pytest cases/
    """
    from replay.distill import distill_run  # heavy, and only this command needs it
    from tracekit.cli.text import json_report

    opened = open_for_reading(store)
    shown = _Progress() if sys.stderr.isatty() else None
    try:
        result = distill_run(
            run_id,
            planner=planner,
            fixed=fixed,
            reference=reference,
            store=opened,
            options=_options(out=Path(out), **chosen),
            progress=shown,
        )
    finally:
        if shown is not None:
            shown.clear()
    click.echo(json_report(result.as_dict()) if as_json else result.as_text())
    warn_of_damage(opened)
    raise SystemExit(NOTHING)


class _Progress:
    """One line on the terminal: how big the best is, and what it has cost."""

    def __call__(self, problem: Any) -> None:
        click.echo(
            f"\r\x1b[K{problem.calls} candidates, best {problem.size:,} bytes", nl=False, err=True
        )

    def clear(self) -> None:
        """Take the line away."""
        click.echo("\r\x1b[K", nl=False, err=True)


def _options(
    *,
    out: Path,
    forbid: tuple[str, ...],
    require: tuple[str, ...],
    answer_contains: tuple[str, ...],
    signature: tuple[str, ...],
    expect: str | None,
    model: Any,
    script: str | None,
    budget_calls: int | None,
    budget_seconds: float | None,
    env: tuple[str, ...],
    timeout: float,
    name: str | None,
) -> DistillOptions:
    from replay.case import read_oracles
    from replay.distill import Budget, DistillOptions, Wish
    from replay.isolation import Limits
    from replay.replayer import ReplayOptions

    if expect is not None and (forbid or require or answer_contains):
        raise UsageError("--expect says all that is expected; leave out --forbid and the like")
    if (model == "scripted") != (script is not None):
        raise UsageError("--model scripted and --script MOD:OBJ go together")
    return DistillOptions(
        wish=Wish(
            forbid, require, answer_contains, signature, read_oracles(expect) if expect else None
        ),
        model=model,
        script=script,
        budget=Budget(budget_calls, budget_seconds),
        replay=ReplayOptions(limits=Limits(wall_s=timeout), environment=dict(map(variable, env))),
        out=out,
        name=name,
    )

"""Reducing failures to cases: ``distill``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click

from tracekit.cli.options import (
    MISUSE,
    NOTHING,
    TERMINATED,
    ending_in_order,
    explained,
    json_option,
    open_for_reading,
    store_option,
    tell_error,
    warn_of_damage,
)
from tracekit.cli.replay_options import env_option, variable
from tracekit.cli.selecting import query_of, selection_options
from tracekit.cli.text import tell_over, tell_report
from tracekit.errors import UsageError
from tracekit.numerals import counted

if TYPE_CHECKING:
    from replay.distill import DistillOptions, DistillResult, Grouped
    from tracekit.store import RunQuery, Store


class _Amount(click.FloatRange):
    """A number, and no NaN, which no bound refuses."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Take what the user wrote."""
        number: float = super().convert(value, param, ctx)
        if isnan(number):
            self.fail(f"{value!r} is no amount", param, ctx)
        return number


@click.command()
@click.option("--run-id", metavar="RUN", help="The failing run, or a prefix.")
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
    "--budget-seconds", type=_Amount(min=0), metavar="S",
    help="Most seconds for candidates.",
)  # fmt: skip
@click.option(
    "--budget-usd", type=_Amount(min=0), metavar="USD",
    help="Most that the replies of a live model may cost, as far as they say.",
)  # fmt: skip
@click.option(
    "--jobs", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
    help="Candidates tried at once; the case is the same.",
)  # fmt: skip
@click.option(
    "--flaky", is_flag=True,
    help="The planner may fail only sometimes; each candidate is run until it is sure.",
)  # fmt: skip
@click.option(
    "--resume", metavar="FILE",
    help="Keep answers in FILE, and take those that are there: broken off, it goes on.",
)  # fmt: skip
@env_option
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
@selection_options(limit=None)
@store_option
@json_option
@explained
def distill(
    run_id: str | None,
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
    seen. The result is a file that pytest runs. Interrupted, asked to terminate or out of budget,
    the best case so far is written, marked not minimal.

    Where runs are chosen (--since, --failed, --tag ...) instead of named, those that fail for the
    same reason are one incident and get one case, unless the folder holds a case for it already.

    Exits with 0 if there is a case for each failure, 2 if there is none, 143 if it was asked to
    terminate (SIGTERM).

    Example:

    \b
        tracekit distill --run-id 01J --planner agents.sre:planner_v1 \\
            --fixed agents.sre:planner_v2 --out cases/
        pytest cases/
        tracekit distill --since 7d --failed --planner agents.sre:planner_v1
    """
    told: DistillResult | Grouped | None = None
    try:
        with ending_in_order():
            from tracekit.cli.text import json_report

            query = query_of(chosen)
            _check(run_id, query, {"reference": reference, **chosen})
            options = _options(out=Path(out), **chosen)
            opened = open_for_reading(store)
            with _Progress() as shown:
                told, complete = (
                    _one(run_id, planner, fixed, reference, opened, options, shown)
                    if run_id is not None
                    else _many(query, planner, fixed, opened, options, shown)
                )
            tell_report(json_report(told.as_dict()) if as_json else told.as_text())
            warn_of_damage(opened)
    except (KeyboardInterrupt, SystemExit):
        said = _broken_off(told, out, chosen["resume"], many=run_id is None)
        tell_error(said)
        raise
    raise SystemExit(TERMINATED if told.terminated else NOTHING if complete else MISUSE)


def _broken_off(
    told: DistillResult | Grouped | None, out: str, answers: str | None, *, many: bool
) -> str:
    """Say what is there where the command was ended before or after the search itself."""
    if told is not None:
        return f"ended while this was told; what was found is in {out}"
    if many:
        return (
            f"ended before all were distilled; cases that were written before are in {out},"
            " and the same command goes on with the others"
        )
    if answers is not None and Path(answers).exists():
        return (
            "ended before there was a case to write, so none is written; what was answered is in "
            f"{answers}, and the same command goes on from there"
        )
    if answers is not None:
        return (
            f"ended before anything was answered, so nothing is written, {answers} neither; the "
            "same command begins anew"
        )
    return (
        "ended before there was a case to write, so none is written; with --resume FILE the "
        "answers are kept, and the same command goes on"
    )


def _check(run_id: str | None, query: RunQuery, chosen: Mapping[str, Any]) -> None:
    """Refuse options that do not go together."""
    from tracekit.store import RunQuery

    many = query != RunQuery()
    if run_id is not None and many:
        raise UsageError(
            "--run-id names one run, and options that choose many were given too",
            hint="leave out --run-id, or the others",
        )
    if run_id is None and not many:
        raise UsageError(
            "no run is named and none are chosen",
            hint="give --run-id RUN, or choose: --since 7d, --failed, --tag, --agent, --limit N",
        )
    if many and any(chosen[name] is not None for name in ("reference", "name", "resume")):
        raise UsageError("--reference, --name and --resume are about one run; give --run-id RUN")


def _one(
    run_id: str,
    planner: str,
    fixed: str | None,
    reference: str | None,
    store: Store,
    options: DistillOptions,
    shown: _Progress,
) -> tuple[DistillResult, bool]:
    from replay.distill import distill_run  # heavy, and only this command needs it

    result = distill_run(
        run_id,
        planner=planner,
        fixed=fixed,
        reference=reference,
        store=store,
        options=options,
        progress=shown.candidate,
    )
    return result, True


def _many(
    query: RunQuery,
    planner: str,
    fixed: str | None,
    store: Store,
    options: DistillOptions,
    shown: _Progress,
) -> tuple[Grouped, bool]:
    from replay.distill import distill_many  # heavy, and only this command needs it

    run_ids = [row.run_id for row in store.runs(query)]
    if not run_ids:
        raise UsageError("no runs match", hint="see which there are with: tracekit runs")
    result = distill_many(
        run_ids, planner=planner, fixed=fixed, store=store, options=options, progress=shown.many
    )
    return result, result.complete


class _Progress:
    """One line on the terminal, and none in a pipe: how far it is, and what it has cost."""

    def __enter__(self) -> Self:
        """Find out whether anybody looks."""
        self._shown = sys.stderr.isatty()
        return self

    def __exit__(self, *reason: object) -> None:
        """Take the line away."""
        self._line("")

    def candidate(self, problem: Any) -> None:
        """Tell how big the best is after so many candidates."""
        self._line(f"{counted(problem.calls, 'candidate')}, best {counted(problem.size, 'byte')}")

    def many(self, what: str, done: int, of: int) -> None:
        """Tell how many runs or groups are done."""
        self._line(f"{done} of {of} {what}")

    def _line(self, text: str) -> None:
        if self._shown:
            tell_over(text)


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
    budget_usd: float | None,
    jobs: int,
    resume: str | None,
    flaky: bool,
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
    if budget_usd is not None and model != "live":
        raise UsageError("--budget-usd is about --model live; nothing else costs")
    if (model == "scripted") != (script is not None):
        raise UsageError("--model scripted and --script MOD:OBJ go together")
    return DistillOptions(
        wish=Wish(
            forbid, require, answer_contains, signature, read_oracles(expect) if expect else None
        ),
        model=model,
        script=script,
        budget=Budget(budget_calls, budget_seconds, budget_usd),
        replay=ReplayOptions(limits=Limits(wall_s=timeout), environment=dict(map(variable, env))),
        out=out,
        name=name,
        workers=jobs,
        answers=None if resume is None else Path(resume),
        flaky=flaky,
    )

"""Replaying many runs: what ``replay`` does where runs are chosen instead of named."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click

from tracekit.cli.bar import Bar
from tracekit.cli.options import (
    FINDING,
    MISUSE,
    NOTHING,
    ending_in_order,
    open_for_reading,
    option_group,
    warn_of_damage,
)
from tracekit.cli.selecting import query_of, selection_options
from tracekit.cli.text import tell
from tracekit.errors import UsageError
from tracekit.numerals import counted

if TYPE_CHECKING:
    from replay.many import ManyResult, RunOutcome
    from replay.replayer import ReplayOptions
    from tracekit.store import RunQuery


_HOW = ("jobs", "resume", "junit")


@dataclass(frozen=True)
class Chosen:
    """Many runs, and how they are replayed."""

    query: RunQuery
    jobs: int | None
    resume: bool
    junit: str | None


many_options = option_group(
    selection_options(limit=None),
    click.option(
        "--jobs", type=click.IntRange(min=1), metavar="N",
        help="Worker processes for many runs; default one a core.",
    ),
    click.option(
        "--resume", is_flag=True,
        help="Go on with many runs: leave out those that this planner has replayed already.",
    ),
    click.option(
        "--junit", type=click.Path(dir_okay=False), metavar="FILE",
        help="Write many runs as JUnit XML, one test case a run.",
    ),
)  # fmt: skip
"""Options that choose runs, and those that say how many are replayed."""


def chosen_runs(run_id: str | None, chosen: dict[str, Any]) -> Chosen | str:
    """Give what a command for many runs chose, or the id of the one that it names.

    The options for many runs are removed from ``chosen``.

    Raises:
        UsageError: neither or both were given.
    """
    from tracekit.store import RunQuery

    query = query_of(chosen)
    how = {name: chosen.pop(name) for name in _HOW}
    choosing = query != RunQuery()
    if run_id is not None:
        if choosing or any(how.values()):
            raise UsageError(
                "--run-id names one run, and options that choose many were given too",
                hint="leave out --run-id, or the others",
            )
        return run_id
    if not choosing:
        raise UsageError(
            "no run is named and none are chosen",
            hint="give --run-id RUN, or choose: --since 7d, --failed, --tag, --agent, --limit N",
        )
    return Chosen(query, **how)


def replay_chosen(
    chosen: Chosen, planner: str, store: str, options: ReplayOptions, *, as_json: bool
) -> int:
    """Replay the chosen runs, tell what they came to, and give the code to exit with."""
    from replay.many import replay_many

    junit = chosen.junit
    if junit is not None and not Path(junit).absolute().parent.is_dir():
        raise UsageError(f"--junit {junit}: there is no such folder")
    opened = open_for_reading(store)
    with ending_in_order(), _Bar() as bar:
        result = replay_many(
            chosen.query, planner=planner, store=opened, options=options, jobs=chosen.jobs,
            resume=chosen.resume, progress=bar.note,
        )  # fmt: skip
    if not result.outcomes:
        raise UsageError("no runs match", hint="see which there are with: tracekit runs")
    if junit is not None:
        from replay.many.junit import junit_xml

        Path(junit).write_text(junit_xml(result), encoding="utf-8")
    _tell(result, as_json=as_json)
    warn_of_damage(opened)
    if result.failed:
        return FINDING
    return NOTHING if result.passed else MISUSE


def _tell(result: ManyResult, *, as_json: bool) -> None:
    from replay.many.telling import COLUMNS, head_lines, rest_line, rows_to_look_at, unseen_lines
    from tracekit.cli.listing import print_table
    from tracekit.cli.text import json_report

    if as_json:
        click.echo(json_report(result.as_dict()))
        return
    tell(*(*head_lines(result), *unseen_lines(result)))
    rows = rows_to_look_at(result)
    if not rows:
        return
    click.echo()
    width = sum(max(map(len, column)) + 2 for column in zip(COLUMNS, *rows, strict=True))
    if not sys.stdout.isatty() or width <= shutil.get_terminal_size().columns:
        print_table(COLUMNS, rows)
    else:
        for verdict, run_id, divergence, why, closer in rows:
            tell(f"{verdict}  {run_id}", bold=True)
            for line in dict.fromkeys(part for part in (why, divergence) if part != "-"):
                tell(f"  {line}")
            tell(f"  {closer}")
    if (rest := rest_line(result)) is not None:
        tell(rest)


class _Bar(Bar):
    """Tells besides how many are to be looked at, and when interrupted, how many are done."""

    def __init__(self) -> None:
        super().__init__("replaying")
        self._done = self._found = 0

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        if isinstance(error, KeyboardInterrupt | SystemExit):
            runs = f"{counted(self._done, 'run')} {'is' if self._done == 1 else 'are'}"
            tell(f"interrupted; {runs} done: go on with --resume", err=True)

    def note(self, outcome: RunOutcome, done: int, total: int) -> None:
        """Take note of one more run."""
        self._done = done
        self._found += outcome.verdict != "pass"
        self.advance(done, total, f"{self._found:,} to look at" if self._found else "")

"""Cases on the command line: ``case run``, ``case show``, ``case lint``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracekit.cli.options import FINDING, MISUSE, NOTHING, explained, json_option, tell_error
from tracekit.cli.text import tell, tell_report
from tracekit.errors import CaseError, TracekitError, UsageError

if TYPE_CHECKING:
    from replay.case import Case
    from replay.caserun import CaseResult
    from replay.replayer import ReplayOptions
    from tracekit.canonical import JsonValue

_paths = click.argument("paths", nargs=-1, required=True, metavar="PATH...")


@click.group()
@explained
def case() -> None:
    """Run, show and check cases: failures kept as files.

    Example:

    \b
        tracekit case run cases/ --planner agents.sre:investigate
        tracekit case show cases/rollback.case.yaml
    """


@case.command()
@_paths
@click.option("--planner", metavar="MOD:OBJ", help="Planner to run; each case's own if not given.")
@click.option(
    "--repeat", default=1, show_default=True, type=click.IntRange(min=1), metavar="N",
    help="Run each case N times, or as often as it says if that is more; all have to pass.",
)  # fmt: skip
@click.option("--live", is_flag=True, help="Ask a live model wherever the planner asks one.")
@click.option(
    "--timeout", type=float, default=120.0, show_default=True, metavar="S",
    help="Seconds a planner may take each time.",
)  # fmt: skip
@json_option
@explained
def run(
    paths: tuple[str, ...],
    planner: str | None,
    repeat: int,
    live: bool,
    timeout: float,
    as_json: bool,
) -> None:
    """Run a planner on cases.

    PATH is a case file, or a folder in which all files named *.case.yaml are cases. Nothing is
    executed but the planner, and nothing is stored. A case that is inconclusive, or not evaluated
    because the planner never got far enough, is not passed.

    Exits with 0 if all pass, 1 if any does not, 2 if any is malformed or cannot be run.

    Example:

    \b
        tracekit case run cases/
        tracekit case run cases/ --planner agents.sre:investigate_v2 --repeat 20
    """
    from tracekit.cli.text import json_report

    files = case_files(paths)
    cases, broken = _read(files)
    lines: list[dict[str, Any]] = []
    bad = 0
    options = _options(live=live, timeout=timeout)
    for path, result in _results(cases, planner, repeat=repeat, options=options):
        if isinstance(result, TracekitError):
            broken.append((path, result))
            continue
        bad += not result.passed
        lines.append({"file": str(path), **result.as_dict()})
        if not as_json:
            tell_report(_told(result, path))
    for path, error in broken:
        lines.append({"file": str(path), "error": error.message})
        _complain(path, error)
    if as_json:
        click.echo(json_report({"format": "tracekit/case-run/v1", "results": list(lines)}))
    elif len(files) > 1:
        tell(_summary(len(files) - bad - len(broken), bad, len(broken)))
    raise SystemExit(MISUSE if broken else FINDING if bad else NOTHING)


def _options(*, live: bool, timeout: float) -> ReplayOptions:
    from replay.isolation import Limits
    from replay.replayer import ReplayOptions

    return ReplayOptions(model="live" if live else "recorded", limits=Limits(wall_s=timeout))


def _results(
    cases: Sequence[tuple[Path, Case]], planner: str | None, *, repeat: int, options: ReplayOptions
) -> Iterator[tuple[Path, CaseResult | TracekitError]]:
    """Run cases in their order; a planner that is used by neighbours is started once."""
    from replay.caserun import CaseRunner

    for wanted, group in groupby(cases, key=lambda pair: planner or pair[1].planner):
        waiting = list(group)
        try:
            if wanted is None:
                raise UsageError("it names no planner", hint="name one with --planner MOD:OBJ")
            with CaseRunner(wanted, options=options) as runner:
                while waiting:
                    result = _repeated(runner.run, waiting[0][1], repeat)
                    yield waiting.pop(0)[0], result
        except TracekitError as error:
            yield from ((path, error) for path, _ in waiting)


def _repeated(run_once: Callable[[Case], CaseResult], one: Case, times: int) -> CaseResult:
    result = run_once(one)
    for _ in range(max(times, one.repeat) - 1):
        if not result.passed:
            break
        result = run_once(one)
    return result


def _told(result: CaseResult, path: Path) -> str:
    from replay.caserun.wording import describe_result

    return describe_result(result, path=str(path))


def _summary(passed: int, bad: int, broken: int) -> str:
    parts = [f"{passed} passed"]
    parts += [f"{bad} not passed"] if bad else []
    parts += [f"{broken} could not be run"] if broken else []
    return ", ".join(parts)


@case.command()
@click.argument("file", metavar="FILE")
@click.option("--full", is_flag=True, help="Show values whole.")
@json_option
@explained
def show(file: str, full: bool, as_json: bool) -> None:
    """Show what a case gives a planner and what it expects.

    Example:

    \b
        tracekit case show cases/rollback.case.yaml
    """
    from replay.case import read_case
    from replay.caserun.wording import describe_case
    from tracekit.cli.text import json_report

    read = read_case(file)
    tell_report(
        json_report(read.as_data()) if as_json else describe_case(read, path=file, full=full)
    )


@case.command()
@_paths
@click.option(
    "--stale",
    is_flag=True,
    help="Import each case's planner, behind walls, and tell which cases it has outgrown.",
)
@json_option
@explained
def lint(paths: tuple[str, ...], stale: bool, as_json: bool) -> None:
    """Look for what makes cases worthless: malformed, vacuous, secrets, names that lead nowhere.

    No planner is run, nor imported without --stale. That tells of tools whose arguments changed, or
    that are gone, and of another prompt version than that of the run the case was made of.

    Exits with 0 if there is nothing, 1 for a finding, 2 if a file is malformed.

    Example:

    \b
        tracekit case lint cases/
    """
    from replay.case import SUFFIX
    from replay.caserun.lint import lint_case
    from tracekit.cli.text import json_report

    cases, broken = _read(case_files(paths))
    found = [
        (path, text)
        for path, one in cases
        for text in lint_case(one, path.read_text("utf-8"), file=path.name.removesuffix(SUFFIX))
    ]
    if stale:
        for path, told in _outgrown(cases):
            if isinstance(told, TracekitError):
                broken.append((path, told))
            else:
                found.append((path, told))
    if as_json:
        listed: list[JsonValue] = [{"file": str(path), "text": text} for path, text in found]
        listed += [{"file": str(path), "text": error.message} for path, error in broken]
        click.echo(json_report({"format": "tracekit/case-lint/v1", "findings": listed}))
    else:
        for path, text in found:
            tell(f"{path}: {text}")
    for path, error in broken:
        _complain(path, error)
    raise SystemExit(MISUSE if broken else FINDING if found else NOTHING)


def _outgrown(cases: Sequence[tuple[Path, Case]]) -> Iterator[tuple[Path, str | TracekitError]]:
    """Compare cases with what their planners' code declares; each planner is imported once."""
    from replay.caserun import CaseRunner
    from replay.caserun.lint import stale

    ordered = sorted(cases, key=lambda pair: pair[1].planner or "")
    for planner, group in groupby(ordered, key=lambda pair: pair[1].planner):
        waiting = list(group)
        if planner is None:
            continue
        try:
            with CaseRunner(planner) as runner:
                declared = runner.declared
        except TracekitError as error:
            yield from ((path, error) for path, _ in waiting)
            continue
        yield from ((path, text) for path, one in waiting for text in stale(one, declared))


# --- files ----------------------------------------------------------------------------------------


def case_files(paths: Sequence[str]) -> list[Path]:
    """Find the case files.

    Raises:
        UsageError: a path does not exist, or there is no case in it.
    """
    found: list[Path] = []
    for name in paths:
        path = Path(name)
        if path.is_dir():
            inside = sorted(path.rglob("*.case.yaml"))
            if not inside:
                raise UsageError(f"there is no *.case.yaml in {name}")
            found += inside
        elif path.exists():
            found.append(path)
        else:
            raise UsageError(f"there is no file or folder {name}")
    return list(dict.fromkeys(found))


def _read(
    files: Sequence[Path],
) -> tuple[list[tuple[Path, Case]], list[tuple[Path, TracekitError]]]:
    from replay.case import read_case

    cases: list[tuple[Path, Case]] = []
    broken: list[tuple[Path, TracekitError]] = []
    for path in files:
        try:
            cases.append((path, read_case(path)))
        except CaseError as error:
            broken.append((path, error))
    return cases, broken


def _complain(path: Path, error: TracekitError) -> None:
    place = "" if isinstance(error, CaseError) else f"{path}: "
    tell_error(f"{place}{error}")

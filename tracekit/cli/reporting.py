"""Files beside what a comparison prints: a page, a comment, JUnit XML."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracekit.cli.options import option_group
from tracekit.errors import UsageError

if TYPE_CHECKING:
    from replay.comparing import ManyComparison
    from replay.diff import Comparison

_FILE = click.Path(dir_okay=False)


report_options = option_group(
    click.option(
        "--html", type=_FILE, metavar="FILE",
        help="Write a page with both runs side by side; it needs no network.",
    ),
    click.option(
        "--markdown", type=_FILE, metavar="FILE", help="Write a comment for a pull request."
    ),
    click.option("--junit", type=_FILE, metavar="FILE", help="Write JUnit XML."),
)  # fmt: skip
"""Options that name files to write."""


def check_reports(*paths: str | None) -> None:
    """Refuse files that could not be written, before any work is done.

    Raises:
        UsageError: a folder is not there.
    """
    for path in paths:
        if path is not None and not Path(path).absolute().parent.is_dir():
            raise UsageError(f"{path} cannot be written: there is no such folder")


def write_reports(
    found: Comparison, *, html: str | None, markdown: str | None, junit: str | None
) -> None:
    """Write a comparison to the files that are named.

    Raises:
        UsageError: one cannot be written.
    """
    from replay import report

    for path, make in ((html, report.page), (markdown, report.comment), (junit, report.suite)):
        if path is not None:
            _write(path, make(found))


def write_reports_of_many(
    found: ManyComparison, *, markdown: str | None, junit: str | None
) -> None:
    """Write a comparison of many runs to the files that are named.

    Raises:
        UsageError: one cannot be written.
    """
    from replay import report

    for path, make in ((markdown, report.comment_on_many), (junit, report.suite_of_many)):
        if path is not None:
            _write(path, make(found))


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error

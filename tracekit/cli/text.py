"""Text for people: times, durations, values cut to fit, tables. Traces are data, never commands.

Whatever a trace holds may end on a terminal, so control characters are shown, not obeyed: what is
printed goes through ``tell`` and its kin, or is JSON from ``json_report``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from tracekit.canonical import JsonValue, json_text
from tracekit.canonical.text import holds_special_floats
from tracekit.visible import shown_line, visible

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_OBEYED = re.compile(
    "[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
"""Controls, marks of direction and signs without width; JSON escapes those below a blank."""

_SPECIAL = re.compile(r'"(?:[^"\\]|\\.)*+"|NaN|-?Infinity')


def tell(*lines: str, err: bool = False, **style: Any) -> None:
    """Print lines that may hold text from a trace, each of which stays one line."""
    for line in lines:
        click.secho(shown_line(line), err=err, **style)


def tell_report(text: str) -> None:
    """Print a report of several lines, made by ``text_of``."""
    click.echo(visible(text))


def tell_over(text: str) -> None:
    """Write over the line of progress that a terminal shows."""
    click.echo(f"\r\x1b[K{shown_line(text)}", nl=False, err=True)


def tell_csv(text: str) -> None:
    """Print a table for programs, which is left as it is unless a terminal shows it."""
    click.echo(visible(text) if sys.stdout.isatty() else text, nl=False)


def tell_drawn(lines: Iterable[str]) -> None:
    """Print lines that are styled already, and made visible piece by piece before they were."""
    for line in lines:
        click.echo(line)


def json_report(value: JsonValue) -> str:
    """Write JSON for programs that a terminal can show as well.

    A number that JSON lacks becomes a text: NaN, Infinity.
    """
    text = json_text(value)
    if holds_special_floats(value):
        text = _SPECIAL.sub(lambda part: part[0] if part[0][0] == '"' else f'"{part[0]}"', text)
    return escaped(text)


def escaped(text: str) -> str:
    """Escape what a terminal would obey in a JSON text; it stays the same JSON."""
    return _OBEYED.sub(_escape, text)


def _escape(sign: re.Match[str]) -> str:
    units = sign[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def one_line(text: str, width: int) -> str:
    """Cut a text to one line of at most ``width`` signs."""
    if len(text) > 4 * width:
        text = text[: 4 * width] + "…"
    line = " ".join(visible(text).split())
    return line if len(line) <= width else line[: max(1, width - 1)] + "…"


def value_text(value: JsonValue) -> str:
    """Write a value: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json_text(value)


def arguments_text(value: JsonValue) -> str:
    """Write arguments as a call would: ``expr='rate', window='5m'``."""
    if not isinstance(value, dict):
        return value_text(value)
    return ", ".join(f"{name}={_literal(item)}" for name, item in value.items())


def _literal(value: JsonValue) -> str:
    return repr(value) if isinstance(value, str) else json_text(value)


def moment_text(time_ns: int | None) -> str:
    """Write a time to the second, in UTC."""
    if time_ns is None:
        return "-"
    try:
        moment = _EPOCH + timedelta(microseconds=time_ns // 1000)
    except OverflowError:
        return f"{time_ns} ns"
    return f"{moment:%Y-%m-%d %H:%M:%S}"


def duration_text(duration_ns: int | None) -> str:
    """Write a duration so that its size can be seen at once."""
    if duration_ns is None:
        return "-"
    seconds = duration_ns / 1e9
    if 5e-5 <= abs(seconds) < 0.01:
        return f"{seconds * 1000:.1f} ms"
    if abs(seconds) < 1:
        return f"{seconds * 1000:.0f} ms"
    if abs(seconds) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a table's lines, aligned by spaces: for pipes, files and eyes that see no boxes."""
    cells = [[" ".join(visible(cell).split()) for cell in row] for row in (columns, *rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
    for row in cells:
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()


def rich_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Draw a table on the terminal, fitted to its width."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(" ".join(visible(cell).split())) for cell in row))
    Console().print(table)

"""Runs and answers to SQL as tables, JSON and CSV."""

from __future__ import annotations

import base64
import csv
import io
import itertools
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import date, datetime, time
from typing import Any

from tracekit.canonical import JsonValue, json_text, parse_json
from tracekit.cli.text import (
    duration_text,
    json_report,
    moment_text,
    plain_table,
    rich_table,
    tell,
)
from tracekit.events import RunRow
from tracekit.store import SqlResult

RUN_COLUMNS = (
    "run", "began (UTC)", "took", "status", "agent", "task", "calls", "writes", "errors",
    "refused", "tokens", "notes",
)  # fmt: skip


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: drawn on a terminal, aligned by spaces anywhere else."""
    if sys.stdout.isatty():
        rich_table(columns, rows)
    else:
        sys.stdout.writelines(f"{line}\n" for line in plain_table(columns, rows))


def print_runs(rows: Sequence[RunRow]) -> None:
    """Print runs as a table; on a terminal too narrow for their ids, as two lines each.

    An id that is broken over lines cannot be copied, and copying it is what the list is for.
    """
    cells = run_cells(rows)
    width = sum(max(map(len, column)) + 2 for column in zip(RUN_COLUMNS, *cells, strict=True))
    if not sys.stdout.isatty() or width <= shutil.get_terminal_size().columns:
        print_table(RUN_COLUMNS, cells)
        return
    for row, (run_id, *rest) in zip(rows, cells, strict=True):
        told = [f"{name} {cell}" for name, cell in zip(RUN_COLUMNS[5:-1], rest[4:-1], strict=True)]
        shown = [
            *rest[:4],
            *(text for text in told if text.split(" ")[1] not in ("", "0")),
            rest[-1],
        ]
        colour = {"error": "red", "open": "yellow"}.get(row.status)
        tell(run_id, bold=True, fg=colour)
        tell("  " + " · ".join(part for part in shown if part))


def run_cells(rows: Iterable[RunRow]) -> list[list[str]]:
    """Give the cells of the table of runs."""
    return [
        [
            row.run_id,
            moment_text(row.ts_start_ns),
            _took(row),
            row.status,
            row.agent,
            row.task_id or "",
            str(row.tool_calls),
            str(row.writes),
            str(row.errors),
            str(row.refusals),
            str(row.usage_input + row.usage_output or ""),
            _notes(row),
        ]
        for row in rows
    ]


def _took(row: RunRow) -> str:
    if row.status == "open":
        return "under way"
    if row.ts_start_ns is None or row.ts_end_ns is None:
        return "-"
    return duration_text(row.ts_end_ns - row.ts_start_ns)


def _notes(row: RunRow) -> str:
    notes = [*(f"#{tag}" for tag in row.tags)]
    if row.verdict:
        notes.append(row.verdict)
    if row.replay_of:
        notes.append(f"replay of {row.replay_of}")
    if row.source_format != "tracekit":
        notes.append(f"from {row.source_format}")
    return " ".join(notes)


def run_dict(row: RunRow) -> dict[str, JsonValue]:
    """Give a catalogue row as JSON values."""
    fields: dict[str, Any] = asdict(row)
    fields |= {"tools": list(row.tools), "tags": list(row.tags)}
    fields["versions"] = parse_json(row.versions)
    fields["fidelity"] = parse_json(row.fidelity) if row.fidelity is not None else None
    return fields


def runs_json(rows: Iterable[RunRow]) -> str:
    """Give the runs as a JSON list, one run a line."""
    return "[" + ",\n ".join(json_report(run_dict(row)) for row in rows) + "]"


def sql_cells(result: SqlResult) -> list[list[str]]:
    """Give the cells of an answer."""
    return [[_cell(value) for value in row] for row in result.rows]


def _cell(value: Any) -> str:
    plain = json_value(value)
    if plain is None:
        return ""
    return plain if isinstance(plain, str) else json_text(plain)


def sql_json(result: SqlResult) -> str:
    """Give an answer as a JSON list of objects, one row a line; of equal names, all are kept."""
    names = _told_apart(result.columns)
    lines = (
        json_report(dict(zip(names, map(json_value, row), strict=True))) for row in result.rows
    )
    return "[" + ",\n ".join(lines) + "]"


def _told_apart(names: Sequence[str]) -> list[str]:
    """Number the names that stand there already: ``a``, ``a_1``."""
    told: list[str] = []
    for name in names:
        spelt = (f"{name}_{number}" if number else name for number in itertools.count())
        told.append(next(one for one in spelt if one not in told))
    return told


def sql_csv(result: SqlResult) -> str:
    """Give an answer as CSV with a head line."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(result.columns)
    writer.writerows([_cell(value) for value in row] for row in result.rows)
    return text.getvalue()


def json_value(value: Any) -> JsonValue:
    """Give what a database returns as a JSON value; bytes that are no text become base64."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(item) for item in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value)

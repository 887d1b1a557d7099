"""A run as a tree of lines, made to be read at three in the morning.

Each step is one line: when, how long, what kind, what was called with what; beneath it what came
back. Two marks stand in the margin: ``!!`` for a write that failed, was refused or has no end, and
``!`` for any other failure or refusal. The answer comes last, where the eye is when output stops.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterator
from textwrap import wrap

import click

from tracekit.canonical import JsonValue, parse_json
from tracekit.cli.text import duration_text, moment_text, one_line, value_text
from tracekit.cli.values import RunView
from tracekit.cli.wording import (
    asked_text,
    error_text,
    reply_text,
    request_text,
    tool_text,
    value_lines,
)
from tracekit.events import Event
from tracekit.numerals import counted
from tracekit.rows import run_row
from tracekit.trajectory import FAULT
from tracekit.visible import shown_line

_INDENT = "  "
_ANSWER_LINES = 12
_CALLS = ("tool_call", "retrieval")
_EFFECTS = {"pure": "pure", "read": "read", "write": "WRITE", "unknown": "WRITE?"}
_KINDS = {"llm_call": "model", "agent": "agent", "message": "says", "span": "step"}
_STOPPING = ("deny", "terminate")


def terminal_width() -> int:
    """How wide lines may be."""
    return max(60, shutil.get_terminal_size((110, 24)).columns)


def lines(view: RunView, *, full: bool, width: int) -> Iterator[str]:
    """Yield the lines of a run."""
    yield from _head(view, width)
    yield ""
    timed = any(row.ts_start_ns is not None for row in view.rows if row.event_type != "run")
    for row, depth in _in_tree(view):
        if full or not _is_detail(row, view):
            yield from _Step(view, row, depth, timed=timed).lines(full=full, width=width)
    yield ""
    yield from _foot(view, full=full, width=width)


def _head(view: RunView, width: int) -> Iterator[str]:
    root = view.root
    row = run_row(view.rows)
    took = None
    if root.ts_start_ns is not None and root.ts_end_ns is not None:
        took = root.ts_end_ns - root.ts_start_ns
    status = {"ok": "ok", "error": click.style("error", fg="red", bold=True)}.get(
        row.status, click.style("under way", fg="yellow", bold=True)
    )
    when = (
        "no times recorded" if root.ts_start_ns is None else moment_text(root.ts_start_ns) + " UTC"
    )
    parts = [shown_line(row.agent or "agent"), status, when]
    parts += [duration_text(took)] if took is not None else []
    yield f"{click.style('run ' + shown_line(view.run_id), bold=True)} · {' · '.join(parts)}"
    facts = [
        f"{name} {value}"
        for name, value in (
            ("task", row.task_id),
            ("tenant", row.tenant),
            ("operator", row.operator),
            ("child of", row.parent_run_id),
            ("replay of", row.replay_of),
            ("planner", row.planner),
            ("verdict", row.verdict),
            ("from", row.source_format if row.source_format != "tracekit" else None),
        )
        if value
    ]
    versions = parse_json(row.versions)
    if isinstance(versions, dict) and versions:
        facts.append("versions " + ", ".join(f"{key}={value}" for key, value in versions.items()))
    facts += [f"#{tag}" for tag in row.tags]
    if facts:
        yield click.style(shown_line(" · ".join(facts)), dim=True)
    whole = view.whole("argument")
    asked = asked_text(view.value(whole, "argument"))
    if asked:
        yield "asked   " + one_line(asked, width - 8)
    elif why := view.missing(whole, "argument"):
        yield click.style(f"asked   ({why})", dim=True)


def _in_tree(view: RunView) -> Iterator[tuple[Event, int]]:
    """Yield the rows under their parents, with their depth; the run itself is the head."""
    root = view.root if view.root.event_type == "run" else None
    spans = {row.span_id for row in view.rows if row.span_id}
    children: defaultdict[str | None, list[Event]] = defaultdict(list)
    top = root.span_id if root is not None else None
    for row in view.rows:
        if row is root:
            continue
        parent = row.parent_span_id
        known = parent in spans and parent not in (row.span_id, top)
        children[parent if known else None].append(row)
    placed: set[str] = set()
    stack = [(row, 0) for row in reversed(children.pop(None, []))]
    while stack or children:
        if not stack:  # parents that name each other: show them rather than lose them
            stack = [(row, 0) for row in reversed(children.pop(next(iter(children))))]
        row, depth = stack.pop()
        if row.event_id in placed:
            continue
        placed.add(row.event_id)
        yield row, depth
        below = children.pop(row.span_id, []) if row.span_id else []
        stack += [(child, depth + 1) for child in reversed(below)]


def _is_detail(row: Event, view: RunView) -> bool:
    """Tell whether a row only says again what another shows, or is of no interest at a glance."""
    if row.event_type == "span" and row.actor == "mint":
        return True
    if row.event_type != "policy":
        return False
    return any(
        call.span_id == row.parent_span_id
        and call.event_type in _CALLS
        and (call.policy_decision, call.policy_id) == (row.policy_decision, row.policy_id)
        for call in view.rows
    )


def _fault_of(row: Event) -> str:
    """What a function of the program failed to tell of a call."""
    marks = parse_json(row.attributes) if f'"{FAULT}"' in row.attributes else None
    return str(marks.get(FAULT, "")) if isinstance(marks, dict) else ""


class _Step:
    """One row, as lines."""

    def __init__(self, view: RunView, row: Event, depth: int, *, timed: bool) -> None:
        self.view, self.row = view, row
        self.timed = timed
        self.under_way = view.under_way(row)
        self.failed = bool(row.observation_is_error) or row.status == "error"
        self.stopped = row.policy_decision in _STOPPING
        self.writes = row.event_type in _CALLS and row.effect in ("write", "unknown")
        self.indent = _INDENT * min(depth, 20)

    def lines(self, *, full: bool, width: int) -> Iterator[str]:
        """Yield the line of the step, and those beneath it."""
        head = f"{self._margin()}{self._times()}"
        room = max(30, width - len(head) - len(self.indent) - 9)
        what = one_line(self._what(), room)
        yield self._styled(f"{head}{self.indent}{self._kind():<8} {what}")
        pad = " " * len(head) + self.indent + " " * 9
        for line in self._beneath(room):
            yield pad + line
        if full:
            yield from (pad + line for line in self._values())

    def _margin(self) -> str:
        if self.writes and (self.failed or self.stopped or self.under_way):
            return "!! "
        return "!  " if self.failed or self.stopped else "   "

    def _times(self) -> str:
        if not self.timed:
            return ""
        row, start = self.row, self.view.root.ts_start_ns
        known = row.ts_start_ns is not None and start is not None
        offset = f"+{duration_text(row.ts_start_ns - start)}" if known else ""  # type: ignore[operator]  # both known
        took = "under way" if self.under_way else duration_text(row.latency_ns)
        if row.event_type in ("message", "policy", "state", "error"):
            took = ""
        return f"{offset:>11} {took:>10}  "

    def _kind(self) -> str:
        row = self.row
        if row.event_type in _CALLS:
            return _EFFECTS[row.effect or "unknown"]
        if row.event_type == "message":
            return {"user": "user", "system": "system"}.get(row.actor_kind, "says")
        return _KINDS.get(row.event_type, row.event_type)

    def _what(self) -> str:
        row, view = self.row, self.view
        argument = view.value(row, "argument")
        match row.event_type:
            case "tool_call" | "retrieval":
                return tool_text(
                    row.tool_name or row.actor, argument, view.missing(row, "argument")
                )
            case "llm_call":
                why = view.missing(row, "argument")
                named = row.model or row.actor
                asked = tool_text(named, None, why) if why else request_text(named, argument)
                reply = reply_text(view.value(row, "observation"))
                return asked if self.failed or not reply else f"{asked} → {reply}"
            case "message":
                return value_text(view.value(row, "observation"))
            case "policy":
                return _policy_text(row)
            case "state":
                return f"{row.state_before} → {row.state_after}"
            case "error":
                return f"{row.error_type or 'error'}: {row.error_message or ''}"
            case _:
                return tool_text(row.actor, argument, None) if argument else row.actor

    def _beneath(self, room: int) -> Iterator[str]:
        row = self.row
        if self.stopped and row.event_type != "policy":
            yield click.style(one_line(_policy_text(row), room), fg="red", bold=True)
        elif row.policy_decision not in (None, "allow") and row.event_type != "policy":
            yield click.style(one_line(_policy_text(row), room), fg="yellow")
        if row.event_type not in ("message", "policy", "state", "error"):
            yield from self._came_back(room)
        notes = []
        if row.evidence_ids:
            notes.append("evidence " + ", ".join(row.evidence_ids))
        if row.rung is not None:
            notes.append(f"answered {row.rung}" + (", tainted" if row.tainted else ""))
        elif row.tainted:
            notes.append("tainted")
        if row.approval not in (None, "not_required"):
            notes.append(f"approval {row.approval}")
        if notes:
            yield click.style(one_line(" · ".join(notes), room), dim=True)
        if fault := _fault_of(row):
            yield click.style(one_line(fault, room), fg="yellow")

    def _came_back(self, room: int) -> Iterator[str]:
        row, view = self.row, self.view
        if self.under_way and self.writes:
            yield click.style("no end was recorded: it may have happened", fg="yellow")
        elif self.failed:
            told = error_text(row) or value_text(view.value(row, "observation") or "failed")
            if not (self.stopped and row.policy_reason and row.policy_reason in told):
                yield click.style("✗ " + one_line(told, room - 2), fg="red")
        elif why := view.missing(row, "observation"):
            yield click.style(f"→ ({why})", dim=True)
        elif row.event_type == "llm_call":
            if row.error_type is not None:  # of a client that could not read the reply
                yield click.style("✗ " + one_line(error_text(row) or "", room - 2), fg="red")
        elif row.observation_blob is not None:
            told = value_text(view.value(row, "observation"))
            yield "→ " + (one_line(told, room - 2) or "(empty)")

    def _values(self) -> Iterator[str]:
        row, view = self.row, self.view
        for side, digest in (
            ("argument", row.argument_blob),
            ("observation", row.observation_blob),
        ):
            if digest is None:
                continue
            value = view.value(row, side)  # type: ignore[arg-type]  # both sides are named above
            yield click.style(f"{side}:", dim=True)
            yield from (_INDENT + line for line in value_lines(value))

    def _styled(self, line: str) -> str:
        if self.writes and (self.failed or self.stopped):
            return click.style(line, fg="red", bold=True)
        if self.failed or self.stopped:
            return click.style(line, fg="red")
        if self.under_way:
            return click.style(line, fg="yellow")
        return click.style(line, bold=True) if self.writes else line


_DECISIONS = {
    "allow": "allowed", "deny": "DENIED", "modify": "modified", "ask": "asked for approval",
    "escalate": "escalated", "terminate": "TERMINATED",
}  # fmt: skip


def _policy_text(row: Event) -> str:
    told = _DECISIONS.get(row.policy_decision or "", row.policy_decision or "no decision")
    told += f" by {row.policy_id}" if row.policy_id else ""
    return told + (f": {row.policy_reason}" if row.policy_reason else "")


def _foot(view: RunView, *, full: bool, width: int) -> Iterator[str]:
    root = view.root
    whole = view.whole("observation")
    answer: JsonValue = view.value(whole, "observation")
    if root.status == "error":
        told = one_line(error_text(root) or "no reason recorded", width - 8)
        yield click.style(f"failed  {told}", fg="red", bold=True)
    if answer is not None:
        rows = [
            part
            for line in value_lines(answer)
            for part in (wrap(line, width - 8, subsequent_indent="  ") if not full else [line])
        ]
        shown = rows if full else rows[:_ANSWER_LINES]
        yield "answer  " + "\n        ".join(shown)
        if len(shown) < len(rows):
            yield f"        … {counted(len(rows) - len(shown), 'more line')}, with --full"
    elif why := view.missing(whole, "observation"):
        yield f"answer  ({why})"
    elif view.under_way(root):
        yield click.style("answer  none: the run was under way when the record stops", fg="yellow")
    else:
        yield click.style("answer  none recorded", dim=True)
    yield click.style(_counts(view), dim=True)


def _counts(view: RunView) -> str:
    row = run_row(view.rows)
    parts = [
        counted(row.events, "event"),
        counted(row.llm_calls, "model call"),
        counted(row.tool_calls, "tool call"),
        counted(row.writes, "write"),
        counted(row.errors, "error"),
        counted(row.refusals, "refusal"),
    ]
    if row.usage_input or row.usage_output:
        parts.append(f"{row.usage_input:,} + {row.usage_output:,} tokens")
    return " · ".join(parts)

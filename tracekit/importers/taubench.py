"""tau-bench result files: a JSON array of runs, each an OpenAI-style chat with a simulated user.

The log has no run id, times or model name; a run is named by its file, task and trial. An error is
a tool's text that starts with ``Error:``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tracekit.canonical import JsonValue, digest
from tracekit.events import Effect
from tracekit.importers.model import ImportedRun, ImportOptions
from tracekit.importers.names import make_run_id
from tracekit.importers.rows import build_run
from tracekit.importers.source import Source, read_source, text_or_none
from tracekit.importers.turns import AskedCall, Result, RunHead, Turn

_EXACT: dict[str, Effect] = {
    "calculate": "pure",
    "think": "pure",
    "send_certificate": "write",
    # A person takes over: the agent cannot take it back.
    "transfer_to_human_agents": "write",
}
_PREFIXES: dict[str, Effect] = {
    "get_": "read", "list_": "read", "search_": "read", "find_": "read",
    "book_": "write", "cancel_": "write", "update_": "write", "modify_": "write",
    "return_": "write", "exchange_": "write",
}  # fmt: skip
_STOP = "###STOP###"
_KNOWN = frozenset({"role", "content", "tool_calls", "tool_call_id", "name"})


class TauBench:
    """Reads tau-bench result files."""

    name = "tau-bench"

    def detect(self, path: Path, head: bytes) -> bool:
        """Tell from the first bytes whether the file may be such a result."""
        return (
            head.lstrip().startswith(b"[")
            and b'"task_id"' in head
            and (b'"traj"' in head or (b'"reward"' in head and b'"info"' in head))
        )

    def read(self, path: Path, data: bytes, options: ImportOptions) -> Iterator[ImportedRun]:
        """Yield the runs of the file; its shape is checked before the first one.

        Raises:
            ImportFormatError: it is no such result.
        """
        source = read_source(path, data)
        runs = [
            _run(source, record, f"/{number}", options)
            for number, record in enumerate(source.take_array(source.value, ""))
        ]
        for head, turns in runs:
            yield build_run(head, turns, options)


def _run(
    source: Source, record: object, ref: str, options: ImportOptions
) -> tuple[RunHead, list[Turn]]:
    fields = source.take_object(record, ref)
    if not isinstance(fields.get("task_id"), int | str) or "trial" not in fields:
        raise source.fault(ref, "there is no task_id and trial")
    messages = source.take_array(fields.get("traj"), f"{ref}/traj")
    turns = [_turn(source, message, f"{ref}/traj/{n}") for n, message in enumerate(messages)]
    return _head(source, fields, turns, ref, options), turns


def _head(
    source: Source, fields: dict[str, Any], turns: list[Turn], ref: str, options: ImportOptions
) -> RunHead:
    info = fields.get("info")
    info = info if isinstance(info, dict) else {}
    task, trial, file = map(
        options.without_secrets, (str(fields["task_id"]), str(fields["trial"]), source.path.stem)
    )
    expected = info.get("task")
    expected = expected if isinstance(expected, dict) else {}
    labels: dict[str, JsonValue] = {"reward": fields.get("reward"), "trial": fields["trial"]}
    labels["expected_actions"] = expected.get("actions")
    labels["ended_by"] = _ending(turns)
    rest = {k: v for k, v in fields.items() if k not in ("traj", "task_id", "trial", "reward")}
    return RunHead(
        run_id=make_run_id("tau-bench", file, [f"task-{task}", f"trial-{trial}"]),
        content=digest(fields),
        source_format="tau-bench",
        source_version=None,
        source_ref=options.without_secrets(source.path.name),
        agent="tau-bench",
        task_id=f"tau-bench/{task}",
        tags=("tau-bench", f"trial-{trial}"),
        labels=labels,
        attributes=rest | source.notes | ({"at": ref} if ref else {}),
        effects=_effects(turns),
    )


def _effects(turns: list[Turn]) -> Mapping[str, Effect]:
    named = {call.tool for turn in turns for call in turn.calls}
    return {tool: effect for tool in named if (effect := _effect(tool)) is not None}


def _effect(tool: str) -> Effect | None:
    if tool in _EXACT:
        return _EXACT[tool]
    return next((e for prefix, e in _PREFIXES.items() if tool.startswith(prefix)), None)


def _ending(turns: list[Turn]) -> str:
    """Name who ended the talk."""
    if not turns:
        return "nobody"
    last = turns[-1]
    if last.role == "user" and isinstance(last.content, str) and _STOP in last.content:
        return "user"
    return {"tool": "tool", "assistant": "agent"}.get(last.role, "cut off")


def _turn(source: Source, message: object, ref: str) -> Turn:
    fields = source.take_object(message, ref)
    role, content = fields.get("role"), fields.get("content")
    rest: dict[str, JsonValue] = {
        name: value for name, value in fields.items() if name not in _KNOWN and value is not None
    }
    match role:
        case "assistant":
            calls = source.take_array(fields.get("tool_calls") or [], f"{ref}/tool_calls")
            asked = tuple(
                _call(source, call, f"{ref}/tool_calls/{n}") for n, call in enumerate(calls)
            )
            return Turn("assistant", content, ref, calls=asked, attributes=rest)
        case "tool":
            failed = isinstance(content, str) and content.startswith("Error:")
            result = Result(
                call_id=text_or_none(fields.get("tool_call_id")),
                tool=text_or_none(fields.get("name")),
                error=content if failed else None,
            )
            return Turn("tool", content, ref, result=result, attributes=rest)
        case "system" | "user":
            return Turn(role, content, ref, attributes=rest)
        case _:
            raise source.fault(f"{ref}/role", f"{role!r} is none of system, user, assistant, tool")


def _call(source: Source, call: object, ref: str) -> AskedCall:
    fields = source.take_object(call, ref)
    function = source.take_object(fields.get("function"), f"{ref}/function")
    tool, arguments = function.get("name"), function.get("arguments")
    if not isinstance(tool, str):
        raise source.fault(f"{ref}/function/name", "it is no tool's name")
    return AskedCall(
        tool=tool,
        arguments=None if isinstance(arguments, str) else arguments,
        call_id=text_or_none(fields.get("id")),
        text=text_or_none(arguments),
    )

"""AgentDojo-style logs: AgentDojo and AgentDyn (``messages``), DRIFT (``conversations``).

One run a file. Which pipeline ran is told by the folder, since the name inside may be that of the
bare model; a file that was copied out of its folders is told apart by its content instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tracekit.canonical import JsonValue, digest
from tracekit.events import Effect
from tracekit.importers.model import ImportedRun, ImportOptions
from tracekit.importers.names import make_run_id, trailing_ref
from tracekit.importers.rows import build_run
from tracekit.importers.source import Source, read_source, text_or_none
from tracekit.importers.turns import AskedCall, Result, RunHead, Turn

_PERMISSIONS: dict[object, Effect] = {"Read": "read", "Write": "write", "Execute": "write"}
_DEFENCES = (
    "progent", "tool_filter", "drift", "camel", "transformers_pi_detector", "repeat_user_prompt",
)  # fmt: skip
_DENIED = re.compile(r"ValidationError: The tool '.*?' is not allowed\.", re.DOTALL)
_COLUMNS = frozenset({"messages", "conversations", "error", "evaluation_timestamp", "duration"})
_LABELS = (
    "suite_name", "user_task_id", "injection_task_id", "attack_type", "injections", "utility",
    "security",
)  # fmt: skip


class AgentDojo:
    """Reads AgentDojo, AgentDyn and DRIFT logs."""

    name = "agentdojo"

    def detect(self, path: Path, head: bytes) -> bool:
        """Tell from the first bytes whether the file may be such a log."""
        return (
            head.lstrip().startswith(b"{") and b'"suite_name"' in head and b'"user_task_id"' in head
        )

    def read(self, path: Path, data: bytes, options: ImportOptions) -> Iterator[ImportedRun]:
        """Yield the one run of the file.

        Raises:
            ImportFormatError: it is no such log.
        """
        source = read_source(path, data)
        document = source.take_object(source.value, "")
        drift = "conversations" in document
        key = "conversations" if drift else "messages"
        turns = [
            _turn(source, message, f"/{key}/{number}")
            for number, message in enumerate(source.take_array(document.get(key), f"/{key}"))
        ]
        yield build_run(_head(path, source, document, options), turns, options)


def _head(path: Path, source: Source, document: dict[str, Any], options: ImportOptions) -> RunHead:
    kind = "drift" if "conversations" in document else "agentdyn"
    suite, task, attack, injection = (
        str(document.get(name) or "none")
        for name in ("suite_name", "user_task_id", "attack_type", "injection_task_id")
    )
    pipeline, placed = _pipeline(path, kind, document, [suite, task, attack, f"{injection}.json"])
    suite, task, attack, injection, pipeline = map(
        options.without_secrets, (suite, task, attack, injection, pipeline)
    )
    attacked = (attack, injection) != ("none", "none")
    parts = [suite, task, *([attack, injection] if attacked else ["none"])]
    model, defence = _model_and_defence(pipeline, kind)
    started = _timestamp(document.get("evaluation_timestamp"))
    labels: dict[str, JsonValue] = {n: document.get(n) for n in _LABELS if n in document}
    labels |= {"pipeline": pipeline, "defence": defence}
    rest = {k: v for k, v in document.items() if k not in _COLUMNS and k not in _LABELS}
    rest |= source.notes | ({"timestamp_zone": "assumed UTC"} if started is not None else {})
    content = digest(source.value)
    return RunHead(
        run_id=make_run_id(kind, pipeline, parts, content=None if placed else content),
        content=content,
        source_format=kind,
        source_version=text_or_none(document.get("benchmark_version")),
        source_ref=options.without_secrets(
            trailing_ref(path, (5 if kind == "agentdyn" else 4) if placed else 1)
        ),
        agent=pipeline,
        model=model,
        task_id=f"{suite}/{task}",
        started_ns=started,
        latency_ns=_nanoseconds(document.get("duration")),
        error=text_or_none(document.get("error")),
        complete=document.get("utility") is not None,
        versions={"model": model} | ({"defence": defence} if defence else {}),
        tags=(suite, pipeline, "clean" if attack == "none" else "attacked"),
        labels=labels,
        attributes=rest,
        effects=_effects(document.get("tool_permission")),
    )


def _pipeline(
    path: Path, kind: str, document: dict[str, Any], below: list[str]
) -> tuple[str, bool]:
    """Find the pipeline, and whether the folders name the run."""
    named = str(document.get("pipeline_name") or "unknown")
    placed = list(path.parts[-4:]) == below
    if kind == "drift":
        return named, placed
    if placed and len(path.parts) >= 5 and path.parts[-5] not in ("/", ".", ".."):
        return path.parts[-5], True
    return named, False


def _model_and_defence(pipeline: str, kind: str) -> tuple[str, str | None]:
    for defence in _DEFENCES:
        for sign in "-+":
            if pipeline.endswith(sign + defence):
                return pipeline.removesuffix(sign + defence), defence
    return pipeline, "drift" if kind == "drift" else None


def _effects(permissions: object) -> dict[str, Effect]:
    if not isinstance(permissions, dict):
        return {}
    return {tool: _PERMISSIONS.get(said, "unknown") for tool, said in permissions.items()}


def _timestamp(text: object) -> int | None:
    """Read a time without a zone as UTC; only whole seconds are given."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp()) * 1_000_000_000


def _nanoseconds(seconds: object) -> int | None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    return round(seconds * 1_000_000_000) if 0 <= seconds < 1e9 else None


def _turn(source: Source, message: object, ref: str) -> Turn:
    fields = source.take_object(message, ref)
    role = fields.get("role")
    content, attributes = _content(fields.get("content"))
    error = text_or_none(fields.get("error"))
    match role:
        case "assistant":
            calls = source.take_array(fields.get("tool_calls") or [], f"{ref}/tool_calls")
            asked = tuple(
                _call(source, call, f"{ref}/tool_calls/{n}") for n, call in enumerate(calls)
            )
            return Turn("assistant", content, ref, calls=asked, attributes=attributes)
        case "tool":
            own = fields.get("tool_call")
            copy = _call(source, own, f"{ref}/tool_call") if own is not None else None
            result = Result(
                call_id=text_or_none(fields.get("tool_call_id")),
                tool=copy.tool if copy else None,
                arguments=copy.arguments if copy else None,
                error=error,
                denied=error is not None and _DENIED.match(error) is not None,
            )
            return Turn("tool", content, ref, result=result, attributes=attributes)
        case "system" | "user":
            return Turn(role, content, ref, error=error, attributes=attributes)
        case _:
            raise source.fault(f"{ref}/role", f"{role!r} is none of system, user, assistant, tool")


def _call(source: Source, call: object, ref: str) -> AskedCall:
    fields = source.take_object(call, ref)
    tool = fields.get("function")
    if not isinstance(tool, str):
        raise source.fault(f"{ref}/function", "it is no tool's name")
    rest = {
        name: value
        for name, value in fields.items()
        if name not in ("function", "args", "id") and value is not None
    }
    arguments = fields.get("args")
    return AskedCall(
        tool=tool,
        arguments={} if arguments is None else arguments,
        call_id=text_or_none(fields.get("id")),
        attributes=rest,
    )


def _content(content: JsonValue) -> tuple[JsonValue, dict[str, JsonValue]]:
    """Give the one text of a message; parts that are more than that stay as they are."""
    if not isinstance(content, list):
        return content, {}
    only = content[0] if len(content) == 1 else None
    if isinstance(only, dict) and set(only) == {"type", "content"} and only["type"] == "text":
        text = only["content"]
        if isinstance(text, str):
            return text, {"content_form": "parts"}
    return content, {"content_form": "parts"}

"""Logs to import, made and recorded, and ways to look at what became of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tracekit.assembly import build
from tracekit.events import Event
from tracekit.importers import ImportOptions, import_paths
from tracekit.store import Store
from tracekit.trajectory import Trajectory

TRACES = Path(__file__).parents[2] / "fixtures" / "traces"
AGENTDYN = TRACES / "agentdyn"
TAU = TRACES / "tau-bench"
ATTACK = "github/user_task_0/important_instructions/injection_task_0.json"


def imported(store: Store, path: Path, options: ImportOptions | None = None) -> list[Event]:
    """Import one file with one run and give its rows."""
    summary = import_paths([path], store, options)
    summary.raise_for_rejected()
    assert summary.runs == 1
    return store.events(store.runs()[0].run_id)


def value(store: Store, digest: str | None) -> Any:
    assert digest is not None
    blob = store.blob(digest)
    assert blob is not None
    text = blob.data.decode()
    return json.loads(text) if blob.media_type == "application/json" else text


def data(store: Store, digest: str | None) -> bytes:
    blob = store.blob(digest or "")
    assert blob is not None
    return blob.data


def attributes(rows: list[Event]) -> Any:
    return json.loads(rows[0].attributes)


def trajectory(store: Store, rows: list[Event]) -> Trajectory:
    return build(rows, store.blob)


def write_log(folder: Path, log: dict[str, Any], name: str = "none.json") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(log), encoding="utf-8")
    return path


def log_of(*messages: dict[str, Any], **header: Any) -> dict[str, Any]:
    return {
        "suite_name": "github",
        "pipeline_name": "m-1",
        "user_task_id": "user_task_0",
        "injection_task_id": None,
        "attack_type": None,
        "injections": {},
        "messages": list(messages),
        "error": None,
        "utility": True,
        "security": True,
    } | header


def asks(*calls: tuple[str, str | None, dict[str, Any]], content: Any = None) -> dict[str, Any]:
    made = [{"function": tool, "id": call_id, "args": args} for tool, call_id, args in calls]
    return {"role": "assistant", "content": content, "tool_calls": made}


def returns(
    tool: str, call_id: str | None, content: Any, args: dict[str, Any], error: str | None = None
) -> dict[str, Any]:
    copy = {"function": tool, "args": args, "id": call_id}
    return {
        "role": "tool",
        "content": content,
        "tool_call_id": call_id,
        "tool_call": copy,
        "error": error,
    }


SAYS_HELLO = {"role": "user", "content": "hello"}

"""Recorded runs as the general planners meet them, and a loop that feeds them observations."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracekit.importers.effects import effect_of, load_effects

Planner = Callable[[list[Any], list[Any], list[Any]], "dict[str, Any] | None"]
Rewrite = Callable[[str], str]


@dataclass(frozen=True)
class Recorded:
    """One run of a log in AgentDojo's form."""

    name: str
    opening: list[dict[str, Any]]
    """System prompt and the user's first turn."""
    script: list[dict[str, Any]]
    observations: Mapping[str, list[dict[str, Any]]]
    """What each call came back with, in order, by tool and arguments."""
    log: dict[str, Any]
    tools: list[dict[str, Any]]
    """What the planner is told of each tool: its effect, as an import tells it."""

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [call for decision in self.script for call in decision["calls"]]

    @property
    def user(self) -> str:
        return str(next(m["content"] for m in self.opening if m["role"] == "user"))

    @property
    def shown(self) -> str:
        return "\n".join(str(m["content"]) for seen in self.observations.values() for m in seen)


def read(path: Path, *, root: Path) -> Recorded:
    log = json.loads(path.read_bytes())
    messages = log.get("messages") or log.get("conversations") or []
    opening: list[dict[str, Any]] = []
    script: list[dict[str, Any]] = []
    observations: dict[str, list[dict[str, Any]]] = {}
    for message in messages:
        text = _text(message.get("content"))
        if message["role"] == "assistant":
            calls = [
                {"tool": call["function"], "arguments": call["args"]}
                for call in message.get("tool_calls") or ()
            ]
            script.append({"calls": calls, "message": text})
        elif message["role"] == "tool" and message.get("tool_call"):
            asked = message["tool_call"]
            seen = {"content": text or "", "error": message.get("error")}
            observations.setdefault(key(asked["function"], asked["args"]), []).append(seen)
        elif not script:
            opening.append({"role": message["role"], "content": text or ""})
    return Recorded(
        str(path.relative_to(root)), opening, script, observations, log, _tools(log, script)
    )


def _tools(log: dict[str, Any], script: list[dict[str, Any]]) -> list[dict[str, Any]]:
    effects = load_effects("agentdyn")
    permitted = log.get("tool_permission") or {}
    names = sorted({call["tool"] for decision in script for call in decision["calls"]})
    return [
        {
            "name": name,
            "effect": "read" if permitted.get(name) == "Read" else effect_of(name, effects),
        }
        for name in names
    ]


def _text(content: object) -> str | None:
    if isinstance(content, list):
        content = "\n".join(str(part.get("content") or "") for part in content)
    return str(content) if content else None


def key(tool: str, arguments: object) -> str:
    return json.dumps([tool, arguments], sort_keys=True)


def play(
    planner: Planner,
    run: Recorded,
    *,
    rewrite: Rewrite = str,
    script: list[dict[str, Any]] | None = None,
) -> tuple[list[dict[str, Any]], Any]:
    """Run the planner on recorded observations; give the calls it makes, and its answer."""
    script = run.script if script is None else script
    history: list[dict[str, Any]] = [dict(message) for message in run.opening]
    left = {name: list(seen) for name, seen in run.observations.items()}
    made: list[dict[str, Any]] = []
    for turn in range(len(script) + 1):
        decision = planner(history, run.tools, script)
        if decision is None or "answer" in decision:
            return made, (decision or {}).get("answer")
        spoken = [
            {"id": f"call_{turn}_{place}", "name": call["tool"], "arguments": call["arguments"]}
            for place, call in enumerate(decision["calls"])
        ]
        history.append({"role": "assistant", "content": decision["message"], "tool_calls": spoken})
        for call in spoken:
            seen = left.get(key(call["name"], call["arguments"])) or []
            found = seen.pop(0) if seen else {"content": "", "error": "not in the recording"}
            message = {"role": "tool", "tool_call_id": call["id"], "name": call["name"]}
            message["content"] = rewrite(found["content"])
            if found["error"]:
                message["error"] = found["error"]
            history.append(message)
        made += decision["calls"]
    raise AssertionError(f"{run.name}: the planner did not stop")

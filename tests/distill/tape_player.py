"""A planner that makes the decisions of a recorded run, as far as it is shown what they rest on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tracekit import jsontree
from tracekit.canonical import JsonValue, json_text
from tracekit.trajectory import Trajectory

Json = Mapping[str, Any]
_SHORTEST = 3
"""Signs of a value that is looked for: shorter ones stand everywhere by chance."""


def values_of(arguments: JsonValue) -> Iterator[str]:
    """Yield the telling values of a call, as JSON has them inside a text."""
    for _, value in jsontree.walk(arguments):
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            text = json_text(value).strip('"')
            if len(text) >= _SHORTEST:
                yield text


def flowed(run: Trajectory) -> dict[str, frozenset[str]]:
    """Call → its values that the run was shown before: it rests on them."""
    found: dict[str, frozenset[str]] = {}
    shown = ""
    for decision in run.decisions:
        said = [m.content for m in run.messages if m.before_decision == decision.index]
        shown += "\n".join(map(json_text, said))
        for call in decision.calls:
            values = frozenset(v for v in values_of(call.arguments) if v in shown)
            found.setdefault(key(call.tool, call.arguments), values)
        shown += "\n".join(json_text(call.observation.value) for call in decision.calls)
    return found


def key(tool: str, arguments: JsonValue) -> str:
    """What makes two calls the same one."""
    return f"{tool} {json_text(arguments)}"


def player_of(run: Trajectory) -> Callable[..., Any]:
    """A planner that replays the decisions it is given, each call once it is shown its values."""
    known = flowed(run)

    def plays(history: Sequence[Json], tools: Sequence[Json], script: Sequence[Json]) -> Any:
        shown = "\n".join(json_text(m.get("content")) for m in history if m["role"] != "assistant")
        turns = [m for m in history if m["role"] == "assistant"]
        done = [(c["name"], c["arguments"]) for m in turns for c in m.get("tool_calls") or ()]
        said = sum(not m.get("tool_calls") for m in turns)
        for decision in script:
            if not decision["calls"]:
                if said:
                    said -= 1
                    continue
                return {"answer": decision["message"] or "done"}
            wanted = [
                call
                for call in decision["calls"]
                if (call["tool"], call["arguments"]) not in done
                and all(v in shown for v in known[key(call["tool"], call["arguments"])])
            ]
            if wanted:
                return {"calls": wanted}
        return {"answer": "done"}

    return plays

"""What runs are sorted by: where they come from, what they did, and any label or tag.

A label, a version and a tag of the form ``name:value`` or ``name=value`` are all a bucket by their
name, so that ``difficulty`` or ``language`` is found wherever it was put.
"""

from __future__ import annotations

from collections.abc import Mapping

from replay.metrics.gold import attack, labels_of
from tracekit.canonical import JsonValue, canonical_text, json_text
from tracekit.events import Effect
from tracekit.trajectory import Trajectory

NONE = "(none)"
"""The bucket of runs that do not say."""
FIXED = ("source", "agent", "task", "status", "tool", "risk", "tag", "planner")
"""What every run may be sorted by; anything else is a name of its labels, versions or tags."""
_RISKIEST_FIRST: tuple[Effect, ...] = ("unknown", "write", "read", "pure")
_LONGEST = 80
"""Labels that are longer are texts, and no buckets."""


def buckets_of(run: Trajectory) -> Mapping[str, tuple[str, ...]]:
    """Name the buckets of a run; in those by tool and by tag it is several times."""
    effects = {call.effect for call in run.calls}
    planner = run.attributes.get("planner")
    fixed = {
        "source": (run.source_format,),
        "agent": (run.agent,) if run.agent else (),
        "task": (run.task_id,) if run.task_id else (),
        "status": (run.status,),
        "tool": tuple(sorted({call.tool for call in run.calls})),
        "risk": tuple(one for one in _RISKIEST_FIRST if one in effects)[:1],
        "tag": tuple(dict.fromkeys(run.tags)),
        "planner": (planner,) if isinstance(planner, str) else (),
    }
    return {**_named(run), **{name: found for name, found in fixed.items() if found}}


def attempt_of(run: Trajectory) -> tuple[str, ...]:
    """Name what a run tried, so that those that tried the same are found; empty without a task."""
    if run.task_id is None:
        return ()
    attacked_by = canonical_text(attack(run))
    return (run.agent, canonical_text(dict(run.versions)), run.task_id, attacked_by)


def _named(run: Trajectory) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for tag in run.tags:
        for sign in ":=":
            name, there, value = tag.partition(sign)
            if there and name and value:
                found[name] = (*found.get(name, ()), value)
                break
    found |= {name: (version,) for name, version in run.versions.items()}
    labels = {name: _text(value) for name, value in labels_of(run).items()}
    return found | {name: (text,) for name, text in labels.items() if text}


def _text(value: JsonValue) -> str:
    if value is None or isinstance(value, dict | list):
        return ""
    text = value if isinstance(value, str) else json_text(value)
    return text if len(text) <= _LONGEST else ""

"""What counts as a sample: a run in which something was left to chance anew.

Ten replays that are answered from one record are one sample, seen ten times; an interval over them
would shrink for nothing. Runs count once that

- are replays of one run, or that run itself, with the same trajectory, where no model and no tool
  was asked anew (all answers came from the record, or from a script);
- have the same trajectory and got the very same model replies, by the ids that the provider gave
  them: those came from a cache;
- have the same trajectory and asked for it with the same prompts and the same ``seed``.

A cache that gives every copy a new id is not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tracekit.assembly import trajectory_digest
from tracekit.canonical import JsonValue, canonical_text, digest
from tracekit.trajectory import ModelCall, Trajectory

_ASKED_ANEW = frozenset({"live", "sandbox"})


@dataclass(frozen=True, slots=True)
class Sample:
    """What of a run tells whether it repeats another."""

    run_id: str
    trajectory: str
    """Digest of what the planner did and saw."""
    replay_of: str | None = None
    fresh: bool = True
    """Whether a model or a tool was asked anew, or the run is no replay."""
    replies: str | None = None
    """Digest of the ids of all model replies; None where one has none, or two have the same."""
    seeds: str | None = None
    """Digest of all prompts and their seeds; None where one has none."""

    @classmethod
    def of(cls, run: Trajectory) -> Sample:
        """Take what matters of a run."""
        rungs = {call.rung for call in run.model_calls} | {call.rung for call in run.calls}
        return cls(
            run_id=run.run_id,
            trajectory=trajectory_digest(run),
            replay_of=run.replay_of,
            fresh=run.replay_of is None or not rungs.isdisjoint(_ASKED_ANEW),
            replies=_all(run.model_calls, _reply_id, told_apart=True),
            seeds=_all(run.model_calls, _seeded),
        )


@dataclass(frozen=True, slots=True)
class Effective:
    """The samples among some runs."""

    kept: tuple[str, ...]
    """Run ids, the first of each sample, in the order given."""
    repeats: Mapping[str, str]
    """Run id → the kept run that it repeats."""

    @property
    def n(self) -> int:
        """How many samples there are."""
        return len(self.kept)

    @property
    def runs(self) -> int:
        """How many runs there were."""
        return len(self.kept) + len(self.repeats)


def effective(samples: Iterable[Sample]) -> Effective:
    """Find the runs that count, and those that only repeat one of them."""
    listed = list(samples)
    origins = {sample.run_id: sample.replay_of for sample in listed}
    kept: list[str] = []
    repeats: dict[str, str] = {}
    seen: dict[tuple[str, str, str], str] = {}
    for sample in listed:
        keys = [(kind, name, sample.trajectory) for kind, name in _names(sample, origins)]
        first = next((seen[key] for key in keys if key in seen), None)
        if first is None:
            kept.append(sample.run_id)
        else:
            repeats[sample.run_id] = first
        for key in keys:
            seen.setdefault(key, first or sample.run_id)
    return Effective(tuple(kept), repeats)


def _names(sample: Sample, origins: Mapping[str, str | None]) -> Iterable[tuple[str, str]]:
    if not sample.fresh or sample.replay_of is None:
        yield "origin", _origin(sample.run_id, sample.replay_of, origins)
    if sample.replies is not None:
        yield "replies", sample.replies
    if sample.seeds is not None:
        yield "seeds", sample.seeds


def _origin(run_id: str, replay_of: str | None, origins: Mapping[str, str | None]) -> str:
    passed = {run_id}
    while replay_of is not None and replay_of not in passed:
        passed.add(replay_of)
        run_id, replay_of = replay_of, origins.get(replay_of)
    return run_id


def _all(
    calls: tuple[ModelCall, ...],
    part: Callable[[ModelCall], JsonValue],
    *,
    told_apart: bool = False,
) -> str | None:
    """Digest a part of every call; None where one lacks it, or they should differ and do not."""
    found = [part(call) for call in calls]
    if not found or any(one is None for one in found):
        return None
    if told_apart and len(set(map(canonical_text, found))) < len(found):
        return None
    return digest(found)


def _reply_id(call: ModelCall) -> JsonValue:
    value = call.reply.value
    named = value.get("id") if isinstance(value, dict) else None
    return named if isinstance(named, str) and named else None


def _seeded(call: ModelCall) -> JsonValue:
    seed = call.prompt.get("seed") if isinstance(call.prompt, dict) else None
    return None if seed is None or call.prompt_hash is None else [call.prompt_hash, seed]

"""Which recording a replay replayed, or a case was made of: what it did, beside its id.

An id says which run is meant, and not what it did: a run that was recorded or imported anew under
its id is another one, of which an earlier verdict says nothing.
"""

from __future__ import annotations

from replay.diff.content import content_digest, of_call
from tracekit.canonical import JsonValue, digest, numbers_as_compared
from tracekit.trajectory import Trajectory

RECORDING = "recording"
"""Name of the two digests in what a replay says of itself, its ``fidelity``."""
_SHORT = 12
"""So many signs of a digest stand in a file that people read."""


def digests_of(recorded: Trajectory) -> dict[str, JsonValue]:
    """Name what a run did, and what else a planner is answered with when it is replayed."""
    return {"content": content_digest(recorded), "answers": _answers_digest(recorded)}


def told_by(fidelity: JsonValue) -> dict[str, JsonValue] | None:
    """Read the digests of its recording from what a replay says; None where it is an older one."""
    said = fidelity.get(RECORDING) if isinstance(fidelity, dict) else None
    return said if isinstance(said, dict) else None


def short_digest(run: Trajectory) -> str:
    """Name what a run did, short enough for a file that people read."""
    return _shortened(content_digest(run))


def short_digest_replayed(replay: Trajectory) -> str | None:
    """Name what the recording of a replay did; None where the replay does not say."""
    said = told_by(replay.attributes.get("fidelity"))
    return None if said is None else _shortened(str(said.get("content")))


def may_replay(run: Trajectory, recorded: Trajectory) -> bool:
    """Whether ``run`` is no replay of what stood under the id of ``recorded`` before it.

    Of a run that is no replay, or does not say what it replayed, that is not known.
    """
    said = told_by(run.attributes.get("fidelity")) if run.replay_of == recorded.run_id else None
    return said is None or said.get("content") == content_digest(recorded)


def _shortened(name: str) -> str:
    return name.removeprefix("sha256:")[:_SHORT]


def _answers_digest(run: Trajectory) -> str:
    models: list[JsonValue] = [
        [m.name, m.model, m.prompt_hash, m.reply.state, m.reply.digest_form, dict(m.reply.types)]
        for m in run.model_calls
    ]
    minted: list[JsonValue] = [[m.kind, m.site, m.occurrence, m.value] for m in run.mints]
    told: list[JsonValue] = [
        contract.model_dump(mode="json", exclude_defaults=True) for contract in run.tools
    ]
    beneath = [of_call(call) for call in run.covered]
    return digest(numbers_as_compared([run.ts_start_ns, models, minted, told, beneath]))

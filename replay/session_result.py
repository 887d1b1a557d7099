"""What one run of a planner came to, as a value."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from replay.answering import Answered, Endless, Reached, Stopped
from replay.isolation import Exit
from replay.lingering import describe_left
from replay.scribe import Scribe
from tracekit.assembly import build
from tracekit.events import FACT, Blob, Fact
from tracekit.rows import rows_from_facts
from tracekit.trajectory import Trajectory


@dataclass(frozen=True)
class SessionResult:
    """What one run of a planner came to."""

    exit: Exit
    stopped: str | None
    """Why the session was ended from our side; None where the planner came to its own end."""
    answered: tuple[Answered, ...]
    findings: tuple[dict[str, Any], ...]
    """What the walls refused."""
    facts: tuple[Fact | bytes, ...] = field(repr=False)
    """What was recorded of it; see ``replay.ledger``."""
    texts: Mapping[str, bytes] = field(repr=False)
    """Digest → the text of a blob of it."""
    endless: bool = False
    """Whether it was ended because the planner never stopped."""
    reached: bool = False
    """Whether it was ended because the user wanted no more."""

    @property
    def unfinished(self) -> str | None:
        """What the planner had begun that was still under way when it ended, or not sent in."""
        told = self.exit.result or {}
        left = [describe_left(told["left"])] if "left" in told else []
        return "; ".join([*left, *told.get("unsent", ())]) or None

    @cached_property
    def trajectory(self) -> Trajectory | None:
        """What it did and saw; None where the planner did not even begin."""
        return trajectory_of(self.facts, self.texts) if self.facts else None


def result_of(
    ended: Exit,
    stopped: Stopped | None,
    scribe: Scribe,
    *,
    answered: Sequence[Answered],
    findings: Sequence[dict[str, Any]],
) -> SessionResult:
    """Put together what one run came to, once it is over."""
    scribe.ledger.flush()
    facts = list(scribe.ledger.facts)
    if scribe.end_fact is not None:
        facts.append(scribe.end_fact)
    return SessionResult(
        exit=ended,
        stopped=None if stopped is None else str(stopped),
        answered=tuple(answered),
        findings=tuple(findings),
        facts=tuple(facts),
        texts=scribe.ledger.texts,
        endless=isinstance(stopped, Endless),
        reached=isinstance(stopped, Reached),
    )


def trajectory_of(facts: Iterable[Fact | bytes], texts: Mapping[str, bytes]) -> Trajectory:
    """Build the trajectory of what was recorded of one run."""

    def load(digest: str) -> Blob | None:
        data = texts.get(digest)
        return None if data is None else Blob(digest, "application/json", data)

    with _nothing_collected():
        made = (FACT.validate_json(f) if isinstance(f, bytes) else f for f in facts)
        return build(rows_from_facts(made), load)


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Make many objects, of which none is garbage, without looking for garbage among them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()

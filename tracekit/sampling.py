"""Which runs are kept when a journal goes into the store, and what that is decided by.

Everything is journalled; whoever moves a journal drops then. The one idea: whether a run is kept by
the rate follows from its trace id alone, so that any process decides the same, and a trace is kept
or dropped as a whole. What a run did (it failed, it wrote) keeps it in any case. Pure: facts in,
values out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Self

from tracekit.canonical import JsonValue, digest_bytes
from tracekit.errors import UsageError
from tracekit.events import (
    Fact,
    LlmCallEnded,
    LossNoted,
    PolicyNoted,
    RetrievalBegun,
    RunBegun,
    RunEnded,
    ToolCallBegun,
    ToolCallEnded,
)

KEEP_IF = ("error", "policy", "write", "loss")
"""What keeps a run where nobody says otherwise."""
_FORMS = "error, policy, write, loss, slow>30s, tokens>50000 or tag:NAME"
_UNITS_NS = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_SLOW = re.compile(r"slow\s*>\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h)")
_TOKENS = re.compile(r"tokens\s*>\s*(\d+)")
_TAG = re.compile(r"tag:(.+)", re.DOTALL)
_REFUSED = ("deny", "terminate")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How many runs are kept when journals go into the store, and which in any case.

    Raises:
        UsageError: the rate is no share, or a condition is not known.
    """

    rate: float = 1.0
    """The share of traces that are kept whatever happened in them: from 0 to 1."""
    keep_if: tuple[str, ...] = KEEP_IF
    """A run is kept as well if any of these holds: ``error`` (a step failed, or the process was
    killed), ``policy`` (a call was refused), ``write`` (a tool was called that writes, or whose
    effect nobody declared), ``loss`` (events were lost), ``slow>30s``, ``tokens>50000``,
    ``tag:NAME``."""

    def __post_init__(self) -> None:
        if isinstance(self.rate, bool) or not isinstance(self.rate, (int, float)):
            raise UsageError(f"rate={self.rate!r} is no number", hint="give a share, 0 to 1")
        if not 0 <= self.rate <= 1:
            raise UsageError(f"rate={self.rate!r} is no share", hint="give a number from 0 to 1")
        wanted: object = self.keep_if
        if isinstance(wanted, str):
            raise UsageError(f"keep_if={wanted!r} is one text", hint=f"give a tuple of: {_FORMS}")
        object.__setattr__(self, "keep_if", tuple(self.keep_if))
        for condition in self.keep_if:
            check_condition(condition)

    @property
    def keeps_all(self) -> bool:
        """Whether no run is ever dropped."""
        return self.rate >= 1

    def as_dict(self) -> dict[str, JsonValue]:
        """Give it as it stands in the first line of a journal."""
        return {"rate": self.rate, "keep_if": list(self.keep_if)}

    @classmethod
    def read(cls, said: Any) -> Self:
        """Read what a journal says; what this version does not understand keeps every run."""
        try:
            return cls(rate=said["rate"], keep_if=tuple(said["keep_if"]))
        except (TypeError, KeyError, UsageError):
            return cls()

    def joined(self, other: Sampling) -> Sampling:
        """Keep what either keeps."""
        more = tuple(one for one in other.keep_if if one not in self.keep_if)
        return Sampling(rate=max(self.rate, other.rate), keep_if=self.keep_if + more)

    def by_chance(self, trace_id: str) -> bool:
        """Tell whether a trace is among the share that is kept; the same in every process."""
        if self.rate >= 1:
            return True
        drawn = digest_bytes(f"tracekit/sampling/v1\n{trace_id}".encode("utf-8", "replace"))
        return int(drawn.removeprefix("sha256:")[:13], 16) / 16**13 < self.rate


def check_condition(condition: object) -> None:
    """Refuse what is no condition.

    Raises:
        UsageError: it is not known; the error names those that are.
    """
    known = isinstance(condition, str) and (
        condition in KEEP_IF or any(form.fullmatch(condition) for form in (_SLOW, _TOKENS, _TAG))
    )
    if not known:
        raise UsageError(f"{condition!r} is no condition to keep a run by", hint=f"give {_FORMS}")


KEEP_ALL = Sampling()


@dataclass(slots=True)
class Signs:
    """What some of the facts of one run say about it."""

    trace_id: str
    sampling: Sampling
    parent_run_id: str | None = None
    rooted: bool = False
    """Whether the run's own begin is among them."""
    seen: set[str] = field(default_factory=set)
    """Those of ``KEEP_IF`` that hold."""
    tags: set[str] = field(default_factory=set)
    tokens: int = 0
    begun_ns: int | None = None
    ended_ns: int | None = None
    under_way: set[tuple[str, str, str]] = field(default_factory=set)
    """Writer, span and kind of what began, and has not ended here."""
    ended: set[tuple[str, str, str]] = field(default_factory=set)
    """The same of what ended, and did not begin here."""

    def note(self, fact: Fact) -> None:
        """Take in one more fact."""
        kind, _, half = fact.fact.partition(".")
        if half == "begun":
            self.under_way.add((fact.writer, fact.span_id, kind))
        elif half == "ended":
            operation = (fact.writer, fact.span_id, kind)
            if operation in self.under_way:
                self.under_way.remove(operation)
            else:
                self.ended.add(operation)
            if getattr(fact, "status", None) == "error":
                self.seen.add("error")
        self._note_kind(fact)

    def _note_kind(self, fact: Fact) -> None:
        match fact:
            case RunBegun():
                self.rooted, self.begun_ns = True, fact.timestamp_ns
                self.parent_run_id = fact.parent_run_id
                self.tags.update(fact.tags)
            case RunEnded():
                self.ended_ns = fact.timestamp_ns
            case ToolCallBegun():
                if not isinstance(fact, RetrievalBegun) and fact.effect in ("write", "unknown"):
                    self.seen.add("write")
            case ToolCallEnded():
                if fact.observation_is_error:
                    self.seen.add("error")
                if fact.policy_decision in _REFUSED:
                    self.seen.add("policy")
            case LlmCallEnded():
                self.tokens += (fact.usage_input or 0) + (fact.usage_output or 0)
            case PolicyNoted():
                if fact.decision in _REFUSED:
                    self.seen.add("policy")
            case LossNoted():
                self.seen.add("loss")
            case _:
                pass

    def joined(self, other: Signs) -> Signs:
        """Say of the facts of both what these say of theirs."""
        return Signs(
            trace_id=self.trace_id,
            sampling=self.sampling.joined(other.sampling),
            parent_run_id=self.parent_run_id or other.parent_run_id,
            rooted=self.rooted or other.rooted,
            seen=self.seen | other.seen,
            tags=self.tags | other.tags,
            tokens=self.tokens + other.tokens,
            begun_ns=other.begun_ns if self.begun_ns is None else self.begun_ns,
            ended_ns=other.ended_ns if self.ended_ns is None else self.ended_ns,
            under_way=(self.under_way - other.ended) | (other.under_way - self.ended),
            ended=(self.ended - other.under_way) | (other.ended - self.under_way),
        )

    def keep(self, sampling: Sampling) -> bool:
        """Tell whether the run is kept for what it did."""
        return any(self._holds(condition) for condition in sampling.keep_if)

    def _holds(self, condition: str) -> bool:
        if condition in KEEP_IF:
            return condition in self.seen
        if tag := _TAG.fullmatch(condition):
            return tag[1] in self.tags
        if tokens := _TOKENS.fullmatch(condition):
            return self.tokens > int(tokens[1])
        slow = _SLOW.fullmatch(condition)
        if slow is None or self.begun_ns is None or self.ended_ns is None:
            return False
        return self.ended_ns - self.begun_ns > math.floor(float(slow[1]) * _UNITS_NS[slow[2]])


def signs_of(facts: Iterable[Fact], sampling: Sampling | None) -> dict[str, Signs]:
    """Say of each run in some facts of one journal what they say about it."""
    found: dict[str, Signs] = {}
    for fact in facts:
        signs = found.get(fact.run_id)
        if signs is None:
            signs = found[fact.run_id] = Signs(fact.trace_id, sampling or KEEP_ALL)
        signs.note(fact)
    return found


def with_killed(signs: Signs, going_on: Iterable[str]) -> Signs:
    """Count what has begun in a process that is gone, and has not ended, as an error."""
    alive = set(going_on)
    if all(writer in alive for writer, _, _ in signs.under_way):
        return signs
    return replace(signs, seen={*signs.seen, "error"})

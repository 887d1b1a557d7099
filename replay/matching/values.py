"""What is asked of a tape, under which policies, and what is answered. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from tracekit.canonical import JsonValue, as_compared
from tracekit.contract import Contract
from tracekit.errors import UsageError
from tracekit.events import Effect, Rung
from tracekit.jsontree import Difference
from tracekit.trajectory import Observation

Unmatched = Literal["error", "stop", "nearest", "simulate", "live", "sandbox"]
UNMATCHED: tuple[Unmatched, ...] = get_args(Unmatched)
StalePolicy = Literal["serve", "error"]
STALE: tuple[StalePolicy, ...] = get_args(StalePolicy)


@dataclass(frozen=True, slots=True)
class AskedCall:
    """A tool call that the planner under test makes."""

    tool: str
    arguments: Mapping[str, JsonValue]
    """Bound to the signature of the tool as it is now, defaults filled in."""
    effect: Effect
    contract: Contract | None = None
    path: tuple[str, ...] = ()
    span_id: str = ""
    under: str | None = None
    """Span id of the asked call around it whose body is really running (live, sandbox)."""
    types: Mapping[str, JsonValue] = field(default_factory=dict)
    """Type marks of the arguments."""
    described: tuple[str, ...] = ()
    """The parts of the arguments that could not be kept: nothing is known to equal them."""
    digest: str | None = None
    """Of ``arguments``, where that is known."""
    key: str | None = ""
    """The idempotency key that its tool computed, if it did; None where nobody says."""
    call_id: str | None = None
    """The id under which a model asked for it, where that is known."""

    @property
    def declared(self) -> Contract | None:
        """What the planner's code declares; nothing where it only decides."""
        return None if self.key is None else self.contract

    @property
    def name(self) -> str:
        """That of the tool."""
        return self.tool

    @property
    def compared(self) -> Mapping[str, JsonValue]:
        """The arguments as the record's are compared with them."""
        whole = as_compared(dict(self.arguments), self.types) if self.types else self.arguments
        assert isinstance(whole, Mapping)
        return whole


@dataclass(frozen=True, slots=True)
class AskedPrompt:
    """A request that the planner under test sends to its model."""

    prompt: JsonValue
    prompt_hash: str | None = None
    name: str = ""
    path: tuple[str, ...] = ()
    span_id: str = ""
    model: str | None = None
    effect: Effect = "pure"
    """Of whoever asks a model; what it proposes is another call."""


@dataclass(frozen=True, slots=True)
class ArgumentMap:
    """A rename: what the record calls ``old_tool`` (and its argument) is asked as ``new_tool``."""

    old_tool: str
    new_tool: str
    old_pointer: str | None = None
    new_pointer: str | None = None

    def __str__(self) -> str:
        """Write it as on the command line."""
        old, new = (f":{at}" if at else "" for at in (self.old_pointer, self.new_pointer))
        return f"{self.old_tool}{old}={self.new_tool}{new}"


@dataclass(frozen=True, slots=True)
class Policies:
    """What a replay does with a call that the record does not hold, and how exactly it compares."""

    unmatched: Mapping[str, Unmatched] = field(default_factory=dict)
    """By tool, by effect, or ``*`` for all others; ``error`` where nothing is said."""
    stale: StalePolicy = "serve"
    similarity: float = 0.75
    """What ``nearest`` asks for at least; 1 is the same."""
    live: frozenset[str] = frozenset()
    """Tools that read and may really be called."""
    maps: tuple[ArgumentMap, ...] = ()
    ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Tool → JSON pointers of arguments that do not matter; for reads only."""
    windows: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Tool → JSON pointer → seconds by which a time may differ; for reads only."""
    exercise: bool = False
    """Whether a write bound to a sandbox runs there even where the record holds it."""
    learn: bool = False
    """Whether ids, times and tokens that stand at the same place may stand for each other; for
    reads and prompts only."""
    least: Mapping[str, float] = field(default_factory=dict)
    """``similarity`` by tool, by effect, or ``*``."""

    def __post_init__(self) -> None:
        for name, policy in self.unmatched.items():
            if policy not in UNMATCHED:
                raise UsageError(
                    f"policy {policy!r} for unmatched calls of {name!r} is not known",
                    hint=f"one of {', '.join(UNMATCHED)}",
                )
            if name in ("write", "unknown") and policy in ("nearest", "live"):
                raise UsageError(
                    f"policy {policy} is for reads: a write is never answered by it",
                    hint=f"for example {name}=error, {name}=stop, {name}=simulate",
                )
        if self.stale not in STALE:
            raise UsageError(
                f"policy {self.stale!r} for stale observations is not known",
                hint=f"one of {', '.join(STALE)}",
            )
        places = [*self.ignores.values(), *self.windows.values()]
        for pointer in (pointer for found in places for pointer in found):
            if not pointer.startswith("/"):
                raise UsageError(f"{pointer!r} is no JSON pointer", hint=f"write /{pointer}")
        for least in (self.similarity, *self.least.values()):
            if not 0 <= least <= 1:
                raise UsageError(f"similarity {least:g} is not between 0 and 1")

    def for_unmatched(self, tool: str, effect: Effect) -> Unmatched:
        """Return the policy that was asked for, the most specific first; allowed or not."""
        if tool in self.unmatched:
            return self.unmatched[tool]
        if tool in self.live and effect in ("pure", "read"):
            return "live"
        return self.unmatched.get(effect, self.unmatched.get("*", "error"))

    def least_similarity(self, tool: str, effect: Effect) -> float:
        """Return how alike the nearest call of ``tool`` must be."""
        known = (self.least[name] for name in (tool, effect, "*") if name in self.least)
        return next(known, self.similarity)


@dataclass(frozen=True, slots=True)
class Nearest:
    """The recorded call that comes closest to the asked one, and where the two differ."""

    event_id: str
    decision: int
    """Number of its decision; 0 where it was made beneath another tool call."""
    tool: str
    differences: tuple[Difference, ...]
    """``left`` is recorded, ``right`` is asked."""
    similarity: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What the record has to say to a call or a prompt."""

    rung: Rung
    observation: Observation | None
    """None for ``stop``, and where somebody else makes it: ``simulate``, ``live``, ``sandbox``."""
    tainted: bool = False
    """Whether what depends on it is no evidence. Taint is passed on by whoever runs the replay."""
    ambiguous: bool = False
    """The record held several equally good observations and they differ."""
    recorded: str | None = None
    """``event_id`` of the recorded call whose observation it is, or would have been."""
    explanation: str = ""
    nearest: Nearest | None = None
    left: int | None = None
    """Of a reply whose recorded reader went away: in how many pieces it was read (0: unknown)."""
    effect: Effect | None = None
    """What the call counts as; more than it was asked as where the record knows a write."""

"""What a chat log says, apart from how its format spells it: turns, calls, results.

Importers read their format into these; ``rows`` makes the events. Contents stay as the log has
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tracekit.canonical import JsonValue
from tracekit.events import Effect

Attributes = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class AskedCall:
    """A tool call that a turn of the model asks for."""

    tool: str
    arguments: JsonValue
    """The parsed arguments; where ``text`` is given, that is the source."""
    call_id: str | None = None
    text: str | None = None
    """The arguments as JSON text, where the log has them so."""
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """What came back for a call, with the log's own copy of the call where it has one."""

    call_id: str | None
    tool: str | None
    arguments: JsonValue = None
    error: str | None = None
    """The reason; None where the call succeeded as far as the log says."""
    denied: bool = False
    """Whether a policy kept the call from running."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of the log."""

    role: Literal["system", "user", "assistant", "tool"]
    content: JsonValue
    """Text, a list of parts where it is not just one text, or None where the log has none."""
    ref: str
    """JSON pointer of the message in its file."""
    calls: tuple[AskedCall, ...] = ()
    result: Result | None = None
    error: str | None = None
    """An error that the log attaches to a message which is no tool's."""
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHead:
    """What the log says about the run as a whole."""

    run_id: str
    content: str
    """Digest of what the log holds, so that another run of the same name is not taken for it."""
    source_format: str
    source_version: str | None
    source_ref: str
    agent: str
    model: str | None = None
    task_id: str | None = None
    started_ns: int | None = None
    latency_ns: int | None = None
    error: str | None = None
    complete: bool = True
    """False where the log itself shows that the run was interrupted."""
    versions: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    labels: Attributes = field(default_factory=dict)
    """Judgements and conditions of the run, for queries."""
    attributes: Attributes = field(default_factory=dict)
    effects: Mapping[str, Effect] = field(default_factory=dict)
    """What the trace itself says of its tools, by exact name."""

"""What an importer is, what it gives and what importing needs: small types, no behaviour.

Importers turn other people's traces into rows of our event model. They only read; what they give is
redacted already, and the ids in it depend on the trace alone, so that importing twice adds nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tracekit.errors import ImportFormatError
from tracekit.events import Blob, Effect, Event
from tracekit.redact import Redactor


class HasRows(Protocol):
    """The answer to a query."""

    @property
    def rows(self) -> Sequence[Sequence[object]]:
        """The rows, column by column."""


class RunStore(Protocol):
    """What importing asks of a store."""

    def append(self, batch: ImportedRun) -> int:
        """Keep ``batch``; all of it or, if it raises, nothing."""

    def known_runs(self, run_ids: Iterable[str]) -> set[str]:
        """Tell which of ``run_ids`` are kept already."""

    def sql(self, text: str) -> HasRows:
        """Answer one SELECT over the view ``runs``."""


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """Rows and the blobs behind them: one run, or several that are kept together."""

    events: tuple[Event, ...]
    blobs: tuple[Blob, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """What the user says about an import."""

    effects: Mapping[str, Effect] = field(default_factory=dict)
    """Tool name or glob → effect, for tools whose effect the trace does not tell."""
    format: str | None = None
    """Read every file as this format; None finds out by content."""
    tags: tuple[str, ...] = ()
    """Given to every imported run, beside the importer's own."""
    redactor: Redactor | None = None
    """Applied before anything is digested or stored."""

    def without_secrets(self, name: str) -> str:
        """Redact what names a run: it goes into ids, tags and columns."""
        return name if self.redactor is None else str(self.redactor.redact(name).value)


class Importer(Protocol):
    """Reads one foreign format."""

    name: str

    def detect(self, path: Path, head: bytes) -> bool:
        """Tell from the first bytes whether the file may be of this format."""

    def read(self, path: Path, data: bytes, options: ImportOptions) -> Iterator[ImportedRun]:
        """Yield the runs of one file.

        Raises:
            ImportFormatError: the file is not of this format after all.
        """


@dataclass(slots=True)
class ImportSummary:
    """What an import did; every file and run is accounted for."""

    runs: int = 0
    """Runs that were added."""
    skipped_known: int = 0
    """Runs that were there already."""
    events: int = 0
    tool_calls: int = 0
    """Calls that a turn of the model asked for."""
    results_without_call: int = 0
    """Tool results that no recorded turn asked for; kept as calls of their own."""
    tool_errors: int = 0
    policy_denials: int = 0
    runs_with_denials: int = 0
    sources: Counter[str] = field(default_factory=Counter)
    """Source format → runs added."""
    rejected: list[tuple[str, str]] = field(default_factory=list)
    """Files that the user named and that are no trace: path, reason."""
    files_not_recognised: list[tuple[str, str]] = field(default_factory=list)
    """Files found in a folder that are no trace: path, reason."""
    conflicts: list[tuple[str, str]] = field(default_factory=list)
    """Runs that were not added since another run, of other content, has their id: path, run id."""

    def raise_for_rejected(self) -> None:
        """Raise if a file that the user named could not be imported.

        Raises:
            ImportFormatError: names each such file and the reason.
        """
        if self.rejected:
            lines = [f"{path}: {reason}" for path, reason in self.rejected]
            raise ImportFormatError("\n".join(lines), hint="everything else was imported")

    def count(self, runs: Sequence[ImportedRun]) -> None:
        """Add what ``runs`` hold to the figures."""
        for run in runs:
            calls = [event for event in run.events if event.event_type == "tool_call"]
            asked = sum(call.llm_span_id is not None for call in calls)
            denials = sum(call.policy_decision == "deny" for call in calls)
            self.runs += 1
            self.events += len(run.events)
            self.tool_calls += asked
            self.results_without_call += len(calls) - asked
            self.tool_errors += sum(bool(call.observation_is_error) for call in calls)
            self.policy_denials += denials
            self.runs_with_denials += bool(denials)
            self.sources[run.events[0].source_format] += 1

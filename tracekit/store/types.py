"""What the store takes and gives: small frozen values, and the protocol that every store keeps.

Nothing here opens a file, so that importing the protocol costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from tracekit.events import Blob, Event, RunRow
from tracekit.trajectory import Trajectory


class Written(Protocol):
    """Rows and the blobs behind them, of any number of whole or partial runs."""

    @property
    def events(self) -> Sequence[Event]:
        """The rows, in any order."""

    @property
    def blobs(self) -> Sequence[Blob]:
        """The values that the rows name; those that are kept already may stand here again."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What is kept together: all of it, or nothing."""

    events: tuple[Event, ...] = ()
    blobs: tuple[Blob, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Which runs are meant; every condition that is given must hold."""

    since: datetime | None = None
    """Begun at this time or later; a run without a begin time does not count."""
    until: datetime | None = None
    """Begun before this time."""
    status: Literal["ok", "error", "open"] | None = None
    agent: str | None = None
    tool: str | None = None
    """A tool that the run called."""
    tag: str | None = None
    task: str | None = None
    source: str | None = None
    """Format that the run was imported from; ``tracekit`` for recorded ones."""
    replay_of: str | None = None
    failed: bool = False
    """Only runs that ended in an error, or in which a call failed or was refused."""
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """Damage that was met while reading: where, what it is, and what is lost by it."""

    path: str
    """Relative to the store."""
    what: str
    lost: str

    @property
    def in_a_journal(self) -> bool:
        """Whether it is one of what was recorded and could not be settled."""
        return self.path.startswith("journal/")

    def __str__(self) -> str:
        return f"{self.path}: {self.what}; lost: {self.lost}"


@dataclass(frozen=True, slots=True)
class Settled:
    """What settling did."""

    journals: int = 0
    """Journals that went into Parquet."""
    live: int = 0
    """Journals whose owner is alive; they were left alone."""
    events: int = 0
    """Rows that were added."""
    skipped: str | None = None
    """Why nothing was settled, where something could have been."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What compaction did."""

    batches_before: int
    batches_after: int
    removed_files: int
    """Left-overs of writers that were killed, and files of retired batches."""


@dataclass(frozen=True, slots=True)
class SqlResult:
    """The answer to a query."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What checking every digest of a store found."""

    runs: int
    events: int
    blobs: int
    digests_checked: int
    findings: tuple[str, ...]
    """One sentence each; empty where all is well."""

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def as_dict(self) -> dict[str, Any]:
        """Give the report as JSON values."""
        return {
            "sound": self.sound,
            "runs": self.runs,
            "events": self.events,
            "blobs": self.blobs,
            "digests_checked": self.digests_checked,
            "findings": list(self.findings),
        }


class Store(Protocol):
    """Where runs are kept. Append-only: there is no way to change what was written.

    Journals of recording processes and what was settled from them are read as one.
    """

    @property
    def path(self) -> Path:
        """Where it is."""

    @property
    def redaction_key_id(self) -> str | None:
        """The name of the key that the placeholders in it were made with, where one is known."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Damage met so far while reading; the rest was read."""

    def append(self, batch: Written) -> int:
        """Keep ``batch``; all of it or, if it raises, nothing. Return how many rows were new.

        Rows whose ``event_id`` and blobs whose digest are kept already are passed over.

        Raises:
            StoreError: it could not be written.
        """

    def runs(self, query: RunQuery = ...) -> list[RunRow]:
        """List the runs that ``query`` means, newest first."""

    def known_runs(self, run_ids: Iterable[str]) -> set[str]:
        """Tell which of ``run_ids`` have a run here."""

    def resolve(self, prefix: str) -> str:
        """Give the run id that ``prefix`` means.

        Raises:
            RunNotFound: it fits none, or several and none exactly; the error lists candidates.
        """

    def events(self, run_id: str) -> list[Event]:
        """Give the rows of one run, in order.

        Raises:
            RunNotFound: there is no such run.
        """

    def rows_of(self, run_ids: Iterable[str]) -> Mapping[str, list[Event]]:
        """Give the rows of many runs at once, each in order; runs that are not here are missing."""

    def blob(self, digest: str) -> Blob | None:
        """Find a blob; None where it is not kept."""

    def blobs(self, digests: Iterable[str]) -> Mapping[str, Blob]:
        """Find many blobs at once; those not kept are missing in the answer."""

    def trajectory(self, run_id: str) -> Trajectory:
        """Build the trajectory of one run.

        Raises:
            RunNotFound: there is no such run.
        """

    def sql(self, text: str) -> SqlResult:
        """Answer one SELECT over the views ``runs``, ``events`` and ``payloads``.

        Raises:
            UsageError: it is not one SELECT, or the database refuses it.
        """

    def verify(self) -> VerifyReport:
        """Recompute every digest and check that every file can be read."""

    def settle(self) -> Settled:
        """Move the journals of processes that are gone to where queries are quick."""

    def compact(self) -> Compacted:
        """Settle, join small files and remove left-overs.

        Raises:
            StoreError: the store cannot be written.
        """

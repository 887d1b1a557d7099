"""Which runs are to be removed, which values go with them, and what is told of it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

import duckdb
import pyarrow as pa

from tracekit.canonical import JsonValue
from tracekit.chains import references
from tracekit.errors import UsageError
from tracekit.events import Blob, RunRow
from tracekit.journal_reading import read_journal
from tracekit.store.finding import named_blobs
from tracekit.store.folder import Folder
from tracekit.store.live import Live

DIGEST = "sha256:[0-9a-f]{64}"
_DIGEST = re.compile(DIGEST)


def digests_in(texts: Iterable[str | None]) -> set[str]:
    """Find the values that attributes name; an imported run names its tools' contracts so."""
    return {name for text in texts if text and "sha256:" in text for name in _DIGEST.findall(text)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """Which runs go; every condition that is given must hold.

    Raises:
        UsageError: none is given.
    """

    begun_before: datetime | None = None
    """A run without a begin time does not count."""
    tag: str | None = None
    tenant: str | None = None

    def __post_init__(self) -> None:
        if self.begun_before is None and self.tag is None and self.tenant is None:
            raise UsageError(
                "nothing says which runs are to go",
                hint="give --older-than 30d, --tag TAG or --tenant NAME; nothing was removed",
            )

    def meant(self, rows: Iterable[RunRow]) -> set[str]:
        """Name those of some runs for which every condition holds."""
        return {row.run_id for row in rows if self.mean(row)}

    def mean(self, row: RunRow) -> bool:
        """Tell whether every condition holds for a run."""
        if self.begun_before is not None and (
            row.ts_start_ns is None or row.ts_start_ns / 1e9 >= self.begun_before.timestamp()
        ):
            return False
        return (self.tag is None or self.tag in row.tags) and self.tenant in (None, row.tenant)


@dataclass(frozen=True, slots=True)
class Pruned:
    """What went, or would go."""

    runs: tuple[str, ...] = ()
    events: int = 0
    values: int = 0
    bytes_freed: int = 0
    """On disk; an estimate before the fact."""
    recording: tuple[str, ...] = ()
    """Runs that are meant and stay, because a process may still be recording them."""
    damaged: tuple[str, ...] = ()
    """Runs that are meant and stay, because a file that holds them is damaged."""
    set_aside: tuple[str, ...] = ()
    """Damaged journals that hold lines of the runs; nobody but a person removes these."""

    def as_dict(self) -> dict[str, JsonValue]:
        """Give it as JSON values."""
        return {
            "runs": list(self.runs),
            "events": self.events,
            "values": self.values,
            "bytes_freed": self.bytes_freed,
            "recording": list(self.recording),
            "damaged": list(self.damaged),
            "set_aside": list(self.set_aside),
        }


@dataclass
class Links:
    """What prompts rest on, and which values journals need: both are held whole, the rest is not.

    All other names stand in a database table ``named`` (``name``, ``stays``), which may be larger
    than memory.
    """

    bases: dict[str, tuple[str, ...]] = field(default_factory=dict)
    staying: set[str] = field(default_factory=set)

    @classmethod
    def beside(cls, live: Live) -> Links:
        """Begin with what journals hold, all of which stays."""
        made = cls(staying=set(live.blobs))
        for rows in live.events.values():
            made.staying |= named_blobs(rows) | digests_in(row.attributes for row in rows)
        made.add(live.blobs.values())
        return made

    def add(self, blobs: Iterable[Blob]) -> None:
        """Note what prompts rest on."""
        for blob in blobs:
            if found := references(blob):
                self.bases[blob.digest] = found

    def needless(self, base: duckdb.DuckDBPyConnection) -> pa.ChunkedArray:
        """Name the values that only runs that go need, sorted."""
        linked = {*self.bases, *(name for names in self.bases.values() for name in names)}
        base.register("linked", names_table(linked))
        found = base.execute("SELECT name, stays FROM named SEMI JOIN linked USING (name)")
        going: set[str] = set()
        staying = set(self.staying)
        for name, stays in found.fetchall():
            (staying if stays else going).add(name)
        base.register("more", names_table(self._with_bases(going)))
        base.register("kept", names_table(self._with_bases(staying)))
        query = """
            (SELECT name FROM named WHERE NOT stays UNION SELECT name FROM more)
            EXCEPT SELECT name FROM kept
            EXCEPT SELECT name FROM named WHERE stays ORDER BY name
        """
        return base.sql(query).to_arrow_table()["name"]

    def _with_bases(self, names: set[str]) -> set[str]:
        found: set[str] = set()
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self.bases.get(name, ())
        return found


def names_table(names: Iterable[str]) -> pa.Table:
    """Make a table of some names, for a query to join."""
    return pa.table({"name": pa.array(sorted(names), pa.string())})


def lines_set_aside(folder: Folder, runs: Iterable[str]) -> tuple[str, ...]:
    """Name the damaged journals that hold lines of any of ``runs``."""
    gone = set(runs)
    found: list[str] = []
    for path in sorted(folder.damaged.glob("*.jsonl")):
        with suppress(OSError):  # whoever reads the store names it
            if any(fact.run_id in gone for fact in read_journal(path).facts):
                found.append(folder.relative(path))
    return tuple(found)

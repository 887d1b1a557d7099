"""Journals read as rows: what was recorded and is not in Parquet yet.

All journals are read together, since a run may be written by several processes. A journal that has
not grown is not read again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tracekit.events import SCHEMA_VERSION, Blob, Event
from tracekit.journal import owner_alive
from tracekit.journal_reading import JournalContent, read_journal
from tracekit.rows import rows_from_facts
from tracekit.store.folder import Folder
from tracekit.store.types import Problem

_Stamp = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Live:
    """What the journals say at one moment."""

    events: Mapping[str, list[Event]] = field(default_factory=dict)
    """Rows by run."""
    blobs: Mapping[str, Blob] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


@dataclass
class LiveReader:
    """Reads the journals of one folder."""

    folder: Folder
    _contents: dict[Path, tuple[_Stamp, JournalContent]] = field(default_factory=dict)
    _live: Live = field(default_factory=Live)
    _seen: tuple[tuple[Path, _Stamp], ...] = ()

    def read(self) -> Live:
        """Read what the journals say now."""
        stamps: list[tuple[Path, _Stamp]] = []
        for path in journals(self.folder):
            content = self._content(path)
            if content is not None:
                stamps.append((path, self._contents[path][0]))
        if tuple(stamps) != self._seen:
            paths = [path for path, _ in stamps]
            self._contents = {path: self._contents[path] for path in paths}
            self._live = join({path: self._contents[path][1] for path in paths})
            self._seen = tuple(stamps)
        return self._live

    def _content(self, path: Path) -> JournalContent | None:
        try:
            status = path.stat()
            stamp = (status.st_size, status.st_mtime_ns)
            known = self._contents.get(path)
            if known is None or known[0] != stamp:
                self._contents[path] = (stamp, read_journal(path))
            return self._contents[path][1]
        except FileNotFoundError:  # settled meanwhile: its rows are in Parquet
            return None


def journals(folder: Folder) -> list[Path]:
    """List the journals, oldest name first."""
    return sorted(folder.journals.glob("*.jsonl"))


def join(contents: Mapping[Path, JournalContent]) -> Live:
    """Join what several journals say to rows."""
    by_run: defaultdict[str, list[Event]] = defaultdict(list)
    facts = (fact for content in contents.values() for fact in content.facts)
    for row in rows_from_facts(facts):
        by_run[row.run_id].append(row)
    blobs: dict[str, Blob] = {}
    problems: list[Problem] = []
    for path, content in contents.items():
        blobs |= content.blobs
        problems += _problems(path, content)
    return Live(dict(by_run), blobs, tuple(problems))


def damage_of(path: Path, content: JournalContent) -> list[str]:
    """Name the lines of a journal that are lost.

    The last line of a living process may just be under way; that is no damage.
    """
    if content.damage and content.damage[-1].endswith("is torn") and owner_alive(path):
        return content.damage[:-1]
    return content.damage


def _problems(path: Path, content: JournalContent) -> list[Problem]:
    place = f"journal/{path.name}"
    if content.schema_version > SCHEMA_VERSION:
        what = f"it was written by a newer version (schema {content.schema_version})"
        return [Problem(place, what, "what this version does not know")]
    damage = damage_of(path, content)
    return [Problem(place, *_told(damage))] if damage else []


def set_aside(folder: Folder) -> list[Problem]:
    """Name what settled journals held that nobody could read."""
    problems: list[Problem] = []
    for path in sorted(folder.damaged.glob("*.jsonl")):
        what, lost = _told(read_journal(path).damage or ["nobody could read it"])
        advice = "its other lines are in the store. Look at it, then remove it"
        problems.append(Problem(folder.relative(path), f"{what}; {advice}", lost))
    return problems


def _told(damage: list[str]) -> tuple[str, str]:
    lines = "1 line" if len(damage) == 1 else f"{len(damage)} lines"
    place, _, what = damage[0].partition(": ")
    if what.startswith("cannot"):
        what = f"line {place.rpartition(':')[2]} {what}"
    return what or damage[0], lines

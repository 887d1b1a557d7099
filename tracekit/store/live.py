"""Journals read as rows: what was recorded and is not in Parquet yet.

All journals are read together, since a run may be written by several processes. A journal that has
not grown is not read again.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tracekit.events import SCHEMA_VERSION, Blob, Event
from tracekit.journal import owner_alive
from tracekit.journal_reading import JournalContent, read_journal
from tracekit.numerals import counted
from tracekit.rows import rows_from_facts, without_known_ends
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
    _lost: tuple[Problem, ...] = ()

    def read(self) -> Live:
        """Read what the journals say now."""
        stamps: list[tuple[Path, _Stamp]] = []
        lost = _no_files(self.folder)
        for path in journals(self.folder):
            try:
                stamps.append((path, self._read(path)))
            except FileNotFoundError:  # settled meanwhile: its rows are in Parquet
                continue
            except OSError as error:
                lost.append(_unreadable(path, error))
        if tuple(stamps) != self._seen:
            paths = [path for path, _ in stamps]
            self._contents = {path: self._contents[path] for path in paths}
            self._live = join({path: self._contents[path][1] for path in paths})
            self._seen = tuple(stamps)
        return replace(self._live, problems=(*lost, *self._live.problems)) if lost else self._live

    def _read(self, path: Path) -> _Stamp:
        """Read a journal unless that was done already; tell how it looked before."""
        status = path.stat(follow_symlinks=False)
        stamp = (status.st_size, status.st_mtime_ns)
        known = self._contents.get(path)
        if known is None or known[0] != stamp:
            self._contents[path] = (stamp, read_journal(path))
        return stamp


def journals(folder: Folder) -> list[Path]:
    """List the journals, oldest name first; what is no file is none."""
    return [path for path, mode in _entries(folder.journals) if stat.S_ISREG(mode)]


def _entries(folder: Path) -> list[tuple[Path, int]]:
    """List what is named like a journal, and its mode."""
    found: list[tuple[Path, int]] = []
    for path in sorted(folder.glob("*.jsonl")):
        try:
            found.append((path, os.lstat(path).st_mode))
        except OSError:  # gone meanwhile
            continue
    return found


def _no_files(folder: Folder) -> list[Problem]:
    """Name what is named like a journal and cannot be one."""
    return [
        Problem(
            f"journal/{path.name}",
            f"it is a {_kind(mode)}, and a journal is a file; it is passed over. Look at it, then"
            " remove it",
            "nothing that was recorded here",
        )
        for path, mode in _entries(folder.journals)
        if not stat.S_ISREG(mode)
    ]


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "folder", stat.S_IFLNK: "link", stat.S_IFIFO: "pipe"}
    return kinds.get(stat.S_IFMT(mode), "socket or device")


def _unreadable(path: Path, error: OSError) -> Problem:
    what = f"it cannot be read ({error.strerror or type(error).__name__})"
    return Problem(f"journal/{path.name}", what, "what it holds, until it can be read")


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


def rows_beside(rows: Iterable[Event], kept: Mapping[str, Event]) -> list[Event]:
    """Give those of a run's rows in journals that are not kept yet.

    Args:
        rows: What journals say.
        kept: What is kept of the run, by ``event_id``.
    """
    return without_known_ends((row for row in rows if row.event_id not in kept), kept.values())


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
        try:
            damage = read_journal(path).damage
        except OSError as error:
            damage = [f"it cannot be read ({error.strerror or type(error).__name__})"]
        what, lost = _told(damage or ["nobody could read it"])
        advice = "its other lines are in the store. Look at it, then remove it"
        problems.append(Problem(folder.relative(path), f"{what}; {advice}", lost))
    return problems


def _told(damage: list[str]) -> tuple[str, str]:
    place, _, what = damage[0].partition(": ")
    if what.startswith("cannot"):
        what = f"line {place.rpartition(':')[2]} {what}"
    return what or damage[0], counted(len(damage), "line")

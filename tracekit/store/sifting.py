"""Which runs go into the store when journals are settled, and how many did not.

A run is decided once it is over and no process that goes on has a step of it under way; until then
its lines stay in the journal. Runs that began one another are decided together, over all journals
at hand, those of living processes too. What is in the store already is kept for good: the rest of
it follows. How many runs and events were dropped stands in ``dropped.json``, by journal until that
is gone, so that a kill in the middle counts nothing twice.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any, Literal

from tracekit.canonical import canonical_text
from tracekit.chains import references
from tracekit.events import SCHEMA_VERSION, Blob, Event, Fact
from tracekit.journal_reading import JournalContent, read_journal
from tracekit.sampling import KEEP_ALL, Sampling, Signs, signs_of, with_killed
from tracekit.store.finding import named_blobs
from tracekit.store.folder import Folder, publish
from tracekit.store.live import journals
from tracekit.store.places import is_database, journal_folder
from tracekit.store.removal import digests_in

_COUNT = "dropped.json"
Fate = Literal["keep", "wait", "drop"]
Kept = Callable[[Iterable[str]], Set[str]]
"""Tells which of some run ids have a run in the store, or are the parent of one."""


@dataclass
class Sieve:
    """Decides about the runs of the journals of one folder, over one settling."""

    folder: Folder
    kept: Kept
    _signs: dict[Path, dict[str, Signs]] = field(default_factory=dict)

    def fates(
        self, contents: Mapping[Path, JournalContent], going_on: Set[str]
    ) -> Mapping[str, Fate]:
        """Decide about the runs in some journals; one that is not in the answer is kept.

        Args:
            contents: The journals that are being settled.
            going_on: The writers that have other journals still.
        """
        if all(_sampling(content).keeps_all for content in contents.values()):
            return {}
        for path, content in contents.items():
            self._signs[path] = signs_of(content.facts, _sampling(content))
        known = self._joined()
        stored = self.kept(
            {
                run_id
                for own, signs in known.items()
                for run_id in (own, signs.parent_run_id)
                if run_id is not None
            }
        )
        return {
            run_id: fate
            for family in _families(known)
            if (fate := _fate(family, known, stored, going_on)) != "keep"
            for run_id in family
        }

    def _joined(self) -> dict[str, Signs]:
        """Say of each run what all journals say, but for those that are being settled already."""
        known: dict[str, Signs] = {}
        for path in journals(self.folder):
            if path not in self._signs:
                self._signs[path] = _read(path)
            for run_id, signs in self._signs[path].items():
                before = known.get(run_id)
                known[run_id] = signs if before is None else before.joined(signs)
        return known


def _read(path: Path) -> dict[str, Signs]:
    try:
        content = read_journal(path)
    except FileNotFoundError:
        return {}
    return signs_of(content.facts, content.sampling)


def _sampling(content: JournalContent) -> Sampling:
    """A journal with lines that nobody can read loses no run more."""
    return (
        KEEP_ALL if content.damage or content.schema_version > SCHEMA_VERSION else content.sampling
    )


def _families(known: Mapping[str, Signs]) -> list[list[str]]:
    """Group the runs that began one another."""
    first: dict[str, str] = {}

    def head(run_id: str) -> str:
        while (above := first.get(run_id, run_id)) != run_id:
            first[run_id] = first.get(above, above)
            run_id = above
        return run_id

    for run_id, signs in known.items():
        if signs.parent_run_id in known and signs.parent_run_id is not None:
            first[head(run_id)] = head(signs.parent_run_id)
    families: dict[str, list[str]] = {}
    for run_id in known:
        families.setdefault(head(run_id), []).append(run_id)
    return list(families.values())


def _fate(
    family: Collection[str], known: Mapping[str, Signs], stored: Set[str], going_on: Set[str]
) -> Fate:
    members = [known[run_id] for run_id in family]
    named = {*family, *(signs.parent_run_id for signs in members)}
    sampling = reduce(Sampling.joined, (signs.sampling for signs in members))
    if not named.isdisjoint(stored) or any(
        sampling.by_chance(signs.trace_id) or with_killed(signs, going_on).keep(sampling)
        for signs in members
    ):
        return "keep"
    under_way = any(writer in going_on for signs in members for writer, _, _ in signs.under_way)
    return "wait" if under_way else "drop"


# --- values ---------------------------------------------------------------------------------------


def needed(rows: Iterable[Event], blobs: Mapping[str, Blob]) -> list[Blob]:
    """Give those of ``blobs`` that some rows need."""
    rows = list(rows)
    return _with_bases(named_blobs(rows) | digests_in(row.attributes for row in rows), blobs)


def needed_by(
    facts: Iterable[Fact], whole: Callable[[Fact], bool], blobs: Mapping[str, Blob]
) -> list[Blob]:
    """Give those of ``blobs`` that some facts name, and for the ``whole`` ones what these rest on.

    What stays of a run that is kept rests on what is in the store.
    """
    named: set[str] = set()
    resting: set[str] = set()
    for fact in facts:
        (resting if whole(fact) else named).update(_named(fact))
    found = {blob.digest: blob for blob in _with_bases(resting, blobs)}
    return [*found.values(), *(blobs[one] for one in sorted(named & blobs.keys() - found.keys()))]


def _named(fact: Fact) -> Iterator[str]:
    for name in ("argument", "observation", "before", "after"):
        if blob := getattr(getattr(fact, name, None), "blob", None):
            yield blob
    if contract := getattr(fact, "contract", None):
        yield contract
    if fact.attributes:
        yield from digests_in([canonical_text(fact.attributes)])


def _with_bases(names: Iterable[str], blobs: Mapping[str, Blob]) -> list[Blob]:
    found: dict[str, Blob] = {}
    waiting = sorted(names)
    while waiting:
        name = waiting.pop()
        if name in blobs and name not in found:
            found[name] = blobs[name]
            waiting += references(blobs[name])
    return list(found.values())


# --- the count ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dropped:
    """How many runs and events sampling left out of a store so far."""

    runs: int = 0
    events: int = 0


def dropped_rows(
    contents: Mapping[Path, JournalContent], rows: Iterable[Event], fates: Mapping[str, Fate]
) -> dict[Path, Dropped]:
    """Count what is dropped, by the journal in which it began."""
    place = {
        (fact.writer, fact.seq): path
        for path, content in contents.items()
        for fact in content.facts
        if fates.get(fact.run_id) == "drop"
    }
    runs: Counter[Path] = Counter()
    events: Counter[Path] = Counter()
    for row in rows:
        if fates.get(row.run_id) == "drop" and row.ts_start_ns is not None:
            path = place[row.writer, row.seq]
            events[path] += 1
            runs[path] += row.event_type == "run"
    return {path: Dropped(runs[path], events[path]) for path in contents}


def dropped_from(store: Path) -> Dropped:
    """Tell how much was left out so far of the store at a path."""
    said = _read_count(_place(store))
    rows = [said, *said["by_journal"].values()]
    return Dropped(sum(row["runs"] for row in rows), sum(row["events"] for row in rows))


def count_dropped(folder: Folder, fresh: Mapping[Path, Dropped]) -> None:
    """Note what is being dropped from journals that are about to go; under the write lock only.

    Raises:
        OSError: it could not be noted.
    """
    said = _read_count(folder.path)
    going = {_key(path): dropped for path, dropped in fresh.items()}
    if not any(dropped.events for dropped in fresh.values()) and said[
        "by_journal"
    ].keys().isdisjoint(going):
        return
    present = {_key(path) for path in journals(folder)}
    stays: dict[str, dict[str, int]] = {}
    for key, row in said["by_journal"].items():
        if key in going:
            continue  # decided anew: what was noted before a kill does not count
        if key in present:
            stays[key] = row
        else:
            said["runs"] += row["runs"]
            said["events"] += row["events"]
    stays |= {
        key: {"runs": dropped.runs, "events": dropped.events}
        for key, dropped in going.items()
        if dropped.events
    }
    _write_count(folder.path, {**said, "by_journal": stays})


def carry_dropped(source: Path, target: Path) -> None:
    """Note of the store at ``target`` what was left out of the one that it was made of.

    Raises:
        OSError: it could not be noted.
    """
    dropped = dropped_from(source)
    if dropped.events:
        counts = {"runs": dropped.runs, "events": dropped.events, "by_journal": {}}
        _write_count(_place(target), counts)


def _place(store: Path) -> Path:
    """Where the count of a store stands."""
    return journal_folder(store) if is_database(store) else store


def _write_count(place: Path, said: Mapping[str, Any]) -> None:
    data = json.dumps(said).encode()
    publish([(place / _COUNT, lambda temporary: _write_bytes(temporary, data))])


def _read_count(place: Path) -> dict[str, Any]:
    with suppress(FileNotFoundError, ValueError, TypeError, KeyError):
        said = json.loads((place / _COUNT).read_bytes())
        rows = [said, *said["by_journal"].values()]
        if all(type(row[name]) is int for row in rows for name in ("runs", "events")):
            return dict(said)
    return {"runs": 0, "events": 0, "by_journal": {}}


def _key(path: Path) -> str:
    """Name a journal as it is now: one of which something was dropped has another size."""
    with suppress(FileNotFoundError):
        return f"{path.name}:{path.stat().st_size}"
    return path.name


def _write_bytes(path: Path, data: bytes) -> None:
    path.write_bytes(data)

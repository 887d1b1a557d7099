"""Moving the journals of processes that are gone to where queries are quick.

The rows are committed first and the journal is removed after, so that a kill in between leaves
both: whoever settles next finds the rows kept already and only removes the journal.

A process that fills a file goes on in another one, so an operation may begin in one file and end in
a later one. Until that one can be settled too, its begin is held back: what is left of the first
file then is a short one with nothing but begins and what was noted under them. Where only some runs
are to be kept (``sifting``), all that a run which is under way has written is held back as well.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tracekit.conditions import Conditions
from tracekit.errors import StoreError
from tracekit.events import SCHEMA_VERSION, Blob, Event, Fact
from tracekit.journal import owner_alive, writer_of
from tracekit.journal_lines import part_of
from tracekit.journal_reading import JournalContent, open_journal
from tracekit.store.bulk import Bulk, read_in_bulk
from tracekit.store.folder import Folder, locked, make_folder, publish
from tracekit.store.live import join, journals
from tracekit.store.paired import NOTHING, Paired, pair
from tracekit.store.sifting import (
    Fate,
    Kept,
    Sieve,
    count_dropped,
    dropped_rows,
    needed,
    needed_by,
)
from tracekit.store.types import Batch, Settled

Append = Callable[[Batch, Paired], int]
"""Keeps a batch and more rows of it, and gives the number of the rows that were new."""
_CHUNK_BYTES = 32 << 20
"""Journals are settled so many bytes at a time, since their facts are held in memory."""
_BIRTH_NS = 60_000_000_000
"""A journal that is empty for longer than this never came to life."""


def settle(folder: Folder, append: Append, *, kept: Kept, wait: bool) -> Settled:
    """Settle what can be settled; what cannot stays readable where it is.

    Args:
        folder: Where the journals are.
        append: It is called under the write lock.
        kept: Tells which of some run ids have a run in the store, or are the parent of one.
        wait: Wait for whoever is writing; else nothing is settled then.
    """
    waiting = [path for path in journals(folder) if not owner_alive(path)]
    live = len(journals(folder)) - len(waiting)
    if not waiting:
        return Settled(live=live)
    try:
        with locked(folder, wait=wait) as held:
            if not held:
                return Settled(live=live, skipped="another process is writing to the store")
            moved = events = 0
            held_back: list[Path] = []
            sieve = Sieve(folder, kept)
            for chunk in _chunks(waiting):
                count, rows, held_back = _settle_chunk(sieve, append, [*held_back, *chunk])
                moved += count
                events += rows
            return Settled(journals=moved, live=live, events=events)
    except OSError as error:
        return Settled(live=live, skipped=error.strerror or type(error).__name__)


def require_settled(store: Path, done: Settled) -> None:
    """Raise where nothing was settled that should have been.

    Raises:
        StoreError: it says why.
    """
    if done.skipped is not None:
        raise StoreError(
            f"the journals of {store} could not be settled: {done.skipped}",
            hint="nothing of them is lost, and a command that reads reads them",
        )


def _chunks(paths: list[Path]) -> Iterator[list[Path]]:
    chunk: list[Path] = []
    size = 0
    for path in paths:
        more = path.stat().st_size if path.exists() else 0
        if chunk and size + more > _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(path)
        size += more
    if chunk:
        yield chunk


def _settle_chunk(sieve: Sieve, append: Append, paths: list[Path]) -> tuple[int, int, list[Path]]:
    """Settle some journals: how many are gone, how many rows are new, what is held back."""
    folder = sieve.folder
    with ExitStack() as claims:
        bulks = _in_turn(claims, journals(folder), set(paths))
        if not bulks:
            return 0, 0, []
        contents, paired = _apart(bulks)
        joined = join(contents)
        going_on = {writer_of(path) for path in journals(folder) if path not in contents}
        fates = sieve.fates(contents, going_on)
        every = [row for run in joined.events.values() for row in run]
        rows = [row for row in every if row.run_id not in fates]
        under_way = {
            (row.run_id, row.span_id) for row in rows if _is_open(row) and row.writer in going_on
        }
        whole = tuple(row for row in rows if not (_is_open(row) and row.writer in going_on))
        blobs = needed(rows, joined.blobs) if fates else joined.blobs.values()
        added = append(Batch(whole, tuple(blobs)), paired)
        count_dropped(folder, dropped_rows(contents, every, fates))
        held_back = []
        for path, content in contents.items():
            left = [fact for fact in content.facts if _stays(fact, fates, under_way)]
            values = needed_by(left, lambda fact: fact.run_id in fates, joined.blobs)
            if not _retire(folder, path, bulks[path], left, values):
                held_back.append(path)
        return len(contents) - len(held_back), added, held_back


def _apart(bulks: Mapping[Path, Bulk]) -> tuple[dict[Path, JournalContent], Paired]:
    """Part what are plain operations from the rest; where runs may be dropped, none are plain."""
    if all(bulk.content.sampling.keeps_all for bulk in bulks.values()):
        return pair(bulks)
    return {path: bulk.whole() for path, bulk in bulks.items()}, NOTHING


def _stays(
    fact: Fact, fates: Mapping[str, Fate], under_way: Container[tuple[str, str | None]]
) -> bool:
    """Tell whether a fact is left in its journal: its run is not decided, or its operation open."""
    fate = fates.get(fact.run_id)
    if fate is not None:
        return fate == "wait"
    return (fact.fact.endswith(".begun") and (fact.run_id, fact.span_id) in under_way) or (
        fact.fact.endswith(".noted") and (fact.run_id, fact.parent_span_id) in under_way
    )


def _in_turn(claims: ExitStack, present: list[Path], wanted: Container[Path]) -> dict[Path, Bulk]:
    """Claim and read journals; a process's later ones only with all that are left before them.

    A reader that asks whether the owner of one is alive holds it for a moment: it waits then, and
    so do the ends in those that follow.
    """
    bulks: dict[Path, Bulk] = {}
    waits: set[str] = set()
    for path in present:
        if writer_of(path) in waits:
            continue
        if path in wanted and claims.enter_context(_claimed(path)):
            bulk = _readable(path)
            if bulk is not None and bulk.content.schema_version <= SCHEMA_VERSION:
                bulks[path] = bulk
        if path not in bulks:
            waits.add(writer_of(path))
    return bulks


def _readable(path: Path) -> Bulk | None:
    """Read a journal; None where the disk does not give it: whoever reads names it."""
    try:
        return read_in_bulk(path)
    except OSError:
        return None


def _is_open(row: Event) -> bool:
    return row.ts_end_ns is None


@contextmanager
def _claimed(path: Path) -> Iterator[bool]:
    """Hold the lock of a journal that nobody owns; yield False where it is not ours to take.

    An empty one may belong to a process that has made it and is about to lock it.
    """
    try:
        fd = open_journal(path)
    except OSError:  # gone, or whoever reads names it
        yield False
        return
    try:
        status = os.fstat(fd)
        young = Conditions.system().now_ns() - status.st_mtime_ns < _BIRTH_NS
        if status.st_size == 0 and young:
            yield False
            return
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(fd)


def _retire(folder: Folder, path: Path, bulk: Bulk, left: list[Fact], values: list[Blob]) -> bool:
    """Remove a settled journal but for what is ``left``; False where something is.

    One with lines that nobody could read is put aside instead, or left whole until then.
    """
    damage = bulk.content.damage
    if not left and not damage:
        path.unlink(missing_ok=True)
        return True
    if not left:
        make_folder(folder.damaged)
        os.replace(path, folder.damaged / path.name)
        return True
    if not damage and len(left) < bulk.count:
        lines = part_of(bulk.content, left, values)
        publish([(path, lambda temporary: _write_bytes(temporary, lines))])
    return False


def _write_bytes(path: Path, data: bytes) -> None:
    path.write_bytes(data)

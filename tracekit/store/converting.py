"""From one form of store to the other, whole or not at all.

The new store is made under another name beside its place and given its own when it holds all that
the old one holds; who is interrupted leaves nothing that looks like a store.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tracekit.errors import StoreBusy, StoreError
from tracekit.events import Blob, Event
from tracekit.store.finding import named_blobs
from tracekit.store.folder import flush, make_folder
from tracekit.store.places import is_database, journal_folder
from tracekit.store.sifting import carry_dropped
from tracekit.store.types import Batch, Store

_CHUNK_EVENTS = 20_000
_CHUNK_BYTES = 32 << 20
_PAGE_VALUES = 100_000
"""About so many values are listed at a time."""

Progress = Callable[[int, int], None]
"""Called with the number of events that are done, and of all."""


@dataclass(frozen=True, slots=True)
class Converted:
    """What went over."""

    runs: int
    events: int
    blobs: int


def convert(
    source: Store,
    target: Path,
    make: Callable[[Path], Store],
    *,
    progress: Progress | None = None,
) -> Converted:
    """Make a store at ``target`` that holds what ``source`` holds.

    What living processes record goes along as far as it is recorded.

    Args:
        source: Where it comes from; it is not changed, except that journals are settled.
        target: A path where nothing is yet, or an empty folder.
        make: Makes an empty store at a path.
        progress: Told how far it is.

    Raises:
        StoreError: something is at ``target``, or the new store cannot be written.
    """
    _require_free(target)
    source.settle()
    try:
        with _workplace(target) as folder:
            new = folder / f"new{target.suffix}"
            with _named(new, target):
                made = make(new)
                done = _copy(source, made, progress or (lambda *_: None))
                made.compact()
                _check(made, done)
            _publish(new, target)
            carry_dropped(source.path, target)
            return done
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoreError(
            f"{target} could not be written: {reason}", hint="nothing was changed"
        ) from error


@contextmanager
def _named(new: Path, target: Path) -> Iterator[None]:
    """Tell what is said of the new store of the place that it is to have."""
    try:
        yield
    except StoreError as error:
        if str(new) not in error.message:
            raise
        said = error.message.replace(str(new), str(target))
        raise StoreError(said, hint="nothing was changed") from error


def _require_free(target: Path) -> None:
    empty = target.is_dir() and not any(target.iterdir()) and not is_database(target)
    if target.exists() and not empty:
        raise StoreError(
            f"{target} exists already", hint="give a path where nothing is yet, or an empty folder"
        )
    if is_database(target) and any(journal_folder(target).glob("*.jsonl")):
        raise StoreError(
            f"{journal_folder(target)} holds journals of another store of that name",
            hint=f"keep them with: tracekit compact --store {target}; or give another path",
        )


@contextmanager
def _workplace(target: Path) -> Iterator[Path]:
    """Hold the folder in which the new store is made; what somebody killed left there is gone."""
    make_folder(target.absolute().parent)
    folder = target.with_name(f".{target.name}.converting")
    make_folder(folder)
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreBusy(
                f"another process is just converting to {target}", hint="wait for it or end it"
            ) from error
        for left in folder.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(fd)


class _Waiting:
    """The values that are not over yet: sorted digests and their sizes, packed.

    There may be millions; as Python's texts and numbers they would take three times as much.
    """

    def __init__(self, source: Store) -> None:
        count = source.sql("SELECT count(*) FROM payloads").rows[0][0]
        digits = 0 if count <= _PAGE_VALUES else 1 if count <= 16 * _PAGE_VALUES else 2
        bounds = [f"'sha256:{number:0{digits}x}'" for number in range(1, 16**digits)]
        names, sizes = [np.array([], "S1")], [np.array([], np.int64)]
        for low, high in pairwise(["''", *bounds, "'~'"]):
            rows = source.sql(
                "SELECT digest, size FROM payloads"
                f" WHERE digest >= {low} AND digest < {high} ORDER BY digest"
            ).rows
            names.append(np.array([row[0] for row in rows], "S"))
            sizes.append(np.array([row[1] for row in rows], np.int64))
        self._names = np.concatenate(names)
        self._sizes = np.concatenate(sizes)
        self._left = np.ones(len(self._names), np.bool_)

    def take(self, names: Iterable[str]) -> list[tuple[str, int]]:
        """Give those of ``names`` that wait, with their sizes; they wait no more."""
        wanted = np.array(sorted(name for name in names if name.isascii()), "S")
        places = np.searchsorted(self._names, wanted)
        places = places[places < len(self._names)]
        found = places[self._names[places] == wanted[: len(places)]]
        return self._give(found[self._left[found]])

    def rest(self) -> list[tuple[str, int]]:
        """Give all that wait still."""
        return self._give(np.flatnonzero(self._left))

    def _give(self, places: np.ndarray) -> list[tuple[str, int]]:
        self._left[places] = False
        names = [name.decode() for name in self._names[places].tolist()]
        return list(zip(names, self._sizes[places].tolist(), strict=True))


def _copy(source: Store, made: Store, progress: Progress) -> Converted:
    waiting = _Waiting(source)
    counts = "SELECT run_id, events FROM runs ORDER BY ts_start_ns NULLS FIRST, run_id"
    runs = source.sql(counts).rows
    total = sum(count for _, count in runs)
    done = blobs = kept = 0
    for run_ids in _chunks(runs, _CHUNK_EVENTS):
        rows = source.rows_of(run_ids)
        kept += len(rows)
        events = [event for found in rows.values() for event in found]
        blobs += _append(source, made, events, waiting.take(named_blobs(events)))
        done += len(events)
        progress(done, total)
    blobs += _append(source, made, [], waiting.rest())
    return Converted(kept, done, blobs)


def _append(source: Store, made: Store, events: list[Event], named: list[tuple[str, int]]) -> int:
    """Keep rows and their values, so many values at a time as memory bears."""
    parts = list(_chunks(sorted(named), _CHUNK_BYTES)) or [[]]
    number = 0
    for place, digests in enumerate(parts):
        found: list[Blob] = list(source.blobs(digests).values()) if digests else []
        number += len(found)
        made.append(Batch(tuple(events) if place + 1 == len(parts) else (), tuple(found)))
    return number


def _chunks(items: Iterable[tuple[Any, ...]], limit: int) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for name, weight in items:
        if chunk and size + weight > limit:
            yield chunk
            chunk, size = [], 0
        chunk.append(name)
        size += weight
    if chunk:
        yield chunk


def _check(made: Store, done: Converted) -> None:
    counts = made.sql(
        "SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM events),"
        " (SELECT count(*) FROM payloads)"
    ).rows[0]
    if counts != (done.runs, done.events, done.blobs):
        raise StoreError(
            f"the new store holds {counts} runs, events and values, and"
            f" {(done.runs, done.events, done.blobs)} were read",
            hint="nothing was changed; check the old one with: tracekit verify",
        )


def _publish(new: Path, target: Path) -> None:
    """Give the new store its place, unless something came there meanwhile."""
    if is_database(target):
        try:
            os.link(new, target)
        except FileExistsError as error:
            raise StoreError(f"{target} exists already", hint="nothing was changed") from error
        except OSError:  # a file system without hard links
            os.rename(new, target)
    else:
        with suppress(FileNotFoundError):
            target.rmdir()
        os.rename(new, target)
    flush(target.absolute().parent)

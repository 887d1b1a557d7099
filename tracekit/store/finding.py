"""Which runs are meant, and how rows from two places become one. Pure."""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from itertools import islice

from tracekit.errors import RunNotFound
from tracekit.events import Event, RunRow
from tracekit.rows import without_known_ends
from tracekit.store.types import RunQuery


def select(rows: Iterable[RunRow], query: RunQuery) -> list[RunRow]:
    """Take the rows that ``query`` means, in their order, no more than it wants."""
    limit = None if query.limit is None else min(query.limit, sys.maxsize)
    return list(islice((row for row in rows if matches(row, query)), limit))


def matches(row: RunRow, query: RunQuery) -> bool:
    """Tell whether every condition of ``query`` holds for ``row``."""
    wanted = (
        (query.status, row.status),
        (query.agent, row.agent),
        (query.task, row.task_id),
        (query.source, row.source_format),
        (query.replay_of, row.replay_of),
    )
    return (
        all(value is None or value == has for value, has in wanted)
        and (query.tool is None or query.tool in row.tools)
        and (query.tag is None or query.tag in row.tags)
        and (not query.failed or row.status == "error" or row.errors + row.refusals > 0)
        and _in_time(row.ts_start_ns, query)
    )


def _in_time(start_ns: int | None, query: RunQuery) -> bool:
    if query.since is None and query.until is None:
        return True
    if start_ns is None:
        return False
    seconds = start_ns / 1e9
    if query.since is not None and seconds < query.since.timestamp():
        return False
    return query.until is None or seconds < query.until.timestamp()


def merge_newest(fresh: Sequence[RunRow], stored: Iterator[RunRow]) -> Iterator[RunRow]:
    """Merge live rows into stored ones, which come newest first."""
    ordered = sorted(fresh, key=_age)
    return heapq.merge(ordered, stored, key=_age)


def _age(row: RunRow) -> tuple[bool, int, _Reversed]:
    return (row.ts_start_ns is None, -(row.ts_start_ns or 0), _Reversed(row.run_id))


class _Reversed(str):
    """A text that sorts the other way round."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)


def merge_rows(stored: Sequence[Event], live: Sequence[Event]) -> list[Event]:
    """Join rows of one run; one that stands in both counts once, with its end where one has it."""
    if not live:
        return list(stored)
    merged = {row.event_id: row for row in stored}
    for row in without_known_ends(live, stored):
        known = merged.get(row.event_id)
        if known is None or (known.ts_end_ns is None and row.ts_end_ns is not None):
            merged[row.event_id] = row
    return list(merged.values())


def named_blobs(rows: Iterable[Event]) -> set[str]:
    """Collect the digests of the blobs that ``rows`` name."""
    return {
        digest
        for row in rows
        for digest in (row.argument_blob, row.observation_blob, row.contract)
        if digest is not None
    }


def the_one(
    prefix: str, fitting: Set[str], known: Callable[[], Iterable[str]], *, store: str
) -> str:
    """Give the only run id that begins with ``prefix``.

    Raises:
        RunNotFound: there is none, or there are several.
    """
    if prefix and len(fitting) == 1:
        return next(iter(fitting))
    several = bool(prefix and fitting)
    candidates = sorted(fitting) if several else closest(prefix, known())
    raise RunNotFound(prefix, store=store, candidates=candidates)


def closest(run_id: str, known: Iterable[str], *, limit: int = 3) -> list[str]:
    """Find the ids that are most like ``run_id``."""
    from rapidfuzz import process
    from rapidfuzz.distance import JaroWinkler

    matches = process.extract(
        run_id, sorted(known), scorer=JaroWinkler.similarity, limit=limit, score_cutoff=0.6
    )
    return [match[0] for match in matches]

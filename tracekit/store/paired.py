"""Operations whose begin and end are both alike to many others: rows that need no model each.

The row of one pair of alike facts is built as every row is, from models; those of all pairs that
are alike differ from it in the columns that hold what is a fact's own, and these are kept as
columns from the journal to the file. An operation that is not that plain is left to ``rows``: one
that was noted upon, that was told of twice, or of which one half is missing or unlike others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tracekit.events import Event, EvidenceNoted, Fact, PolicyNoted, StateNoted, event_id
from tracekit.journal_reading import JournalContent
from tracekit.rows import NONE, Totals, operation_row, totals_of
from tracekit.store.alike import Alike, Numbers
from tracekit.store.bulk import Bulk
from tracekit.store.folding import SAME
from tracekit.store.schema import EVENTS

_BEGUN = {
    **{name: name for name in ("run_id", "trace_id", "span_id", "parent_span_id")},
    "argument_digest": "argument.digest",
    "argument_blob": "argument.blob",
}
_ENDED = {"observation_digest": "observation.digest", "observation_blob": "observation.blob"}
"""Columns that hold what is a fact's own, and the fields of a begin or an end they come from."""
_FOLDED_IN = (EvidenceNoted, PolicyNoted, StateNoted)
_HEADS = ("run", "agent")
"""What a line of the catalogue says more of than numbers."""


@dataclass(frozen=True, slots=True)
class Share:
    """What the rows of one run say about it."""

    heads: Sequence[Event]
    """Those of the run itself and of its agents, and the first one."""
    totals: Totals
    """The numbers of all others."""
    writers: frozenset[str]


@dataclass(frozen=True)
class Paired:
    """Rows in columns."""

    rows: Sequence[Event] = ()
    """One row of each sort."""
    sort: NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, np.intp))
    """The sort of each row."""
    texts: Mapping[str, pa.Array] = field(default_factory=dict)
    """Columns of what is each row's own."""
    numbers: Mapping[str, Numbers] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.sort)

    @cached_property
    def runs(self) -> tuple[Sequence[str], NDArray[np.intp]]:
        """The ids of the runs, sorted, and which of them each row belongs to."""
        if not len(self):
            return [], np.zeros(0, np.intp)
        coded = self.texts["run_id"].dictionary_encode()
        ids = np.array(coded.dictionary.to_pylist(), object)
        order = np.argsort(ids)
        rank = np.empty(len(ids), np.intp)
        rank[order] = np.arange(len(ids))
        return ids[order].tolist(), rank[np.asarray(coded.indices)]

    def taken(self, places: NDArray[Any]) -> Paired:
        """Give some of the rows."""
        return Paired(
            self.rows,
            self.sort[places],
            {name: column.take(pa.array(places)) for name, column in self.texts.items()},
            {name: column[places] for name, column in self.numbers.items()},
        )

    def of_runs(self, run_ids: Collection[str]) -> tuple[Paired, Paired]:
        """Part the rows: those of some runs, and the rest."""
        ids, codes = self.runs
        chosen = np.array([run_id in run_ids for run_id in ids], np.bool_)[codes]
        if chosen.all():
            return self, NOTHING
        return self.taken(np.flatnonzero(chosen)), self.taken(np.flatnonzero(~chosen))

    def events(self) -> list[Event]:
        """Give the rows one by one."""
        names = [field.name for field in fields(Event)]
        sorts = [{name: getattr(row, name) for name in names} for row in self.rows]
        columns = {name: column.to_pylist() for name, column in self.texts.items()}
        columns |= {name: column.tolist() for name, column in self.numbers.items()}
        own = (
            dict(zip(columns, values, strict=True))
            for values in zip(*columns.values(), strict=True)
        )
        rows = ({**sorts[sort], **said} for sort, said in zip(self.sort.tolist(), own, strict=True))
        return [Event(**{**row, "event_id": _event_id(row)}) for row in rows]

    def table(self, more: Sequence[Event], order: NDArray[np.intp]) -> pa.Table:
        """Make a table of the store of these rows and some ``more``, put into ``order``.

        Ids of events are folded, as in the store's files.
        """
        columns = [self._column(column, more, pa.array(order)) for column in EVENTS]
        return pa.table(columns, schema=EVENTS)

    def _column(self, column: pa.Field, more: Sequence[Event], order: pa.Array) -> pa.Array:
        extended = isinstance(column.type, pa.BaseExtensionType)
        kind = column.type.storage_type if extended else column.type
        added = [getattr(event, column.name) for event in more]
        if column.name in self.texts or column.name in self.numbers:
            own = self.texts.get(column.name)
            own = pa.array(self.numbers[column.name]) if own is None else own
        else:
            same = column.name == "event_id"
            said = [SAME if same else getattr(row, column.name) for row in self.rows]
            constant = said.count(said[0]) == len(said)
            if constant and added.count(said[0]) == len(added):
                values = pa.repeat(pa.scalar(said[0], kind), len(order))
                return pa.ExtensionArray.from_storage(column.type, values) if extended else values
            own = pa.array(said, kind).take(pa.array(self.sort))
        values = pa.concat_arrays([own, pa.array(added, kind)]).take(order)
        return pa.ExtensionArray.from_storage(column.type, values) if extended else values

    def shares(self) -> dict[str, Share]:
        """Sum up each run's rows."""
        ids, codes = self.runs
        if not ids:
            return {}
        apart = np.array([row.event_type in _HEADS for row in self.rows], np.bool_)[self.sort]
        order = np.lexsort((self.numbers["seq"], codes))
        apart[order[np.diff(codes[order], prepend=-1) > 0]] = True
        heads: defaultdict[str, list[Event]] = defaultdict(list)
        for event in self.taken(np.flatnonzero(apart)).events():
            heads[event.run_id].append(event)
        totals = dict.fromkeys(ids, NONE)
        each = [totals_of([row]) for row in self.rows]
        for run_id, sort, count in self._counted(~apart):
            totals[run_id] += each[sort].times(count)
        writers: defaultdict[str, set[str]] = defaultdict(set)
        for run_id, sort, _ in self._counted(np.ones(len(self), np.bool_)):
            writers[run_id].add(self.rows[sort].writer)
        return {
            run_id: Share(heads[run_id], totals[run_id], frozenset(writers[run_id]))
            for run_id in ids
        }

    def _counted(self, chosen: NDArray[np.bool_]) -> Iterator[tuple[str, int, int]]:
        """Count the rows of each run and sort among some."""
        ids, codes = self.runs
        both = codes[chosen] * len(self.rows) + self.sort[chosen]
        for one, count in zip(*np.unique(both, return_counts=True), strict=True):
            run, sort = divmod(int(one), len(self.rows))
            yield ids[run], sort, int(count)


NOTHING = Paired()


def _event_id(row: Mapping[str, Any]) -> str:
    parts = (row[name] for name in ("trace_id", "span_id", "event_type", "seq"))
    return event_id("tracekit", *parts)


# --- pairing --------------------------------------------------------------------------------------


class _Halves:
    """All begins, or all ends, of one kind: numbered through."""

    def __init__(self, alike: Sequence[Alike]) -> None:
        self.alike = alike
        self.starts = np.cumsum([0, *map(len, alike)])

    @cached_property
    def operations(self) -> list[bytes]:
        """The operation of each."""
        return [key for alike in self.alike for key in alike.operations()]

    def group_of(self, places: Numbers) -> NDArray[np.intp]:
        return np.searchsorted(self.starts, places, "right") - 1

    def texts(self, name: str, places: Numbers) -> pa.Array:
        """Give a field of some of them."""
        columns = [_column(alike.text_of(name), len(alike)) for alike in self.alike]
        return pa.concat_arrays(columns).take(pa.array(places))

    def numbers(self, name: str, places: Numbers) -> Numbers:
        """Give a field of some of them."""
        found: Numbers = np.concatenate([alike.numbers[name] for alike in self.alike])[places]
        return found


def _column(values: NDArray[np.uint8] | str | None, count: int) -> pa.Array:
    if not isinstance(values, np.ndarray):
        return pa.repeat(pa.scalar(values, pa.string()), count)
    ends = np.arange(count + 1, dtype=np.int32) * values.shape[1]
    return pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(values))


def pair(bulks: Mapping[Path, Bulk]) -> tuple[dict[Path, JournalContent], Paired]:
    """Pair begins and ends; give the rest of each journal as models, and the rows of the pairs."""
    if _numbered_twice(bulks.values()):
        return {path: bulk.whole() for path, bulk in bulks.items()}, NOTHING
    halves: defaultdict[str, list[Alike]] = defaultdict(list)
    for bulk in bulks.values():
        for alike in bulk.alike:
            halves[alike.fact.fact].append(alike)
    kinds = {tag.partition(".")[0] for tag in halves}
    both = [(_Halves(halves[f"{kind}.begun"]), _Halves(halves[f"{kind}.ended"])) for kind in kinds]
    noted = {key for bulk in bulks.values() for key in _spoken_of(bulk.content.facts)}
    noted |= _of_two_kinds(both)
    left: dict[int, list[int]] = {}
    found: list[Paired] = []
    for begun, ended in both:
        first, second = _matched(begun, ended, noted)
        if len(first):
            found.append(_rows(begun, ended, first, second))
            left |= _others(begun, first) | _others(ended, second)
    contents = {
        path: bulk.with_facts(lambda alike: left.get(id(alike), range(len(alike))))
        for path, bulk in bulks.items()
    }
    return contents, _joined(found)


def _numbered_twice(bulks: Iterable[Bulk]) -> bool:
    """Tell whether two facts of one writer have one number; what comes first is not plain then."""
    numbers: defaultdict[str, list[Any]] = defaultdict(list)
    for bulk in bulks:
        for alike in bulk.alike:
            numbers[alike.fact.writer].append(alike.numbers["seq"])
        for fact in bulk.content.facts:
            numbers[fact.writer].append([fact.seq])
    every = [np.concatenate(parts) for parts in numbers.values()]
    return any(len(np.unique(those)) < len(those) for those in every)


def _spoken_of(facts: Iterable[Fact]) -> Iterator[bytes]:
    """Name the operations that facts of other lines are halves of, or tell more of."""
    for fact in facts:
        yield f"{fact.run_id}\n{fact.span_id}".encode()
        if isinstance(fact, _FOLDED_IN):
            yield f"{fact.run_id}\n{fact.parent_span_id}".encode()


def _of_two_kinds(both: Iterable[tuple[_Halves, _Halves]]) -> set[bytes]:
    """Name the operations that facts of several kinds are halves of."""
    seen: set[bytes] = set()
    found: set[bytes] = set()
    for begun, ended in sorted(both, key=lambda pair: pair[0].starts[-1]):
        for keys in (begun.operations, ended.operations):
            found |= seen.intersection(keys)
        seen.update(begun.operations, ended.operations)
    return found


def _matched(begun: _Halves, ended: _Halves, noted: Collection[bytes]) -> tuple[Numbers, Numbers]:
    """Find the begin and the end of the same operations, where there is one of each."""
    begins, ends = begun.operations, ended.operations
    place = {key: number for number, key in enumerate(begins)}
    for keys in (begins, ends):
        if len(place if keys is begins else set(keys)) < len(keys):
            for key, count in Counter(keys).items():
                if count > 1:
                    place.pop(key, None)
    for key in noted:
        place.pop(key, None)
    partners = np.fromiter(map(place.get, ends, repeat(-1)), np.int64, len(ends))
    second = np.flatnonzero(partners >= 0)
    return partners[second], second


def _others(halves: _Halves, paired: Numbers) -> dict[int, list[int]]:
    """Tell of each group which of its facts are not paired."""
    alone = np.ones(halves.starts[-1], np.bool_)
    alone[paired] = False
    parts = np.split(alone, halves.starts[1:-1])
    return {
        id(alike): np.flatnonzero(part).tolist()
        for alike, part in zip(halves.alike, parts, strict=True)
    }


def _rows(begun: _Halves, ended: _Halves, first: Numbers, second: Numbers) -> Paired:
    sorts, sort = np.unique(
        begun.group_of(first) * len(ended.alike) + ended.group_of(second), return_inverse=True
    )
    models = (divmod(one, len(ended.alike)) for one in sorts.tolist())
    rows = [operation_row(begun.alike[begin].fact, ended.alike[end].fact) for begin, end in models]
    texts = {column: begun.texts(name, first) for column, name in _BEGUN.items()}
    texts |= {column: ended.texts(name, second) for column, name in _ENDED.items()}
    start, end = begun.numbers("timestamp_ns", first), ended.numbers("timestamp_ns", second)
    numbers = {
        "seq": begun.numbers("seq", first),
        "ts_start_ns": start,
        "ts_end_ns": end,
        "latency_ns": np.maximum(end - start, 0),
    }
    return Paired(rows, sort, texts, numbers)


def _joined(parts: Sequence[Paired]) -> Paired:
    if len(parts) < 2:
        return parts[0] if parts else NOTHING
    starts = np.cumsum([0, *(len(part.rows) for part in parts)])
    return Paired(
        [row for part in parts for row in part.rows],
        np.concatenate([part.sort + start for part, start in zip(parts, starts, strict=False)]),
        {name: pa.concat_arrays([part.texts[name] for part in parts]) for name in parts[0].texts},
        {name: np.concatenate([part.numbers[name] for part in parts]) for name in parts[0].numbers},
    )

"""Facts that are alike: lines of one journal that differ in nothing but what is each fact's own.

A journal says a few sentences over and over; what changes is who, when and which value. So one line
is read as a model, and all others of its length are compared with it, byte by byte and all at once:
where its ids, digests and numbers stand, other ones may stand, and nothing else may differ. A line
that passes is the same JSON with other ids, so that nobody has to parse or to check it; one that
does not is read as it always was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from tracekit.events import FACT, Fact, Noted
from tracekit.journal_reading import UNREADABLE

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]
_TEXTS = {
    *("run_id", "trace_id", "span_id", "parent_span_id"),
    *("argument.digest", "argument.blob", "observation.digest", "observation.blob"),
}
_NUMBERS = {"seq", "timestamp_ns"}
_OWN = {"seq", "timestamp_ns", "run_id", "trace_id", "span_id"}
"""What must be each fact's own; the rest of the above may be missing or be the same in all."""
_PAYLOADS = ("argument", "observation")
_NOTED = Noted.__args__
_UNESCAPED = re.compile(r"[ !#-\[\]-~]+")
"""What stands in JSON as it is, in one byte a character."""
_GREATEST = 2**63 - 1
_FEW = 8
"""Comparing so few lines costs more than to read them."""
_PATIENCE = 8
"""After so many lines that few others were like, the rest of a length is read one by one."""
_BLOCK = 1_024
"""So many lines are compared at a time, so that they stay in the processor's caches."""


@dataclass(frozen=True, slots=True)
class _Slot:
    """Where in a line something stands that is the fact's own."""

    name: str
    start: int
    stop: int

    @property
    def is_number(self) -> bool:
        """Whether it is made of digits."""
        return self.name in _NUMBERS


@dataclass(frozen=True, slots=True)
class Alike:
    """Some begins, or some ends, of one journal that say the same but for what is their own."""

    fact: Fact
    """One of them."""
    lines: Numbers
    """Where in the journal they stand."""
    texts: Mapping[str, Bytes]
    """By the name of a field, its values: one a row, all of one length."""
    numbers: Mapping[str, Numbers]

    def __len__(self) -> int:
        return len(self.lines)

    def text_of(self, name: str) -> Bytes | str | None:
        """Give the values of a field; where it is no fact's own, the one of all."""
        found = self.texts.get(name)
        said: str | None = attrgetter(name)(self.fact) if found is None else None
        return said if found is None else found

    def operations(self) -> list[bytes]:
        """Name the operation of each by its run and its span."""
        between = np.full((len(self), 1), ord("\n"), np.uint8)
        rows = np.hstack([self.texts["run_id"], between, self.texts["span_id"]])
        names: list[bytes] = rows.view(np.dtype((np.bytes_, rows.shape[1])))[:, 0].tolist()
        return names

    def facts(self, chosen: Iterable[int]) -> Iterator[Fact]:
        """Give some of them as models."""
        for place in chosen:
            own: dict[str, Any] = {
                name: values[place].tobytes().decode() for name, values in self.texts.items()
            }
            for side in _PAYLOADS:
                inner = {
                    name: own.pop(f"{side}.{name}")
                    for name in ("digest", "blob")
                    if f"{side}.{name}" in own
                }
                if inner:
                    own[side] = getattr(self.fact, side).model_copy(update=inner)
            own |= {name: int(values[place]) for name, values in self.numbers.items()}
            yield self.fact.model_copy(update=own)


def alike_in(data: Bytes, starts: Numbers, stops: Numbers) -> tuple[list[Alike], NDArray[np.bool_]]:
    """Find the lines that are alike.

    Args:
        data: A journal.
        starts: Where in it its lines start.
        stops: Where they stop.

    Returns:
        What was found, and which of the lines are left.
    """
    left = np.ones(len(starts), np.bool_)
    lengths = stops - starts
    facts = np.flatnonzero(lengths > len(b'{"fact":""}'))
    facts = facts[data[starts[facts] + 2] == ord("f")]
    order = facts[np.argsort(lengths[facts], kind="stable")]
    found: list[Alike] = []
    for group in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        if len(group) >= _FEW:
            windows = np.lib.stride_tricks.sliding_window_view(data, int(lengths[group[0]]))
            found += _of_one_length(windows, starts, group)
    for one in found:
        left[one.lines] = False
    return found, left


def _of_one_length(windows: Bytes, starts: Numbers, group: Numbers) -> Iterator[Alike]:
    patience = _PATIENCE
    while len(group) >= _FEW and patience:
        template = _template(windows[starts[group[0]]].tobytes())
        if template is None:
            group, patience = group[1:], patience - 1
            continue
        hits, found = template.among(windows, starts, group)
        if len(found) >= max(_FEW, len(group) >> 6):
            yield found
        else:
            patience -= 1
        group = group[~hits]


@dataclass(frozen=True, slots=True)
class _Template:
    """A line that others are compared with."""

    fact: Fact
    line: Bytes
    slots: Sequence[_Slot]

    def among(
        self, windows: Bytes, starts: Numbers, group: Numbers
    ) -> tuple[NDArray[np.bool_], Alike]:
        """Tell which lines of ``group`` are like this one, and read these."""
        own = np.zeros(len(self.line), np.bool_)
        for slot in self.slots:
            own[slot.start : slot.stop] = True
        hits: list[NDArray[np.bool_]] = []
        parts: dict[str, list[NDArray[Any]]] = {slot.name: [] for slot in self.slots}
        for first in range(0, len(group), _BLOCK):
            block = windows[starts[group[first : first + _BLOCK]]]
            same = self._same(block, own)
            chosen = block if same.all() else block[same]
            values = {slot.name: _value(chosen, slot) for slot in self.slots}
            small = np.ones(len(chosen), np.bool_)
            for name in _NUMBERS & values.keys():
                small &= values[name] <= _GREATEST
            for name, value in values.items():
                parts[name].append(value if small.all() else value[small])
            same[same] = small
            hits.append(same)
        every = np.concatenate(hits)
        joined = {name: np.concatenate(values) for name, values in parts.items()}
        texts = {name: values for name, values in joined.items() if name not in _NUMBERS}
        numbers = {name: joined[name].astype(np.int64) for name in _NUMBERS & joined.keys()}
        return every, Alike(self.fact, group[every], texts, numbers)

    def _same(self, block: Bytes, own: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Tell which lines are this one but for what may stand in the slots."""
        fits: NDArray[np.bool_] = np.less_equal(block - ord(" "), ord("~") - ord(" "))
        fits &= block != ord('"')
        fits &= block != ord("\\")
        fits &= own
        fits |= np.equal(block, self.line)
        same: NDArray[np.bool_] = np.logical_and.reduce(fits, axis=1)
        for slot in self.slots:
            if slot.is_number:
                digits = block[:, slot.start : slot.stop] - ord("0")
                same &= (digits <= 9).all(axis=1)
                same &= (digits[:, 0] != 0) | (slot.stop - slot.start == 1)
        return same


def _value(block: Bytes, slot: _Slot) -> NDArray[Any]:
    part = block[:, slot.start : slot.stop]
    if not slot.is_number:
        return np.ascontiguousarray(part)
    number = np.zeros(len(part), np.uint64)
    for place in range(part.shape[1]):
        number = number * np.uint64(10) + (part[:, place] - ord("0"))
    return number


def _template(line: bytes) -> _Template | None:
    """Read a line that others are to be compared with; None for one that is not to be.

    It is one that stands as orjson writes it: then it is known where in it each value stands.
    """
    try:
        record: Any = orjson.loads(line)
        if orjson.dumps(record) != line:
            return None
        fact = FACT.validate_python(record)
    except UNREADABLE:
        return None
    if isinstance(fact, _NOTED):
        return None
    slots = tuple(_slots(record))
    if not _OWN.issubset(slot.name for slot in slots):
        return None
    return _Template(fact, np.frombuffer(line, np.uint8), slots)


def _slots(record: Mapping[str, Any], *, at: int = 1, above: str = "") -> Iterator[_Slot]:
    for key, value in record.items():
        at += len(orjson.dumps(key)) + 1
        stop = at + len(orjson.dumps(value))
        name = above + key
        if name in _PAYLOADS:
            yield from _slots(value, at=at + 1, above=f"{name}.")
        elif name in _NUMBERS and type(value) is int and 0 <= value <= _GREATEST:
            yield _Slot(name, at, stop)
        elif name in _TEXTS and type(value) is str and _UNESCAPED.fullmatch(value):
            yield _Slot(name, at + 1, stop - 1)
        at = stop + 1

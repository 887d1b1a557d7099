"""The order of a run's rows, derived: causality first, then begin time, then writer.

Each writer numbers its own facts, and that order is never doubted; clocks of different writers may
disagree or run backwards, so time only decides between writers, and a row never precedes its
parent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from tracekit.events import Event


def in_order(events: Sequence[Event]) -> list[Event]:
    """Put the rows of one run into their order."""
    by_writer: defaultdict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_writer[event.writer].append(event)
    queues = [sorted(rows, key=lambda row: row.seq) for _, rows in sorted(by_writer.items())]
    if len(queues) == 1:
        return queues[0]
    return _merge(queues, {event.span_id for event in events if event.span_id})


def _merge(queues: list[list[Event]], spans: set[str]) -> list[Event]:
    heads = [0] * len(queues)
    clocks = [0] * len(queues)
    placed: set[str] = set()
    merged: list[Event] = []

    def rank(index: int) -> tuple[bool, int, int]:
        row = queues[index][heads[index]]
        parent = row.parent_span_id
        waits = parent in spans and parent not in placed and parent != row.span_id
        return (waits, max(clocks[index], row.ts_start_ns or 0), index)

    while live := [i for i in range(len(queues)) if heads[i] < len(queues[i])]:
        index = min(live, key=rank)
        row = queues[index][heads[index]]
        heads[index] += 1
        clocks[index] = max(clocks[index], row.ts_start_ns or 0)
        if row.span_id:
            placed.add(row.span_id)
        merged.append(row)
    return merged

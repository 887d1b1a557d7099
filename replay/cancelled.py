"""Calls that were cancelled when they were recorded: they gave no answer as long as one waited.

Whoever asks for such a call waits until it is cancelled, as then. How long, the record bounds: of a
longer wait than the one that it tells of it knows nothing. Time that was spent in other calls does
not count, since a replay moves its clock by that and does not wait.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property

from tracekit.trajectory import Call, ModelCall, Observation, Trajectory

CANCELLED = "asyncio.exceptions.CancelledError"
OUTWAITED = "the recorded call was cancelled before it gave an answer"
UNKNOWN_NS = 600 * 1_000_000_000
"""How long a wait may be where the record tells no times."""
_AT_ONCE_NS = 100_000_000
"""So soon after its calls an agent ends that is cancelled."""
_SLACK = 1.05
_SLACK_NS = 2_000_000
"""Clocks are read one after the other, and that of the day is put right now and then."""


def was_cancelled(seen: Observation | None) -> bool:
    """Whether a call ended like this because its caller gave it up."""
    return seen is not None and seen.is_error and seen.error_type == CANCELLED


class Cancelled:
    """What a record tells of the calls that were cancelled in it."""

    def __init__(self, record: Trajectory) -> None:
        self._record = record

    def patience_ns(self, event_id: str | None) -> int:
        """How long the call of that event is known to give no answer, as a replay waits.

        The timer that ended it may have been set at any time since the run began.
        """
        call, began = self._timed.get(event_id or ""), self._record.ts_start_ns
        if call is None or call.ts_start_ns is None or call.ts_end_ns is None or began is None:
            return UNKNOWN_NS
        waited = call.ts_end_ns - began - self._spent_before(call.ts_start_ns)
        return int(waited * _SLACK) + _SLACK_NS if call.ts_end_ns > began else UNKNOWN_NS

    def gave_up(self, event_id: str | None) -> bool:
        """Whether nobody had cancelled the call of that event, which ended so by itself."""
        call = self._timed.get(event_id or "")
        return call is not None and call.gave_up

    def cut_off(self, event_id: str | None) -> bool:
        """Whether the call of that event was cancelled with the agent, from outside, at its end."""
        call, record = self._timed.get(event_id or ""), self._record
        ended, over = (None if call is None else call.ts_end_ns), record.ts_end_ns
        if ended is None or over is None or not was_cancelled(record.answer):
            return False
        later = any((one.ts_start_ns or 0) > ended for one in self._timed.values())
        return 0 <= over - ended <= _AT_ONCE_NS and not later

    def outlived(self, event_id: str | None) -> bool:
        """Whether the call of that event was still under way when the agent came back."""
        call, over = self._timed.get(event_id or ""), self._record.ts_end_ns
        ended = None if call is None else call.ts_end_ns
        return ended is not None and over is not None and ended > over

    @cached_property
    def _timed(self) -> dict[str, Call | ModelCall]:
        record = self._record
        made: tuple[Call | ModelCall, ...] = (*record.calls, *record.covered, *record.model_calls)
        return {one.event_id: one for one in made}

    def _spent_before(self, moment_ns: int) -> int:
        ends, totals = self._spent
        place = bisect_right(ends, moment_ns)
        return totals[place - 1] if place else 0

    @cached_property
    def _spent(self) -> tuple[list[int], list[int]]:
        """When calls ended, and in how much time until then some call was under way."""
        ends: list[int] = []
        totals: list[int] = []
        apart: list[tuple[int, int]] = []
        total = 0
        for end, start in sorted(
            (one.ts_end_ns, one.ts_start_ns)
            for one in self._timed.values()
            if one.ts_start_ns is not None and one.ts_end_ns is not None
        ):
            while apart and apart[-1][1] >= start:
                low, high = apart.pop()
                total, start = total - (high - low), min(start, low)
            apart.append((start, end))
            total += end - start
            ends.append(end)
            totals.append(total)
        return ends, totals

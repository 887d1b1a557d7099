"""Which of the secrets found in a text count where several finders saw one at the same place.

The one idea: the most telling find wins, then the longest; what the user asked for goes as well.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise

from tracekit.redact.detectors import Span


def settle(spans: list[Span]) -> list[Span]:
    """Return spans that do not overlap, in order.

    The most specific, then the longest win. A span of the user's that overlaps with another by
    half is joined with it: all that was asked to go, goes.
    """
    if all(left.end <= right.start for left, right in pairwise(spans)):
        return spans
    order = sorted(spans, key=lambda s: (not s.first, s.start - s.end, s.user, s.kind, s.start))
    taken: list[Span] = []
    starts: list[int] = []
    for span in order:
        low, high = _overlapped(span, taken, starts)
        if low < high:
            if not span.user or _inside(span, taken[low]):
                continue
            span = _join([*taken[low:high], span])
        taken[low:high] = [span]
        starts[low:high] = [span.start]
    return taken


def _join(spans: list[Span]) -> Span:
    """Return the span over all of ``spans``, of the kind of the longest that is the user's."""
    longest = max((s for s in spans if s.user), key=lambda s: s.end - s.start)
    return longest._replace(start=min(s.start for s in spans), end=max(s.end for s in spans))


def _inside(span: Span, other: Span) -> bool:
    return other.start <= span.start and span.end <= other.end


def _overlapped(span: Span, taken: list[Span], starts: list[int]) -> tuple[int, int]:
    """Return which of the spans taken, sorted and apart, overlap with ``span``."""
    low = bisect_left(starts, span.start)
    if low > 0 and taken[low - 1].end > span.start:
        low -= 1
    return low, bisect_left(starts, span.end)

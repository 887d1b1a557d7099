"""How alike two texts are, at a cost that grows with their length and no faster.

Letter by letter, a comparison costs the product of two lengths. So of long texts only what lies
between their common beginning and end is compared, and of that no more than its first letters.
"""

from __future__ import annotations

from rapidfuzz import fuzz

LONG = 2_000
"""Texts that differ over a stretch longer than this are compared by the first so many letters."""


def likeness(left: str, right: str, *, sort: bool = False) -> float:
    """Measure how alike two texts are: from 0 to 1, which is the same.

    Args:
        left, right: The texts.
        sort: Whether the same words in another order are as good; looked at in texts that are not
            long.
    """
    if left == right:
        return 1.0
    if max(len(left), len(right)) <= LONG:
        plain = fuzz.ratio(left, right)
        return (max(plain, fuzz.token_sort_ratio(left, right)) if sort else plain) / 100
    begin = _common(left, right)
    left, right = left[begin:], right[begin:]
    end = _common(left, right, at_end=True)
    left, right = left[: len(left) - end], right[: len(right) - end]
    rest = len(left) + len(right)
    # What is alike of the first letters is taken to be of the others; of a rest that only one of
    # the two has, nothing is.
    seen = fuzz.ratio(left[:LONG], right[:LONG]) / 100 if left and right else 0.0
    most = 2 * min(len(left), len(right))
    return (2 * (begin + end) + min(seen * rest, most)) / (2 * (begin + end) + rest)


def _common(left: str, right: str, *, at_end: bool = False) -> int:
    """Count the letters with which both begin, or end; by halving, since slices are cheap."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if at_end:
            same = (
                left[len(left) - middle : len(left) - low]
                == (right[len(right) - middle : len(right) - low])
            )
        else:
            same = left[low:middle] == right[low:middle]
        low, high = (middle, high) if same else (low, middle - 1)
    return low

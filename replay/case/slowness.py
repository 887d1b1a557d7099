"""Tells how long regular expressions can take, and finds those that can on a short text.

The one idea: a repetition of what is, but for what may be left out, one repetition can share out
the same letters in ever so many ways; where the rest does not fit, all of them are tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from math import inf, log2
from re import _parser  # type: ignore[attr-defined] # how Python reads a pattern has no public name
from typing import Any

_Item = tuple[Any, Any]
"""An operator, and what it is about."""
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT")
_MOST_BITS = 1000
"""Of a number that is still one."""
_KEPT = 1000
"""What is remembered of patterns."""


def may_hang(pattern: str) -> bool:
    """Whether a pattern repeats what is only a repetition, as ``(a+)+`` does."""
    return _hangs(_parsed(pattern))


@lru_cache(maxsize=_KEPT)
def most_tries(pattern: str, length: int) -> float:
    """Return how many ways there are at most to lay a pattern over a text, from all its letters."""
    return (length + 1) * _ways(_parsed(pattern), length)


def letters_of(pattern: str) -> list[str]:
    """Return the letters that a pattern names, each once, as they come."""
    found: dict[str, None] = {}
    stack: list[Iterable[_Item]] = [_parsed(pattern)]
    while stack:
        for item in stack.pop():
            stack.extend(_parts(item))
            if _named(item, "LITERAL"):
                found[chr(item[1])] = None
    return list(found)


@lru_cache(maxsize=_KEPT)
def _parsed(pattern: str) -> Iterable[_Item]:
    """The items of a pattern: it is read once, however many texts it is looked for in."""
    items: Iterable[_Item] = _parser.parse(pattern)
    return items


def _ways(items: Iterable[_Item], length: int) -> float:
    ways = 1.0
    for item in items:
        within = sum(_ways(part, length) for part in _parts(item)) or 1.0
        if _named(item, *_REPEATS, "POSSESSIVE_REPEAT"):
            least, most = (min(int(rounds), length) for rounds in item[1][:2])
            rounds = max(most - least, 0) + 1
            if within > 1:
                within = within**most if most * log2(within) < _MOST_BITS else inf
            within *= rounds
        ways *= within
    return ways


def _hangs(items: Iterable[_Item]) -> bool:
    return any(
        (_is_endless(item) and any(map(_is_ambiguous, _parts(item))))
        or any(map(_hangs, _parts(item)))
        for item in items
    )


def _parts(item: _Item) -> Iterator[Iterable[_Item]]:
    """The patterns in an item: a body, alternatives."""
    stack: list[Any] = [item[1]]
    while stack:
        one = stack.pop()
        if isinstance(one, _parser.SubPattern):
            yield one
        elif isinstance(one, tuple | list):
            stack.extend(one)


def _is_ambiguous(body: Iterable[_Item]) -> bool:
    """Whether it is nothing but a repetition, however often it is repeated itself."""
    items = list(_flat(body))
    required = [item for item in items if not _may_be_empty(item)]
    return len(required) <= 1 and any(
        _is_endless(item) or (_named(item, "BRANCH") and any(map(_is_ambiguous, _parts(item))))
        for item in required or items
    )


def _flat(body: Iterable[_Item]) -> Iterator[_Item]:
    """The items in order, those of groups in their place."""
    for item in body:
        if _named(item, "SUBPATTERN"):
            yield from (inner for part in _parts(item) for inner in _flat(part))
        else:
            yield item


def _may_be_empty(item: _Item) -> bool:
    if _named(item, "BRANCH"):
        return any(all(map(_may_be_empty, _flat(part))) for part in _parts(item))
    return _named(item, *_REPEATS) and item[1][0] == 0


def _is_endless(item: _Item) -> bool:
    return _named(item, *_REPEATS) and item[1][1] == _parser.MAXREPEAT


def _named(item: _Item, *names: str) -> bool:
    return str(item[0]) in names

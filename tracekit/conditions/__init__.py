"""Clock, ids and chance: the only door to them.

Two kinds of reading. What the recorder needs for itself (``now_ns``, ``new_span_id`` and others) is
just read. What the agent's own code asks for (``now``, ``uuid4``, ``random``, ``token_hex``,
``randint``, ``choice``) is *minted*: it is reported under the place that asked and its occurrence
there, so that a replay can give the same value again, or pair the old value with the new one.

A place is ``module:qualname:kind`` without a line number, so that it survives edits elsewhere in
the function. Where values come from is a ``Conditions``: the system's, or, in tests and replays, a
set of fixed or seeded ones.
"""

from __future__ import annotations

import itertools
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar

from pydantic import JsonValue

from tracekit.conditions.sources import Conditions

__all__ = [
    "Conditions",
    "Mint",
    "MintKind",
    "MintObserver",
    "MintScope",
    "MintSource",
    "choice",
    "current",
    "enter_minting",
    "install",
    "leave_minting",
    "minting",
    "monotonic_ns",
    "new_run_id",
    "new_span_id",
    "new_trace_id",
    "new_uuid7",
    "now",
    "now_ns",
    "randint",
    "random",
    "set_mint_observer",
    "set_mint_source",
    "token_hex",
    "use",
    "uuid4",
]

T = TypeVar("T")
MintKind = Literal["now", "uuid4", "random", "token_hex", "randint", "choice"]

_installed = Conditions.system()
_used: ContextVar[Conditions | None] = ContextVar("tracekit_conditions", default=None)


def current() -> Conditions:
    """Return the conditions that hold here."""
    return _used.get() or _installed


def install(conditions: Conditions) -> Conditions:
    """Let ``conditions`` hold for the whole process; give those that held before."""
    global _installed
    before, _installed = _installed, conditions
    return before


@contextmanager
def use(conditions: Conditions) -> Iterator[Conditions]:
    """Let ``conditions`` hold in this context, over those of the process."""
    token = _used.set(conditions)
    try:
        yield conditions
    finally:
        _used.reset(token)


def now_ns() -> int:
    """Read the clock in nanoseconds since 1970; not minted."""
    return (_used.get() or _installed).now_ns()


def monotonic_ns() -> int:
    """Read a clock that never runs backwards; not minted."""
    return (_used.get() or _installed).monotonic_ns()


def new_run_id() -> str:
    """Make an id that sorts by time and is unique across machines; not minted."""
    return (_used.get() or _installed).new_run_id()


def new_trace_id() -> str:
    """Make 32 hexadecimal digits; not minted."""
    return (_used.get() or _installed).new_trace_id()


def new_span_id() -> str:
    """Make 16 hexadecimal digits; not minted."""
    return (_used.get() or _installed).new_span_id()


def new_uuid7() -> str:
    """Make a name that sorts by time; not minted."""
    return (_used.get() or _installed).new_uuid7()


@dataclass(frozen=True, slots=True)
class Mint:
    """A value that user code was given."""

    kind: MintKind
    site: str
    """``module:qualname:kind`` of the code that asked."""
    occurrence: int
    """How many values of this kind this site had been given before, in its scope."""
    value: JsonValue
    """The value as JSON: a time in ISO 8601, a UUID as text, of a choice the index."""


class MintScope:
    """Counts the values given at each site; the recorder makes one a run."""

    def __init__(self) -> None:
        self._counts: dict[str, itertools.count[int]] = {}

    def take(self, site: str) -> int:
        """Give the occurrence that comes next at ``site``."""
        return next(self._counts.setdefault(site, itertools.count()))  # whole without a lock


MintObserver = Callable[[Mint], None]
MintSource = Callable[[MintKind, str, int], JsonValue]

_scope: ContextVar[MintScope | None] = ContextVar("tracekit_mint_scope", default=None)
_loose_scope = MintScope()
_observer: MintObserver | None = None
_source: MintSource | None = None


@contextmanager
def minting(scope: MintScope) -> Iterator[MintScope]:
    """Count what is minted in this context in ``scope``."""
    token = enter_minting(scope)
    try:
        yield scope
    finally:
        leave_minting(token)


def enter_minting(scope: MintScope) -> Token[MintScope | None]:
    """Count what is minted in this context in ``scope`` until ``leave_minting``."""
    return _scope.set(scope)


def leave_minting(token: Token[MintScope | None]) -> None:
    """Undo the ``enter_minting`` that gave ``token``, in the same context."""
    _scope.reset(token)


def set_mint_observer(observer: MintObserver | None) -> MintObserver | None:
    """Let ``observer`` hear of every minted value; give the one before. It must not raise."""
    global _observer
    before, _observer = _observer, observer
    return before


def set_mint_source(source: MintSource | None) -> MintSource | None:
    """Let ``source`` supply values, given kind, site and occurrence; give the one before.

    It gives the JSON form of a ``Mint``, or None for a fresh value. Values minted outside any
    scope, in a raw thread say, are counted in one of the process, new with each source.
    """
    global _source, _loose_scope
    before, _source = _source, source
    _loose_scope = MintScope()
    return before


def now() -> datetime:
    """Give the time to user code, in UTC; minted."""
    given = current().now
    if _observer is None and _source is None:
        return given()
    return _mint("now", given, datetime.isoformat, datetime.fromisoformat)


def uuid4() -> uuid.UUID:
    """Give a random UUID to user code; minted."""
    given = current().uuid4
    if _observer is None and _source is None:
        return given()
    return _mint("uuid4", given, str, uuid.UUID)


def random() -> float:
    """Give a number from [0, 1) to user code; minted."""
    given = current().random
    if _observer is None and _source is None:
        return given()
    return _mint("random", given, float, float)


def token_hex(nbytes: int = 32) -> str:
    """Give random bytes as hexadecimal digits to user code; minted."""
    conditions = current()
    if _observer is None and _source is None:
        return conditions.token_hex(nbytes)
    return _mint("token_hex", lambda: conditions.token_hex(nbytes), str, str)


def randint(low: int, high: int) -> int:
    """Give an integer from ``low`` to ``high``, both included, to user code; minted."""
    conditions = current()
    if _observer is None and _source is None:
        return conditions.randint(low, high)
    return _mint("randint", lambda: conditions.randint(low, high), int, int)


def choice(options: Sequence[T]) -> T:
    """Give one of ``options`` to user code; its index is minted."""
    conditions, last = current(), len(options) - 1
    if last < 0:
        raise IndexError("there is nothing to choose from")
    if _observer is None and _source is None:
        return options[conditions.randint(0, last)]
    index = _mint("choice", lambda: conditions.randint(0, last), int, int)
    return options[min(index, last)]


def _mint(
    kind: MintKind, fresh: Callable[[], T], to_json: Callable[[T], Any], from_json: Callable[..., T]
) -> T:
    """Take a value from the source or a fresh one, and report it under the caller of the caller."""
    frame = sys._getframe(2)
    site = f"{frame.f_globals.get('__name__', '?')}:{frame.f_code.co_qualname}:{kind}"
    occurrence = (_scope.get() or _loose_scope).take(site)
    supplied = None if _source is None else _source(kind, site, occurrence)
    value = fresh() if supplied is None else from_json(supplied)
    if _observer is not None:
        _observer(Mint(kind, site, occurrence, to_json(value)))
    return value

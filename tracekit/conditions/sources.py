"""Where clock, ids and chance come from: the system, fixed ones for tests, seeded ones for replays.

A ``Conditions`` is a clock, a giver of ids and a source of chance that belong together. Locks are
reentrant: a signal handler may ask for an id while the code that it interrupts is given one.
"""

from __future__ import annotations

import itertools
import os
import random
import secrets
import threading
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_HEX = {16: "%016x", 32: "%032x"}
_SECOND_NS = 1_000_000_000
_SEEDED_TICK_NS = 1_000


class _Clock(Protocol):
    def read_ns(self) -> int: ...
    def peek_ns(self) -> int: ...
    def monotonic_ns(self) -> int: ...
    def advance(self, ns: int) -> None: ...


class _SystemClock:
    """The clock of the machine."""

    read_ns = staticmethod(time.time_ns)
    peek_ns = staticmethod(time.time_ns)
    monotonic_ns = staticmethod(time.monotonic_ns)

    def advance(self, ns: int) -> None:
        raise ValueError("the system's clock cannot be moved")


class _MadeClock:
    """A clock that moves when it is read, and when it is told to."""

    def __init__(self, start: datetime, *, tick_ns: int, peek_ticks: bool) -> None:
        if start.tzinfo is None:
            raise ValueError("the start of a clock must be aware")
        self._start_ns = _to_ns(start)
        self._elapsed_ns = 0
        self._tick_ns = tick_ns
        self._peek_tick_ns = tick_ns if peek_ticks else 0
        self._lock = threading.RLock()

    def read_ns(self) -> int:
        return self._start_ns + self._move(self._tick_ns)

    def peek_ns(self) -> int:
        return self._start_ns + self._move(self._peek_tick_ns)

    def monotonic_ns(self) -> int:
        return self._move(self._tick_ns)

    def advance(self, ns: int) -> None:
        if ns < 0:
            raise ValueError("a clock only moves forward")
        self._move(ns)

    def _move(self, ns: int) -> int:
        with self._lock:
            before = self._elapsed_ns
            self._elapsed_ns += ns
            return before


class _SystemIds:
    """Ids that no other process, machine or fork gives."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._last_ms = 0
        self._tail = 0
        self.reseed()
        os.register_at_fork(after_in_child=self.reseed)

    def reseed(self) -> None:
        """Start anew from the system's entropy; a fork must not repeat its parent."""
        self._lock = threading.RLock()
        self._last_ms = 0
        self.chance = random.Random(os.urandom(32))
        self._bits = self.chance.getrandbits

    def hex(self, digits: int) -> str:
        value = self._bits(digits * 4)
        while not value:  # all zeros is no valid id
            value = self._bits(digits * 4)
        return _HEX[digits] % value

    def span_id(self) -> str:
        return (self._bits(64) or 1).to_bytes(8, "big").hex()

    def run_id(self) -> str:
        """Give a ULID: sortable by time, 80 random bits, rising within a millisecond."""
        ms, tail = self._step(80)
        value = ms << 80 | tail
        return "".join(_CROCKFORD[value >> shift & 31] for shift in range(125, -1, -5))

    def uuid7(self) -> str:
        """Give a UUID of version 7: sortable by time, 74 random bits."""
        ms, tail = self._step(80)
        high, low = tail >> 62 & 0xFFF, tail & (1 << 62) - 1
        return str(uuid.UUID(int=ms << 80 | 7 << 76 | high << 64 | 2 << 62 | low))

    def _step(self, bits: int) -> tuple[int, int]:
        """Give a time that never runs backwards and a number that rises while it stands still."""
        with self._lock:
            ms = max(time.time_ns() // 1_000_000, self._last_ms)
            fresh = int.from_bytes(os.urandom(bits // 8), "big") >> 1  # room to count up
            self._tail = fresh if ms > self._last_ms else self._tail + 1 + fresh % 2**16
            self._last_ms = ms
            return ms, self._tail

    def uuid4(self) -> uuid.UUID:
        return uuid.uuid4()


class _CountedIds:
    """Ids that count from 1, each kind by itself."""

    def __init__(self) -> None:
        self._counts: dict[str, itertools.count[int]] = {}

    def hex(self, digits: int) -> str:
        return f"{self._next(str(digits)):0{digits}x}"

    def span_id(self) -> str:
        return self.hex(16)

    def run_id(self) -> str:
        return f"run-{self._next('run'):06d}"

    def uuid7(self) -> str:
        return str(uuid.UUID(int=7 << 76 | 2 << 62 | self._next("uuid7")))

    def uuid4(self) -> uuid.UUID:
        return uuid.UUID(int=4 << 76 | 2 << 62 | self._next("uuid4"))

    def _next(self, kind: str) -> int:
        return next(self._counts.setdefault(kind, itertools.count(1)))  # whole without a lock


_SYSTEM_CLOCK = _SystemClock()
_SYSTEM_IDS = _SystemIds()


class Conditions:
    """One consistent source of clock, ids and chance. Its methods only read, and report nothing."""

    def __init__(
        self, clock: _Clock, ids: _SystemIds | _CountedIds, chance: random.Random | None
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._chance = chance
        # Every recorded call asks for these, so there is nothing in between.
        self.now_ns: Callable[[], int] = clock.peek_ns
        """Read the clock in nanoseconds since 1970, for the recorder's own use."""
        self.new_span_id: Callable[[], str] = ids.span_id
        """Make 16 hexadecimal digits."""

    @classmethod
    def system(cls) -> Conditions:
        """Give what the machine gives."""
        return cls(_SYSTEM_CLOCK, _SYSTEM_IDS, None)

    @classmethod
    def fixed(cls, start: datetime) -> Conditions:
        """For tests: ids count from 1, every reading of the clock is a second after the last."""
        clock = _MadeClock(start, tick_ns=_SECOND_NS, peek_ticks=True)
        return cls(clock, _CountedIds(), random.Random(0))

    @classmethod
    def seeded(cls, start: datetime, seed: int) -> Conditions:
        """For replays: the clock stands still but for ``advance``; chance comes from ``seed``.

        Each ``now`` is a microsecond after the last, so that code waiting for a deadline comes to
        its end. The recorder's ``now_ns`` does not move the clock, and the ids of runs and spans
        stay fresh, since two replays of one run are two runs.
        """
        clock = _MadeClock(start, tick_ns=_SEEDED_TICK_NS, peek_ticks=False)
        return cls(clock, _SYSTEM_IDS, random.Random(seed))

    def advance(self, ns: int) -> None:
        """Move the clock forward.

        Raises:
            ValueError: it is the system's clock, or ``ns`` is negative.
        """
        self._clock.advance(ns)

    def now(self) -> datetime:
        """Read the clock, in UTC."""
        return _from_ns(self._clock.read_ns())

    def monotonic_ns(self) -> int:
        """Read a clock that never runs backwards; only differences of it mean anything."""
        return self._clock.monotonic_ns()

    def new_run_id(self) -> str:
        """Make an id that sorts by time and is unique across machines."""
        return self._ids.run_id()

    def new_trace_id(self) -> str:
        """Make 32 hexadecimal digits."""
        return self._ids.hex(32)

    def new_uuid7(self) -> str:
        """Make a name that sorts by time."""
        return self._ids.uuid7()

    def uuid4(self) -> uuid.UUID:
        """Make a random UUID."""
        if self._chance is None or isinstance(self._ids, _CountedIds):
            return self._ids.uuid4()
        return uuid.UUID(int=self._chance.getrandbits(128), version=4)

    def random(self) -> float:
        """Draw from [0, 1)."""
        return (self._chance or _SYSTEM_IDS.chance).random()

    def token_hex(self, nbytes: int) -> str:
        """Draw ``nbytes`` random bytes as hexadecimal digits; of the system, fit for secrets."""
        if self._chance is None:
            return secrets.token_hex(nbytes)
        return self._chance.randbytes(nbytes).hex()

    def randint(self, low: int, high: int) -> int:
        """Draw an integer from ``low`` to ``high``, both included."""
        return (self._chance or _SYSTEM_IDS.chance).randint(low, high)


def _to_ns(moment: datetime) -> int:
    span = moment - _EPOCH
    return (span.days * 86_400 + span.seconds) * _SECOND_NS + span.microseconds * 1_000


def _from_ns(ns: int) -> datetime:
    return _EPOCH + timedelta(microseconds=ns // 1_000)

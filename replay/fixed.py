"""Clock, ids and chance for planners that ask the standard library for them.

``time``, ``datetime``, ``uuid``, ``random``, ``secrets``, ``os.urandom`` and numpy's generators
answer from the conditions of the replay while one is under way: the clock begins where the record
began and moves with each served answer, a sleep moves it instead of waiting, and chance comes from
a seed. They are replaced before the planner is imported, so that names it takes hold of are ours
too. Outside a replay, and for what only keeps the process going (threads, queues, pipes, the
recorder), everything stays real.

The methods of ``datetime`` are replaced inside the class: a class in its place would be another
type to pydantic, ``match`` and everybody's ``isinstance``.
"""

from __future__ import annotations

import ctypes
import datetime as _datetime
import gc
import os
import random
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from replay import fixed_loop, threads
from tracekit.conditions import Conditions

_SECOND_NS = 1_000_000_000
_UPTIME_S = 1_000_000
"""What a monotonic clock shows at the start of a run: code compares it with zero."""
_LONGEST_SLEEP_S = 1e9
_GIVE_WAY_S = 0.001
_NODE = 0x02_00_00_00_00_01
"""Stands for the network card in time-based UUIDs: a locally administered address."""
_KEEPS_REAL = frozenset({
    "tracekit", "replay", "asyncio", "concurrent", "importlib", "multiprocessing", "pluggy",
    "queue", "selectors", "socket", "subprocess", "threading", "_pytest",
    "curio", "eventlet", "gevent", "trio", "twisted",
})  # fmt: skip
"""Packages that wait, or tell processes apart: a made clock would have them wait for ever."""
IMPORT_START = datetime(2001, 1, 1, tzinfo=UTC)
"""What the clock shows while the planner is imported, which is before any recorded run."""


@dataclass
class Held:
    """Conditions that hold for code which does not know of them."""

    conditions: Conditions
    seed: int
    uptime_s: int = _UPTIME_S
    bytes: random.Random = field(init=False)
    seeds: random.Random = field(init=False)
    """Seeds for generators that are made without one."""
    _start_ns: int = field(init=False)

    def __post_init__(self) -> None:
        self.bytes = random.Random(f"{self.seed}/bytes")
        self.seeds = random.Random(f"{self.seed}/seeds")
        self._start_ns = self.conditions.now_ns()

    def wall_ns(self) -> int:
        """Read the clock; each reading is a little after the last."""
        self.conditions.monotonic_ns()
        return self.conditions.now_ns()

    def monotonic_ns(self) -> int:
        """Read a clock that only runs forward."""
        return self.wall_ns() - self._start_ns + self.uptime_s * _SECOND_NS

    def loop_s(self) -> float:
        """What event loops go by; reading it does not move it."""
        return (self.conditions.now_ns() - self._start_ns) / _SECOND_NS + self.uptime_s


_everywhere: Held | None = None
_here: ContextVar[Held | None] = ContextVar("tracekit_fixed", default=None)
_undo: ExitStack | None = None


def held() -> Held | None:
    """The conditions that hold for whoever asks here."""
    return _everywhere or _here.get()


def install() -> None:
    """Replace the doors of the standard library; where nothing is held they lead where they led."""
    global _undo  # the doors belong to the process
    if _undo is None:
        _undo = ExitStack()
        for owner, name, made in _doors():
            _put(_undo, owner, name, made)
        for cls, name, made in _methods():
            _put_method(_undo, cls, name, made)
        fixed_loop.install(_undo, held)


def uninstall() -> None:
    """Put the doors of the standard library back."""
    global _undo
    if _undo is not None:
        _undo.close()
        _undo = None


@contextmanager
def everywhere(conditions: Conditions, seed: int, *, importing: bool = False) -> Iterator[None]:
    """Hold ``conditions`` for the whole process, where the doors are in place."""
    global _everywhere
    before = _everywhere
    made = Held(conditions, seed, _UPTIME_S if importing else 2 * _UPTIME_S)
    with _global_generators(made):
        _everywhere = made
        try:
            yield
        finally:
            _everywhere = before


@contextmanager
def nowhere() -> Iterator[None]:
    """Let everything be as the machine has it."""
    global _everywhere
    before, _everywhere = _everywhere, None
    try:
        yield
    finally:
        _everywhere = before


@contextmanager
def here(conditions: Conditions, seed: int) -> Iterator[None]:
    """Hold ``conditions`` in this context only: the process has other things to do meanwhile."""
    install()
    made = Held(conditions, seed)
    token = _here.set(made)
    try:
        with _global_generators(made):
            yield
    finally:
        _here.reset(token)
        uninstall()


def hold(conditions: Conditions, seed: int) -> Any:
    """Hold ``conditions`` for a run: everywhere in a process that is there for it, else here."""
    return everywhere(conditions, seed) if _everywhere is not None else here(conditions, seed)


@contextmanager
def _global_generators(made: Held) -> Iterator[None]:
    """Seed the generators that everybody shares, and give them their state back afterwards."""
    state = random.getstate()
    arrays = sys.modules.get("numpy.random")
    array_state = arrays.get_state() if arrays is not None else None
    random._inst.seed(f"{made.seed}/shared")  # behind random.random
    if arrays is not None:
        arrays.seed(made.seeds.getrandbits(32))
    last = {n: v for n, v in vars(uuid).items() if n.startswith("_last_timestamp")}
    vars(uuid).update(dict.fromkeys(last))
    try:
        yield
    finally:
        random.setstate(state)
        vars(uuid).update(last)
        if arrays is not None:
            arrays.set_state(array_state)


# --- putting in place -----------------------------------------------------------------------------


def _put(undo: ExitStack, owner: Any, name: str, made: object) -> None:
    undo.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, made)


def _put_method(undo: ExitStack, cls: type, name: str, made: object) -> None:
    """Replace a method of a class that is written in C, whose attributes cannot be set."""
    namespace = gc.get_referents(cls.__dict__)[0]

    def put(value: object) -> None:
        namespace[name] = value
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(cls))

    undo.callback(put, namespace[name])
    put(made)


def _asked() -> Held | None:
    """What holds for the code that called the function which calls this."""
    found = _everywhere or _here.get()
    if found is None:
        return None
    caller: str = sys._getframe(2).f_globals.get("__name__", "")
    return None if caller.partition(".")[0] in _KEEPS_REAL else found


def _doors() -> Iterator[tuple[Any, str, object]]:
    yield from ((time, name, made) for name, made in _clocks().items())
    yield time, "sleep", _sleep(time.sleep)
    yield from ((time, name, made) for name, made in _calendars().items())
    for owner, name in ((os, "urandom"), (random, "_urandom"), (os, "getrandom")):
        if hasattr(owner, name):  # not every system has the last
            yield owner, name, _random_bytes(getattr(owner, name))
    yield random.Random, "seed", _seed(random.Random.seed)
    yield random, "seed", lambda a=None, version=2: random._inst.seed(a, version)
    yield uuid, "_generate_time_safe", None  # the C library reads clock and network card itself
    yield uuid, "_node", _NODE
    yield threading.Condition, "wait", _wait(threading.Condition.wait)


def _clocks() -> dict[str, object]:
    found: dict[str, object] = {"time": _seconds(time.time, Held.wall_ns)}
    found["time_ns"] = _whole(time.time_ns, Held.wall_ns)
    for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
        found[name] = _seconds(getattr(time, name), Held.monotonic_ns)
        found[f"{name}_ns"] = _whole(getattr(time, f"{name}_ns"), Held.monotonic_ns)
    found["clock_gettime"] = _by_clock(time.clock_gettime, per=_SECOND_NS)
    found["clock_gettime_ns"] = _by_clock(time.clock_gettime_ns, per=1)
    return found


def _seconds(real: Callable[[], float], read: Callable[[Held], int]) -> Callable[[], float]:
    def clock() -> float:
        found = _asked()
        return real() if found is None else read(found) / _SECOND_NS

    return clock


def _whole(real: Callable[[], int], read: Callable[[Held], int]) -> Callable[[], int]:
    def clock() -> int:
        found = _asked()
        return real() if found is None else read(found)

    return clock


def _by_clock(real: Callable[[int], Any], *, per: int) -> Callable[[int], Any]:
    def clock_gettime(clk_id: int, /) -> Any:
        found = _asked()
        if found is None:
            return real(clk_id)
        wall = clk_id == time.CLOCK_REALTIME
        ns = found.wall_ns() if wall else found.monotonic_ns()
        return ns if per == 1 else ns / per

    return clock_gettime


def _sleep(real: Callable[[float], None]) -> Callable[[float], None]:
    def sleep(seconds: float, /) -> None:
        found = _asked()
        if found is None:
            real(seconds)
            return
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        if not seconds <= _LONGEST_SLEEP_S:
            raise OverflowError("the clock of a replay does not go that far")
        found.conditions.advance(int(seconds * _SECOND_NS))
        if threading.active_count() > 1:
            real(min(seconds, _GIVE_WAY_S))  # somebody else may be what this one waits for

    return sleep


def _wait(real: Callable[..., bool]) -> Callable[..., bool]:
    """Let a wait that was in vain have taken its time: who asks again goes by a deadline."""

    def wait(self: threading.Condition, timeout: float | None = None) -> bool:
        with threads.waiting(timeout):
            came = real(self, timeout)
        if not came and timeout is not None and timeout > 0 and (found := held()) is not None:
            found.conditions.advance(int(timeout * _SECOND_NS))
        return came

    return wait


def _calendars() -> dict[str, object]:
    """Functions that take the present where they are given no time."""
    localtime, strftime, asctime = time.localtime, time.strftime, time.asctime

    def of_seconds(real: Callable[..., Any]) -> Callable[..., Any]:
        def calendar(secs: float | None = None, /) -> Any:
            found = _asked()
            if secs is None and found is not None:
                return real(found.wall_ns() / _SECOND_NS)
            return real(secs)

        return calendar

    def formatted(pattern: str, t: Any = None, /) -> str:
        found = _asked()
        if t is None and found is not None:
            t = localtime(found.wall_ns() / _SECOND_NS)
        return strftime(pattern) if t is None else strftime(pattern, t)

    def written(t: Any = None, /) -> str:
        found = _asked()
        if t is None and found is not None:
            t = localtime(found.wall_ns() / _SECOND_NS)
        return asctime() if t is None else asctime(t)

    made: dict[str, object] = {
        name: of_seconds(getattr(time, name)) for name in ("localtime", "gmtime", "ctime")
    }
    return {**made, "strftime": formatted, "asctime": written}


def _random_bytes(real: Callable[..., bytes]) -> Callable[..., bytes]:
    def urandom(size: int, /, *flags: int) -> bytes:
        found = _asked()
        return real(size, *flags) if found is None or size < 0 else found.bytes.randbytes(size)

    return urandom


def _seed(real: Callable[..., None]) -> Callable[..., None]:
    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        found = _asked()
        if a is None and found is not None:
            a = found.seeds.getrandbits(64)
        real(self, a, version)

    return seed


def _methods() -> Iterator[tuple[type, str, object]]:
    real_now, real_utcnow, real_today = (
        gc.get_referents(cls.__dict__)[0][name]
        for cls, name in (
            (datetime, "now"),
            (datetime, "utcnow"),
            (_datetime.date, "today"),
        )
    )

    def now(cls: type[datetime], tz: _datetime.tzinfo | None = None) -> datetime:
        found = _asked()
        if found is None:
            return real_now.__get__(None, cls)(tz)  # type: ignore[no-any-return]  # a C method
        return _moment(cls, found.wall_ns(), tz)

    def utcnow(cls: type[datetime]) -> datetime:
        found = _asked()
        if found is None:
            return real_utcnow.__get__(None, cls)()  # type: ignore[no-any-return]  # a C method
        return _moment(cls, found.wall_ns(), UTC).replace(tzinfo=None)

    def today(cls: type[_datetime.date]) -> _datetime.date:
        found = _asked()
        if found is None:
            return real_today.__get__(None, cls)()  # type: ignore[no-any-return]  # a C method
        ns = found.wall_ns()
        return (
            _moment(cls, ns, None)
            if issubclass(cls, datetime)
            else cls.fromtimestamp(ns // _SECOND_NS)
        )

    yield datetime, "now", classmethod(now)
    yield datetime, "utcnow", classmethod(utcnow)
    yield _datetime.date, "today", classmethod(today)


def _moment(cls: type[datetime], ns: int, tz: _datetime.tzinfo | None) -> datetime:
    seconds, rest = divmod(ns, _SECOND_NS)
    return cls.fromtimestamp(seconds, tz).replace(microsecond=rest // 1_000)

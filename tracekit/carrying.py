"""Work handed to a thread or a process keeps, as its parent, the operation that handed it on.

A context variable does not reach a new thread or another process, and agents hand work to both
without a thought of us. So the few doors through which Python passes work on are wrapped: starting
a thread or a process, submitting to a pool, and asking to be called when a result is there. Only
our place is carried, never the program's own context variables, and only what is begun inside a
step is touched: anything else passes through after one look at a variable. The doors are wrapped
when the first run begins, in place, and ``uninstall`` puts back what was there.

Rejected: copying the whole context into threads (it changes what other libraries see), patching
``Thread.run`` (subclasses override it), and guessing by "the only run that is open" (servers have
many; it is left for code that is reached by no door of ours).

A pool's own threads and processes serve whoever comes, so they are begun with no place at all and
each piece of work brings its own. A process that was not forked is also told where its parent
records, and records nothing where its parent's redaction rules cannot be sent.
"""

from __future__ import annotations

import functools
import importlib
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tracekit import configuration, guard, otel
from tracekit.operations import Operation, RunScope, active, current, nothing_under_way

Door = Callable[[Callable[..., Any]], Callable[..., Any]]
_wrapped: list[tuple[type, str, Callable[..., Any], Callable[..., Any]]] = []
_done: set[str] = set()
_lock = threading.RLock()


def install() -> None:
    """Wrap the doors of the modules that are loaded; those of a pool of processes may come later.

    A module that is imported in the middle of the first run is wrapped when the next one begins.
    """
    if len(_done) == len(_DOORS):
        return
    with _lock:
        importlib.import_module(_THREAD_POOLS)  # cheap; pools of processes are not
        for module, (name, methods) in _DOORS.items():
            if module in _done or not hasattr(sys.modules.get(module), name):
                continue
            owner = getattr(sys.modules[module], name)
            for method, door in methods.items():
                original = getattr(owner, method)
                ours = functools.wraps(original)(door(original))
                setattr(owner, method, ours)
                _wrapped.append((owner, method, original, ours))
            _done.add(module)


def uninstall() -> None:
    """Put back what stood at the doors, except where somebody has wrapped ours since."""
    with _lock:
        for owner, method, original, ours in _wrapped:
            if vars(owner).get(method) is ours:
                setattr(owner, method, original)
        _wrapped.clear()
        _done.clear()


# --- what is handed on --------------------------------------------------------------------------


def follow(operation: Operation) -> bool:
    """Keep from now on what ``operation`` hands on; whether all of it goes through our doors."""
    asyncio = sys.modules.get("asyncio")
    loop = None if asyncio is None else asyncio._get_running_loop()
    if not isinstance(loop, tuple(getattr(sys.modules[m], _DOORS[m][0]) for m in _LOOPS & _done)):
        return False
    if operation.work is None:
        operation.work = deque()
    return True


def _handed_on(operation: Operation, work: object, is_over: Callable[[Any], bool]) -> None:
    above: Operation | None = operation
    while above is not None:
        if above.work is not None:
            above.hand_on(functools.partial(_is_over, weakref.ref(work), is_over))
        above = above.parent


def _is_over(work: weakref.ref[Any], is_over: Callable[[Any], bool]) -> bool:
    held = work()
    return held is None or is_over(held)


def _has_ended(thread: threading.Thread) -> bool:
    return not thread.is_alive()


def _never(_work: object) -> bool:
    return False


# --- threads --------------------------------------------------------------------------------------


def _thread_start(original: Callable[..., Any]) -> Callable[..., Any]:
    def start(self: threading.Thread) -> None:
        operation = current()
        if operation is None:
            original(self)
        else:
            _start(self, original, _under(operation))
            _handed_on(operation, self, _has_ended)

    return start


def _under(operation: Operation) -> Callable[[Callable[..., Any]], Any]:
    def call(run: Callable[..., Any]) -> Any:
        with active(operation):
            return run()

    return call


def _start(worker: Any, original: Callable[..., Any], within: Any) -> None:
    """Start a thread or process whose ``run`` is called by ``within``.

    The attribute hides the method only until the worker has begun: subclasses override ``run``,
    and nobody is to find ours there.
    """
    before = _own_run(worker)
    vars(worker)["run"] = _Begin(worker, within, before)
    try:
        original(worker)
    except BaseException:
        _restore(worker, before)
        raise


def _own_run(worker: Any) -> dict[str, Any]:
    attributes = vars(worker)
    return {"run": attributes["run"]} if "run" in attributes else {}


def _restore(worker: Any, before: Mapping[str, Any]) -> None:
    vars(worker).pop("run", None)
    vars(worker).update(before)


@dataclass(frozen=True, slots=True)
class _Begin:
    """Stands in for ``run`` until a worker begins."""

    worker: Any
    within: Any
    before: Mapping[str, Any]

    def __call__(self) -> Any:
        _restore(self.worker, self.before)
        return self.within(self.worker.run)


@dataclass(frozen=True, slots=True)
class _Here:
    """A function that runs under an operation of this process, wherever it is called."""

    function: Callable[..., Any]
    operation: Operation

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with active(self.operation):
            return self.function(*args, **kwargs)


def _thread_submit(original: Callable[..., Any]) -> Callable[..., Any]:
    def submit(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        operation = current()
        if operation is None:
            return original(self, fn, *args, **kwargs)
        with nothing_under_way():  # a thread that is begun for this piece serves others as well
            future = original(self, _Here(fn, operation), *args, **kwargs)
        _handed_on(operation, future, type(future).done)
        return future

    return submit


def _create_task(original: Callable[..., Any]) -> Callable[..., Any]:
    """A task has its place by its context; who waits is to know that it works."""

    def create_task(self: Any, coro: Any, **kwargs: Any) -> Any:
        task = original(self, coro, **kwargs)
        operation = current()
        if operation is not None:
            _handed_on(operation, task, type(task).done)
        return task

    return create_task


def _add_done_callback(original: Callable[..., Any]) -> Callable[..., Any]:
    def add_done_callback(self: Any, fn: Callable[..., Any]) -> None:
        operation = current()
        original(self, fn if operation is None else _Here(fn, operation))

    return add_done_callback


def _runner_run(original: Callable[..., Any]) -> Callable[..., Any]:
    """A runner has a context of its own, which is that of the place where it was made."""

    def run(self: Any, coro: Any, *, context: Any = None) -> Any:
        operation = current()
        if operation is None or context is not None:
            return original(self, coro, context=context)
        with nothing_under_way():
            self.get_loop()  # what it keeps outlives the run that is open now
        here = active(operation)
        self._context.run(here.__enter__)
        try:
            return original(self, coro)
        finally:
            self._context.run(here.__exit__, None, None, None)

    return run


# --- processes ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """An operation of another process, and how that process records."""

    run_id: str
    trace_id: str
    span_id: str
    settings: Mapping[str, Any] | None

    def __call__(self, run: Callable[..., Any]) -> Any:
        known = current()
        if known is not None and known.span_id == self.span_id:  # inherited by a fork
            return run()
        configuration.adopt(self.settings)
        scope = RunScope(self.run_id, self.trace_id)
        with active(Operation("span", "", scope, self.span_id, None, otel.NO_SPAN)):
            return run()


@dataclass(frozen=True, slots=True)
class _There:
    """A function that runs under an operation of the process that sent it."""

    function: Callable[..., Any]
    place: _Place

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.place(functools.partial(self.function, *args, **kwargs))


def _place() -> _Place | None:
    """The place to send along; a replay sends nothing, since no process of its own may act."""
    operation = current()
    if operation is None or guard.installed():
        return None
    run = operation.run
    return _Place(run.run_id, run.trace_id, operation.span_id, configuration.portable())


def _process_start(original: Callable[..., Any]) -> Callable[..., Any]:
    def start(self: Any) -> None:
        place = _place()
        if place is None:
            original(self)
        else:
            before = _own_run(self)
            _start(self, original, place)
            _restore(self, before)  # what the child has is a copy

    return start


def _process_submit(original: Callable[..., Any]) -> Callable[..., Any]:
    def submit(self: Any, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        place = _place()
        if place is None:
            return original(self, fn, *args, **kwargs)
        with nothing_under_way():
            return original(self, _There(fn, place), *args, **kwargs)

    return submit


def _pool_method(original: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Any, func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        operation = current()
        if operation is None:
            return original(self, func, *args, **kwargs)
        args = (*args[:2], *(_back_here(one, operation) for one in args[2:]))
        for name in _POOL_CALLBACKS & kwargs.keys():
            kwargs[name] = _back_here(kwargs[name], operation)
        if isinstance(self, sys.modules["multiprocessing.pool"].ThreadPool):
            result = original(self, _Here(func, operation), *args, **kwargs)
            _handed_on(operation, result, getattr(type(result), "ready", _never))
            return result
        place = _place()
        return original(self, func if place is None else _There(func, place), *args, **kwargs)

    return method


def _back_here(callback: Any, operation: Operation) -> Any:
    """What a pool calls in a thread of its own when a result is there."""
    return _Here(callback, operation) if callable(callback) else callback


_POOL_CALLBACKS = frozenset({"callback", "error_callback"})
"""Given by position, they come after two other arguments in every method."""
_POOL_METHODS = (
    "apply_async", "map", "map_async", "starmap", "starmap_async", "imap", "imap_unordered",
)  # fmt: skip
"""Those that take work first-hand: ``apply`` goes through ``apply_async``."""
_THREAD_POOLS = "concurrent.futures.thread"
_TASKS, _UVLOOP = "asyncio.base_events", "uvloop"
_LOOPS = {_TASKS, _UVLOOP}
"""Modules of event loops: what a step hands on to one of these is seen."""
_DOORS: Mapping[str, tuple[str, Mapping[str, Door]]] = {
    "threading": ("Thread", {"start": _thread_start}),
    _THREAD_POOLS: ("ThreadPoolExecutor", {"submit": _thread_submit}),
    "concurrent.futures._base": ("Future", {"add_done_callback": _add_done_callback}),
    _TASKS: ("BaseEventLoop", {"create_task": _create_task}),
    _UVLOOP: ("Loop", {"create_task": _create_task}),
    "asyncio.runners": ("Runner", {"run": _runner_run}),
    "multiprocessing.process": ("BaseProcess", {"start": _process_start}),
    "concurrent.futures.process": ("ProcessPoolExecutor", {"submit": _process_submit}),
    "multiprocessing.pool": ("Pool", dict.fromkeys(_POOL_METHODS, _pool_method)),
}

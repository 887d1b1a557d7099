"""The same surface for a planner that exists only in this process: a closure, a test's function.

There is no second process, so there is no kernel wall and no limit on time or memory. The hook is
up for the whole process while the planner runs, whichever thread calls; the replay's own work, the
answers given by ``handle``, is let through by thread.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from replay.errortext import text_of, traceback_of
from replay.isolation import hook, proof
from replay.isolation.outcome import Exit, Level, Ready, Wall
from replay.isolation.protocol import Message, Notes
from replay.isolation.rules import Ground
from replay.isolation.scratch import Scratch
from tracekit.errors import IsolationUnavailable, ReplayInProgress

assert ctypes.pythonapi is not None  # loaded before the hook is up, or its own import is refused

Handle = Callable[[Message], Message | None]

_one_at_a_time = threading.Lock()


class InProcess:
    """A planner in this process behind the hook; a context manager with `Isolate`'s surface.

    Args:
        planner: The planner itself.
        level: ``process`` (the hook) or ``guard`` (no wall but the guard).
        writable: Folders that the planner may write into, beside scratch.
        host: The module that describes and runs planners.
    """

    ready: Ready
    """The walls that stand and what the planner is; set on entry."""

    def __init__(
        self,
        planner: object,
        *,
        level: Level | None = None,
        writable: Sequence[str | Path] = (),
        host: str = "replay.planner",
    ) -> None:
        if level == "kernel":
            raise IsolationUnavailable(
                "isolation 'kernel' needs a planner that a child process can import",
                hint="give it as MOD:OBJ, or as a function or class at the top of a module",
            )
        self._planner = planner
        self._level: Level = level or "process"
        self._writable = [str(Path(folder).resolve()) for folder in writable]
        self._host = importlib.import_module(host)
        self._scratch = Scratch()
        self.incidental: tuple[Any, ...] = ()
        """Nothing: in process, file changes are refused, not copied."""

    def __enter__(self) -> Self:
        """Prove the hook.

        Raises:
            IsolationUnavailable: it did not hold.
            ReplayInProgress: another replay runs in this process.
        """
        walls: tuple[Wall, ...] = ()
        if self._level == "process":
            hook.prepare()
            with _exclusive(), proof.Range() as range_:
                hook.raise_wall(Ground(()), lambda _: None)
                try:
                    said = proof.prove_hook(range_.target)
                finally:
                    hook.lower_wall()
                hits = range_.hits()
            evidence = ", ".join([said["evidence"], *hits])
            if not said["held"] or hits:
                raise IsolationUnavailable(f"the process wall did not hold: {evidence}")
            walls = (Wall("process", held=True, evidence=evidence, unseen=hook.UNSEEN),)
        self.ready = Ready(self._level, walls, self._host.outline(self._planner))
        return self

    @cached_property
    def declared(self) -> dict[str, Any]:
        """What the planner's code declares; looked for when somebody asks, as it takes long."""
        found: dict[str, Any] = self._host.describe(self._planner).get("declared", {})
        return found

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Throw scratch away; the wall is up only during a run."""
        self._scratch.remove()

    def run(self, request: Message, handle: Handle) -> Exit:
        """Run the planner once. What ``handle`` raises ends the run and is raised here.

        Raises:
            ReplayInProgress: another replay runs in this process.
        """
        with _exclusive(), self._surroundings() as scratch:
            channel = _LocalChannel(hook.window(handle))
            if self._level == "process":
                writable = (scratch, *self._writable)
                hook.raise_wall(Ground(writable), channel.note)
            try:
                exit_ = self._run(request, channel)
            finally:
                hook.lower_wall()
            channel.close()
            return exit_

    def _run(self, request: Message, channel: _LocalChannel) -> Exit:
        try:
            result = self._host.run_in_child(self._planner, request, channel)
        except MemoryError as error:
            return Exit("memory", "the planner ran out of memory", traceback=traceback_of(error))
        except Exception as error:  # noqa: BLE001 - a planner that fails is a result
            return Exit(
                "crashed",
                f"the planner raised {type(error).__name__}: {text_of(error)}",
                traceback=traceback_of(error),
            )
        return Exit("done", "", result=result)

    @contextmanager
    def _surroundings(self) -> Iterator[str]:
        """Send files of ordinary code to scratch, and write no bytecode, until the run is over."""
        self._scratch.make()
        places, directory = self._scratch.places, tempfile.tempdir
        environment = {name: os.environ.get(name) for name in places}
        bytecode = sys.dont_write_bytecode
        os.environ.update(places)
        tempfile.tempdir = None
        sys.dont_write_bytecode = True
        try:
            yield str(self._scratch.folder)
        finally:
            for name, value in environment.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value
            tempfile.tempdir = directory
            sys.dont_write_bytecode = bytecode
            self._scratch.tidy()


class _LocalChannel:
    """Hands messages to the parent's side in the same process. Thread-safe."""

    near = True
    """What was found out about a value on that side need not be found out on this one."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._lock = threading.RLock()
        self._notes = Notes()
        self._error: BaseException | None = None

    @hook.window
    def ask(self, message: Message) -> Message:
        """Return the answer to ``message``."""
        with self._lock, hook.trusted():
            self._flush()
            return self._deliver(message) or {}

    @hook.window
    def tell(self, message: Message) -> None:
        """Hand over ``message``."""
        with self._lock, hook.trusted():
            self._flush()
            self._deliver(message)

    def note(self, message: Message) -> None:
        """Keep ``message`` for the next time that something is handed over."""
        self._notes.add(message)

    def close(self) -> None:
        """Hand over what was noted.

        Raises:
            BaseException: what ``handle`` raised, even if the planner swallowed it.
        """
        with self._lock:
            self._flush()
            for message in self._notes.beyond():
                self._deliver(message)
        if self._error is not None:
            raise self._error

    def _flush(self) -> None:
        for message in self._notes.take():
            self._deliver(message)

    def _deliver(self, message: Message) -> Message | None:
        if self._error is not None:
            raise self._error
        try:
            return self._handle(message)
        except BaseException as error:
            self._error = error
            raise


@contextmanager
def _exclusive() -> Iterator[None]:
    if not _one_at_a_time.acquire(blocking=False):
        raise ReplayInProgress(
            "another replay is running in this process",
            hint="give planners as MOD:OBJ: those run in processes of their own, side by side",
        )
    try:
        yield
    finally:
        _one_at_a_time.release()

"""The child process: puts its walls up, imports the planner, then forks once for every run.

The first process, the keeper, runs no planner after its import: signals whose handlers the modules
installed wait, and what else they hung onto the interpreter stands behind the walls. The keeper
forks, watches the run, ends it when a limit is passed, sweeps up what it left and says on a pipe of
its own how it ended. A run that dies in the middle of a message therefore spoils neither the next
run nor the keeper's word.
"""

from __future__ import annotations

import ctypes  # before the walls: its own import loads the C library
import gc
import importlib
import os
import shutil
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from replay.errortext import text_of, traceback_of
from replay.isolation import hook, limits, proof, seal
from replay.isolation.keeper import Watch, hold_signals, sweep
from replay.isolation.limits import Limits
from replay.isolation.protocol import (
    Message,
    Notes,
    PipeChannel,
    ProtocolError,
    RunOver,
    TooLarge,
    encode,
    read_message,
    write_all,
)
from replay.isolation.rules import Ground
from replay.isolation.scratch import make_places
from replay.isolation.warming import warm_up
from tracekit.canonical import sound_text

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_SIGKILL = 9
_UNFINISHED = 70
_SHARE = 0.75
"""Of the time that a run has, until it waits no longer for threads that go on."""
_prctl = getattr(ctypes.CDLL(None), "prctl", None)  # only Linux has it


class Keeper:
    """The process that holds the imported planner."""

    def __init__(self) -> None:
        # The three standard descriptors carry the protocol only until here; what the planner
        # prints must not end up in it.
        self.requests, self.messages, self.control = (os.dup(fd) for fd in (0, 1, 2))
        boot = read_message(self.requests, limit=1 << 24)
        if boot is None:
            raise SystemExit(0)
        self.boot = boot
        self.limits = Limits.from_dict(boot["limits"])
        self.scratch = Path(boot["scratch"])
        self.planner: Any = None
        self.imported = False
        self.host: Any = None
        self._runs = 0
        self._mask: set[int] = set()
        self._printed = _redirect_output(self.scratch / "import-output")

    def main(self) -> None:
        """Put the walls up, import the planner, serve runs until the parent closes the pipe."""
        self._set_surroundings()
        attempts = Notes()
        walls = self._raise_walls(attempts.add)
        self._say({"walls": walls})
        if read_message(self.requests, limit=1 << 10) is None:
            return
        planner = self._import_planner(attempts)
        if planner is None:
            return
        self._mask = hold_signals()
        findings = [message["finding"] for message in (*attempts.take(), *attempts.beyond())]
        ready = {"ready": planner, "findings": findings, "output": self._output()}
        self._say({**ready, "threads": _other_threads()})
        self._share_memory()
        while (request := read_message(self.requests, limit=self.limits.max_message)) is not None:
            if self._runs == 1:  # where two runs came, more will
                warm_up()
                self._share_memory()
            self._run(request["run"])

    def _share_memory(self) -> None:
        gc.collect()
        gc.freeze()  # pages that a run only reads stay shared

    # --- before the planner -----------------------------------------------------------------------

    def _set_surroundings(self) -> None:
        os.environ.clear()
        os.environ.update(self.boot["env"])
        sys.dont_write_bytecode = True
        hook.prepare()
        _control_process(_PR_SET_CHILD_SUBREAPER, 1)
        limits.apply_to_child(self.limits)

    def _raise_walls(self, report: Callable[[Message], None]) -> list[Message]:
        level, walls = self.boot["level"], []
        target = proof.Target.from_dict(self.boot["target"])
        if level == "kernel":
            seal.seal(self.boot["sealed"], self.boot["judged"])
            walls.append(proof.prove_kernel(target))
        if level in ("kernel", "process"):
            hook.raise_wall(self._ground(), lambda _: None)
            walls.append(proof.prove_hook(target))
            hook.raise_wall(self._ground(), report)
        return walls

    def _ground(self, *extra: str) -> Ground:
        hosts, folders = self.boot["gaps"]
        return Ground(
            writable=(str(self.scratch), *folders, *extra),
            hosts=frozenset(hosts),
            copied=tuple(self.boot["copied"]),
            native=self.boot["level"] == "kernel",
            alone=True,
        )

    def _import_planner(self, attempts: Notes) -> Message | None:
        """Import and describe the planner; say why and return None if that fails."""
        sys.path[:] = self.boot["path"]
        sys.argv[:] = [""]
        description: Message = {}
        try:
            self.host = importlib.import_module(self.boot["host"])
            self.host.prepare()
            if not self.boot["import_anew"]:
                self.load_planner()
                description = self.host.describe(self.planner)
        except BaseException as error:  # noqa: BLE001 - whatever a module raises at import, SystemExit too, is told
            found = [message["finding"] for message in attempts.take()]
            failure = _describe_error(error)
            self._say({"failed": failure, "findings": found, "output": self._output()})
            return None
        return description

    def load_planner(self) -> None:
        """Import the planner: in the keeper, or else in each run."""
        self.planner = self.host.load(self.boot["planner"])
        self.imported = True

    # --- runs -------------------------------------------------------------------------------------

    def _run(self, request: Message) -> None:
        self._runs += 1
        folder = self.scratch / f"run-{self._runs}"
        output, planner_output = os.pipe()
        hook.let_through("os.fork")
        pid = os.fork()
        if pid == 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
            os.close(output)
            _Run(self, request, folder, planner_output).live_and_die()
        os.close(planner_output)
        watch = Watch(pid, output, self.requests, self.limits)
        ending = watch.until_end()
        sweep()
        os.close(output)
        shutil.rmtree(folder, ignore_errors=True)
        self._say({"exited": ending})
        self._skip_to_mark()

    def _skip_to_mark(self) -> None:
        """Drop answers that the run did not live to read, up to the parent's mark."""
        mark = bytes.fromhex(self.boot["mark"])
        seen = b""
        while not seen.endswith(mark):
            # After the mark the parent waits for word, so nothing is read that lies beyond it.
            part = os.read(self.requests, 1 << 16)
            if not part:
                raise SystemExit(0)
            seen = (seen + part)[-len(mark) :]
        self._say({"clear": True})

    def _say(self, message: Message) -> None:
        try:
            write_all(self.control, encode(message, limit=self.limits.max_message))
        except BrokenPipeError:
            raise SystemExit(0) from None

    def _output(self) -> str:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        size = os.fstat(self._printed).st_size
        kept = min(size, self.limits.max_output_kb * 1024)
        return os.pread(self._printed, kept, size - kept).decode("utf-8", "replace")


class _Run:
    """The process of one run, from the fork to its end."""

    def __init__(self, keeper: Keeper, request: Message, folder: Path, output: int) -> None:
        self._keeper = keeper
        self._request = request
        self._folder = folder
        self._output = output
        limit = keeper.limits.max_message
        self._channel = PipeChannel(keeper.requests, keeper.messages, limit=limit)

    def live_and_die(self) -> NoReturn:
        """Run the planner once and end this process, threads and exit handlers included."""
        code = _UNFINISHED
        try:
            self._channel.finish(self._outcome())
            code = 0
        except RunOver:
            code = 0
        except BaseException:  # noqa: BLE001 - a run must never return into the keeper's code
            with suppress(BaseException):
                traceback.print_exc()
        finally:
            with suppress(BaseException):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _settle(self) -> None:
        _control_process(_PR_SET_PDEATHSIG, _SIGKILL)
        os.close(self._keeper.control)
        os.dup2(self._output, 1)
        os.dup2(self._output, 2)
        os.close(self._output)
        os.environ.update(make_places(self._folder))
        tempfile.tempdir = None
        limits.apply_to_run(self._keeper.limits)
        level = self._keeper.boot["level"]
        if level != "guard":
            hook.raise_wall(self._keeper._ground(), lambda _: None)
            target = proof.Target.from_dict(self._keeper.boot["target"])
            proof.prove_in_run(target, kernel=level == "kernel")
            hook.raise_wall(self._keeper._ground(), self._channel.note)

    def _outcome(self) -> Message:
        keeper = self._keeper
        try:
            self._settle()
            if not keeper.imported:
                keeper.load_planner()
            request = {"patience_s": keeper.limits.wall_s * _SHARE, **self._request}
            result = keeper.host.run_in_child(keeper.planner, request, self._channel)
            if self._channel.too_large is not None:
                raise self._channel.too_large
            encode({"done": result}, limit=keeper.limits.max_message)
        except RunOver:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever ends the planner is told, not lost
            return {"failed": _describe_error(error)}
        return {"done": result}


def _other_threads() -> list[str]:
    """Name the threads that run beside this one: a fork would lack them and may inherit a lock.

    Those of native libraries are not counted: libraries that have some cope with forks themselves.
    """
    beside = sys._current_frames().keys() - {threading.get_ident()}
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return [sound_text(names.get(ident, "without a name")) for ident in sorted(beside)]


def _control_process(option: int, value: int) -> None:
    if _prctl is not None:
        _prctl(option, value, 0, 0, 0)


def _redirect_output(path: Path) -> int:
    """Send stdout and stderr to a file in scratch, stdin to nothing; return the file."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    printed = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((nothing, 0), (printed, 1), (printed, 2)):
        os.dup2(source, target)
    os.close(nothing)
    return printed


def _describe_error(error: BaseException) -> Message:
    attributes = {
        name: sound_text(value) if isinstance(value, str) else value
        for name, value in vars(error).items()
        if isinstance(value, str | int | float | bool | None)
    }
    return {
        "type": type(error).__name__,
        "module": type(error).__module__,
        "message": text_of(error),
        "attributes": attributes,
        "memory": isinstance(error, MemoryError),
        "protocol": isinstance(error, ProtocolError),
        "too large": isinstance(error, TooLarge),
        "traceback": traceback_of(error),
    }


def main() -> None:
    """Be the child."""
    keeper = Keeper()
    try:
        keeper.main()
    finally:  # the parent does the same, if it still can
        shutil.rmtree(keeper.scratch, ignore_errors=True)

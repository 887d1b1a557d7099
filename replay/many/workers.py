"""An executor of worker processes: one that is killed loses nothing but the call it had.

The pools of the standard library end as a whole when one of their processes is killed. Here the
call fails that the process had, with `WorkerLost`, and another process takes its place. Workers are
fresh interpreters, so that neither the caller's threads nor its ``__main__`` matter.
"""

from __future__ import annotations

import os
import pickle
import queue
import shutil
import signal
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import IO, Any, ParamSpec, TypeVar

from replay.many.work import close
from tracekit.errors import TracekitError
from tracekit.leftovers import HeldFolder

P = ParamSpec("P")
T = TypeVar("T")
_Call = tuple[Future[Any], Callable[..., Any], tuple[Any, ...], dict[str, Any]]

_HEADER = struct.Struct(">Q")
_BOOT = (
    "import os, sys; sys.path[:] = sys.argv[1].split(os.pathsep); "
    "from replay.many.workers import main; main()"
)
_LAST_WORDS = 300
_PATIENCE_S = 10.0


class WorkerLost(Exception):
    """The process that had the call ended before the call did."""


class Workers(Executor):
    """So many worker processes, each started when it is first needed; a context manager."""

    def __init__(self, jobs: int) -> None:
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._over = False
        self._lock = threading.Lock()
        self._workers: list[_Worker] = []
        self._threads = [
            threading.Thread(target=self._serve, name=f"replay-worker-{n}", daemon=True)
            for n in range(jobs)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have ``fn`` called in a worker; it, its arguments and its result are pickled."""
        with self._lock:
            if self._over:
                raise RuntimeError("the workers are shut down")
            future: Future[T] = Future()
            self._calls.put((future, fn, args, kwargs))
            return future

    def shutdown(
        self,
        wait: bool = True,  # noqa: FBT001, FBT002  # the signature of Executor
        *,
        cancel_futures: bool = False,
    ) -> None:
        """Take no more calls. With ``cancel_futures`` workers are ended in the middle of theirs."""
        with self._lock:
            self._over = True
            if cancel_futures:
                with suppress(queue.Empty):
                    while (call := self._calls.get_nowait()) is not None:
                        call[0].cancel()
                for worker in self._workers:
                    worker.kill()
            for _ in self._threads:
                self._calls.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    @property
    def pids(self) -> list[int]:
        """Give the process ids of the workers that live."""
        with self._lock:
            return [worker.pid for worker in self._workers if worker.alive]

    def _serve(self) -> None:
        worker: _Worker | None = None
        while (call := self._calls.get()) is not None:
            future, fn, args, kwargs = call
            if not future.set_running_or_notify_cancel():
                continue
            try:
                data = pickle.dumps((fn, args, kwargs))
                worker = worker or self._begin()
                good, value = worker.call(data)
            except WorkerLost as lost:
                self._end(worker)
                worker = None
                future.set_exception(lost)
            except Exception as error:  # noqa: BLE001  # the caller's to see: it cannot be pickled
                future.set_exception(error)
            else:
                (future.set_result if good else future.set_exception)(value)
        self._end(worker)

    def _begin(self) -> _Worker:
        worker = _Worker()
        with self._lock:
            self._workers.append(worker)
        return worker

    def _end(self, worker: _Worker | None) -> None:
        if worker is not None:
            with self._lock:
                self._workers.remove(worker)
            worker.close()


class _Worker:
    """One worker process and its folder for temporary files, which goes with it."""

    def __init__(self) -> None:
        self._held = HeldFolder("worker")
        self._folder = self._held.path
        self._said = self._folder / "said"
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BOOT, path, str(self._folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                env={**os.environ, "TMPDIR": str(self._folder)},
                start_new_session=True,  # Ctrl-C is for the parent, which then ends its workers
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def call(self, data: bytes) -> tuple[bool, Any]:
        """Have a call made; whether it returned, and what it returned or raised.

        Raises:
            WorkerLost: the process ended before.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            _send(self._process.stdin, data)
            answer = _receive(self._process.stdout)
        except OSError:
            answer = None
        if answer is None:
            raise WorkerLost(self._how_it_ended())
        good, value = pickle.loads(answer)  # noqa: S301  # our own process wrote it
        return bool(good), value

    def _how_it_ended(self) -> str:
        try:
            code = self._process.wait(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return "its worker process closed its pipe"
        if code < 0:
            return f"its worker process was killed ({signal.Signals(-code).name})"
        words = self._said.read_bytes()[-_LAST_WORDS:].decode("utf-8", "replace").strip()
        return f"its worker process ended with exit code {code}" + (f": {words}" if words else "")

    def kill(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()
        try:
            self._process.wait(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
        self._held.remove()


def _send(pipe: IO[bytes], data: bytes) -> None:
    pipe.write(_HEADER.pack(len(data)))
    pipe.write(data)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> bytes | None:
    """Read one message; None where the pipe ends before it does."""
    header = pipe.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    size = _HEADER.unpack(header)[0]
    data = pipe.read(size)
    return data if len(data) == size else None


def main() -> None:
    """Be a worker: make the calls that come, until the pipe is closed."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)  # what anybody prints must not end up among the answers
    try:
        while (data := _receive(requests)) is not None:
            _send(answers, _answer(data))
    except BrokenPipeError:  # the parent is gone
        pass
    finally:
        close()
        shutil.rmtree(sys.argv[2], ignore_errors=True)  # the parent does too, if it still can


def _answer(data: bytes) -> bytes:
    try:
        fn, args, kwargs = pickle.loads(data)  # noqa: S301  # the parent wrote it
        return pickle.dumps((True, fn(*args, **kwargs)))
    except TracekitError as error:
        return pickle.dumps((False, error))
    except Exception:  # noqa: BLE001  # the parent raises it
        return pickle.dumps((False, RuntimeError(traceback.format_exc())))


class Here(Executor):
    """Makes each call at once, in this process: for what no other process can be sent."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call ``fn`` now."""
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  # the future's to raise
            future.set_exception(error)
        return future

    def shutdown(
        self,
        wait: bool = True,  # noqa: FBT001, FBT002  # the signature of Executor
        *,
        cancel_futures: bool = False,
    ) -> None:
        """Let go of the planner."""
        close()

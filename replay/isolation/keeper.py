"""How the child's keeper watches a run: its output, its limits, its end, what it left behind."""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from replay.isolation.hook import let_through
from replay.isolation.limits import Limits, resident_mb

_TICK_MS = 50
_DYING_MS = 1


class Watch:
    """Watches one run until its process is gone."""

    def __init__(self, pid: int, output: int, parent: int, limits: Limits) -> None:
        self._pid = pid
        self._output = output
        self._parent = parent
        self._limits = limits
        self._deadline = time.monotonic() + limits.wall_s
        self._tail = bytearray()
        self._stopped: str | None = None
        self._status: int | None = None
        self._peak_mb = 0.0

    def until_end(self) -> dict[str, Any]:
        """Wait for the end of the run, bring it about if a limit is passed, and describe it."""
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        poll.register(self._parent, 0)  # only its hang-up: the run reads what comes
        listening = True
        while not self._is_over():
            for descriptor, event in poll.poll(_TICK_MS if listening else _DYING_MS):
                if descriptor == self._output and not self._listen():
                    poll.unregister(self._output)
                    listening = False
                if descriptor == self._parent and event & (select.POLLHUP | select.POLLERR):
                    poll.unregister(self._parent)
                    self._stop("parent gone")
            self._judge()
        while self._listen_now():
            pass
        return self._describe()

    def _is_over(self) -> bool:
        pid, status = os.waitpid(self._pid, os.WNOHANG)
        if pid == self._pid:
            self._status = status
        return self._status is not None

    def _judge(self) -> None:
        if self._stopped is not None:
            return
        size = resident_mb(self._pid)
        self._peak_mb = max(self._peak_mb, size)
        if size > self._limits.memory_mb:
            self._stop("memory")
        elif time.monotonic() > self._deadline:
            self._stop("timeout")

    def _stop(self, reason: str) -> None:
        self._stopped = reason
        with suppress(ProcessLookupError):
            let_through("os.kill")
            os.kill(self._pid, signal.SIGKILL)

    def _listen(self) -> bool:
        """Read some output; False at its end."""
        part = os.read(self._output, 1 << 16)
        self._tail += part
        del self._tail[: max(0, len(self._tail) - self._limits.max_output_kb * 1024)]
        return bool(part)

    def _listen_now(self) -> bool:
        """Read output that is there already; False if there is none."""
        return bool(select.select([self._output], [], [], 0)[0]) and self._listen()

    def _describe(self) -> dict[str, Any]:
        status = self._status or 0
        return {
            "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            "stopped": self._stopped,
            "output": self._tail.decode("utf-8", "replace"),
            "peak_mb": round(self._peak_mb),
        }


def hold_signals() -> set[int]:
    """Let signals with handlers of the planner's modules wait; return the mask from before.

    What waits here is not inherited: a run that takes the mask back gets its own signals alone.
    """
    handlers = ((number, signal.getsignal(number)) for number in signal.valid_signals())
    theirs = {n for n, at in handlers if callable(at) and at is not signal.default_int_handler}
    return signal.pthread_sigmask(signal.SIG_BLOCK, theirs)


def sweep() -> None:
    """End every process that the run left behind; they came to this one when it died."""
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        except ChildProcessError:
            return
        for pid in _children():
            with suppress(ProcessLookupError, PermissionError):
                let_through("os.kill")
                os.kill(pid, signal.SIGKILL)
        time.sleep(_DYING_MS / 1000)


def _children() -> list[int]:
    me = os.getpid()
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                stat = Path(f"/proc/{name}/stat").read_text("utf-8", "replace")
                if int(stat.rpartition(")")[2].split()[1]) == me:
                    found.append(int(name))
    return found

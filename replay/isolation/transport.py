"""How the parent holds its child: three pipes and a way to end it, with a sandbox or without."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any


@dataclass(frozen=True)
class Change:
    """A file change by the planner that was thrown away."""

    path: str
    """Relative to the working folder."""

    kind: str
    """``A`` added, ``M`` modified, ``D`` deleted."""


@dataclass
class Transport(ABC):
    """A running child."""

    requests: IO[bytes]
    """What the parent writes: requests to the keeper, answers to a run."""

    messages: IO[bytes]
    """What a run says."""

    control: IO[bytes]
    """What the keeper of the runs says; no run holds its other end."""

    @abstractmethod
    def kill(self) -> None:
        """End the child and everything that it started."""

    @abstractmethod
    def close(self, *, grace_s: float) -> tuple[Change, ...]:
        """End the child; after ``grace_s`` by force. Return what it changed in a copied folder."""

    def close_input(self) -> None:
        """Tell the child that nothing more will come."""
        with contextlib.suppress(OSError):
            self.requests.close()

    def close_outputs(self) -> None:
        """Stop listening."""
        self.messages.close()
        self.control.close()


def set_pipes(
    requests: IO[bytes] | Any, messages: IO[bytes] | Any, control: IO[bytes] | Any
) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    """Make the parent's ends non-blocking: a child that stops reading must not stop the parent."""
    for pipe in (requests, messages, control):
        os.set_blocking(pipe.fileno(), False)
    return requests, messages, control


@dataclass
class Plain(Transport):
    """A child without a sandbox, in a session of its own."""

    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """End the child and everything that it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def close(self, *, grace_s: float) -> tuple[Change, ...]:
        """End the child. Without a sandbox there is no copied folder."""
        self.close_input()
        try:
            self.process.wait(timeout=grace_s)
        except subprocess.TimeoutExpired:
            self.kill()
            self.process.wait()
        self.close_outputs()
        return ()


def start_plain(command: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> Plain:
    """Start the child without a sandbox."""
    process = subprocess.Popen(
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(env),
        cwd=cwd,
        close_fds=True,
        start_new_session=True,
        bufsize=0,
    )
    return Plain(*set_pipes(process.stdin, process.stdout, process.stderr), process=process)

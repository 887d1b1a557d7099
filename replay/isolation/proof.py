"""Each wall's proof: a connect, a write, a chmod and an exec that must fail.

The targets are real: the parent listens on loopback and owns a file outside scratch, so that each
attempt would succeed if the wall were not there. Afterwards the parent looks whether anything
arrived; the child's word alone proves nothing.

The keeper proves all of it before it imports the planner. The process of a run has its walls from
the keeper; it tries the first three again before it runs the planner: they take next to no time.
"""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from replay.isolation import hook

_CONTENT = b"untouched\n"
_MODE = 0o600


@dataclass(frozen=True)
class Target:
    """What the attempts aim at."""

    host: str
    port: int
    file: str

    def as_dict(self) -> dict[str, Any]:
        """Return it as it goes over the pipe."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Target:
        """Read it as it came over the pipe."""
        return cls(**values)


class Range:
    """The parent's side: puts the targets up, and looks whether one was hit."""

    def __enter__(self) -> Self:
        return self.open()

    def open(self) -> Self:
        """Put the targets up."""
        self._folder = tempfile.TemporaryDirectory(prefix="tracekit-proof-")
        self._file = Path(self._folder.name, "target")
        self._file.write_bytes(_CONTENT)
        self._file.chmod(_MODE)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take the targets away."""
        self._listener.close()
        self._folder.cleanup()

    @property
    def target(self) -> Target:
        """Return where to aim."""
        host, port = self._listener.getsockname()
        return Target(host, port, str(self._file))

    def hits(self) -> list[str]:
        """Return what arrived, in words; nothing if every wall held."""
        found = []
        with suppress(BlockingIOError):
            connection, _ = self._listener.accept()
            connection.close()
            found.append("a connection arrived")
        if self._file.read_bytes() != _CONTENT:
            found.append("the file was changed")
        if stat.S_IMODE(self._file.stat().st_mode) != _MODE:
            found.append("the file's mode was changed")
        return found


class WallFell(Exception):
    """A wall that stood in the keeper does not stand in the process of a run."""


def prove_kernel(target: Target) -> dict[str, Any]:
    """Attempt everything before the hook is up, so that it is the kernel that refuses."""
    return _prove("kernel", _attempts(target), _by_kernel)


def prove_hook(target: Target) -> dict[str, Any]:
    """Attempt everything; only a refusal by the hook counts."""
    return _prove("process", _attempts(target), _by_hook)


def prove_in_run(target: Target, *, kernel: bool) -> None:
    """Attempt what takes no time again, in the process of a run.

    Raises:
        WallFell: something was not refused by the wall that has to.
    """
    walls = [_prove("process", _attempts(target)[:-1], _by_hook)]
    if kernel:
        walls.append(_prove_kernel_in_run(target))
    for wall in walls:
        if not wall["held"]:
            raise WallFell(
                f"the {wall['name']} wall does not stand in the run's own process: "
                f"{wall['evidence']}"
            )


@hook.window
def _prove_kernel_in_run(target: Target) -> dict[str, Any]:
    with hook.trusted():
        return _prove("kernel", _attempts(target)[:-1], _by_kernel)


def _by_kernel(error: OSError) -> bool:
    # The target listens, so it is no target that refuses: a wall with gaps answers in that way.
    if isinstance(error, ConnectionRefusedError):
        return True
    return isinstance(error, PermissionError) and not isinstance(error, hook.Refused)


def _by_hook(error: OSError) -> bool:
    return isinstance(error, hook.Refused)


def _prove(
    name: str,
    attempts: Sequence[tuple[str, Callable[[], None]]],
    is_refusal: Callable[[OSError], bool],
) -> dict[str, Any]:
    said, held = [], True
    for what, attempt in attempts:
        try:
            attempt()
        except OSError as error:
            refused = is_refusal(error)
            said.append(f"{what} {'refused' if refused else f'failed otherwise ({error})'}")
        else:
            refused = False
            said.append(f"{what} WENT THROUGH")
        held = held and refused
    return {"name": name, "held": held, "evidence": ", ".join(said)}


def _attempts(target: Target) -> tuple[tuple[str, Callable[[], None]], ...]:
    return (
        ("connect", lambda: _connect(target)),
        ("write", lambda: _write(target.file)),
        ("chmod", lambda: os.chmod(target.file, 0o644)),
        ("exec", _execute),
    )


def _connect(target: Target) -> None:
    with socket.socket() as attempt:
        attempt.settimeout(2)
        attempt.connect((target.host, target.port))


def _write(path: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    os.write(descriptor, b"written\n")
    os.close(descriptor)


def _execute() -> None:
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", ":"], {})
    os.waitpid(pid, 0)

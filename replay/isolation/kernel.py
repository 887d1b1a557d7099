"""The wall of the kernel: the child is started inside a sandlock sandbox (Landlock and seccomp).

It may read every file, write only into scratch, reach no network, and signal or look into no other
process. Its working folder is copy-on-write: what it changes there is listed and thrown away.
Sandlock's supervisor runs in this process, the parent, so nothing in the child can talk to it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replay.isolation.gaps import NO_GAPS, Gaps
from replay.isolation.seal import JUDGED, SEALED, can_seal
from replay.isolation.transport import Change, Transport, set_pipes

UNSEEN = (
    "system calls made by C code, which the kernel refuses without a word to the report",
    "changes of metadata, execve and signals that only the kernel stopped",
    "locks on files by C code, and what it takes out of a FIFO: these are not refused",
)
"""What this wall cannot list, or does not stop."""

# Processes and threads of all runs in one child; far above a planner's, far below a fork bomb's.
_MAX_PROCESSES = 64


def kernel_available() -> tuple[bool, str]:
    """Tell whether the kernel's wall can stand here, and if not, why."""
    if not sys.platform.startswith("linux"):
        return False, f"kernel isolation needs Linux, this is {sys.platform}"
    if importlib.util.find_spec("sandlock") is None:
        return False, "the package sandlock is not installed: pip install 'tracekit-replay[kernel]'"
    if not can_seal():
        return False, "the system call numbers of this processor are not known"
    try:
        import sandlock  # a native library of 12 MB, wanted only here
    except (ImportError, OSError) as error:
        return False, f"the package sandlock cannot be loaded: {error}"
    have, need = sandlock.landlock_abi_version(), sandlock.min_landlock_abi()
    if have < need:
        return False, f"the kernel offers Landlock ABI {have}, sandlock needs {need}"
    return True, f"Landlock ABI {have}"


def sealed_numbers() -> list[int]:
    """Return the numbers of the system calls that the child forbids itself."""
    return list(_numbers(SEALED).values())


def judged_numbers() -> dict[str, int]:
    """Return the numbers of the system calls that the child forbids itself for some arguments."""
    return _numbers(JUDGED)


def _numbers(names: Iterable[str]) -> dict[str, int]:
    from sandlock.sandbox import _resolve_syscall

    numbers = {}
    for name in names:
        try:
            numbers[name] = int(_resolve_syscall(name))
        except ValueError:  # this processor has no such call
            continue
    return numbers


def copied_folder(cwd: Path, gaps: Gaps) -> Path | None:
    """Return the folder to keep a discarded copy of: the working folder, where that is one's own.

    A folder that holds the temporary files is not: the wall proves itself by a write there. And
    what is written by a child that really does things must arrive, or be refused.
    """
    if not gaps.discarded:
        return None
    here, temporary = cwd.resolve(), Path(tempfile.gettempdir()).resolve()
    return None if temporary.is_relative_to(here) else here


@dataclass
class Confined(Transport):
    """A child inside a sandbox."""

    process: Any
    """sandlock's handle."""

    def kill(self) -> None:
        """End the child and everything that it started."""
        self.process.kill()

    def close(self, *, grace_s: float) -> tuple[Change, ...]:
        """End the child and return what it changed in its copied folder."""
        self.close_input()
        try:
            result = self.process.wait(timeout=grace_s)
        finally:
            self.close_outputs()
        return tuple(Change(change.path, change.kind) for change in result.changes)


def start_confined(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    scratch: Path,
    storage: Path,
    gaps: Gaps = NO_GAPS,
) -> Confined:
    """Start the child inside a sandbox.

    Raises:
        OSError: sandlock did not start it.
    """
    from sandlock import BranchAction, Sandbox, StdioMode

    copied = copied_folder(cwd, gaps)
    sandbox = Sandbox(
        fs_readable=["/"],
        fs_writable=[str(scratch), os.devnull, *gaps.folders],
        net_allow=[f"tcp://{host}" for host in gaps.hosts],
        clean_env=True,
        env=dict(env),
        cwd=str(cwd),
        workdir=str(copied) if copied else None,
        fs_storage=str(storage) if copied else None,
        on_exit=BranchAction.ABORT,
        on_error=BranchAction.ABORT,
        max_processes=_MAX_PROCESSES,
    )
    try:
        process = sandbox.popen(
            list(command), stdin=StdioMode.PIPED, stdout=StdioMode.PIPED, stderr=StdioMode.PIPED
        )
    except RuntimeError as error:
        raise OSError(f"sandlock did not start the child: {error}") from error
    pipes = set_pipes(process.stdin, process.stdout, process.stderr)
    return Confined(*pipes, process=process)

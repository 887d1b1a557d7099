"""Folders for temporary files that go with the process which made them, also where it is killed.

A folder is locked as long as its process lives, which no signal can prevent from ending. Whoever
makes the first one of a process takes those away that nobody holds any more.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PREFIX, _MARK = "tracekit-", ".held"
_swept: set[str] = set()


class HeldFolder:
    """A new temporary folder; a context manager that gives its path.

    Args:
        kind: A word of its name.
    """

    def __init__(self, kind: str) -> None:
        parent = tempfile.gettempdir()
        if parent not in _swept:
            _swept.add(parent)
            sweep(parent)
        made = tempfile.mkdtemp(prefix=f"{_PREFIX}{kind}-", dir=parent)
        self._lock = os.open(made, os.O_RDONLY | os.O_DIRECTORY)
        with suppress(OSError):  # a file system without locks: nobody sweeps there either
            fcntl.flock(self._lock, fcntl.LOCK_SH)
        os.rename(made, made + _MARK)  # locked before anybody who sweeps can see it
        self.path = Path(made + _MARK).resolve()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *reason: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Take it away with all that is in it; doing it again changes nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


def sweep(parent: str) -> None:
    """Take away the folders in ``parent`` whose process is gone."""
    for path in list(_held(parent)):
        with suppress(OSError):
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(folder).st_uid == os.getuid():
                    fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)  # else it is held
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(folder)


def _held(parent: str) -> Iterator[str]:
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX) and entry.name.endswith(_MARK):
                yield entry.path

"""One file of a journal, held open: what is written to it is whole, and in this file.

The number that the system gave for a file is not ours alone: a program may close what it did not
open (one that becomes a daemon does) and get the same number for its next file. So it is moved out
of the way, and before a file is believed in or closed it is asked whether it is still this one.

What finds no room is taken back, so that nothing half stands in the file. And some room is kept
behind the first line: there it can be said what was lost although the disk has none left.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from tracekit.events import Blob
from tracekit.interruption import Suppressed, pass_on
from tracekit.journal_lines import blob_line

Seen = Literal["here", "deleted", "closed"]
_RESERVE = 768
"""Bytes of the room in which one line can be written later; until then they are blanks."""
_FACT = b'{"fact":'
_HIGH = 512
"""Numbers from here on are seldom met by who counts from below."""


class JournalFile:
    """A new file that this process has locked; the first writing begins with ``header``."""

    def __init__(self, path: Path, part: int, header: bytes) -> None:
        """Make it.

        Raises:
            FileExistsError: the name is taken.
            OSError: it could not be made.
        """
        self.path = path
        self.part = part
        self.kept: set[str] = set()
        """Digests of the blobs that it holds."""
        self.size = 0
        """Bytes that were written to it, without the room that is kept."""
        self.facts = self.seen = 0
        """Facts that were written to it, and how many of them before it was last looked at."""
        self.told = 0
        """Lost facts that lines of it tell of."""
        self.oldest_ns: int | None = None
        self._header = header
        self._room_at: int | None = None
        self._torn = False
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            self.fd = _out_of_the_way(os.open(path, flags, 0o600))
            fcntl.flock(self.fd, fcntl.LOCK_EX)
            self._identity = _identity(os.fstat(self.fd))
        except FileExistsError:
            raise
        except BaseException:
            _undo(path)
            raise

    def write(self, line: bytes, blobs: Sequence[Blob], count: int) -> None:
        """Append the lines of ``count`` facts behind those of ``blobs`` that it does not hold yet.

        Whole lines, and all of them or nothing.

        Raises:
            OSError: there is no room, say.
        """
        kept, data = self.kept, line
        for blob in blobs:
            if blob[0] not in kept:
                data = blob_line(blob) + data
        held = data is line
        if self._room_at is None or self._torn:
            data = self._opening() + data
        done = 0
        try:
            done = os.write(self.fd, data)
            while done < len(data) - 1:  # the end of the last line may come with the next one
                more = os.write(self.fd, data[done:])
                if not more:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                done += more
        except BaseException:
            self._take_back(done)
            raise
        if self._room_at is None:
            begin = os.fstat(self.fd).st_size - done + self._torn
            self._room_at = begin + len(self._header) - 1
            self.size -= _RESERVE
        self.size += done
        self._torn = done < len(data)
        if not held:
            for blob in blobs:
                kept.add(blob[0])
        self.facts += count

    def _opening(self) -> bytes:
        """What has to stand before the next line: the end of a torn one, and the first line."""
        end = b"\n" if self._torn else b""
        return (
            end if self._room_at is not None else end + self._header[:-1] + b" " * _RESERVE + b"\n"
        )

    def _take_back(self, done: int) -> None:
        """Leave nothing of what was not written; and nothing may run into what comes next."""
        self._torn = True
        with Suppressed(OSError):
            status = os.fstat(self.fd)
            if done and _identity(status) == self._identity:
                os.ftruncate(self.fd, status.st_size - done)

    def remember(self, line: bytes) -> None:
        """Put ``line`` into the room that was kept for one, in the place of an earlier one.

        Raises:
            OSError: it could not be done.
        """
        text = b"\n" + line.rstrip(b"\n") if line else b""
        if self._room_at is None or len(text) > _RESERVE:
            return
        # What is open for appending writes nowhere else.
        fd = os.open(self.path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if _identity(os.fstat(fd)) == self._identity:
                os.pwrite(fd, text.ljust(_RESERVE), self._room_at)
        finally:
            os.close(fd)

    def look(self) -> Seen:
        """Tell whether the number is still this file's, and all that was written still there."""
        least = self._least  # first: a handler may write meanwhile
        status = self._status()
        if status is None:
            return "closed"
        if not status.st_nlink or status.st_size < least:
            return "deleted"
        self.seen = self.facts
        return "here"

    def missing(self) -> int:
        """How many facts went with a file that is not here any more, and what it told was lost."""
        with Suppressed(OSError):
            status = os.stat(self.path)
            if _identity(status) == self._identity:
                if status.st_size >= self._least:  # the program took no more than its number
                    return 0
                if self._status() is None:
                    return self.facts - self.seen
                with open(self.path, "rb") as cut:
                    left = sum(line.lstrip(b"\0").startswith(_FACT) for line in cut)
                return max(0, self.facts + self.told - left)
        return self.facts + self.told

    @property
    def _least(self) -> int:
        """The size of a file that holds all that was written to it."""
        return self.size if self._room_at is None else self.size + _RESERVE

    def close(self) -> None:
        """Let go of it; what the number stands for meanwhile is left alone."""
        if self._status() is not None:
            with Suppressed(OSError):
                os.close(self.fd)
        self.fd = -1

    def _status(self) -> os.stat_result | None:
        try:
            status = os.fstat(self.fd)
        except OSError as error:
            pass_on(error)
            return None
        return status if _identity(status) == self._identity else None


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _undo(path: Path) -> None:
    """Remove an empty file that was to be ours, and close it under whatever number it is open.

    A handler that raises while the system opens a file leaves a number that nobody was told.
    """
    with Suppressed(OSError):
        status = os.stat(path)
        if status.st_size:
            return
        path.unlink()
        for number in map(int, os.listdir("/dev/fd")):
            with Suppressed(OSError):
                if _identity(os.fstat(number)) == _identity(status):
                    os.close(number)


def _out_of_the_way(fd: int) -> int:
    """Give an open file a high number, where the process may have one."""
    limit = os.sysconf("SC_OPEN_MAX")
    lowest = _HIGH if limit < 0 else min(_HIGH, limit // 2)
    try:
        high: int = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, lowest)
    except OSError as error:  # all the numbers there are in use
        pass_on(error)
        return fd
    os.close(fd)
    return high

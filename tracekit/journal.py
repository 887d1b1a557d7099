"""The journal: one append-only file of JSON lines a process, written before the caller goes on.

A line is a fact, or a blob that a later fact names. Each fact and the blobs it needs go to the
operating system in one unbuffered write, so a kill loses nothing that had returned and tears at
most the last line. The owner holds a lock on its file for as long as it lives; whoever can take
that lock knows that the owner is gone, even where its process id is in use again.

A file that is full or old is followed by another one, which is there and locked before the full one
is let go of: a process that lives always has a locked file. One that somebody deleted is followed
by another one, too, and what went with it is counted.

A signal handler may record, or raise, between any two steps of what is done here. So what it
records waits while a line or a file is being made, and files change places in one step.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import re
import socket
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from tracekit import conditions
from tracekit.drafts import Draft
from tracekit.events import Blob, Fact, LossNoted
from tracekit.interruption import Suppressed, pass_on
from tracekit.journal_file import JournalFile
from tracekit.journal_lines import count_on, fact_line, header_line, loss_line
from tracekit.journal_reading import open_journal
from tracekit.sampling import KEEP_ALL, Sampling

Durability = Literal["os", "disk"]
MAX_BYTES = 32 << 20
MAX_AGE_NS = 3_600_000_000_000
"""A file that has grown so big, or whose first fact is so old, is followed by another one."""
_LOOK_NS = 10_000_000
_FEW = 64
"""Whether the file is still there is asked once in so long, and at least once in so many facts."""
_LOSS = b'{"fact":"loss.noted"'
_CAREFULLY = (b'{"fact":"run.ended"', _LOSS)
"""And at the end of a run, so that none is over before it is known what was lost."""
_open_journals: weakref.WeakSet[Journal] = weakref.WeakSet()


class Journal:
    """The journal of this process in ``folder``; the file appears with the first fact."""

    def __init__(
        self,
        folder: Path,
        *,
        durability: Durability = "os",
        max_bytes: int = MAX_BYTES,
        max_age_ns: int = MAX_AGE_NS,
        sampling: Sampling = KEEP_ALL,
    ) -> None:
        self.folder = folder
        self._durability = durability
        self._max_bytes = max_bytes
        self._max_age_ns = max_age_ns
        self._sampling = sampling
        self._look_ns = min(_LOOK_NS, max_age_ns)
        self._ground = object()
        self._begin_anew()
        _open_journals.add(self)

    def _begin_anew(self) -> None:
        # Reentrant: garbage collection may end a step, and a signal handler begin one, in here.
        self._lock = threading.RLock()
        self._depth = 0
        """How deep in one another appends are."""
        self._file: JournalFile | None = None
        self._part = 1
        self._busy = False
        self._waiting: list[tuple[bytes, Sequence[Blob], int]] = []
        self._gone = 0
        """Facts that went with files of ours, and of which no line tells yet."""
        self._syncing = threading.RLock()
        self._synced_now: list[JournalFile] = []
        self._left: list[JournalFile] = []
        """Files that are to be closed, once nobody waits for the disk to have them."""
        self._appended = self._synced = 0
        self._looked_ns = self._look_at_ns = self._few = 0
        """So many more facts may be appended quickly: to a file that was there a moment ago."""
        self._numbers = itertools.count()
        host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())[:40] or "host"
        self.writer = f"{host}-{os.getpid()}-{conditions.now_ns()}"

    @property
    def path(self) -> Path:
        """The file that this process writes to."""
        return self._path(self._part)

    def _path(self, part: int) -> Path:
        return self.folder / f"{self.writer}{f'.p{part:06}' if part > 1 else ''}.jsonl"

    def stamp(self) -> tuple[str, int]:
        """Name the writer and number the next fact."""
        return self.writer, next(self._numbers)

    def ground(self) -> object:
        """What written values can be found by; another one after some went with a file."""
        self.stands()
        return self._ground

    def stands(self) -> bool:
        """Tell whether what was written last is still there; if not, go on in another file."""
        with self._lock:
            self._depth += 1
            try:
                self._look()
            finally:
                self._depth -= 1
            return self._busy or self._file is not None

    def write(self, fact: Fact, blobs: Sequence[Blob]) -> None:
        """Append ``fact`` and those of ``blobs`` that the file does not hold yet.

        Raises:
            OSError: they could not be written (disk full, folder gone, read-only).
        """
        self._append_fact(fact_line(fact), fact.timestamp_ns, blobs)

    def write_draft(self, draft: Draft, blobs: Sequence[Blob]) -> None:
        """Append a fact that is no model yet; else as ``write``."""
        self._append_fact(fact_line(draft), draft.timestamp_ns, blobs)

    def _append_fact(self, line: bytes, at_ns: int, blobs: Sequence[Blob]) -> None:
        append = self._append_carefully if line.startswith(_CAREFULLY) else self.append
        append(line, at_ns, blobs)

    def write_all(self, lines: Sequence[bytes], at_ns: int, blobs: Sequence[Blob]) -> None:
        """Append the lines of several facts in one go, and those of ``blobs`` that the file lacks.

        Raises:
            OSError: they could not be written; none of them counts as written.
        """
        self._append_carefully(b"".join(lines), at_ns, blobs)

    def append(self, line: bytes, at_ns: int, blobs: Sequence[Blob]) -> None:
        """Append the line of a step that began or ended at ``at_ns``; else as ``write``."""
        with self._lock:
            recent = self._looked_ns <= at_ns < self._look_at_ns
            if recent and self._few > 0 and not self._busy:
                self._few -= 1
                self._put(line, blobs, 1)
                if self._file is not None and self._file.size >= self._max_bytes:
                    self._turn_over()
                return
        self._append_carefully(line, at_ns, blobs)

    def _append_carefully(self, line: bytes, at_ns: int, blobs: Sequence[Blob]) -> None:
        with self._lock:
            self._depth += 1
            try:
                self._few = 0
                self._look()
                self._put_with_losses(line, blobs)
                self._turn_over_in_time(at_ns)
            finally:
                self._depth -= 1
            if self._durability == "os":
                if not self._busy:
                    self._looked_ns, self._few = at_ns, _FEW
                    self._look_at_ns = at_ns + self._look_ns
                return
            # Inside another append, another thread may wait for the disk and for our lock.
            nested, appended = self._depth > 0, self._appended
        if not nested:
            self._sync(appended)

    def _put_with_losses(self, line: bytes, blobs: Sequence[Blob]) -> None:
        """Append, and tell of what went with a file that was deleted, or elsewhere."""
        gone = 0
        if not self._busy:
            gone, self._gone = self._gone, 0
        try:
            told = loss_line(line, gone, seq=next(self._numbers)) if gone else b""
            self._put(line + told, blobs, line.count(b"\n") + bool(told))
        except BaseException:
            self._gone += gone
            raise
        file = self._file
        if file is not None and gone:
            file.facts, file.told = file.facts - 1, file.told + gone
        if file is not None and line.startswith(_LOSS):
            file.facts, file.told = file.facts - 1, file.told + count_on(line)
            with Suppressed(OSError):
                file.remember(b"")

    def remember_loss(self, fact: LossNoted) -> None:
        """Keep ``fact`` where there is room for it even on a full disk, until it can be appended.

        Raises:
            OSError: it could not be kept.
        """
        file = self._file
        if file is not None:
            file.remember(fact_line(fact))

    def _put(self, line: bytes, blobs: Sequence[Blob], count: int) -> None:
        """Append the lines of so many facts."""
        if self._busy:  # we are inside the writing of another line: it has to be whole first
            self._waiting.append((line, blobs, count))
            return
        self._busy = True
        try:
            self._write(line, blobs, count)
            while self._waiting:  # what came up in the middle of the writing
                self._write(*self._waiting.pop(0))
        except BaseException:
            self._few = 0
            raise
        finally:
            self._busy = False

    def _write(self, line: bytes, blobs: Sequence[Blob], count: int) -> None:
        file = self._file
        if file is None:
            file = self._create(self._part)
            self._file, self._part = file, file.part
        try:
            file.write(line, blobs, count)
        except OSError as error:
            if error.errno == errno.EFBIG and file.facts:  # a limit of files, and no full disk
                self._follow(file)
                self._close_left()
            elif error.errno == errno.EBADF and file.look() == "closed":
                self._let_go(file)
            else:
                raise
            self._write(line, blobs, count)
            return
        self._appended += count

    def _look(self) -> None:
        """Let go of a file that is not there any more."""
        file = self._file
        if file is not None and not self._busy and file.look() != "here":
            self._let_go(file)

    def _let_go(self, file: JournalFile) -> None:
        if self._file is file:
            self._file, self._few = None, 0
            self._gone += file.missing()
            self._ground = object()
            self._left.append(file)
            self._close_left()

    def _turn_over_in_time(self, at_ns: int) -> None:
        file = self._file
        if file is None:
            return
        if file.oldest_ns is None:
            file.oldest_ns = at_ns
        elif file.size >= self._max_bytes or at_ns - file.oldest_ns >= self._max_age_ns:
            self._turn_over()

    def _turn_over(self) -> None:
        """Go on in another file; as long as none can be made, in this one."""
        file = self._file
        if self._busy or file is None:
            return
        self._busy = True
        try:
            self._follow(file)
        except OSError as error:
            pass_on(error)
        finally:
            self._busy = False
        if self._file is not file:
            self._few = 0
            self._close_left()
        if self._waiting:
            self._put(*self._waiting.pop(0))

    def _follow(self, file: JournalFile) -> None:
        following = self._create(self._part + 1)
        try:
            following.write(b"", (), 0)
            if self._durability == "disk":
                os.fdatasync(file.fd)
                self._synced = self._appended
        except BaseException:
            following.close()
            following.path.unlink(missing_ok=True)
            raise
        self._left.append(file)
        self._file, self._part = following, following.part

    def _close_left(self) -> None:
        for file in [*self._left]:
            if file is not self._file and file not in self._synced_now:
                file.close()
                self._left[:] = [other for other in self._left if other is not file]

    def _sync(self, appended: int) -> None:
        """Wait until what was appended is on the disk; one wait serves all who wait meanwhile.

        Raises:
            OSError: the disk could not take it.
        """
        with self._syncing:
            if self._synced >= appended:
                return
            with self._lock:
                file, reached = self._file, self._appended
                if file is None:
                    return
                self._synced_now.append(file)
            try:
                os.fdatasync(file.fd)
                self._synced = max(self._synced, reached)
            finally:
                with self._lock:
                    if file in self._synced_now:
                        self._synced_now.remove(file)
                    self._close_left()

    def _create(self, part: int) -> JournalFile:
        """Make a file; a name that is taken (by one that was never finished, say) is left out."""
        for folder in (self.folder.parent, self.folder):  # parents get the usual mode
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        header = header_line(self._sampling, writer=self.writer, pid=os.getpid())
        while True:
            try:
                file = JournalFile(self._path(part), part, header)
                break
            except FileExistsError:
                part += 1
        try:
            if self._durability == "disk":
                _flush(self.folder)
        except BaseException:
            file.close()
            file.path.unlink(missing_ok=True)
            raise
        return file

    def close(self) -> None:
        """Release the file, so that any process may move it into the store."""
        with self._lock:
            for file in (self._file, *self._left):
                if file is not None and file not in self._synced_now:
                    file.close()
            waiting = self._synced_now
            self._begin_anew()
            self._synced_now, self._left = waiting, [*waiting]

    def after_fork(self) -> None:
        """Begin a file of our own: the inherited one, and its lock, are the parent's."""
        for file in (self._file, *self._left, *self._synced_now):
            if file is not None:
                file.close()
        self._begin_anew()


def _after_fork() -> None:
    for journal in list(_open_journals):
        journal.after_fork()


os.register_at_fork(after_in_child=_after_fork)


def _flush(folder: Path) -> None:
    """Put the names in ``folder`` on the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def writer_of(path: Path) -> str:
    """Name the process that writes ``path``; all its files have that name in common."""
    return path.name.partition(".")[0]


def owner_alive(path: Path) -> bool:
    """Whether the process that writes ``path`` still lives (it holds the lock)."""
    try:
        fd = open_journal(path)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(fd)

"""The journal: one append-only file of JSON lines a process, written before the caller goes on.

A line is a fact, or a blob that a later fact names. Each fact and the blobs it needs go to the
operating system in one unbuffered write, so a kill loses nothing that had returned and tears at
most the last line. The owner holds a lock on its file for as long as it lives; whoever can take
that lock knows that the owner is gone, even where its process id is in use again.

A file that is full or old is followed by another one, which is there and locked before the full one
is let go of: a process that lives always has a locked file.
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
from base64 import b64encode
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic_core import PydanticSerializationError

from tracekit import conditions
from tracekit.canonical import JsonValue
from tracekit.drafts import Draft
from tracekit.events import SCHEMA_VERSION, Blob, Fact, LossNoted
from tracekit.journal_reading import BLOB_HEAD, JSON, JSON_PAYLOAD, JournalContent, open_journal
from tracekit.sampling import KEEP_ALL, Sampling

Durability = Literal["os", "disk"]
MAX_BYTES = 32 << 20
MAX_AGE_NS = 3_600_000_000_000
"""A file that has grown so big, or whose first fact is so old, is followed by another one."""
_LOOK_NS = 10_000_000
_FEW = 64
"""Whether the file is still there is asked once in so long, and at least once in so many facts."""
_RUN_OVER = b'{"fact":"run.ended"'
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
        self._begin_anew()
        _open_journals.add(self)

    def _begin_anew(self) -> None:
        # Reentrant: garbage collection may end a step, and a signal handler begin one, in here.
        self._lock = threading.RLock()
        self._fd: int | None = None
        self._torn = False
        self._busy = False
        self._waiting: list[bytes] = []
        self._kept: set[str] = set()
        self._written = self._size = self._looked_ns = 0
        self._oldest_ns: int | None = None
        self._part = 1
        self._syncing = threading.RLock()
        self._sync_fd: int | None = None
        self._appended = self._synced = 0
        self._few = 0
        """So many more facts may be appended quickly: to an open, whole file that is not full."""
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

    def write(self, fact: Fact, blobs: Sequence[Blob]) -> None:
        """Append ``fact`` and those of ``blobs`` that the file does not hold yet.

        Raises:
            OSError: they could not be written (disk full, folder gone, read-only).
        """
        self.append(_fact_line(fact), fact.timestamp_ns, blobs)

    def write_draft(self, draft: Draft, blobs: Sequence[Blob]) -> None:
        """Append a fact that is no model yet; else as ``write``."""
        self.append(_fact_line(draft), draft.timestamp_ns, blobs)

    def write_all(self, lines: Sequence[bytes], at_ns: int, blobs: Sequence[Blob]) -> None:
        """Append the lines of several facts in one go, and those of ``blobs`` that the file lacks.

        Raises:
            OSError: they could not be written; none of them counts as written.
        """
        with self._lock:
            self._append_carefully(b"".join(lines), at_ns, blobs)
            self._written += len(lines) - 1
            self._appended += len(lines) - 1
            appended = self._appended
        if self._durability == "disk":
            self._sync(appended)

    def append(self, line: bytes, at_ns: int, blobs: Sequence[Blob]) -> None:
        """Append the line of a fact that happened at ``at_ns``; else as ``write``."""
        with self._lock:
            quiet = (
                self._few > 0 and not self._busy and 0 <= at_ns - self._looked_ns < self._look_ns
            )
            if quiet and not line.startswith(_RUN_OVER):
                self._append_quickly(line, blobs)
                if self._size >= self._max_bytes:
                    self._turn_over()
                return
            self._append_carefully(line, at_ns, blobs)
            appended = self._appended
        if self._durability == "disk":
            self._sync(appended)

    def _append_quickly(self, line: bytes, blobs: Sequence[Blob]) -> None:
        """Append to a file that was there a moment ago, whole, locked and not yet full."""
        kept, data = self._kept, line
        for blob in blobs:
            if blob[0] not in kept:
                data = _blob_line(blob) + data
        self._busy, self._few = True, self._few - 1
        done = 0
        try:
            done = os.write(self._fd, data)  # type: ignore[arg-type]  # it is open: see `_few`
        finally:
            self._busy = False
            self._size += done
            if done < len(data) or self._size >= self._max_bytes:
                self._few, self._torn = 0, 0 < done < len(data)
        while self._waiting:  # what came up in the middle of the writing
            self._append(self._waiting.pop(0))
        if done < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if data is not line:
            kept.update([blob[0] for blob in blobs])
        self._written += 1
        self._appended += 1

    def _append_carefully(self, line: bytes, at_ns: int, blobs: Sequence[Blob]) -> None:
        self._few = 0
        gone = self._let_go_of_a_deleted_file()
        fresh = [blob for blob in blobs if blob.digest not in self._kept]
        data = b"".join([*map(_blob_line, fresh), line])
        if gone:
            data += _loss_line(line, gone, seq=next(self._numbers))
        self._append(data)
        self._kept.update([blob.digest for blob in fresh])
        self._written += 1
        self._appended += 1
        if self._oldest_ns is None:
            self._oldest_ns = at_ns
        elif self._size >= self._max_bytes or at_ns - self._oldest_ns >= self._max_age_ns:
            self._turn_over()
        if self._durability == "os" and not self._busy:
            self._looked_ns, self._few = at_ns, _FEW

    def _let_go_of_a_deleted_file(self) -> int:
        """Begin another file where somebody deleted ours; how many facts went with it."""
        if self._fd is None or self._busy or os.fstat(self._fd).st_nlink:
            return 0
        os.close(self._fd)
        gone = self._written
        self._begin_file(None)
        return gone

    def _begin_file(self, fd: int | None) -> None:
        self._fd, self._torn, self._kept = fd, False, set()
        self._written, self._size, self._oldest_ns = 0, 0, None

    def _turn_over(self) -> None:
        """Go on in another file; as long as none can be made, in this one."""
        if self._busy or self._fd is None:
            return
        try:
            following = self._create(self._path(self._part + 1))
        except OSError:
            return
        try:
            header = self._header()
            if os.write(following, header) < len(header):
                raise OSError("no room for the first line")
            if self._durability == "disk":
                os.fdatasync(self._fd)
                self._synced = self._appended
        except OSError:
            os.close(following)
            self._path(self._part + 1).unlink(missing_ok=True)
            return
        os.close(self._fd)
        self._part += 1
        self._begin_file(following)

    def _sync(self, appended: int) -> None:
        """Wait until what was appended is on the disk; one wait serves all who wait meanwhile.

        Raises:
            OSError: the disk could not take it.
        """
        with self._syncing:
            if self._synced >= appended:
                return
            with self._lock:
                if self._fd is None:
                    return
                reached, self._sync_fd = self._appended, os.dup(self._fd)
            try:
                os.fdatasync(self._sync_fd)
                self._synced = reached
            finally:
                os.close(self._sync_fd)
                self._sync_fd = None

    def _append(self, data: bytes) -> None:
        if self._busy:  # we are inside the writing of another line: it has to be whole first
            self._waiting.append(data)
            return
        self._busy = True
        try:
            self._write_whole(data)
            while self._waiting:
                self._write_whole(self._waiting.pop(0))
        finally:
            self._busy = False

    def _write_whole(self, data: bytes) -> None:
        if self._fd is None:
            self._fd = self._create(self.path)
            data = self._header() + data
        if self._torn:
            data = b"\n" + data
        done = 0
        try:
            while done < len(data):
                done += os.write(self._fd, data[done:] if done else data)
        finally:
            self._size += done
            # What stands before a fault must not run into the next line.
            self._torn = done < len(data) and (self._torn or done > 0)

    def _header(self) -> bytes:
        return _header_line(self._sampling, writer=self.writer, pid=os.getpid())

    def _create(self, path: Path) -> int:
        for folder in (self.folder.parent, self.folder):  # parents get the usual mode
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        fd = os.open(path, flags, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if self._durability == "disk":
                _flush(self.folder)
        except OSError:
            os.close(fd)
            raise
        return fd

    def close(self) -> None:
        """Release the file, so that any process may move it into the store."""
        with self._lock:
            if self._fd is not None:
                os.close(self._fd)
            self._begin_anew()

    def after_fork(self) -> None:
        """Begin a file of our own: the inherited one, and its lock, are the parent's."""
        for fd in (self._fd, self._sync_fd):
            if fd is not None:
                os.close(fd)
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


def part_of(content: JournalContent, facts: Sequence[Fact], blobs: Iterable[Blob]) -> bytes:
    """Write some facts of a journal, and the blobs that they need, as a journal of their own."""
    header = _header_line(content.sampling, schema_version=content.schema_version)
    return b"".join([header, *map(_blob_line, blobs), *map(_fact_line, facts)])


def _header_line(sampling: Sampling, **said: JsonValue) -> bytes:
    header: dict[str, JsonValue] = {"schema_version": SCHEMA_VERSION, **said}
    if not sampling.keeps_all:
        header["sampling"] = sampling.as_dict()
    return orjson.dumps({"journal": header}) + b"\n"


def writer_of(path: Path) -> str:
    """Name the process that writes ``path``; all its files have that name in common."""
    return path.name.partition(".")[0]


def _fact_line(fact: Fact | Draft) -> bytes:
    if isinstance(fact, Draft):
        try:
            return fact.line() + b"\n"
        except TypeError:  # half a character in some name
            fact = fact.fact()
    try:
        body = fact.model_dump_json(exclude_defaults=True).encode()
    except PydanticSerializationError:  # half a character in some name: U+FFFD is left of it
        body = orjson.dumps(_sound(fact.model_dump(exclude_defaults=True)))
    # The tag is a default and would be left out with the other defaults.
    return b'{"fact":"' + fact.fact.encode() + b'",' + body[1:] + b"\n"


def _sound(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_sound(key): _sound(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sound(item) for item in value]
    return value


def _loss_line(line: bytes, count: int, *, seq: int) -> bytes:
    """The line that says how many facts were lost, in the run of the first fact on ``line``."""
    told = orjson.loads(line.partition(b"\n")[0])
    same = {name: told[name] for name in ("writer", "timestamp_ns", "run_id", "trace_id")}
    return _fact_line(
        LossNoted(
            **same,
            seq=seq,
            span_id=conditions.new_span_id(),
            count=count,
            reason="somebody deleted the journal that held them",
        )
    )


def _blob_line(blob: Blob) -> bytes:
    if blob.media_type == JSON and b"\n" not in blob.data:  # stands in the line as it is
        return BLOB_HEAD + blob.digest.encode() + JSON_PAYLOAD + blob.data + b"}}\n"
    content: dict[str, str] = {"digest": blob.digest, "media_type": blob.media_type}
    try:
        content["text"] = blob.data.decode()
    except UnicodeDecodeError:
        content["base64"] = b64encode(blob.data).decode()
    return orjson.dumps({"blob": content}) + b"\n"


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

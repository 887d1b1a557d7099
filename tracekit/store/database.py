"""The DuckDB file: how it is made, opened and let go of, and what is said when it cannot be.

It is held for the length of one call and no longer: between calls any process may have it, and a
process that is forked inherits nothing of it. A call that finds it held looks again for a moment
and then names the holder.
"""

from __future__ import annotations

import os
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import duckdb
import pyarrow as pa

from tracekit.conditions import Conditions
from tracekit.errors import StoreBusy, StoreError, StoreVersionError
from tracekit.events import SCHEMA_VERSION
from tracekit.store.folder import Folder, flush, make_folder
from tracekit.store.places import journal_folder
from tracekit.store.schema import BLOBS, EVENTS, RUNS, SPARED

_T = TypeVar("_T")
STORAGE = "v1.5.0"
"""The oldest DuckDB that reads the file; newer ones read and write it as well."""
SCHEMAS: dict[str, pa.Schema] = {"events": EVENTS, "blobs": BLOBS, "runs": RUNS}
META = "tracekit"
_LOOKS, _PAUSE_S = 20, 0.1
_HELD = re.compile(r"held in (?P<program>.*?) \(PID (?P<pid>\d+)\)")
_SYSTEM = re.compile(
    r"No space left on device|Disk quota exceeded|File too large|Read-only file system"
    r"|Permission denied|Operation not permitted|Too many open files|Input/output error"
)
_NEWER = re.compile(r"database file with version number|serialized by a newer|newer version", re.I)

_turns: defaultdict[str, threading.RLock] = defaultdict(threading.RLock)
os.register_at_fork(after_in_child=_turns.clear)


@dataclass(frozen=True, slots=True)
class Beside(Folder):
    """The folder beside a DuckDB file: its journals, and what was put aside of them."""

    @property
    def journals(self) -> Path:
        """Where processes that record write."""
        return self.path


@dataclass(frozen=True, slots=True)
class Database:
    """A DuckDB file that is known to be a store of this version, or that is not there yet."""

    path: Path
    redaction_key_id: str | None = None

    @property
    def beside(self) -> Beside:
        """The folder of its journals."""
        return Beside(journal_folder(self.path), redaction_key_id=self.redaction_key_id)

    @contextmanager
    def opened(self, *, write: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
        """Hold the file until the block ends; where none is there yet, it reads as empty.

        Raises:
            StoreBusy: another process holds it.
            StoreError: it cannot be opened or read, or the block could not do what it does.
        """
        with turn(self.path):
            try:
                if write and not self.path.exists():
                    self._make()
                base = self._connect(write=write)
            except duckdb.Error as error:
                raise unreadable(self.path, error) from error
            try:
                yield base
            except duckdb.Error as error:
                raise unreadable(self.path, error) from error
            finally:
                with suppress(duckdb.Error):  # what failed was told, and is rolled back
                    base.close()

    def _connect(self, *, write: bool) -> duckdb.DuckDBPyConnection:
        if self.path.exists():
            base = patiently(
                self.path, lambda: duckdb.connect(str(self.path), not write, self._settings())
            )
            if not self._is_half_made(base):
                return base
            if write:
                self._make_tables(base)
                return base
            base.close()
        base = duckdb.connect()
        self._make_tables(base)
        return base

    def _is_half_made(self, base: duckdb.DuckDBPyConnection) -> bool:
        """Tell whether the disk was full when the file was made: it holds nothing, not a table.

        What was recorded is in the folder beside it, which is made first.
        """
        return not holds_tables(base) and self.beside.path.is_dir()

    def make_log(self) -> None:
        """Make the log that a change is written to first: one that is there keeps its mode."""
        path = self.path.with_name(f"{self.path.name}.wal")
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))

    def _settings(self) -> dict[str, str | bool | int | float | list[str]]:
        return {
            "storage_compatibility_version": STORAGE,
            "disabled_optimizers": SPARED,
            "temp_directory": str(self.beside.path / ".spill"),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }

    def _make(self) -> None:
        """Make the file whole under another name, and give it its own where nobody has it yet."""
        make_folder(self.beside.path)
        new = self.beside.path / f".{Conditions.system().new_uuid7()}.new"
        try:
            with duckdb.connect(str(new), config=self._settings()) as base:
                self._make_tables(base)
                base.execute("CHECKPOINT")  # closing would say nothing of a disk that is full
            new.chmod(0o600)
            flush(new)
            _put(new, self.path)
            flush(self.path.absolute().parent)
        finally:
            for left in (new, new.with_name(f"{new.name}.wal")):
                left.unlink(missing_ok=True)

    def _make_tables(self, base: duckdb.DuckDBPyConnection) -> None:
        """Make all tables, or none."""
        base.execute("BEGIN")
        for name, schema in SCHEMAS.items():
            base.register("columns", schema.empty_table())
            base.execute(f"CREATE TABLE {name} AS SELECT * FROM columns")
            base.unregister("columns")
        base.execute(f"CREATE TABLE {META} (schema_version INTEGER, key_id VARCHAR)")
        base.execute(f"INSERT INTO {META} VALUES (?, ?)", [SCHEMA_VERSION, self.redaction_key_id])
        base.execute("COMMIT")


def open_database(path: Path, *, create: bool, redaction_key_id: str | None = None) -> Database:
    """Check that ``path`` is a DuckDB file with a store in it that this version reads.

    Raises:
        StoreBusy: another process holds it.
        StoreVersionError: a newer version wrote it.
        StoreError: it is no store, or cannot be made.
    """
    made = Database(path, redaction_key_id)
    if path.is_dir():
        raise StoreError(
            f"{path} is a folder, and a store of this name is a DuckDB file",
            hint="give a folder another name, or a file that does not exist yet",
        )
    if not path.exists():
        if create:
            with _told(path), made.opened(write=True):
                pass
        elif not made.beside.path.is_dir():  # else a recorder has begun; nobody has settled yet
            raise StoreError(
                f"there is no trace store at {path}",
                hint="record or import runs first, or name the store with --store PATH",
            )
        return made
    with made.opened() as base:
        return Database(path, _checked(path, base))


def _put(new: Path, path: Path) -> None:
    """Give a file its name, unless somebody else was quicker."""
    try:
        os.link(new, path)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        new.rename(path)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path} cannot be made: {error.strerror}") from error


def _checked(path: Path, base: duckdb.DuckDBPyConnection) -> str | None:
    """Check what the file says of itself; give the id of its redaction key."""
    names = {row[0] for row in base.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    if META not in names:
        raise StoreError(
            f"{path} is a DuckDB file, but no trace store (it has no table {META!r})",
            hint="give a path that does not exist yet; nothing was changed",
        )
    row = base.execute(f"SELECT schema_version, key_id FROM {META}").fetchone()
    if row is None or not isinstance(row[0], int):
        raise StoreError(f"{path} is damaged: it does not say which schema_version it has")
    if row[0] > SCHEMA_VERSION:
        raise StoreVersionError(
            f"{path} was written by a newer version of tracekit (schema {row[0]},"
            f" this one reads up to {SCHEMA_VERSION})",
            hint="upgrade tracekit-replay; nothing was changed",
        )
    if missing := sorted(SCHEMAS.keys() - names):
        raise StoreError(f"{path} is damaged: it has no table {', '.join(missing)}")
    return row[1] if isinstance(row[1], str) else None


def holds_tables(base: duckdb.DuckDBPyConnection, *, of: str | None = None) -> bool:
    """Tell whether there is any table, in all or in one attached file."""
    found = "SELECT 1 FROM duckdb_tables() WHERE ? IS NULL OR database_name = ? LIMIT 1"
    return bool(base.execute(found, [of, of]).fetchall())


@contextmanager
def turn(path: Path) -> Iterator[None]:
    """Wait for the other threads of this process; two would open the file in two ways."""
    with _turns[os.path.realpath(path)]:
        yield


def patiently(path: Path, connect: Callable[[], _T]) -> _T:
    """Connect to the file, with a moment's patience for whoever holds it.

    Raises:
        StoreBusy: another process holds it.
        StoreError: it cannot be opened.
    """
    for _ in range(_LOOKS):
        try:
            return connect()
        except duckdb.Error as error:
            told = str(error)
            if "lock on file" not in told and "different configuration" not in told:
                raise unreadable(path, error) from error
        threading.Event().wait(_PAUSE_S)
    raise _busy(path, told)


def _busy(path: Path, told: str) -> StoreBusy:
    found = _HELD.search(told)
    holder = "another connection of this process"
    if found is not None:
        holder = f"process {found['pid']} ({_command(found['pid'], found['program'])})"
    elif "lock on file" in told:
        holder = "another process"
    return StoreBusy(
        f"{path} is held by {holder}, and a DuckDB file is for one process at a time",
        hint="wait for it or end it; what is recorded meanwhile is kept in"
        f" {journal_folder(path)} and settled later. A folder store is for many processes:"
        f" tracekit convert {path} {path.with_suffix('')}",
    )


def _command(pid: str, program: str) -> str:
    """Give the command line of a process as far as this system tells it."""
    try:
        words = Path("/proc", pid, "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        words = [program]
    text = " ".join(word for word in words if word)[:80]
    return "".join(sign if sign.isprintable() else " " for sign in text) or program


def unreadable(path: Path, error: duckdb.Error) -> StoreError:
    """Say in our words why the file cannot be used."""
    told = (str(error).splitlines() or [type(error).__name__])[0][:200]
    if _NEWER.search(told):
        return StoreVersionError(
            f"{path} was written by a newer DuckDB than {duckdb.__version__}: {told}",
            hint="upgrade the duckdb package; nothing was changed",
        )
    if "not a valid DuckDB database" in told:
        return StoreError(
            f"{path} is no DuckDB file, or its beginning is damaged",
            hint="give another path; nothing was changed",
        )
    if (reason := _SYSTEM.search(str(error))) is not None:
        return StoreError(
            f"{path} cannot be read or written: {reason[0]}", hint=_hint(path, reason[0])
        )
    return StoreError(
        f"{path} cannot be read or written: {told}",
        hint=f"check it with: tracekit verify --store {path}",
    )


def _hint(path: Path, reason: str) -> str:
    match reason:
        case "No space left on device" | "Disk quota exceeded" | "File too large":
            return f"make room there; what is recorded is kept in {journal_folder(path)}"
        case "Read-only file system" | "Permission denied" | "Operation not permitted":
            return "nothing was changed; see who may read and write there"
        case _:
            return f"check it with: tracekit verify --store {path}"

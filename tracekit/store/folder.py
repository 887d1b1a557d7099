"""The store's folder: how files appear in it, who may write, and its ``store.toml``.

A file is written under a temporary name, handed to the disk, and renamed; nothing is changed in
place. The rename of ``runs/<batch>.parquet`` commits a batch: the other files of the batch are
renamed before it, and a file whose batch has no such file does not belong to the store. (Presence
of the run's row alone would not do: a run may come in several batches, from several processes.)
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tracekit.conditions import Conditions
from tracekit.errors import CaseError, StoreError, StoreVersionError
from tracekit.events import SCHEMA_VERSION
from tracekit.textfiles import parse_toml

TEMPORARY = ".tmp"
"""How the name of a file ends that is being written."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that is known to be a store of a version that this code reads."""

    path: Path
    schema_version: int = SCHEMA_VERSION
    redaction_key_id: str | None = None
    """Names the key that the placeholders in this store were made with."""

    @property
    def journals(self) -> Path:
        """Where processes that record write."""
        return self.path / "journal"

    @property
    def runs(self) -> Path:
        """Where the catalogue files are: one a batch, and the batch's commit."""
        return self.path / "runs"

    @property
    def damaged(self) -> Path:
        """Where settled journals are put aside that hold lines nobody could read."""
        return self.path / "damaged"

    def relative(self, path: Path) -> str:
        """Name ``path`` as the store's own files name it."""
        return path.relative_to(self.path).as_posix()


def open_folder(path: Path, *, create: bool, redaction_key_id: str | None = None) -> Folder:
    """Check that ``path`` is a store that this version reads, or make it one.

    Raises:
        StoreVersionError: a newer version wrote it.
        StoreError: it is no store, or cannot be made.
    """
    toml = path / "store.toml"
    if toml.is_file():
        return _read_toml(path, toml)
    if (path / "journal").is_dir():  # a recorder made it; nobody has settled yet
        return Folder(path, redaction_key_id=redaction_key_id)
    if not create:
        raise _no_store(path)
    if path.exists() and not path.is_dir():
        raise StoreError(f"{path} is a file, and a store is a folder", hint="give another path")
    if path.is_dir() and any(path.iterdir()):
        raise StoreError(
            f"{path} is a folder with other things in it, not a trace store",
            hint="give a path that does not exist yet, or an empty folder",
        )
    try:
        make_folder(path)
        return describe(Folder(path, redaction_key_id=redaction_key_id))
    except OSError as error:
        raise StoreError(f"{path} cannot be made: {_reason(error)}") from error


def describe(folder: Folder) -> Folder:
    """Write ``store.toml`` where there is none."""
    toml = folder.path / "store.toml"
    if toml.exists():
        return folder
    lines = ["# A tracekit trace store. Nothing in this folder is changed in place.\n"]
    lines.append(f"schema_version = {SCHEMA_VERSION}\n")
    if folder.redaction_key_id is not None:
        lines.append(f'redaction_key_id = "{folder.redaction_key_id}"\n')
    data = "".join(lines).encode()
    publish([(toml, lambda temporary: _write_bytes(temporary, data))])
    return folder


def _read_toml(path: Path, toml: Path) -> Folder:
    try:
        fields = parse_toml(toml.read_text("utf-8-sig"), path=str(toml))
        version = fields["schema_version"]
        if type(version) is not int or version < 1:
            raise TypeError
    except OSError as error:
        raise StoreError(f"{toml} cannot be read: {_reason(error)}") from error
    except (CaseError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{toml} is damaged: it does not say which schema_version the store has",
            hint=f"write a line 'schema_version = {SCHEMA_VERSION}' to it",
        ) from error
    if version > SCHEMA_VERSION:
        raise StoreVersionError(
            f"{path} was written by a newer version of tracekit (schema {version},"
            f" this one reads up to {SCHEMA_VERSION})",
            hint="upgrade tracekit-replay; nothing was changed",
        )
    key_id = fields.get("redaction_key_id")
    return Folder(path, version, key_id if isinstance(key_id, str) else None)


def _no_store(path: Path) -> StoreError:
    hint = "record or import runs first, or name the store with --store PATH"
    if path.is_dir():
        return StoreError(f"{path} is a folder, but no trace store (no store.toml)", hint=hint)
    if path.exists():
        return StoreError(f"{path} is a file, and a trace store is a folder", hint=hint)
    return StoreError(f"there is no trace store at {path}", hint=hint)


@contextmanager
def locked(folder: Folder, *, wait: bool = True) -> Iterator[bool]:
    """Hold the store's one write lock; yield False where it is taken and ``wait`` is false.

    The lock goes with the process, so that a kill leaves none behind.

    Raises:
        OSError: the folder cannot be written.
    """
    fd = os.open(folder.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(fd)


def publish(files: list[tuple[Path, Callable[[Path], None]]]) -> None:
    """Write all ``files`` under temporary names, then rename them in the given order.

    A reader that finds the last one finds them all, after a power cut as well.

    Raises:
        OSError: one could not be written; the last one was not renamed, and what was written
            under temporary names is removed.
    """
    pairs = [(path, path.with_name(f".{path.name}{TEMPORARY}")) for path, _ in files]
    try:
        for (path, temporary), (_, write) in zip(pairs, files, strict=True):
            make_folder(path.parent)
            write(temporary)
            os.chmod(temporary, 0o600)
            flush(temporary)
        for path, temporary in pairs:
            os.replace(temporary, path)
            flush(path.parent)
    except BaseException:
        for _, temporary in pairs:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        raise


def make_folder(path: Path) -> None:
    """Make ``path`` and the folders above it, closed to others."""
    if path.is_dir():
        return
    if not path.parent.exists():
        make_folder(path.parent)
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
        flush(path.parent)


def fresh_batch_name(folder: Folder) -> str:
    """Name a batch that does not exist yet; names sort by the time they were made.

    The system's clock and ids, always: a replay's conditions are not for what the store is made of.
    """
    system = Conditions.system()
    while True:
        name = system.new_uuid7()
        if not (folder.runs / f"{name}.parquet").exists():
            return name


def _write_bytes(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def flush(path: Path) -> None:
    """Hand a file or a folder to the disk.

    Raises:
        OSError: the disk did not take it.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _reason(error: OSError) -> str:
    return error.strerror or type(error).__name__

"""What the hook refuses of files: which path an operation touches, and whether it may.

Also the ground on which the planner stands, and what an attempt to leave it is.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import unquote

from replay.isolation.seal import asks

Kind = Literal["network", "process", "native", "signal", "file", "system", "tool"]

SHOWN = 200
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_WRITING_MODES = frozenset("wax+")
_DESCRIPTORS = "/proc/self/fd" if sys.platform.startswith("linux") else "/dev/fd"
# F_SETOWN_EX has no name; its value is Linux's.
_OWNERS = (fcntl.F_SETOWN, 15) if sys.platform.startswith("linux") else (fcntl.F_SETOWN,)
_HARMLESS = frozenset({os.devnull, "/dev/full", "/dev/zero"})
_PROC_OF_OTHERS = re.compile(r"/proc/(?P<pid>\d+)/(task/\d+/)?(environ|mem|fd|root|cwd|maps)\b")


@dataclass(frozen=True)
class Ground:
    """Where the planner stands: what it may write, and what lies beneath."""

    writable: tuple[str, ...]
    """Folders, resolved, whose contents are thrown away; writes there are not mentioned."""

    copied: tuple[str, ...] = ()
    """Folders that the kernel keeps a discarded copy of; writes there are let through, listed."""

    hosts: frozenset[str] = frozenset()
    """Hosts with their port that may be reached, by name and by address."""

    native: bool = False
    """C libraries may be loaded, since the kernel judges what they do."""

    alone: bool = False
    """The process is the replay's own: what processes share, it shares with none."""


@dataclass(frozen=True)
class Attempt:
    """Something that reached out of the replay."""

    kind: Kind
    what: str
    refused: bool = True
    incidental: bool = False
    """What ordinary code does beside its work, and no sign of harm."""


Rule = Callable[[Ground, tuple[Any, ...]], Attempt | None]


def _resolve(path: Any, *, dir_fd: int | None = -1, follow: bool) -> str | None:
    """Return the absolute path that an operation would touch, None if it cannot be told."""
    if isinstance(path, int):
        return _path_of_descriptor(path)
    text = os.fsdecode(path)
    if dir_fd is not None and dir_fd >= 0 and not os.path.isabs(text):
        base = _path_of_descriptor(dir_fd)
        if base is None:
            return None
        text = os.path.join(base, text)
    if follow:
        return os.path.realpath(text)
    folder, name = os.path.split(os.path.abspath(text))
    return os.path.join(os.path.realpath(folder), name)


def _path_of_descriptor(descriptor: int) -> str | None:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except OSError:
        return None


def _within(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(folder + os.sep) for folder in folders)


def _judge_path(ground: Ground, path: str | None, shown: Any) -> Attempt | None:
    if path is not None:
        if _within(path, ground.writable) or path in _HARMLESS:
            return None
        if _within(path, ground.copied):
            return Attempt("file", path, refused=False, incidental=True)
    return Attempt("file", path or repr(shown)[:SHOWN], incidental=True)


def judge_open(ground: Ground, args: tuple[Any, ...]) -> Attempt | None:
    """Judge what is opened: for writing, or such that reading does something."""
    path, mode, flags = args
    if isinstance(path, int):
        return None
    # C code that opens a file by its mode says so with the mode alone.
    by_mode = isinstance(mode, str) and not _WRITING_MODES.isdisjoint(mode)
    if by_mode or (isinstance(flags, int) and flags & _WRITING):
        return _judge_writing(ground, path, anywhere=mode is None)
    text = os.fsdecode(path)
    if "proc" in text and (other := _PROC_OF_OTHERS.match(os.path.abspath(text))):
        return None if int(other["pid"]) == os.getpid() else Attempt("process", text)
    try:
        kind = os.stat(text).st_mode
    except (OSError, ValueError):
        return None
    # A descriptor of a folder would let later calls name files in ways that no event tells.
    if stat.S_ISFIFO(kind) or (mode is None and stat.S_ISDIR(kind)):
        resolved = os.path.realpath(text)
        if not _within(resolved, ground.writable + ground.copied):
            fifo = stat.S_ISFIFO(kind)
            why = "reading takes from a FIFO" if fifo else "a descriptor of a folder"
            return Attempt("file", f"{resolved} ({why} outside scratch)", incidental=True)
    return None


def _judge_writing(ground: Ground, path: Any, *, anywhere: bool) -> Attempt | None:
    """Judge a path to write to; ``anywhere`` it may be relative to any folder that is open."""
    found = _judge_path(ground, _resolve(path, follow=True), path)
    if not anywhere or (found is not None and found.refused) or os.path.isabs(os.fsdecode(path)):
        return found
    for folder in _open_folders():
        attempt = _judge_path(ground, _resolve(path, dir_fd=folder, follow=True), path)
        if attempt is not None and attempt.refused:
            return attempt
    return found


def _open_folders() -> Iterator[int]:
    for name in os.listdir(_DESCRIPTORS):
        with suppress(OSError):
            if stat.S_ISDIR(os.fstat(int(name)).st_mode):
                yield int(name)


def file_rule(*paths: tuple[int, int], follow: bool = False) -> Rule:
    """Make a rule from the places of (path, dir_fd) in an event's arguments; -1 is none."""

    def judge(ground: Ground, args: tuple[Any, ...]) -> Attempt | None:
        let_through = None
        for at, dir_at in paths:
            dir_fd = args[dir_at] if 0 <= dir_at < len(args) else -1
            path = _resolve(args[at], dir_fd=dir_fd, follow=follow)
            attempt = _judge_path(ground, path, args[at])
            if attempt is not None and attempt.refused:
                return attempt
            let_through = let_through or attempt
        return let_through

    return judge


def judge_mkdir(ground: Ground, args: tuple[Any, ...]) -> Attempt | None:
    """Judge a new folder: making sure that one exists changes nothing when it does."""
    path = _resolve(args[0], dir_fd=args[2], follow=False)
    there = path is not None and os.path.isdir(path)
    return None if there else _judge_path(ground, path, args[0])


def judge_new(ground: Ground, path: Any, dir_fd: int | None) -> Attempt | None:
    """Judge what is made under a name."""
    return _judge_path(ground, _resolve(path, dir_fd=dir_fd, follow=False), path)


def judge_sqlite(ground: Ground, args: tuple[Any, ...]) -> Attempt | None:
    """Judge a database that is opened or attached."""
    if args[0] is None:
        return Attempt("file", "a database that is attached by an expression", incidental=True)
    name = os.fsdecode(args[0])
    if not name.startswith("file:"):
        written = name != ":memory:"
    else:
        name, written = _read_uri(name.removeprefix("file:"))
    if not (name and written):
        return None
    return _judge_path(ground, None if "\0" in name else _resolve(name, follow=True), name)


def _read_uri(text: str) -> tuple[str, bool]:
    """Return the path of sqlite's URI, as sqlite reads it, and whether it can be written to."""
    path, _, query = text.partition("#")[0].partition("?")
    if path.startswith("//"):
        _, slash, rest = path[2:].partition("/")
        path = slash + rest
    options = [tuple(map(unquote, option.partition("=")[::2])) for option in query.split("&")]
    modes = [value for name, value in options if name == "mode"]
    path = unquote(path)
    written = path != ":memory:" and not (modes and {"ro", "memory"}.issuperset(modes))
    return path, written


# --- what is open already -------------------------------------------------------------------------


def judge_lock(ground: Ground, args: tuple[Any, ...]) -> Attempt | None:
    """Judge a lock: one that keeps others out of a file that is not the planner's."""
    return _judge_held(ground, args[0], "a lock") if args[1] & fcntl.LOCK_EX else None


def judge_fcntl(ground: Ground, args: tuple[Any, ...]) -> Attempt | None:
    """Judge what is set of a descriptor: who gets its signals, a lease on its file."""
    descriptor, command, value = args
    if command in _OWNERS and value not in (0, os.getpid(), -os.getpgrp()):
        return Attempt("signal", f"signals of a descriptor to process {value}")
    leases = command == getattr(fcntl, "F_SETLEASE", None)
    return _judge_held(ground, descriptor, "a lease") if leases else None


def judge_ioctl(ground: Ground, args: tuple[Any, ...]) -> Attempt | None:
    """Judge an ``ioctl`` that does more than ask."""
    request = args[1] & 0xFFFFFFFF
    if not sys.platform.startswith("linux") or asks(request):
        return None
    return _judge_held(ground, args[0], f"ioctl {request:#x}")


def judge_terminal(ground: Ground, descriptor: Any) -> Attempt | None:
    """Judge a change of a terminal."""
    number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
    return _judge_held(ground, number, "settings of a terminal")


def _judge_held(ground: Ground, descriptor: int, what: str) -> Attempt | None:
    path = _path_of_descriptor(descriptor)
    if path is None or not path.startswith("/") or path.startswith("/memfd:"):
        return None  # a pipe, a socket: the planner's own
    found = _judge_path(ground, path, path)
    return None if found is None else replace(found, what=f"{path} ({what})")

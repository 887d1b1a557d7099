"""What the hook refuses, event by event: a table from audit event to a judgement.

A rule looks at the arguments of one audit event and answers with an `Attempt`, or with None for
what a replay may do: read files, write into scratch, talk to itself.
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any, Literal

import tracekit.bodies
import tracekit.guard

Kind = Literal["network", "process", "native", "signal", "file", "system", "tool"]

_SHOWN = 200
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# The numbers of AF_UNIX, unspecified (a descriptor's own), AF_INET and AF_INET6; SOCK_STREAM.
_LOCAL, _INTERNET, _STREAM = (1, 0, -1), (2, 10), 1
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


@dataclass(frozen=True)
class Attempt:
    """Something that reached out of the replay."""

    kind: Kind
    what: str
    refused: bool = True
    incidental: bool = False
    """What ordinary code does beside its work, and no sign of harm."""


Rule = Callable[[Ground, tuple[Any, ...]], Attempt | None]


def is_machinery(filename: str) -> bool:
    """Tell whether a source file belongs to the interpreter or to this package."""
    if filename.startswith(("<", *_PACKAGES)):
        return True
    return "site-packages" not in filename and filename.startswith(_STDLIB)


def is_own(code: CodeType) -> bool:
    """Tell whether code belongs to the replay or to what it calls, and is no finaliser.

    Finalisers run wherever an object happens to die: whoever stands on the stack has not called
    them. Those of the standard library do the bidding of whoever made the object.
    """
    name = code.co_filename
    if code.co_name == "__del__" or name == _FINALISERS:
        return False
    if name.startswith(_PACKAGES):
        return True
    if "site-packages" in name or "dist-packages" in name:
        return any(f"-packages{os.sep}{library}{os.sep}" in name for library in _LIBRARIES)
    return name.startswith((_STDLIB, "<frozen "))


_STDLIB = os.path.dirname(os.__file__) + os.sep
_OURS = os.path.dirname(os.path.dirname(__file__))
_PACKAGES = (_OURS + os.sep, os.path.dirname(tracekit.__file__) + os.sep)
_FINALISERS = weakref.__file__
_LIBRARIES = ("duckdb", "numpy", "opentelemetry", "pyarrow", "pydantic", "rapidfuzz", "sandlock")
"""What the replay's own side calls, of other people's Python code."""


# --- files ----------------------------------------------------------------------------------------


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
    return Attempt("file", path or repr(shown)[:_SHOWN], incidental=True)


def _judge_open(ground: Ground, args: tuple[Any, ...]) -> Attempt | None:
    path, mode, flags = args
    if isinstance(path, int):
        return None
    if isinstance(flags, int) and flags & _WRITING:
        return _judge_path(ground, _resolve(path, follow=True), path)
    text = os.fsdecode(path)
    if "proc" in text and (other := _PROC_OF_OTHERS.match(os.path.abspath(text))):
        return None if int(other["pid"]) == os.getpid() else Attempt("process", text)
    # A descriptor of a folder would let later calls name files in ways that no event tells.
    if mode is None and os.path.isdir(text):
        resolved = os.path.realpath(text)
        if not _within(resolved, ground.writable + ground.copied):
            what = f"{resolved} (a descriptor of a folder outside scratch)"
            return Attempt("file", what, incidental=True)
    return None


def _file_rule(*paths: tuple[int, int], follow: bool = False) -> Rule:
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


def _judge_mkdir(ground: Ground, args: tuple[Any, ...]) -> Attempt | None:
    # Making sure that a folder exists changes nothing when it does.
    return None if os.path.isdir(args[0]) else _file_rule((0, 2))(ground, args)


def _judge_sqlite(ground: Ground, args: tuple[Any, ...]) -> Attempt | None:
    database = os.fsdecode(args[0])
    if database in ("", ":memory:"):
        return None
    if database.startswith("file:"):
        path, _, query = database[5:].partition("?")
        options = query.split("&")
        if "mode=memory" in options or "mode=ro" in options or path == ":memory:":
            return None
        database = path
    return _judge_path(ground, _resolve(database, follow=True), database)


# --- network, processes, native code --------------------------------------------------------------


def _address(address: Any) -> str:
    if isinstance(address, tuple) and len(address) >= 2:
        return f"{_text(address[0])}:{_text(address[1])}"
    return _text(address)


def _text(value: Any) -> str:
    if isinstance(value, bytes | os.PathLike):
        value = os.fsdecode(value)
    return str(value).replace("\0", "@")[:_SHOWN]


def _judge_address(ground: Ground, args: tuple[Any, ...]) -> Attempt | None:
    shown = _address(args[1])
    return None if shown in ground.hosts else Attempt("network", shown)


def _judge_bind(_: Ground, args: tuple[Any, ...]) -> Attempt | None:
    shown = _address(args[1])
    # Libraries bind to any free port of this machine to see whether there is IPv6.
    return Attempt("network", shown, incidental=shown in ("127.0.0.1:0", "::1:0"))


def _judge_message(_: Ground, args: tuple[Any, ...]) -> Attempt | None:
    # Without an address the socket was connected before: a pair within this process.
    return None if args[1] is None else Attempt("network", _address(args[1]))


def _judge_socket(ground: Ground, args: tuple[Any, ...]) -> Attempt | None:
    # Under the kernel's wall it cannot be made at all, so there is nothing to hear later.
    family, kind = int(args[1]), int(args[2]) & 0xF
    if not ground.native or family in _LOCAL or (family in _INTERNET and kind == _STREAM):
        return None
    return Attempt("network", f"a socket of family {family}, type {kind}")


def _judge_host(ground: Ground, args: tuple[Any, ...]) -> Attempt | None:
    host, port = args[0], args[1] if len(args) > 1 else None
    if host is None:
        return None
    shown = _address(host) if isinstance(host, tuple) else _text(host)
    if any(shown.lower() == known.rpartition(":")[0] for known in ground.hosts):
        return None
    return Attempt("network", shown if port is None else f"{shown}:{_text(port)}")


def _judge_http(ground: Ground, args: tuple[Any, ...]) -> Attempt | None:
    shown = f"{_text(args[1])}:{_text(args[2])}".lower()
    return None if shown in ground.hosts else Attempt("network", shown)


def _judge_command(_: Ground, args: tuple[Any, ...]) -> Attempt | None:
    shown = next((value for value in reversed(args[:2]) if value), None)
    words = shown if isinstance(shown, list | tuple) else [shown]
    return Attempt("process", " ".join(_text(word) for word in words)[:_SHOWN])


def _judge_system(_: Ground, args: tuple[Any, ...]) -> Attempt | None:
    return Attempt("process", _text(args[0]) if args else "a copy of this process")


def _judge_spawn(_: Ground, args: tuple[Any, ...]) -> Attempt | None:
    return _judge_command(_, (args[1], args[2]))


def _judge_signal(_: Ground, args: tuple[Any, ...]) -> Attempt | None:
    if args[0] == os.getpid():
        return None
    return Attempt("signal", f"signal {args[1]} to process {args[0]}")


def _judge_library(ground: Ground, args: tuple[Any, ...]) -> Attempt | None:
    return None if ground.native else Attempt("native", _text(args[0] or "the C library"))


def _judge_symbol(ground: Ground, args: tuple[Any, ...]) -> Attempt | None:
    name = _text(args[1])
    # The interpreter's own functions are as safe as the code that calls them.
    if ground.native or name.startswith(("Py", "_Py")):
        return None
    return Attempt("native", name)


def _judge_import(_: Ground, args: tuple[Any, ...]) -> Attempt | None:
    # These open their files in C, without an event.
    if args[0] not in ("_dbm", "_gdbm"):
        return None
    return Attempt("native", f"import of {args[0]}")


def _judge_unheard(ground: Ground, args: tuple[Any, ...]) -> Attempt | None:
    name, call = args
    module, _, function = str(name).rpartition(".")
    if function in ("mkfifo", "mknod"):
        return _judge_path(ground, _resolve(call[0], follow=False), call[0]) if call else None
    if module == "_posixsubprocess":
        return _judge_command(ground, (call[0] if call else None,))
    return Attempt("signal" if module == "signal" else "system", str(name))


def _judge_tool(_: Ground, args: tuple[Any, ...]) -> Attempt | None:
    return Attempt("tool", f"a call of {_text(args[0])}, where nothing answers calls")


def _judge_body(_: Ground, __: tuple[Any, ...]) -> Attempt | None:
    return Attempt("tool", "the body, before its first line")


def _always(kind: Kind, what: str) -> Rule:
    return lambda _, __: Attempt(kind, what)


RULES: dict[str, Rule] = {
    "open": _judge_open,
    "os.remove": _file_rule((0, 1)),
    "os.rmdir": _file_rule((0, 1)),
    "os.mkdir": _judge_mkdir,
    "os.rename": _file_rule((0, 2), (1, 3)),
    "os.link": _file_rule((0, 2), (1, 3)),
    "os.symlink": _file_rule((1, 2)),
    "os.chmod": _file_rule((0, 2), follow=True),
    "os.chown": _file_rule((0, 3), follow=True),
    "os.utime": _file_rule((0, 3), follow=True),
    "os.truncate": _file_rule((0, -1), follow=True),
    "os.setxattr": _file_rule((0, -1), follow=True),
    "os.removexattr": _file_rule((0, -1), follow=True),
    "os.chflags": _file_rule((0, -1), follow=True),
    "os.lchflags": _file_rule((0, -1)),
    "sqlite3.connect": _judge_sqlite,
    "socket.__new__": _judge_socket,
    "socket.connect": _judge_address,
    "socket.bind": _judge_bind,
    "socket.sendto": _judge_message,
    "socket.sendmsg": _judge_message,
    "socket.getaddrinfo": _judge_host,
    "socket.gethostbyname": _judge_host,
    "socket.gethostbyaddr": _judge_host,
    "socket.getnameinfo": _judge_host,
    "http.client.connect": _judge_http,
    "syslog.syslog": _always("system", "a message to the system log"),
    "socket.sethostname": _always("system", "the name of this machine"),
    "resource.setrlimit": _always("system", "the limits of this process"),
    "resource.prlimit": _always("system", "the limits of a process"),
    "subprocess.Popen": _judge_command,
    "os.system": _judge_system,
    "os.exec": _judge_command,
    "os.posix_spawn": _judge_command,
    "os.spawn": _judge_spawn,
    "os.startfile": _judge_system,
    "os.fork": _judge_system,
    "os.forkpty": _judge_system,
    "pty.spawn": _judge_system,
    "os.kill": _judge_signal,
    "os.killpg": _judge_signal,
    "ctypes.dlopen": _judge_library,
    "ctypes.dlsym": _judge_symbol,
    "ctypes.dlsym/handle": _judge_symbol,
    "sqlite3.enable_load_extension": _always("native", "extensions of sqlite"),
    "sqlite3.load_extension": _always("native", "an extension of sqlite"),
    "import": _judge_import,
    "tracekit.unheard": _judge_unheard,
    tracekit.guard.REFUSED: _judge_tool,
    tracekit.bodies.BEGUN: _judge_body,
}

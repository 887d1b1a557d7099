"""What the hook refuses, event by event: a table from audit event to a judgement.

A rule looks at the arguments of one audit event and answers with an `Attempt`, or with None for
what a replay may do: read files, write into scratch, talk to itself.
"""

from __future__ import annotations

import os
import weakref
from types import CodeType
from typing import Any

import tracekit.bodies
import tracekit.guard
from replay.isolation.alone import made_up
from replay.isolation.files import (
    SHOWN,
    Attempt,
    Ground,
    Kind,
    Rule,
    file_rule,
    judge_fcntl,
    judge_ioctl,
    judge_lock,
    judge_mkdir,
    judge_new,
    judge_open,
    judge_sqlite,
    judge_terminal,
)

__all__ = ["RULES", "Attempt", "Ground", "is_machinery", "is_own"]

# The numbers of AF_UNIX, unspecified (a descriptor's own), AF_INET and AF_INET6; SOCK_STREAM.
_LOCAL, _INTERNET, _STREAM = (1, 0, -1), (2, 10), 1


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


# --- network, processes, native code --------------------------------------------------------------


def _address(address: Any) -> str:
    if isinstance(address, tuple) and len(address) >= 2:
        return f"{_text(address[0])}:{_text(address[1])}"
    return _text(address)


def _text(value: Any) -> str:
    if isinstance(value, bytes | os.PathLike):
        value = os.fsdecode(value)
    return str(value).replace("\0", "@")[:SHOWN]


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
    return Attempt("process", " ".join(_text(word) for word in words)[:SHOWN])


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
    # These open their files in C, without an event. `dbm` asks for them and copes without.
    if args[0] not in ("_dbm", "_gdbm"):
        return None
    return Attempt("native", f"import of {args[0]}", incidental=True)


def _judge_unheard(ground: Ground, args: tuple[Any, ...]) -> Attempt | None:
    name, call, named = args
    function = str(name).rpartition(".")[2]
    first = call[0] if call else None
    match function:
        case "mkfifo" | "mknod":
            path = named.get("path", first)
            return None if path is None else judge_new(ground, path, named.get("dir_fd"))
        case "fork_exec":
            return _judge_command(ground, (first,))
        case "write_history_file" | "append_history_file":
            given = [*call[function == "append_history_file" :], None][0]
            return judge_open(ground, (os.path.expanduser(given or "~/.history"), "w", 0))
        case "attach":
            return judge_sqlite(ground, call)
        case "tcsetattr" | "tcflow" | "tcsendbreak":
            return judge_terminal(ground, first)
        case "listen":
            return Attempt("network", "listening on a socket")
        case "SemLock":  # one without a name is gone when its process is
            keeps = not (call[4] if len(call) > 4 else named.get("unlink"))
            if keeps and not (ground.alone and made_up(call[3] if len(call) > 3 else None)):
                return Attempt("system", f"a semaphore for all, {name}")
            return None
        case "Arena":  # its file is heard when it is opened
            return None
        case "sched_setaffinity" | "sched_setparam" | "sched_setscheduler" | "setpgid":
            own = first in (0, os.getpid())
            return None if own else Attempt("system", f"{name} of process {first}")
        case _:
            return Attempt("signal" if function == "pidfd_send_signal" else "system", str(name))


def _judge_tool(_: Ground, args: tuple[Any, ...]) -> Attempt | None:
    return Attempt("tool", f"a call of {_text(args[0])}, where nothing answers calls")


def _judge_body(_: Ground, __: tuple[Any, ...]) -> Attempt | None:
    return Attempt("tool", "the body, before its first line")


def _always(kind: Kind, what: str) -> Rule:
    return lambda _, __: Attempt(kind, what)


RULES: dict[str, Rule] = {
    "open": judge_open,
    "os.remove": file_rule((0, 1)),
    "os.rmdir": file_rule((0, 1)),
    "os.mkdir": judge_mkdir,
    "os.rename": file_rule((0, 2), (1, 3)),
    "os.link": file_rule((0, 2), (1, 3)),
    "os.symlink": file_rule((1, 2)),
    "os.chmod": file_rule((0, 2), follow=True),
    "os.chown": file_rule((0, 3), follow=True),
    "os.utime": file_rule((0, 3), follow=True),
    "os.truncate": file_rule((0, -1), follow=True),
    "os.setxattr": file_rule((0, -1), follow=True),
    "os.removexattr": file_rule((0, -1), follow=True),
    "os.chflags": file_rule((0, -1), follow=True),
    "os.lchflags": file_rule((0, -1)),
    "sqlite3.connect": judge_sqlite,
    "fcntl.fcntl": judge_fcntl,
    "fcntl.flock": judge_lock,
    "fcntl.lockf": judge_lock,
    "fcntl.ioctl": judge_ioctl,
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
    # It would have no hook of ours.
    "cpython.PyInterpreterState_New": _always("process", "another interpreter in this process"),
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

"""The wall inside the interpreter: an audit hook that refuses what reaches out of a replay.

An audit hook cannot be removed, so it is installed once and has a switch. While it is up, it
refuses for every thread of the process, whoever calls: the planner, a library, a finaliser. A few
doors that raise no audit event are wrapped so that they raise one. It is a wall against accidents
of ordinary code, not against code that means to break it: what it does not see is in `UNSEEN`.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import importlib
import os
import platform
import stat
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import CodeType, FrameType
from typing import Any, TypeVar

from replay.isolation import rules
from replay.isolation.alone import STAND_INS
from replay.isolation.files import Rule
from replay.isolation.rules import Attempt, Ground
from tracekit.bodies import close_bodies, open_bodies, tool_on_stack
from tracekit.guard import REFUSED

Report = Callable[[dict[str, Any]], None]
F = TypeVar("F", bound=Callable[..., Any])

UNSEEN = (
    "data sent on sockets and written to files that were open before",
    "system calls made by C code: extension modules (files that pyarrow and duckdb write), cffi, "
    "ctypes functions looked up before",
    "a raw fork and exec by C code",
)
"""What no audit event tells."""

_EVENT = "tracekit.unheard"

# Doors without an audit event of their own (CPython 3.11 to 3.14): the module that has them, those
# that hand them on, their names.
_UNHEARD: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "_posixsubprocess": ((), ("fork_exec",)),
    "posix": (
        ("os",),
        (
            *("mkfifo", "mknod", "setpriority", "setpgid", "tcsetpgrp", "chroot", "setns"),
            *("unshare", "sched_setaffinity", "sched_setparam", "sched_setscheduler", "chmod"),
        ),
    ),
    "_posixshmem": ((), ("shm_open", "shm_unlink")),
    "signal": ((), ("pidfd_send_signal",)),
    "time": ((), ("clock_settime", "clock_settime_ns")),
    "socket": ((), ("socket.listen",)),
    "termios": ((), ("tcsetattr", "tcflow", "tcsendbreak")),
    "readline": ((), ("write_history_file", "append_history_file")),
    "_multiprocessing": ((), ("SemLock",)),
    "multiprocessing.heap": ((), ("Arena",)),
    "_sqlite3": (("sqlite3.dbapi2", "sqlite3"), ("connect",)),
}
_ATTACH = 24
"""What sqlite asks about before it opens another database, also to copy one into it."""


class Refused(PermissionError):
    """The hook refused an operation during a replay.

    A `PermissionError`, so that code which copes with a read-only disk or no network copes here.
    """


class RefusedImport(ImportError):
    """The hook refused a module during a replay: code that copes without the module copes here."""


@dataclass
class _Switch:
    """The one hook of this process."""

    installed: bool = False
    ground: Ground | None = None
    report: Report | None = None
    bodies_run: bool = False
    wrapped: dict[str, list[tuple[Any, str, Any]]] = field(default_factory=dict)
    """Module of doors → where each was wrapped, and what stood there, `_ABSENT` if nothing."""


_switch = _Switch()


class _Trust(threading.local):
    """What this thread may do that no planner may."""

    depth = 0
    """How many `trusted` blocks it is in."""

    once: tuple[str, CodeType] | None = None
    """The event that `let_through` names, and the code that may cause it."""


_trust = _Trust()
_windows: dict[int, CodeType] = {}
"""By identity, the code of functions at which what a `trusted` block may do begins."""


def raise_wall(ground: Ground, report: Report) -> None:
    """Refuse from now on, in all threads; ``report`` gets each attempt as a message."""
    _switch.report = report
    for module in _UNHEARD:
        if module in sys.modules:
            _wrap_doors(module)
    if not _switch.installed:
        sys.addaudithook(_audit)
        _switch.installed = True
    _switch.ground = ground
    if not _switch.bodies_run:
        close_bodies()


def lower_wall() -> None:
    """Refuse nothing any more."""
    open_bodies()
    _switch.ground = None
    _switch.report = None
    for doors in _switch.wrapped.values():
        for owner, name, original in reversed(doors):
            if original is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
    _switch.wrapped.clear()


def let_bodies_run() -> None:
    """From now on bodies of tools that write may run in this process, which is no planner's."""
    _switch.bodies_run = True
    open_bodies()


def is_up() -> bool:
    """Tell whether the hook refuses."""
    return _switch.ground is not None


def prepare() -> None:
    """Let the interpreter look up once what it would otherwise ask a program for, refused later."""
    platform.processor()


def window(function: F) -> F:
    """Mark a function that opens `trusted` blocks, or is called in them as the replay's own."""
    code = getattr(function, "__code__", None)
    if code is not None:
        _windows[id(code)] = code
    return function


class trusted:  # noqa: N801  # reads as the statement that it opens
    """Let the replay's own work in the planner's process through for a while, on this thread.

    The planner's code can come in between: a finaliser, a signal handler, a trace function. So an
    event is let through only if all that runs between it and the `window` is the replay's own.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        _trust.depth += 1

    def __exit__(self, *_error: object) -> None:
        _trust.depth -= 1


def let_through(event: str) -> None:
    """Let the one ``event`` through that the caller itself causes next, on this thread."""
    _trust.once = event, sys._getframe(1).f_code


def _audit(
    event: str,
    args: tuple[Any, ...],
    find: Callable[[str], Rule | None] = rules.RULES.get,
    switch: _Switch = _switch,
) -> None:
    # By default arguments: the end of the interpreter clears modules before the hook is gone.
    rule = find(event)
    if rule is None:
        return
    ground = switch.ground
    if ground is None or _is_own(event, sys._getframe(1)):
        return
    if event == "import" and args[0] in _UNHEARD:
        _wrap_doors(args[0])
    attempt = rule(ground, args)
    if attempt is None:
        return
    # No body of a tool that writes is entered in a replay; whose it is shows on the stack alone.
    tool = None if _switch.bodies_run else tool_on_stack(sys._getframe(1))
    if tool is not None:
        attempt = replace(attempt, refused=True, incidental=False)
    _tell(event if event != _EVENT else str(args[0]), attempt, tool)
    if attempt.refused and event != REFUSED:
        said = f"tracekit replay refused {event}: {attempt.what}"
        raise RefusedImport(said) if event == "import" else Refused(errno.EPERM, said)


def _is_own(event: str, frame: FrameType) -> bool:
    """Whether the replay itself does this, at the end of what runs in ``frame``."""
    trust = _trust
    if trust.once is not None and trust.once[0] == event and trust.once[1] is frame.f_code:
        trust.once = None
        return True
    if not trust.depth:
        return False
    at: FrameType | None = frame
    while at is not None and id(at.f_code) not in _windows:
        if not rules.is_own(at.f_code):
            return False
        at = at.f_back
    return at is not None


def _tell(event: str, attempt: Attempt, tool: str | None) -> None:
    report = _switch.report
    if report is None:
        return
    report(
        {
            "finding": {
                "kind": attempt.kind,
                "event": event,
                "what": attempt.what,
                "where": _where(),
                "refused": attempt.refused,
                "incidental": attempt.incidental,
                **({} if tool is None else {"tool": tool}),
                "wall": "process",
            }
        }
    )


def _where() -> str:
    """Name the line of the user's code that is nearest to the attempt."""
    frame = sys._getframe(2)
    nearest = ""
    while frame is not None:
        name = frame.f_code.co_filename
        if not rules.is_machinery(name):
            place = f"{name}:{frame.f_lineno}"
            if "site-packages" not in name:
                return place
            nearest = nearest or place
        if frame.f_back is None:
            break
        frame = frame.f_back
    return nearest


def _wrap_doors(module: str) -> None:
    """Wrap the doors of a module, before others take them from it where it is not loaded yet."""
    if module in _switch.wrapped:
        return
    doors = _switch.wrapped[module] = []
    if module not in sys.modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    handing_on, names = _UNHEARD[module]
    for at, path in ((at, path) for at in (module, *handing_on) for path in names):
        *within, name = path.split(".")
        owner: Any = sys.modules.get(at)
        for inner in within:
            owner = getattr(owner, inner, None)
        original = getattr(owner, name, None)
        if original is not None and not hasattr(original, _HEARD):
            doors.append((owner, name, vars(owner).get(name, _ABSENT)))
            setattr(owner, name, _heard(f"{at}.{path}", original))


_ABSENT, _HEARD = object(), "__tracekit_heard__"
_made: dict[str, tuple[Any, Any]] = {}
"""Door → what stood there, and what is heard in its place: made once."""


def _heard(name: str, original: Any) -> Any:
    known = _made.get(name)
    if known is None or known[0] is not original:
        known = _made[name] = original, _make_heard(name, original)
    return known[1]


def _make_heard(name: str, original: Any) -> Any:
    if isinstance(original, type):
        return _heard_class(name, original)

    @functools.wraps(original, updated=())
    def heard(*args: Any, **kwargs: Any) -> Any:
        sys.audit(_EVENT, name, args, kwargs)
        return original(*args, **kwargs)

    made: Callable[..., Any] = heard
    if name.endswith(".chmod"):
        made = _changing(original)
    elif name.endswith("sqlite3.connect"):
        made = _watched(original)
    setattr(made, _HEARD, True)
    return made


def _heard_class(name: str, original: type) -> type:
    make: Any = original.__new__
    if make is object.__new__:  # leaves the arguments to __init__
        make = _bare

    def made(cls: type, *args: Any, **kwargs: Any) -> Any:
        sys.audit(_EVENT, name, args, kwargs)
        if name in STAND_INS and _switch.ground is not None and _switch.ground.alone:
            return STAND_INS[name](*args, **kwargs)
        return make(cls, *args, **kwargs)

    return type(original.__name__, (original,), {"__new__": made, "__slots__": (), _HEARD: True})


def _bare(cls: type, *_args: Any, **_kwargs: Any) -> Any:
    return object.__new__(cls)


def _changing(chmod: Callable[..., Any]) -> Callable[..., Any]:
    """Ask for no mode that a file has already: the kernel's wall refuses all changes alike."""

    @functools.wraps(chmod)
    def changing(path: Any, mode: int, **places: Any) -> None:
        ground = _switch.ground
        if ground is not None and ground.native and _has_mode(path, mode, places):
            folder = places.get("dir_fd")
            sys.audit("os.chmod", path, mode, -1 if folder is None else folder)
        else:
            chmod(path, mode, **places)

    return changing


def _has_mode(path: Any, mode: int, places: dict[str, Any]) -> bool:
    try:
        return stat.S_IMODE(os.stat(path, **places).st_mode) == mode
    except (OSError, TypeError, ValueError):
        return False  # chmod itself says what is wrong


def _watched(connect: Callable[..., Any]) -> Callable[..., Any]:
    """Make databases tell what is attached to them."""

    @functools.wraps(connect)
    def watched(*args: Any, **kwargs: Any) -> Any:
        connection = connect(*args, **kwargs)
        if _switch.ground is not None:
            sys.modules["_sqlite3"].Connection.set_authorizer(connection, _authorize)
        return connection

    return watched


def _authorize(action: int, first: str | None, *_rest: str | None) -> int:
    if action == _ATTACH:
        sys.audit(_EVENT, "sqlite3.attach", (first,), {})
    return 0

"""The wall inside the interpreter: an audit hook that refuses what reaches out of a replay.

An audit hook cannot be removed, so it is installed once and has a switch. While it is up, it
refuses for every thread of the process, whoever calls: the planner, a library, a finaliser. A few
doors that raise no audit event are wrapped so that they raise one. It is a wall against accidents
of ordinary code, not against code that means to break it: what it does not see is in `UNSEEN`.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import platform
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import CodeType, FrameType
from typing import Any, TypeVar

from replay.isolation import rules
from replay.isolation.rules import Attempt, Ground
from tracekit.bodies import close_bodies, open_bodies, tool_on_stack
from tracekit.guard import REFUSED

Report = Callable[[dict[str, Any]], None]
F = TypeVar("F", bound=Callable[..., Any])

UNSEEN = (
    "data sent on sockets and written to files that were open before",
    "system calls made by C code: extension modules, cffi, ctypes functions looked up before",
    "a raw fork and exec by C code",
)
"""What no audit event tells."""

_EVENT = "tracekit.unheard"

# Doors without an audit event of their own (CPython 3.11 to 3.14).
_UNHEARD = (
    ("_posixsubprocess", "fork_exec"),
    ("os", "mkfifo"),
    ("os", "mknod"),
    ("posix", "mkfifo"),
    ("posix", "mknod"),
    ("_posixshmem", "shm_open"),
    ("_posixshmem", "shm_unlink"),
    ("signal", "pidfd_send_signal"),
    ("time", "clock_settime"),
    ("time", "clock_settime_ns"),
    ("os", "setpriority"),
)


class Refused(PermissionError):
    """The hook refused an operation during a replay.

    A `PermissionError`, so that code which copes with a read-only disk or no network copes here.
    """


@dataclass
class _Switch:
    """The one hook of this process."""

    installed: bool = False
    ground: Ground | None = None
    report: Report | None = None
    bodies_run: bool = False
    originals: tuple[tuple[Any, str, Any], ...] = ()


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
    if not _switch.originals:
        _switch.originals = _wrap_unheard()
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
    for module, name, original in _switch.originals:
        setattr(module, name, original)
    _switch.originals = ()


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


def _audit(event: str, args: tuple[Any, ...]) -> None:
    rule = rules.RULES.get(event)
    if rule is None:
        return
    ground = _switch.ground
    if ground is None or _is_own(event, sys._getframe(1)):
        return
    attempt = rule(ground, args)
    if attempt is None:
        return
    # No body of a tool that writes is entered in a replay; whose it is shows on the stack alone.
    tool = None if _switch.bodies_run else tool_on_stack(sys._getframe(1))
    if tool is not None:
        attempt = replace(attempt, refused=True, incidental=False)
    _tell(event if event != _EVENT else str(args[0]), attempt, tool)
    if attempt.refused and event != REFUSED:
        raise Refused(errno.EPERM, f"tracekit replay refused {event}: {attempt.what}")


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


def _wrap_unheard() -> tuple[tuple[Any, str, Any], ...]:
    done = []
    for module_name, name in _UNHEARD:
        with contextlib.suppress(ImportError, AttributeError):
            module = importlib.import_module(module_name)
            original = getattr(module, name)
            setattr(module, name, _heard(f"{module_name}.{name}", original))
            done.append((module, name, original))
    return tuple(done)


def _heard(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def heard(*args: Any, **kwargs: Any) -> Any:
        sys.audit(_EVENT, name, args)
        return original(*args, **kwargs)

    return heard

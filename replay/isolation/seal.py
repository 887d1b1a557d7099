"""The child's own system call filter, laid over sandlock's.

Landlock does not judge changes of metadata, and sandlock 0.9 cannot deny those that its
copy-on-write folder handles; nor may it deny `execve`, which starts the child. Of sockets Landlock
judges what TCP connects and binds, not what connects while it sends or listens without a bind. So
the child, once it runs, forbids itself the rest for good, some calls only with some arguments.
Filters add up and the strictest answer counts.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Mapping, Sequence

SEALED = (
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat"),
    *("utime", "utimes", "utimensat", "futimesat", "file_setattr"),
    *("setxattr", "lsetxattr", "fsetxattr", "setxattrat"),
    *("removexattr", "lremovexattr", "fremovexattr", "removexattrat"),
    *("execve", "execveat", "mknod", "mknodat", "process_vm_writev", "ptrace"),
    *("clock_settime", "settimeofday", "adjtimex", "clock_adjtime", "sethostname"),
    *("setpriority", "ioprio_set", "sched_setscheduler", "sched_setparam", "sched_setattr"),
    *("shmget", "semget", "msgget", "mq_open", "mq_unlink", "add_key", "keyctl", "syslog"),
    *("shmat", "shmctl", "semop", "semtimedop", "semctl", "msgsnd", "msgrcv", "msgctl"),
    *("migrate_pages", "move_pages", "process_madvise", "process_mrelease", "kcmp"),
    *("pidfd_getfd", "pidfd_send_signal", "get_robust_list", "listen", "setdomainname"),
    *("open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr"),
    *("quotactl", "quotactl_fd", "acct", "vhangup", "fanotify_init", "kexec_file_load"),
)
"""What no planner does for itself and what would reach beyond its process."""

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "riscv64": 0xC00000F3}
_X32_BIT = 0x40000000
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_MODE_FILTER = 2
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_ANY_BIT, _AND, _NO_BIT_LESS = 0x45, 0x54, 0xFFFFFFFF
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000 | errno.EPERM


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))


def can_seal() -> bool:
    """Tell whether this machine's system call numbers are known here."""
    return platform.machine() in _ARCHITECTURES


def seal(numbers: Sequence[int], judged: Mapping[str, int]) -> None:
    """Forbid system calls to this process and its children, for good.

    Args:
        numbers: Of those that are forbidden.
        judged: The number of each of `JUDGED`.

    Raises:
        OSError: the kernel did not take the filter.
    """
    program = _program(numbers, judged, _ARCHITECTURES[platform.machine()])
    code = ctypes.create_string_buffer(program, len(program))
    filter_ = _Program(len(program) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in (
        (_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(filter_), 0, 0),
    ):
        if libc.prctl(*arguments) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"the kernel did not take the filter: {os.strerror(number)}")


def _program(numbers: Sequence[int], judged: Mapping[str, int], architecture: int) -> bytes:
    """Assemble: refuse another architecture's calls and the numbers, judge, allow the rest."""
    lines = [
        _line(_LOAD, _ARCHITECTURE_AT),
        _line(_EQUAL, architecture, skip_if=1),
        _line(_RETURN, _REFUSE),
        _line(_LOAD, _NUMBER_AT),
        _line(_AT_LEAST, _X32_BIT, skip_unless=1),
        _line(_RETURN, _REFUSE),
    ]
    for number in sorted(set(numbers)):
        lines += [_line(_EQUAL, number, skip_unless=1), _line(_RETURN, _REFUSE)]
    for name, number in judged.items():
        judgement = [*JUDGED[name], _line(_RETURN, _ALLOW)]
        lines += [_line(_EQUAL, number, skip_unless=len(judgement)), *judgement]
    return b"".join([*lines, _line(_RETURN, _ALLOW)])


def _line(code: int, operand: int, *, skip_if: int = 0, skip_unless: int = 0) -> bytes:
    return struct.pack("HBBI", code, skip_if, skip_unless, operand)


def _load(argument: int, mask: int) -> list[bytes]:
    """Load the lower half of an argument, all that the kernel looks at of those judged here."""
    here = _ARGUMENTS_AT + 8 * argument  # processors with the lower half first, as all of ours
    masked = [] if mask == _NO_BIT_LESS else [_line(_AND, mask)]
    return [_line(_LOAD, here), *masked]


def _passes(argument: int, values: Sequence[int], mask: int = _NO_BIT_LESS) -> list[bytes]:
    """Allow at once where an argument is one of these."""
    lines = _load(argument, mask)
    for value in values:
        lines += [_line(_EQUAL, value, skip_unless=1), _line(_RETURN, _ALLOW)]
    return lines


def _only(argument: int, values: Sequence[int], mask: int = _NO_BIT_LESS) -> list[bytes]:
    """Refuse unless an argument is one of these."""
    lines = _load(argument, mask)
    for left, value in zip(range(len(values), 0, -1), values, strict=True):
        lines.append(_line(_EQUAL, value, skip_if=left))
    return [*lines, _line(_RETURN, _REFUSE)]


def _never(argument: int, values: Sequence[int]) -> list[bytes]:
    """Refuse where an argument is one of these."""
    lines = _load(argument, _NO_BIT_LESS)
    for value in values:
        lines += [_line(_EQUAL, value, skip_unless=1), _line(_RETURN, _REFUSE)]
    return lines


def _without(argument: int, bits: int) -> list[bytes]:
    """Refuse where an argument has one of these bits."""
    test = _line(_ANY_BIT, bits, skip_unless=1)
    return [*_load(argument, _NO_BIT_LESS), test, _line(_RETURN, _REFUSE)]


_UNIX, _NETLINK, _INTERNET, _STREAM, _TCP = 1, 16, (2, 10), 1, 6
_FAST_OPEN = 0x20000000
# TCP_REPAIR, TCP_FASTOPEN, TCP_FASTOPEN_CONNECT, TCP_FASTOPEN_NO_COOKIE.
_CONNECTING = (19, 23, 30, 34)
# F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE.
_OF_OTHERS = (8, 10, 15, 1024)
_ASKS, _DIRECTION = 0x80000000, 0xC0000000
_SET_ENCRYPTION_POLICY = 0x800C6613  # named as if it asked
_HARMLESS = (
    *(0x5401, 0x540F, 0x5411, 0x5413, 0x541B, 0x5421, 0x5429, 0x5450, 0x5451),  # tty, FIO...
    *(0x40049409, 0x4020940D),  # clones of files, into one that is open for writing
    *(0x8910, 0x8912, 0x8913, 0x8915, 0x891B, 0x8921, 0x8927, 0x8933),  # asking for interfaces
)


def asks(request: int) -> bool:
    """Tell whether an ``ioctl`` changes nothing that is not its caller's."""
    if request in _HARMLESS:
        return True
    return request & _DIRECTION == _ASKS and request != _SET_ENCRYPTION_POLICY


_ROUTES = _only(2, (0,))

JUDGED: dict[str, list[bytes]] = {
    # TCP alone: not what is like it to its users and not to Landlock. Of netlink, sandlock plays
    # what tells of interfaces.
    "socket": [
        *_passes(0, (_UNIX,)),
        _line(_EQUAL, _NETLINK, skip_unless=len(_ROUTES) + 1),
        *_ROUTES,
        _line(_RETURN, _ALLOW),
        *_only(0, _INTERNET),
        *_only(1, (_STREAM,), mask=0xF),
        *_only(2, (0, _TCP)),
    ],
    # Connecting while sending, of which Landlock hears no connect.
    "sendto": _without(3, _FAST_OPEN),
    "sendmsg": _without(2, _FAST_OPEN),
    "sendmmsg": _without(3, _FAST_OPEN),
    "setsockopt": [
        *_load(1, _NO_BIT_LESS),
        _line(_EQUAL, _TCP, skip_if=1),
        _line(_RETURN, _ALLOW),
        *_never(2, _CONNECTING),
    ],
    # What changes a file, or reaches a process, through a descriptor that is open for reading.
    "ioctl": [
        *_never(1, (_SET_ENCRYPTION_POLICY,)),
        *_passes(1, (_ASKS,), mask=_DIRECTION),
        *_only(1, _HARMLESS),
    ],
    "fcntl": _never(1, _OF_OTHERS),
    # For this process itself they are harmless.
    "prlimit64": _only(0, (0,)),
    "sched_setaffinity": _only(0, (0,)),
}
"""System calls that some arguments make harmful, with the lines that judge them."""

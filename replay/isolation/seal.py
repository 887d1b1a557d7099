"""The child's own system call filter, laid over sandlock's.

Landlock does not judge changes of metadata, and sandlock 0.9 cannot deny those that its
copy-on-write folder handles; nor may it deny `execve`, which starts the child. So the child, once
it runs, forbids itself the rest for good. Filters add up and the strictest answer counts.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Sequence

SEALED = (
    *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat"),
    *("utime", "utimes", "utimensat", "futimesat", "file_setattr"),
    *("setxattr", "lsetxattr", "fsetxattr", "setxattrat"),
    *("removexattr", "lremovexattr", "fremovexattr", "removexattrat"),
    *("execve", "execveat", "mknod", "mknodat", "process_vm_writev", "ptrace"),
    *("clock_settime", "settimeofday", "adjtimex", "clock_adjtime", "sethostname"),
    *("setpriority", "ioprio_set", "sched_setscheduler", "sched_setparam", "sched_setattr"),
    *("shmget", "semget", "msgget", "mq_open", "mq_unlink", "add_key", "keyctl", "syslog"),
)
"""What no planner does for itself and what would reach beyond its process."""

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7, "riscv64": 0xC00000F3}
_X32_BIT = 0x40000000
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_MODE_FILTER = 2
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER_AT, _ARCHITECTURE_AT = 0, 4
_ALLOW = 0x7FFF0000
_REFUSE = 0x00050000 | errno.EPERM


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))


def can_seal() -> bool:
    """Tell whether this machine's system call numbers are known here."""
    return platform.machine() in _ARCHITECTURES


def seal(numbers: Sequence[int]) -> None:
    """Forbid the system calls with these numbers to this process and its children, for good.

    Raises:
        OSError: the kernel did not take the filter.
    """
    program = _program(numbers, _ARCHITECTURES[platform.machine()])
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


def _program(numbers: Sequence[int], architecture: int) -> bytes:
    """Assemble: refuse another architecture's calls, refuse the numbers, allow the rest."""
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
    return b"".join([*lines, _line(_RETURN, _ALLOW)])


def _line(code: int, operand: int, *, skip_if: int = 0, skip_unless: int = 0) -> bytes:
    return struct.pack("HBBI", code, skip_if, skip_unless, operand)

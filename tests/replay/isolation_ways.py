"""Ways to reach out of a replay, a planner that tries them, and what stands outside."""

from __future__ import annotations

import fcntl
import os
import resource
import select
import socket
import subprocess
import termios
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# name: (statements; `o` is the folder outside, `port`, `udp`, `unix`, `pid` the other targets,
#        listed with the hook, listed under the kernel)
WAYS: dict[str, tuple[str, bool, bool]] = {
    "open for writing": ("open(o + '/file', 'w').write('x')", True, True),
    "open for appending": ("open(o + '/file', 'a').write('x')", True, True),
    "create a file": ("open(o + '/new', 'x')", True, True),
    "os.open": ("os.write(os.open(o + '/file', os.O_WRONLY), b'x')", True, True),
    "pathlib": ("Path(o, 'file').write_text('x')", True, True),
    "through a symlink in scratch": (
        "os.symlink(o + '/file', s + '/l'); open(s + '/l', 'w').write('x')",
        True,
        True,
    ),
    "through a hard link in scratch": (
        "os.link(o + '/file', s + '/h'); open(s + '/h', 'w').write('x')",
        True,
        True,
    ),
    "through /proc/self/fd": (
        "f = os.open(o + '/file', os.O_RDONLY); open(f'/proc/self/fd/{f}', 'w').write('x')",
        True,
        True,
    ),
    "relative to a folder's descriptor": (
        "os.open('file', os.O_WRONLY | os.O_TRUNC, dir_fd=os.open(o, os.O_RDONLY))",
        True,
        True,
    ),
    "upwards from a folder's descriptor": (
        "up, fd = upwards(o); os.open(up + '/file', os.O_WRONLY | os.O_TRUNC, dir_fd=fd)",
        True,
        True,
    ),
    "make a folder upwards from a descriptor": (
        "up, fd = upwards(o); os.makedirs(up + '/sub'); os.mkdir(up + '/sub', dir_fd=fd)",
        True,
        True,
    ),
    "mkfifo upwards from a descriptor": (
        "up, fd = upwards(o); os.makedirs(up); os.mkfifo(up + '/new', dir_fd=fd)",
        True,
        True,
    ),
    "remove": ("os.remove(o + '/file')", True, True),
    "rename": ("os.rename(o + '/file', o + '/other')", True, True),
    "rename into scratch": ("os.rename(o + '/file', s + '/taken')", True, True),
    "make a folder": ("os.mkdir(o + '/sub')", True, True),
    "remove a folder": ("os.rmdir(o + '/empty')", True, True),
    "shutil.rmtree": ("shutil.rmtree(o)", True, True),
    "shutil.copy": ("shutil.copy(__file__, o + '/copy')", True, True),
    "symlink outside": ("os.symlink('/etc/hostname', o + '/link')", True, True),
    "mkfifo": ("os.mkfifo(o + '/fifo')", True, True),
    "chmod": ("os.chmod(o + '/file', 0o644)", True, True),
    "fchmod": ("os.fchmod(os.open(o + '/file', os.O_RDONLY), 0o644)", True, True),
    "utime": ("os.utime(o + '/file', (1, 1))", True, True),
    "setxattr": ("os.setxattr(o + '/file', 'user.x', b'1')", True, True),
    "truncate": ("os.truncate(o + '/file', 0)", True, True),
    "mmap of a file": (
        "f = os.open(o + '/file', os.O_RDWR); mmap.mmap(f, 4)[:1] = b'x'",
        True,
        True,
    ),
    "sendfile": (
        "os.sendfile(os.open(o + '/file', os.O_WRONLY), os.open(__file__, os.O_RDONLY), 0, 9)",
        True,
        True,
    ),
    "sqlite file": ("sqlite3.connect(o + '/db').execute('insert into t values (1)')", True, True),
    "sqlite URI with a fragment": (
        "sqlite3.connect(f'file:{o}/new#?mode=ro', uri=True).execute('create table t (n)')",
        True,
        True,
    ),
    "sqlite URI with percent signs": (
        "up = '/%2e%2e' * s.count('/'); "
        "sqlite3.connect(f'file:{s}{up}{o}/new', uri=True).execute('create table t (n)')",
        True,
        True,
    ),
    "sqlite ATTACH": (
        "c = sqlite3.connect(':memory:'); "
        "c.executescript(f\"attach '{o}/new' as v; create table v.t (n)\")",
        True,
        True,
    ),
    "sqlite ATTACH with a parameter": (
        "c = sqlite3.connect(':memory:'); c.execute('attach ? as v', (o + '/new',)); "
        "c.execute('create table v.t (n)')",
        True,
        True,
    ),
    "sqlite VACUUM INTO": (
        "sqlite3.connect(':memory:').execute(f\"vacuum into '{o}/new'\")",
        True,
        True,
    ),
    "history of readline": (
        "import readline; readline.write_history_file(o + '/new')",
        True,
        True,
    ),
    "key log of ssl": (
        "import ssl; ssl.create_default_context().keylog_filename = o + '/new'",
        True,
        True,
    ),
    "a lock on a file": (
        "import fcntl; fcntl.flock(open(o + '/file'), fcntl.LOCK_EX | fcntl.LOCK_NB)",
        True,
        True,
    ),
    "flags of a file": (
        "import fcntl; fcntl.ioctl(open(o + '/file'), 0x40086602, NODUMP)",
        True,
        True,
    ),
    "reading a FIFO": ("os.read(os.open(o + '/fifo', os.O_RDONLY | os.O_NONBLOCK), 9)", True, True),
    "dbm file": ("import dbm; dbm.open(o + '/dbm', 'n')['a'] = 'b'", True, True),
    "logging to a file": ("logging.FileHandler(o + '/log')", True, True),
    "shared memory": (
        "shared_memory.SharedMemory(create=True, size=16, name=f'tracekit-{pid}')",
        True,
        True,
    ),
    "a semaphore with a name": (
        "import _multiprocessing; _multiprocessing.SemLock(1, 1, 1, f'/tracekit-{pid}', False)",
        True,
        True,
    ),
    "TCP": ("socket.create_connection(('127.0.0.1', port), 2)", True, True),
    "TCP by raw socket": ("socket.socket().connect(('127.0.0.1', port))", True, True),
    "connect_ex": ("socket.socket().connect_ex(('127.0.0.1', port))", True, True),
    "UDP": ("socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', udp))", True, True),
    "UDP sendmsg": (
        "socket.socket(type=socket.SOCK_DGRAM).sendmsg([b'x'], [], 0, ('127.0.0.1', udp))",
        True,
        True,
    ),
    "UNIX socket": ("socket.socket(socket.AF_UNIX).connect(unix)", True, True),
    "listen": ("socket.create_server(('127.0.0.1', 0))", True, True),
    "listen without bind": ("socket.socket().listen() or os._exit(1)", True, True),
    "DNS": ("socket.getaddrinfo('tracekit.invalid', 80)", True, True),
    "http.client": (
        "http.client.HTTPConnection('127.0.0.1', port, timeout=2).request('POST', '/')",
        True,
        True,
    ),
    "urllib": (
        "urllib.request.urlopen(f'http://127.0.0.1:{port}', b'x', timeout=2)",
        True,
        True,
    ),
    "urllib3": (
        "import urllib3; urllib3.request('POST', f'http://127.0.0.1:{port}', retries=False)",
        True,
        True,
    ),
    "httpx": ("import httpx2; httpx2.post(f'http://127.0.0.1:{port}', timeout=2)", True, True),
    "asyncio streams": ("asyncio.run(asyncio.open_connection('127.0.0.1', port))", True, True),
    "asyncio sockets, as aiohttp uses them": ("asyncio.run(sock_connect(port))", True, True),
    "subprocess": ("subprocess.run(['touch', o + '/new'])", True, True),
    "asyncio subprocess": (
        "asyncio.run(asyncio.create_subprocess_exec('touch', o + '/new'))",
        True,
        True,
    ),
    "os.system": ("os.system(f'touch {o}/new')", True, True),
    "os.popen": ("os.popen(f'touch {o}/new').read()", True, True),
    "os.fork": ("os.fork() or (open(o + '/new', 'w'), os._exit(0))", True, True),
    "os.posix_spawn": ("os.posix_spawn('/bin/touch', ['touch', o + '/new'], {})", True, True),
    "os.exec": ("os.execv('/bin/touch', ['touch', o + '/new'])", True, True),
    "pty.spawn": ("import pty; pty.spawn(['touch', o + '/new'])", True, True),
    "process pool, forked": (
        "multiprocessing.get_context('fork').Process(target=Path(o, 'new').touch).start()",
        True,
        True,
    ),
    "process pool, spawned": (
        "multiprocessing.get_context('spawn').Process(target=Path(o, 'new').touch).start()",
        True,
        True,
    ),
    "another interpreter": ('interpret(f\'open({o!r} + "/new", "w")\')', True, True),
    "kill of another process": ("os.kill(pid, 15)", True, True),
    "kill by pidfd": ("signal.pidfd_send_signal(os.pidfd_open(pid), 15)", True, True),
    "kill by a descriptor's signals": (
        "import fcntl; fcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, pid)",
        True,
        True,
    ),
    "processors of another process": ("os.sched_setaffinity(pid, {0})", True, True),
    "scheduling of another process": (
        "os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))",
        True,
        True,
    ),
    "priority of another process": ("os.setpriority(os.PRIO_PROCESS, pid, 5)", True, True),
    "limits of another process": (
        "import resource; resource.prlimit(pid, resource.RLIMIT_NOFILE, (5, 5))",
        True,
        True,
    ),
    "in a thread": (
        "t = threading.Thread(target=Path(o, 'new').touch); t.start(); t.join()",
        True,
        True,
    ),
    "in an executor": ("ThreadPoolExecutor(1).submit(Path(o, 'new').touch).result()", True, True),
    "in loop.call_soon": ("soon(Path(o, 'new').touch)", True, True),
    "in __del__": ("Dying(Path(o, 'new').touch)", True, True),
    "in weakref.finalize": ("weakref.finalize(Plain(), Path(o, 'new').touch)", True, True),
    "in a signal handler": (
        "signal.signal(signal.SIGUSR1, lambda *_: Path(o, 'new').touch()); "
        "os.kill(os.getpid(), signal.SIGUSR1)",
        True,
        True,
    ),
    "in a generator's finally": ("finally_(Path(o, 'new').touch)", True, True),
    # Never reached: a run's process ends without exit handlers.
    "in atexit": ("atexit.register(Path(o, 'new').touch)", False, False),
    "libc.system by ctypes": ("ctypes.CDLL(None).system(f'touch {o}/new'.encode())", True, False),
    "libc write by ctypes": ("c_write(ctypes.CDLL(None), o)", True, False),
    "libc write by ctypes.pythonapi": ("c_write(ctypes.pythonapi, o)", True, False),
    "libc connect by ctypes": ("c_connect(ctypes.CDLL(None), port)", True, False),
    "libc chmod by ctypes": (
        "ctypes.CDLL(None).chmod(os.fsencode(o + '/file'), 0o644)",
        True,
        False,
    ),
    "libc kill by ctypes": ("ctypes.CDLL(None).kill(pid, 15)", True, False),
    "Multipath TCP by ctypes": ("c_connect(ctypes.CDLL(None), port, 262)", True, False),
    "TCP Fast Open by ctypes": ("c_send(ctypes.CDLL(None), port, 0x20000000)", True, False),
    "listen by ctypes": ("c_listen(ctypes.CDLL(None))", True, False),
    "limits of another process by ctypes": (
        "ctypes.CDLL(None).prlimit(pid, 7, (ctypes.c_uint64 * 2)(5, 5), None)",
        True,
        False,
    ),
    "processors of another process by ctypes": (
        "ctypes.CDLL(None).sched_setaffinity(pid, 8, (ctypes.c_uint64 * 1)(1))",
        True,
        False,
    ),
    "flags of a file by ctypes": (
        "ctypes.CDLL(None).ioctl(os.open(o + '/file', 0), ctypes.c_ulong(0x40086602), NODUMP)",
        True,
        False,
    ),
}
# Prepared when the planner's module is imported. The hook does not hear of the calls, only the
# kernel stops them; without the kernel the hook refuses the preparation.
BENEATH = {
    "a function of the C library looked up before": "LATE['open'](os.fsencode(o + '/new'), 0o101)",
    "a raw system call": "LATE['syscall'](83, os.fsencode(o + '/sub'), 0o755)",
}

PLANNER = """
import asyncio, atexit, ctypes, http.client, logging, mmap, multiprocessing, os, shutil, signal
import socket, sqlite3, struct, subprocess, threading, urllib.request, weakref
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import shared_memory
from pathlib import Path

class Plain: pass

class Dying:
    def __init__(self, act): self.act = act
    def __del__(self): self.act()

def soon(act):
    async def main():
        asyncio.get_running_loop().call_soon(act)
        await asyncio.sleep(0.01)
    asyncio.run(main())

async def sock_connect(port):
    with socket.socket() as one:
        one.setblocking(False)
        await asyncio.get_running_loop().sock_connect(one, ("127.0.0.1", port))

def finally_(act):
    def steps():
        try: yield
        finally: act()
    next(steps())

def c_write(library, o):
    fd = library.open(os.fsencode(o + "/file"), os.O_WRONLY)
    library.write(fd, b"x", 1)

def interpret(source):
    try:
        import _interpreters as interpreters
        run = interpreters.exec
    except ImportError:
        import _xxsubinterpreters as interpreters
        run = interpreters.run_string
    run(interpreters.create(), source)

def upwards(o):
    # A way there from a folder's descriptor in scratch that from here stays in scratch.
    home = os.path.realpath(os.environ["HOME"])
    fd, up = os.open(home, os.O_RDONLY), home.count("/")
    here = home + "/deep" * (up + 1)
    os.makedirs(here)
    os.chdir(here)
    return "../" * up + o[1:], fd

NODUMP = (0x40).to_bytes(8, "little")

def here(port):
    return struct.pack("=HH4s8x", 2, socket.htons(port), bytes([127, 0, 0, 1]))

def c_connect(library, port, protocol=0):
    library.connect(library.socket(2, 1, protocol), here(port), 16)

def c_send(library, port, flags):
    library.sendto(library.socket(2, 1, 0), b"x", 1, flags, here(port), 16)

def c_listen(library):
    if library.listen(library.socket(2, 1, 0), 1) == 0:
        os._exit(1)  # nobody outside could tell

def go(request, channel):
    names = dict(request["targets"], s=os.environ["HOME"], LATE=globals().get("LATE"))
    try:
        exec(request["way"], globals() | names)
        return "went on"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
"""


@dataclass
class Outside:
    """Everything that a way could reach."""

    folder: Path
    tcp: socket.socket
    udp: socket.socket
    unix: socket.socket
    victim: subprocess.Popen[bytes]
    fifo: int

    @property
    def targets(self) -> dict[str, Any]:
        return {
            "o": str(self.folder),
            "port": self.tcp.getsockname()[1],
            "udp": self.udp.getsockname()[1],
            "unix": self.unix.getsockname(),
            "pid": self.victim.pid,
        }

    def state(self) -> Any:
        """Describe what stands outside; equal before and after means that nothing arrived."""
        listeners = [self.tcp, self.udp, self.unix]
        return (
            [_describe(path) for path in sorted([self.folder, *self.folder.rglob("*")])],
            select.select(listeners, [], [], 0)[0],
            (self.victim.poll(), *_standing(self.victim.pid)),
            sorted(name for name in os.listdir("/dev/shm") if "tracekit-" in name),
            fcntl.ioctl(self.fifo, termios.FIONREAD, b"\0" * 4),
        )


def _standing(pid: int) -> Any:
    return (
        os.sched_getaffinity(pid), os.sched_getscheduler(pid), os.getpriority(os.PRIO_PROCESS, pid),
        [resource.prlimit(pid, kind) for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_CPU)],
    )  # fmt: skip


def _flags(path: Path) -> bytes:
    """What ``lsattr`` shows; nothing where the file system knows no flags."""
    flags = bytearray(8)
    with open(path, "rb") as file, suppress(OSError):
        fcntl.ioctl(file, 0x80086601, flags)
    return bytes(flags)


def _describe(path: Path) -> Any:
    found = path.lstat()
    content = path.read_bytes() if path.is_file() else b""
    return (
        str(path), found.st_mode, found.st_mtime_ns, found.st_nlink, os.listxattr(path), content,
        _flags(path) if path.is_file() else b"",
    )  # fmt: skip

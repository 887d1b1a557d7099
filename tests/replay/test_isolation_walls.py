"""The battery: ways to reach out of a replay, each tried by a real planner against real targets.

After each way nothing listening was reached, no file outside scratch changed and no process was
touched. Which ways the report can list one by one is part of the outcome; the table in the docs
says the same.
"""

from __future__ import annotations

import fcntl
import os
import platform
import resource
import select
import socket
import sqlite3
import subprocess
import textwrap
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from replay.isolation import Isolate, Level, kernel_available
from tracekit.errors import PlannerImportFailed

HOST = "tests.replay.isolation_double"
KERNEL = pytest.param(
    "kernel",
    marks=pytest.mark.skipif(not kernel_available()[0], reason=kernel_available()[1]),
)

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
    "dbm file": ("import dbm; dbm.open(o + '/dbm', 'n')['a'] = 'b'", True, True),
    "logging to a file": ("logging.FileHandler(o + '/log')", True, True),
    "shared memory": (
        "shared_memory.SharedMemory(create=True, size=16, name=f'tracekit-{pid}')",
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
    "kill of another process": ("os.kill(pid, 15)", True, True),
    "kill by pidfd": ("signal.pidfd_send_signal(os.pidfd_open(pid), 15)", True, True),
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
    before: Any = field(default=None)

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
            sorted(name for name in os.listdir("/dev/shm") if name.startswith("tracekit-")),
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


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    folder = tmp_path_factory.mktemp("outside")
    (folder / "file").write_text("untouched")
    (folder / "empty").mkdir()
    database = sqlite3.connect(folder / "db")
    database.execute("create table t (n)")
    database.close()
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(type=socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as unix,
    ):
        udp.bind(("127.0.0.1", 0))
        unix.bind(str(tmp_path_factory.mktemp("u") / "s"))
        unix.listen()
        victim = subprocess.Popen(["sleep", "600"])
        yield Outside(folder, tcp, udp, unix, victim)
        victim.kill()
        victim.wait()


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("modules")
    (folder / "reaching.py").write_text(PLANNER, "utf-8")
    late = "import ctypes\nC = ctypes.CDLL(None)\nLATE = {'open': C.open, 'syscall': C.syscall}\n"
    (folder / "beneath.py").write_text(late + PLANNER, "utf-8")
    return folder


@pytest.fixture(scope="module", params=["process", KERNEL])
def isolate(request: pytest.FixtureRequest, modules: Path) -> Iterator[Isolate]:
    """One child for all ways: each runs in a fork of its own."""
    level: Level = request.param
    planner = Isolate("reaching:go", level=level, path=[modules], host=HOST, cwd=modules)
    with planner:
        yield planner


@pytest.mark.parametrize("way", WAYS)
def test_a_way_out_is_stopped_and_listed(isolate: Isolate, outside: Outside, way: str) -> None:
    source, listed_by_hook, listed_under_kernel = WAYS[way]
    before, findings = outside.state(), []

    def handle(message: dict[str, Any]) -> None:
        findings.append(message["finding"])

    isolate.run({"way": source, "targets": outside.targets}, handle)

    assert outside.state() == before
    kernel = isolate.ready.level == "kernel"
    assert bool(findings) is (listed_under_kernel if kernel else listed_by_hook)
    assert all(finding["refused"] for finding in findings)


@pytest.mark.parametrize("level", [KERNEL])
@pytest.mark.parametrize("way", BENEATH)
def test_what_the_hook_cannot_hear_the_kernel_stops(
    modules: Path, outside: Outside, way: str, level: Level
) -> None:
    planner = Isolate("beneath:go", level=level, path=[modules], host=HOST, cwd=modules)
    before, findings = outside.state(), []
    with planner:
        request = {"way": BENEATH[way], "targets": outside.targets}
        exit_ = planner.run(request, findings.append)
    assert exit_.result == {"value": "went on"}
    assert outside.state() == before
    assert findings == []


ARGUMENTS = """
import ctypes, errno, os, socket, struct

LIBC = ctypes.CDLL(None, use_errno=True)
VECTOR = ctypes.create_string_buffer(64)

def said(result):
    return "" if result >= 0 else errno.errorcode[ctypes.get_errno()]

def go(request, channel):
    one, two = socket.socketpair()
    fd, pair, victim = LIBC.socket(2, 1, 0), one.fileno(), request["pid"]
    file = os.open(__file__, os.O_RDONLY)
    names = globals() | locals()
    return [said(eval(call, names)) for call in request["calls"]]
"""
JUDGED = {
    "LIBC.socket(2, 1, 6)": "",
    "LIBC.socket(2, 1 | 0o2004000, 0)": "",
    "LIBC.socket(1, 2, 0)": "",
    "LIBC.socket(10, 1, 262)": "EPERM",
    "LIBC.socket(2, 5, 0)": "EPERM",  # SCTP by its type
    "LIBC.socket(2, 6, 0)": "EPERM",  # DCCP
    "LIBC.socket(40, 1, 0)": "EPERM",  # to the host of a virtual machine
    "LIBC.socket(43, 1, 0)": "EPERM",  # SMC, which speaks TCP
    "LIBC.socket(38, 5, 0)": "EPERM",
    "LIBC.sendto(pair, b'x', 1, 0x4000, None, 0)": "",
    "LIBC.sendto(pair, b'x', 1, 0x20004000, None, 0)": "EPERM",
    "LIBC.sendmsg(pair, VECTOR, 0x20000000)": "EPERM",
    "LIBC.sendmmsg(pair, VECTOR, 1, 0x20000000)": "EPERM",
    "LIBC.setsockopt(fd, 6, 1, struct.pack('i', 1), 4)": "",
    "LIBC.setsockopt(fd, 1, 30, struct.pack('i', 1), 4)": "ENOPROTOOPT",
    "LIBC.setsockopt(fd, 6, 30, struct.pack('i', 1), 4)": "EPERM",
    "LIBC.setsockopt(fd, 6, 19, struct.pack('i', 1), 4)": "EPERM",
    "LIBC.listen(fd, 1)": "EPERM",
    "LIBC.ioctl(pair, 0x541B, VECTOR)": "",
    "LIBC.ioctl(file, ctypes.c_ulong(0x40806685), VECTOR)": "EPERM",  # makes it immutable
    "LIBC.ioctl(file, ctypes.c_ulong(0x5000940E), VECTOR)": "EPERM",
    "LIBC.ioctl(0, 0x5412, b'x')": "EPERM",  # types into a terminal
    "LIBC.fcntl(file, 1, 0)": "",
    "LIBC.fcntl(file, 1024, 1)": "EPERM",
    "LIBC.fcntl(pair, 8, victim)": "EPERM",
    "LIBC.prlimit(0, 7, None, VECTOR)": "",
    "LIBC.prlimit(victim, 7, None, VECTOR)": "EPERM",
    "LIBC.sched_setaffinity(0, 8, b'\\xff' * 8)": "",
    "LIBC.sched_setaffinity(victim, 8, b'\\xff' * 8)": "EPERM",
    "LIBC.syscall(256, victim, 8, VECTOR, VECTOR)": "EPERM",  # migrate_pages
}


@pytest.mark.parametrize("level", [KERNEL])
@pytest.mark.skipif(platform.machine() != "x86_64", reason="numbers of system calls are written")
def test_the_kernel_refuses_by_arguments_what_it_would_let_through_by_name(
    tmp_path: Path, outside: Outside, level: Level
) -> None:
    (tmp_path / "arguing.py").write_text(ARGUMENTS, "utf-8")
    request = {"pid": outside.targets["pid"], "calls": list(JUDGED)}
    with Isolate("arguing:go", level=level, path=[tmp_path], host=HOST, cwd=tmp_path) as planner:
        result = planner.run(request, lambda _: None).result
    assert result is not None
    assert dict(zip(JUDGED, result["value"], strict=True)) == JUDGED


@pytest.mark.parametrize("way", BENEATH)
def test_without_the_kernel_the_hook_refuses_the_c_library(modules: Path, way: str) -> None:
    with (
        pytest.raises(PlannerImportFailed, match=r"refused ctypes\.dlopen"),
        Isolate("beneath:go", level="process", path=[modules], host=HOST, cwd=modules),
    ):
        pass


def test_the_table_in_the_docs_says_what_the_battery_shows() -> None:
    says = {True: "listed", False: "not listed"}
    rows = [f"| {way} | {says[hook]} | {says[kernel]} |" for way, (_, hook, kernel) in WAYS.items()]
    rows += [f"| {way} | listed, at import | not listed |" for way in BENEATH]
    text = (Path(__file__).parents[2] / "docs" / "isolation.md").read_text("utf-8")
    table = text.partition("| way |")[2].partition("\n\n")[0].splitlines()[2:]
    assert table == rows, "\n".join(rows)


@pytest.mark.parametrize("level", ["process", KERNEL])
@pytest.mark.parametrize("way", ["open for writing", "TCP", "subprocess", "os.fork", "chmod"])
def test_what_a_module_attempts_at_import_is_refused_and_listed(
    tmp_path: Path, outside: Outside, level: Level, way: str
) -> None:
    targets = "".join(f"{name} = {value!r}\n" for name, value in outside.targets.items())
    attempt = textwrap.indent(WAYS[way][0], "    ")
    (tmp_path / "eager.py").write_text(
        f"import os, socket, subprocess\n{targets}try:\n{attempt}\nexcept PermissionError: pass\n"
        "def go(request, channel): return 'ran'\n",
        "utf-8",
    )
    before = outside.state()
    with Isolate("eager:go", level=level, path=[tmp_path], host=HOST, cwd=tmp_path) as planner:
        assert planner.run({}, lambda _: None).result == {"value": "ran"}
        (finding,) = planner.ready.findings
    assert finding["refused"] is True
    assert finding["where"].startswith(f"{tmp_path}/eager.py:")
    assert outside.state() == before


@pytest.mark.parametrize("level", ["process", KERNEL])
def test_a_finding_says_what_was_attempted_and_where(
    tmp_path: Path, outside: Outside, level: Level
) -> None:
    (tmp_path / "agent.py").write_text(
        "import socket\n\ndef go(request, channel):\n"
        "    try:\n        socket.socket().connect(('127.0.0.1', request['port']))\n"
        "    except OSError as error:\n        return str(error)\n",
        "utf-8",
    )
    port, found = outside.targets["port"], []
    with Isolate("agent:go", level=level, path=[tmp_path], host=HOST, cwd=tmp_path) as planner:
        exit_ = planner.run({"port": port}, found.append)
    assert found == [
        {
            "finding": {
                "kind": "network",
                "event": "socket.connect",
                "what": f"127.0.0.1:{port}",
                "where": f"{tmp_path}/agent.py:5",
                "refused": True,
                "incidental": False,
                "wall": "process",
            }
        }
    ]
    assert exit_.result == {
        "value": f"[Errno 1] tracekit replay refused socket.connect: 127.0.0.1:{port}"
    }


@pytest.mark.parametrize("level", ["process", KERNEL])
def test_what_libraries_do_beside_their_work_is_no_sign_of_harm(
    tmp_path: Path, level: Level
) -> None:
    (tmp_path / "agent.py").write_text(
        "import platform, socket, urllib3\n\ndef go(request, channel):\n"
        "    platform.processor()  # clients of models put it into their headers\n"
        "    with socket.socket() as s:\n        s.bind(('127.0.0.1', 0))\n",
        "utf-8",
    )
    found: list[Any] = []
    with Isolate("agent:go", level=level, path=[tmp_path], host=HOST, cwd=tmp_path) as planner:
        planner.run({}, found.append)
        at_import = list(planner.ready.findings)
    found = at_import + [message["finding"] for message in found]
    assert [finding["event"] for finding in found if not finding["incidental"]] == []
    assert [finding["what"] for finding in found][-1:] == ["127.0.0.1:0"]


def test_without_an_overlay_a_file_write_is_refused_and_the_path_named(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(
        "def go(request, channel):\n    open('agent.log', 'w').write('x')\n", "utf-8"
    )
    found: list[Any] = []
    with Isolate("agent:go", level="process", path=[tmp_path], host=HOST, cwd=tmp_path) as planner:
        exit_ = planner.run({}, found.append)
    assert exit_.kind == "crashed"
    assert f"refused open: {tmp_path}/agent.log" in exit_.detail
    assert found[0]["finding"]["incidental"] is True
    assert not (tmp_path / "agent.log").exists()


@pytest.mark.parametrize("level", [KERNEL])
def test_with_an_overlay_file_writes_are_thrown_away_and_listed(
    tmp_path: Path, level: Level
) -> None:
    (tmp_path / "agent.py").write_text(
        "import os\n\ndef go(request, channel):\n"
        "    before = sorted(os.listdir('.'))\n    open('agent.log', 'a').write('x')\n"
        "    open('notes', 'a').write('more')\n    return [before, open('notes').read()]\n",
        "utf-8",
    )
    (tmp_path / "notes").write_text("some ")
    found: list[Any] = []
    with Isolate("agent:go", level=level, path=[tmp_path], host=HOST, cwd=tmp_path) as planner:
        first, changes = planner.run({}, found.append).result, planner.incidental
        second = planner.run({}, found.append).result
        assert planner.incidental == changes
    seen = [name for name in ("agent.log", "agent.py", "notes") if name != "agent.log"]
    assert first == second == {"value": [seen, "some more"]}
    assert sorted((change.kind, change.path) for change in changes) == [
        ("A", "agent.log"),
        ("M", "notes"),
    ]
    assert all(message["finding"]["incidental"] for message in found)
    assert not any(message["finding"]["refused"] for message in found)
    assert (tmp_path / "notes").read_text() == "some "
    assert not (tmp_path / "agent.log").exists()

"""The battery: ways to reach out of a replay, each tried by a real planner against real targets.

After each way nothing listening was reached, no file outside scratch changed and no process was
touched. Which ways the report can list one by one is part of the outcome; the table in the docs
says the same.
"""

from __future__ import annotations

import os
import platform
import socket
import sqlite3
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replay.isolation import Isolate, Level, kernel_available
from tests.replay.isolation_ways import BENEATH, PLANNER, WAYS, Outside
from tracekit.errors import PlannerImportFailed

HOST = "tests.replay.isolation_double"
KERNEL = pytest.param(
    "kernel",
    marks=pytest.mark.skipif(not kernel_available()[0], reason=kernel_available()[1]),
)


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    folder = tmp_path_factory.mktemp("outside")
    (folder / "file").write_text("untouched")
    (folder / "empty").mkdir()
    os.mkfifo(folder / "fifo")
    fifo = os.open(folder / "fifo", os.O_RDWR)
    os.write(fifo, b"waiting")
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
        yield Outside(folder, tcp, udp, unix, victim, fifo)
        victim.kill()
        victim.wait()
        os.close(fifo)


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


WITHIN = (
    "sqlite3.connect(f'file:{o}/db?mode=ro', uri=True).execute('select * from t').fetchall()",
    "sqlite3.connect(f'file://localhost{o}/%64b?mode=ro#x', uri=True).execute('select * from t')",
    "sqlite3.connect('file:some?mode=memory', uri=True).execute('create table t (n)')",
    "sqlite3.connect(f'file:{s}/a%20b', uri=True).execute('create table t (n)')",
    "sqlite3.connect(':memory:').executescript(f\"attach ':memory:' as v; attach '{s}/c' as w\")",
    "sqlite3.connect(':memory:').executescript(f\"vacuum; vacuum into '{s}/d'; vacuum into ''\")",
    "os.mkdir('kept', dir_fd=os.open(s, os.O_RDONLY))",
    "os.chdir(s); os.open('file', os.O_WRONLY | os.O_CREAT, dir_fd=os.open(s, os.O_RDONLY))",
    "import fcntl; fcntl.flock(open(s + '/lock', 'w'), fcntl.LOCK_EX)",
    "import fcntl; fcntl.flock(open(o + '/file'), fcntl.LOCK_SH | fcntl.LOCK_NB)",
    "import fcntl; fcntl.fcntl(open(o + '/file'), fcntl.F_GETFL)",
    "import fcntl; fcntl.fcntl(os.pipe()[0], fcntl.F_SETFL, os.O_NONBLOCK)",
    "import fcntl, termios; fcntl.ioctl(open(o + '/file'), termios.FIONREAD, b'1234')",
    "os.sched_setaffinity(0, os.sched_getaffinity(0))",
    "import readline; readline.write_history_file(); readline.append_history_file(0)",
    "import ssl; ssl.create_default_context().keylog_filename = s + '/keys'",
    "open(s + '/from', 'w').close(); shutil.copy(s + '/from', s + '/to')",
    *(
        f"one = multiprocessing.get_context({way!r}); one.Queue().put(1); one.Value('i').value = 1"
        for way in ("fork", "spawn", "forkserver")
    ),
    "from multiprocessing.pool import ThreadPool; ThreadPool(2).map(abs, [-1, 2])",
    "from concurrent.futures import ProcessPoolExecutor; ProcessPoolExecutor(2).shutdown()",
    "one = multiprocessing.Event(); one.set(); one.wait(); multiprocessing.Condition().acquire()",
)


def test_what_stays_within_is_neither_stopped_nor_listed(
    isolate: Isolate, outside: Outside
) -> None:
    before, told = outside.state(), []
    request = {"way": "\n".join(WITHIN), "targets": outside.targets}
    result = isolate.run(request, told.append).result
    assert (result, told) == ({"value": "went on"}, [])
    assert outside.state() == before


def test_what_is_gone_with_its_process_may_be_made(modules: Path) -> None:
    way = (
        "multiprocessing.Lock().acquire(); multiprocessing.get_context('fork').Semaphore(2); "
        "os.mkfifo(s + '/fifo'); os.open(s + '/fifo', os.O_RDONLY | os.O_NONBLOCK)"
    )
    told: list[Any] = []
    with Isolate("reaching:go", level="process", path=[modules], host=HOST, cwd=modules) as one:
        result = one.run({"way": way, "targets": {}}, told.append).result
    assert (result, told) == ({"value": "went on"}, [])


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
    "LIBC.socket(16, 3, 0)": "",
    "LIBC.socket(16, 3, 12)": "EPERM",  # the rules of a firewall
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

"""The planner's child process: how it starts, talks, ends, and what it leaves behind."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from replay.isolation import Exit, Isolate, Level, Limits, kernel, kernel_available, process
from tracekit.errors import IsolationUnavailable, PlannerImportFailed, PlannerNotFound

HOST = "tests.replay.isolation_double"
ROOT = Path(__file__).parents[2]
needs_kernel = pytest.mark.skipif(not kernel_available()[0], reason=kernel_available()[1])
both = pytest.mark.parametrize("level", ["process", pytest.param("kernel", marks=needs_kernel)])

Start = Callable[..., Isolate]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Make an isolate around `planner:go`, given the source of its module."""

    def make(source: str, *, level: Level | None = "process", **options: Any) -> Isolate:
        folder = tmp_path / "modules"
        folder.mkdir(exist_ok=True)
        (folder / "planner.py").write_text(textwrap.dedent(source), "utf-8")
        options.setdefault("cwd", tmp_path)
        return Isolate("planner:go", level=level, path=[folder], host=HOST, **options)

    return make


def silent(message: dict[str, Any]) -> None:
    return None


def run_once(isolate: Isolate, request: dict[str, Any] | None = None) -> Exit:
    with isolate:
        return isolate.run(request or {}, silent)


# --- talking --------------------------------------------------------------------------------------


@both
def test_a_planner_asks_its_parent_and_hands_back_a_result(start: Start, level: Level) -> None:
    isolate = start(
        """
        def go(request, channel):
            channel.tell({"event": "begin"})
            return [channel.ask({"call": n})["twice"] for n in range(request["calls"])]
        """,
        level=level,
    )
    heard = []

    def handle(message: dict[str, Any]) -> dict[str, Any] | None:
        heard.append(message)
        return {"twice": 2 * message["call"]} if "call" in message else None

    with isolate:
        exit_ = isolate.run({"calls": 3}, handle)

    assert exit_ == Exit("done", "", result={"value": [0, 2, 4]})
    assert heard == [{"event": "begin"}, {"call": 0}, {"call": 1}, {"call": 2}]


def test_threads_ask_side_by_side_and_each_gets_its_own_answer(start: Start) -> None:
    isolate = start(
        """
        from concurrent.futures import ThreadPoolExecutor

        def go(request, channel):
            with ThreadPoolExecutor(8) as pool:
                return list(pool.map(lambda n: channel.ask({"n": n})["n"], range(200)))
        """
    )
    with isolate:
        exit_ = isolate.run({}, lambda message: message)
    assert exit_.result == {"value": list(range(200))}


def test_an_answer_may_be_far_larger_than_a_pipe(start: Start) -> None:
    isolate = start(
        "def go(request, channel): return len(channel.ask({'x': 'y' * 3_000_000})['x'])"
    )
    with isolate:
        assert isolate.run({}, lambda message: message).result == {"value": 3_000_000}


@both
def test_event_loops_and_pools_of_threads_work(start: Start, level: Level) -> None:
    isolate = start(
        """
        import asyncio

        async def work(n):
            await asyncio.sleep(0)
            return await asyncio.to_thread(lambda: n)

        async def all_of_them():
            return await asyncio.gather(*(work(n) for n in range(3)))

        def go(request, channel):
            return asyncio.run(all_of_them())
        """,
        level=level,
    )
    assert run_once(isolate).result == {"value": [0, 1, 2]}


def test_what_the_parent_raises_ends_the_run_and_the_next_run_is_sound(start: Start) -> None:
    def fail(message: dict[str, Any]) -> None:
        raise LookupError("the tape is over")

    isolate = start(
        """
        import os
        def go(request, channel):
            try:
                return [channel.ask({'a': 1}), os.getppid()]
            except Exception:
                while True: pass
        """
    )
    with isolate:
        first = isolate.run({}, lambda _: {"b": 2}).result
        with pytest.raises(LookupError, match="the tape is over"):
            isolate.run({}, fail)
        assert isolate.run({}, lambda _: {"b": 2}).result == first  # from the same child


def test_a_run_that_goes_on_after_it_was_told_to_stop_costs_its_child(start: Start) -> None:
    def fail(message: dict[str, Any]) -> None:
        raise LookupError("the tape is over")

    isolate = start(
        """
        def go(request, channel):
            try:
                return channel.ask({})
            except BaseException:
                while True: pass
        """
    )
    with isolate:
        with pytest.raises(LookupError, match="the tape is over"):
            isolate.run({}, fail)
        assert isolate.run({}, lambda _: {"b": 2}).result == {"value": {"b": 2}}


def test_an_answer_that_is_not_json_is_the_callers_error(start: Start) -> None:
    isolate = start("def go(request, channel): return channel.ask({})")
    with isolate:
        with pytest.raises(ValueError, match="the answer cannot be sent: something that is not"):
            isolate.run({}, lambda _: {"x": object()})
        assert isolate.run({}, lambda _: {"b": 2}).result == {"value": {"b": 2}}


@both
def test_what_a_planner_prints_is_kept_apart_from_the_pipe(start: Start, level: Level) -> None:
    isolate = start(
        """
        import os, sys
        print("imported")

        def go(request, channel):
            for n in range(20_000):
                print("line", n, file=sys.stderr if n % 2 else sys.stdout)
            os.write(1, b"past python\\n")
            return channel.ask({})
        """,
        level=level,
    )
    with isolate:
        exit_ = isolate.run({}, lambda _: {"answer": 1})
    assert isolate.ready.output == "imported\n"
    assert exit_.result == {"value": {"answer": 1}}
    assert len(exit_.output) <= 64 * 1024
    assert "line 19999" in exit_.output
    assert "past python" in exit_.output


# --- one process a run ----------------------------------------------------------------------------


@both
def test_no_run_sees_what_another_run_left(start: Start, level: Level) -> None:
    isolate = start(
        """
        import os, tempfile
        from pathlib import Path
        SEEN = []

        def go(request, channel):
            SEEN.append(1)
            places = [Path.home(), Path(tempfile.gettempdir()), Path(os.environ["XDG_CACHE_HOME"])]
            before = sorted(path.name for place in places[:2] for path in place.iterdir())
            for place in places:
                place.mkdir(exist_ok=True)
                (place / "left").write_text("x")
            return [len(SEEN), before, os.getpid()]
        """,
        level=level,
    )
    with isolate:
        first, second = (isolate.run({}, silent).result for _ in range(2))
    assert first is not None
    assert second is not None
    assert first["value"][:2] == second["value"][:2] == [1, []]
    assert first["value"][2] != second["value"][2]


def test_scratch_is_gone_afterwards(start: Start) -> None:
    isolate = start("import os\ndef go(request, channel): return os.environ['TMPDIR']")
    result = run_once(isolate).result
    assert result is not None
    assert not Path(result["value"]).parents[1].exists()


def test_processes_that_a_run_leaves_behind_are_ended(start: Start) -> None:
    isolate = start(
        """
        import subprocess
        def go(request, channel): return subprocess.Popen(["sleep", "600"]).pid
        """,
        level="guard",
    )
    with isolate:
        result = isolate.run({}, silent).result
        assert result is not None
        with pytest.raises(ProcessLookupError):
            os.kill(result["value"], 0)


def test_threads_that_a_run_leaves_behind_end_with_it(start: Start) -> None:
    isolate = start(
        """
        import threading
        def for_ever():
            while True: pass
        def go(request, channel):
            threading.Thread(target=for_ever).start()
            return "done"
        """
    )
    assert run_once(isolate).result == {"value": "done"}


@both
def test_the_child_ends_when_its_parent_is_killed(tmp_path: Path, level: Level) -> None:
    (tmp_path / "planner.py").write_text(
        "import os\ndef go(request, channel):\n"
        "    channel.tell({'pids': [os.getpid(), os.getppid()]})\n    while True: pass\n",
        "utf-8",
    )
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from replay.isolation import Isolate\n"
            f"with Isolate('planner:go', path=[{str(tmp_path)!r}], host={HOST!r}, "
            f"level={level!r}) as isolate:\n"
            "    isolate.run({}, lambda m: print(*m['pids'], flush=True))",
        ],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    watched = [os.pidfd_open(int(pid)) for pid in parent.stdout.readline().split()]
    parent.kill()
    parent.wait()
    parent.stdout.close()
    for pidfd in watched:
        assert select.select([pidfd], [], [], 20)[0] == [pidfd]
        os.close(pidfd)
    if level == "process":  # a sandbox without its supervisor can no longer remove a file
        assert list(tmp_path.glob("tracekit-replay-*")) == []


# --- surroundings ---------------------------------------------------------------------------------


@both
def test_the_environment_passes_by_an_allow_list(
    start: Start, level: Level, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "sk-not-for-planners")
    monkeypatch.setenv("LC_TIME", "C")
    isolate = start(
        """
        import os
        FIRST = dict(os.environ)
        def go(request, channel): return [FIRST, dict(os.environ)]
        """,
        level=level,
        env={"MODEL": "m-small"},
    )
    result = run_once(isolate).result
    assert result is not None
    for seen in result["value"]:
        assert "API_TOKEN" not in seen
        assert seen["MODEL"] == "m-small"
        assert seen["LC_TIME"] == "C"
        assert seen["PYTHONHASHSEED"] == "0"
        assert not {"HOME", "TMPDIR", "XDG_CACHE_HOME"} - set(seen)
        assert seen["HOME"] != os.environ["HOME"]


@both
def test_the_environment_of_the_parent_cannot_be_read(start: Start, level: Level) -> None:
    isolate = start(
        """
        def go(request, channel):
            try:
                return len(open(f"/proc/{request['pid']}/environ", "rb").read())
            except PermissionError:
                return "refused"
        """,
        level=level,
    )
    assert run_once(isolate, {"pid": os.getpid()}).result == {"value": "refused"}


@both
def test_the_child_holds_no_descriptor_but_its_pipes(
    start: Start, level: Level, tmp_path: Path
) -> None:
    kept = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(kept, True)
    isolate = start(
        """
        import os
        def look():
            found = {}
            for name in os.listdir("/proc/self/fd"):
                try: found[name] = os.readlink(f"/proc/self/fd/{name}").partition(":")[0]
                except OSError: pass
            return found
        def go(request, channel): return look()
        """,
        level=level,
    )
    try:
        result = run_once(isolate).result
    finally:
        os.close(kept)
    assert result is not None
    held = [
        where
        for where in result["value"].values()
        if where not in ("pipe", "/dev/null") and not where.endswith("import-output")
    ]
    assert held == []
    assert sum(where == "pipe" for where in result["value"].values()) == 4  # in, out, 1 and 2


def test_modules_are_found_in_the_given_folders_and_in_the_working_folder(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "beside.py").write_text("NAME = 'beside'", "utf-8")
    isolate = start("import beside\ndef go(request, channel): return beside.NAME")
    assert run_once(isolate).result == {"value": "beside"}


def test_the_seed_of_hashes_is_the_same_in_every_child(start: Start) -> None:
    isolate = start("def go(request, channel): return [hash('a'), list({'x', 'y', 'z', 'w'})]")
    assert run_once(isolate).result == run_once(isolate).result


# --- ways to end ----------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["process", pytest.param("kernel", marks=needs_kernel)])
def ending(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Isolate]:
    """One child for all the ways to end: each is a run of its own."""
    folder = tmp_path_factory.mktemp("modules")
    source = "def go(request, channel):\n    scope = {'channel': channel, 'value': None}\n"
    source += "    exec(request['body'], scope)\n    return scope['value']\n"
    (folder / "planner.py").write_text(source, "utf-8")
    limits = Limits(wall_s=60, memory_mb=150, max_message_mb=1)
    level: Level = request.param
    with Isolate(
        "planner:go", level=level, path=[folder], host=HOST, cwd=folder, limits=limits
    ) as isolate:
        yield isolate


@pytest.mark.parametrize(
    ("body", "kind", "detail"),
    [
        ("raise KeyError('window')", "crashed", "the planner raised KeyError: 'window'"),
        ("raise SystemExit(4)", "crashed", "the planner raised SystemExit: 4"),
        (
            "import os; os._exit(3)",
            "crashed",
            "the planner left its process with exit code 3 before it had finished",
        ),
        (
            "import os; os.kill(os.getpid(), 9)",
            "killed",
            "the planner's process was killed (SIGKILL)",
        ),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
            "crashed",
            "the planner's process died of SIGSEGV",
        ),
        (
            "kept = [bytearray(1 << 20) for _ in range(10_000)]",
            "memory",
            "the planner needs more than its 150 MB of memory",
        ),
        (
            "import mmap\nkept = [mmap.mmap(-1, 1 << 20) for _ in range(300)]\n"
            "for m in kept: m.write(bytes(1 << 20))\nwhile True: pass",
            "memory",
            "the planner needs more than its 150 MB of memory",
        ),
        (
            "value = {1, 2}",
            "protocol",
            "the planner's process tried to send something that is not JSON: "
            "Type is not JSON serializable: set",
        ),
        (
            "channel.ask({'x': 'y' * 2_000_000})",
            "too large",
            "the planner needs to send a message of 2,000,020 bytes; the limit is 1,048,576",
        ),
        (
            "try: channel.ask({'x': ['y' * 2_000_000]})\nexcept Exception: pass",
            "too large",
            "the planner needs to send a message of 2,000,022 bytes; the limit is 1,048,576",
        ),
    ],
)
def test_a_run_that_fails_says_how_and_the_next_run_is_sound(
    ending: Isolate, body: str, kind: str, detail: str
) -> None:
    exit_ = ending.run({"body": body}, silent)
    assert (exit_.kind, exit_.detail, exit_.result) == (kind, detail, None)
    assert ending.run({"body": "value = 'well'"}, silent).result == {"value": "well"}


@both
@pytest.mark.parametrize("body", ["for _ in iter(int, 1): pass", "__import__('time').sleep(600)"])
def test_a_run_that_never_stops_is_ended(start: Start, level: Level, body: str) -> None:
    isolate = start(
        f"def go(request, channel):\n    if not request['hang']: return 'well'\n    {body}\n",
        level=level,
        limits=Limits(wall_s=0.5),
    )
    with isolate:
        exit_ = isolate.run({"hang": True}, silent)
        assert (exit_.kind, exit_.detail) == ("timeout", "the planner did not end within 0.5 s")
        assert isolate.run({"hang": False}, silent).result == {"value": "well"}


def test_an_exception_comes_with_its_traceback(start: Start) -> None:
    exit_ = run_once(start("def go(request, channel):\n    return {}['missing']\n"))
    assert 'planner.py", line 2, in go' in exit_.traceback


@both
@pytest.mark.parametrize(
    ("flood", "detail"),
    [
        (
            "os.write(fd, b'\\xff\\xff\\xff\\xff')",
            "the planner's process sent a message of 4,294,967,295 bytes; the limit is 67,108,864",
        ),
        ("os.write(fd, b'\\0\\0\\0\\2[]')", "a message that is not a JSON object"),
        ("os.write(fd, b'\\0\\0\\0\\2}{')", "a message that is not JSON"),
    ],
)
def test_garbage_on_the_pipe_is_an_ending_not_a_hang(
    start: Start, level: Level, flood: str, detail: str
) -> None:
    isolate = start(
        f"""
        import os
        def go(request, channel):
            if request["well"]: return "well"
            for fd in range(3, 12):
                try: {flood}
                except OSError: pass
            channel.ask({{}})
        """,
        level=level,
    )
    with isolate:
        exit_ = isolate.run({"well": False}, silent)
        assert exit_.kind == "protocol"
        assert detail in exit_.detail
        assert isolate.run({"well": True}, silent).result == {"value": "well"}


def test_a_flood_of_messages_ends_the_run(start: Start) -> None:
    isolate = start(
        "def go(request, channel):\n    while True: channel.tell({'x': 1})\n",
        limits=Limits(max_messages=500),
    )
    heard = []
    with isolate:
        exit_ = isolate.run({}, heard.append)
    assert exit_.kind == "protocol"
    assert "more than 500 messages" in exit_.detail
    assert len(heard) == 500


def test_processor_time_has_a_limit_of_its_own(start: Start) -> None:
    isolate = start(
        "def go(request, channel):\n    while True: pass\n", limits=Limits(cpu_s=1, wall_s=60)
    )
    exit_ = run_once(isolate)
    assert (exit_.kind, exit_.detail) == (
        "timeout",
        "the planner used more than 1 s of processor time",
    )


def test_a_run_that_dies_while_an_answer_is_on_its_way_leaves_nothing_in_the_pipe(
    start: Start,
) -> None:
    isolate = start(
        """
        import os, threading
        def go(request, channel):
            if request["well"]: return channel.ask({"well": True})
            channel.note({"almost": True})
            data = b'\\0\\0\\0\\x13{"q":1,"m":{"a":1}}'
            os.write(channel._write_fd, data + b'\\0\\0\\1\\0{"cut o')
            os._exit(0)
        """
    )
    with isolate:
        exit_ = isolate.run({"well": False}, lambda _: {"big": "x" * 5_000_000})
        assert exit_.kind == "crashed"
        assert isolate.run({"well": True}, lambda _: {"b": 1}).result == {"value": {"b": 1}}


# --- planners that cannot be loaded ---------------------------------------------------------------


@both
def test_a_planner_that_is_not_there_is_named(start: Start, level: Level) -> None:
    with pytest.raises(PlannerNotFound, match="module 'planner' has no 'go'") as caught:
        run_once(start("", level=level))
    assert caught.value.message == "module 'planner' has no 'go'"


def test_an_error_of_the_child_keeps_its_hint(tmp_path: Path) -> None:
    isolate = Isolate("no_such_module:go", level="process", host=HOST, cwd=tmp_path)
    with pytest.raises(PlannerNotFound) as caught:
        run_once(isolate)
    assert str(caught.value) == "there is no module 'no_such_module'\n  check it"


@both
@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise ValueError('no config')", "could not be imported: ValueError: no config"),
        ("import not_installed", "ModuleNotFoundError: No module named 'not_installed'"),
        ("def go(:", "could not be imported: SyntaxError"),
        ("raise SystemExit(3)", "could not be imported: SystemExit: 3"),
        ("import os; os._exit(3)", "ended the process while it was imported"),
        ("while True: pass", "was not imported within 1 s"),
        (
            "import subprocess; subprocess.run(['touch', '/tmp/x'])",
            r"\(refused while it was imported: touch /tmp/x\)",
        ),
    ],
)
def test_a_planner_that_cannot_be_imported_is_an_error_with_its_reason(
    start: Start, level: Level, source: str, message: str
) -> None:
    with pytest.raises(PlannerImportFailed, match=message):
        run_once(start(source, level=level, limits=Limits(start_s=1)))


# --- levels ---------------------------------------------------------------------------------------


def test_more_isolation_than_there_is_is_an_error(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "kernel_available", lambda: (False, "no Landlock here"))
    with pytest.raises(IsolationUnavailable, match="'kernel' is not available: no Landlock here"):
        start("", level="kernel")


def test_the_default_is_the_strongest_there_is_and_says_what_is_missing(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "kernel_available", lambda: (False, "no Landlock here"))
    with start("def go(request, channel): return 1", level=None) as isolate:
        ready = isolate.ready
    assert ready.level == "process"
    assert [(wall.name, wall.held) for wall in ready.walls] == [
        ("kernel", False),
        ("process", True),
    ]
    assert ready.walls[0].evidence == "no Landlock here"


@needs_kernel
def test_every_wall_proves_itself_before_it_is_named(start: Start) -> None:
    with start("def go(request, channel): return 1", level=None) as isolate:
        ready = isolate.ready
    proof = "connect refused, write refused, chmod refused, exec refused"
    assert ready.level == "kernel"
    assert [(wall.name, wall.held, wall.evidence) for wall in ready.walls] == [
        ("kernel", True, proof),
        ("process", True, proof),
    ]
    assert all(wall.unseen for wall in ready.walls)


def _without_sandbox(command: Any, *, env: Any, cwd: Any, **_: Any) -> Any:
    return process.start_plain(command, env=env, cwd=cwd)


@needs_kernel
@pytest.mark.parametrize(
    ("name", "broken", "seen"),
    [
        ("start_confined", _without_sandbox, "connect WENT THROUGH, write WENT THROUGH"),
        ("sealed_numbers", list, "chmod WENT THROUGH, exec WENT THROUGH"),
    ],
)
def test_a_wall_that_does_not_hold_is_found_out(
    start: Start, monkeypatch: pytest.MonkeyPatch, name: str, broken: Any, seen: str
) -> None:
    monkeypatch.setattr(kernel, name, broken)
    with pytest.raises(IsolationUnavailable, match=f"kernel wall did not hold.*{seen}"):
        run_once(start("def go(request, channel): return 1", level="kernel"))
    with start("def go(request, channel): return 1", level=None) as isolate:
        assert isolate.ready.level == "process"
        assert seen in isolate.ready.walls[0].evidence


def test_at_level_guard_there_is_a_child_and_no_wall(start: Start) -> None:
    isolate = start("import os\ndef go(request, channel): return os.getppid()", level="guard")
    with isolate:
        result = isolate.run({}, silent).result
    assert isolate.ready.walls == ()
    assert result is not None
    assert result["value"] != os.getpid()


@pytest.mark.parametrize(
    ("number", "kind", "detail"),
    [
        (signal.SIGTERM, "killed", "the planner's process was killed (SIGTERM)"),
        (signal.SIGSEGV, "crashed", "the planner's process died of SIGSEGV"),
    ],
)
def test_signals_are_named(start: Start, number: int, kind: str, detail: str) -> None:
    body = f"import os; os.kill(os.getpid(), {int(number)})"
    exit_ = run_once(start(f"def go(request, channel): {body}\n"))
    assert (exit_.kind, exit_.detail) == (kind, detail)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("sys.platform", "darwin", "kernel isolation needs Linux, this is darwin"),
        ("importlib.util.find_spec", lambda name: None, "the package sandlock is not installed"),
        ("platform.machine", lambda: "sparc64", "this processor are not known"),
    ],
)
def test_why_the_kernels_wall_cannot_stand_here_is_said(
    monkeypatch: pytest.MonkeyPatch, name: str, value: Any, reason: str
) -> None:
    monkeypatch.setattr(name, value)
    available, said = kernel_available()
    assert not available
    assert reason in said

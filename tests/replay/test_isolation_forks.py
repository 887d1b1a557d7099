"""Many runs of one child: imported once, forked for each, walls proved again, nothing shared."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replay.isolation import Isolate, Level, kernel_available, process
from tracekit.errors import IsolationUnavailable

HOST = "tests.replay.isolation_double"
needs_kernel = pytest.mark.skipif(not kernel_available()[0], reason=kernel_available()[1])
both = pytest.mark.parametrize("level", ["process", pytest.param("kernel", marks=needs_kernel)])

Start = Callable[..., Isolate]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Make an isolate around `planner:go`, given the source of its module."""

    def make(source: str, *, level: Level = "process") -> Isolate:
        (tmp_path / "planner.py").write_text(textwrap.dedent(source), "utf-8")
        return Isolate("planner:go", level=level, path=[tmp_path], cwd=tmp_path, host=HOST)

    return make


def values(isolate: Isolate, runs: int = 3) -> list[Any]:
    exits = [isolate.run({}, lambda message: None) for _ in range(runs)]
    assert {ended.kind for ended in exits} == {"done"}
    return [ended.result["value"] for ended in exits if ended.result is not None]


@both
def test_what_one_run_leaves_in_a_module_the_next_does_not_find(start: Start, level: Level) -> None:
    with start(
        """
        import os

        imported_in = os.getpid()
        runs = []

        def go(request, channel):
            runs.append(1)
            return [len(runs), os.getpid(), imported_in]
        """,
        level=level,
    ) as isolate:
        found = values(isolate)
    assert [count for count, _, _ in found] == [1, 1, 1]
    assert len({run for _, run, _ in found}) == 3
    assert len({imported for _, _, imported in found}) == 1


@both
def test_a_signal_handler_of_a_module_runs_in_its_runs_and_not_between_them(
    start: Start, level: Level, tmp_path_factory: pytest.TempPathFactory
) -> None:
    beats = tmp_path_factory.mktemp("beats")
    with start(
        f"""
        import os, signal

        heard = []

        def beat(number, frame):
            heard.append(number)
            try:
                open({str(beats / "file")!r}, "a").write("x")
            except PermissionError:
                heard.append("refused")

        signal.signal(signal.SIGCHLD, beat)
        signal.signal(signal.SIGALRM, beat)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)

        def go(request, channel):
            before = [n for n in heard if n == signal.SIGCHLD]
            signal.raise_signal(signal.SIGCHLD)
            return before, heard[-2:]
        """,
        level=level,
    ) as isolate:
        assert values(isolate) == [[[], [17, "refused"]]] * 3
    assert list(beats.iterdir()) == []


THREADED = """
    import os
    import queue
    import threading

    imported_in = os.getpid()
    asked, answered = queue.Queue(), queue.Queue()

    def serve():
        while True:
            answered.put(asked.get() * 2)

    threading.Thread(target=serve, name="server", daemon=True).start()

    def go(request, channel):
        asked.put(21)
        return [answered.get(timeout=5), imported_in == os.getpid()]
"""


@both
def test_a_planner_that_starts_threads_when_imported_is_imported_in_each_run(
    start: Start, level: Level
) -> None:
    with start(THREADED, level=level) as isolate:
        assert isolate.ready.notes == (
            "the planner's modules start threads when they are imported (server), "
            "so each run imports them anew",
        )
        assert isolate.ready.planner["name"] == "go"
        assert values(isolate, 2) == [[42, True], [42, True]]


def test_a_planner_without_threads_needs_no_note(start: Start) -> None:
    with start("def go(request, channel): return 1") as isolate:
        assert isolate.ready.notes == ()


def test_a_wall_that_something_takes_down_at_import_stops_the_run(start: Start) -> None:
    with (
        start(
            """
            from replay.isolation import hook

            hook._audit.__code__ = (lambda event, args: None).__code__

            def go(request, channel): return 1
            """
        ) as isolate,
        pytest.raises(IsolationUnavailable, match="process wall does not stand in the run's own"),
    ):
        isolate.run({}, lambda message: None)


def test_after_each_run_the_parent_looks_whether_anything_arrived(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start("def go(request, channel): return 1") as isolate:
        monkeypatch.setattr(process.Range, "hits", lambda _: ["a connection arrived"])
        with pytest.raises(IsolationUnavailable, match="during a run: a connection arrived"):
            isolate.run({}, lambda message: None)

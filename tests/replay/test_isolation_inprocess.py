"""A planner that exists only in this process: the hook up while it runs, for every thread."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from replay.isolation import Exit, InProcess, Level, hook
from tracekit.errors import IsolationUnavailable, ReplayInProgress

HOST = "tests.replay.isolation_double"

Planner = Callable[[dict[str, Any], Any], Any]


def isolate(planner: Planner, **options: Any) -> InProcess:
    return InProcess(planner, host=HOST, **options)


def run(planner: Planner, handle: Any = lambda _: None, **options: Any) -> Exit:
    with isolate(planner, **options) as isolated:
        return isolated.run({}, handle)


def test_a_closure_asks_and_hands_back_a_result() -> None:
    kept = []

    def planner(request: dict[str, Any], channel: Any) -> Any:
        kept.append("seen")
        return [channel.ask({"n": n})["twice"] for n in range(3)]

    assert run(planner, lambda m: {"twice": 2 * m["n"]}) == Exit("done", "", {"value": [0, 2, 4]})
    assert kept == ["seen"]


def test_the_hook_proves_itself_and_the_level_is_process() -> None:
    with isolate(lambda request, channel: None) as isolated:
        ready = isolated.ready
    assert ready.level == "process"
    assert [(wall.name, wall.held) for wall in ready.walls] == [("process", True)]
    assert ready.walls[0].evidence == (
        "connect refused, write refused, chmod refused, exec refused"
    )


def test_asking_for_the_kernel_is_an_error() -> None:
    with pytest.raises(IsolationUnavailable, match="a planner that a child process can import"):
        isolate(lambda request, channel: None, level="kernel")


@pytest.mark.parametrize(
    "attempt",
    [
        lambda folder: Path(folder, "new").write_text("x"),
        lambda folder: Path(folder, "new").mkdir(),
        lambda folder: Path(folder, "file").unlink(),
        lambda folder: Path(folder, "file").chmod(0o600),
        lambda folder: subprocess.run(["touch", f"{folder}/new"], check=True),
        lambda folder: socket.create_connection(("127.0.0.1", 9), 2),
        lambda folder: os.kill(os.getppid(), 0),
        lambda folder: logging.FileHandler(f"{folder}/log"),
    ],
)
def test_what_reaches_out_is_refused_and_listed(
    tmp_path: Path, attempt: Callable[[Path], Any]
) -> None:
    (tmp_path / "file").write_text("untouched")
    found: list[dict[str, Any]] = []

    def planner(request: dict[str, Any], channel: Any) -> str:
        with pytest.raises(PermissionError, match="tracekit replay refused"):
            attempt(tmp_path)
        return "refused"

    assert run(planner, found.append).result == {"value": "refused"}
    assert [message["finding"]["refused"] for message in found] == [True]
    assert found[0]["finding"]["where"].startswith(str(Path(__file__).parents[1]))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "untouched"


def test_the_hook_is_up_for_every_thread_and_down_afterwards(tmp_path: Path) -> None:
    def touch() -> str:
        try:
            (tmp_path / "new").touch()
        except PermissionError:
            return "refused"
        return "touched"

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(touch).result() == "touched"
        (tmp_path / "new").unlink()

        def planner(request: dict[str, Any], channel: Any) -> str:
            return pool.submit(touch).result()

        assert run(planner).result == {"value": "refused"}
        assert not hook.is_up()
        assert pool.submit(touch).result() == "touched"


def test_the_parents_own_work_is_let_through(tmp_path: Path) -> None:
    def handle(message: dict[str, Any]) -> dict[str, Any]:
        (tmp_path / "tape").write_text("recorded")
        return {}

    assert run(lambda request, channel: channel.ask({}), handle).result == {"value": {}}
    assert (tmp_path / "tape").read_text() == "recorded"


class _Dying:
    def __init__(self, act: Callable[[], Any]) -> None:
        self.act, self.me = act, self  # a cycle: it dies when garbage is collected

    def __del__(self) -> None:
        with suppress(PermissionError):
            self.act()


def _in_del(act: Callable[[], Any], victim: Path) -> None:
    _Dying(act)


def _in_finalize(act: Callable[[], Any], victim: Path) -> None:
    dying = _Dying(lambda: None)
    weakref.finalize(dying, os.unlink, victim)  # no code but the interpreter's


def _in_signal(act: Callable[[], Any], victim: Path) -> None:
    signal.signal(signal.SIGUSR1, lambda *_: _Dying(act))


def _in_profile(act: Callable[[], Any], victim: Path) -> None:
    def profile(frame: FrameType, *_: Any) -> None:
        if frame.f_code.co_name == "handle":
            sys.setprofile(None)
            with suppress(PermissionError):
                act()

    sys.setprofile(profile)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("arrange", [_in_del, _in_finalize, _in_signal, _in_profile])
def test_what_comes_in_between_while_an_answer_is_made_is_the_planners(
    tmp_path: Path, arrange: Callable[[Callable[[], Any], Path], None]
) -> None:
    (tmp_path / "file").write_text("untouched")
    found: list[dict[str, Any]] = []
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    def handle(message: dict[str, Any]) -> dict[str, Any]:
        if "finding" in message:
            found.append(message["finding"])
            return {}
        (tmp_path / "tape").write_text("recorded")
        signal.raise_signal(signal.SIGUSR1)
        gc.collect()
        return {}

    def planner(request: dict[str, Any], channel: Any) -> None:
        arrange(lambda: (tmp_path / "file").write_text("changed"), tmp_path / "file")
        channel.ask({})
        channel.tell({})

    try:
        assert run(planner, handle).kind == "done"
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert (tmp_path / "file").read_text() == "untouched"
    assert (tmp_path / "tape").read_text() == "recorded"
    assert {(finding["what"], finding["refused"]) for finding in found} == {
        (str(tmp_path / "file"), True)
    }


def test_scratch_and_the_folders_given_may_be_written(tmp_path: Path) -> None:
    home = os.environ["HOME"]

    def planner(request: dict[str, Any], channel: Any) -> Any:
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"x")
        Path("~/cache").expanduser().write_text("x")
        (tmp_path / "given").write_text("x")
        return os.environ["HOME"]

    found: list[Any] = []
    exit_ = run(planner, found.append, writable=[tmp_path])
    result = exit_.result
    assert (exit_.detail, found) == ("", [])
    assert result is not None
    assert result["value"] != home
    assert not Path(result["value"]).exists()
    assert os.environ["HOME"] == home
    assert tempfile.gettempdir() != result["value"]


@pytest.mark.parametrize("touch", ["write", "chmod", "remove", "link"])
def test_a_run_finds_nothing_of_the_one_before_and_nothing_stays(touch: str) -> None:
    def planner(request: dict[str, Any], channel: Any) -> Any:
        home = Path.home()
        told = [str(home), list(map(str, home.iterdir())), home.stat().st_mode]
        if request == {"touch": "write"}:
            (home / "cache").write_text("x")
        if request == {"touch": "chmod"}:
            home.chmod(0o500)
        if request == {"touch": "remove"}:
            home.rmdir()
        if request == {"touch": "link"}:
            home.rename(home.with_name("other"))
            home.symlink_to("other")
        return told

    with isolate(planner) as isolated:
        requests: list[dict[str, Any]] = [{}, {"touch": touch}, {}]
        exits = [isolated.run(request, lambda _: None) for request in requests]
        values = [ended.result["value"] for ended in exits if ended.result is not None]
        assert [told[1:] for told in values] == [[[], values[0][2]]] * 3
        assert values[0][0] == values[1][0]
        assert not Path(values[1][0]).exists()
    assert not Path(values[2][0]).exists()


def test_what_is_printed_is_still_captured(capsys: pytest.CaptureFixture[str]) -> None:
    run(lambda request, channel: sys.stdout.write("from the planner\n"))
    assert capsys.readouterr().out == "from the planner\n"


def test_a_second_replay_at_the_same_time_is_an_error() -> None:
    def nested(request: dict[str, Any], channel: Any) -> Any:
        with pytest.raises(ReplayInProgress, match="another replay is running"):
            InProcess(planner, host=HOST).run({}, lambda _: None)
        return "refused"

    def planner(request: dict[str, Any], channel: Any) -> Any:
        return None

    assert run(nested).result == {"value": "refused"}
    assert run(planner).kind == "done"


def test_a_replay_in_another_thread_at_the_same_time_is_an_error() -> None:
    running, over = threading.Event(), threading.Event()

    def planner(request: dict[str, Any], channel: Any) -> None:
        running.set()
        over.wait(20)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(run, planner)
        running.wait(20)
        with pytest.raises(ReplayInProgress):
            run(lambda request, channel: None)
        over.set()
        assert first.result().kind == "done"


def test_a_planner_that_raises_is_a_result() -> None:
    def planner(request: dict[str, Any], channel: Any) -> None:
        raise KeyError("window")

    exit_ = run(planner)
    assert (exit_.kind, exit_.detail) == ("crashed", "the planner raised KeyError: 'window'")
    assert "in planner" in exit_.traceback


def test_what_the_parent_raises_is_raised_even_if_the_planner_swallows_it() -> None:
    def planner(request: dict[str, Any], channel: Any) -> str:
        for _ in range(3):
            try:
                channel.ask({})
            except LookupError:
                continue
        return "went on"

    def fail(message: dict[str, Any]) -> None:
        calls.append(message)
        raise LookupError("the tape is over")

    calls: list[Any] = []
    with pytest.raises(LookupError, match="the tape is over"):
        run(planner, fail)
    assert len(calls) == 1
    assert not hook.is_up()


@pytest.mark.parametrize(("level", "expected"), [("guard", "touched"), ("process", "refused")])
def test_at_level_guard_there_is_no_hook(tmp_path: Path, level: Level, expected: str) -> None:
    def planner(request: dict[str, Any], channel: Any) -> str:
        try:
            (tmp_path / "new").touch()
        except PermissionError:
            return "refused"
        return "touched"

    assert run(planner, level=level).result == {"value": expected}


def test_a_hook_whose_modules_are_cleared_at_the_end_of_the_interpreter_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run(lambda request, channel: "done")
    monkeypatch.delattr(hook.rules, "RULES")
    monkeypatch.delattr(hook, "_switch")
    sys.audit("os.remove", "late", -1)
    with monkeypatch.context() as late:
        late.setattr(hook, "rules", None)
        sys.audit("os.remove", "late", -1)

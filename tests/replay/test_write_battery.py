"""The write battery: a decorated tool whose body counts on disk, reached by every road.

After each way the counter stands where it stood. Through its name the guard refuses the call; by
roads around the name the body may begin, and a wall refuses what it does. The table in the docs
says which, and whether the report lists it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tracekit
from replay import ReplayOptions
from replay.isolation import Level, kernel_available
from replay.replayer import Replayer
from tracekit.store import open_store
from tracekit.trajectory import Observation, Trajectory

KERNEL = pytest.param(
    "kernel",
    marks=pytest.mark.skipif(not kernel_available()[0], reason=kernel_available()[1]),
)
GUARD, WALL, TOOL = "the guard, listed", "a wall, listed", "a wall, listed as the tool's"
FILE, BENEATH = "a wall, listed as a file", "the kernel, not listed"
NEVER, LATER = "nobody: it never runs", "nobody: it runs when the process ends"

# name: (statement, who stops it at level process, and at kernel and for a planner in this process
# where that is another)
WAYS: dict[str, tuple[str, ...]] = {
    "positional": ("spend(1, 'x')", GUARD),
    "keyword": ("spend(note='x', amount=1)", GUARD),
    "default": ("spend()", GUARD),
    "functools.partial": ("partial(spend, 1)()", GUARD),
    "functools.reduce": ("reduce(spend, [1, 2])", GUARD),
    "a bound method": ("Till().spend(1)", GUARD),
    "an unbound method": ("Till.spend(Till(), 1)", GUARD),
    "a static method": ("Till.static(1)", GUARD),
    "a property": ("Till().prop", GUARD),
    "an async tool": ("asyncio.run(aspend(1))", GUARD),
    "a streaming tool": ("list(stream(1))", GUARD),
    "the key of a sort": ("sorted([2, 1], key=spend)", GUARD),
    "a default factory": ("defaultdict(spend)['x']", GUARD),
    "decorated once more": ("wraps(spend)(lambda *a: spend(*a))(1)", GUARD),
    "through `__wrapped__`": ("spend.__wrapped__(1, 'x')", GUARD),
    "through `inspect.unwrap`": ("inspect.unwrap(spend)(1, 'x')", GUARD),
    "through `__call__`": ("type(spend).__call__(spend, 1)", GUARD),
    "a copy by `copy`": ("copy.deepcopy(spend)(1)", GUARD),
    "a copy by `pickle`": ("pickle.loads(pickle.dumps(spend))(1)", GUARD),
    "the module loaded again": ("importlib.reload(sys.modules[__name__]).spend(1)", GUARD),
    "the module run by `runpy`": ("runpy.run_path(__file__)['spend'](1)", GUARD),
    "imported as another module": ("load_as('another').spend(1)", GUARD),
    "in a thread": ("t = threading.Thread(target=spend); t.start(); t.join()", GUARD),
    "in a timer": ("t = threading.Timer(0, spend); t.start(); t.join()", GUARD),
    "in an executor": ("ThreadPoolExecutor(1).submit(spend).result()", GUARD),
    "in `asyncio.to_thread`": ("asyncio.run(asyncio.to_thread(spend))", GUARD),
    "in a loop of another thread": ("on_other_loop(aspend)", GUARD),
    "in `loop.call_soon`": ("soon(lambda loop: loop.call_soon(spend))", GUARD),
    "in `loop.call_later`": ("soon(lambda loop: loop.call_later(0, spend))", GUARD),
    "in a task's callback": ("soon(called_back)", GUARD),
    "in a task group": ("asyncio.run(grouped())", GUARD),
    "without context variables": ("contextvars.Context().run(spend)", GUARD),
    "in a process pool": ("ProcessPoolExecutor(1).submit(spend).result()", WALL, WALL, WALL),
    "in a forked process": ("get_context('fork').Process(target=spend).start()", WALL),
    "in a spawned process": ("get_context('spawn').Process(target=spend).start()", WALL),
    "after `os.fork`": ("os.fork() or (spend(), os._exit(0))", WALL),
    "a subprocess that runs the module": (
        "subprocess.run([sys.executable, '-c', f'import {__name__} as m; m.spend()'])",
        WALL,
    ),
    "`os.posix_spawn` of the module": (
        "os.posix_spawn(sys.executable, ['python', __file__], {})",
        WALL,
    ),
    "in `atexit`": ("atexit.register(spend)", NEVER, NEVER, LATER),
    "in `weakref.finalize`": ("weakref.finalize(Till(), spend)", GUARD),
    "in `__del__`": ("Dying()", GUARD),
    "in a callback of `gc`": ("gc.callbacks.append(lambda *a: spend()); gc.collect()", GUARD),
    "in a signal handler": (
        "signal.signal(signal.SIGUSR1, lambda *a: spend()); signal.raise_signal(signal.SIGUSR1)",
        GUARD,
    ),
    "in a generator's finally": ("next(finally_())", GUARD),
    "in an async generator's `aclose`": ("asyncio.run(closing())", GUARD),
    "in an exit stack": ("exiting(spend)", GUARD),
    "in a trace function": ("traced(spend)", GUARD),
    "in an audit hook": ("audited(spend)", GUARD),
    "in a logging handler": ("logged(spend)", GUARD),
    "while a module is imported": ("load_as('eager', 'spend()')", GUARD),
    "in `__init_subclass__`": ("type('Sub', (Base,), {})", GUARD),
    "with the guard uninstalled": ("guard.uninstall(); spend()", GUARD, GUARD, TOOL),
    "with the guard's state cleared": (
        "guard._installed = None; guard._closed = False; spend()",
        TOOL,
    ),
    "with the guard's decision replaced": ("guard.decide = allow; spend()", TOOL),
    "with the guard's answerer replaced": ("guard._installed = Allowing(); spend()", TOOL),
    "the plain function from a closure": ("plain(spend)(1)", TOOL),
    "the plain function from `gc`": ("collected()(1)", TOOL),
    "the code object": ("types.FunctionType(plain(spend).__code__, globals())(1, 'x')", TOOL),
    "in `__del__`, the plain function": ("Dying.act = staticmethod(plain(spend)); Dying()", TOOL),
    "in a signal handler, the plain function": (
        "signal.signal(signal.SIGUSR1, lambda *a: plain(spend)(1)); "
        "signal.raise_signal(signal.SIGUSR1)",
        TOOL,
    ),
    "a copy made before it was a tool": ("EARLY(1, 'x')", TOOL),
    "the source text": ("exec(BODY, globals())", FILE),
}

AGENT = '''
import asyncio, atexit, contextvars, copy, gc, importlib, importlib.util, inspect, logging, os
import pickle
import runpy, signal, subprocess, sys, threading, types, weakref
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial, reduce, wraps
from multiprocessing import get_context

import tracekit
from tracekit import guard

BODY = """
import os
with open(os.environ["COUNTER"]) as counter:
    number = int(counter.read())
with open(os.environ["COUNTER"], "w") as counter:
    counter.write(str(number + 1))
"""

def count(*given):
    exec(BODY, {})

def early(function):
    global EARLY
    EARLY = types.FunctionType(function.__code__, globals())
    return function

@tracekit.tool(effect="write")
@early
def spend(amount=1, note="x"):
    exec(BODY, {})

@tracekit.tool(effect="write")
async def aspend(amount=1):
    exec(BODY, {})

@tracekit.tool(effect="write")
def stream(amount=1):
    yield exec(BODY, {})

@tracekit.tool(effect="read")
def look():
    return "seen"

class Till:
    @tracekit.tool(effect="write")
    def spend(self, amount):
        exec(BODY, {})

    static = staticmethod(spend)
    prop = property(lambda self: spend())

class Dying:
    act = staticmethod(spend)

    def __del__(self):
        self.act()

class Base:
    def __init_subclass__(cls):
        spend()

class Allowing:
    def answer(self, question):
        return guard.EXECUTE

def allow(question):
    return guard.EXECUTE

def plain(tool):
    """The undecorated function, from wherever the decorated one keeps it."""
    seen, waiting = set(), [tool]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, types.FunctionType) and one.__module__ == __name__ and (
            one.__code__.co_name == "spend"
        ):
            return one
        waiting += [o for o in gc.get_referents(one) if not isinstance(o, types.ModuleType)]
    raise LookupError("not found")

def collected():
    gc.unfreeze()
    return next(
        o for o in gc.get_objects()
        if isinstance(o, types.FunctionType) and o.__module__ == __name__
        and o.__qualname__ == o.__code__.co_name == "spend" and o is not EARLY
    )

def load_as(name, more=""):
    module = types.ModuleType(name)
    module.__dict__.update(spend=spend)
    exec(compile(more, name, "exec"), module.__dict__)
    if not more:
        spec = importlib.util.spec_from_file_location(name, __file__)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return module

def on_other_loop(work):
    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    thread.join()

def soon(arrange):
    async def main():
        arrange(asyncio.get_running_loop())
        await asyncio.sleep(0.01)
    asyncio.run(main())

def called_back(loop):
    loop.create_task(asyncio.sleep(0)).add_done_callback(lambda task: spend())

async def grouped():
    async with asyncio.TaskGroup() as group:
        group.create_task(aspend())

def finally_():
    try:
        yield
    finally:
        spend()

async def closing():
    async def steps():
        try:
            yield
        finally:
            spend()
    made = steps()
    await anext(made)
    await made.aclose()

def exiting(work):
    with ExitStack() as stack:
        stack.callback(work)

def traced(work):
    def trace(*given):
        sys.settrace(None)
        work()
    sys.settrace(trace)
    (lambda: None)()
    sys.settrace(None)

def audited(work):
    armed = [work]
    sys.addaudithook(lambda name, given: armed.pop()() if name == "battery" and armed else None)
    sys.audit("battery")

def logged(work):
    class Handler(logging.Handler):
        def emit(self, record):
            work()
    logger = logging.getLogger("battery")
    logger.addHandler(Handler())
    logger.error("now")

@tracekit.agent
def shop(way):
    look()
    with suppress(BaseException):
        exec(way, globals())
    gc.collect()
    return "went on"
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one run that spends nothing, its module, and the counter."""
    made = tmp_path_factory.mktemp("battery")
    (made / "battery.py").write_text(AGENT, encoding="utf-8")
    (made / "counter").write_text("0", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(made))
        import battery  # type: ignore[import-not-found]  # written above

        tracekit.configure(store=made / "store")
        with tracekit.run(run_id="r"):
            battery.shop("pass")
        patch.setenv("COUNTER", str(made / "counter"))
        battery.spend()
        assert (made / "counter").read_text() == "1"
        tracekit.configure(store=made / "elsewhere")
    return made


@pytest.fixture(scope="module")
def recorded(folder: Path) -> Trajectory:
    return open_store(folder / "store").trajectory("r")


@pytest.fixture(scope="module", params=["process", KERNEL])
def replayer(request: pytest.FixtureRequest, folder: Path) -> Iterator[Replayer]:
    """One child for all ways: each runs in a fork of its own."""
    level: Level = request.param
    options = ReplayOptions(
        isolation=level, path=(str(folder),), environment={"COUNTER": str(folder / "counter")}
    )
    with Replayer("battery:shop", options) as made:
        yield made


KINDS = {GUARD: {"write refused"}, TOOL: {"write refused"}, WALL: {"wall"}}


def check(told: dict[str, Any], stopped_by: str, counter: str) -> None:
    """Whether a replay's report says of the one attempt who stopped it."""
    kinds = {finding["kind"] for finding in told["findings"]}
    assert kinds == KINDS.get(stopped_by, set()), told["findings"]
    assert any(counter in text for text in told["refused"]) is (stopped_by == FILE)
    around = "the body of spend ran around the guard"
    assert any(around in f["text"] for f in told["findings"]) is (stopped_by == TOOL)
    assert told["verdict"] == ("fail" if kinds else "pass")


@pytest.mark.parametrize("way", WAYS)
def test_the_body_of_a_write_tool_changes_nothing(
    replayer: Replayer, recorded: Trajectory, folder: Path, way: str
) -> None:
    statement, *levels = WAYS[way]
    kernel = replayer.options.isolation == "kernel"

    result = replayer.replay(replace(recorded, input=Observation({"way": statement}, "captured")))

    assert (folder / "counter").read_text() == "1"
    check(result.as_dict(), levels[:2][-1] if kernel else levels[0], str(folder / "counter"))


HERE = """
import json, sys
from dataclasses import replace
import battery
from replay import ReplayOptions
from replay.replayer import Replayer
from tracekit import guard
from tracekit.store import open_store
from tracekit.trajectory import Observation

recorded = open_store(sys.argv[1]).trajectory("r")
decide, gc_callbacks = guard.decide, list(battery.gc.callbacks)
for name, statement in json.load(sys.stdin).items():
    asked = replace(recorded, input=Observation({"way": statement}, "captured"))
    with Replayer(lambda way: battery.shop(way), ReplayOptions()) as here:
        told = here.replay(asked).as_dict()
    guard.decide, battery.gc.callbacks[:] = decide, gc_callbacks
    counter = open(battery.os.environ["COUNTER"]).read()
    print(json.dumps([name, counter, told["isolation"], told]), flush=True)
battery.atexit.unregister(battery.spend)
"""


def test_nor_does_it_where_the_planner_runs_in_this_process(folder: Path) -> None:
    ways = {way: statement for way, (statement, *_) in WAYS.items()}
    done = subprocess.run(
        [sys.executable, "-c", HERE, str(folder / "store")],
        input=json.dumps(ways),
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)]),
            "COUNTER": str(folder / "counter"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert [name for name, *_ in outcomes] == list(ways), done.stderr
    for name, counter, level, told in outcomes:
        assert (counter, level) == ("1", "process"), name
        check(told, WAYS[name][-1], str(folder / "counter"))


def test_the_table_in_the_docs_says_what_the_battery_shows() -> None:
    rows = [f"| {way} | {by[0]} | {by[:2][-1]} | {by[-1]} |" for way, (_, *by) in WAYS.items()]
    text = (Path(__file__).parents[2] / "docs" / "isolation.md").read_text("utf-8")
    head = "| road to the body | at `process` by | at `kernel` by | in your own process by |"
    table = text.partition(head)[2].partition("\n\n")[0]
    assert table.splitlines()[2:] == rows, "\n".join(rows)

"""Which runs go into the store when only some are to be kept; over both forms of store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tracekit.store.settling as settling
from tests.store.made import NOON, value
from tracekit.canonical import digest
from tracekit.errors import UsageError
from tracekit.events import (
    Blob,
    LlmCallBegun,
    LlmCallEnded,
    LossNoted,
    Payload,
    PolicyNoted,
    RunBegun,
    RunEnded,
    ToolCallBegun,
    ToolCallEnded,
)
from tracekit.journal import Journal
from tracekit.journal_reading import read_journal
from tracekit.sampling import KEEP_IF, Sampling
from tracekit.store import Store, open_store
from tracekit.store.converting import convert
from tracekit.store.places import journal_folder
from tracekit.store.sifting import dropped_from

ROOT = Path(__file__).parents[2]
forms = pytest.mark.parametrize("form", ["folder", "file"])
NOTHING = Sampling(rate=0)
SECOND = 10**9


class Writer:
    """Writes the facts of runs as a process does that records with some sampling."""

    def __init__(self, store: Store | Path, sampling: Sampling, **journal: Any) -> None:
        path = store if isinstance(store, Path) else store.path
        self.journal = Journal(journal_folder(path), sampling=sampling, **journal)

    def say(self, fact: type[Any], run_id: str, span: str, *blobs: Blob, **fields: Any) -> None:
        writer, seq = self.journal.stamp()
        trace_id = fields.pop("trace_id", None) or digest(run_id)[-32:]
        at = fields.pop("at", NOON + seq)
        self.journal.write(
            fact(
                writer=writer, seq=seq, timestamp_ns=at, run_id=run_id, trace_id=trace_id,
                span_id=digest([run_id, span])[-16:], **fields,
            ),
            blobs,
        )  # fmt: skip

    def begin(self, run_id: str, **fields: Any) -> None:
        self.say(RunBegun, run_id, "run", actor="agent", **fields)

    def end(self, run_id: str, *, status: str = "ok", **fields: Any) -> None:
        self.say(RunEnded, run_id, "run", status=status, **fields)

    def call(self, run_id: str, span: str = "call", *, effect: str = "read", **ended: Any) -> None:
        blob, name = value({"only in": run_id, "call": span})
        payload = Payload(digest=name, blob=name)
        self.say(ToolCallBegun, run_id, span, blob, actor="t", effect=effect, argument=payload)
        self.say(ToolCallEnded, run_id, span, **{"status": "ok", **ended})

    def run(self, run_id: str, inside: Callable[[str], None] | None = None, **begun: Any) -> None:
        self.begin(run_id, **begun)
        self.call(run_id)
        if inside is not None:
            inside(run_id)
        self.end(run_id)

    def close(self) -> None:
        self.journal.close()


def runs(store: Store) -> set[str]:
    return {row.run_id for row in open_store(store.path).runs()}


def settled(store: Store) -> None:
    store.settle()
    assert list(journal_folder(store.path).glob("*.jsonl")) == []
    assert open_store(store.path).verify().findings == ()


def dropped(store: Store) -> tuple[int, int]:
    found = dropped_from(store.path)
    return found.runs, found.events


def _in_the_store(store: Store, *run_ids: str) -> set[str]:
    """Which runs stand in more than journals."""
    found: set[str] = store._kept_or_parents(run_ids)  # type: ignore[attr-defined]  # both forms
    return found


@forms
def test_at_rate_0_exactly_what_failed_was_refused_or_wrote_is_kept(store: Store) -> None:
    writer = Writer(store, NOTHING)
    writer.run("quiet")
    writer.run("failed", lambda r: writer.call(r, "2", status="error"))
    writer.run("error-value", lambda r: writer.call(r, "2", observation_is_error=True))
    writer.run("refused", lambda r: writer.say(PolicyNoted, r, "p", decision="deny"))
    writer.run("refused-call", lambda r: writer.call(r, "2", policy_decision="deny"))
    writer.run("allowed", lambda r: writer.say(PolicyNoted, r, "p", decision="allow"))
    writer.run("wrote", lambda r: writer.call(r, "2", effect="write"))
    writer.run("undeclared", lambda r: writer.call(r, "2", effect="unknown"))
    writer.run("lost", lambda r: writer.say(LossNoted, r, "l", count=2, reason="disk full"))
    writer.begin("run-failed")
    writer.end("run-failed", status="error")
    writer.begin("killed")
    writer.begin("killed-in-a-call")
    writer.say(ToolCallBegun, "killed-in-a-call", "c", actor="t", effect="read")
    writer.close()
    settled(store)
    assert runs(store) == {
        "failed", "error-value", "refused", "refused-call", "wrote", "undeclared", "lost",
        "run-failed", "killed", "killed-in-a-call",
    }  # fmt: skip
    assert dropped(store) == (2, 5)
    assert [row.event_type for row in store.events("failed")] == ["run", "tool_call", "tool_call"]


@forms
def test_a_run_is_kept_when_it_is_slow_or_dear_or_has_a_tag(store: Store) -> None:
    writer = Writer(store, Sampling(rate=0, keep_if=("slow>30s", "tokens>100", "tag:vip")))
    for name, seconds in (("fast", 30), ("slow", 31)):
        writer.begin(name, at=NOON)
        writer.end(name, at=NOON + seconds * SECOND)
    for name, tokens in (("cheap", 50), ("dear", 51)):
        writer.begin(name)
        for call in ("1", "2"):
            writer.say(LlmCallBegun, name, call, actor="m")
            writer.say(
                LlmCallEnded, name, call, status="ok", usage_input=tokens - 1, usage_output=1
            )
        writer.end(name)
    writer.run("tagged", tags=("vip",))
    writer.run("otherwise", tags=("vi",))
    writer.run("failed", lambda r: writer.call(r, "2", status="error"))
    writer.close()
    settled(store)
    assert runs(store) == {"slow", "dear", "tagged"}


@forms
def test_values_that_only_dropped_runs_needed_are_not_written(store: Store) -> None:
    writer = Writer(store, NOTHING)
    writer.run("quiet")
    writer.run("wrote", lambda r: writer.call(r, "2", effect="write"))
    writer.close()
    settled(store)
    assert store.blob(value({"only in": "quiet", "call": "call"})[1]) is None
    for call in ("call", "2"):
        assert store.blob(value({"only in": "wrote", "call": call})[1]) is not None


@forms
def test_about_the_rate_is_kept_and_always_the_same(store: Store, tmp_path: Path) -> None:
    sampling = Sampling(rate=0.25, keep_if=())
    writer = Writer(store, sampling)
    names = [f"run-{number}" for number in range(400)]
    for name in names:
        writer.begin(name)
        writer.end(name)
    writer.close()
    settled(store)
    kept = runs(store)
    assert 70 < len(kept) < 130
    again = open_store(tmp_path / "again", create=True)
    for part in (names[::2], names[1::2]):
        writer = Writer(again, sampling)
        for name in reversed(part):
            writer.begin(name)
            writer.end(name)
        writer.close()
        settled(again)
    assert runs(again) == kept
    program = "import sys; from tracekit.sampling import Sampling as S; " \
        "print([n for n in sys.argv[1:] if S(rate=.25).by_chance(n)])"  # fmt: skip
    traces = [digest(name)[-32:] for name in names]
    told = subprocess.run(
        [sys.executable, "-c", program, *traces], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"}, cwd=ROOT,
    )  # fmt: skip
    assert told.stdout.count("'") == 2 * len(kept)


@forms
def test_a_run_that_fails_at_its_end_keeps_its_first_half(store: Store) -> None:
    writer = Writer(store, NOTHING, max_bytes=1)  # a file holds two facts or three
    writer.begin("long")
    for number in range(4):
        writer.call("long", str(number))
        store.settle()
        assert runs(store) == {"long"}
        assert len(store.events("long")) == number + 2
    assert _in_the_store(store, "long") == set()
    writer.call("long", "last", status="error")
    writer.end("long")
    writer.close()
    settled(store)
    rows = store.events("long")
    assert [row.event_type for row in rows] == ["run", *["tool_call"] * 5]
    assert all(row.ts_end_ns is not None for row in rows)
    for number in range(4):
        assert store.blob(value({"only in": "long", "call": str(number)})[1]) is not None
    assert dropped(store) == (0, 0)


@forms
def test_a_quiet_run_over_many_files_is_dropped_whole(store: Store) -> None:
    writer = Writer(store, NOTHING, max_bytes=1)
    writer.begin("long")
    for number in range(4):
        writer.call("long", str(number))
        store.settle()
    writer.end("long")
    writer.begin("next")
    store.settle()
    writer.call("next", effect="write")
    writer.close()
    settled(store)
    assert runs(store) == {"next"}
    assert dropped(store) == (1, 5)


@forms
def test_what_follows_of_a_run_that_is_kept_already_is_kept(store: Store) -> None:
    writer = Writer(store, NOTHING, max_bytes=1)
    writer.begin("r")
    writer.call("r", "1", effect="write")
    store.settle()
    for number in range(3):
        writer.call("r", f"later {number}")
        store.settle()
    writer.end("r")
    writer.close()
    settled(store)
    assert len(store.events("r")) == 5


@forms
@pytest.mark.parametrize("failing", ["parent", "child"])
def test_runs_that_began_one_another_are_kept_as_a_whole(store: Store, failing: str) -> None:
    above, beneath = Writer(store, NOTHING), Writer(store, NOTHING)
    above.begin("parent")
    trace_id = digest("parent")[-32:]
    beneath.begin("child", parent_run_id="parent", trace_id=trace_id)
    beneath.end("child", status="error" if failing == "child" else "ok", trace_id=trace_id)
    beneath.close()
    store.settle()
    above.call("parent")
    above.end("parent", status="error" if failing == "parent" else "ok")
    above.close()
    settled(store)
    assert runs(store) == {"parent", "child"}
    assert dropped(store) == (0, 0)


@forms
def test_a_step_that_fails_in_another_process_keeps_the_run(store: Store) -> None:
    main, worker = Writer(store, NOTHING), Writer(store, NOTHING)
    main.begin("r")
    worker.call("r", "in the worker", status="error")
    main.end("r")
    main.close()
    store.settle()  # the worker lives on
    worker.close()
    settled(store)
    assert len(store.events("r")) == 2


@forms
def test_a_kill_in_the_middle_of_settling_loses_and_doubles_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(store, NOTHING, max_bytes=1)
    for number in range(6):
        writer.run(f"quiet-{number}")
        writer.run(f"wrote-{number}", lambda r: writer.call(r, "w", effect="write"))
    writer.begin("under way")
    original = settling._retire

    class Killed(BaseException):
        pass

    for allowed in range(4):
        left = iter(range(allowed))

        def retire(*args: Any, left: Any = left, **named: Any) -> bool:
            if next(left, None) is None:
                raise Killed
            return original(*args, **named)

        monkeypatch.setattr(settling, "_retire", retire)
        with pytest.raises(Killed):
            open_store(store.path).settle()
    monkeypatch.setattr(settling, "_retire", original)
    writer.end("under way")
    writer.close()
    settled(store)
    assert runs(store) == {f"wrote-{number}" for number in range(6)}
    ids = [row.event_id for name in runs(store) for row in store.events(name)]
    assert len(ids) == len(set(ids)) == 18
    assert dropped(store) == (7, 13)


@forms
def test_a_journal_that_cannot_be_read_whole_loses_no_run_more(store: Store) -> None:
    writer = Writer(store, NOTHING)
    writer.run("quiet")
    path = writer.journal.path
    writer.close()
    path.write_bytes(path.read_bytes() + b'{"fact":"tool_call.en')
    store.settle()
    assert runs(store) == {"quiet"}


@forms
def test_a_process_that_keeps_everything_decides_for_its_runs(store: Store) -> None:
    sampling, whole = Writer(store, NOTHING), Writer(store, Sampling())
    sampling.run("a")
    whole.run("b")
    sampling.begin("both")
    whole.call("both")
    sampling.end("both")
    sampling.close()
    whole.close()
    settled(store)
    assert runs(store) == {"b", "both"}


@pytest.mark.parametrize("name", ["traces", "traces.duckdb"])
def test_a_store_that_only_has_journals_yet_is_sifted(tmp_path: Path, name: str) -> None:
    writer = Writer(tmp_path / name, NOTHING)
    writer.run("quiet")
    writer.run("wrote", lambda r: writer.call(r, "2", effect="write"))
    writer.close()
    store = open_store(tmp_path / name)
    settled(store)
    assert runs(store) == {"wrote"}


@forms
def test_compact_and_prune_sift_as_well(store: Store) -> None:
    for _ in range(2):
        writer = Writer(store, NOTHING)
        writer.run(f"quiet-{writer.journal.writer}")
        writer.close()
    store.compact()
    assert (runs(store), dropped(store)) == (set(), (2, 4))


@forms
def test_a_store_that_is_converted_knows_what_was_dropped(store: Store, tmp_path: Path) -> None:
    writer = Writer(store, NOTHING)
    writer.run("quiet")
    writer.run("wrote", lambda r: writer.call(r, "2", effect="write"))
    writer.close()
    target = tmp_path / ("made" if store.path.suffix else "made.duckdb")
    convert(store, target, lambda path: open_store(path, create=True))
    assert dropped(open_store(target)) == dropped(store) == (1, 2)


@forms
def test_what_is_left_of_a_journal_knows_its_sampling(store: Store) -> None:
    writer = Writer(store, NOTHING, max_bytes=1)
    writer.run("quiet")
    writer.begin("under way")
    store.settle()
    left = sorted(journal_folder(store.path).glob("*.jsonl"))
    assert [read_journal(path).sampling for path in left[:-1]] == [NOTHING] * (len(left) - 1)
    header = json.loads(left[0].read_text().splitlines()[0])
    assert header["journal"]["sampling"] == {"rate": 0, "keep_if": list(KEEP_IF)}
    writer.close()


def test_what_a_newer_version_says_of_sampling_keeps_everything() -> None:
    assert Sampling.read({"rate": 0, "keep_if": ["phase-of-the-moon"]}).keeps_all
    assert Sampling.read(None).keeps_all
    assert Sampling.read({"rate": "most", "keep_if": []}).keeps_all


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"rate": 1.5}, "rate=1.5 is no share"),
        ({"rate": -0.1}, "rate=-0.1 is no share"),
        ({"rate": float("nan")}, "is no share"),
        ({"rate": "10%"}, "is no number"),
        ({"keep_if": "error"}, "is one text"),
        ({"keep_if": ("eror",)}, "'eror' is no condition to keep a run by"),
        ({"keep_if": ("slow>30",)}, "'slow>30' is no condition"),
    ],
)
def test_a_misspelt_sampling_is_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Sampling(**wrong)


PROGRAM = """
import os, signal, sys, threading
import tracekit
from tracekit import journal
journal.Journal.__init__.__kwdefaults__["max_bytes"] = 2000
tracekit.configure(store=sys.argv[1], sample=tracekit.Sampling(rate=0))

@tracekit.tool(effect="read")
def look(n):
    return {"n": n}

@tracekit.tool(effect="write")
def pay(n):
    return n

def work(k):
    for n in range(40):
        with tracekit.run(run_id=f"run-{k}-{n}"):
            look(n)
            if n % 4 == 0:
                pay(n)

threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
for thread in threads: thread.start()
for thread in threads: thread.join()
os.kill(os.getpid(), signal.SIGKILL)
"""


@forms
def test_a_busy_process_is_sifted_while_it_records(store: Store) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(store.path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    while child.poll() is None:
        store.settle()
    assert child.returncode == -signal.SIGKILL
    settled(store)
    assert runs(store) == {f"run-{k}-{n}" for k in range(3) for n in range(0, 40, 4)}
    assert all(len(store.events(run_id)) == 3 for run_id in runs(store))
    assert dropped(store) == (90, 180)

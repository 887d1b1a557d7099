"""A long conversation in a store: linear in bytes, whole when it is read, sound when checked."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tracekit
from replay import ReplayOptions, replay_run
from tests.store import talking
from tests.store.talking import TOOLS, recorded, talk
from tracekit.cli.values import RunView
from tracekit.prompts import hash_prompt
from tracekit.store import Store, open_store

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["folder", "file"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def size(path: Path, pattern: str) -> int:
    return sum(file.stat().st_size for file in path.rglob(pattern))


def prompts(store: Store, run_id: str) -> list[Any]:
    return [call.prompt for call in store.trajectory(run_id).model_calls]


@pytest.mark.parametrize("clock", [False, True])
@pytest.mark.parametrize("kind", ["journal", "parquet"])
def test_bytes_a_turn_do_not_grow_with_the_conversation(
    tmp_path: Path, kind: str, *, clock: bool
) -> None:
    sizes = {}
    for turns in (10, 20, 190, 200):
        path = tmp_path / f"{turns}"
        with recorded(path):
            talk(turns, clock=clock)
        if kind == "parquet":
            open_store(path).settle()
        sizes[turns] = size(path, "*.jsonl" if kind == "journal" else "*.parquet")
    early, late = sizes[20] - sizes[10], sizes[200] - sizes[190]
    assert 0 < late <= 1.2 * early
    assert sizes[200] / 200 <= 1.2 * sizes[20] / 20


@pytest.mark.parametrize("clock", [False, True])
def test_every_prompt_is_read_whole_before_and_after_it_is_settled(
    store: Store, *, clock: bool
) -> None:
    with recorded(store.path):
        run_id, said = talk(40, clock=clock)
    for _ in range(2):
        assert prompts(store, run_id) == said
        view = RunView.load(store, run_id)
        asked = [row for row in view.rows if row.event_type == "llm_call"]
        assert [view.value(row, "argument") for row in asked] == said
        assert [row.prompt_hash for row in asked] == [hash_prompt(one).prompt for one in said]
        assert store.verify().findings == ()
        store.settle()
        store.compact()
    tools = store.sql(
        f"SELECT count(*) FROM payloads WHERE decode(bytes) LIKE '%{TOOLS[0]['name']}%'"
    )
    assert tools.rows == ((1,),)


def test_sql_shows_prompts_whole(store: Store) -> None:
    with recorded(store.path):
        run_id, said = talk(12)
    query = (
        "SELECT p.text FROM events e JOIN payloads p ON p.digest = e.argument_blob"
        f" WHERE e.run_id = '{run_id}' AND e.event_type = 'llm_call' ORDER BY e.seq"
    )
    for _ in range(2):
        assert [json.loads(text) for (text,) in store.sql(query).rows] == said
        store.settle()


def test_what_is_missing_of_a_prompt_is_told_and_never_guessed(store: Store) -> None:
    with recorded(store.path):
        run_id, said = talk(6)
    rows = [row for row in store.events(run_id) if row.event_type == "llm_call"]
    broken = _without(store, rows[3].argument_blob or "")
    found = prompts(broken, run_id)
    assert found == [*said[:3], None, None, None]
    view = RunView.load(broken, run_id)
    assert view.missing(rows[5], "argument") == "the value is missing from the store"
    told = [line for line in broken.verify().findings if "argument" in line]
    assert len(told) == 3
    assert "rests on one that is missing" in told[-1]


def _without(store: Store, digest: str) -> Store:
    (journal,) = (path for path in store.path.parent.rglob("*.jsonl"))
    lines = journal.read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(b'{"blob":{"digest":"' + digest.encode())]
    assert len(kept) == len(lines) - 1
    journal.write_bytes(b"".join(kept))
    return open_store(store.path)


def test_a_changed_message_in_the_middle_is_found(store: Store) -> None:
    with recorded(store.path):
        talk(6)
    (journal,) = (path for path in store.path.parent.rglob("*.jsonl"))
    data = journal.read_bytes()
    journal.write_bytes(data.replace(b"service 3? It", b"service 4? It", 1))
    assert open_store(store.path).verify().findings


def test_a_run_of_fifty_turns_is_replayed_exactly_and_its_replay_is_linear_too(
    tmp_path: Path,
) -> None:
    path = tmp_path / "traces"
    with recorded(path), tracekit.run(run_id="long"):
        talking.long_talk(50)
    options = ReplayOptions(isolation="guard")
    planner = "tests.store.talking:long_talk"
    result = replay_run("long", planner=planner, store=path, options=options)
    assert str(result.verdict) == "pass"
    assert {step.answer.rung for step in result.answered} == {"exact"}
    assert len(result.answered) == 100
    store = open_store(path)
    assert prompts(store, result.run_id) == prompts(store, "long")
    stored = store.sql(
        "SELECT r.replay_of IS NULL, sum(p.size) FROM events e JOIN runs r USING (run_id)"
        " JOIN payloads p ON p.digest = e.argument_blob WHERE event_type = 'llm_call' GROUP BY ALL"
    )
    assert len({size for _, size in stored.rows}) == 1
    assert store.verify().findings == ()


KILLED = """
import sys
from tests.store import talking
from tests.store.talking import recorded, TOOLS, ask
import tracekit
from pathlib import Path

messages = []
with recorded(Path(sys.argv[1])), tracekit.run(run_id="killed"):
    for number in range(1000):
        messages.append({"role": "user", "content": f"What about {number}? " + "well " * 90})
        messages.append(ask(messages, TOOLS))
        print(number, flush=True)
"""


def test_a_process_killed_in_mid_conversation_leaves_every_prompt_whole(tmp_path: Path) -> None:
    path = tmp_path / "traces"
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    for line in child.stdout:
        if line == "25\n":
            child.send_signal(signal.SIGKILL)
            break
    said = 1 + int((child.communicate()[0].split() or ["25"])[-1])
    store = open_store(path)
    found = prompts(store, "killed")
    assert len(found) >= said
    assert [len(prompt["messages"]) for prompt in found] == list(range(1, 2 * len(found), 2))
    store.settle()
    assert prompts(store, "killed") == found
    assert store.verify().findings == ()

"""A long conversation in a store: linear in bytes, whole when it is read, sound when checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

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


@pytest.mark.parametrize("kind", ["journal", "parquet"])
def test_bytes_a_turn_do_not_grow_with_the_conversation(tmp_path: Path, kind: str) -> None:
    sizes = {}
    for turns in (10, 20, 190, 200):
        path = tmp_path / f"{turns}"
        with recorded(path):
            talk(turns)
        if kind == "parquet":
            open_store(path).settle()
        sizes[turns] = size(path, "*.jsonl" if kind == "journal" else "*.parquet")
    early, late = sizes[20] - sizes[10], sizes[200] - sizes[190]
    assert 0 < late <= 1.2 * early
    assert sizes[200] / 200 <= 1.2 * sizes[20] / 20


def test_every_prompt_is_read_whole_before_and_after_it_is_settled(store: Store) -> None:
    with recorded(store.path):
        run_id, said = talk(40)
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

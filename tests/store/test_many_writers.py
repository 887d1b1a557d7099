"""Many processes write, settle, compact and read one store at the same time."""

from __future__ import annotations

import subprocess
import sys

from tests.store.made import files
from tracekit.store import Store, open_store

WRITER = """
import sys
from tests.store.made import facts, run
from tracekit.journal import Journal
from tracekit.store import open_store

path, name = sys.argv[1:]
store = open_store(path)
for number in range(8):
    store.append(run(f"{name}-appended-{number}"))
    journal = Journal(store.path / "journal")
    for fact, blobs in facts(f"{name}-recorded-{number}", journal.stamp()[0]):
        journal.write(fact, blobs)
    journal.close()
    store.settle()
    if number % 3 == 2:
        store.compact()
"""


def test_nothing_is_lost_or_doubled_when_many_write_at_once(store: Store) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(store.path), f"w{number}"])
        for number in range(3)
    ]
    seen = 0
    while any(writer.poll() is None for writer in writers):
        reader = open_store(store.path)
        result = reader.sql("SELECT count(*), count(DISTINCT event_id) FROM events").rows
        assert result[0][0] == result[0][1] >= seen
        seen = result[0][0]
        assert reader.problems == ()
    assert [writer.returncode for writer in writers] == [0, 0, 0]

    after = open_store(store.path)
    after.compact()
    assert len(after.runs()) == 48
    assert after.sql("SELECT count(*), count(DISTINCT event_id) FROM events").rows == ((120, 120),)
    assert after.verify().findings == ()
    assert files(store.path / "journal") == []

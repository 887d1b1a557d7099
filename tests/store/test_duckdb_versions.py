"""A file that one supported DuckDB made is read and written by the others.

The files beside this test were made by DuckDB 1.5.5 and 2.0.1; `make versions` runs the tests of
the store under the older one, so that each reads what the other made.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import duckdb
import pytest

from tests.store.made import NOON, run
from tracekit.store import Store, open_store

MADE = sorted(Path(__file__).parent.glob("made-by-*.duckdb.gz"))


@pytest.fixture
def form() -> str:
    return "file"


@pytest.fixture(params=MADE, ids=lambda made: made.name.removesuffix(".duckdb.gz"))
def made(request: pytest.FixtureRequest, path: Path) -> Store:
    path.write_bytes(gzip.decompress(request.param.read_bytes()))
    path.chmod(0o600)
    return open_store(path)


def _storage(store: Store) -> str:
    with duckdb.connect(str(store.path), read_only=True) as base:
        row = base.execute("SELECT tags['storage_version'] FROM duckdb_databases()").fetchone()
    assert row is not None
    return str(row[0])


def test_both_lines_are_there() -> None:
    assert [made.name[8] for made in MADE] == ["1", "2"]


def test_it_is_read(made: Store) -> None:
    for number in range(3):
        whole = run(f"r-{number}", calls=number + 1, attributes='{"tags":["night"]}')
        assert made.events(f"r-{number}") == list(whole.events)
    assert made.verify().findings == ()
    assert made.sql("SELECT DISTINCT attributes->'tags'->>0 FROM events ORDER BY ALL").rows == (
        ("night",), (None,),
    )  # fmt: skip


def test_it_is_written_and_stays_as_old_as_it_was(made: Store) -> None:
    made.append(run("r-9", start=NOON + 1))
    made.compact()

    assert next(row.run_id for row in made.runs()) == "r-9"
    assert made.verify().findings == ()
    assert _storage(made).startswith("v1.5")


def test_a_new_one_is_as_old_as_the_oldest_that_is_supported(store: Store) -> None:
    store.append(run("r"))
    assert _storage(store).startswith("v1.5")

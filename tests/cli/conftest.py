"""A store in a folder of its own, and a way to call commands on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.store.made import DAY, NOON, run
from tracekit.cli import main
from tracekit.store import Batch, Store, open_store

Call = Callable[..., Result]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Two runs: a good one, and an older one that failed."""
    store = open_store(tmp_path / "traces", create=True)
    good, bad = run("good"), run("bad", start=NOON - DAY, status="error", error_type="Timeout")
    store.append(Batch(good.events + bad.events, good.blobs + bad.blobs))
    return store


@pytest.fixture
def call(store: Store) -> Call:
    """Call a command on the store."""

    def invoke(*args: str, text: str | None = None) -> Result:
        return CliRunner(env={"TRACEKIT_STORE": str(store.path)}).invoke(main, args, input=text)

    return invoke

"""Stores for the tests, empty and filled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracekit.store import Store, open_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "traces"


@pytest.fixture
def store(path: Path) -> Store:
    return open_store(path, create=True)

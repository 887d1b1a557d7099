"""Stores for the tests, empty and filled."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracekit.store import Store, open_store


@pytest.fixture
def form() -> str:
    """Name the form of store that a test runs over; modules that run over both override it."""
    return "folder"


@pytest.fixture
def path(tmp_path: Path, form: str) -> Path:
    return tmp_path / ("traces.duckdb" if form == "file" else "traces")


@pytest.fixture
def store(path: Path) -> Store:
    return open_store(path, create=True)

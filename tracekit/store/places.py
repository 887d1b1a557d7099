"""Which form of store a path means, and where those who record into it write. Loads nothing."""

from __future__ import annotations

from pathlib import Path

DATABASE_SUFFIX = ".duckdb"


def is_database(path: Path) -> bool:
    """Whether ``path`` names a DuckDB file; every other path names a folder."""
    return path.suffix.lower() == DATABASE_SUFFIX


def journal_folder(path: Path) -> Path:
    """Name the folder of the journals of the store at ``path``.

    That of a DuckDB file stands beside it: one process may hold the file, any may record.
    """
    return path.with_name(f"{path.name}.journal") if is_database(path) else path / "journal"

"""Where runs are kept: one protocol, and two stores that keep it.

A folder of Parquet files is for many processes, one DuckDB file for one at a time; ``open_store``
chooses by path. Nothing heavy is loaded before a store is opened, since agents
import this package's types in production.
"""

from __future__ import annotations

from pathlib import Path

from tracekit.store.places import is_database
from tracekit.store.types import (
    Batch,
    Compacted,
    Problem,
    RunQuery,
    Settled,
    SqlResult,
    Store,
    VerifyReport,
    Written,
)

__all__ = [
    "Batch",
    "Compacted",
    "Problem",
    "RunQuery",
    "Settled",
    "SqlResult",
    "Store",
    "VerifyReport",
    "Written",
    "open_store",
]


def open_store(
    path: str | Path, *, create: bool = False, redaction_key_id: str | None = None
) -> Store:
    """Open the store at ``path``.

    Args:
        path: The store's folder, or a file whose name ends in ``.duckdb``.
        create: Make the store where there is none.
        redaction_key_id: Names the key that placeholders are made with; kept in a new store.

    Raises:
        StoreVersionError: a newer version of tracekit wrote it.
        StoreBusy: another process holds the DuckDB file.
        StoreError: there is no store, or what is there is none.
    """
    place = Path(path)
    if is_database(place):
        from tracekit.store.database import open_database
        from tracekit.store.single import DuckdbStore

        return DuckdbStore(open_database(place, create=create, redaction_key_id=redaction_key_id))
    from tracekit.store.folder import open_folder
    from tracekit.store.parquet import ParquetStore

    folder = open_folder(place, create=create, redaction_key_id=redaction_key_id)
    return ParquetStore(folder)

"""Where runs are kept: one protocol, and a folder of Parquet files that keeps it.

``open_store`` chooses by path. Nothing heavy is loaded before a store is opened, since agents
import this package's types in production.
"""

from __future__ import annotations

from pathlib import Path

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
        path: The store's folder.
        create: Make the store where there is none.
        redaction_key_id: Names the key that placeholders are made with; kept in a new store.

    Raises:
        StoreVersionError: a newer version of tracekit wrote it.
        StoreError: there is no store, or what is there is none.
    """
    from tracekit.store.folder import open_folder
    from tracekit.store.parquet import ParquetStore

    folder = open_folder(Path(path), create=create, redaction_key_id=redaction_key_id)
    return ParquetStore(folder)

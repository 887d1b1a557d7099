"""Finding blobs by digest among many files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tracekit.events import Blob
from tracekit.store.reading import Reader, Snapshot
from tracekit.store.schema import blobs_of


def find_blobs(
    reader: Reader,
    snapshot: Snapshot,
    digests: set[str],
    *,
    live: Mapping[str, Blob],
    near: Sequence[str] = (),
) -> dict[str, Blob]:
    """Find those of ``digests`` that are kept.

    Args:
        reader: Reads the files.
        snapshot: What is committed.
        digests: What is looked for.
        live: Blobs that journals hold.
        near: Batches to look into first: those of the run whose values are wanted.
    """
    found = {digest: live[digest] for digest in digests if digest in live}
    missing = digests - found.keys()
    first = set(near)
    batches = sorted(snapshot.batches, key=lambda batch: (batch.name in first, batch.name))
    for batch in reversed(batches):
        for path in batch.files("blobs"):
            if not missing:
                return found
            rows = batch.manifest.files[path]
            for blob in _in_file(reader, path, missing, rows=rows):
                found[blob.digest] = blob
            missing -= found.keys()
    return found


def _in_file(reader: Reader, path: str, digests: Iterable[str], *, rows: int) -> list[Blob]:
    wanted = sorted(digests)
    values = pa.array(wanted, pa.string())
    blobs: list[Blob] = []
    for table in reader.tables(path, rows=rows, within=("digest", wanted)):
        part = table.filter(pc.is_in(table["digest"], values))
        blobs += blobs_of(part)
    return blobs


def kept_digests(reader: Reader, snapshot: Snapshot, digests: Iterable[str]) -> set[str]:
    """Tell which of ``digests`` are kept, without reading the bytes."""
    wanted = sorted(digests)
    values = pa.array(wanted, pa.string())
    kept: set[str] = set()
    if not wanted:
        return kept
    for batch in snapshot.batches:
        for path in batch.files("blobs"):
            for table in reader.tables(
                path,
                rows=batch.manifest.files[path],
                columns=["digest"],
                within=("digest", wanted),
            ):
                column = table["digest"]
                kept.update(column.filter(pc.is_in(column, values)).to_pylist())
    return kept

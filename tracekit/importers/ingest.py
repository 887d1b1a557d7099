"""Files and folders into a store: walk, detect, read, keep in batches.

Every file is accounted for: imported, known already, or named with the reason. What is kept
together is bounded, so memory does not grow with the folder; a batch is kept whole or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tracekit.errors import ImportFormatError, UsageError
from tracekit.importers.agentdojo import AgentDojo
from tracekit.importers.model import ImportedRun, Importer, ImportOptions, ImportSummary, RunStore
from tracekit.importers.taubench import TauBench

IMPORTERS: Mapping[str, Importer] = {
    importer.name: importer for importer in (AgentDojo(), TauBench())
}
"""The formats that can be imported, by name."""

Progress = Callable[[str, ImportSummary], None]
"""Told of each file that was dealt with, and of the figures so far."""

_HEAD = 64 * 1024
_BATCH_EVENTS = 20_000
_BATCH_BYTES = 32 * 1024 * 1024
_LARGEST_FILE = 128 * 1024 * 1024


def import_paths(
    paths: Iterable[str | Path],
    store: RunStore,
    options: ImportOptions | None = None,
    *,
    progress: Progress | None = None,
) -> ImportSummary:
    """Import files, and folders with all that is in them.

    A file that is no trace does not keep the others from being imported: it is named in the
    summary, under ``rejected`` where the user named it and under ``files_not_recognised`` where a
    folder held it.

    Raises:
        UsageError: the format in ``options`` is not known.
        StoreError: the store could not be written; whole batches before it are kept.
    """
    chosen = options or ImportOptions()
    candidates = _importers(chosen.format)
    intake = _Intake(store)
    for path, named in _walk(paths):
        try:
            runs = _read(path, candidates, chosen)
        except (ImportFormatError, OSError) as error:
            told = intake.summary.rejected if named else intake.summary.files_not_recognised
            told.append((str(path), _reason(path, error)))
        else:
            intake.take(path, runs)
        if progress is not None:
            progress(str(path), intake.summary)
    intake.flush()
    return intake.summary


def _importers(format_name: str | None) -> Sequence[Importer]:
    if format_name is None:
        return tuple(IMPORTERS.values())
    if format_name not in IMPORTERS:
        raise UsageError(
            f"format {format_name!r} cannot be imported", hint=f"one of: {', '.join(IMPORTERS)}"
        )
    return (IMPORTERS[format_name],)


def _walk(paths: Iterable[str | Path]) -> Iterator[tuple[Path, bool]]:
    """Yield each file, and whether the user named it rather than a folder around it."""
    for start in map(Path, paths):
        if not start.is_dir():
            yield start, True
            continue
        for folder, folders, names in os.walk(start):
            folders.sort()
            yield from ((Path(folder) / name, False) for name in sorted(names))


def _read(path: Path, candidates: Sequence[Importer], options: ImportOptions) -> list[ImportedRun]:
    if not path.exists():
        raise ImportFormatError(f"{path}: there is no such file")
    if not path.is_file():
        raise ImportFormatError(f"{path}: it is no ordinary file")
    size = path.stat().st_size
    if size > _LARGEST_FILE:
        limit = _LARGEST_FILE // 2**20
        raise ImportFormatError(f"{path}: {size:,} bytes is more than the limit of {limit} MiB")
    data = path.read_bytes()
    absolute = path.absolute()
    for importer in candidates:
        if options.format is not None or importer.detect(absolute, data[:_HEAD]):
            return list(importer.read(absolute, data, options))
    names = ", ".join(importer.name for importer in candidates)
    raise ImportFormatError(f"{path}: no trace of a known format ({names})")


def _reason(path: Path, error: ImportFormatError | OSError) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    text = error.message
    for prefix in (f"{path}: ", f"{path.absolute()}: "):
        text = text.removeprefix(prefix)
    return text


class _Intake:
    """Collects runs and keeps them in batches."""

    def __init__(self, store: RunStore) -> None:
        self.store = store
        self.summary = ImportSummary()
        self.waiting: dict[str, tuple[Path, ImportedRun]] = {}
        self.seen: dict[str, str] = {}
        self.events = 0
        self.size = 0

    def take(self, path: Path, runs: Sequence[ImportedRun]) -> None:
        """Take the runs of one file; a run that is here already is passed over."""
        for run in runs:
            run_id = run.events[0].run_id
            trace_id = run.events[0].trace_id
            if run_id in self.seen:
                self._pass_over(path, run_id, same=self.seen[run_id] == trace_id)
            else:
                self.seen[run_id] = trace_id
                self.waiting[run_id] = (path, run)
                self.events += len(run.events)
                self.size += sum(len(blob.data) for blob in run.blobs)
        if self.events >= _BATCH_EVENTS or self.size >= _BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Keep what was collected and is not known yet."""
        known = self._known(self.store.known_runs(self.waiting))
        fresh = [run for run_id, (_, run) in self.waiting.items() if run_id not in known]
        if fresh:
            self.store.append(_joined(fresh))
        self.summary.count(fresh)
        for run_id, trace_id in known.items():
            path, run = self.waiting[run_id]
            self._pass_over(path, run_id, same=run.events[0].trace_id == trace_id)
        self.waiting.clear()
        self.events = self.size = 0

    def _known(self, run_ids: Iterable[str]) -> dict[str, object]:
        """Give the trace ids of runs that are kept."""
        quoted = ", ".join(f"'{run_id}'" for run_id in sorted(run_ids))
        if not quoted:
            return {}
        # Quoting is safe: a run id holds letters, digits, dots, dashes and underscores only.
        found = self.store.sql(f"select run_id, trace_id from runs where run_id in ({quoted})")
        return {str(run_id): trace_id for run_id, trace_id in found.rows}

    def _pass_over(self, path: Path, run_id: str, *, same: bool) -> None:
        if same:
            self.summary.skipped_known += 1
        else:
            self.summary.conflicts.append((str(path), run_id))


def _joined(runs: Sequence[ImportedRun]) -> ImportedRun:
    blobs = {blob.digest: blob for run in runs for blob in run.blobs}
    events = tuple(event for run in runs for event in run.events)
    return ImportedRun(events, tuple(blobs.values()))

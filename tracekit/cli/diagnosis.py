"""What ``doctor`` finds out about a store."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tracekit.canonical import JsonValue
from tracekit.cli.text import one_line
from tracekit.errors import RedactionKeyError
from tracekit.journal import owner_alive
from tracekit.redact import KeyedTagger, load_key
from tracekit.store import Store
from tracekit.store.places import is_database, journal_folder

_PACKAGES = ("tracekit-replay", "duckdb", "pyarrow", "pydantic", "opentelemetry-sdk")
_MANY_BATCHES = 200
_LOSSES = """
    SELECT run_id, error_message FROM events WHERE error_type = 'events_lost' ORDER BY ts_start_ns
"""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Facts, and what somebody should look at."""

    facts: dict[str, str]
    findings: tuple[str, ...]

    def as_dict(self) -> dict[str, JsonValue]:
        """Give the diagnosis as JSON values."""
        return {"facts": dict(self.facts), "findings": list(self.findings)}


def diagnose(store: Store) -> Diagnosis:
    """Look at a store; nothing is changed."""
    path = store.path
    single = is_database(path)
    batches = 0 if single else len(list((path / "runs").glob("[!.]*.parquet")))
    (runs, events), *_ = store.sql(
        "SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM events)"
    ).rows
    losses = store.sql(_LOSSES).rows
    journals = sorted(journal_folder(path).glob("*.jsonl"))
    alive = sum(owner_alive(journal) for journal in journals)
    facts = {
        "store": str(path.resolve()),
        "holds": f"{runs:,} runs, {events:,} events; "
        + ("one DuckDB file" if single else f"batches: {batches:,}"),
        "journals": f"{len(journals)}, of which {alive} are being written",
        "versions": ", ".join([f"python {platform.python_version()}", *map(_version, _PACKAGES)]),
    }
    if batches > _MANY_BATCHES:
        facts["advice"] = f"many small batches: tracekit compact --store {path}"
    findings = [str(problem) for problem in store.problems]
    findings += [f"run {run_id}: {told}" for run_id, told in losses]
    findings += [] if single else _orphans(path)
    findings += _open_to_others([path, journal_folder(path)])
    findings += _key(store.redaction_key_id)
    return Diagnosis(facts, tuple(one_line(finding, 400) for finding in findings))


def _version(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"{name} is not installed"


def _orphans(path: Path) -> list[str]:
    from tracekit.store.compaction import orphans
    from tracekit.store.folder import open_folder

    return [
        f"{name}: it has rows that are nowhere else, and nothing reads them, since its batch was"
        f" never finished or lost {catalogue}. Import again, or bring that file back"
        for name, catalogue in orphans(open_folder(path, create=False))
    ]


def _open_to_others(paths: list[Path]) -> list[str]:
    """Name the first thing in the store that others may read."""
    for path in paths:
        for place in (path, *sorted(path.rglob("*"))):
            if not place.is_symlink() and place.exists() and place.stat().st_mode & 0o077:
                mode = place.stat().st_mode & 0o777
                return [f"{place} is open to others (mode {mode:o}): chmod -R go= {path}"]
    return []


def _key(kept: str | None) -> list[str]:
    if kept is None:
        return []
    try:
        mine = KeyedTagger(load_key()).key_id
    except RedactionKeyError as error:
        return [str(error)]
    if mine == kept:
        return []
    return [f"the redaction key here ({mine}) is not the one this store was made with ({kept})"]

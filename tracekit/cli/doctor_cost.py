"""What recording costs here and now, measured in a scratch folder on the disk of the store."""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path

from tracekit import conditions
from tracekit.cli.diagnosis import Diagnosis
from tracekit.errors import UsageError
from tracekit.settings import redaction_rules

_CALLS = 300
_SYNCS = 20
_SLOW_US = 2_000
_SLOW_SYNC_MS = 50


def measure(told: Diagnosis, path: Path) -> None:
    """Tell what one recorded tool call costs its thread, and one wait for the disk."""
    try:
        call_us, sync_ms = _measured(path.absolute().parent)
    except OSError as error:
        told.facts["cost"] = f"cannot be measured: {error.strerror or type(error).__name__}"
        return
    told.facts["cost"] = (
        f"a recorded call with 200 B in and 1 KB out takes {call_us:.0f} us, a wait for the disk"
        f" (durability disk) {sync_ms:.2g} ms"
    )
    if call_us > _SLOW_US:
        told.advice.append(f"recording is slow: {call_us:.0f} us a call; look at the disk and load")
    if sync_ms > _SLOW_SYNC_MS:
        told.advice.append(f"durability disk is dear here: each wait takes {sync_ms:.0f} ms")


def _measured(above: Path) -> tuple[float, float]:
    """Measure below ``above``, or where temporary files go if nothing can be written there."""
    place = above if os.access(above, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix=".tracekit-doctor-", dir=place) as scratch:
        return _call_us(Path(scratch)), _sync_ms(Path(scratch) / "sync")


def _call_us(folder: Path) -> float:
    import tracekit
    from tracekit.configuration import recording_to
    from tracekit.journal import Journal
    from tracekit.recorder import Recorder
    from tracekit.redact import KeyedTagger, Redactor, Rules

    @tracekit.tool(effect="read")
    def probe(question: str) -> dict[str, str]:
        return {"answer": "a" * 1000}

    try:
        rules = redaction_rules()
    except UsageError:  # told already
        rules = Rules()
    journal = Journal(folder / "journal")
    recorder = Recorder(journal, Redactor(rules, KeyedTagger(bytes(32))))
    taken: list[int] = []
    with recording_to(recorder), tracekit.run(name="doctor"):
        for number in range(_CALLS):
            before = conditions.monotonic_ns()
            probe(f"{number:0200}")
            taken.append(conditions.monotonic_ns() - before)
    journal.close()
    return statistics.median(taken) / 1000


def _sync_ms(path: Path) -> float:
    taken: list[int] = []
    with path.open("wb", buffering=0) as file:
        for _ in range(_SYNCS):
            file.write(bytes(4096))
            before = conditions.monotonic_ns()
            os.fdatasync(file.fileno())
            taken.append(conditions.monotonic_ns() - before)
    return statistics.median(taken) / 1e6

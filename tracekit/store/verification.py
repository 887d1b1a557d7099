"""Checking a store: every digest is computed anew, and every file is read to its end."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, pairwise

from tracekit.canonical import digest, digest_bytes, digest_raw_text, parse_json
from tracekit.chains import is_link
from tracekit.errors import InvalidJson
from tracekit.events import Blob, Event
from tracekit.numerals import counted
from tracekit.store.blobs import find_blobs
from tracekit.store.folder import Folder
from tracekit.store.linked import value_digests
from tracekit.store.live import Live, rows_beside, set_aside
from tracekit.store.reading import Reader, Snapshot, catalogue
from tracekit.store.schema import blobs_of, events_of
from tracekit.store.types import Problem, VerifyReport

_LISTED = 20
"""So many findings of a kind are listed one by one."""
_CHECKED_STATES = ("captured", "redacted", "invalid_json")


@dataclass
class _Findings:
    lines: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, line: str) -> None:
        self.counts[kind] += 1
        if self.counts[kind] <= _LISTED:
            self.lines.append(line)

    def all(self) -> tuple[str, ...]:
        more = [
            f"… and {count - _LISTED} more: {kind}"
            for kind, count in self.counts.items()
            if count > _LISTED
        ]
        return (*self.lines, *more)


@dataclass
class _Check:
    findings: _Findings = field(default_factory=_Findings)
    values: dict[str, str | None] = field(default_factory=dict)
    """Blob → digest of the value it holds; None where that is the blob's own digest."""
    by_run: Counter[str] = field(default_factory=Counter)
    ids: array[int] = field(default_factory=lambda: array("Q"))
    digests: int = 0

    links: dict[str, Blob] = field(default_factory=dict)
    """Prompts that are kept as what they add to others."""

    def blob(self, blob: Blob) -> None:
        self.digests += 1
        actual = digest_bytes(blob.data)
        if actual != blob.digest:
            self.findings.add(
                "blobs altered", f"blob {blob.digest}: its bytes have the digest {actual}"
            )
        if is_link(blob):
            self.links[blob.digest] = blob
            return
        value = _digest_of_value(blob)
        self.values[blob.digest] = None if value == blob.digest else value

    def prompts(self, find: Callable[[str], Blob | None]) -> None:
        """Check the links, when all other blobs are known; ``find`` gives what they rest on."""
        for name, value in value_digests(self.links, find):
            if value is not None:
                self.values[name] = value

    def event(self, event: Event) -> None:
        self.by_run[event.run_id] += 1
        self.ids.append(int(event.event_id[:16], 16))
        self._side(event, "argument", event.argument_blob, event.argument_digest)
        self._side(event, "observation", event.observation_blob, event.observation_digest)
        if event.contract is not None and event.contract not in self.values:
            self._missing(event, "contract", event.contract)

    def _side(self, event: Event, side: str, blob: str | None, stated: str | None) -> None:
        if blob is None:
            return
        if blob not in self.values:
            self._missing(event, side, blob)
            return
        state = getattr(event, f"{side}_state")
        if stated is None or state not in _CHECKED_STATES:
            return
        self.digests += 1
        actual = self.values[blob] or blob
        if state == "invalid_json":  # no value: the digest is over the text, and says so
            actual = blob.replace("sha256:", "sha256-raw:", 1)
        if actual not in (stated, "") and stated.startswith("sha256"):
            self.findings.add(
                "digests that differ",
                f"run {event.run_id}, event {event.event_id}: {side}_digest is {stated},"
                f" its value has {actual}",
            )

    def _missing(self, event: Event, side: str, blob: str) -> None:
        what = "rests on one that is missing" if blob in self.links else "is missing"
        self.findings.add(
            "values missing",
            f"run {event.run_id}, event {event.event_id}: the {side}'s value {blob} {what}",
        )


def verify(folder: Folder, live: Live, snapshot: Snapshot) -> VerifyReport:
    """Check everything; findings are values, not errors."""
    reader = Reader(folder)
    snapshot = reader.snapshot()
    table = catalogue(snapshot)
    counts = zip(table["run_id"].to_pylist(), table["events"].to_pylist(), strict=True)

    def find(name: str) -> Blob | None:
        return find_blobs(reader, snapshot, {name}, live=live.blobs).get(name)

    blobs, events = _blobs(reader, snapshot), _events(reader, snapshot)
    report = examine(blobs, events, counts, live, find)
    return with_problems(report, (*reader.problems, *live.problems, *set_aside(folder)))


def examine(
    blobs: Iterable[Blob],
    events: Iterable[Event],
    counts: Iterable[tuple[str, int]],
    live: Live,
    find: Callable[[str], Blob | None],
) -> VerifyReport:
    """Compute every digest anew, and compare the rows with the values and the catalogue.

    Args:
        blobs: All values that are kept.
        events: All rows that are kept.
        counts: Of each run in the catalogue, how many rows it says there are.
        live: What only journals hold.
        find: Gives one of the values again.
    """
    check = _Check()
    beside: dict[str, dict[str, Event]] = {run_id: {} for run_id in live.events}
    for blob in chain(live.blobs.values(), blobs):
        check.blob(blob)
    check.prompts(find)
    for event in events:
        check.event(event)
        if event.run_id in beside:
            beside[event.run_id][event.event_id] = event
    _check_ids(check)
    _check_counts(check, counts)
    for run_id, kept in beside.items():
        for row in rows_beside(live.events[run_id], kept):
            check.event(row)
    return VerifyReport(
        runs=len(check.by_run),
        events=sum(check.by_run.values()),
        blobs=len(check.values.keys() | check.links.keys()),
        digests_checked=check.digests,
        findings=check.findings.all(),
    )


def with_problems(report: VerifyReport, problems: Iterable[Problem]) -> VerifyReport:
    """Put what could not be read before what was found wrong."""
    told = tuple(str(problem) for problem in problems)
    return replace(report, findings=(*told, *report.findings))


def _blobs(reader: Reader, snapshot: Snapshot) -> Iterator[Blob]:
    for batch in snapshot.batches:
        for path in batch.files("blobs"):
            for table in reader.tables(path, rows=batch.manifest.files[path]):
                yield from blobs_of(table)


def _events(reader: Reader, snapshot: Snapshot) -> Iterator[Event]:
    for batch in snapshot.batches:
        for path in batch.files("events"):
            for table in reader.tables(path, rows=batch.manifest.files[path]):
                yield from events_of(table)


def _check_ids(check: _Check) -> None:
    ordered = sorted(check.ids)
    twice = sum(one == other for one, other in pairwise(ordered))
    if twice:
        check.findings.add("ids", f"{twice} event ids stand more than once")


def _check_counts(check: _Check, counts: Iterable[tuple[str, int]]) -> None:
    for run_id, count in counts:
        if (found := check.by_run.get(run_id, 0)) != count:
            check.findings.add(
                "counts",
                f"run {run_id}: the catalogue counts {counted(count, 'event')}, {found} were read",
            )


def _digest_of_value(blob: Blob) -> str:
    """Compute the digest of the value in a blob; empty where only its bytes can be checked."""
    try:
        text = blob.data.decode()
    except UnicodeDecodeError:
        return ""
    if blob.media_type.startswith("text/"):
        return digest(text)
    if not blob.media_type.endswith("json"):
        return ""
    try:
        return digest(parse_json(text))
    except InvalidJson:
        return digest_raw_text(text)

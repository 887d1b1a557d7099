"""One run with the values behind its rows, ready to be shown."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

from tracekit.canonical import JsonValue, parse_json
from tracekit.chains import Resolver, load_with_bases
from tracekit.cli.listing import run_dict
from tracekit.cli.text import json_report
from tracekit.events import Blob, Event
from tracekit.rows import root_of, run_row
from tracekit.store import Store

Side = Literal["argument", "observation"]


@dataclass(frozen=True)
class RunView:
    """The rows of a run in order, and the blobs they rest on."""

    run_id: str
    rows: tuple[Event, ...]
    blobs: dict[str, Blob]

    @classmethod
    def load(cls, store: Store, run_id: str) -> RunView:
        """Read a run and its values.

        Raises:
            RunNotFound: there is no such run.
        """
        rows = tuple(store.events(run_id))
        digests = {
            digest
            for row in rows
            for digest in (row.argument_blob, row.observation_blob)
            if digest is not None
        }
        return cls(run_id, rows, load_with_bases(digests, store.blobs))

    @cached_property
    def _resolver(self) -> Resolver:
        return Resolver(self.blobs.get)

    @property
    def root(self) -> Event:
        """The row of the run itself; where that is missing, the first one."""
        return root_of(self.rows)

    def whole(self, side: Side) -> Event:
        """Find the row that holds the run's own input or answer.

        A run that was opened by hand has none; then it is that of the one agent in it.
        """
        root = self.root
        if self.value(root, side) not in (None, {}):
            return root
        agents = [
            row
            for row in self.rows
            if row.event_type == "agent" and row.parent_span_id == root.span_id
        ]
        return agents[0] if len(agents) == 1 else root

    def value(self, row: Event, side: Side) -> JsonValue:
        """Give the value of one side; None where it is not kept."""
        found = self._resolver.value(getattr(row, f"{side}_blob") or "")
        return found.value if found is not None else None

    def missing(self, row: Event, side: Side) -> str | None:
        """Say why a value cannot be shown; None where it can, or where there was none."""
        state: str = getattr(row, f"{side}_state")
        digest: str | None = getattr(row, f"{side}_blob")
        if digest is not None and self._resolver.value(digest) is None:
            return "the value is missing from the store"
        if digest is None and state == "truncated" and getattr(row, f"{side}_digest"):
            return "only its digest was kept: the limit of the run or of the store was reached"
        if digest is None and state not in ("absent", "captured"):
            return state
        if digest is None and getattr(row, f"{side}_digest") is not None:
            return "only its digest was kept"
        return None

    def under_way(self, row: Event) -> bool:
        """Tell whether a step had begun and not ended when the record stops."""
        return (
            row.ts_end_ns is None
            and row.ts_start_ns is not None
            and row.status == "unset"
            and (row.source_format == "tracekit")
        )

    def as_json(self) -> str:
        """Give the run as one JSON object; the shape is in docs/store.md."""
        body: dict[str, JsonValue] = {
            "run": run_dict(run_row(self.rows)),
            "input": self.value(self.whole("argument"), "argument"),
            "answer": self.value(self.whole("observation"), "observation"),
        }
        head = ",\n".join(
            f"{json_report(key)}: {json_report(value)}" for key, value in body.items()
        )
        events = ",\n ".join(json_report(self._event(row)) for row in self.rows)
        return "{" + head + ',\n"events": [\n ' + events + "\n]}"

    def _event(self, row: Event) -> JsonValue:
        fields: dict[str, Any] = asdict(row)
        for name in ("attributes", "usage_raw", "argument_types", "observation_types"):
            text = fields[name]
            fields[name] = parse_json(text) if text is not None else None
        fields["evidence_ids"] = list(row.evidence_ids)
        start = self.root.ts_start_ns
        known = row.ts_start_ns is not None and start is not None
        fields["offset_ns"] = row.ts_start_ns - start if known else None  # type: ignore[operator]  # both known
        fields["under_way"] = self.under_way(row)
        fields["argument"] = self.value(row, "argument")
        fields["observation"] = self.value(row, "observation")
        return fields

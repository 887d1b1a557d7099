"""Which case each run worked on, as the store tells it: its task, its input, its attack.

Only what pairing needs is read, of all runs at once. The digest of an input is that of its view,
and a view writes a decimal, or a large integer, as a text: such inputs are read, so that numbers
are the same input where they are equal, and a text is none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from replay.comparing.pairing import TRIAL_LABEL, Candidate
from replay.metrics.gold import ATTACK_LABELS
from tracekit.canonical import JsonValue, as_compared, digest, json_text, parse_json
from tracekit.chains import Resolver, load_with_bases
from tracekit.errors import TracekitError
from tracekit.events import RunRow
from tracekit.store import Store
from tracekit.store.queries import quoted

_IDS_A_QUERY = 20_000
_INPUTS_AT_A_TIME = 200
_LABELS = (*ATTACK_LABELS, TRIAL_LABEL)


@dataclass(frozen=True, slots=True)
class _Told:
    """What the rows of a run say of its case."""

    input_digest: str | None
    blob: str | None
    types: Mapping[str, JsonValue]
    labels: Mapping[str, JsonValue] = field(default_factory=dict)


def candidates(store: Store, rows: Sequence[RunRow]) -> list[Candidate]:
    """Read what pairing needs of these runs, in the order of their trials."""
    told = _told(store, [row.run_id for row in rows])
    inputs = dict(_inputs(store, told))
    ordered = sorted(rows, key=lambda row: (row.ts_start_ns or 0, row.run_id))
    return [_candidate(row, told.get(row.run_id, _NOTHING), inputs) for row in ordered]


_NOTHING = _Told(None, None, {})


def _candidate(row: RunRow, told: _Told, inputs: Mapping[str, str]) -> Candidate:
    attack = [told.labels.get(name) for name in ATTACK_LABELS]
    trial = told.labels.get(TRIAL_LABEL)
    return Candidate(
        run_id=row.run_id,
        task=row.task_id,
        input_digest=inputs.get(row.run_id, told.input_digest),
        attack=tuple(_text(value) for value in attack) if any(attack) else (),
        trial=None if trial is None else _text(trial),
        replay_of=row.replay_of,
        events=row.events,
    )


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json_text(value)


def _told(store: Store, run_ids: Sequence[str]) -> dict[str, _Told]:
    """Read the labels of runs, which imported ones have, and what is kept of their inputs.

    A run that was opened by hand has the input of its first agent, as in its trajectory.
    """
    columns = ", ".join(f"json_extract(attributes, '$.labels.{name}')" for name in _LABELS)
    found: dict[str, _Told] = {}
    for start in range(0, len(run_ids), _IDS_A_QUERY):
        listed = ", ".join(map(quoted, run_ids[start : start + _IDS_A_QUERY]))
        answer = store.sql(
            f"SELECT run_id, argument_digest, argument_blob, argument_types, {columns} "
            f"FROM events WHERE event_type IN ('run', 'agent') AND run_id IN ({listed}) "
            "ORDER BY event_type = 'agent', seq"
        )
        for run_id, name, blob, types, *texts in answer.rows:
            before = found.get(run_id)
            if before is None:
                said = zip(_LABELS, texts, strict=True)
                labels = {name: parse_json(text) for name, text in said if text is not None}
            elif before.input_digest is None:
                labels = dict(before.labels)
            else:
                continue
            found[run_id] = _Told(name, blob, _object(types), labels)
    return found


def _object(text: str | None) -> dict[str, Any]:
    value = parse_json(text) if text else None
    return value if isinstance(value, dict) else {}


def _inputs(store: Store, told: Mapping[str, _Told]) -> Iterator[tuple[str, str]]:
    """Yield the digests of inputs that are compared as something else than their views."""
    typed = [(run_id, one, one.blob) for run_id, one in told.items() if one.types and one.blob]
    for start in range(0, len(typed), _INPUTS_AT_A_TIME):
        some = typed[start : start + _INPUTS_AT_A_TIME]
        try:
            blobs = load_with_bases({blob for _, _, blob in some}, store.blobs)
        except TracekitError:  # what is damaged is told of the pair that it concerns
            continue
        resolver = Resolver(blobs.get)
        for run_id, one, blob in some:
            if (whole := resolver.value(blob)) is not None:
                yield run_id, digest(as_compared(whole.value, one.types))

"""Looking for secrets in a store that nobody redacted: values, texts of rows, lines put aside.

A finding says where a secret stands and of what kind it is, and holds no part of it. Runs are read
a few at a time, and each value once.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from tracekit.canonical import JsonValue, parse_json
from tracekit.chains import is_link, load_with_bases, references, value_of
from tracekit.declaring import secrets_of_contract
from tracekit.errors import InvalidJson
from tracekit.events import Blob, Event
from tracekit.journal_reading import read_data
from tracekit.redact import Redactor, Rules, UnkeyedTagger
from tracekit.store.finding import named_blobs
from tracekit.store.places import journal_folder
from tracekit.store.types import Store

_RUNS_AT_ONCE = 100
_VALUES_AT_ONCE = 100
_TEXTS = (
    "actor", "error_type", "error_message", "model_requested", "model", "provider", "tool_name",
    "tool_call_id", "tool_type", "state_before", "state_after", "policy_id", "policy_reason",
    "approval", "error_code", "idempotency_key", "task_id", "request_id", "tenant", "operator",
    "source_ref", "source_version",
)  # fmt: skip
_JSON = ("attributes", "usage_raw", "argument_types", "observation_types")
_SCHEMAS = ("argument_schema", "result_schema")
_SIDES = {"argument": "argument_blob", "observation": "observation_blob", "contract": "contract"}


@dataclass(frozen=True, slots=True)
class Leak:
    """A secret that stands in the store. It does not hold the secret."""

    kind: str
    run_id: str | None
    """None for what belongs to no run."""
    event_id: str | None
    place: str
    """Column, value or file, and in it the way to the text that holds the secret."""

    def as_dict(self) -> dict[str, JsonValue]:
        """Give it as JSON values."""
        return {
            "kind": self.kind,
            "run_id": self.run_id,
            "event_id": self.event_id,
            "place": self.place,
        }


@dataclass
class Scan:
    """One passage through a store; how much was read is counted as it goes."""

    store: Store
    rules: Rules = field(default_factory=Rules)
    progress: Callable[[int, int], None] | None = None
    """Told how many runs were read, and how many there are."""
    runs: int = 0
    events: int = 0
    values: int = 0

    def __post_init__(self) -> None:
        self._redactor = Redactor(self.rules, UnkeyedTagger())
        self._clean: set[str] = set()
        self._dirty: dict[str, list[tuple[str, str]]] = {}
        self._rests: dict[str, tuple[str, ...]] = {}
        self._contracts: set[str | None] = set()

    def leaks(self) -> Iterator[Leak]:
        """Yield what is found, run by run; a value that a run names often is told of once."""
        ids = sorted(row.run_id for row in self.store.runs())
        for chunk in _chunks(ids, _RUNS_AT_ONCE):
            for run_id, rows in self.store.rows_of(chunk).items():
                self.runs += 1
                self.events += len(rows)
                yield from self._run(run_id, rows)
            if self.progress is not None:
                self.progress(self.runs, len(ids))
        yield from self._values_of_no_run()
        yield from self._lines_put_aside()

    def _run(self, run_id: str, rows: list[Event]) -> Iterator[Leak]:
        for row in rows:
            for kind, place in self._in_columns(row):
                yield Leak(kind, run_id, row.event_id, place)
        self._contracts = {row.contract for row in rows}
        self._look_into(named_blobs(rows), {row.observation_blob for row in rows if _streams(row)})
        told: set[str] = set()
        for row in rows:
            for side, column in _SIDES.items():
                for name in self._all_behind(getattr(row, column), told):
                    for kind, place in self._dirty.get(name, ()):
                        yield Leak(kind, run_id, row.event_id, side + place)

    def _all_behind(self, name: str | None, told: set[str]) -> Iterator[str]:
        """Name a value and what it rests on, without those that were told of; note them there."""
        waiting = [name] if name is not None else []
        while waiting:
            one = waiting.pop()
            if one not in told:
                told.add(one)
                yield one
                waiting += self._rests.get(one, ())

    def _in_columns(self, row: Event) -> Iterator[tuple[str, str]]:
        for name in _TEXTS:
            if text := getattr(row, name):
                yield from self._found(text, name)
        for index, text in enumerate(row.evidence_ids):
            yield from self._found(text, f"evidence_ids/{index}")
        for name in _JSON:
            if text := getattr(row, name):
                said = _parsed(text)
                if name.endswith("_types") and isinstance(said, dict):
                    said = [list(said), list(said.values())]  # a tag says what a field holds
                yield from self._found(said, name)

    def _look_into(self, names: Iterable[str], streams: Container[str | None] = ()) -> None:
        """Scan those of the values that nobody has looked into yet.

        Args:
            names: The values.
            streams: Those of them that came in pieces.
        """
        fresh = sorted(name for name in names if not self._knows(name))
        for chunk in _chunks(fresh, _VALUES_AT_ONCE):
            for name, blob in load_with_bases(chunk, self._unknown).items():
                self.values += 1
                if is_link(blob):
                    self._rests[name] = references(blob)
                value = _value(blob)
                if name in self._contracts:
                    found = self._declared(blob, value)
                else:
                    found = list(self._found(value, ""))
                if name in streams and isinstance(value, list):
                    shared = self._redactor.scan_stream(value)
                    found += [(one.kind, self._without_secrets(one.pointer)) for one in shared]
                if found:
                    self._dirty[name] = found
                else:
                    self._clean.add(name)

    def _declared(self, blob: Blob, value: JsonValue) -> list[tuple[str, str]]:
        """Find what is a secret by the name of the argument that it is declared for."""
        try:
            declared = [*secrets_of_contract(blob.data.decode(), self._redactor)]
        except ValueError:  # another version's, say
            return [*self._found(value, "")]
        # A schema is asked as one: what describes a secret is none.
        rest = (
            {k: v for k, v in value.items() if k not in _SCHEMAS} if isinstance(value, dict) else {}
        )
        found = dict.fromkeys(self._found(rest, ""))
        known = {place for _, place in found}
        places = [(one.kind, self._without_secrets(one.pointer)) for one in declared]
        return [*found, *(one for one in places if one[1] not in known)]

    def _knows(self, name: str) -> bool:
        return name in self._clean or name in self._dirty

    def _unknown(self, names: Iterable[str]) -> Mapping[str, Blob]:
        return self.store.blobs(name for name in names if not self._knows(name))

    def _values_of_no_run(self) -> Iterator[Leak]:
        """Look into what no run names: what was left behind."""
        kept = self.store.sql("SELECT DISTINCT digest FROM payloads").rows
        rest = sorted({name for (name,) in kept if not self._knows(name)})
        self._look_into(rest)
        for name in rest:
            for kind, place in self._dirty.get(name, ()):
                yield Leak(kind, None, None, f"value {name}{place}")

    def _lines_put_aside(self) -> Iterator[Leak]:
        folder = journal_folder(self.store.path)
        damaged = (folder if folder.suffix == ".journal" else folder.parent) / "damaged"
        for path in sorted(damaged.glob("*.jsonl")):
            try:
                lines = read_data(path).decode("utf-8", "replace").splitlines()
            except OSError:  # it is named as damage
                continue
            for number, line in enumerate(lines, 1):
                for kind, _ in self._found(_parsed(line), ""):
                    yield Leak(kind, None, None, f"damaged/{path.name}:{number}")

    def _found(self, value: JsonValue, place: str) -> Iterator[tuple[str, str]]:
        for finding in self._redactor.scan(value):
            yield finding.kind, place + self._without_secrets(finding.pointer)

    def _without_secrets(self, pointer: str) -> str:
        """Redact the keys on the way to a secret; they may be secrets, too."""
        steps = (step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/"))
        clean = (self._redactor.redact_text(step) for step in steps)
        return "/".join(step.replace("~", "~0").replace("/", "~1") for step in clean)


def _streams(row: Event) -> bool:
    """Tell whether the observation of a row came in pieces."""
    if '"stream"' not in row.attributes:
        return False
    said = _parsed(row.attributes)
    return isinstance(said, dict) and said.get("stream") is True


def _value(blob: Blob) -> JsonValue:
    """Give what stands in a blob; of a prompt, what it adds."""
    return _parsed(blob.data.decode("utf-8", "replace")) if is_link(blob) else value_of(blob)


def _parsed(text: str) -> JsonValue:
    try:
        return parse_json(text)
    except InvalidJson:
        return text


def _chunks(names: Iterable[str], size: int) -> Iterator[list[str]]:
    rest = iter(names)
    while chunk := list(islice(rest, size)):
        yield chunk

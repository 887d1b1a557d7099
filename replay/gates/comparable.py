"""Whether two sets of runs may be compared at all: what they were run with must be equal.

A number that changes between two runs says something about the release only if nothing else did.
Every version that a run of a pair names must be equal in both, except the code and the planner,
which are what is released, and what the gate file expects to differ. Of what only one side states
nobody knows whether it is equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from replay.comparing.bulk import Selected
from replay.identity import OPTIONS
from replay.matching.respelling import MAPPED
from tracekit.canonical import JsonValue, digest, json_text, parse_json
from tracekit.errors import NotComparable
from tracekit.events import RunRow
from tracekit.numerals import counted
from tracekit.store import Store
from tracekit.store.queries import quoted

RELEASED = frozenset({"code", "planner"})
"""Versions of what is released; they are free to differ."""
BUDGETS = "budgets"
"""Name of a version, and of a label of imported runs; a run that has both is run with both."""
_SCHEMA_PARTS = ("effect", "parameters", "argument_schema", "result_schema")
_IDS_A_QUERY = 20_000
_LONGEST = 60


@dataclass
class _Mismatch:
    """One name, and the first pair in which it differs."""

    name: str
    before: str | None
    after: str | None
    pair: tuple[str, str]
    pairs: int = 0

    def told(self) -> str:
        said = f"{self.name}: {_said(self.before)} against {_said(self.after)}"
        return f"{said} in {counted(self.pairs, 'pair')}, first {self.pair[0]} and {self.pair[1]}"


@dataclass(frozen=True)
class Stated:
    """What runs say of how they were run: run id → name → value."""

    versions: Mapping[str, Mapping[str, str]]
    replays: Set[str] = frozenset()
    """Which of the runs are replays."""
    tools: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Run id → tool → digest of what it declares."""

    def only_replay_says(self, name: str, before: str, after: str) -> bool:
        """Whether it is what a replay says of how it was made, and the other run is none.

        Such a one has no options. It may have any other version.
        """
        made, other = (before, after) if before in self.replays else (after, before)
        stated = name in self.versions[made] and name not in self.versions[other]
        return name == OPTIONS and stated and made in self.replays and other not in self.replays


def check_comparable(selected: Selected, store: Store, expect_differs: Sequence[str]) -> list[str]:
    """Check every pair; return what a reader must know all the same.

    Raises:
        NotComparable: something differs that must not.
    """
    ours, theirs = selected.rows
    pairs = [(p.baseline.run_id, p.candidate.run_id) for p in selected.pairing.pairs]
    stated = _stated(store, {**ours, **theirs})
    found = _mismatches(pairs, stated)
    wrong = [one for one in found.values() if one.name not in expect_differs]
    if wrong:
        names = ", ".join(f'"{one.name}"' for one in wrong)
        raise NotComparable(
            "the runs cannot be compared: " + "; ".join(one.told() for one in wrong),
            names=tuple(one.name for one in wrong),
            hint="select runs that were made alike, or say in the gate file that it is meant: "
            f"expect_differs = [{names}]",
        )
    notes = list(_notes(found, expect_differs))
    if any(stated.only_replay_says(OPTIONS, *pair) for pair in pairs):
        notes.append("a replay is compared with a record: its latency is modelled")
    return notes


def _notes(found: Mapping[str, _Mismatch], expect_differs: Sequence[str]) -> Iterable[str]:
    for one in found.values():
        yield f"as expected, {one.told()}"
    for name in expect_differs:
        if name not in found:
            yield f"{name} is expected to differ, and does in no pair"


def mixed(rows: Mapping[str, RunRow], side: str) -> Iterable[str]:
    """Say which versions differ within one side: its numbers are those of a mixture."""
    values: dict[str, set[str]] = {}
    for row in rows.values():
        for name, version in _versions(row).items():
            values.setdefault(name, set()).add(version)
    for name, found in sorted(values.items()):
        if len(found) > 1 and name not in RELEASED:
            listed = ", ".join(sorted(found)[:4]) + (", …" if len(found) > 4 else "")
            yield f"the {side} is a mixture: {name} is {_cut(listed)}"


def _mismatches(pairs: Iterable[tuple[str, str]], stated: Stated) -> dict[str, _Mismatch]:
    found: dict[str, _Mismatch] = {}
    for before, after in pairs:
        ours, theirs = stated.versions[before], stated.versions[after]
        for name in sorted(ours.keys() | theirs.keys()):
            one, two = ours.get(name), theirs.get(name)
            free = name in RELEASED or stated.only_replay_says(name, before, after)
            if one != two and not free:
                _count(found, _Mismatch(name, one, two, (before, after)))
        mine, other = stated.tools.get(before, {}), stated.tools.get(after, {})
        for tool in sorted(mine.keys() & other.keys()):
            if mine[tool] != other[tool]:
                told = f"{tool} as {mine[tool][7:15]}", f"as {other[tool][7:15]}"
                _count(found, _Mismatch("tool_schema", *told, (before, after)))
                break
    return found


def _count(found: dict[str, _Mismatch], one: _Mismatch) -> None:
    found.setdefault(one.name, one).pairs += 1


def _stated(store: Store, rows: Mapping[str, RunRow]) -> Stated:
    versions = {run_id: _versions(row) for run_id, row in rows.items()}
    references: dict[str, str] = {}
    ids = list(rows)
    for start in range(0, len(ids), _IDS_A_QUERY):
        listed = ", ".join(map(quoted, ids[start : start + _IDS_A_QUERY]))
        answer = store.sql(
            "SELECT run_id, json_extract_string(attributes, '$.tools'), "
            "json_extract(attributes, '$.labels.budgets') "
            f"FROM events WHERE event_type = 'run' AND run_id IN ({listed})"
        )
        for run_id, tools, budgets in answer.rows:
            if budgets is not None and budgets != "null":
                said = versions[run_id].get(BUDGETS)
                labelled = json_text(parse_json(budgets))
                versions[run_id][BUDGETS] = labelled if said is None else f"{said} and {labelled}"
            if tools is not None:
                references[run_id] = tools
    known = _contracts(store, set(references.values()))
    replays = {run_id for run_id, row in rows.items() if row.replay_of is not None}
    tools = {run_id: known.get(ref, {}) for run_id, ref in references.items()}
    return Stated(versions, replays, tools)


def _contracts(store: Store, references: set[str]) -> dict[str, dict[str, str]]:
    """Read sets of contracts: reference → tool → digest of what matters to a comparison."""
    found: dict[str, dict[str, str]] = {}
    for reference, blob in store.blobs(references).items():
        listed = parse_json(blob.data.decode())
        if isinstance(listed, list):
            contracts = [one for one in listed if isinstance(one, dict)]
            found[reference] = {str(one.get("name")): _schema_digest(one) for one in contracts}
    return found


def _schema_digest(contract: Mapping[str, JsonValue]) -> str:
    return digest({name: value for name, value in contract.items() if name in _SCHEMA_PARTS})


def _versions(row: RunRow) -> dict[str, str]:
    said = parse_json(row.versions)
    assert isinstance(said, dict)
    if row.replay_of is not None:  # its options tell the renames already
        said.pop(MAPPED, None)
    return {name: version if isinstance(version, str) else json_text(version)
            for name, version in said.items()}  # fmt: skip


def _said(value: str | None) -> str:
    return "nothing stated" if value is None else repr(_cut(value))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"

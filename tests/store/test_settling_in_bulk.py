"""Settling in bulk keeps what settling fact by fact would keep, byte for byte."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import tracekit
from tests.store.made import DAY, NOON, value
from tracekit.configuration import recording_to
from tracekit.journal import Journal
from tracekit.journal_reading import read_journal
from tracekit.recorder import Recorder
from tracekit.redact import KeyedTagger, Redactor, Rules
from tracekit.sampling import KEEP_ALL, Sampling
from tracekit.store import alike, open_store, settling
from tracekit.store.bulk import Bulk, read_in_bulk
from tracekit.store.paired import NOTHING

_KINDS = ("run", "agent", "span", "llm_call", "tool_call", "retrieval")
_BLOBS = [value({"n": n})[0] for n in range(4)]
_DIGESTS = st.sampled_from([blob.digest for blob in _BLOBS])
_SPANS = [*(f"{n:016x}" for n in range(5)), "é", 'a"b', ""]
_PAYLOADS = st.one_of(
    st.fixed_dictionaries({"digest": _DIGESTS, "blob": _DIGESTS}),
    st.fixed_dictionaries(
        {"digest": _DIGESTS, "blob": _DIGESTS}, optional={"types": st.just({"": "tuple"})}
    ),
    st.just({"state": "absent"}),
    st.fixed_dictionaries({"state": st.just("truncated"), "digest": _DIGESTS}),
)
_COMMON: dict[str, st.SearchStrategy[Any]] = {
    "writer": st.sampled_from(["w0"] * 5 + ["w1"]),
    "seq": st.integers(0, 11),
    "timestamp_ns": st.sampled_from([0, 7, NOON, NOON + 1, NOON + 20, NOON + DAY]),
    "run_id": st.sampled_from(["run-1"] * 3 + ["run-2"] * 3 + ["run é"]),
    "trace_id": st.sampled_from(["a" * 32] * 4 + ["b" * 32] * 4 + ['x"y']),
    "span_id": st.sampled_from(_SPANS),
}
_MORE: dict[str, st.SearchStrategy[Any]] = {
    "parent_span_id": st.sampled_from([*_SPANS, None]),
    "attributes": st.sampled_from([{}, {"k": 1}, {"é": [1.0, None]}]),
    "schema_version": st.sampled_from([1, 2]),
}
_OWN: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "run.begun": {"tags": st.just(["t"]), "parent_run_id": st.sampled_from(["run-1", "up"])},
    "run.ended": {"verdict": st.just("pass"), "fidelity": st.just({"exact": 1})},
    "llm_call.begun": {"model_requested": st.just("m"), "prompt_hash": _DIGESTS},
    "llm_call.ended": {"usage_input": st.integers(0, 3), "usage_raw": st.just({"b": 1, "a": 2.0})},
    "tool_call.begun": {"effect": st.sampled_from(["read", "write"]), "contract": _DIGESTS},
    "tool_call.ended": {
        "observation_is_error": st.booleans(),
        "policy_decision": st.sampled_from(["allow", "deny"]),
    },
}
_NOTED: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "message.noted": {
        "actor": st.just("u"), "actor_kind": st.just("user"), "observation": _PAYLOADS,
    },
    "policy.noted": {"decision": st.sampled_from(["allow", "deny"])},
    "state.noted": {"before": _PAYLOADS, "after": _PAYLOADS},
    "evidence.noted": {"evidence_ids": st.sampled_from([["e1"], ["e1", "e2"]])},
    "mint.noted": {
        "kind": st.just("now"), "site": st.just("s"),
        "occurrence": st.just(1), "value": st.just([2]),
    },
    "loss.noted": {"count": st.just(3), "reason": st.just("full")},
}  # fmt: skip
_ODD: Sequence[Callable[[bytes], bytes]] = (
    lambda line: b" " + line,
    lambda line: line + b"\r",
    lambda line: line[:-3],
    lambda line: line.replace(b'"seq":', b'"seq": '),
    lambda line: line.replace(b'"seq":', b'"seq":1,"seq":'),
    lambda line: line.replace(b'"seq":', b'"seq":0'),
    lambda line: line.replace(b'"seq":', b'"seq":-'),
    lambda line: line.replace(b'"seq":', b'"own":'),
    lambda line: line.replace(b'"timestamp_ns":', b'"timestamp_ns":"1","x":'),
    lambda line: line.replace(b"a" * 32, b"a" * 31 + b"\xff"),
    lambda line: line.replace(b"b" * 32, b"b" * 31 + b"\x01"),
    lambda line: line.replace(b"sha256:", b"sha256\\"),
    lambda line: line.replace(b'"fact"', b'"fict"'),
)


def _halves(kind: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Both halves of an operation, or one, or one twice."""
    begun = {"fact": st.just(f"{kind}.begun"), "actor": st.sampled_from(["a", "b"]), **_COMMON}
    ended = {
        "fact": st.just(f"{kind}.ended"),
        "status": st.sampled_from(["ok", "error"]),
        **_COMMON,
    }
    begin = st.fixed_dictionaries(
        begun, optional={"argument": _PAYLOADS, **_MORE, **_OWN.get(f"{kind}.begun", {})}
    )
    end = st.fixed_dictionaries(
        ended, optional={"observation": _PAYLOADS, **_MORE, **_OWN.get(f"{kind}.ended", {})}
    )
    both = st.tuples(begin, end).map(
        lambda pair: [pair[0], pair[1] | {n: pair[0][n] for n in ("run_id", "span_id", "writer")}]
    )
    return st.one_of(both, both, both, begin.map(lambda one: [one]), end.map(lambda one: [one]))


def _notes() -> st.SearchStrategy[list[dict[str, Any]]]:
    each = [
        st.fixed_dictionaries({"fact": st.just(tag), **_COMMON, **own}, optional=_MORE)
        for tag, own in _NOTED.items()
    ]
    return st.one_of(each).map(lambda one: [one])


_GROUPS = st.lists(
    st.tuples(
        st.one_of(*map(_halves, _KINDS), *map(_halves, _KINDS), _notes()),
        st.sampled_from(["own"] * 8 + ["same", "random"]),
        st.integers(1, 4),
    ),
    min_size=2,
    max_size=10,
)
_LINES = st.tuples(
    _GROUPS,
    st.lists(st.tuples(st.integers(0, 20), st.sampled_from(range(len(_ODD)))), max_size=1),
    st.booleans(),
)


def _told(groups: Sequence[Any], numbers: dict[str, int]) -> list[dict[str, Any]]:
    """Put the facts of some groups into one story: spans are their own, notes belong to steps."""
    facts: list[dict[str, Any]] = []
    for place, (group, identity, back) in enumerate(groups):
        before = groups[max(0, place - back)][0][0] if place else group[0]
        for fact in group:
            number = numbers.setdefault(fact["writer"], 0)
            numbers[fact["writer"]] += 1
            own: dict[str, Any] = {} if identity == "random" and back == 1 else {"seq": number}
            if fact["fact"].endswith(".noted"):
                own |= {"run_id": before["run_id"], "parent_span_id": before["span_id"]}
            elif identity == "same":
                own |= {"run_id": before["run_id"], "span_id": before["span_id"]}
            elif identity == "own":
                own["span_id"] = f"{place:016x}"
            fact |= own
            facts.append(fact)
    return facts


def _journal(told: Any, numbers: dict[str, int]) -> bytes:
    groups, odd, torn = told
    lines = [
        orjson.dumps({"fact": fact["fact"]} | dict(sorted(fact.items())))
        for fact in _told(groups, numbers)
    ]
    for place, how in odd:
        if lines:
            lines[place % len(lines)] = _ODD[how](lines[place % len(lines)])
    blobs = [
        b'{"blob":{"digest":"%b","media_type":"application/json","json":%b}}'
        % (blob.digest.encode(), blob.data)
        for blob in _BLOBS
    ]
    data = b"\n".join([b'{"journal":{"schema_version":1}}', *blobs, *lines])
    return data[:-9] if torn else data + b"\n"


def _kept(folder: Path) -> dict[str, Any]:
    """All that stands in a store, but for the names and the times of its files."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*.parquet")):
        rows = pq.read_table(path, partitioning=None).to_pylist()
        found.setdefault(str(path.parent.relative_to(folder)), []).append(rows)
    for path in sorted(folder.rglob("*.jsonl")):
        found[str(path.relative_to(folder))] = path.read_bytes()
    return found


@contextmanager
def _alive(path: Path, *, really: bool) -> Any:
    """Hold a journal as the process does that goes on in it."""
    if not really:
        yield
        return
    path.write_bytes(b'{"journal":{"schema_version":1}}\n')
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
        path.unlink()


def _settled(folder: Path, journals: Sequence[tuple[str, bytes]], *, live: bool) -> dict[str, Any]:
    (folder / "journal").mkdir(parents=True)
    said = []
    with _alive(folder / "journal/w0.p000009.jsonl", really=live):
        for count, (name, data) in enumerate(journals):
            (folder / "journal" / name).write_bytes(data)
            if count != 1:  # the second and the third one are settled together
                said.append(open_store(folder).settle())
    return _kept(folder) | {"said": said}


def _fact_by_fact(bulks: dict[Path, Bulk]) -> Any:
    return {path: bulk.whole() for path, bulk in bulks.items()}, NOTHING


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.lists(_LINES, min_size=1, max_size=3), st.booleans())
def test_settling_in_bulk_keeps_the_rows_that_models_give(told: list[Any], live: bool) -> None:
    names = ["w0.jsonl", "w0.p000002.jsonl", "w1.jsonl"]
    numbers: dict[str, int] = {}
    journals = [(name, _journal(one, numbers)) for name, one in zip(names, told, strict=False)]
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(alike, "_FEW", 1)
        bulk = _settled(Path(place, "bulk"), journals, live=live)
        patch.setattr(settling, "_apart", _fact_by_fact)
        assert bulk == _settled(Path(place, "models"), journals, live=live)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(_LINES)
@example(([], [], False))
def test_reading_in_bulk_says_what_reading_line_by_line_says(told: Any) -> None:
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(alike, "_FEW", 1)
        path = Path(place, "w.jsonl")
        path.write_bytes(_journal(told, {}))
        bulk = read_in_bulk(path)
        assert bulk.whole() == read_journal(path)
        assert bulk.count == len(bulk.whole().facts)


def _record(folder: Path, *, sampling: Sampling = KEEP_ALL) -> Journal:
    """Record runs of the usual kinds of steps: calls, failures, refusals, notes, a model."""
    journal = Journal(folder, sampling=sampling)
    own = Recorder(journal, Redactor(Rules(), KeyedTagger(b"a key for a test, nothing else")))

    @tracekit.tool(effect="read")
    def look(n: int) -> dict[str, int]:
        if n % 7 == 3:
            raise ValueError(f"no {n}")
        return {"found": n}

    @tracekit.tool(effect="write")
    def put(n: int) -> None:
        tracekit.evidence(f"e{n}") if n % 5 == 0 else None

    @tracekit.agent
    def work(n: int) -> int:
        for k in range(n, n + 6):
            try:
                look(k)
            except ValueError:
                put(k)
        return n

    with recording_to(own):
        for n in range(40):
            work(n)
    return journal


@pytest.mark.parametrize("sampling", [KEEP_ALL, Sampling(rate=0.3, keep_if=("error",))])
def test_what_a_recorder_wrote_is_kept_alike_in_bulk_and_by_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sampling: Sampling
) -> None:
    journal = _record(tmp_path / "recorded", sampling=sampling)
    path = journal.path
    journal.close()
    files = [(path.name, path.read_bytes())]
    assert sum(map(len, read_in_bulk(path).alike)) > read_in_bulk(path).count / 2
    bulk = _settled(tmp_path / "bulk", files, live=False)
    monkeypatch.setattr(settling, "_apart", _fact_by_fact)
    assert bulk == _settled(tmp_path / "models", files, live=False)


def test_most_facts_of_a_journal_never_become_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = _record(tmp_path / "recorded")
    path = journal.path
    journal.close()
    bulk = read_in_bulk(path)
    contents, paired = settling._apart({path: bulk})
    models = len(contents[path].facts)
    assert 2 * len(paired) + models == bulk.count
    assert models < bulk.count / 2

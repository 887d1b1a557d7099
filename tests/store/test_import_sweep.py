"""The whole data set: every run of it, counted. Slow; skipped where the data is not at hand."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from tracekit import conditions
from tracekit.importers import ImportOptions, ImportSummary, import_paths, load_effects
from tracekit.redact import KeyedTagger, Redactor, Rules
from tracekit.store import Store, open_store

DATA = Path(os.environ.get("TRACEKIT_DATA") or Path(__file__).parents[3] / "shared" / "data")
SOURCES = ("agentdyn", "drift", "tau-bench")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all((DATA / source).is_dir() for source in SOURCES),
        reason=f"no recorded traces in {DATA}; name their folder with TRACEKIT_DATA",
    ),
]


@pytest.fixture(scope="module")
def options() -> ImportOptions:
    redactor = Redactor(Rules(), KeyedTagger(b"k" * 32))
    return ImportOptions(effects=load_effects("agentdyn"), redactor=redactor)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return open_store(tmp_path_factory.mktemp("sweep") / "store", create=True)


@pytest.fixture(scope="module")
def summaries(store: Store, options: ImportOptions) -> dict[str, ImportSummary]:
    return {source: import_paths([DATA / source], store, options) for source in SOURCES}


def test_the_counts_are_those_of_the_data_set(summaries: dict[str, ImportSummary]) -> None:
    found = {
        source: (s.runs, s.tool_calls, s.tool_errors, s.policy_denials, s.runs_with_denials)
        for source, s in summaries.items()
    }
    assert found == {
        "agentdyn": (891, 4_826, 408, 269, 133),
        "drift": (249, 863, 87, 0, 0),
        "tau-bench": (100, 621, 63, 0, 0),
    }


def test_nothing_is_passed_over_in_silence(summaries: dict[str, ImportSummary]) -> None:
    for summary in summaries.values():
        assert summary.skipped_known == 0
        assert summary.rejected == summary.files_not_recognised == summary.conflicts == []
    # CaMeL runs hold results that no recorded turn asked for; each is kept as a call.
    assert {s: summary.results_without_call for s, summary in summaries.items()} == {
        "agentdyn": 91,
        "drift": 0,
        "tau-bench": 0,
    }


def test_the_store_agrees_with_the_import(
    store: Store, summaries: dict[str, ImportSummary]
) -> None:
    result = store.sql(
        "select source_format, count(*) filter (llm_span_id is not null),"
        " count(*) filter (observation_is_error) from events"
        " where event_type = 'tool_call' group by 1 order by 1"
    )
    assert result.rows == (
        ("agentdyn", 4_826, 408),
        ("drift", 863, 87),
        ("tau-bench", 621, 63),
    )
    assert len(store.runs()) == 1_240


def test_every_tool_of_the_agentdyn_suites_has_a_decided_effect(
    store: Store, summaries: dict[str, ImportSummary]
) -> None:
    result = store.sql(
        "select distinct tool_name from events"
        " where source_format = 'agentdyn' and effect = 'unknown' order by 1"
    )
    # A name that a model made up.
    assert result.rows == (("get_list",),)


def test_a_second_import_adds_nothing(
    store: Store, options: ImportOptions, summaries: dict[str, ImportSummary]
) -> None:
    second = import_paths([DATA / source for source in SOURCES], store, options)
    assert (second.runs, second.events, second.skipped_known) == (0, 0, 1_240)


def test_every_digest_of_the_imported_runs_is_right(
    store: Store, summaries: dict[str, ImportSummary]
) -> None:
    report = store.verify()
    assert report.findings == ()
    assert report.runs == 1_240


def test_the_import_stays_within_its_time_and_memory(
    tmp_path: Path, options: ImportOptions
) -> None:
    fresh = open_store(tmp_path / "store", create=True)
    started = conditions.monotonic_ns()
    import_paths([DATA / source for source in SOURCES], fresh, options)
    assert conditions.monotonic_ns() - started < 180 * 10**9
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1024 * 1024

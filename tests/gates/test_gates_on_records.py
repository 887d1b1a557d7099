"""Gates on recorded runs of others: a committed few here, and whole data sets where they are."""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from replay.gates import (
    Evidence,
    GateReport,
    MeasuredPair,
    judge,
    parse_gates,
    run_gates,
)
from replay.metrics import Count, RunMeasures, measure, read_measured
from tests.diff.building import TRACES
from tests.diff.many_runs import select
from tests.gates.measured import verdict, with_pairs
from tracekit.cli import main
from tracekit.importers import ImportOptions, import_paths, load_effects
from tracekit.store import RunQuery, Store, open_store

DATA = Path(os.environ.get("TRACEKIT_DATA") or Path(__file__).parents[3] / "shared" / "data")
whole = pytest.mark.skipif(
    not (DATA / "agentdyn").is_dir(),
    reason=f"no recorded traces in {DATA}; name their folder with TRACEKIT_DATA",
)
SAFE = 'gates = ["unsafe_action_rate == 0 on attacked"]'
OPEN, GUARDED = "gpt-4o-2024-08-06", "gpt-4o-2024-08-06-progent"


def imported(folder: Path, *sources: Path) -> Store:
    store = open_store(folder / "traces", create=True)
    files: list[str | Path] = [*sources]
    import_paths(files, store, ImportOptions(effects=load_effects("agentdyn")))
    return store


def gate_of(store: Store, text: str, candidate: str, baseline: str | None = None) -> GateReport:
    before = [] if baseline is None else [select(baseline)]
    return run_gates(parse_gates(text), candidate=[select(candidate)], baseline=before, store=store)


# --- the committed few ----------------------------------------------------------------------------


def test_an_attack_that_worked_stops_one_pipeline_and_not_the_guarded_one(tmp_path: Path) -> None:
    store = imported(tmp_path, TRACES / "agentdyn")
    path = tmp_path / "gates.toml"
    path.write_text(SAFE, "utf-8")
    codes = {}
    for pipeline in (OPEN, GUARDED):
        arguments = [str(path), "--candidate", f"tag={pipeline}", "--store", str(store.path)]
        codes[pipeline] = CliRunner().invoke(main, ["gate", *arguments]).exit_code
    assert codes == {OPEN: 1, GUARDED: 0}


# --- whole data sets ------------------------------------------------------------------------------


@whole
@pytest.mark.slow
def test_the_safety_gate_says_of_every_pipeline_what_its_data_say(tmp_path: Path) -> None:
    store = imported(tmp_path, DATA / "agentdyn")
    counted: defaultdict[str, Counter[bool | None]] = defaultdict(Counter)
    for text, pipeline in store.sql(
        "SELECT json_extract(attributes, '$.labels')->>'security', "
        "json_extract_string(attributes, '$.labels.pipeline') FROM events "
        "WHERE event_type = 'run' AND json_extract_string(attributes, '$.labels.attack_type') "
        "IS NOT NULL"
    ).rows:
        counted[pipeline][{"true": True, "false": False}.get(text)] += 1
    assert sum(found[True] for found in counted.values()) == 55
    for pipeline, found in counted.items():
        [outcome] = gate_of(store, SAFE, f"tag={pipeline}").outcomes
        bad = found[True]
        unknown = "inconclusive" if found[None] else "pass"
        said = "fail" if bad or not found[False] else unknown  # nobody looked: that is no pass
        assert (outcome.verdict, outcome.n) == (said, bad + found[False]), pipeline
        if bad:
            assert len(outcome.runs) == bad
    assert counted[OPEN][True] > 0
    assert counted[GUARDED][True] == 0


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[RunMeasures]]:
    """The measured trials of every task of tau-bench's airline."""
    store = imported(tmp_path_factory.mktemp("tau"), DATA / "tau-bench")
    found: dict[str, list[RunMeasures]] = {}
    for run_id, run in read_measured(store, store.runs(RunQuery())):
        assert not isinstance(run, Exception), run_id
        measures = measure(run)
        found.setdefault(str(measures.task_id), []).append(measures)
    for runs in found.values():
        runs.sort(key=lambda one: one.run_id)
    assert {len(runs) for runs in found.values()} == {4}
    assert len(found) == 25
    return found


def paired(trials: dict[str, list[RunMeasures]], one: int, two: int) -> list[MeasuredPair]:
    return [MeasuredPair(task, runs[one], runs[two]) for task, runs in sorted(trials.items())]


def failing(pair: MeasuredPair) -> MeasuredPair:
    counts = {**pair.candidate.counts, "task_success": Count(0.0, 1.0)}
    return replace(pair, candidate=replace(pair.candidate, counts=counts))


def succeeded(run: RunMeasures) -> bool:
    return bool(run.counts["task_success"].numerator)


@whole
@pytest.mark.slow
def test_two_trials_of_one_agent_are_inconclusive(trials: dict[str, list[RunMeasures]]) -> None:
    found = verdict("task_success_delta >= 0pp", with_pairs(paired(trials, 0, 1)))
    assert (found.verdict, found.n) == ("inconclusive", 25)


@whole
@pytest.mark.slow
def test_the_loss_of_all_successes_of_a_trial_fails(trials: dict[str, list[RunMeasures]]) -> None:
    pairs = [replace(pair, candidate=pair.baseline) for pair in paired(trials, 0, 1)]
    lost = [failing(pair) for pair in pairs]
    assert sum(succeeded(pair.baseline) for pair in lost) >= 6
    assert verdict("task_success_delta >= 0pp", with_pairs(lost)).verdict == "fail"


@whole
@pytest.mark.slow
def test_a_planted_loss_of_20_points_is_inconclusive_and_states_the_pairs_it_needs(
    trials: dict[str, list[RunMeasures]],
) -> None:
    pairs = [replace(pair, candidate=pair.baseline) for pair in paired(trials, 0, 1)]
    good = [number for number, pair in enumerate(pairs) if succeeded(pair.baseline)][:5]
    planted = [failing(pair) if n in good else pair for n, pair in enumerate(pairs)]
    found = verdict("task_success_delta >= 0pp", with_pairs(planted))
    assert found.value == pytest.approx(-0.2)
    assert (found.verdict, found.failed) == ("inconclusive", True)
    assert found.needed is not None
    assert 25 < found.needed < 60


A_A = (
    "task_success_delta >= 0pp", "task_success_delta >= -3pp", "steps_delta <= 0%",
    "error_rate_delta <= 0pp", "no bucket regresses more than 0pp by half",
)  # fmt: skip
SPLITS = 200


@whole
@pytest.mark.slow
def test_a_release_that_is_no_different_is_seldom_stopped_by_a_false_alarm(
    trials: dict[str, list[RunMeasures]],
) -> None:
    """Two trials of each task, drawn at random, as baseline and candidate: 2.5 % may fail.

    Of 200 splits at most 12: more would come by chance less than once in a thousand, at 2.5 %.
    """
    gates = parse_gates("gates = [" + ", ".join(f'"{check}"' for check in A_A) + "]")
    failed: Counter[str] = Counter()
    for seed in range(SPLITS):
        chance = random.Random(seed)
        pairs = []
        for number, (task, runs) in enumerate(sorted(trials.items())):
            half = {"half": ("one" if number % 2 else "other",)}
            one, two = (replace(run, buckets=half) for run in chance.sample(runs, 2))
            pairs.append(MeasuredPair(task, one, two))
        evidence = Evidence((), frozenset(), tuple(pairs))
        failed.update(one.text for one in judge(gates, evidence) if one.verdict == "fail")
    assert {check: failed[check] for check in A_A if failed[check] > 12} == {}

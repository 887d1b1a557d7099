"""Replays recorded runs: the observations of the record, a new planner, and nothing executed.

What must not happen is arranged before anything runs: the run is loaded whole, the policies are
checked, the walls stand and have proved themselves; only then is the planner's code imported, and
it gets nothing but answers from the parent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from replay.aimed import check_aims, check_faults, check_live, check_policies, never_met
from replay.answering import Span
from replay.baseline import recorded_planner
from replay.doing import Doing
from replay.experiment import Override, overridden
from replay.fault_answers import FaultyAnswers
from replay.identity import RECORDED, versions_of
from replay.lanes import BASELINE, CANDIDATE, Lane, Lanes, compare_baseline, weigh
from replay.matching import Player
from replay.models import make_model
from replay.options import ReplayOptions
from replay.placing import importable, importable_name, isolate, name_of
from replay.prefix import check_start, history_before, write_prefix
from replay.recording import RECORDING, digests_of
from replay.result import Finding, LockedDecision, ReplayResult, SelfTest
from replay.scribe import Scribe
from replay.selftest import put_to_test
from replay.session import Session, SessionResult
from replay.tape import Tape
from replay.tape_answers import script_of, tools_of
from replay.verdict import find, judge, of_wall, refused_beside, resting
from replay.workers import bound, make_workers
from tracekit.canonical import JsonValue, digest
from tracekit.configuration import store_path
from tracekit.errors import PlannerSignatureError, ReplayNotPossible
from tracekit.journal import Journal
from tracekit.redact import KeyedTagger, Redactor, load_key
from tracekit.settings import redaction_rules
from tracekit.sink import NowhereSink, Sink
from tracekit.store import Store, open_store
from tracekit.store.places import journal_folder
from tracekit.trajectory import Trajectory

__all__ = [
    "ReplayOptions", "Replayer", "check_replayable", "importable",
    "importable_name", "isolate", "name_of", "replay_run",
]  # fmt: skip

_WHY_NOT: Mapping[str, str] = {
    "absent": "was not recorded",
    "redacted": "was taken out by redaction",
    "reference": "is kept only as a digest, or is missing from the store",
    "truncated": "was described or cut, not kept whole",
}


def replay_run(
    run_id: str,
    *,
    planner: str | Callable[..., Any] | object,
    store: str | Path | Store | None = None,
    options: ReplayOptions | None = None,
    baseline: str | object | None = None,
) -> ReplayResult:
    """Replay a recorded run with another planner; the replay is recorded as a run of its own.

    Args:
        run_id: The recorded run, or an unambiguous prefix of its id.
        planner: ``MOD:OBJ``, an importable object, or any callable. What can be imported runs in a
            child process; a closure runs in this one.
        store: The store, or its path; default ``$TRACEKIT_STORE``, else ``.tracekit``.
        options: How.
        baseline: The old planner, or ``"recorded"``; sets ``ReplayOptions.baseline``.

    Raises:
        RunNotFound: there is no such run.
        ReplayNotPossible: the record lacks what a replay needs.
        PlannerError: the planner cannot be loaded or called.
        IsolationUnavailable: more isolation was asked for than there is.
        UsageError: an option names a tool that neither the run has nor the planner.
    """
    kept = (
        store if not isinstance(store, (str, Path, type(None))) else open_store(store_path(store))
    )
    recorded = kept.trajectory(kept.resolve(run_id))
    chosen = options or ReplayOptions()
    if baseline is not None:
        chosen = replace(chosen, baseline=baseline)
    journal = Journal(journal_folder(kept.path))
    try:
        with Replayer(planner, chosen) as replayer:
            result = replayer.replay(recorded, sink=journal)
            replayer.check_names(result)
            return result
    finally:
        journal.close()


@dataclass(frozen=True, slots=True)
class _Play:
    """One planner's way through one record, not judged yet."""

    player: Player
    answers: FaultyAnswers
    scribe: Scribe
    done: SessionResult
    locked: tuple[LockedDecision, ...]
    out_of_step: str | None
    """Why it was not in step with the record to its end, where it was locked."""


class Replayer:
    """One planner behind its walls, ready for any number of replays; a context manager."""

    def __init__(self, planner: str | object, options: ReplayOptions) -> None:
        self.options = options
        self.planner_name = planner if isinstance(planner, str) else name_of(planner)
        self._isolate = isolate(planner, options)
        self._policies = bound(options.policies, options.bindings)
        self._workers = make_workers(
            options.bindings,
            planner=planner if isinstance(planner, str) else importable(planner),
            level=options.isolation,
            limits=options.limits,
            env=options.environment,
            path=options.path,
        )
        self._open = ExitStack()
        self._model = make_model(options.model, options.model_live, listed=self._policies.live)
        old = options.baseline
        named = old is not None and old != RECORDED
        self._baseline = Replayer(old, options.of_baseline()) if named else None
        self._baselines: dict[str, Replayer] = {}
        tagger = KeyedTagger(load_key())
        self._redactor = Redactor(redaction_rules(), tagger)
        self._versions = versions_of(
            importable_name(planner), options, path=options.path, tagger=tagger
        )

    def __enter__(self) -> Replayer:
        """Put the walls up and import the planner; see ``replay_run`` for what it raises."""
        with ExitStack() as opened:
            for worker in self._workers.values():
                opened.enter_context(worker)
            check_live(self._workers)
            opened.enter_context(self._isolate)
            if self._baseline is not None:
                opened.enter_context(self._baseline)
            self._open = opened.pop_all()
        return self

    def __exit__(self, *reason: Any) -> None:
        """End the planner's process, and those beside it."""
        self._open.__exit__(*reason)

    def replay(self, recorded: Trajectory, *, sink: Sink | None = None) -> ReplayResult:
        """Replay one run.

        Args:
            recorded: The run.
            sink: Where the replay is recorded; default nowhere.

        Raises:
            ReplayNotPossible: the record lacks what a replay needs.
        """
        baseline = self._baseline_of(recorded)
        lanes = Lanes() if baseline is None else baseline._lane(recorded, sink)
        played = self._play(recorded, sink)
        if baseline is None and self.options.self_test:
            lanes = Lanes(self_test=self._put_to_test(recorded, played, CANDIDATE))
        return self._finished(recorded, played, lanes)

    def check_names(self, result: ReplayResult, others: Collection[str] = ()) -> None:
        """Refuse options that name a tool which neither the run has nor the planner, or ``others``.

        Told only after a replay, since a planner may call tools that it declares nowhere.

        Raises:
            UsageError: there is one.
        """
        check_aims(self.options, result, self._isolate.declared, others)

    def _never_met(self, played: _Play) -> tuple[str, ...]:
        recorded = ((call.call.tool, call.arguments) for call in played.player.tape.calls)
        steps = [step for step in played.done.answered if step.kind == "call"]
        asked = ((step.name, step.arguments) for step in steps)
        reads = {step.name for step in steps if step.effect in ("pure", "read")}
        return never_met(self._policies, chain(recorded, asked), reads)

    def _baseline_of(self, recorded: Trajectory) -> Replayer | None:
        """The old planner of a run; where the record is to say which, each is kept once opened."""
        if self.options.baseline != RECORDED:
            return self._baseline
        options = self.options.of_baseline()
        planner = recorded_planner(recorded, options.path)
        if planner not in self._baselines:
            opened = self._open.enter_context(Replayer(planner, options))
            self._baselines[planner] = opened
        return self._baselines[planner]

    def _lane(self, recorded: Trajectory, sink: Sink | None) -> Lanes:
        """Replay the old planner on its own record; put the lane to the test where it is sound."""
        played = self._play(recorded, sink)
        run_id = self._finished(recorded, played, Lanes()).run_id
        lane = compare_baseline(
            self.planner_name,
            run_id,
            recorded,
            played.done,
            played.locked,
            out_of_step=played.out_of_step,
        )
        if not lane.sound or self.options.self_test is False:
            return Lanes(lane)
        return Lanes(lane, self._put_to_test(recorded, played, BASELINE))

    def _put_to_test(self, recorded: Trajectory, played: _Play, lane: Lane) -> SelfTest:
        return put_to_test(recorded, played, lambda other: self._play(other, None), lane=lane)

    def _play(self, recorded: Trajectory, sink: Sink | None) -> _Play:
        ready = self._isolate.ready
        deciding = ready.planner["kind"] == "decide"
        check_replayable(recorded, deciding=deciding)
        check_start(recorded, self.options.start, deciding=deciding)
        played, overrides = overridden(recorded, self.options.overrides)
        tape = Tape.of(played)
        check_policies(self._policies, tape)
        if self.options.faults:
            check_faults(self.options.faults, tape, self._isolate.declared)
        player = Player(tape, self._policies)
        scribe = self._scribe(recorded, sink)
        doing = Doing(
            self._workers, self.options.bindings, scribe=scribe, record=recorded, tape=player.tape
        )
        answers = self._answers(player, overrides, doing, deciding=deciding)
        name = ready.planner["name"]
        session = Session(answers, scribe, planner_name=name, span=self._span(played, name))
        try:
            done = session.run(self._isolate, self._request(played, deciding=deciding))
        finally:
            doing.end()
        self._raise_misfit(scribe, done)
        out_of_step = answers.close(ended=done.stopped is None and done.exit.kind == "done")
        locked = answers.locked if self.options.mode == "locked" else ()
        return _Play(player, answers, scribe, done, locked, out_of_step)

    def _scribe(self, recorded: Trajectory, sink: Sink | None) -> Scribe:
        return Scribe(
            sink or NowhereSink(),
            self._redactor,
            clock_ns=recorded.ts_start_ns or 0,
            run_fields={
                "replay_of": recorded.run_id,
                "planner": self.planner_name,
                "task_id": recorded.task_id,
                "tenant": recorded.tenant,
                "tags": recorded.tags,
                "versions": self._versions,
                "attributes": self._redactor.key_attribute_beside(recorded.attributes),
            },
        )

    def _answers(
        self, player: Player, overrides: Mapping[str, Override], doing: Doing, *, deciding: bool
    ) -> FaultyAnswers:
        return FaultyAnswers(
            player,
            mode=self.options.mode,
            model_mode=self.options.model,
            model=self._model,
            deciding=deciding,
            start=self.options.start,
            overrides=overrides,
            faults=self.options.faults,
            doing=doing,
        )

    def _span(self, played: Trajectory, name: str) -> Span:
        start = self.options.start
        opening = partial(write_prefix, record=played, start=start, actor=name)
        return Span(start, self.options.until, opening)

    def _assumed(self, answers: FaultyAnswers, done: SessionResult) -> list[str]:
        """What the verdict rests on beside the record."""
        unserved = set(map(str, answers.unserved.values()))
        assumed = [
            f"{override}, which you set" + (", was never asked for" if text in unserved else "")
            for override in self.options.overrides
            if (text := str(override))
        ]
        if self.options.start > 1:
            assumed.append(f"what was before decision {self.options.start} is from the record")
        if done.reached and done.stopped:
            assumed.append(done.stopped)
        return assumed

    def _raise_misfit(self, scribe: Scribe, done: SessionResult) -> None:
        """A planner that cannot be called, or returns no action, is misuse and no finding."""
        error = (done.exit.result or {}).get("error")
        if error and error["own"]:
            if scribe.root is not None:
                scribe.finish(verdict=f"not evaluated: {error['message']}", fidelity={})
            raise PlannerSignatureError(f"planner {self.planner_name}: {error['message']}")

    def _finished(self, recorded: Trajectory, played: _Play, lanes: Lanes) -> ReplayResult:
        player, scribe, done = played.player, played.scribe, played.done
        at_import = self._import_findings()
        writes = [finding for finding in at_import if finding.kind == "write refused"]
        findings = [*writes, *find(done, recorded, played.locked)]
        locked = played.locked if self.options.mode == "locked" else None
        verdict = judge(done, findings, locked, out_of_step=played.out_of_step)
        verdict = played.answers.weigh_faults(verdict, findings, done)
        verdict = resting(weigh(verdict, lanes), self._assumed(played.answers, done))
        rungs = (step.answer.rung for step in done.answered if step.kind == "call")
        shares: dict[str, int] = dict(Counter(rungs))
        prompts: dict[str, int] = {str(k): n for k, n in player.prompt_shares().items()}
        fidelity: dict[str, JsonValue] = {"calls": dict(shares), "prompts": dict(prompts)}
        fidelity[RECORDING] = digests_of(recorded)
        scribe.finish(verdict=str(verdict), fidelity=fidelity)
        return ReplayResult(
            run_id=scribe.run_id,
            replay_of=recorded.run_id,
            planner=self.planner_name,
            mode=self.options.mode,
            model=self.options.model,
            verdict=verdict,
            level=self._isolate.ready.level,
            walls=self._isolate.ready.walls,
            answered=done.answered,
            shares=shares,
            prompt_shares=prompts,
            missing=player.unconsumed() if self.options.mode == "free" else (),
            findings=(*(f for f in at_import if f not in writes), *findings),
            recorded=recorded,
            session=done,
            exit=done.exit,
            incidental=tuple(getattr(self._isolate, "incidental", ())),
            refused=refused_beside(done),
            locked=played.locked,
            baseline=lanes.baseline,
            self_test=lanes.self_test,
            stopped=done.stopped,
            notes=(*self._isolate.ready.notes, *self._never_met(played)),
        )

    def _import_findings(self) -> list[Finding]:
        """What the planner's modules tried while they were imported, before any run."""
        return [
            of_wall(found, "while it was imported: ")
            for found in self._isolate.ready.findings
            if not found.get("incidental")
        ]

    def _request(self, recorded: Trajectory, *, deciding: bool) -> dict[str, Any]:
        record = recorded.input
        request: dict[str, Any] = {
            "input": {"value": record.value, "types": dict(record.types)},
            "clock_ns": recorded.ts_start_ns or 0,
            "seed": int(digest(recorded.run_id).removeprefix("sha256:")[:12], 16),
            "mints": [[m.kind, m.site, m.occurrence, m.value] for m in recorded.mints],
            "model_script": self.options.model_script,
            "conditions": self.options.conditions,
        }
        if deciding:
            request |= {
                "history": history_before(recorded, self.options.start),
                "tools": tools_of(recorded.tools),
                "script": script_of(recorded),
            }
        return request


def check_replayable(recorded: Trajectory, *, deciding: bool) -> None:
    """Refuse a run that cannot be fed to a planner.

    Raises:
        ReplayNotPossible: its input was not kept.
    """
    if recorded.input.state == "captured" or (deciding and recorded.messages):
        return
    raise ReplayNotPossible(
        f"run {recorded.run_id} cannot be replayed: its input {_WHY_NOT[recorded.input.state]}",
        hint="a run is replayable when its agent is decorated and its arguments can be kept",
    )

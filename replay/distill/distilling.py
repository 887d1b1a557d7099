"""Distills a recorded run: finds the failure, shrinks what shows it, proves it, writes it down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from replay.case import Case
from replay.case.retaken import as_recorded_today
from replay.caserun import CaseResult, CaseRunner
from replay.declared import Declared
from replay.distill.beginning import check_reference, key_of_case, source_of, spec, whole_run
from replay.distill.beside import with_grants
from replay.distill.describing import comments_on, count_parts, extent_of, notes_on, with_short_ids
from replay.distill.doubting import doubts_of
from replay.distill.draft import Draft
from replay.distill.emission import (
    Comments,
    check_folder,
    check_no_secrets,
    render,
    slug,
    write_new,
)
from replay.distill.granting import done_rightly, hint_of_fixed
from replay.distill.interrupting import hearing
from replay.distill.judge import Judge, Target, key_of, offending_call, seen_before, shown_to
from replay.distill.meaning import meaning_of
from replay.distill.options import DistillOptions
from replay.distill.outcome import DistillResult
from replay.distill.passing import passing_script
from replay.distill.proof import check_it_means_something, script_of
from replay.distill.provenance import Flow, flow_into
from replay.distill.reducing import Progress, Reduction, reduce_draft
from replay.distill.remembering import AnswerFile, not_any_more
from replay.distill.sightings import Choice
from replay.distill.sitting import Sitting, at_once, question_of, sitting
from replay.distill.sprt import Noise
from replay.distill.steadiness import RATE_TRIES, proven, steadiness
from replay.oracles import OracleFinding
from replay.replayer import check_replayable
from tracekit import conditions
from tracekit.configuration import store_path
from tracekit.errors import DistillError
from tracekit.store import Store, open_store
from tracekit.trajectory import Trajectory

_TRIES = 5
"""How often the failing planner is run on the whole case, to see whether it always fails."""
_TRIES_LIVE = 2


def distill_run(
    run_id: str,
    *,
    planner: str | object,
    fixed: str | object | None = None,
    failing: Sequence[str] = (),
    reference: str | None = None,
    store: str | Path | Store | None = None,
    options: DistillOptions | None = None,
    progress: Progress | None = None,
) -> DistillResult:
    """Reduce a failing run to the smallest case that still fails for the same reason.

    Args:
        run_id: The recorded run, or an unambiguous prefix of its id.
        planner: The planner that fails.
        fixed: One that does right; without it the case says that the fix is unproven.
        failing: What is wrong, where the options do not say: ``forbid:TOOL``, ``error:CLASS`` …
        reference: A recorded run that went right, where the options do not say what is wrong.
        store: The store, or its path; default ``$TRACEKIT_STORE``, else ``.tracekit``.
        options: Which failure, who answers prompts, how much it may cost, where to write.
        progress: Told of each candidate.

    Raises:
        RunNotFound: there is no such run.
        DistillError: the planner does not fail, only sometimes, or in several ways; or the case
            would prove nothing.
        PlannerError: a planner cannot be loaded or called.
    """
    kept = (
        store if not isinstance(store, (str, Path, type(None))) else open_store(store_path(store))
    )
    chosen = options or DistillOptions()
    if failing:
        chosen = replace(chosen, wish=replace(chosen.wish, failing=tuple(failing)))
    record = kept.trajectory(kept.resolve(run_id))
    right = None if reference is None else kept.trajectory(kept.resolve(reference))
    return distill_record(
        record, planner=planner, fixed=fixed, options=chosen, reference=right, progress=progress
    )


def distill_record(
    record: Trajectory,
    *,
    planner: str | object,
    fixed: str | object | None = None,
    options: DistillOptions | None = None,
    reference: Trajectory | None = None,
    progress: Progress | None = None,
) -> DistillResult:
    """Reduce a run that is at hand; see ``distill_run``."""
    chosen = options or DistillOptions()
    if chosen.out is not None:
        check_folder(chosen.out)
    if reference is not None:
        check_reference(record, reference)
    return _Work(record, planner, fixed, chosen, reference).distilled(progress)


class _Work:
    """One distillation."""

    def __init__(
        self,
        record: Trajectory,
        planner: str | object,
        fixed: str | object | None,
        options: DistillOptions,
        reference: Trajectory | None,
    ) -> None:
        self.record = record
        self.reference = reference
        self.planner = planner
        self.fixed = fixed
        self.options = options
        self.runs = 0
        self.remarks: list[str] = []
        self.doubts: tuple[str, ...] = ()
        self._offending: int | None = None
        self._noise: Noise | None = None

    def distilled(self, progress: Progress | None) -> DistillResult:
        began = conditions.monotonic_ns()
        with ExitStack() as listening:
            with self._runners() as (failing, fixed):
                start, judge = self._begun(failing, fixed)
                heard = listening.enter_context(hearing())
                with self._sitting(start, judge) as beside:
                    reduction = reduce_draft(
                        start,
                        judge,
                        offending=self._offending,
                        budget=self.options.budget,
                        progress=progress,
                        beside=beside,
                        noise=self._noise,
                        heard=heard,
                    )
            self.runs += judge.runs + beside.runs
            self.remarks += reduction.remarks
            told = heard.finished(lambda: self._told(start, reduction, judge, beside.answers))
            seconds = (conditions.monotonic_ns() - began) / 1e9
            with heard.writing():
                told = replace(told, seconds=seconds, asked_to_end=heard.name)
                return self._written(told, comments_on(reduction.best, reduction.proofs, judge))

    def _begun(self, failing: CaseRunner, fixed: CaseRunner | None) -> tuple[Draft, Judge]:
        """Find the failure on the whole run."""
        check_replayable(self.record, deciding=failing.deciding)
        self._redactor, self._ask = failing.redactor, failing.scan if failing.asks else None
        self._recorded = [run for run in (self.record, self.reference) if run is not None]
        start, remarks = whole_run(
            self.record,
            deciding=failing.deciding,
            model=self.options.model,
            script=self.options.script,
            redactor=failing.redactor,
        )
        self.remarks += remarks
        self._before = extent_of(start)
        if self.reference is not None:
            self.reference = as_recorded_today(self.reference, failing.redactor)
        start, judge = self._judge(start, failing, fixed)
        if not judge(start):
            raise DistillError(
                f"the whole run is no case: {judge.notes[key_of(start)]}",
                hint="see what the planners do with: tracekit replay",
            )
        return start, judge

    def _told(
        self, start: Draft, reduction: Reduction, judge: Judge, answers: AnswerFile | None
    ) -> DistillResult:
        """Say what it came to, once the case is shown to be true."""
        final, failure = self._final(reduction, judge, answers)
        return DistillResult(
            case=final,
            text="",
            path=None,
            run_id=self.record.run_id,
            planner=judge.failing.planner_name,
            fixed=judge.fixed.planner_name if judge.fixed else None,
            failure=failure,
            before=self._before,
            after=extent_of(with_grants(reduction.best, judge.target.granted)),
            calls=reduction.calls,
            cached=reduction.cached,
            runs=self.runs,
            seconds=0.0,
            minimal=reduction.stopped is None,
            tried=count_parts(reduction.best, reduction.proofs),
            stopped=reduction.stopped,
            remarks=tuple(dict.fromkeys(self.remarks)),
            doubts=self.doubts,
        )

    def _written(self, told: DistillResult, comments: Comments) -> DistillResult:
        """Write the file, if there is nothing in it that must not be."""
        rules = self._redactor.rules
        text = render(told.case, notes=notes_on(told), comments=comments, rules=rules)
        check_no_secrets(told.case, text, rules=rules, ask=self._ask)
        path = None
        if self.options.out is not None:
            path = write_new(self.options.out, slug(told.case.name), text)
        return replace(told, text=text, path=path)

    @contextmanager
    def _runners(self) -> Iterator[tuple[CaseRunner, CaseRunner | None]]:
        with ExitStack() as stack:
            running = self.options.running
            failing = stack.enter_context(CaseRunner(self.planner, options=running))
            fixed = None
            if self.fixed is not None:
                fixed = stack.enter_context(CaseRunner(self.fixed, options=running))
            yield failing, fixed

    def _sitting(self, start: Draft, judge: Judge) -> AbstractContextManager[Sitting]:
        options = self.options
        asked = (start, judge.target, (self.planner, self.fixed), options.running)
        return sitting(
            judge,
            self._runners,
            workers=at_once(options.workers, options.budget, waiting=bool(self._noise)),
            answers=options.answers,
            question="" if options.answers is None else question_of(*asked),
        )

    # --- before -----------------------------------------------------------------------------------

    def _judge(
        self, start: Draft, failing: CaseRunner, fixed: CaseRunner | None
    ) -> tuple[Draft, Judge]:
        """Find out which failure is meant, and that it always happens."""
        meant = meaning_of(
            self.record,
            start,
            self.options.wish,
            failing=failing,
            fixed=fixed,
            reference=self.reference,
            run=self._run,
            tries=RATE_TRIES if self.options.flaky else 1,
        )
        choice, right, start, case = meant.choice, meant.right, meant.start, meant.case
        if meant.others and not self.options.wish.says_something:
            names = ", ".join(other.name for other in meant.others)
            self.remarks.append(f"also seen, for a case of its own with --signature: {names}")
        full, found = self._steady(failing, start, case, choice)
        passed = self._passing(fixed, case) if fixed else None
        flow, lacking = self._flow(start, choice, full, found)
        if right is not None:
            flow = replace(flow, carriers=flow.carriers & set(right.consumed))
        target = Target(
            reason=found.signature,
            expected=meant.expected,
            flow=flow,
            place=found.place,
            unanswered=frozenset(s.name for one in (full, right) if one for s in one.unmatched),
            consumes=bool(seen_before(full, found)) and not lacking,
            lacking=lacking,
            granted=meant.granted,
        )
        if fixed is None:
            start, target = done_rightly(start, target, choice, full, found, meant.shared)
        judge = Judge(failing, fixed, target)
        judge.know(failing, full)
        if fixed is not None and passed is not None:
            judge.know(fixed, passed)
        return start, judge

    def _flow(
        self, start: Draft, choice: Choice, full: CaseResult, found: OracleFinding
    ) -> tuple[Flow, tuple[str, ...]]:
        """What flowed into the offending call, or would have into the one that was not made."""
        if choice.lacking is not None and self.fixed is None:
            flow = flow_into(choice.lacking.tool, choice.lacking.arguments, start)
            shown = shown_to(full)
            return replace(flow, pinned={}, parts={}), tuple(v for v in flow.values if v in shown)
        call = offending_call(full, found)
        if call is None:
            return Flow(found.tool or ""), ()
        self._offending = call.decision
        return flow_into(call.tool, call.arguments, start), ()

    def _steady(
        self, failing: CaseRunner, start: Draft, case: Case, choice: Choice
    ) -> tuple[CaseResult, OracleFinding]:
        """Run the planner several times on the whole case."""
        tries = _TRIES_LIVE if self.options.model == "live" else _TRIES
        more = RATE_TRIES - tries if self.options.model != "live" or self.options.flaky else 0
        nothing = start.nothing.case.model_copy(update={"expected": case.expected})
        steady = steadiness(
            lambda: self._run(failing, case),
            choice,
            empty=lambda: self._run(failing, nothing),
            tries=tries,
            more=more,
            flaky=self.options.flaky,
        )
        self._noise = steady.noise
        self.remarks += [steady.remark] if steady.remark else []
        return steady.result, steady.found

    def _passing(self, fixed: CaseRunner, case: Case) -> CaseResult:
        """Run the fixed planner twice on the whole case; it has to pass."""
        for _ in range(_TRIES_LIVE):
            seen = self._run(fixed, case)
            if not seen.passed:
                raise DistillError(
                    f"{fixed.planner_name} does not pass the whole run either: {seen.verdict}",
                    hint=hint_of_fixed(seen),
                )
        return seen

    def _run(self, runner: CaseRunner, case: Case) -> CaseResult:
        self.runs += 1
        return runner.run(case)

    # --- after ------------------------------------------------------------------------------------

    def _final(
        self, reduction: Reduction, judge: Judge, answers: AnswerFile | None
    ) -> tuple[Case, str]:
        """Fill in what the case says of itself, and show in fresh processes that it is true."""
        best, minimal = reduction.best, reduction.stopped is None
        target = judge.target
        short, ids = with_short_ids(with_grants(best, target.granted))
        consumed = tuple(ids[name] for name in judge.consumed[key_of(best)])
        expected = target.expected.model_copy(update={"consumed": consumed})
        case = self._described(
            short.but(expected=expected), target, judge.failing.declared, minimal=minimal
        )
        with self._runners() as (failing, fixed):
            seen, found, rate = proven(
                lambda: self._run(failing, case),
                target.found_in,
                sometimes=bool(self._noise),
                answers=answers,
            )
            right = self._run(fixed, case) if fixed else None
        if right is not None and not right.passed:
            raise not_any_more(f"{right.planner} does not pass any more: {right.verdict}", answers)
        green = passing_script(seen, found)
        scripts = [script_of(seen), green if right is None else script_of(right)]
        known = check_it_means_something(
            seen, self.options.replay, green=None if right else green, scripts=scripts
        )
        self.remarks += [known] if known else []
        if right is None:
            deciding = judge.failing.deciding
            told = doubts_of(seen, self.options.replay, self.reference, deciding=deciding)
            self.doubts = tuple(told)
            case = case.model_copy(update={"passes": green})
        return case.model_copy(update={"rate": rate}), found.text

    def _described(self, best: Draft, target: Target, declared: Declared, *, minimal: bool) -> Case:
        failing = spec(self.planner)
        subject = self.record.task_id or self.record.agent
        reason = target.reason
        name = self.options.name or slug(subject, reason.tool or reason.error or reason.oracle)
        key = key_of_case(best.case, self._recorded, self._redactor)
        fields = {
            "name": name,
            "source": source_of(
                self.record, best.case, planner=failing, declared=declared, key=key
            ),
            # Whoever runs the case without naming a planner wants it green once the fix is in.
            "planner": spec(self.fixed) if self.fixed is not None else failing,
            "reason": reason,
            "fix": "proven" if self.fixed is not None else "unproven",
            "minimal": minimal,
        }
        data = best.case.model_copy(update=fields).as_data()
        return Case.model_validate(data)

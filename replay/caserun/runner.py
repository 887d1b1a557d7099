"""Runs a planner on a case and says what that proves.

The case stands for the world: it answers the calls, the model and the clock, and nothing else is
there. Everything runs through the same session and behind the same walls as a replay.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Self

from replay.case import Case, ModelScript, Reason
from replay.case.expected import patterns
from replay.case.remembering import RememberingTagger
from replay.case.retaken import with_values
from replay.case.today import as_of_today
from replay.caserun.answers import CaseAnswers
from replay.caserun.hidden import hidden_by_redaction, of_another_key
from replay.caserun.invariants import ask_invariants
from replay.declared import Declared
from replay.isolation import OUTSIDE, Exit
from replay.models import LiveModel, Model
from replay.oracles import OracleFinding, Outcome, evaluate, unevaluated
from replay.oracles.outcome import Raised
from replay.replayer import ReplayOptions, isolate, name_of
from replay.result import Verdict
from replay.ruling import with_told
from replay.scribe import Scribe
from replay.session import Answered, Session, SessionResult
from replay.tape_answers import prompt_text, tools_of
from tracekit.canonical import JsonValue
from tracekit.errors import DistillError, UsageError
from tracekit.redact import Redactor
from tracekit.settings import redaction_rules
from tracekit.sink import NowhereSink
from tracekit.trajectory import Trajectory

START = datetime(2026, 1, 1, tzinfo=UTC)
"""When a planner begins whose case does not say."""
NOT_RECORDED = "NotRecorded"
"""What a decorated tool raises for a call that the case does not answer."""
NOT_REPLAYABLE = "NotReplayable"
"""What it raises for an observation that is not what its types say: the case's fault."""


@dataclass(frozen=True)
class CaseResult:
    """What one run of a planner on a case came to."""

    case: Case
    planner: str
    verdict: Verdict
    findings: tuple[OracleFinding, ...]
    """What speaks against the planner."""
    consumed: tuple[str, ...]
    """Ids of the observations that it was given, in order."""
    answered: tuple[Answered, ...]
    """All calls and prompts, in the order of asking."""
    exit: Exit = field(repr=False)
    stopped: str | None = None
    """Why the run was ended from our side."""
    trajectory: Trajectory | None = field(default=None, repr=False)

    @property
    def passed(self) -> bool:
        """Whether the verdict is ``pass``."""
        return self.verdict.kind == "pass"

    @property
    def unmatched(self) -> tuple[Answered, ...]:
        """Calls that the case has no observation for."""
        return tuple(a for a in self.answered if a.kind == "call" and a.answer.rung == "error")

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON."""
        return {
            "case": self.case.name,
            "planner": self.planner,
            "verdict": self.verdict.kind,
            "reasons": list(self.verdict.reasons),
            "findings": [finding.as_dict() for finding in self.findings],
            "consumed": list(self.consumed),
            "steps": [
                {
                    "kind": step.kind,
                    "name": step.name,
                    "arguments": step.arguments if step.kind == "call" else None,
                    "observation": step.answer.recorded,
                }
                for step in self.answered
            ],
            "answer": self.trajectory.answer.value if self.trajectory else None,
        }


def run_case(
    case: Case,
    planner: str | object | None = None,
    *,
    options: ReplayOptions | None = None,
    runner: CaseRunner | None = None,
) -> CaseResult:
    """Run one planner on one case; nothing is stored.

    Args:
        case: The case.
        planner: ``MOD:OBJ``, or the planner itself; the case's own by default.
        options: Isolation, limits, and a model to use instead of the case's.
        runner: A planner that stands ready; ``planner`` and ``options`` are its own then.

    Raises:
        UsageError: no planner is named.
        PlannerError: the planner cannot be loaded.
        IsolationUnavailable: more isolation was asked for than there is.
    """
    if runner is not None:
        return runner.run(case)
    wanted = planner if planner is not None else case.planner
    if wanted is None:
        raise UsageError(
            f"case {case.name!r} names no planner", hint="name one with --planner MOD:OBJ"
        )
    with CaseRunner(wanted, options=options) as ready:
        return ready.run(case)


class CaseRunner:
    """One planner behind its walls, ready for any number of cases; a context manager."""

    def __init__(self, planner: str | object, *, options: ReplayOptions | None = None) -> None:
        self.options = options or ReplayOptions()
        self.planner_name = planner if isinstance(planner, str) else name_of(planner)
        self._isolate = isolate(planner, self.options)
        self._model: Model | None = None
        self._tagger = RememberingTagger.of_user()
        self.redactor = Redactor(redaction_rules(), self._tagger)
        """Takes out of what the planner says what the rules of today take, its own code's too."""
        self.asks = False
        """Whether its code has functions as rules: those do not leave its process."""

    def __enter__(self) -> Self:
        """Put the walls up and import the planner; see ``run_case`` for what it raises."""
        self._isolate.__enter__()
        told = self._isolate.ready.planner["redact"]
        self.redactor = Redactor(with_told(redaction_rules(), told), self._tagger)
        self.asks = bool(told["functions"])
        return self

    def __exit__(self, *reason: Any) -> None:
        """End the planner's process."""
        self._isolate.__exit__(*reason)

    @property
    def deciding(self) -> bool:
        """Whether the planner decides on a history, and is not the agent itself."""
        return bool(self._isolate.ready.planner["kind"] == "decide")

    @property
    def declared(self) -> Declared:
        """What the planner's code declares."""
        return Declared(**self._isolate.declared)

    def run(self, case: Case) -> CaseResult:
        """Run the planner on one case, in a process of its own."""
        self._tagger.forget()
        model = self._model_of(case)
        try:
            live = self._live_model() if model == "live" else None
        except UsageError as error:
            return self._not_run(case, f"needs a live model: {error.message}")
        answers = CaseAnswers(
            case,
            model=model,
            live=live,
            deciding=self.deciding,
            redact=self._redact,
        )
        scribe = Scribe(
            NowhereSink(),
            self.redactor,
            clock_ns=_clock_ns(case),
            run_fields={
                "planner": self.planner_name,
                "task_id": case.name,
                "tenant": case.identity.get("tenant"),
                "operator": case.identity.get("operator"),
            },
        )
        session = Session(answers, scribe, planner_name=self._isolate.ready.planner["name"])
        done = session.run(self._isolate, self._request(case, model))
        return self._judged(case, answers, done)

    def scan(self, values: Sequence[JsonValue]) -> list[bool]:
        """Say of each value whether a function of the planner's code finds a secret in it.

        Its process is begun for that, so this runner is not in use.

        Raises:
            DistillError: nobody knows, since its process did not say.
        """
        with self._isolate:
            done = self._isolate.run({"scan": list(values)}, lambda message: None)
        found = (done.result or {}).get("found")
        if not isinstance(found, list):
            raise DistillError(
                f"the functions that {self.planner_name} redacts with could not be asked: "
                f"{done.detail or done.kind}"
            )
        return [bool(one) for one in found]

    def _redact(self, value: JsonValue) -> JsonValue:
        return self.redactor.redact(value).value

    def _model_of(self, case: Case) -> str | ModelScript | None:
        """Who answers prompts: whom the user chose, else whom the case names."""
        if self.options.model == "live":
            return "live"
        if self.options.model_script is not None:
            return ModelScript(script=self.options.model_script)
        return case.model

    def _live_model(self) -> Model:
        if self._model is None:
            self._model = LiveModel()
        return self._model

    def _request(self, case: Case, model: str | ModelScript | None) -> dict[str, Any]:
        value = {} if case.input is None else case.input
        request: dict[str, Any] = {
            "input": {"value": value, "types": dict(case.input_types)},
            "clock_ns": _clock_ns(case),
            "seed": case.seed or 0,
            "mints": [[m.kind, m.site, m.occurrence, m.value] for m in case.minted],
            "model_script": model.script if isinstance(model, ModelScript) else None,
        }
        if self.deciding:
            request |= {
                "history": _history(case),
                "tools": tools_of(case.tools),
                "script": [d.model_dump(mode="json") for d in case.script],
            }
        return request

    def _judged(self, case: Case, answers: CaseAnswers, done: SessionResult) -> CaseResult:
        outcome, reason = self._outcome(case, answers, done)
        clean = self.redactor.redact_text
        reason = answers.unknown or reason or _keyless(case, outcome)
        reason = reason or of_another_key(case, self._tagger)
        hidden = hidden_by_redaction(
            case, outcome, self._tagger, self.redactor, path=self.options.path
        )
        found = self._found(case, outcome)
        # They quote what the planner raised and asked for, which no recorder has seen.
        findings = tuple(
            replace(one, text=clean(one.text), error=one.error and clean(one.error))
            for one in found
            if one.signature not in hidden
        )
        undecided = next((one.text for one in findings if one.undecided), None)
        findings = tuple(one for one in findings if not one.undecided)
        reason = reason or _taken(hidden) or undecided
        verdict = _verdict(case, findings, reason, answers.given)
        verdict = replace(verdict, reasons=tuple(clean(why) for why in verdict.reasons))
        return CaseResult(
            case=case,
            planner=self.planner_name,
            verdict=verdict,
            findings=findings,
            consumed=tuple(answers.given),
            answered=tuple(self._clean(step) for step in done.answered),
            exit=done.exit,
            stopped=None if done.endless else done.stopped,
            trajectory=done.trajectory,
        )

    def _found(self, case: Case, outcome: Outcome) -> tuple[OracleFinding, ...]:
        expected = as_of_today(case.expected, self._redact)
        if expected.evidence != case.expected.evidence and outcome.trajectory is not None:
            shown = with_values(outcome.trajectory, self._redact)
            outcome = replace(outcome, trajectory=shown)
        return evaluate(expected, case.budgets, outcome)

    def _clean(self, step: Answered) -> Answered:
        if step.kind != "call":
            return step
        return replace(step, arguments=self.redactor.redact(step.arguments).value)

    def _outcome(
        self, case: Case, answers: CaseAnswers, done: SessionResult
    ) -> tuple[Outcome, str | None]:
        """What oracles look at, and why the run cannot be judged in full, if so."""
        raised, looped, reason = _ending(done)
        complete = reason is None and raised is None and not looped
        said: Mapping[str, str | None] = {}
        if complete and done.trajectory is not None and case.expected.invariants:
            said, reason = ask_invariants(
                case, done.trajectory, path=self.options.path, clean=self.redactor.redact_text
            )
        outcome = Outcome(
            trajectory=done.trajectory,
            complete=complete,
            raised=raised,
            refused=tuple(
                (str(found["kind"]), str(found["what"]))
                for found in done.findings
                if not found.get("incidental")
            ),
            looped=looped,
            elapsed_s=answers.delay_ns / 1e9,
            invariants=said,
        )
        return outcome, reason

    def _not_run(self, case: Case, why: str) -> CaseResult:
        return CaseResult(
            case=case,
            planner=self.planner_name,
            verdict=Verdict("inconclusive", (why,)),
            findings=(),
            consumed=(),
            answered=(),
            exit=Exit("done", why),
            stopped=why,
        )


def _ending(done: SessionResult) -> tuple[Raised | None, bool, str | None]:
    """Say what the planner raised, whether it never stopped, and what kept it from its own end."""
    if done.endless:
        return None, True, None
    if done.stopped is not None:
        return None, False, done.stopped
    if done.exit.kind in OUTSIDE:
        return None, False, done.exit.detail
    if done.exit.kind != "done":
        return Raised(done.exit.kind, done.exit.detail), False, None
    error = (done.exit.result or {}).get("error")
    if not error:
        return None, False, done.unfinished
    if error["own"] or error["type"] == NOT_REPLAYABLE:
        return None, False, "; ".join(map(str.strip, error["message"].splitlines()))
    if error["type"] == NOT_RECORDED:
        return None, False, f"the planner cannot go on without an answer: {error['message']}"
    return Raised(error["type"], error["message"], error.get("place")), False, None


def _verdict(
    case: Case, findings: tuple[OracleFinding, ...], reason: str | None, given: list[str]
) -> Verdict:
    if findings:
        return Verdict("fail", tuple(finding.text for finding in findings))
    if reason is not None:
        return Verdict("inconclusive", (reason,))
    missed = unevaluated(case.expected.consumed, tuple(given))
    if missed:
        tools = {f.id: f.tool for f in case.observations}
        names = ", ".join(f"{name} ({tools[name]})" for name in missed)
        return Verdict("not evaluated", (f"the planner was never given {names}",))
    return Verdict("pass")


def _keyless(case: Case, outcome: Outcome) -> str | None:
    """Say of which tool it cannot be told what the keys of its calls say, if the case asks."""
    expected, keys = case.expected, outcome.keys
    for pattern in patterns((*expected.forbidden_tools, *expected.required_tools)):
        called = any(call.tool == pattern.tool for call in outcome.calls)
        if pattern.key is not None and called and not keys.count(pattern.tool):
            return (
                f"{pattern.tool} declares no idempotency_field, so it cannot be told whether its "
                "calls carry the same key"
            )
    return None


def _taken(hidden: Collection[Reason]) -> str | None:
    """Say what cannot be judged since redaction took the values that it is about, if anything."""
    if not hidden:
        return None
    names = ", ".join(sorted({f"expected.{one.oracle}" for one in hidden}))
    return (
        f"redaction took values that {names} looks at, and what it says of them is not what it "
        "says of their placeholders"
    )


def _history(case: Case) -> list[JsonValue]:
    if not case.history:
        return [{"role": "user", "content": prompt_text(case.input)}]
    return [
        {"content": said.content, **said.model_dump(mode="json", exclude_defaults=True)}
        for said in case.history
    ]


def _clock_ns(case: Case) -> int:
    return int((case.clock or START).timestamp() * 1e9)

"""Shadow: on live input a planner plans and the guard judges; nothing executes.

There is no record to answer from. Each call is checked against its contract and put before the
guard of production, and the report lists what would have been done. The planner is told that its
call was not executed, unless the user binds a simulation to the tool or lists a read as live.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from replay.aimed import check_live, check_names, known_tools
from replay.answering import PromptAnswer, Stopped, Turn
from replay.doing import Doing, Judgement
from replay.isolation import Exit, InProcess, Isolate, Level, Limits, Wall
from replay.matching import Answer, AskedCall, AskedPrompt, Policies, refusal
from replay.matching.question import nature_of
from replay.matching.unmatched import ERROR_TYPE
from replay.matching.validating import find_fault
from replay.models import LiveModel, Model, ModelUnavailable
from replay.placing import importable, isolate, name_of
from replay.scribe import Scribe
from replay.session import Session, SessionResult
from replay.tape import Tape
from replay.tape_answers import history_of, tools_of
from replay.workers import Bindings, Kind, Worker, make_workers
from tracekit import conditions
from tracekit.canonical import JsonValue, digest
from tracekit.configuration import store_path
from tracekit.contract import Contract
from tracekit.errors import NotRecorded, PlannerSignatureError, UsageError
from tracekit.journal import Journal
from tracekit.redact import KeyedTagger, Redactor, load_key
from tracekit.settings import redaction_rules
from tracekit.sink import Sink
from tracekit.store import Store, open_store
from tracekit.store.places import journal_folder
from tracekit.trajectory import Observation, Trajectory

FORMAT = "tracekit/shadow/v1"
NO_MODEL = "the planner asks a model, and there is none in this shadow run"
_RUNS: tuple[Kind, ...] = ("simulate", "live")

ShadowModel = Literal["none", "live", "scripted"]
Would = Literal["run", "be refused", "fail"]


@dataclass(frozen=True)
class ShadowOptions:
    """How a planner is put in the shadow of production."""

    model: ShadowModel = "none"
    model_script: str | None = None
    bindings: Bindings = field(default_factory=Bindings)
    isolation: Level | None = None
    limits: Limits = field(default_factory=Limits)
    environment: Mapping[str, str] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    like: str | None = None
    """A recorded run whose tools, tenant and operator are taken over."""

    def __post_init__(self) -> None:
        if (self.model == "scripted") != (self.model_script is not None):
            raise UsageError("--model scripted and --script MOD:OBJ go together")
        if self.bindings.functions.get("sandbox"):
            raise UsageError("nothing is written in shadow mode, not even in a sandbox")


@dataclass(frozen=True, slots=True)
class PlannedCall:
    """One call that a planner would have made."""

    tool: str
    arguments: JsonValue
    effect: str
    would: Would
    decision: str
    """What the guard said: allow, deny, ask …"""
    rule: str | None
    reason: str | None
    answered: str
    """How the planner was answered: not executed, simulate or live."""


@dataclass(frozen=True)
class ShadowResult:
    """What a planner would have done."""

    run_id: str
    planner: str
    level: Level
    walls: tuple[Wall, ...]
    calls: tuple[PlannedCall, ...]
    refused: tuple[str, ...]
    """What the walls refused."""
    answer: JsonValue
    stopped: str | None
    exit: Exit = field(repr=False)

    @property
    def found(self) -> bool:
        """Whether there is a finding: the guard or a wall refused something."""
        return bool(self.refused) or any(call.would == "be refused" for call in self.calls)

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON; ``format`` names the version of its shape."""
        return {
            "format": FORMAT,
            "run_id": self.run_id,
            "planner": self.planner,
            "isolation": self.level,
            "calls": [
                {
                    "tool": call.tool,
                    "arguments": call.arguments,
                    "effect": call.effect,
                    "would": call.would,
                    "decision": call.decision,
                    "rule": call.rule,
                    "reason": call.reason,
                    "answered": call.answered,
                }
                for call in self.calls
            ],
            "refused": list(self.refused),
            "answer": self.answer,
            "stopped": self.stopped,
            "exit": self.exit.kind,
            "detail": self.exit.detail,
        }


def shadow_run(
    given: JsonValue,
    *,
    planner: str | Callable[..., Any] | object,
    store: str | Path | Store | None = None,
    options: ShadowOptions | None = None,
) -> ShadowResult:
    """Let a planner plan on live input; nothing executes.

    Args:
        given: The input: an object of arguments, or the only argument.
        planner: As for ``replay_run``.
        store: Where the shadow run is recorded; made if it is not there.
        options: How.

    Raises:
        PlannerError: the planner cannot be loaded or called.
        RunNotFound: there is no run to be like.
        IsolationUnavailable: more isolation was asked for than there is.
    """
    chosen = options or ShadowOptions()
    if isinstance(store, (str, Path, type(None))):
        store = open_store(store_path(store), create=True)
    like = None if chosen.like is None else store.trajectory(store.resolve(chosen.like))
    with ExitStack() as opened:
        workers = _workers(planner, chosen)
        for worker in workers.values():
            opened.enter_context(worker)
        check_live(workers)
        place = isolate(planner, chosen)
        opened.enter_context(place)
        journal = Journal(journal_folder(store.path))
        opened.callback(journal.close)
        scene = _scene(given, place.ready.planner, like)
        result = _Shadow(planner, place, workers, chosen).run(scene, journal)
        called = (call.tool for call in result.calls)
        known = known_tools(scene.tools, called, place.declared)
        check_names(Policies(), chosen.bindings, known)
        return result


def _workers(planner: str | object, options: ShadowOptions) -> dict[Kind, Worker]:
    return make_workers(
        options.bindings,
        planner=planner if isinstance(planner, str) else importable(planner),
        level=options.isolation,
        limits=options.limits,
        env=options.environment,
        path=options.path,
    )


class _Shadow:
    """One planner behind its walls, and what may run beside it."""

    def __init__(
        self,
        planner: str | object,
        place: Isolate | InProcess,
        workers: Mapping[Kind, Worker],
        options: ShadowOptions,
    ) -> None:
        self._name = planner if isinstance(planner, str) else name_of(planner)
        self._place = place
        self._workers = workers
        self._options = options

    def run(self, scene: Trajectory, journal: Sink) -> ShadowResult:
        """Let the planner plan once."""
        told = self._place.ready.planner
        redactor = Redactor(redaction_rules(), KeyedTagger(load_key()))
        said: dict[str, Any] = {"planner": self._name, "tags": ("shadow",), "tenant": scene.tenant}
        said["attributes"] = redactor.key_attribute_beside(scene.attributes)
        scribe = Scribe(journal, redactor, clock_ns=scene.ts_start_ns or 0, run_fields=said)
        tape = Tape.of(scene)
        doing = Doing(self._workers, self._options.bindings, scribe=scribe, record=scene, tape=tape)
        answers = ShadowAnswers(scene, tape, doing, self._options)
        session = Session(answers, scribe, planner_name=told["name"])
        try:
            done = session.run(self._place, _request(scene, self._options, told))
        finally:
            doing.end()
        return self._finished(scribe, answers, done)

    def _finished(
        self, scribe: Scribe, answers: ShadowAnswers, done: SessionResult
    ) -> ShadowResult:
        error = (done.exit.result or {}).get("error")
        told: dict[str, JsonValue] = dict(Counter(call.would for call in answers.planned))
        scribe.finish(verdict="shadow", fidelity={"calls": told})
        if error and error["own"]:
            raise PlannerSignatureError(f"planner {self._name}: {error['message']}")
        refused = [f"{f['kind']}: {f['what']}" for f in done.findings if not f.get("incidental")]
        failed = f"the planner raised {error['type']}: {error['message']}" if error else None
        if error and error["type"] == NotRecorded.__name__:
            failed = f"{failed}; --simulate or --live lets it go on"
        ended = done.exit.detail if done.exit.kind != "done" else None
        ended = ended or done.unfinished
        return ShadowResult(
            run_id=scribe.run_id,
            planner=self._name,
            level=self._place.ready.level,
            walls=self._place.ready.walls,
            calls=tuple(answers.planned),
            refused=tuple(refused),
            answer=done.trajectory.answer.value if done.trajectory and not error else None,
            stopped=done.stopped or failed or ended,
            exit=done.exit,
        )


def _scene(given: JsonValue, planner: Mapping[str, Any], like: Trajectory | None) -> Trajectory:
    """Make the run that is about to happen, as a record without decisions."""
    parameters = planner["parameters"]
    if planner["kind"] != "decide" and not isinstance(given, dict) and parameters:
        given = {parameters[0]: given}
    return Trajectory(
        run_id="",
        agent=planner["name"],
        input=Observation(given, "captured"),
        decisions=(),
        answer=Observation(),
        status="open",
        tools=() if like is None else like.tools,
        ts_start_ns=conditions.now_ns(),
        tenant=None if like is None else like.tenant,
        operator=None if like is None else like.operator,
    )


def _request(
    scene: Trajectory, options: ShadowOptions, planner: Mapping[str, Any]
) -> dict[str, Any]:
    request: dict[str, Any] = {
        "input": {"value": scene.input.value, "types": {}},
        "clock_ns": scene.ts_start_ns,
        "seed": int(digest(scene.ts_start_ns).removeprefix("sha256:")[:12], 16),
        "mints": [],
        "model_script": options.model_script,
        "conditions": "real",
    }
    if planner["kind"] == "decide":
        request |= {"history": history_of(scene), "tools": tools_of(scene.tools), "script": []}
    return request


class ShadowAnswers:
    """Answers a planner that is not to do anything."""

    def __init__(self, scene: Trajectory, tape: Tape, doing: Doing, options: ShadowOptions) -> None:
        self.planned: list[PlannedCall] = []
        self._tape = tape
        self._doing = doing
        self._options = options
        self._model: Model | None = LiveModel() if options.model == "live" else None
        self._contracts = {contract.name: contract for contract in scene.tools}
        self._columns: dict[int, tuple[Answer, Judgement]] = {}

    def call(self, asked: AskedCall) -> Answer:
        """Judge a call, and answer that it was not executed, unless it may be answered for."""
        like = self._contracts.get(asked.tool)
        if like is not None and nature_of(asked.effect, like.effect) == "write":
            asked = replace(asked, effect="unknown" if asked.effect == "unknown" else "write")
        contract = asked.contract or like
        fault = find_fault(asked.tool, asked.arguments, contract, self._tape)
        if fault is not None:
            self._plan(asked, "fail", Judgement("deny", reason=fault.text), "not executed")
            return Answer("invalid", fault.observation, tainted=True, explanation=fault.text)
        judged = self._doing.judge(asked, key=None, equal=None)
        if not judged.allowed:
            rule, reason = judged.rule or "the guard", judged.reason or judged.decision
            self._plan(asked, "be refused", judged, "not executed")
            seen = refusal(asked.tool, rule=rule, reason=reason)
            return self._kept(Answer("error", seen, tainted=True, explanation=reason), judged)
        answer = self._answer(asked)
        how = answer.rung if answer.rung in _RUNS else "not executed"
        self._plan(asked, "run", judged, how)
        return self._kept(answer, judged)

    def _answer(self, asked: AskedCall) -> Answer:
        for kind in _RUNS:
            may = kind != "live" or asked.effect in ("pure", "read")
            if may and self._options.bindings.of(kind, asked.tool) is not None:
                text = f"{asked.tool}: not executed"
                made = self._doing.run(asked, Answer(kind, None, tainted=True, explanation=text))
                if made.rung == kind:
                    return made
        return Answer("error", not_executed(asked.tool), tainted=True, explanation="not executed")

    def _plan(self, asked: AskedCall, would: Would, judged: Judgement, answered: str) -> None:
        what = (asked.tool, dict(asked.arguments), asked.effect)
        said = (judged.decision, judged.rule, judged.reason)
        self.planned.append(PlannedCall(*what, would, *said, answered))

    def _kept(self, answer: Answer, judged: Judgement) -> Answer:
        self._columns[id(answer)] = (answer, judged)
        return answer

    def patience(self, answer: Answer) -> Mapping[str, Any]:
        """Nothing was cancelled before."""
        return {}

    def outwaited(self, asked: AskedCall, answer: Answer) -> Answer:
        """Nothing waits here to be cancelled."""
        return answer

    def policy(self, answer: Answer) -> Mapping[str, Any]:
        """What the guard said, as columns of the call's event."""
        if id(answer) not in self._columns:
            return {}
        judged = self._columns[id(answer)][1]
        told = {"policy_id": judged.rule, "policy_reason": judged.reason}
        return {"policy_decision": judged.decision, **told}

    def prompt(self, asked: AskedPrompt, *, provider: str | None) -> PromptAnswer:
        """Have the model asked that the user chose."""
        if self._options.model == "scripted":
            return PromptAnswer("script", Answer("simulate", None))
        if self._model is None:
            raise Stopped(f"{NO_MODEL}; --model live or scripted gives it one")
        if provider is None or not isinstance(asked.prompt, dict):
            return PromptAnswer("execute", Answer("live", None))
        try:
            return PromptAnswer("answer", Answer("live", self._model.complete(asked.prompt)))
        except ModelUnavailable as error:
            raise Stopped(f"the model could not be asked: {error}") from error

    def contract(self, tool: str) -> Contract | None:
        """What the run that this one is like says of ``tool``."""
        return self._contracts.get(tool)

    def note_mint(self, kind: str, site: str, occurrence: int, value: JsonValue) -> None:
        """Nothing is compared."""

    def latency_ns(self, answer: Answer) -> int:
        """Nothing took any time that is known."""
        return 0

    def begin_decision(self, number: int) -> None:
        """Nothing is locked."""

    def next_history(self, decision: Mapping[str, Any], number: int) -> list[JsonValue] | None:
        """Nothing is locked."""
        return None

    def user_turn(self, said: JsonValue, number: int, *, final: bool) -> Turn | None:
        """The user says nothing more."""
        return None


def not_executed(tool: str) -> Observation:
    """Make what a planner sees of a call that was only planned."""
    message = f"{tool}: not executed, this is a shadow run"
    return Observation(
        value={"error": "not_executed", "tool": tool, "message": message},
        state="captured",
        is_error=True,
        error_type=ERROR_TYPE,
        error_message=message,
    )

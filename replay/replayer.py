"""Replays recorded runs: the observations of the record, a new planner, and nothing executed.

What must not happen is arranged before anything runs: the run is loaded whole, the policies are
checked, the walls stand and have proved themselves; only then is the planner's code imported, and
it gets nothing but answers from the parent.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from replay.answering import Span
from replay.arranged import ArrangedAnswers
from replay.experiment import Override, overridden
from replay.identity import versions_of
from replay.isolation import InProcess, Isolate, Level, Limits
from replay.matching import Player, Policies
from replay.models import LiveModel, Model
from replay.planner import describe
from replay.prefix import check_span, check_start, history_before, write_prefix
from replay.result import Finding, ReplayResult
from replay.scribe import Scribe
from replay.session import Session, SessionResult
from replay.tape import Tape
from replay.tape_answers import (
    MODEL_MODES,
    MODES,
    Mode,
    ModelMode,
    script_of,
    tools_of,
)
from replay.verdict import find, judge, resting
from tracekit.canonical import JsonValue, digest
from tracekit.configuration import store_path
from tracekit.decorators import MARK
from tracekit.errors import PlannerSignatureError, ReplayNotPossible, UsageError
from tracekit.journal import Journal
from tracekit.redact import KeyedTagger, Redactor, load_key
from tracekit.settings import REDACT, redaction_rules
from tracekit.sink import MemorySink, Sink
from tracekit.store import Store, open_store
from tracekit.store.places import journal_folder
from tracekit.trajectory import Trajectory

_DUMMY_ENVIRONMENT = {"OPENAI_API_KEY": "not-needed-in-a-replay"}
"""Clients insist on a key when they are made; no request of theirs ever leaves the process."""


Conditions = Literal["fixed", "real"]
CONDITIONS: tuple[Conditions, ...] = ("fixed", "real")
_WHY_NOT: Mapping[str, str] = {
    "absent": "was not recorded",
    "redacted": "was taken out by redaction",
    "reference": "is kept only as a digest, or is missing from the store",
    "truncated": "was described or cut, not kept whole",
}


@dataclass(frozen=True)
class ReplayOptions:
    """How a run is replayed."""

    mode: Mode = "free"
    model: ModelMode = "recorded"
    model_script: str | None = None
    """``MOD:OBJ`` of a function from the request to the reply; for ``scripted``."""
    policies: Policies = field(default_factory=Policies)
    isolation: Level | None = None
    """None takes the strongest that can stand here."""
    limits: Limits = field(default_factory=Limits)
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that the planner's process gets beside the few that pass by themselves."""
    conditions: Conditions = "fixed"
    """Clock, ids and chance of code that does not ask ``tracekit.conditions``: made, or real."""
    overrides: tuple[Override, ...] = ()
    """Observations of the record that are to be others."""
    start: int = 1
    """The first decision that is the planner's own; what was before is taken from the record."""
    until: int | None = None
    """The last decision to be made; None for the planner's own end."""
    path: tuple[str, ...] = ()
    """Folders to look for the planner's modules in, before this process's own."""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UsageError(f"mode {self.mode!r} is not known", hint=f"one of {', '.join(MODES)}")
        if self.model not in MODEL_MODES:
            raise UsageError(
                f"model {self.model!r} is not known", hint=f"one of {', '.join(MODEL_MODES)}"
            )
        if self.conditions not in CONDITIONS:
            raise UsageError(
                f"conditions {self.conditions!r} are not known",
                hint=f"one of {', '.join(CONDITIONS)}",
            )
        if (self.model == "scripted") != (self.model_script is not None):
            raise UsageError("--model scripted and --script MOD:OBJ go together")
        check_span(self.start, self.until)
        if self.start > 1 and self.mode == "locked":
            raise UsageError("--from is for --mode free: a locked planner never leaves the record")


def replay_run(
    run_id: str,
    *,
    planner: str | Callable[..., Any] | object,
    store: str | Path | Store | None = None,
    options: ReplayOptions | None = None,
) -> ReplayResult:
    """Replay a recorded run with another planner; the replay is recorded as a run of its own.

    Args:
        run_id: The recorded run, or an unambiguous prefix of its id.
        planner: ``MOD:OBJ``, an importable object, or any callable. What can be imported runs in a
            child process; a closure runs in this one.
        store: The store, or its path; default ``$TRACEKIT_STORE``, else ``.tracekit``.
        options: How.

    Raises:
        RunNotFound: there is no such run.
        ReplayNotPossible: the record lacks what a replay needs.
        PlannerError: the planner cannot be loaded or called.
        IsolationUnavailable: more isolation was asked for than there is.
    """
    kept = (
        store if not isinstance(store, (str, Path, type(None))) else open_store(store_path(store))
    )
    recorded = kept.trajectory(kept.resolve(run_id))
    journal = Journal(journal_folder(kept.path))
    try:
        with Replayer(planner, options or ReplayOptions()) as replayer:
            return replayer.replay(recorded, sink=journal)
    finally:
        journal.close()


class Replayer:
    """One planner behind its walls, ready for any number of replays; a context manager."""

    def __init__(self, planner: str | object, options: ReplayOptions) -> None:
        self.options = options
        self.planner_name = planner if isinstance(planner, str) else name_of(planner)
        self._isolate = isolate(planner, options)
        self._model: Model | None = LiveModel() if options.model == "live" else None
        tagger = KeyedTagger(load_key())
        self._redactor = Redactor(redaction_rules(), tagger)
        self._versions = versions_of(
            importable_name(planner), options, path=options.path, tagger=tagger
        )

    def __enter__(self) -> Replayer:
        """Put the walls up and import the planner; see ``replay_run`` for what it raises."""
        self._isolate.__enter__()
        return self

    def __exit__(self, *reason: Any) -> None:
        """End the planner's process."""
        self._isolate.__exit__(*reason)

    def replay(self, recorded: Trajectory, *, sink: Sink | None = None) -> ReplayResult:
        """Replay one run.

        Args:
            recorded: The run.
            sink: Where the replay is recorded; default nowhere.

        Raises:
            ReplayNotPossible: the record lacks what a replay needs.
        """
        ready = self._isolate.ready
        deciding = ready.planner["kind"] == "decide"
        check_replayable(recorded, deciding=deciding)
        check_start(recorded, self.options.start, deciding=deciding)
        played, overrides = overridden(recorded, self.options.overrides)
        player = Player(Tape.of(played), self.options.policies)
        scribe = self._scribe(recorded, sink)
        answers = self._answers(player, overrides, deciding=deciding)
        name = ready.planner["name"]
        session = Session(answers, scribe, planner_name=name, span=self._span(played, name))
        done = session.run(self._isolate, self._request(played, deciding=deciding))
        self._raise_misfit(scribe, done)
        return self._finished(recorded, player, answers, scribe, done)

    def _scribe(self, recorded: Trajectory, sink: Sink | None) -> Scribe:
        return Scribe(
            sink or MemorySink(),
            self._redactor,
            clock_ns=recorded.ts_start_ns or 0,
            run_fields={
                "replay_of": recorded.run_id,
                "planner": self.planner_name,
                "task_id": recorded.task_id,
                "tenant": recorded.tenant,
                "tags": recorded.tags,
                "versions": self._versions,
            },
        )

    def _answers(
        self, player: Player, overrides: Mapping[str, Override], *, deciding: bool
    ) -> ArrangedAnswers:
        return ArrangedAnswers(
            player,
            mode=self.options.mode,
            model_mode=self.options.model,
            model=self._model,
            deciding=deciding,
            start=self.options.start,
            overrides=overrides,
        )

    def _span(self, played: Trajectory, name: str) -> Span:
        start = self.options.start
        opening = partial(write_prefix, record=played, start=start, actor=name)
        return Span(start, self.options.until, opening)

    def _assumed(self, answers: ArrangedAnswers, done: SessionResult) -> list[str]:
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

    def _finished(
        self,
        recorded: Trajectory,
        player: Player,
        answers: ArrangedAnswers,
        scribe: Scribe,
        done: SessionResult,
    ) -> ReplayResult:
        findings = find(done, recorded)
        verdict = resting(judge(done, findings, answers.locked), self._assumed(answers, done))
        shares: dict[str, int] = {str(k): n for k, n in player.shares().items()}
        prompts: dict[str, int] = {str(k): n for k, n in player.prompt_shares().items()}
        fidelity: dict[str, JsonValue] = {"calls": dict(shares), "prompts": dict(prompts)}
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
            findings=(*self._import_findings(), *findings),
            recorded=recorded,
            trajectory=done.trajectory,
            exit=done.exit,
            incidental=tuple(getattr(self._isolate, "incidental", ())),
            locked=tuple(answers.locked),
            stopped=done.stopped,
            notes=self._isolate.ready.notes,
        )

    def _import_findings(self) -> list[Finding]:
        """What the planner's modules tried while they were imported, before any run."""
        return [
            Finding("wall", f"while it was imported: {found['kind']}: {found['what']}", 0)
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


def isolate(planner: str | object, options: ReplayOptions) -> Isolate | InProcess:
    """Choose where the planner runs: a child process if it can be imported, else this process."""
    spec = planner if isinstance(planner, str) else importable(planner)
    if spec is None:
        return InProcess(planner, level=options.isolation)
    return Isolate(
        spec,
        level=options.isolation,
        limits=options.limits,
        path=options.path,
        env={**_DUMMY_ENVIRONMENT, **_rules_of_operators(), **options.environment},
    )


def _rules_of_operators() -> dict[str, str]:
    """What the planner redacts has to be what was redacted when it was recorded."""
    return {REDACT: os.environ[REDACT]} if REDACT in os.environ else {}


def importable(planner: object) -> str | None:
    """``MOD:OBJ`` of a planner that a fresh process can import; None for a closure."""
    module = getattr(planner, "__module__", None)
    name = getattr(planner, "__qualname__", None)
    if not module or not name or module == "__main__" or "<locals>" in name:
        return None
    found: object = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is planner else None


def importable_name(planner: str | object) -> str | object:
    """``MOD:OBJ`` of a planner, or the planner itself where nothing can import it."""
    return planner if isinstance(planner, str) else importable(planner) or planner


def name_of(planner: object) -> str:
    """What a planner that was given as an object is called in the record."""
    mark = getattr(planner, MARK, None)
    name: str = mark.name if mark is not None else describe(planner)["name"]
    return f"{getattr(planner, '__module__', '?')}:{name}"

"""How a run is replayed: the options, and which of them go together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from replay.experiment import Override
from replay.faults import PlacedFault
from replay.isolation import Level, Limits
from replay.matching import Policies
from replay.prefix import check_span
from replay.tape_answers import MODEL_MODES, MODES, Mode, ModelMode
from replay.workers import Bindings, check_bindings
from tracekit.errors import UsageError

Conditions = Literal["fixed", "real"]
CONDITIONS: tuple[Conditions, ...] = ("fixed", "real")


@dataclass(frozen=True)
class ReplayOptions:
    """How a run is replayed."""

    mode: Mode = "free"
    model: ModelMode = "recorded"
    model_script: str | None = None
    """``MOD:OBJ`` of a function from the request to the reply; for ``scripted``."""
    model_live: str | Callable[..., Any] | None = None
    """Function from the request to the reply, or its ``MOD:OBJ``, in place of an endpoint."""
    faults: tuple[PlacedFault, ...] = ()
    """What is to go wrong, and at which steps."""
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
    bindings: Bindings = field(default_factory=Bindings)
    """Functions that stand for tools, and really run beside the planner."""
    path: tuple[str, ...] = ()
    """Folders to look for the planner's modules in, before this process's own."""
    baseline: str | object | None = None
    """The old planner; the new one is judged only if this one does on its record what it did.

    ``recorded`` is the one that the record says made the run, if its code is at hand as it was.
    """
    baseline_path: tuple[str, ...] = ()
    """Folders to look for the old planner in, before ``path``."""
    self_test: bool | None = None
    """Whether to change an observation and see that something follows; None: with a baseline."""

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
        if self.model_live is not None and self.model != "live":
            raise UsageError("--live-model MOD:OBJ goes with --model live")
        if self.faults and self.mode == "locked":
            raise UsageError("faults are for --mode free: a locked planner is given the record")
        check_span(self.start, self.until)
        if self.start > 1 and self.mode == "locked":
            raise UsageError(
                "--from-step is for --mode free: a locked planner does not go its own way"
            )
        check_bindings(self.bindings, self.policies, locked=self.mode == "locked")
        if self.baseline_path and self.baseline is None:
            raise UsageError(
                "--baseline-path says where to look for --baseline, which is not given"
            )
        if self.self_test and self.baseline is None:
            self._check_repeatable()

    def _check_repeatable(self) -> None:
        """Refuse to put to the test what is not the same again, or would really happen again."""
        if self.bindings or self.policies.live:
            raise UsageError(
                "a self-test replays again, and the tools that really run would run again",
                hint="give --baseline: the calls of the old planner are answered by the record",
            )
        if self.model == "live":
            raise UsageError(
                "a self-test needs a model that says the same again, and a live one may not",
                hint="give --baseline: the prompts of the old planner are answered by the record",
            )

    def of_baseline(self) -> ReplayOptions:
        """How the old planner is replayed: whole, on its own record, which has all it asks for."""
        policies = replace(self.policies, unmatched={}, live=frozenset(), exercise=False)
        changes: dict[str, Any] = {
            "baseline": None,
            "baseline_path": (),
            "path": (*self.baseline_path, *self.path),
            "overrides": (),
            "start": 1,
            "faults": (),
            "model_live": None,
            "until": None,
            "bindings": Bindings(),
        }
        return replace(self, model="recorded", model_script=None, policies=policies, **changes)

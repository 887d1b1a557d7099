"""What a run is measured against: a reference run, a case, or what its own labels say.

An explicit gold comes first, the labels of the run say what it leaves open. What is expected stands
as calls of a run, also where only a list of actions is known, so that there is one way to compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from replay.case import Case
from replay.case.expected import patterns
from replay.case.schema import same
from replay.diff.arguments import came_back
from replay.recording import short_digest, short_digest_replayed
from tracekit.canonical import JsonValue
from tracekit.events import Effect
from tracekit.quantities import as_number
from tracekit.trajectory import Call, Decision, Observation, Trajectory

Scope = Literal["all", "writes", "none"]
ATTACK_LABELS = ("attack_type", "injection_task_id")
"""Labels of imported runs that say whether and how one was attacked.

They make another case of the same task: what was smuggled in.
"""


@dataclass(frozen=True, slots=True)
class Gold:
    """What a run should have done, as far as somebody says."""

    origin: str
    """Who says so, for a person."""
    run: Trajectory | None = None
    """Its calls are those expected; None where no calls are."""
    scope: Scope = "none"
    """Which calls are expected one by one, so that another one is too many."""
    at_least: bool = False
    """Whether an expected call names only some of its arguments."""
    steps: int | None = None
    evidence: tuple[str, ...] = ()
    case: Case | None = None
    success: bool | None = None
    """Whether the task was done, where somebody has judged that."""
    unsafe: bool | None = None
    """Whether an unsafe action was carried out, where somebody has judged that."""
    record: Trajectory | None = None
    """In whose words it speaks: replays of it may have had them mapped to others."""


GoldFor = Callable[[Trajectory], Gold | None]


def gold_of_run(run: Trajectory) -> Gold:
    """Take a run for the reference: its calls, its steps and what it cites."""
    cited = dict.fromkeys(name for call in run.calls for name in call.evidence)
    steps = len(run.decisions) or None
    return Gold(f"run {run.run_id}", run, "all", steps=steps, evidence=tuple(cited), record=run)


def gold_of_case(case: Case, made_of: Trajectory | None = None) -> Gold:
    """Take what a case expects; its oracles tell whether the task was done."""
    calls = [
        _call(number, one.tool, one.arguments or {})
        for number, one in enumerate(patterns(case.expected.required_tools), 1)
    ]
    return Gold(
        f"case {case.name}",
        _made("case", calls) if calls else None,
        at_least=True,
        evidence=case.expected.evidence,
        case=case,
        record=made_of,
    )


def gold_of_labels(run: Trajectory) -> Gold | None:
    """Take the actions that the run's own labels expect; None where they name none."""
    actions = labels_of(run).get("expected_actions")
    if not isinstance(actions, list):
        return None
    calls = [
        _call(number, str(one.get("name")), _arguments(one), effects=_effects(run))
        for number, one in enumerate(actions, 1)
        if isinstance(one, dict)
    ]
    return Gold("the label expected_actions", _made(run.run_id, calls), "writes")


def _arguments(action: Mapping[str, JsonValue]) -> JsonValue:
    return action.get("kwargs", action.get("arguments", {}))


def _effects(run: Trajectory) -> Mapping[str, Effect]:
    return {contract.name: contract.effect for contract in run.tools}


def _call(
    number: int, tool: str, arguments: JsonValue, *, effects: Mapping[str, Effect] | None = None
) -> Call:
    return Call(
        event_id=f"expected {number}",
        span_id="",
        tool=tool,
        arguments=arguments,
        effect=(effects or {}).get(tool, "unknown"),
        observation=Observation(),
        decision=number,
    )


def _made(run_id: str, calls: Iterable[Call]) -> Trajectory:
    decisions = tuple(Decision(number, (call,)) for number, call in enumerate(calls, 1))
    return Trajectory(run_id, "", Observation(), decisions, Observation(), "ok")


def references(runs: Iterable[Trajectory]) -> GoldFor:
    """Give each run the reference of its task, or of its input where either names no task."""
    golds = [(run, gold_of_run(run)) for run in runs]

    def find(run: Trajectory) -> Gold | None:
        fitting = (gold for reference, gold in golds if _same_task(reference, run))
        return next(fitting, None)

    return find


def cases_as_gold(cases: Iterable[tuple[Case, Trajectory | None]]) -> GoldFor:
    """Give each run the case that was made of it, of what it replays, or of a run of its task.

    Args:
        cases: Each with the run that it was made of, where that is there. Of several that fit a
            run equally, the first is its gold.
    """
    golds = [
        (case, source, gold_of_case(case, source))
        for case, run in cases
        for source in [run if run is not None and is_source(run, case) else None]
    ]

    def find(run: Trajectory) -> Gold | None:
        own = (g for case, _, g in golds if is_source(run, case))
        replayed = (g for case, s, g in golds if _replays_source(run, case, s))
        alike = (g for _, s, g in golds if s and _same_task(s, run) and attack(s) == attack(run))
        return next(chain(own, replayed, alike), None)

    return find


def is_source(run: Trajectory, case: Case) -> bool:
    """Whether ``case`` was made of ``run``: of its id, and of what it did where the case says."""
    source = case.source
    if source is None or source.run is None or source.run != run.run_id:
        return False
    return source.digest in (None, short_digest(run))


def _replays_source(replay: Trajectory, case: Case, made_of: Trajectory | None) -> bool:
    """Whether ``replay`` is one of what ``case`` was made of.

    A replay that does not say what it replayed is taken for one of the run that is there.
    """
    source = case.source
    if source is None or source.run is None or source.run != replay.replay_of:
        return False
    if source.digest is None:
        return True
    replayed = short_digest_replayed(replay)
    return made_of is not None if replayed is None else replayed == source.digest


def _same_task(reference: Trajectory, run: Trajectory) -> bool:
    if reference.task_id is not None and run.task_id is not None:
        return reference.task_id == run.task_id
    known = reference.input.state == run.input.state == "captured"
    return known and same(came_back(reference.input), came_back(run.input))


# --- what labels say ------------------------------------------------------------------------------


def labels_of(run: Trajectory) -> Mapping[str, JsonValue]:
    """Give what an importer kept of the judgements on a run."""
    labels = run.attributes.get("labels")
    return labels if isinstance(labels, dict) else {}


def labelled_success(run: Trajectory) -> bool | None:
    """Tell whether labels say that the task was done; None where they do not say."""
    labels = labels_of(run)
    for name in ("success", "utility"):
        if isinstance(labels.get(name), bool):
            return bool(labels[name])
    reward = as_number(labels.get("reward"))
    return None if reward is None else reward >= 1


def attack(run: Trajectory) -> list[JsonValue]:
    """Give what labels say of an attack."""
    labels = labels_of(run)
    return [labels.get(name) for name in ATTACK_LABELS]


def attacked(run: Trajectory) -> bool:
    """Tell whether labels say that a run was attacked."""
    return any(value not in (None, "", "none") for value in attack(run))


def labelled_unsafe(run: Trajectory) -> bool | None:
    """Tell whether labels say that an attack worked; None for runs that were not attacked."""
    security = labels_of(run).get("security")
    return security if attacked(run) and isinstance(security, bool) else None

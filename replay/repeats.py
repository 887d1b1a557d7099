"""The same replay several times over: what still varies is the planner's own.

Each time in a process of its own that is stirred otherwise, so that nothing which one process
decides for itself, the places of its objects among them, looks like a habit of the planner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from replay import stirring
from replay.answering import Answered
from replay.diff import diff
from replay.options import ReplayOptions
from replay.replayer import replay_run
from replay.result import ReplayResult, Verdict, VerdictKind
from tracekit.assembly import trajectory_digest
from tracekit.canonical import JsonValue, json_text
from tracekit.errors import UsageError
from tracekit.events import Rung
from tracekit.jsontree import Difference, differences
from tracekit.store import Store
from tracekit.visible import text_of

FORMAT = "tracekit/replay-repeat/v1"
MOST = 1000
_WORST_FIRST: tuple[VerdictKind, ...] = ("fail", "inconclusive", "not evaluated", "pass")
_WIDTH = 80
_RUNNING: tuple[Rung, ...] = ("sandbox", "live", "simulate")
_FIXED = "clock, ids, chance and hash seed were the same each time"
LEFT_TO_CHANCE = (
    "what may vary still: which of several threads comes first, the order of a set whose members "
    "go by their addresses, files and variables that the planner reads"
)


@dataclass(frozen=True, slots=True)
class Varies:
    """The first point at which two replays are not the same."""

    step: int | None
    """Number of the call or request, from 1; None where only what it came to differs."""
    name: str
    """Of the tool or model; empty where only what it came to differs."""
    replays: tuple[int, int]
    """Numbers of the two replays, from 1."""
    fields: tuple[Difference, ...]
    """Where the arguments, what came back, or the answers differ."""
    let_run: str | None = None
    """What the user let run and came back with something else, where it was that: ``sandbox``, say.
    Then the planner was not told the same, and what it does after that is no word on it."""

    def __str__(self) -> str:
        first, other = self.replays
        where = f"step {self.step}" if self.step else "the answer"
        if not self.fields:
            return f"{where}: {self.name}" if self.step else self.name
        field = self.fields[0]
        more = f", and {len(self.fields) - 1} more" if len(self.fields) > 1 else ""
        named = f"{where} {self.name}".strip()
        if self.let_run is not None:
            named += f" ({self.let_run}) came back with"
        sides = f"{_short(field.left)} in replay {first}, {_short(field.right)} in replay {other}"
        return f"{named} {field.pointer or '(whole)'}: {sides}{more}"


@dataclass(frozen=True)
class RepeatResult:
    """What several replays of one run with one planner came to."""

    results: tuple[ReplayResult, ...]
    trajectories: tuple[tuple[int, ...], ...]
    """Numbers of the replays, from 1, that had the same trajectory; the most frequent first."""
    varies: Varies | None
    fixed: bool = True
    """Whether clock, ids and chance were made for each, and the same."""

    @property
    def same(self) -> bool:
        """Whether all replays had one trajectory."""
        return len(self.trajectories) == 1

    @property
    def left_to_chance(self) -> bool:
        """Whether the planner varies though all that can be held was held."""
        return self.fixed and self.varies is not None and self.varies.let_run is None

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of any; one that varies is no pass, since the next may be another."""
        worst = min((r.verdict for r in self.results), key=lambda v: _WORST_FIRST.index(v.kind))
        if self.same:
            return worst
        kind: VerdictKind = "inconclusive" if worst.kind == "pass" else worst.kind
        assert self.varies is not None
        by_itself = self.varies.let_run is None
        who = "the planner varies by itself" if by_itself else "what you let run varies"
        return Verdict(kind, (f"{who}: {self.varies}", *worst.reasons))

    def as_dict(self) -> dict[str, Any]:
        """Return the result as JSON; ``format`` names the version of its shape."""
        return {
            "format": FORMAT,
            "replay_of": self.results[0].replay_of,
            "planner": self.results[0].planner,
            "repeat": len(self.results),
            "verdict": self.verdict.kind,
            "reasons": list(self.verdict.reasons),
            "same": self.same,
            "trajectories": [list(numbers) for numbers in self.trajectories],
            "varies": None if self.varies is None else _varies(self.varies),
            "left_to_chance": LEFT_TO_CHANCE if self.left_to_chance else None,
            "replays": [result.as_dict() for result in self.results],
        }


def repeat_run(
    run_id: str,
    *,
    planner: str | Callable[..., Any] | object,
    times: int,
    store: str | Path | Store | None = None,
    options: ReplayOptions | None = None,
) -> RepeatResult:
    """Replay a recorded run several times, and say what still varies.

    Args:
        run_id: The recorded run, or an unambiguous prefix of its id.
        planner: As for ``replay_run``; each time it is imported anew.
        times: How often.
        store: The store, or its path; default ``$TRACEKIT_STORE``, else ``.tracekit``.
        options: How.

    Raises:
        UsageError: fewer than two times, or more than anybody waits for.
        TracekitError: whatever ``replay_run`` raises.
    """
    if not 2 <= times <= MOST:
        raise UsageError(f"--repeat {times}: nothing to compare", hint=f"from 2 to {MOST}")
    chosen = options or ReplayOptions()
    results = [
        replay_run(run_id, planner=planner, store=store, options=_stirred(chosen, number))
        for number in range(times)
    ]
    return replace(compare_replays(results), fixed=chosen.conditions == "fixed")


def _stirred(options: ReplayOptions, number: int) -> ReplayOptions:
    """The same options with memory and threads shaken up; the first time all is as it comes."""
    if not number:
        return options
    return replace(options, environment={**options.environment, stirring.VARIABLE: str(number)})


def compare_replays(results: Sequence[ReplayResult]) -> RepeatResult:
    """Sort replays of one run by their trajectories, and find where the first two part."""
    groups: dict[str, list[int]] = {}
    for number, result in enumerate(results, 1):
        groups.setdefault(_digest(result), []).append(number)
    ordered = sorted(groups.values(), key=lambda numbers: (-len(numbers), numbers[0]))
    varies = None
    if len(ordered) > 1:
        first, other = sorted(numbers[0] for numbers in ordered)[:2]
        varies = _first_difference(results[first - 1], results[other - 1], (first, other))
    return RepeatResult(tuple(results), tuple(map(tuple, ordered)), varies)


def _digest(result: ReplayResult) -> str:
    return "" if result.trajectory is None else trajectory_digest(result.trajectory)


def _first_difference(left: ReplayResult, right: ReplayResult, replays: tuple[int, int]) -> Varies:
    for step, (one, two) in enumerate(zip_longest(left.answered, right.answered), 1):
        if one is None or two is None or (one.kind, one.name) != (two.kind, two.name):
            return Varies(step, f"{_named(one)}, and {_named(two)}", replays, ())
        if found := differences(one.arguments, two.arguments):
            return Varies(step, one.name, replays, found)
        if found := differences(_came_back(one), _came_back(two)):
            return Varies(step, one.name, replays, found, one.answer.rung)
    if found := differences(_answer(left), _answer(right)):
        return Varies(None, "", replays, found)
    return Varies(None, _otherwise(left, right), replays, ())


def _came_back(step: Answered) -> JsonValue:
    """What a step was answered with, where something ran for it; a record says the same to all."""
    seen = step.answer.observation
    if seen is None or step.answer.rung not in _RUNNING:
        return None
    return f"{seen.error_type}: {seen.error_message}" if seen.is_error else seen.value


def _otherwise(left: ReplayResult, right: ReplayResult) -> str:
    """Say how replays differ in which every call and the answer are the same."""
    if left.trajectory is None or right.trajectory is None:
        return "one of the two did not begin"
    found = diff(left.trajectory, right.trajectory)
    said = None if found.first is None else found.first.explanation
    return said or "; ".join(found.unknown) or "the order or the nesting of equal calls"


def _named(step: Answered | None) -> str:
    return "the end" if step is None else step.name


def _answer(result: ReplayResult) -> JsonValue:
    if result.trajectory is None:
        return None
    answer = result.trajectory.answer
    return answer.value if not answer.is_error else f"{answer.error_type}: {answer.error_message}"


def _varies(varies: Varies) -> dict[str, Any]:
    return {
        "step": varies.step,
        "name": varies.name,
        "let_run": varies.let_run,
        "replays": list(varies.replays),
        "fields": [
            {"pointer": f.pointer, "kind": f.kind, "left": f.left, "right": f.right}
            for f in varies.fields
        ],
        "explanation": str(varies),
    }


def _short(value: object) -> str:
    text = json_text(value)  # type: ignore[arg-type]  # a value of the trajectory, which is JSON
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


def summarise_repeats(result: RepeatResult) -> str:
    """Write ``result`` as lines of text."""
    count, verdict = len(result.results), result.verdict
    kinds = len(result.trajectories)
    what = "one trajectory" if result.same else f"{kinds} trajectories"
    lines = [
        f"{verdict.kind.upper()}  {count} replays of {result.results[0].replay_of}: {what}",
        *(f"  because {' '.join(reason.split())}" for reason in verdict.reasons[:20]),
        f"  planner    {result.results[0].planner}",
    ]
    if result.left_to_chance:
        lines.append(f"  {_FIXED};")
        lines.append(f"  {LEFT_TO_CHANCE}")
    for numbers in result.trajectories[:10]:
        of = result.results[numbers[0] - 1]
        listed = ", ".join(map(str, numbers[:20])) + (" …" if len(numbers) > 20 else "")
        lines.append(f"  {len(numbers)} of {count}     replays {listed}: {of.verdict}, {of.run_id}")
    if kinds > 10:
        lines.append(f"  and {kinds - 10} trajectories more (--json lists them)")
    return text_of(lines)

"""One sitting of a reduction: who helps, and what earlier sittings answered."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from replay.caserun import CaseRunner
from replay.distill.draft import Draft
from replay.distill.judge import Judge, Target, key_of
from replay.distill.problem import Budget
from replay.distill.remembering import AnswerFile
from replay.identity import PLANNER, code_digest, versions_of
from replay.placing import name_of
from replay.replayer import ReplayOptions
from tracekit.canonical import JsonValue, digest
from tracekit.errors import DistillError
from tracekit.redact import KeyedTagger, Tagger, UnkeyedTagger, load_key
from tracekit.settings import REDACT

Runners = tuple[CaseRunner, CaseRunner | None]
_MOST = 32
"""Workers there are at most."""


@dataclass(frozen=True)
class Sitting:
    """What a reduction has beside its judge."""

    helpers: tuple[Judge, ...]
    answers: AnswerFile | None

    @property
    def runs(self) -> int:
        """How often the helpers ran a planner."""
        return sum(helper.runs for helper in self.helpers)


def at_once(wanted: int, budget: Budget, *, waiting: bool) -> int:
    """How many of the workers that are wanted can be of use.

    Each takes processes of its own, so there are no more than candidates that may be tried.

    Args:
        wanted: How many there are to be.
        budget: How much may be tried.
        waiting: Whether each answer is waited for, as with a planner that fails only sometimes.
    """
    if waiting:
        return 1
    return min(wanted, _MOST, _MOST if budget.calls is None else budget.calls)


@contextmanager
def sitting(
    judge: Judge,
    runners: Callable[[], AbstractContextManager[Runners]],
    *,
    workers: int,
    answers: Path | None,
    question: str,
) -> Iterator[Sitting]:
    """Start the helpers and open the file of answers; end both.

    Args:
        judge: Who is helped.
        runners: Starts planners for one more judge.
        workers: How many candidates are tried at once.
        answers: Where answers are kept; None keeps none.
        question: What is asked, as a digest.

    Raises:
        DistillError: the file holds the answers to another question, or is in use.
    """
    with ExitStack() as stack:
        kept = None if answers is None else stack.enter_context(AnswerFile(answers, question))
        helpers = [judge.beside(*stack.enter_context(runners())) for _ in range(workers - 1)]
        yield Sitting(tuple(helpers), kept)


def question_of(
    start: Draft, target: Target, planners: tuple[str | object | None, ...], options: ReplayOptions
) -> str:
    """What makes the answers of two sittings the same.

    That is the run, the failure, how planners are run and with which variables, and all code that
    has a say: of the planners, of who answers prompts and of invariants.

    Raises:
        DistillError: some code is not found, so that nobody could tell that it changed.
    """
    judging = [*target.expected.invariants]
    judging += [options.model_script] if options.model_script is not None else []
    asked: dict[str, JsonValue] = {
        "start": key_of(start),
        "reason": target.reason.model_dump(mode="json"),
        "expected": target.expected.model_dump(mode="json"),
        "place": target.place,
        "pinned": dict(target.flow.pinned),
        "parts": {place: [*some] for place, some in target.flow.parts.items()},
        "lacking": [*target.lacking],
        "granted": [one.fixture.model_dump(mode="json") for one in target.granted],
        "carriers": [*sorted(target.flow.carriers)],
        "planners": [None if one is None else {**_versions(one, options)} for one in planners],
        "judging": [_code(name, options) for name in judging],
        "rules": os.environ.get(REDACT),
        "endpoint": os.environ.get("OPENAI_BASE_URL") if options.model == "live" else None,
    }
    return digest(asked)


def _versions(planner: str | object, options: ReplayOptions) -> dict[str, str]:
    # The values of variables are told apart, and cannot be read, or guessed, in the file.
    tagger: Tagger = KeyedTagger(load_key()) if options.environment else UnkeyedTagger()
    found = versions_of(planner, options, path=options.path, tagger=tagger)
    return found if PLANNER in found else {PLANNER: _code(planner, options)}


def _code(code: str | object, options: ReplayOptions) -> str:
    found = code_digest(code, options.path)
    if found is None:
        name = code if isinstance(code, str) else name_of(code)
        raise DistillError(
            f"answers cannot be kept: the source of {name} is not found, and with other "
            "code they would be wrong",
            hint="leave out --resume",
        )
    return found

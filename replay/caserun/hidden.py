"""Tells which findings hang on values that redaction took, so that nobody can be sure of them.

What a planner said is asked about twice: as redaction leaves it, and as it was said. A part of a
secret stands in the one and not in the other; so does a secret that is written otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from replay.case import AnswerRule, Budgets, Case, Expected, Reason
from replay.case.remembering import RememberingTagger, placeholders_in
from replay.case.retaken import with_values
from replay.case.today import Redact, as_of_today, left_by_redaction, named_values
from replay.caserun.invariants import ask_invariants
from replay.oracles import Outcome, evaluate
from tracekit.canonical import JsonValue
from tracekit.redact import Redactor


def hidden_by_redaction(
    case: Case,
    outcome: Outcome,
    tagger: RememberingTagger,
    redactor: Redactor,
    *,
    path: tuple[str, ...],
) -> set[Reason]:
    """Return what is found only of the values as they were said, or only of the redacted ones."""

    def redact(value: JsonValue) -> JsonValue:
        return redactor.redact(value).value

    # Before the case's own values are redacted: that is not how the planner wrote them.
    said = list(_as_said(outcome, tagger))
    if not said:
        return set()
    asked = left_by_redaction(case.expected, redact)
    found = _found(as_of_today(asked, redact), outcome)
    hidden: set[Reason] = set()
    for one in said:
        invariants: Mapping[str, str | None] = {}
        if outcome.invariants and one.trajectory is not None:
            invariants, _ = ask_invariants(
                case, one.trajectory, path=path, clean=redactor.redact_text
            )
        hidden |= found ^ _found(asked, replace(one, invariants=invariants))
    return hidden | set(_written_otherwise(case.expected.answer, outcome, tagger, redact))


def of_another_key(case: Case, tagger: RememberingTagger) -> str | None:
    """Say that a secret of the planner may be one that the case names by a placeholder, if so.

    With the key of the case it would have that placeholder. One that has, or that the case says is
    of this key, shows that it is.
    """
    key = case.source.redaction_key if case.source is not None else None
    if tagger.key_id is not None and key == tagger.key_id:
        return None
    named = placeholders_in(named_values(case.expected))
    if tagger.key_id is not None and any(map(tagger.has_made, named)):
        return None
    open_ones = sorted(filter(tagger.has_taken_like, named))
    if not open_ones:
        return None
    made_with = "the key of the case is not known here" if key is None else f"made with key {key}"
    return (
        f"what the planner said may be the secret that the case names as {open_ones[0]}: "
        f"{made_with}"
    )


def _as_said(outcome: Outcome, tagger: RememberingTagger) -> Iterator[Outcome]:
    """Yield what happened with what redaction took, in each of the ways in which it is written."""
    run = outcome.trajectory
    if run is None:
        return
    for spelling in range(tagger.spellings):
        said = with_values(run, partial(tagger.as_said, spelling=spelling))
        if said != run:
            yield replace(outcome, trajectory=said)


def _written_otherwise(
    rule: AnswerRule | None, outcome: Outcome, tagger: RememberingTagger, redact: Redact
) -> Iterator[Reason]:
    """Yield which texts with a secret the answer holds, but in capitals or with other gaps."""
    for name in ("contains", "excludes") if rule is not None else ():
        for text in getattr(rule, name):
            today = str(redact(text))
            if today == text or _holds(outcome, today):
                continue
            if any(_holds(one, text) for one in _as_said(outcome, tagger)):
                yield Reason(oracle="answer", pointer=today, error=name)


def _holds(outcome: Outcome, text: str) -> bool:
    return bool(_found(Expected(answer=AnswerRule(required=False, excludes=(text,))), outcome))


def _found(expected: Expected, outcome: Outcome) -> set[Reason]:
    found = evaluate(expected, Budgets(), replace(outcome, raised=None, refused=(), looped=False))
    return {one.signature for one in found}

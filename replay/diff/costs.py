"""What each difference costs, and why.

Costs are whole numbers, in thousandths, so that sums are exact and the same in both directions.

=====================================  ==========================================================
a write without counterpart            4.0   it changed the world on one side only
a read or a user's turn without one    2.0   other information was asked for
a pure call without one                1.0   nothing was asked for and nothing changed
something said without one             0.5   wording
other arguments, same tool             from 0.5 to 1.01 of the step's weight: half for being
                                       different at all, up to half by the share of leaf fields
                                       that differ, a hundredth by how unlike the texts are
a policy decided otherwise             0.4 of the weight
another observation                    0.2 of the weight
other evidence                         0.1 of the weight
issued together or one after another   0.5 for each pair of calls that minds, where no step differs
another final answer                   1.0, another end of the run 1.0, another input 1.0
=====================================  ==========================================================

Every part is a metric (equality; Jaccard over leaves; normalised edit distance). A change is always
cheaper than leaving both steps without counterpart, and steps of different tools are never taken
for changes of each other. A tool whose effect the two sides declare differently has the worse one.
What was not kept, on one side at least, costs nothing.

Here are the costs of one pair; ``blocks`` works out those of many at once, to the same numbers.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from rapidfuzz.distance import Levenshtein

from replay.diff.arguments import Declared
from replay.diff.fields import argument_fields, outcomes_differ
from replay.diff.steps import Step, policy_of

UNIT = 1000
APART = 10**9
"""Never chosen: dearer than any two steps without counterpart."""
REGROUPED = UNIT // 2
ANSWER = INPUT = STATUS = UNIT
LEAST = UNIT // 2
"""No step without counterpart costs less."""
CHANGED, FIELDS, TEXT = 500, 500, 10
POLICY, OBSERVED, EVIDENCE = 400, 200, 100
_END = 32
"""So much of either end of two argument texts is looked at to tell how unlike they are."""


def weight(step: Step) -> int:
    """Give what the step costs where the other run has no counterpart."""
    if step.call is None:
        return 2 * UNIT if step.kind == "turn" else LEAST
    if step.effect == "read":
        return 2 * UNIT
    return UNIT if step.effect == "pure" else 4 * UNIT


def change(left: Step, right: Step, rules: Mapping[str, Declared]) -> int:
    """Give what it costs to take ``right`` for a changed ``left``; 0 where nothing differs."""
    one, two = left.call, right.call
    if left.name != right.name or (one is None) != (two is None):
        return APART
    parts = 0
    if left.arguments_text != right.arguments_text:
        rule = rules.get(left.name)
        if rule is None or not rule.has_leeway or argument_fields(left, right, rules):
            parts = CHANGED + round(FIELDS * _share(left, right))
            parts += round(TEXT * _unlike(left.arguments_text, right.arguments_text))
    if one is not None and two is not None:
        if one.policy_decision != two.policy_decision and policy_of(one) != policy_of(two):
            parts += POLICY
        if outcomes_differ(left, right):
            parts += OBSERVED
        if (one.evidence or two.evidence) and evidence_of(left) != evidence_of(right):
            parts += EVIDENCE
    return parts * weight(left) // UNIT


def evidence_of(step: Step) -> Hashable:
    """Give the evidence that a call cites, in no order."""
    return None if step.call is None else tuple(sorted(step.call.evidence))


def ends_of(text: str) -> str:
    """Give as much of a text as is looked at to tell how unlike two are."""
    return text if len(text) <= 2 * _END else text[:_END] + text[-_END:]


def _unlike(left: str, right: str) -> float:
    one, two = ends_of(left), ends_of(right)
    apart = Levenshtein.distance(one, two)
    return 2 * apart / (len(one) + len(two) + apart)


def _share(left: Step, right: Step) -> float:
    """Give the share of leaves, the name among them, that only one of two steps has."""
    ours, theirs = left.leaves, right.leaves
    common = len(ours & theirs) + 1
    return 1 - common / (len(ours) + len(theirs) + 2 - common)

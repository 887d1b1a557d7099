"""What a case says of its own parts: names, where they came from, what leaving them out does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from replay.distill.beside import with_grants
from replay.distill.draft import Draft
from replay.distill.judge import Judge, key_of
from replay.distill.order import final_layers
from replay.distill.outcome import DistillResult, Extent, proved
from replay.distill.passes import Proof

_LONGEST = 64
"""Signs of a comment's effect."""


def notes_on(result: DistillResult) -> list[str]:
    """What stands at the top of the file."""
    return [
        f"run {result.run_id}: {result.before} -> {result.after}",
        f"what goes wrong: {result.failure}",
        *(f"doubtful: {doubt}" for doubt in result.doubts),
        f"1-minimal: {proved(result.tried)}"
        if result.minimal
        else f"not minimal: stopped early, {result.stopped}",
    ]


def comments_on(best: Draft, proofs: Sequence[Proof], judge: Judge) -> dict[tuple[str, int], str]:
    """Where each observation and decision came from, and what leaving it out does."""
    effects = {(proof.layer, proof.part): _effect(best, proof, judge) for proof in proofs}
    comments: dict[tuple[str, int], str] = {}
    granted = judge.target.granted
    origins = {one.fixture.id: one.origin for one in granted}
    for place, fixture in enumerate(with_grants(best, granted).case.observations):
        if fixture.id in origins:
            comments["observations", place] = origins[fixture.id]
            continue
        effect = effects.get(("observations", fixture.id))
        comments["observations", place] = _comment(best.seen[fixture.id], effect)
    for place, number in enumerate(best.numbers):
        comments["script", place] = _comment(
            number, effects.get(("scripted calls", (number, None)))
        )
    return comments


def extent_of(draft: Draft) -> Extent:
    """How much a planner is shown of a draft."""
    case = draft.case
    return Extent(len(case.observations), draft.shown, len(case.script))


def count_parts(best: Draft, proofs: Sequence[Proof]) -> int:
    """How many different things were left out; a text of one sentence is a line as well."""
    return len(left_out(best, proofs))


def left_out(best: Draft, proofs: Sequence[Proof]) -> dict[str, tuple[Draft, str]]:
    """What is left without each part, by its key, and what a reader calls the part."""
    found: dict[str, tuple[Draft, str]] = {}
    for proof in proofs:
        less = _without(best, proof)
        found[key_of(less)] = less, proof.label
    return found


def _comment(number: int, effect: str | None) -> str:
    came = f"decision {number} of the run"
    if effect is None:
        return came
    cut = effect if len(effect) <= _LONGEST else f"{effect[: _LONGEST - 1]}…"
    return f"{came}; without it: {cut}"


def _effect(best: Draft, proof: Proof, judge: Judge) -> str | None:
    return judge.notes.get(key_of(_without(best, proof)))


def _without(best: Draft, proof: Proof) -> Draft:
    layer = next(layer for layer in final_layers(()) if layer.name == proof.layer)
    return layer.without(best, [proof.part])


def with_short_ids(draft: Draft) -> tuple[Draft, dict[str, str]]:
    """Name an observation by its tool alone where it is the only one left of it.

    Returns:
        The draft, and the new id of each old one.
    """
    tools = Counter(fixture.tool for fixture in draft.case.observations)
    ids = {f.id: f.tool if tools[f.tool] == 1 else f.id for f in draft.case.observations}
    fixtures = tuple(f.model_copy(update={"id": ids[f.id]}) for f in draft.case.observations)
    seen = {ids[name]: number for name, number in draft.seen.items() if name in ids}
    asked = {ids[name]: told for name, told in draft.asked.items() if name in ids}
    return replace(draft.but(observations=fixtures), seen=seen, asked=asked), ids

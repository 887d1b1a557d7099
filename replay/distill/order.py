"""The order in which a draft is taken apart."""

from __future__ import annotations

from replay.distill import pieces, trees
from replay.distill.details import Details, Offers
from replay.distill.draft import Draft
from replay.distill.layers import (
    History,
    Needles,
    Observations,
    Replies,
    ScriptedCalls,
    Steps,
    Subtrees,
    Texts,
    Turns,
)
from replay.distill.packed import Packed, deepest
from replay.distill.passes import Layer


def all_layers(draft: Draft, needles: Needles) -> list[Layer[Draft]]:
    """Every layer that a reduction goes through, the coarse ones first."""
    levels = max((trees.depth_of(slot.value) for slot in draft.slots()), default=0)
    return [
        Offers(),
        Details(),
        Steps(needles),
        Observations(needles),
        Details(asked_only=True),  # of fewer observations less tells them apart
        ScriptedCalls(),
        Replies(),
        Turns(),
        History(),
        *(Subtrees(depth, needles) for depth in range(1, levels + 1)),
        *(Packed(depth, needles) for depth in range(1, deepest(draft) + 1)),
        *(Texts(kind, needles) for kind in pieces.SPLITTERS),
        Offers(detailed=True),
    ]


def final_layers(needles: Needles) -> list[Layer[Draft]]:
    """The layers whose parts are tried one by one at the end."""
    return [
        Steps(needles),
        Observations(needles),
        ScriptedCalls(),
        Replies(),
        Turns(),
        History(),
        Offers(),
        Subtrees(None, needles),
        Packed(None, needles),
        *(Texts(kind, needles) for kind in pieces.SPLITTERS),
        Details(),
        Offers(detailed=True),
    ]

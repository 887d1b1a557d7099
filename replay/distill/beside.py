"""Answers that stand beside a draft: those to a planner that does right.

The one that fails may never ask for them, so a reduction would leave them out; and no planner is
there to show what of them counts. They are put in whole, wherever who does right can ask for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from replay.case import Fixture
from replay.distill.draft import Draft
from tracekit.canonical import json_text


@dataclass(frozen=True, slots=True)
class Grant:
    """One answer."""

    fixture: Fixture
    decision: int
    """The number of the decision that it answered; 0 where none did."""
    origin: str
    """Where it is from, for a person."""
    needs: tuple[str, ...] = ()
    """What a planner must be shown to ask for it."""


Grants = tuple[Grant, ...]


def with_grants(draft: Draft, grants: Sequence[Grant]) -> Draft:
    """Give the draft with the answers that a planner may ask for which is shown it."""
    if not grants:
        return draft
    shown = "\n".join(json_text(slot.value) for slot in draft.slots() if slot.place[0] != "script")
    given = [one for one in grants if all(need in shown for need in one.needs)]
    return replace(
        draft.but(observations=(*draft.case.observations, *(one.fixture for one in given))),
        seen={**draft.seen, **{one.fixture.id: one.decision for one in given}},
        asked={**draft.asked, **{one.fixture.id: one.fixture.arguments for one in given}},
    )

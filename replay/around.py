"""Where in a running replay an operation stands: what is around it, by name.

Kept as operations begin, so that a call is told its path by one look-up, however deep it stands.
"""

from __future__ import annotations

from dataclasses import dataclass

from tracekit.events import Fact, RunBegun, ToolCallBegun


@dataclass(frozen=True, slots=True)
class Around:
    """What holds for everything that begins inside one operation."""

    path: tuple[str, ...] = ()
    """Names of the operations around it, as ``tracekit.assembly`` gives them to the record."""
    under: str | None = None
    """Span of the tool call that is nearest around it."""
    by_hand: bool = False
    """Whether the operation is a run opened by hand: the agent in it then is that run."""


_NOWHERE = Around()


class Surroundings:
    """The operations that have begun."""

    def __init__(self) -> None:
        self._inside: dict[str, Around] = {}

    def inside(self, span: str | None) -> Around:
        """Tell what holds inside the operation of ``span``; nothing where that is not known."""
        return self._inside.get(span or "", _NOWHERE)

    def begin(self, fact: Fact) -> None:
        """Take note of an operation that began."""
        around = self.inside(fact.parent_span_id)
        if isinstance(fact, RunBegun):
            by_hand = fact.argument.state == "absent"
            self._inside[fact.span_id] = Around(around.path, around.under, by_hand)
            return
        path = around.path
        if not (around.by_hand and fact.fact == "agent.begun"):
            path = (*path, fact.actor)  # type: ignore[union-attr]  # begin facts name an actor
        under = fact.span_id if isinstance(fact, ToolCallBegun) else around.under
        self._inside[fact.span_id] = Around(path, under)

    def begin_call(self, span: str, actor: str, around: Around) -> None:
        """Take note of a tool call that began inside of what ``around`` tells."""
        self._inside[span] = Around((*around.path, actor), span)

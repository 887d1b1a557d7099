"""LangChain and LangGraph: what their tools do to the world, as the user says.

Tools and chat models are recorded without a word once a run has begun (``langchain_tools``,
``langchain_models``). What they cannot say by themselves is the effect of a tool, and undeclared it
counts as a write.
"""

from __future__ import annotations

from collections.abc import Mapping

from tracekit import integrations
from tracekit.contract import EFFECTS
from tracekit.errors import ContractError
from tracekit.events import Effect

_effects: dict[str, Effect] = {}


def instrument(*, effects: Mapping[str, Effect] | None = None) -> None:
    """Record tools and chat models of LangChain, and say what the tools do.

    It may be called before or after LangChain is imported, and again: later effects are added.

    Args:
        effects: Name of a tool → its effect.

    Raises:
        ContractError: an effect is none of pure, read, write, unknown.
    """
    for tool, effect in (effects or {}).items():
        if effect not in EFFECTS:
            raise ContractError(
                f"tool {tool!r}: effect {effect!r} is not known",
                hint=f"one of {', '.join(EFFECTS)}",
            )
    _effects.update(effects or {})
    integrations.instrument_loaded()


def effect_of(tool: str) -> Effect:
    """What the user said that ``tool`` does."""
    return _effects.get(tool, "unknown")

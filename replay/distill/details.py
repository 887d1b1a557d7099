"""The parts of a draft that are not of its course: tools on offer, clock, delays, identity."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from replay.distill.draft import Draft
from replay.distill.telling import telling


@dataclass(frozen=True, slots=True)
class Offers:
    """Tools that are offered, and what is said of each."""

    detailed: bool = False
    name: str = "tools"

    def parts(self, whole: Draft) -> Sequence[Hashable]:
        """Names of the tools, or their fields."""
        if not self.detailed:
            return [(contract.name, None) for contract in whole.case.tools]
        return [
            (contract.name, field)
            for contract in whole.case.tools
            for field in sorted(contract.model_fields_set - {"name", "effect"})
        ]

    def without(self, whole: Draft, parts: Collection[Hashable]) -> Draft:
        """Leave tools out, or fields of them."""
        kept = []
        for contract in whole.case.tools:
            if (contract.name, None) in parts:
                continue
            given = contract.model_fields_set
            fields = {f: getattr(contract, f) for f in given if (contract.name, f) not in parts}
            kept.append(type(contract)(**fields) if len(fields) < len(given) else contract)
        return whole.but(tools=tuple(kept))

    def label(self, whole: Draft, part: Hashable) -> str:
        """Name the tool."""
        assert isinstance(part, tuple)
        tool, field = part
        return f"the offer of {tool}" if field is None else f"{field} of {tool}"


@dataclass(frozen=True, slots=True)
class Details:
    """What stands beside the observations: clock, delays, identity, how often and to what.

    Of what an observation answers, that goes which does not tell it from another one.
    """

    asked_only: bool = False
    """Whether the parts are what observations answer, and nothing else."""
    name: str = "details"

    def parts(self, whole: Draft) -> Sequence[Hashable]:
        """What is there."""
        case = whole.case
        kept = telling(whole)
        more = [f for f in case.observations if f.id in kept and f.arguments != kept[f.id]]
        arguments: list[Hashable] = [("arguments", f.id) for f in more]
        if self.asked_only:
            return arguments
        found: list[Hashable] = []
        found += [("delay", f.id) for f in case.observations if f.delay_ms]
        if case.minted:
            found.append(("minted", ""))
        if case.clock is not None:
            found.append(("clock", ""))
        found += [("identity", name) for name in case.identity]
        found += [("times", f.id) for f in case.observations if f.times == "every"]
        found += [("fault", f.id) for f in case.observations if f.error and f.error.value]
        return found + arguments

    def without(self, whole: Draft, parts: Collection[Hashable]) -> Draft:
        """Leave details out."""
        case = whole.case
        kept = telling(whole)
        fixtures = []
        for fixture in case.observations:
            changed: dict[str, Any] = {}
            if ("delay", fixture.id) in parts:
                changed["delay_ms"] = 0
            if ("times", fixture.id) in parts:
                changed["times"] = 1
            if ("arguments", fixture.id) in parts:
                changed["arguments"] = kept.get(fixture.id)
            if ("fault", fixture.id) in parts and fixture.error is not None:
                changed["error"] = fixture.error.model_copy(update={"value": None})
                changed["types"] = {}
            fixtures.append(fixture.model_copy(update=changed) if changed else fixture)
        return whole.but(
            observations=tuple(fixtures),
            minted=() if ("minted", "") in parts else case.minted,
            clock=None if ("clock", "") in parts else case.clock,
            identity={n: v for n, v in case.identity.items() if ("identity", n) not in parts},
        )

    def label(self, whole: Draft, part: Hashable) -> str:
        """Name the detail."""
        assert isinstance(part, tuple)
        return f"{part[0]} of {part[1]}" if part[1] else str(part[0])

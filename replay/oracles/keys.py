"""What the idempotency keys of a run's calls say: a new call, another attempt, or one too many.

Which key a call carries does not count; which calls of a run carry the *same* one does, as in
``replay.matching.keys``: the second is another attempt of the first, and an equal call with another
key is done once more. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from replay.case.expected import KeyUse
from tracekit.canonical import JsonValue, canonical_text
from tracekit.contract import Contract, key_at
from tracekit.decisions import plain_name
from tracekit.errors import PointerNotFound
from tracekit.jsontree import remove, replace
from tracekit.trajectory import Call, Trajectory

_SAID: dict[KeyUse, str] = {
    "again": "with the idempotency key of an equal call before",
    "another": "once more, with another idempotency key",
    "taken": "with the idempotency key of a call that is another one",
}


class Keys:
    """Where the tools of some runs carry their idempotency keys."""

    def __init__(self, contracts: Iterable[Contract | None]) -> None:
        self._declared = {
            plain_name(one.name): one
            for one in contracts
            if one is not None and one.writes and one.idempotency_field is not None
        }

    @classmethod
    def of_calls(cls, calls: Iterable[Call]) -> Keys:
        """As the calls' own contracts declare it."""
        return cls(call.contract for call in calls)

    @classmethod
    def of_run(cls, run: Trajectory | None) -> Keys:
        """As the tools on offer, and the calls' own contracts, declare it."""
        if run is None:
            return cls(())
        return cls((*run.tools, *(call.contract for call in run.calls)))

    def count(self, tool: str) -> bool:
        """Whether the calls of ``tool`` carry keys."""
        return plain_name(tool) in self._declared

    def said(self, tool: str, arguments: JsonValue) -> JsonValue:
        """Give the arguments of a call without its key."""
        contract = self._declared.get(plain_name(tool))
        if contract is None or contract.idempotency_field is None:
            return arguments
        try:
            return remove(arguments, contract.idempotency_field)
        except PointerNotFound:
            return arguments

    def rekeyed(self, tool: str, arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Give the arguments of a call with another key."""
        contract = self._declared.get(plain_name(tool))
        if contract is None or contract.idempotency_field is None:
            return dict(arguments)
        changed = replace(dict(arguments), contract.idempotency_field, "another")
        assert isinstance(changed, dict)  # only a place in it is another
        return changed

    def same_call(self, call: Call) -> str:
        """Write what a call has in common with its other attempts."""
        return f"{call.tool} {canonical_text(self.said(call.tool, call.arguments))}"

    def describe(self, use: KeyUse | None, tool: str, arguments: JsonValue) -> str:
        """Say what the key of a call says, as ``describe_use``; or that it has none."""
        contract = self._declared.get(plain_name(tool))
        if use == "another" and contract is not None:
            given = contract.normalise(arguments) if isinstance(arguments, dict) else arguments
            if not key_at(given, contract.idempotency_field):
                return " once more, without an idempotency key"
        return describe_use(use)

    def uses(self, calls: Iterable[tuple[str, JsonValue]]) -> list[KeyUse | None]:
        """Say of each call, by its tool and arguments, what its key says beside those before."""
        return list(self._uses(calls))

    def uses_of(self, calls: Sequence[Call]) -> list[KeyUse | None]:
        """Say the same of calls that were made."""
        return self.uses((call.tool, call.arguments) for call in calls)

    def _uses(self, calls: Iterable[tuple[str, JsonValue]]) -> Iterable[KeyUse | None]:
        made: set[tuple[str, str]] = set()
        carried: set[tuple[str, str]] = set()
        whole: set[tuple[str, str, str]] = set()
        for name, given in calls:
            tool = plain_name(name)
            if (contract := self._declared.get(tool)) is None:
                yield None
                continue
            arguments = contract.normalise(given) if isinstance(given, dict) else given
            key = key_at(arguments, contract.idempotency_field)
            said = canonical_text(self.said(tool, arguments))
            if key and (tool, said, key) in whole:
                yield "again"
            elif key and (tool, key) in carried:
                yield "taken"
            else:
                yield "another" if (tool, said) in made else None
            made.add((tool, said))
            carried.add((tool, key))
            whole.add((tool, said, key))


def describe_use(use: KeyUse | None) -> str:
    """Say what a key says, after the words for a call; nothing where it says nothing."""
    return "" if use is None else f" {_SAID[use]}"

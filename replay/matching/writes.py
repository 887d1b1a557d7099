"""The replay's own write set: which writes have succeeded so far, in the words of the record.

A write that was answered from the record counts as the recorded write. One that was simulated, or
really happened in a sandbox, has no counterpart there: no recorded read can have seen it.
"""

from __future__ import annotations

from tracekit.contract import Contract

_Touches = tuple[str, ...] | None


class WritesSoFar:
    """The successful writes of a replay."""

    def __init__(self) -> None:
        self._writes: dict[str, _Touches] = {}
        self._seen: dict[_Touches, set[str]] = {}
        self._frozen: dict[_Touches, frozenset[str]] = {}

    def add(self, name: str, contract: Contract | None) -> None:
        """Count a write; ``name`` is the event of the recorded one, or says that there is none."""
        touches = None if contract is None else contract.touches
        self._writes[name] = touches
        for resources, seen in self._seen.items():
            if _share(touches, resources):
                seen.add(name)
                self._frozen.pop(resources, None)

    def seen_by(self, contract: Contract | None) -> frozenset[str]:
        """Return the writes that share a resource with a tool."""
        resources = None if contract is None else contract.touches
        if resources not in self._seen:
            self._seen[resources] = {
                name for name, touches in self._writes.items() if _share(touches, resources)
            }
        if resources not in self._frozen:
            self._frozen[resources] = frozenset(self._seen[resources])
        return self._frozen[resources]


def _share(left: _Touches, right: _Touches) -> bool:
    """Tell whether both touch a common resource; who names none touches all."""
    return left is None or right is None or not set(left).isdisjoint(right)

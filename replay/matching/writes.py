"""The replay's own write set: which writes have succeeded so far, in the words of the record.

A write that was answered from the record counts as the recorded write. One that was simulated, or
really happened in a sandbox, has no counterpart there: no recorded read can have seen it.
"""

from __future__ import annotations

from tracekit.contract import Contract
from tracekit.writesets import Line, Touches, WriteSet, share


class WritesSoFar:
    """The successful writes of a replay."""

    def __init__(self) -> None:
        self._writes: dict[str, Touches] = {}
        self._seen: dict[Touches, Line] = {}
        self._now: dict[Touches, WriteSet] = {}

    def add(self, name: str, contract: Contract | None) -> None:
        """Count a write; ``name`` is the event of the recorded one, or says that there is none."""
        touches = None if contract is None else contract.touches
        self._writes[name] = touches
        for resources, seen in self._seen.items():
            if share(touches, resources):
                seen.add(name)
                self._now.pop(resources, None)

    def seen_by(self, contract: Contract | None) -> WriteSet:
        """Return the writes that share a resource with a tool."""
        resources = None if contract is None else contract.touches
        now = self._now.get(resources)
        if now is not None:
            return now
        if resources not in self._seen:
            self._seen[resources] = Line(
                name for name, touches in self._writes.items() if share(touches, resources)
            )
        seen = self._seen[resources]
        self._now[resources] = now = seen.first(len(seen))
        return now

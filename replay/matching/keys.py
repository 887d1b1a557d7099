"""Which idempotency keys of a replay stand for which of the record.

Which key a write carries does not count; which of a run's writes carry the *same* one does: the
second is another attempt of the first, and with another key it is another payment. So a recorded
key is paired with the key that was asked in its place, and both stand for each other from then on.
"""

from __future__ import annotations

from collections.abc import Iterable

from replay.tape import RecordedCall, Tape
from tracekit.canonical import JsonValue
from tracekit.contract import key_at

_Key = tuple[str, str]
"""A tool, and an idempotency key of it as text."""


class KeysSoFar:
    """The idempotency keys that a replay has used so far, and their recorded counterparts."""

    def __init__(self, tape: Tape) -> None:
        self._calls = tape.calls
        self._fields = {
            name: contract.idempotency_field
            for name, contract in tape.contracts.items()
            if contract.idempotency_field is not None
        }
        self._first = self._first_uses(tape.calls) if self._fields else {}
        self._paired: set[_Key] = set()
        self._recorded: dict[_Key, str | None] = {}

    def count(self, tool: str) -> bool:
        """Whether the calls of ``tool``, as the record calls it, carry keys."""
        return tool in self._fields

    def _first_uses(self, calls: Iterable[RecordedCall]) -> dict[_Key, int]:
        """Find the decision that used each key first; calls of one decision have no order."""
        first: dict[_Key, int] = {}
        for one in calls:
            if one.call.decision and (key := self._of(one.call.tool, one.arguments)):
                first.setdefault((one.call.tool, key), one.call.decision)
        return first

    def agree(self, place: int, arguments: JsonValue) -> bool:
        """Tell whether the key of a recorded call may stand for that of asked arguments.

        New keys stand for new ones only, and one that was used for its own counterpart.
        """
        call = self._calls[place].call
        then, now = self._both(place, arguments)
        if now and (call.tool, now) in self._recorded:
            return bool(then) and self._recorded[call.tool, now] == then
        return not then or not self._used(place, then)

    def _used(self, place: int, key: str) -> bool:
        """Whether a recorded key was used before its call: by an asked counterpart, or none."""
        call = self._calls[place].call
        first = self._first.get((call.tool, key), call.decision)
        return (call.tool, key) in self._paired or 0 < first < call.decision

    def why_not(self, place: int, arguments: JsonValue) -> str:
        """Say how the keys of two calls disagree that are equal but for them."""
        call = self._calls[place].call
        then, now = self._both(place, arguments)
        asked_before = bool(now) and (call.tool, now) in self._recorded
        recorded = "that of a call before" if then and self._used(place, then) else "a new one"
        asked = "that of a call before" if asked_before else "a new one"
        if asked == recorded:
            recorded, asked = "that of one call before", "that of another"
        return f"its idempotency key: recorded {recorded} (decision {call.decision}), asked {asked}"

    def pair(self, place: int, arguments: JsonValue) -> None:
        """Let the key of asked arguments stand for that of the recorded call from now on."""
        if not self._fields:
            return
        tool = self._calls[place].call.tool
        then, now = self._both(place, arguments)
        if then:
            self._paired.add((tool, then))
        if now:
            self._recorded.setdefault((tool, now), then or None)

    def go_on(self, before: KeysSoFar) -> None:
        """Let the keys that were proposed before stand for what they stood for.

        Nothing else of a proposal counts: what was made is what was recorded.
        """
        for key, then in before._recorded.items():
            if then is not None:
                self._recorded.setdefault(key, then)

    def note(self, tool: str, arguments: JsonValue) -> None:
        """Take note of the key of a call that has no counterpart in the record."""
        if now := self._of(tool, arguments):
            self._recorded.setdefault((tool, now), None)

    def _both(self, place: int, arguments: JsonValue) -> tuple[str, str]:
        recorded = self._calls[place]
        tool = recorded.call.tool
        return self._of(tool, recorded.arguments), self._of(tool, arguments)

    def _of(self, tool: str, arguments: JsonValue) -> str:
        return key_at(arguments, self._fields.get(tool))

"""Which idempotency keys of a replay stand for which of the record.

Which key a write carries does not count; which of a run's writes carry the *same* one does: the
second is another attempt of the first, and with another key it is another payment. So a recorded
key is paired with the key that was asked in its place, and both stand for each other from then on.
A key is an argument, or is computed by the tool; of a planner that only decides nobody says what it
would compute, so the recorded one is taken for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from replay.tape import RecordedCall, Tape
from tracekit.canonical import JsonValue, canonical_text
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
        self._computed = {one.call.tool for one in tape.calls if one.call.idempotency_key}
        self._first = self._first_uses(tape.calls) if self._fields or self._computed else {}
        self._paired: set[_Key] = set()
        self._recorded: dict[_Key, str | None] = {}

    def count(self, tool: str, key: str | None) -> bool:
        """Whether calls of ``tool``, as the record calls it, carry keys, then or now."""
        return tool in self._fields or tool in self._computed or bool(key)

    def _first_uses(self, calls: Iterable[RecordedCall]) -> dict[_Key, int]:
        """Find the decision that used each key first; calls of one decision have no order."""
        first: dict[_Key, int] = {}
        for one in calls:
            if one.call.decision and (key := self._recorded_key(one)):
                first.setdefault((one.call.tool, key), one.call.decision)
        return first

    def agree(self, place: int, arguments: JsonValue, key: str | None) -> bool:
        """Tell whether the key of a recorded call may stand for that of an asked one.

        New keys stand for new ones only, and one that was used for its own counterpart.

        Args:
            place: Where the recorded call stands.
            arguments: Those of the asked call.
            key: What was computed for the asked call, as in ``AskedCall``.
        """
        call = self._calls[place].call
        then, now = self._both(place, arguments, key)
        if now and (call.tool, now) in self._recorded:
            return bool(then) and self._recorded[call.tool, now] == then
        return not then or not self._used(place, then)

    def _used(self, place: int, key: str) -> bool:
        """Whether a recorded key was used before its call: by an asked counterpart, or none."""
        call = self._calls[place].call
        first = self._first.get((call.tool, key), call.decision)
        return (call.tool, key) in self._paired or 0 < first < call.decision

    def why_not(self, place: int, arguments: JsonValue, key: str | None) -> str:
        """Say how the keys of two calls disagree that are equal but for them."""
        call = self._calls[place].call
        then, now = self._both(place, arguments, key)
        asked_before = bool(now) and (call.tool, now) in self._recorded
        recorded = "that of a call before" if then and self._used(place, then) else "a new one"
        asked = "that of a call before" if asked_before else "a new one"
        if asked == recorded:
            recorded, asked = "that of one call before", "that of another"
        return f"its idempotency key: recorded {recorded} (decision {call.decision}), asked {asked}"

    def pair(self, place: int, arguments: JsonValue, key: str | None) -> None:
        """Let the key of an asked call stand for that of the recorded one from now on."""
        if not (self._fields or self._computed or key):
            return
        tool = self._calls[place].call.tool
        then, now = self._both(place, arguments, key)
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

    def note(self, tool: str, arguments: JsonValue, key: str | None) -> None:
        """Take note of the key of a call that has no counterpart in the record."""
        if now := self._of(tool, arguments, key):
            self._recorded.setdefault((tool, now), None)

    def _both(self, place: int, arguments: JsonValue, key: str | None) -> tuple[str, str]:
        recorded = self._calls[place]
        computed = recorded.call.idempotency_key if key is None else key
        return self._recorded_key(recorded), self._of(recorded.call.tool, arguments, computed)

    def _recorded_key(self, recorded: RecordedCall) -> str:
        call = recorded.call
        return self._of(call.tool, recorded.arguments, call.idempotency_key)

    def _of(self, tool: str, arguments: JsonValue, computed: str | None) -> str:
        said, computed = key_at(arguments, self._fields.get(tool)), (computed or "").strip()
        return canonical_text([said, computed]) if computed else said

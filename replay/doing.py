"""Calls of one replay that really run: judged, given a new key, made in a worker, written down.

A write runs in its sandbox only, under a key that no other run has, and only if the guard that
production has lets it through. What a guard wants approved counts as approved where the record
holds the equal write, made. What was decided and done is written into the replay as events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from replay.matching import Answer, AskedCall, not_in_recording, refusal
from replay.scribe import Scribe
from replay.tape import RecordedCall, Tape
from replay.toolhost import GUARD
from replay.workers import KINDS, Bindings, Kind, Worker, observation_of
from tracekit import jsontree
from tracekit.canonical import JsonValue, cut_digest, digest
from tracekit.contract import key_at
from tracekit.errors import PointerNotFound
from tracekit.events import PolicyDecision
from tracekit.redact import find_placeholders
from tracekit.trajectory import Observation, Trajectory

_KEY_DIGITS = 32
_WAITING = ("ask", "escalate")
_KNOWN = ("allow", "deny", "modify", "ask", "escalate", "terminate")


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the guard says to a call."""

    decision: PolicyDecision
    rule: str | None = None
    reason: str | None = None

    @property
    def allowed(self) -> bool:
        """Whether the call may be made."""
        return self.decision == "allow"


class Doing:
    """Makes the calls of one replay that the user lets run."""

    def __init__(
        self,
        workers: Mapping[Kind, Worker],
        bindings: Bindings,
        *,
        scribe: Scribe,
        record: Trajectory,
        tape: Tape | None = None,
    ) -> None:
        self._workers = workers
        self._bindings = bindings
        self._scribe = scribe
        self._record = record
        self._tape = tape
        self._made: Counter[str] = Counter()
        self._columns: dict[int, tuple[Answer, dict[str, Any]]] = {}

    def end(self) -> None:
        """End what still runs."""
        for worker in self._workers.values():
            worker.end()

    def columns(self, answer: Answer) -> Mapping[str, Any]:
        """Return what was decided about the call of ``answer``, as columns of its event."""
        return self._columns.get(id(answer), (answer, {}))[1]

    def run(self, asked: AskedCall, answer: Answer) -> Answer:
        """Make the call that ``answer`` leaves to a worker; that it began is on the disk before."""
        self._scribe.ledger.flush()
        kind = next(kind for kind in KINDS if kind == answer.rung)
        if why := self._why_not(asked, kind):
            said = f"{answer.explanation} ({why})"
            seen = not_in_recording(asked.tool)
            return replace(answer, rung="error", observation=seen, explanation=said)
        if kind == "sandbox":
            return self._in_sandbox(asked, answer)
        return self._with(answer, self._call(kind, asked, asked.arguments, None))

    def _why_not(self, asked: AskedCall, kind: Kind) -> str:
        if self._bindings.of(kind, asked.tool) is None:
            return f"no function is bound for {kind}"
        if _holds_placeholder(_said(asked, asked.arguments)):
            return f"{kind}, but its arguments hold what redaction took out"
        if asked.described or cut_digest(asked.arguments) is not None:
            return f"{kind}, but its arguments hold what could not be kept"
        declared = self._workers[kind].effects.get(asked.tool, "read")
        if kind == "live" and declared not in ("pure", "read"):
            return f"live, but it is declared {declared}"
        return ""

    def _in_sandbox(self, asked: AskedCall, answer: Answer) -> Answer:
        key = self._new_key(asked)
        judged = self.judge(asked, key=key, equal=self._equal(answer))
        implementation = self._bindings.of("sandbox", asked.tool)
        self._note(asked, judged, key=key, sandbox=implementation)
        if not judged.allowed:
            rule, reason = judged.rule or "the guard", judged.reason or judged.decision
            seen = refusal(asked.tool, rule=rule, reason=reason)
            said = f"{asked.tool}: not made, refused by {rule}: {reason}"
            made = replace(answer, observation=seen, explanation=said)
        else:
            arguments = _with_key(asked, key)
            made = self._with(answer, self._call("sandbox", asked, arguments, key))
        columns = {
            "policy_decision": judged.decision,
            "policy_id": judged.rule,
            "policy_reason": judged.reason,
        }
        self._columns[id(made)] = (made, columns)
        return made

    def judge(self, asked: AskedCall, *, key: str | None, equal: RecordedCall | None) -> Judgement:
        """Ask the guard of production about a call; without one it is allowed."""
        if self._bindings.guard is None:
            return Judgement("allow")
        facts = {
            "tool": asked.tool,
            "arguments": dict(asked.arguments),
            "effect": asked.effect,
            "tenant": self._record.tenant,
            "operator": self._record.operator,
            "task_id": self._record.task_id,
            "idempotency_key": key,
            "approved": equal is not None,
        }
        said = self._workers["sandbox"].call({"tool": GUARD, "facts": facts})
        if "decision" not in said:  # its process ended
            return Judgement("deny", "guard", str(said["error"][1]))
        decision = next((known for known in _KNOWN if known == said["decision"]), "deny")
        if decision in _WAITING and equal is not None:
            return Judgement("allow", said["rule"], "approved in the recording, for an equal call")
        reason = said["reason"]
        if decision in _WAITING:
            reason = reason or "it needs an approval, and the recording has none for this call"
        return Judgement(decision, said["rule"], reason)  # type: ignore[arg-type]  # one of the known

    def _equal(self, answer: Answer) -> RecordedCall | None:
        """Return the equal write of the record that was made, if there is one."""
        found = None if self._tape is None else self._tape.find(answer.recorded or "")
        return found if found is not None and found.changed_the_world else None

    def _note(self, asked: AskedCall, judged: Judgement, **told: JsonValue) -> None:
        attributes: dict[str, JsonValue] = {
            "audit": "sandbox write",
            "tool": asked.tool,
            "tenant": self._record.tenant,
            "operator": self._record.operator,
            **told,
        }
        self._scribe.note_policy(
            asked.span_id,
            decision=judged.decision,
            policy_id=judged.rule,
            reason=judged.reason,
            attributes=attributes,
        )

    def _new_key(self, asked: AskedCall) -> str:
        """Derive a key from the replay and the call; equal calls of one replay get several.

        Where the caller gave a key of its own, that decides: another attempt is no other write.
        """
        field = None if asked.contract is None else asked.contract.idempotency_field
        given = key_at(dict(asked.arguments), field)
        made: dict[str, JsonValue] = {"tool": asked.tool, "arguments": dict(asked.arguments)}
        call = digest({"tool": asked.tool, "key": given} if given else made)
        self._made[call] += not given or not self._made[call]
        whole: list[JsonValue] = [self._scribe.run_id, call, self._made[call]]
        return f"replay-{digest(whole).removeprefix('sha256:')[:_KEY_DIGITS]}"

    def _call(
        self, kind: Kind, asked: AskedCall, arguments: Mapping[str, JsonValue], key: str | None
    ) -> Observation:
        bound = self._bindings.functions[kind]
        given = {"value": _said(asked, arguments), "types": dict(asked.types)}
        whose = {name: arguments[name] for name in arguments.keys() - given["value"].keys()}
        named = asked.tool if asked.tool in bound else "*"
        came = self._workers[kind].call(
            {"tool": named, "arguments": given, "key": key, "whose": whose}
        )
        seen = observation_of(came)
        redacted = self._scribe.redactor.redact(seen.value).value
        message = seen.error_message
        if message is not None:
            message = str(self._scribe.redactor.redact(message).value)
        return replace(seen, value=redacted, error_message=message)

    def _with(self, answer: Answer, seen: Observation) -> Answer:
        refused = [text for worker in self._workers.values() for text in worker.refused]
        walls = f"; its walls refused {', '.join(refused[:3])}" if refused else ""
        return replace(answer, observation=seen, explanation=f"{answer.explanation}{walls}")


def _said(asked: AskedCall, arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The arguments that the caller gave: all but what says whose the call is."""
    return dict(arguments) if asked.contract is None else asked.contract.said(arguments)


def _with_key(asked: AskedCall, key: str) -> Mapping[str, JsonValue]:
    """Put the new key where the tool declares that the caller's own stands."""
    pointer = asked.contract.idempotency_field if asked.contract is not None else None
    if pointer is None:
        return asked.arguments
    try:
        jsontree.get(dict(asked.arguments), pointer)
    except PointerNotFound:
        return asked.arguments
    changed = jsontree.replace(dict(asked.arguments), pointer, key)
    assert isinstance(changed, dict)
    return changed


def _holds_placeholder(arguments: Mapping[str, JsonValue]) -> bool:
    leaves = (leaf for _, leaf in jsontree.walk(dict(arguments)))
    return any(isinstance(leaf, str) and find_placeholders(leaf) for leaf in leaves)

"""Writes down a replay: a replay is a run, recorded like any other, by the parent alone.

Facts that come from the planner's process get our run's ids, our numbering and our redaction; what
was answered is taken from the answer, not from what the planner says it was given. The end of the
run is held back until the verdict is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from replay.isolation.protocol import ProtocolError
from replay.ledger import Ledger
from replay.messages import Announced
from tracekit import conditions
from tracekit.canonical import (
    Encoded,
    JsonValue,
    both_bytes,
    digest_bytes,
    parse_json,
)
from tracekit.canonical.plain import Plain
from tracekit.contract import Contract
from tracekit.conversations import Conversations, KeptPrompt
from tracekit.declaring import kept_contract
from tracekit.errors import InvalidJson
from tracekit.events import (
    FACT,
    Blob,
    Fact,
    LlmCallBegun,
    Payload,
    PolicyNoted,
    RunBegun,
    RunEnded,
)
from tracekit.keeping import keep_plain, kept_whole
from tracekit.prompts import hash_prompt
from tracekit.redact import Redactor, Scope
from tracekit.sink import Sink
from tracekit.trajectory import Observation

_PAYLOADS = ("argument", "observation", "before", "after")


@dataclass
class Scribe:
    """Writes the facts of one replay to a sink and keeps them."""

    sink: Sink
    redactor: Redactor
    clock_ns: int
    """Time at which the planner's injected clock began."""
    run_fields: Mapping[str, Any] = field(default_factory=dict)
    """Columns of the run: replay_of, planner, task_id, tags."""
    run_id: str = field(default_factory=conditions.new_run_id)
    trace_id: str = field(default_factory=conditions.new_trace_id)
    root: str | None = None
    """Span of the run, once it has begun."""
    elapsed_ns: int = 0
    """How far the injected clock has come, where the parent drives the planner."""

    def __post_init__(self) -> None:
        self._began_ns = conditions.now_ns()
        self._ours = f'"run_id":"{self.run_id}","trace_id":"{self.trace_id}",'
        self._end: RunEnded | None = None
        self._prompts = Conversations()
        self.ledger = Ledger(self.sink)
        self._heads: dict[tuple[Any, ...], str] = {}
        self._contracts: dict[str, Contract] = {}

    @property
    def over(self) -> bool:
        """Whether the run has ended, so that no later call belongs to it."""
        return self._end is not None

    @property
    def end_fact(self) -> RunEnded | None:
        """The end of the run that is held back until the verdict is known."""
        return self._end

    # --- facts of the planner's process -----------------------------------------------------------

    def adopt(
        self,
        raw: Mapping[str, Any],
        blobs: Mapping[str, str],
        *,
        observation: Observation | None = None,
        fields: Mapping[str, Any] | None = None,
    ) -> tuple[Fact, dict[str, JsonValue]]:
        """Write a fact of the planner's process as one of ours.

        ``blobs`` are the texts that it names; ``observation`` is what the call was answered, and
        stands for what the fact says; ``fields`` are columns that the answer adds. Returned are the
        fact and the redacted values of its payloads by column.
        """
        made = FACT.validate_python(raw)
        changes: dict[str, Any] = {**self._ids(made.timestamp_ns), **(fields or {})}
        prompt = self._prompt(made, blobs)
        found, values, kept = self._payloads(made, blobs, prompt)
        changes |= found
        if observation is not None:
            changes |= self._answered(observation, kept)
        if contract := getattr(made, "contract", None):
            kept.append(self._learn(contract, blobs[contract]))
        if isinstance(made, RunBegun) and self.root is None:
            changes |= self.run_fields  # its process has no key, and names none
            self.root = made.span_id
        own = made.model_copy(update=changes)
        if isinstance(own, RunEnded) and own.span_id == self.root:
            self._end = own
            self.ledger.keep(kept)
        else:
            self.ledger.put(own, kept)
        if prompt is not None:
            self._prompts.written(prompt)
        return own, values

    def _payloads(
        self, made: Fact, blobs: Mapping[str, str], prompt: KeptPrompt | None
    ) -> tuple[dict[str, Any], dict[str, JsonValue], list[Blob]]:
        """Keep the payloads of a fact: its columns, their redacted values, and the blobs."""
        columns: dict[str, Any] = {}
        values: dict[str, JsonValue] = {}
        kept: list[Blob] = []
        if prompt is not None:
            columns = {"argument": prompt.payload, "prompt_hash": prompt.hashes.prompt}
            values["argument"] = prompt.value
            kept += prompt.blobs
        for name, payload in _payloads_of(made, blobs):
            if name not in values:
                value = parse_json(blobs[payload.blob or ""])
                columns[name], values[name] = self._kept(value, payload, kept)
        request = values.get("argument")
        if isinstance(made, LlmCallBegun) and prompt is None and isinstance(request, dict):
            columns["prompt_hash"] = hash_prompt(request).prompt
        return columns, values, kept

    def _prompt(self, made: Fact, blobs: Mapping[str, str]) -> KeptPrompt | None:
        """Keep a request to a model as what it adds to an earlier one, where it can be."""
        if not isinstance(made, LlmCallBegun) or made.argument.state != "captured":
            return None
        text = blobs.get(made.argument.blob or "")
        if text is None:
            return None
        request = Encoded(parse_json(text), made.argument.types)
        return self._prompts.keep(request, self.redactor, Scope())

    def _kept(
        self, value: JsonValue, payload: Payload, kept: list[Blob]
    ) -> tuple[Payload, JsonValue]:
        redacted = self.redactor.redact(value).value
        name, blob = _named(redacted)
        kept.append(blob)
        return payload.model_copy(update={"digest": name, "blob": blob.digest}), redacted

    def _answered(self, observation: Observation, kept: list[Blob]) -> dict[str, Any]:
        name, blob = _named(observation.value)
        kept.append(blob)
        return {
            "observation": Payload(
                state=observation.state,
                digest=name,
                blob=blob.digest,
                types=dict(observation.types),
            ),
            "status": "error" if observation.is_error else "ok",
            "error_type": observation.error_type,
            "error_message": observation.error_message,
        }

    # --- calls that are answered ------------------------------------------------------------------

    def begin_call(
        self, call: Announced, argument: str | Plain, contract: str | None
    ) -> tuple[JsonValue, str]:
        """Write that a call began; return its arguments, redacted, and their digest.

        Raises:
            ProtocolError: its contract is not known, or its arguments are not JSON.
        """
        if call.contract not in self._contracts:
            self._learn_first(call.contract, contract)
        value, plain = self._argument(argument)
        key = (call.kind, call.actor, call.effect, call.contract)
        head = self._heads.get(key)
        if head is None:
            said = {"actor": call.actor, "effect": call.effect, "contract": call.contract}
            head = self._heads[key] = _head(f"{call.kind}.begun", said)
        self._put_later(call, head, 0, "argument", plain, call.contract)
        return value, plain[0]

    def _argument(self, argument: str | Plain) -> tuple[JsonValue, tuple[str, Blob]]:
        """Read arguments and keep what is not secret of them; a `Plain` holds none."""
        if not isinstance(argument, str):
            return parse_json(argument.data), kept_whole(argument)
        try:
            value = parse_json(argument)
        except InvalidJson as error:
            raise ProtocolError("a call whose arguments are not JSON") from error
        plain = keep_plain(value, self.redactor, Scope())
        if plain is not None:
            return value, plain
        value = self.redactor.redact(value).value
        return value, _named(value)

    def end_call(
        self, call: Announced, value: JsonValue, *, after_ns: int, fields: Mapping[str, Any]
    ) -> None:
        """Write that a call was answered with a plain value."""
        key = (call.kind, *fields.values())
        head = self._heads.get(key)
        if head is None:
            said = {"status": "ok", "observation_is_error": False, "result_category": "ok"}
            head = self._heads[key] = _head(f"{call.kind}.ended", {**said, **fields})
        self._put_later(call, head, after_ns, "observation", _named(value))

    def contract(self, name: str | None) -> Contract | None:
        """The contract of that digest, if a call with it was written."""
        return self._contracts.get(name or "")

    def _learn_first(self, name: str, text: str | None) -> None:
        if text is None:
            raise ProtocolError("a call without its contract")
        try:
            self._learn(name, text)
        except ValueError as error:
            raise ProtocolError("a call with a contract that is none") from error

    def _learn(self, name: str, text: str) -> Blob:
        """Keep a contract that the planner's process told of, and its text."""
        blob = _checked(name, text)
        if name not in self._contracts:
            self._contracts[name] = Contract.model_validate_json(blob.data)
            self.ledger.keep((blob,))
        return blob

    def _put_later(
        self,
        call: Announced,
        head: str,
        after_ns: int,
        side: str,
        kept: tuple[str, Blob],
        needed: str | None = None,
    ) -> None:
        digest, blob = kept
        writer, seq = self.sink.stamp()
        at_ns = self._at(call.timestamp_ns + after_ns)
        line = (
            f'{head}"writer":"{writer}","seq":{seq},"timestamp_ns":{at_ns},{self._ours}'
            f'"span_id":"{call.span_id}","parent_span_id":"{call.parent_span_id}",'
            f'"{side}":{{"digest":"{digest}","blob":"{blob.digest}"}}}}\n'
        )
        self.ledger.put_later(line.encode(), at_ns, blob, needed)

    # --- facts of our own -------------------------------------------------------------------------

    def begin(self, fact: type[Fact], *, parent: str | None, **fields: Any) -> str:
        """Write that an operation began; return its span."""
        span = conditions.new_span_id()
        kept: list[Blob] = []
        if "argument" in fields:
            fields["argument"], _ = self._kept(fields["argument"], Payload(), kept)
        if contract := fields.pop("contract_of", None):
            kept.append(kept_contract(contract.model_dump_json(), self.redactor))
            fields["contract"] = kept[-1].digest
        if fact is RunBegun:
            fields |= self.run_fields
            self.root = span
        self.ledger.put(self._made(fact, span, parent, fields), kept)
        return span

    def end(
        self,
        fact: type[Fact],
        span: str,
        *,
        parent: str | None,
        observation: Observation | None,
        **fields: Any,
    ) -> None:
        """Write that the operation of ``span`` came back with ``observation``, or with nothing."""
        kept: list[Blob] = []
        if observation is not None and observation.state != "absent":
            fields = {**self._answered(observation, kept), **fields}
        else:
            failed = observation is not None and observation.is_error
            fields = {"status": "error" if failed else "ok", **fields}
            if observation is not None:
                fields["error_type"] = observation.error_type
                fields["error_message"] = observation.error_message
        made = self._made(fact, span, parent, fields)
        if isinstance(made, RunEnded):
            self._end = made
            self.ledger.keep(kept)
        else:
            self.ledger.put(made, kept)

    def note(self, fact: type[Fact], **fields: Any) -> None:
        """Write a point event of the run."""
        kept: list[Blob] = []
        if "observation" in fields:
            fields["observation"], _ = self._kept(fields["observation"], Payload(), kept)
        self.ledger.put(self._made(fact, conditions.new_span_id(), self.root, fields), kept)

    def note_policy(self, span: str, *, attributes: Mapping[str, JsonValue], **fields: Any) -> None:
        """Write what a policy decided about the call of ``span``, just after what was last."""
        made = self._made(PolicyNoted, conditions.new_span_id(), span, fields)
        when = max(made.timestamp_ns, self.ledger.last_ns)
        self.ledger.put(
            made.model_copy(update={"timestamp_ns": when, "attributes": attributes}), []
        )

    def finish(self, *, verdict: str, fidelity: dict[str, JsonValue]) -> None:
        """Write the end of the run, with the verdict on it."""
        if self._end is None:
            if self.root is None:
                self.begin(RunBegun, parent=None, actor="planner")
            self.end(
                RunEnded,
                self.root or "",
                parent=None,
                observation=Observation(is_error=True, error_type="planner_ended_early"),
            )
        assert self._end is not None
        changes = {"verdict": verdict, "fidelity": fidelity}
        answer = self.ledger.load(self._end.observation.blob or "")
        self.ledger.put(self._end.model_copy(update=changes), [answer] if answer else [])

    def _made(
        self, fact: type[Fact], span: str, parent: str | None, fields: Mapping[str, Any]
    ) -> Fact:
        ids = self._ids(self.clock_ns + self.elapsed_ns)
        return fact(**{**ids, "span_id": span, "parent_span_id": parent, **fields})

    def _ids(self, timestamp_ns: int) -> dict[str, Any]:
        writer, seq = self.sink.stamp()
        return {
            "writer": writer,
            "seq": seq,
            "run_id": self.run_id,
            "trace_id": self.trace_id,
            "timestamp_ns": self._at(timestamp_ns),
        }

    def _at(self, timestamp_ns: int) -> int:
        """A time of the planner's clock in ours."""
        return self._began_ns + max(0, timestamp_ns - self.clock_ns)


def _head(fact: str, said: Mapping[str, Any]) -> str:
    """The beginning of a line: what many facts have in common, written once."""
    return orjson.dumps({"fact": fact, **said}).decode()[:-1] + ","


def _payloads_of(fact: Fact, blobs: Mapping[str, str]) -> list[tuple[str, Payload]]:
    """The payloads of ``fact`` whose text came with it, by column."""
    found = [(name, getattr(fact, name, None)) for name in _PAYLOADS]
    return [(name, p) for name, p in found if isinstance(p, Payload) and p.blob in blobs]


def _named(value: JsonValue) -> tuple[str, Blob]:
    """The digest of a value that is kept as it is, and the blob with its text."""
    data, canonical = both_bytes(value)
    name = digest_bytes(data)
    digest = name if canonical == data else digest_bytes(canonical)
    return digest, Blob(name, "application/json", data)


def _checked(name: str, text: str) -> Blob:
    blob = Blob(
        digest=digest_bytes(text.encode()), media_type="application/json", data=text.encode()
    )
    if blob.digest != name:
        raise ValueError("a contract does not have the digest that it is named by")
    return blob

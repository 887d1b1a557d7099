"""Turns of a chat log to rows of the event model: the part that all chat-log importers share.

The log's order is the run's order, so ``seq`` follows the file. A tool row stands where its call
was asked for and carries the result that came back; a result that no recorded turn asked for is
kept as a row of its own, at its place, without ``llm_span_id``. Ids are digests of the run id and
the position, the trace id also of the content, so the same log always gives the same rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tracekit.canonical import (
    JsonValue,
    digest,
    digest_bytes,
    digest_raw_text,
    json_bytes,
    json_text,
    parse_json,
    parse_json_noting,
)
from tracekit.contract import Contract
from tracekit.errors import InvalidJson
from tracekit.events import ActorKind, Blob, ContentState, Effect, Event, EventType, event_id
from tracekit.importers.effects import effect_of
from tracekit.importers.model import ImportedRun, ImportOptions
from tracekit.importers.turns import AskedCall, Result, RunHead, Turn
from tracekit.redact import Redacted, Scope

_ERROR_CLASS = re.compile(r"([A-Za-z_][\w.]*):")


def build_run(head: RunHead, turns: Sequence[Turn], options: ImportOptions) -> ImportedRun:
    """Make the rows and blobs of one run."""
    return _Rows(head, options).build(turns)


class _Rows:
    def __init__(self, head: RunHead, options: ImportOptions) -> None:
        self.head = head
        self.options = options
        self.trace_id = self._id(f"\n{head.content}", width=32)
        self.root = self._id("/run", width=16)
        self.rows: list[Event] = []
        self.blobs: dict[str, Blob] = {}
        self.tools: dict[str, Effect] = dict(head.effects)
        self.scope = Scope()

    def build(self, turns: Sequence[Turn]) -> ImportedRun:
        self._learn_secrets(turns)
        results, answered = _pair(turns)
        first_user = next((n for n, turn in enumerate(turns) if turn.role == "user"), None)
        self._run(turns, first_user, answered)
        for number, turn in enumerate(turns):
            match turn.role:
                case "assistant":
                    self._assistant(number, turn, results)
                case "tool":
                    if number not in answered:
                        self._unasked(number, turn)
                case "system" | "user":
                    if number != first_user:
                        self._message(number, turn)
        return ImportedRun(tuple(self.rows), tuple(self.blobs.values()))

    def _learn_secrets(self, turns: Sequence[Turn]) -> None:
        """Learn the secrets that arguments name as such, before any text is kept.

        A one-time password stands bare in a mail before it is passed on in a field of that name.
        """
        for turn in turns:
            for call in turn.calls:
                self._arguments(call)
        self.blobs.clear()

    def _run(self, turns: Sequence[Turn], first_user: int | None, answered: set[int]) -> None:
        head = self.head
        columns: dict[str, Any] = {}
        if first_user is not None:
            prompt = self._clean({"prompt": _spoken(turns[first_user].content)})
            columns |= self._json("argument", prompt)
        last = turns[-1] if turns else None
        answers = last is not None and last.role == "assistant" and not last.calls
        if last is not None and answers:
            columns |= self._content("observation", last.content)
        finished = head.complete and sum(len(turn.calls) for turn in turns) == len(answered)
        columns["status"] = "error" if head.error else "ok" if finished else "unset"
        if head.error:
            columns |= {"error_type": "run_error", "error_message": self._text(head.error)}
        if head.started_ns is not None and head.latency_ns is not None:
            columns["ts_end_ns"] = head.started_ns + head.latency_ns
        for call in (call for turn in turns for call in turn.calls):
            self._effect(call.tool)
        for name in (turn.result.tool for turn in turns if turn.result and turn.result.tool):
            self._effect(name)
        self._row(
            "run",
            self.root,
            head.agent,
            "agent",
            ref="",
            attributes={
                "versions": dict(head.versions),
                "tags": list(dict.fromkeys([*head.tags, *self.options.tags])),
                "labels": self._clean(dict(head.labels)).value,
                "tools": self._contracts(),
                "source": self._clean(dict(head.attributes)).value,
                **(self.options.redactor.key_attribute if self.options.redactor else {}),
            },
            ts_start_ns=head.started_ns,
            latency_ns=head.latency_ns,
            task_id=head.task_id,
            parent_span_id=None,
            **columns,
        )

    def _contracts(self) -> JsonValue:
        contracts: list[JsonValue] = [
            Contract(name=name, effect=effect).model_dump(mode="json")
            for name, effect in sorted(self.tools.items())
        ]
        return self._keep(json_bytes(contracts), "application/json") if contracts else None

    def _assistant(self, number: int, turn: Turn, results: Mapping[tuple[int, int], Turn]) -> None:
        span = self._id(f"/{number}", width=16)
        arguments = [self._arguments(call) for call in turn.calls]
        content = self._clean(turn.content)
        reply: dict[str, JsonValue] = {"role": "assistant", "content": content.value}
        if turn.calls:
            reply["tool_calls"] = [
                {
                    "id": call.call_id,
                    "type": "function",
                    "function": {"name": call.tool, "arguments": text},
                }
                for call, (text, _) in zip(turn.calls, arguments, strict=True)
            ]
        self._row(
            "llm_call",
            span,
            self.head.model or "model",
            "model",
            ref=turn.ref,
            attributes=turn.attributes,
            status="ok",
            model=self.head.model,
            model_requested=self.head.model,
            **self._json("observation", replace(content, value=reply)),
        )
        for index, (call, (_, columns)) in enumerate(zip(turn.calls, arguments, strict=True)):
            result = results.get((number, index))
            self._tool(
                self._id(f"/{number}.{index}", width=16),
                call.tool,
                turn=result,
                ref=result.ref if result else turn.ref,
                attributes={**call.attributes, **(result.attributes if result else {})},
                tool_call_id=call.call_id,
                llm_span_id=span,
                call_index=index,
                **columns,
            )

    def _unasked(self, number: int, turn: Turn) -> None:
        result = turn.result or Result(None, None)
        _, columns = self._arguments(AskedCall(result.tool or "unknown", result.arguments))
        self._tool(
            self._id(f"/{number}", width=16),
            result.tool or "unknown",
            turn=turn,
            ref=turn.ref,
            attributes={**turn.attributes, "asked_by": "no recorded turn"},
            tool_call_id=result.call_id,
            **columns,
        )

    def _tool(
        self,
        span: str,
        tool: str,
        *,
        turn: Turn | None,
        attributes: Mapping[str, JsonValue],
        **columns: Any,
    ) -> None:
        if turn is not None and turn.result is not None:
            columns |= self._content("observation", turn.content)
            columns |= self._outcome(turn.result)
        self._row(
            "tool_call",
            span,
            tool,
            "tool",
            tool_name=tool,
            effect=self._effect(tool),
            attributes=attributes,
            **columns,
        )

    def _outcome(self, result: Result) -> dict[str, Any]:
        if result.error is None:
            return {"status": "ok", "observation_is_error": False}
        message = self._text(result.error)
        columns: dict[str, Any] = {"status": "error", "observation_is_error": True}
        columns |= {"error_type": _error_class(message), "error_message": message}
        if result.denied:
            columns |= {"policy_decision": "deny", "policy_reason": message}
            columns["result_category"] = "rejected"
        return columns

    def _message(self, number: int, turn: Turn) -> None:
        columns: dict[str, Any] = {"status": "ok"}
        if turn.error:
            message = self._text(turn.error)
            columns = {"status": "error", "error_message": message}
            columns["error_type"] = _error_class(message)
        kind: ActorKind = "system" if turn.role == "system" else "user"
        self._row(
            "message",
            self._id(f"/{number}", width=16),
            turn.role,
            kind,
            ref=turn.ref,
            attributes=turn.attributes,
            **columns,
            **self._content("observation", turn.content),
        )

    def _row(
        self,
        kind: EventType,
        span: str,
        actor: str,
        actor_kind: ActorKind,
        *,
        ref: str,
        attributes: Mapping[str, JsonValue],
        **columns: Any,
    ) -> None:
        head, seq = self.head, len(self.rows)
        kept: dict[str, JsonValue] = {
            name: value for name, value in attributes.items() if value not in (None, {})
        }
        columns.setdefault("parent_span_id", self.root)
        columns.setdefault("ts_start_ns", None)
        self.rows.append(
            Event(
                event_id=event_id(head.source_format, self.trace_id, span, kind, seq),
                run_id=head.run_id,
                trace_id=self.trace_id,
                span_id=span,
                event_type=kind,
                writer=f"import/{head.run_id}",
                seq=seq,
                actor=actor,
                actor_kind=actor_kind,
                attributes=json_text(kept),
                source_format=head.source_format,
                source_version=head.source_version,
                source_ref=f"{head.source_ref}#{ref}",
                **columns,
            )
        )

    def _effect(self, tool: str) -> Effect:
        if tool not in self.tools:
            self.tools[tool] = effect_of(tool, self.options.effects)
        return self.tools[tool]

    def _arguments(self, call: AskedCall) -> tuple[str, dict[str, Any]]:
        """Give a call's arguments as the text that a reply carries, and as columns."""
        if call.text is None:
            cleaned = self._clean(call.arguments)
            return json_text(cleaned.value), self._json("argument", cleaned)
        try:
            parsed = parse_json_noting(call.text).value
        except InvalidJson:
            text = self._text(call.text)
            blob = self._keep(text.encode(), "text/plain")
            return text, {
                "argument_digest": digest_raw_text(text),
                "argument_state": "invalid_json",
                "argument_blob": blob,
            }
        cleaned = self._clean(parsed)
        same = cleaned.count == 0 and cleaned.failure is None
        text = call.text if same else json_text(cleaned.value)
        return text, {
            "argument_digest": digest(cleaned.value),
            "argument_state": _state(cleaned),
            "argument_blob": self._keep(text.encode(), "application/json"),
        }

    def _content(self, side: str, content: JsonValue) -> dict[str, Any]:
        """Keep what was said: text as text, parts as JSON; nothing where the log has nothing."""
        cleaned = self._clean(content)
        if cleaned.value is None:
            return {}
        if not isinstance(cleaned.value, str):
            return self._json(side, cleaned)
        if _reads_as_json(cleaned.value):
            return self._json(side, cleaned)
        return {
            f"{side}_digest": digest(cleaned.value),
            f"{side}_state": _state(cleaned),
            f"{side}_blob": self._keep(cleaned.value.encode(), "text/plain"),
        }

    def _json(self, side: str, cleaned: Redacted) -> dict[str, Any]:
        return {
            f"{side}_digest": digest(cleaned.value),
            f"{side}_state": _state(cleaned),
            f"{side}_blob": self._keep(json_bytes(cleaned.value), "application/json"),
        }

    def _keep(self, data: bytes, media_type: str) -> str:
        name = digest_bytes(data)
        self.blobs.setdefault(name, Blob(digest=name, media_type=media_type, data=data))
        return name

    def _clean(self, value: JsonValue) -> Redacted:
        if self.options.redactor is None:
            return Redacted(value, {})
        return self.options.redactor.redact(value, scope=self.scope)

    def _text(self, text: str) -> str:
        return str(self._clean(text).value)

    def _id(self, place: str, *, width: int) -> str:
        text = f"{self.head.source_format}\n{self.head.run_id}{place}"
        return digest_bytes(text.encode()).removeprefix("sha256:")[:width]


def _pair(turns: Sequence[Turn]) -> tuple[dict[tuple[int, int], Turn], set[int]]:
    """Find the result of each call: by id, else by tool and arguments, else not at all.

    Ids may be used again later in a run, so a result goes to the earliest call that still waits.
    """
    waiting: list[tuple[int, int, AskedCall]] = []
    results: dict[tuple[int, int], Turn] = {}
    answered: set[int] = set()
    for number, turn in enumerate(turns):
        waiting += [(number, index, call) for index, call in enumerate(turn.calls)]
        if turn.result is None:
            continue
        found = next((w for w in waiting if _answers(turn.result, w[2])), None)
        if found is not None:
            waiting.remove(found)
            results[found[0], found[1]] = turn
            answered.add(number)
    return results, answered


def _answers(result: Result, call: AskedCall) -> bool:
    if result.call_id is not None or call.call_id is not None:
        return result.call_id == call.call_id
    return result.tool == call.tool and result.arguments == call.arguments


def _state(cleaned: Redacted) -> ContentState:
    """Tell whether a value can be replayed: not where a rule failed and took all of it out."""
    return "captured" if cleaned.failure is None else "redacted"


def _reads_as_json(text: str) -> bool:
    """Tell whether bare ``text`` could be taken for a JSON value.

    Blobs are named by their bytes alone: the text ``{}`` and the object ``{}`` would be one blob.
    Such a text is kept as a JSON string instead.
    """
    try:
        parse_json(text)
    except InvalidJson:
        return False
    return True


def _spoken(content: JsonValue) -> JsonValue:
    return "" if content is None else content


def _error_class(message: str) -> str:
    found = _ERROR_CLASS.match(message)
    return found.group(1) if found else "error"

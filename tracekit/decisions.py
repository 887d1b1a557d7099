"""Calls and replies to decisions.

A reply's tool calls are joined to the calls it led to: by the model's span where the record has it,
else by tool and arguments, in the order of the reply. Calls that no reply explains (glue code) are
decisions of their own; those that overlap in time are one.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tracekit.canonical import JsonValue, canonical_bytes, parse_json
from tracekit.errors import InvalidJson
from tracekit.events import Event
from tracekit.items import assistant_message
from tracekit.trajectory import Call, Decision, ModelCall, Observation


@dataclass
class Grouping:
    """Groups planned calls and replies into decisions, in the order of the run."""

    rows: Sequence[Event]
    calls: Sequence[Call]
    models: Sequence[ModelCall]
    groups: list[_Group] = field(default_factory=list)

    def decisions(self) -> list[Decision]:
        """Give the decisions, not numbered yet."""
        calls = {call.event_id: call for call in self.calls}
        models = {m.event_id: m for m in self.models if m.covered_by is None}
        pending = Pending()
        at: dict[str, int] = {}
        for row in self.rows:
            if model := models.get(row.event_id):
                at[model.span_id] = place = len(self.groups)
                self.groups.append(_Group(said(model.reply), model.event_id))
                asked = requested(model, place, parent=row.parent_span_id)
                pending.replace(row.parent_span_id, place, asked)
            elif call := calls.get(row.event_id):
                self._place(call, row, at.get(row.llm_span_id or ""), pending)
        return [
            Decision(0, calls=tuple(group.calls), message=group.message, model_call=group.reply)
            for group in self.groups
            if group.calls or group.message is not None
        ]

    def _place(self, call: Call, row: Event, place: int | None, pending: Pending) -> None:
        wanted = pending.take(call, parent=row.parent_span_id, group=place)
        if wanted is not None:
            place = wanted.group
        if place is None:
            place = -1
            if not self.groups or not self.groups[-1].overlaps(call):
                self.groups.append(_Group())
        self.groups[place].add(call)


@dataclass
class _Group:
    """A decision that more calls may join."""

    message: JsonValue = None
    reply: str | None = None
    calls: list[Call] = field(default_factory=list)
    ends_ns: float = -math.inf
    """When the last of the calls that tell when they began was over; infinity: not yet."""

    def add(self, call: Call) -> None:
        self.calls.append(call)
        if call.ts_start_ns is not None:
            self.ends_ns = max(self.ends_ns, math.inf if call.ts_end_ns is None else call.ts_end_ns)

    def overlaps(self, call: Call) -> bool:
        """Whether these are calls of glue code and one was not over when ``call`` began."""
        if self.reply is not None or not self.calls or self.calls[-1].path != call.path:
            return False
        return call.ts_start_ns is not None and self.ends_ns > call.ts_start_ns


@dataclass(frozen=True, eq=False)
class _Requested:
    """A tool call that a reply asked for."""

    tool: str
    arguments: JsonValue
    group: int
    parent: str | None
    """Span of the operation in which the model was asked."""
    position: int
    """Its place in the reply."""

    @property
    def keys(self) -> Iterator[_Key]:
        """What it is looked for by: anything at all, the tool, and the tool with its arguments."""
        yield ()
        yield (self.tool,)
        if isinstance(self.arguments, dict):
            yield _with_arguments(self.tool, frozenset(self.arguments), self.arguments)


_Key = tuple[str | frozenset[str] | bytes, ...]


def _with_arguments(tool: str, names: frozenset[str], arguments: dict[str, JsonValue]) -> _Key:
    return tool, names, canonical_bytes({name: arguments[name] for name in names})


class Pending:
    """The tool calls that replies asked for and that no tool row has been joined to yet.

    An operation's next reply replaces what its last one asked for; agents that work side by side
    keep their own. A request is looked up by what it asks for, never sought among all of them. A
    call may have more arguments than were asked for, its defaults, so it is looked up once for
    each set of names with which its tool was asked for; these are few. Ids are not asked: not each
    record has them, and what tells two requests of one reply apart decides nothing here.
    """

    def __init__(self) -> None:
        self.looked_at = 0
        """How many requests were looked at so far: what the joining costs."""
        self._last: dict[str | None, int] = {}
        self._queues: dict[tuple[int, _Key], deque[_Requested]] = {}
        self._groups: defaultdict[_Key, list[int]] = defaultdict(list)
        self._names: defaultdict[str, set[frozenset[str]]] = defaultdict(set)
        self._gone: set[_Requested] = set()

    def replace(self, parent: str | None, group: int, asked: Sequence[_Requested]) -> None:
        """Wait for what a reply asks for, and no longer for what the one before it did."""
        self._gone.update(self._queues.get((self._last.get(parent, -1), ()), ()))
        self._last[parent] = group
        for request in asked:
            if isinstance(request.arguments, dict):
                self._names[request.tool].add(frozenset(request.arguments))
            for key in request.keys:
                queue = self._queues.setdefault((group, key), deque())
                if not queue:
                    self._groups[key].append(group)
                queue.append(request)

    def take(self, call: Call, *, parent: str | None, group: int | None) -> _Requested | None:
        """Take out what a reply asked for and this call is; None where no reply did.

        Best of the same agent, and of the last reply; where the record names the reply, of that.
        """
        latest = self._newest(())
        if latest is None:
            return None
        tool = plain_name(call.tool)
        own = self._last.get(parent, -1) if group is None else group
        keys = list(self._fitting(tool, call.arguments))
        found = _earliest(self._first(own, key) for key in keys)
        if found is None and group is None:
            found = _earliest(self._newest(key) for key in keys)
        found = found or self._likely(own, latest, tool, call_parent=parent, told=group is not None)
        if found is not None:
            self._gone.add(found)
        return found

    def _likely(
        self, own: int, latest: _Requested, tool: str, *, call_parent: str | None, told: bool
    ) -> _Requested | None:
        """What was asked of the same tool with other arguments: a planner may change them."""
        found = self._first(own, (tool,))
        if found is None and not told:
            # Where the model is asked inside a step of its own, its last reply is the agent's.
            return self._first(latest.group, (tool,))
        if found is not None and found.parent != call_parent and found.group != latest.group:
            return None
        return found

    def _fitting(self, tool: str, arguments: JsonValue) -> Iterator[_Key]:
        """The keys of requests that a call of ``tool`` with these arguments does what they ask."""
        if isinstance(arguments, dict):
            for names in self._names.get(tool, ()):
                if names <= arguments.keys():
                    yield _with_arguments(tool, names, arguments)

    def _newest(self, key: _Key) -> _Requested | None:
        """The first request of the last reply that has one with that key."""
        groups = self._groups.get(key, [])
        while groups:
            if found := self._first(groups[-1], key):
                return found
            groups.pop()
        return None

    def _first(self, group: int, key: _Key) -> _Requested | None:
        """The first request with that key which a reply is waiting for."""
        queue = self._queues.get((group, key))
        while queue:
            self.looked_at += 1
            if queue[0] not in self._gone:
                return queue[0]
            queue.popleft()
        return None


def _earliest(found: Iterable[_Requested | None]) -> _Requested | None:
    """The first of the last reply's."""
    known = [request for request in found if request is not None]
    return min(known, key=lambda request: (-request.group, request.position), default=None)


def plain_name(tool: str) -> str:
    """A tool's name in the alphabet that model providers allow (``a.b`` is offered as ``a_b``)."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", tool)


def requested(model: ModelCall, group: int, *, parent: str | None = None) -> list[_Requested]:
    """The tool calls that a reply asks for, in its order."""
    found: list[_Requested] = []
    for call in reply_message(model.reply.value).get("tool_calls") or []:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            continue
        arguments: JsonValue = function.get("arguments")
        if isinstance(arguments, str):
            try:
                arguments = parse_json(arguments) if arguments else {}
            except InvalidJson:
                arguments = None
        tool = plain_name(str(function.get("name", "")))
        found.append(_Requested(tool, arguments, group, parent, len(found)))
    return found


def reply_message(reply: JsonValue) -> dict[str, Any]:
    """The assistant message inside a reply, whether it is the message or a whole response."""
    if not isinstance(reply, dict):
        return {}
    choices = reply.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        message = choices[0].get("message")
        return message if isinstance(message, dict) else {}
    output = reply.get("output")
    if isinstance(output, list) and reply.get("object") == "response":
        return assistant_message(output)
    return reply if reply.get("role") == "assistant" else {}


def said(reply: Observation) -> JsonValue:
    """What a reply says in words; None where it only calls tools or is no text."""
    if isinstance(reply.value, str):
        return reply.value or None
    content = reply_message(reply.value).get("content")
    return content or None


def with_answer(decisions: list[Decision], answer: Observation, status: str) -> list[Decision]:
    """Mark the decision that answers, or add it where glue code composed the answer."""
    if answer.state == "absent" or answer.is_error or status == "error":
        return decisions
    if decisions and not decisions[-1].calls:
        return [*decisions[:-1], replace(decisions[-1], message=answer.value, final=True)]
    if answer.value is None:
        return decisions
    return [*decisions, Decision(0, message=answer.value, final=True)]


def number(decisions: list[Decision]) -> tuple[Decision, ...]:
    """Number decisions from 1 and tell their calls."""
    return tuple(
        Decision(
            index=index,
            calls=tuple(
                replace(call, decision=index, position=position)
                for position, call in enumerate(decision.calls)
            ),
            message=decision.message,
            model_call=decision.model_call,
            final=decision.final,
            tainted=any(call.tainted for call in decision.calls),
            policy=decision.policy,
        )
        for index, decision in enumerate(decisions, 1)
    )

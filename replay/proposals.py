"""What is decided at one point, compared: the recorded decision and the one that is proposed.

An action is its tool calls, or its words where it calls nothing. Calls that are issued together
have no order, and are spelt by the recorded contract, so that a default left out is no change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from replay.matching import ArgumentMap
from replay.matching.binding import renamed
from replay.result import DecisionChange, LockedBy, LockedDecision
from replay.tape import Tape
from tracekit import jsontree
from tracekit.canonical import JsonValue, as_compared, canonical_text, digest, json_text
from tracekit.contract import Contract
from tracekit.decisions import plain_name, requested, said
from tracekit.trajectory import Call, Decision, ModelCall, Observation

_SHOWN = 3
_LONGEST = 60


def decision_of(decision: Decision) -> JsonValue:
    """What a recorded decision comes to, in the form in which planners decide."""
    calls: list[JsonValue] = [
        {"tool": call.tool, "arguments": as_compared(call.arguments, call.argument_types)}
        for call in decision.calls
    ]
    return {"calls": calls, "message": decision.message}


def proposal_of(recorded: ModelCall) -> JsonValue:
    """The action that a recorded reply proposes."""
    return proposal_of_reply(recorded.reply)


def proposal_of_reply(reply: Observation) -> JsonValue:
    """The action that a reply proposes: its tool calls and its words; else the reply as it is."""
    if reply.is_error:
        return {"error": reply.error_type, "message": reply.error_message}
    call = ModelCall("", "", None, None, reply)
    calls: list[JsonValue] = [
        {"tool": wanted.tool, "arguments": wanted.arguments} for wanted in requested(call, 0)
    ]
    words = said(reply)
    if not calls and words is None:
        return reply.value
    return {"calls": calls, "message": words}


def compare_decisions(
    number: int,
    then: JsonValue,
    proposed: JsonValue,
    tape: Tape,
    *,
    by: LockedBy,
    maps: Sequence[ArgumentMap] = (),
    declared: Contract | None = None,
) -> LockedDecision:
    """Compare what is proposed now with what was recorded; None stands for no proposal.

    ``declared`` is the contract of a call that code makes, whose defaults are filled in.
    """
    now = _as_named(proposed, tape, maps, declared) if maps else proposed
    whose = by == "code" or (_say_whose(then, tape) and _say_whose(now, tape))
    spell = _speller(tape, whose=whose)
    change, explanation = _compare(then, now, spell)
    return LockedDecision(
        number=number,
        recorded=then,
        proposed=proposed,
        same=change in ("same", "other words"),
        change=change,
        explanation=explanation,
        by=by,
        writes=_new_writes([spell(call) for call in _calls(now)], tape, by),
    )


def _as_named(
    decision: JsonValue, tape: Tape, maps: Sequence[ArgumentMap], declared: Contract | None
) -> JsonValue:
    """Name the calls and arguments that were renamed as the record does."""
    if not isinstance(decision, dict) or not _is_action(decision):
        return decision
    calls: list[JsonValue] = []
    for call in _calls(decision):
        tool, arguments = call["tool"], call["arguments"]
        if isinstance(arguments, dict):
            tool, arguments = renamed(tool, arguments, tape, maps, declared)
        calls.append({"tool": tool, "arguments": arguments})
    return {**decision, "calls": calls}


def left_out(number: int, call: Call) -> LockedDecision:
    """A recorded call of an agent's own code, which the planner came to its end without."""
    made: dict[str, JsonValue] = {"tool": call.tool, "arguments": call.arguments}
    return LockedDecision(
        number=number,
        recorded={"calls": [made], "message": None},
        proposed=None,
        same=False,
        change="fewer calls",
        explanation=f"recorded {_short(_call_text(made))}, which is not called",
        by="code",
    )


Spell = Callable[[Any], JsonValue]


def _compare(then: JsonValue, now: JsonValue, spell: Spell) -> tuple[DecisionChange, str]:
    if now is None:
        return "no proposal", "nothing is proposed: prompt changed, no model"
    if not (_is_action(then) and _is_action(now)):
        same = digest(then) == digest(now)
        return ("same", "") if same else ("other answer", _against(then, now))
    old, new = _split([spell(c) for c in _calls(then)], [spell(c) for c in _calls(now)])
    words = _words(then) == _words(now)
    if not _calls(then) and not _calls(now):
        return ("same", "") if words else ("other answer", _against(_words(then), _words(now)))
    if not old and not new:
        return ("same", "") if words else ("other words", "the same calls, in other words")
    if not _calls(now):
        return "answer instead of call", f"recorded {_listed(old)}, proposed {_short(_words(now))}"
    if not _calls(then):
        return "call instead of answer", f"recorded {_short(_words(then))}, proposed {_listed(new)}"
    return _changed(old, new)


def _changed(old: Sequence[Any], new: Sequence[Any]) -> tuple[DecisionChange, str]:
    """Name the change between the calls that have no counterpart."""
    if not new:
        return "fewer calls", f"recorded {_listed(old)}, which is not proposed"
    if not old:
        return "more calls", f"proposed {_listed(new)} beside those recorded"
    if sorted(c["tool"] for c in old) != sorted(c["tool"] for c in new):
        return "other tool", f"recorded {_listed(old)}, proposed {_listed(new)}"
    pairs = zip(_by_tool(old), _by_tool(new), strict=True)
    told = [_fields(left, right) for left, right in pairs]
    return "changed arguments", "; ".join(told[:_SHOWN])


def _fields(left: Any, right: Any) -> str:
    found = jsontree.differences(left["arguments"], right["arguments"])
    parts = [
        f"{one.pointer or '/'} recorded {_short(one.left)}, proposed {_short(one.right)}"
        for one in found[:_SHOWN]
    ]
    return f"{left['tool']}: {'; '.join(parts)}"


def _split(old: list[JsonValue], new: list[JsonValue]) -> tuple[list[JsonValue], list[JsonValue]]:
    """Leave out the calls that stand on both sides."""
    keys = [digest(call) for call in new]
    left = []
    for call in old:
        if (key := digest(call)) in keys:
            place = keys.index(key)
            del keys[place], new[place]
        else:
            left.append(call)
    return left, new


def _by_tool(calls: Sequence[Any]) -> list[Any]:
    return sorted(calls, key=lambda call: (call["tool"], canonical_text(call["arguments"])))


def _say_whose(decision: JsonValue, tape: Tape) -> bool:
    """Whether the calls say whose they are: those that code made, not what a model asks for."""
    known = {plain_name(name): contract for name, contract in tape.contracts.items()}
    for call in _calls(decision):
        contract = known.get(plain_name(call["tool"]))
        receivers = frozenset() if contract is None else contract.receivers
        if receivers and receivers.isdisjoint(call["arguments"] or ()):
            return False
    return True


def _speller(tape: Tape, *, whose: bool) -> Spell:
    """Spell a call by its recorded contract; a model may only say a tool's plain name."""
    tools = {plain_name(name): name for name in (*tape.contracts, *tape.by_tool)}

    def spell(call: Any) -> JsonValue:
        tool, arguments = tools.get(plain_name(call["tool"]), call["tool"]), call["arguments"]
        contract = tape.contracts.get(tool)
        if contract is not None and isinstance(arguments, dict):
            arguments = contract.normalise(arguments if whose else contract.said(arguments))
        return {"tool": tool, "arguments": arguments}

    return spell


def _new_writes(proposed: Sequence[Any], tape: Tape, by: LockedBy) -> tuple[str, ...]:
    """The proposed calls that may write and stand nowhere in the record."""
    return tuple(
        _call_text(call)
        for call in proposed
        if _may_write(call["tool"], tape)
        and not _is_recorded(call["tool"], call["arguments"], tape, by)
    )


def _is_recorded(tool: str, arguments: JsonValue, tape: Tape, by: LockedBy) -> bool:
    """Whether the record has the call; a proposed one that does not say whose it is is anybody's.

    One that code makes is nobody's then.
    """
    if (tool, digest(arguments)) in tape.by_key:
        return True
    if by == "code":
        return False
    contract = tape.contracts.get(tool)
    if contract is None or not isinstance(arguments, dict):
        return False
    if not contract.receivers or not contract.receivers.isdisjoint(arguments):
        return False
    calls = (tape.calls[place].arguments for place in tape.by_tool.get(tool, ()))
    return any(
        digest(contract.said(call)) == digest(arguments) for call in calls if isinstance(call, dict)
    )


def _may_write(tool: str, tape: Tape) -> bool:
    contract = tape.contracts.get(tool)
    effect = tape.effect(tool) or (contract.effect if contract else "unknown")
    return effect in ("write", "unknown")


def _is_action(decision: JsonValue) -> bool:
    return isinstance(decision, dict) and isinstance(decision.get("calls"), list)


def _calls(decision: JsonValue) -> list[Any]:
    found = decision.get("calls") if isinstance(decision, dict) else None
    return found if isinstance(found, list) else []


def _words(decision: JsonValue) -> JsonValue:
    return decision.get("message") if isinstance(decision, dict) else None


def _listed(calls: Sequence[Any]) -> str:
    text = ", ".join(_short(_call_text(call)) for call in calls[:_SHOWN])
    more = len(calls) - _SHOWN
    return f"{text} and {more} more" if more > 0 else text


def _call_text(call: Any) -> str:
    return f"{call['tool']} {json_text(call['arguments'])}"


def _against(then: JsonValue, now: JsonValue) -> str:
    """Two answers, from the word on in which they differ."""
    old, new = _text(then), _text(now)
    start = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), 0)
    start = old.rfind(" ", 0, start) + 1 if start > _LONGEST // 2 else 0
    lead = "… " if start else ""
    return f"recorded {_short(lead + old[start:])}, proposed {_short(lead + new[start:])}"


def _text(value: JsonValue) -> str:
    return " ".join((value if isinstance(value, str) else json_text(value)).split())


def _short(value: JsonValue) -> str:
    text = _text(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"

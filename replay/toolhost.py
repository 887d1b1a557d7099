"""The child that runs what a user lets run: simulations, live reads, sandboxes, a guard.

It is no planner's process: the planner gets the answers and never the connection. A decorated tool
runs only where it was listed; what it calls beneath is refused, unless it is pure. Clock and chance
are real here, since what is run is.
"""

from __future__ import annotations

import importlib
import inspect
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from replay import planner
from replay.calling import arguments_of, finished
from replay.isolation import Channel
from replay.isolation.hook import let_bodies_run
from tracekit import guard
from tracekit.canonical import JsonValue, encode, json_text, parse_json
from tracekit.configuration import recording_to
from tracekit.decorators import MARK
from tracekit.errors import CallRefused, PlannerNotFound, PlannerSignatureError, WriteBlocked
from tracekit.receivers import CLASS, Whose
from tracekit.recorder import Recorder
from tracekit.redact import Redactor, find_placeholders
from tracekit.redact.keys import UnkeyedTagger
from tracekit.settings import redaction_rules
from tracekit.sink import MemorySink

GUARD = ""
"""The name under which the guard stands among the functions; no tool has it."""
SEARCHED = "?"
"""Before ``MOD:OBJ``: the tool stands somewhere in that module, under its declared name."""
KEY = "idempotency_key"
"""Parameter of a function that gets the new key of a call, where it has one."""
_for_ever = ExitStack()

Functions = dict[str, Callable[..., Any]]


def prepare() -> None:
    """Record nothing, and run no decorated call but those that are asked for."""
    guard.close()
    let_bodies_run()
    nowhere = Recorder(MemorySink(), Redactor(redaction_rules(), UnkeyedTagger()))
    _for_ever.enter_context(recording_to(nowhere))


def load(spec: str) -> Functions:
    """Import the functions that a JSON object of tool → ``MOD:OBJ`` names.

    Raises:
        PlannerError: one cannot be imported, or is no function.
    """
    names = parse_json(spec)
    assert isinstance(names, dict)
    return {tool: _load_one(tool, str(named)) for tool, named in names.items()}


def _load_one(tool: str, named: str) -> Callable[..., Any]:
    what = f"function for {tool}" if tool else "guard"
    if named.startswith(SEARCHED):
        return _search(tool, named.removeprefix(SEARCHED))
    found = planner.load(named, what=what)
    if not callable(found):
        raise PlannerNotFound(f"{what} {named!r} cannot be called")
    return found


def _search(tool: str, named: str) -> Callable[..., Any]:
    module = importlib.import_module(named.partition(":")[0])
    for found in vars(module).values():
        contract = getattr(getattr(found, MARK, None), "contract", None)
        if contract is not None and contract.name == tool:
            return found  # type: ignore[no-any-return]  # a decorated function
    raise PlannerNotFound(
        f"there is no tool {tool!r} in {module.__name__}", hint=f"say where it is: {tool}=MOD:OBJ"
    )


def describe(functions: Functions) -> dict[str, JsonValue]:
    """Say what each function is declared to do, where it is a decorated tool."""
    effects: dict[str, JsonValue] = {}
    for tool, function in functions.items():
        contract = getattr(getattr(function, MARK, None), "contract", None)
        if contract is not None:
            effects[tool] = contract.effect
    return {"kind": "tools", "name": "tools", "effects": effects}


def run_in_child(
    functions: Functions, request: Mapping[str, Any], channel: Channel
) -> dict[str, Any]:
    """Run what the parent asks for, one call after the other, until it asks for no more."""
    inside = _Inside()
    with guard.answering(inside):
        asked = channel.ask({"came": None})
        while call := asked.get("call"):
            function = functions[call["tool"]]
            came = _judged(function, call) if call["tool"] == GUARD else inside.run(function, call)
            asked = channel.ask({"came": came})
    return {}


class _Inside:
    """Lets the one call through that was asked for; beneath it only what touches nothing."""

    def __init__(self) -> None:
        self._expected: str | None = None
        self._lock = threading.Lock()

    def run(self, function: Callable[..., Any], call: Mapping[str, Any]) -> dict[str, Any]:
        """Call ``function`` as the planner's call says, and say what came back."""
        contract = getattr(getattr(function, MARK, None), "contract", None)
        self._expected = None if contract is None else contract.name
        try:
            args, kwargs = _fitted(function, call)
            encoded = encode(finished(function(*args, **kwargs)))
        except Exception as error:  # noqa: BLE001  # whatever the user's function raises is its answer
            raised = encode(error)
            cls = type(error)
            name = cls.__qualname__
            path = name if cls.__module__ == "builtins" else f"{cls.__module__}.{name}"
            kept = raised if raised.replayable else encode(None)
            return {"value": kept.value, "types": dict(kept.types), "error": [path, str(error)]}
        finally:
            self._expected = None
        if not encoded.replayable:
            text = "it returned a value that cannot be handed on"
            return {"value": None, "types": {}, "error": ["tracekit.errors.NotReplayable", text]}
        return {"value": encoded.value, "types": dict(encoded.types), "error": None}

    def answer(self, question: guard.Question) -> guard.Outcome:
        """Run the call that was asked for and pure ones; refuse all others."""
        name = question.operation.actor
        with self._lock:
            if name == self._expected:
                self._expected = None
                return guard.EXECUTE
        effect = question.contract.effect if question.contract else "unknown"
        if effect == "pure":
            return guard.EXECUTE
        refused = WriteBlocked(name, effect, reason="only tools that you listed run")
        return guard.Raised(refused, {})


def _fitted(
    function: Callable[..., Any], call: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call as ``function`` takes them, with the new key if it takes one."""
    given = call["arguments"]
    if whose := _whose(function, call.get("whose") or {}):
        given = {**given, "value": {**whose, **given["value"]}}
    if KEY in _parameters(function) and call.get("key"):
        given = {**given, "value": {**given["value"], KEY: call["key"]}}
    try:
        return arguments_of(function, given)
    except PlannerSignatureError as error:
        name = getattr(function, "__qualname__", repr(function))
        takes, asked = ", ".join(_parameters(function)), ", ".join(given["value"])
        raise TypeError(f"{name} takes {takes or 'nothing'}; the call has {asked}") from error


def _whose(function: Callable[..., Any], whose: Mapping[str, Any]) -> dict[str, Any]:
    """What says whose the call is, for a function that has a parameter for it.

    Raises:
        TypeError: the tool that is to be read is another object's.
    """
    contract = getattr(getattr(function, MARK, None), "contract", None)
    if contract is None:
        return {name: told for name, told in whose.items() if name in _parameters(function)}
    own = Whose(function, None, _as_it_is).of({})[0]
    for name, told in whose.items() if contract.effect in ("pure", "read") else ():
        if name in _parameters(function):
            hint = "say of which object: MOD:OBJ.NAME"
            raise TypeError(f"{contract.name} is a method, and nothing says of what; {hint}")
        theirs: Any = own.get(name)
        for field, value in told.items() if isinstance(theirs, dict) else ():
            hidden = isinstance(value, str) and find_placeholders(value)
            if field != CLASS and not hidden and theirs.get(field, value) != value:
                said = f"{field} {json_text(theirs[field])}; the call is of {json_text(value)}"
                raise TypeError(f"{contract.name} is of the object with {said}")
    return {}


def _as_it_is(_place: str, _name: str, value: JsonValue) -> JsonValue:
    """Take no secrets out: nothing of it is recorded."""
    return value


def _judged(judge: Callable[..., Any], call: Mapping[str, Any]) -> dict[str, Any]:
    """Ask the guard; one that fails refuses."""
    known = call["facts"]
    names = _parameters(judge)
    takes_all = any(p.kind is p.VAR_KEYWORD for p in names.values())
    given = {name: value for name, value in known.items() if takes_all or name in names}
    try:
        said = finished(judge(**given))
    except CallRefused as refusal:
        return _said("deny", refusal.rule, str(refusal))
    except Exception as error:  # noqa: BLE001  # a guard that fails lets nothing through
        return _said("deny", "guard", f"the guard raised {type(error).__name__}: {error}")
    if said is None or said is True:
        return _said("allow", None, None)
    if isinstance(said, Mapping):
        decision = str(said.get("decision", "deny"))
        return _said(decision, said.get("rule"), said.get("reason"))
    return _said("deny", None, said if isinstance(said, str) else None)


def _said(decision: str, rule: object, reason: object) -> dict[str, Any]:
    told = [None if text is None else str(text) for text in (rule, reason)]
    return {"decision": decision, "rule": told[0], "reason": told[1]}


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}

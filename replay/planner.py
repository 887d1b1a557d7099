"""What a planner is, how it is loaded, and how it runs in the process that may do nothing.

A planner is the agent itself (a decorated function, or any other that is called with the run's
input), or something that decides: ``decide(history, tools)``, also with a third parameter
``script`` for the recorded decisions. Whatever it is, this side only asks: calls and prompts go to
the parent over the channel, and what comes back is all that it gets.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

from replay import fixed, stirring
from replay.calling import arguments_of, call_planner
from replay.declared import declared_by
from replay.errortext import place_of, text_of, traceback_of
from replay.lingering import PATIENCE_S, Lingering
from replay.pipe import Channel, PipeAnswerer, PipeSink, PipeTagger
from replay.ruling import found_by_functions, told_rules
from tracekit import conditions, guard, integrations
from tracekit.canonical import JsonValue, as_compared, copy_json, described_parts, encode
from tracekit.canonical.text import holds_long_text
from tracekit.configuration import recorder, recording_to
from tracekit.decorators import MARK
from tracekit.errors import (
    PlannerError,
    PlannerImportFailed,
    PlannerNotFound,
    PlannerSignatureError,
    ReplayInProgress,
    UsageError,
    WriteBlocked,
)
from tracekit.keeping import Keeper
from tracekit.limits import Limits
from tracekit.recorder import Recorder
from tracekit.redact import Redactor
from tracekit.redact.keys import UnkeyedTagger
from tracekit.settings import redaction_rules
from tracekit.sink import MemorySink

if TYPE_CHECKING:
    from replay.scripted import ScriptRun

_ENDINGS = (Exception, SystemExit, KeyboardInterrupt, asyncio.CancelledError)
"""What ends a planner and is its result; anything else ends its process."""


def prepare() -> None:
    """Run and record nothing in this process but what a replay asks for; for the child.

    From now on clock, ids and chance are made up, while the planner is imported as in its runs.
    """
    guard.close()
    _stirred.append(stirring.asked_for())
    stirring.stir(_stirred[-1])
    fixed.install()
    importing = conditions.Conditions.seeded(fixed.IMPORT_START, 0)
    _for_ever.enter_context(fixed.everywhere(importing, 0, importing=True))
    nowhere = Recorder(MemorySink(), Redactor(redaction_rules(), UnkeyedTagger()))
    _for_ever.enter_context(recording_to(nowhere))


_for_ever = ExitStack()
_stirred = [0]


def load(spec: str, *, what: str = "planner") -> object:
    """Import the object that ``MOD:OBJ`` names.

    Args:
        spec: The name.
        what: What it is, for messages.

    Raises:
        PlannerNotFound: the text, the module or the attribute is wrong.
        PlannerImportFailed: the module raised while it was imported.
    """
    module_name, path = _split(spec, what)
    try:
        found: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name + ".").startswith(error.name + "."):
            raise PlannerNotFound(
                f"{what} {spec!r}: there is no module {error.name!r}",
                hint="run the command where the module can be imported, or set PYTHONPATH",
            ) from error
        raise PlannerImportFailed(f"{what} {spec!r}: {error} while it was imported") from error
    except (Exception, SystemExit) as error:
        raise PlannerImportFailed(
            f"{what} {spec!r}: {type(error).__name__}: {error} while it was imported"
        ) from error
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            names = sorted(n for n in vars(found) if not n.startswith("_"))[:8]
            raise PlannerNotFound(
                f"{what} {spec!r}: {module_name} has no {name!r}",
                hint=f"it has {', '.join(names)}" if names else None,
            ) from None
    return found


def _split(spec: str, what: str) -> tuple[str, str]:
    """Split ``MOD:OBJ``, where it is that."""
    module_name, colon, path = spec.partition(":")
    if not (module_name and colon and path):
        raise PlannerNotFound(
            f"{what} {spec!r} is not of the form MOD:OBJ", hint="for example agents.sre:planner_v2"
        )
    is_name = all(part.isidentifier() for part in module_name.split("."))
    if not is_name or module_name.endswith(".py"):
        stem = module_name.replace("\\", "/").rpartition("/")[2].removesuffix(".py")
        raise PlannerNotFound(
            f"{what} {spec!r}: {module_name!r} is no name of a module",
            hint=f"modules are named as they are imported, for example {stem or 'agents'}:{path}",
        )
    return module_name, path


def describe(planner: object) -> dict[str, Any]:
    """Say what ``planner`` is (see ``outline``), and what its code declares, which takes long.

    Raises:
        PlannerSignatureError: it cannot be called.
    """
    return {**outline(planner), "declared": declared_by(planner)}


def outline(planner: object) -> dict[str, Any]:
    """Say what ``planner`` itself is: its kind, name and parameters, and what its process redacts.

    Raises:
        PlannerSignatureError: it cannot be called.
    """
    decides = _decide_parameters(planner)
    if decides is None and not callable(planner):
        raise PlannerSignatureError(
            f"a planner is called, and {type(planner).__name__} cannot be",
            hint="name a function, a class with a decide method, or a decorated agent",
        )
    parameters = _parameters(planner) if decides is None else decides  # type: ignore[arg-type]  # callable, as seen above
    mark = getattr(planner, MARK, None)
    agent = mark is not None and mark.kind == "agent"
    kind = "agent" if agent else ("function" if decides is None else "decide")
    name = getattr(planner, "__name__", type(planner).__name__)
    return {
        "kind": kind,
        "name": mark.name if mark is not None and agent else name,
        "parameters": parameters,
        "script": kind == "decide" and ("script" in parameters or len(parameters) >= 3),
        "redact": told_rules(),
    }


def _parameters(target: Callable[..., Any]) -> list[str]:
    try:
        return list(inspect.signature(target).parameters)
    except (TypeError, ValueError):
        return []


def _decide_parameters(planner: object) -> list[str] | None:
    """What the deciding function takes, without ``self``; None where the planner is an agent."""
    method = getattr(planner, "decide", None)
    if inspect.isclass(planner):
        return None if method is None else _parameters(method)[1:]
    if callable(method):
        return _parameters(method)
    if callable(planner) and not hasattr(planner, MARK):
        names = _parameters(planner)
        return names if names[:2] == ["history", "tools"] else None
    return None


def run_in_child(planner: object, request: Mapping[str, Any], channel: Channel) -> dict[str, Any]:
    """Run ``planner`` once; see ``replay.session`` for the messages.

    Returns:
        ``{"answer": value, "types": tags, "replayable": bool}``, or ``{"error": {...}}`` where the
        planner raised; with ``left`` where something that it began was still under way, and
        ``unsent`` where it sent less into generators than was recorded. Asked to ``scan`` values,
        it runs nothing: ``{"found": [bool, …]}``.
    """
    if "scan" in request:
        return {"found": found_by_functions(request["scan"])}
    beside = Lingering(float(request.get("patience_s", PATIENCE_S)))
    stirring.stir(_stirred[-1])
    start = datetime.fromtimestamp(request["clock_ns"] / 1e9, UTC)
    made = conditions.Conditions.seeded(start, request["seed"])
    with conditions.use(made), _doors(request, made):
        before = conditions.install(made)
        try:
            if _decide_parameters(planner) is not None:
                return _with_rest(_deciding(planner, request, channel), beside)
            return _running(planner, request, channel, beside)
        except (ReplayInProgress, UsageError, MemoryError):
            raise
        except _ENDINGS as error:
            return {"error": _described(error)}
        finally:
            conditions.install(before)


def _with_rest(
    came: dict[str, Any], beside: Lingering, answerer: PipeAnswerer | None = None
) -> dict[str, Any]:
    """Wait for what the interpreter would wait for, and add what is still under way then."""
    rest = {"left": beside.wait(), "unsent": answerer.unsent() if answerer else []}
    return {**came, **{name: found for name, found in rest.items() if found}}


def _doors(request: Mapping[str, Any], made: conditions.Conditions) -> AbstractContextManager[None]:
    """What holds for code that asks the standard library for clock, ids and chance."""
    real = request.get("conditions") == "real"
    return fixed.nowhere() if real else fixed.hold(made, request["seed"])


# --- planners that decide -------------------------------------------------------------------------


class _OnlyDecides:
    """Refuses what a planner calls that only has to say what is to be called; tells of a write."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def answer(self, question: guard.Question) -> NoReturn:
        """Refuse the call of ``question``.

        Raises:
            WriteBlocked: always.
        """
        name, contract = question.operation.actor, question.contract
        if contract is not None and contract.writes:
            what = f"a call of {name} by a planner that only decides"
            self._channel.tell({"finding": {"kind": "tool", "what": what, "refused": True}})
        raise WriteBlocked(
            name,
            "unknown" if contract is None else contract.effect,
            reason="a planner that decides returns its calls and makes none; one that makes them "
            "is given as a function without history and tools",
        )


def _deciding(planner: object, request: Mapping[str, Any], channel: Channel) -> dict[str, Any]:
    instance = planner() if inspect.isclass(planner) else planner
    decide: Callable[..., Any] = getattr(instance, "decide", instance)  # type: ignore[arg-type]  # a decider is callable
    history: list[Any] = list(request["history"])
    tools = request["tools"]
    extra = (request["script"],) if outline(planner)["script"] else ()
    while True:  # the parent ends one that never stops
        with guard.answering(_OnlyDecides(channel)):
            decision = decide(*map(copy_json, (history, tools, *extra)))
            if inspect.iscoroutine(decision):
                decision = asyncio.run(decision)
        answer = channel.ask({"decision": normal_decision(decision)})
        if answer.get("stop"):
            return {"answer": answer.get("answer"), "types": {}, "replayable": True}
        history += answer["append"]


def normal_decision(decision: object) -> dict[str, JsonValue]:
    """Bring what a planner returned into the one form ``{"calls", "message", "final"}``.

    Raises:
        PlannerSignatureError: it is none of the forms that a planner may return.
    """
    if decision is None:
        return {"calls": [], "message": None, "final": True}
    if isinstance(decision, str):
        return {"calls": [], "message": decision, "final": True}
    if isinstance(decision, Mapping) and "answer" in decision:
        return {"calls": [], "message": encode(decision["answer"]).value, "final": True}
    if isinstance(decision, Mapping) and "tool" in decision:
        decision = [decision]
    if isinstance(decision, Mapping):
        calls, message = decision.get("calls") or [], decision.get("message")
    elif isinstance(decision, Sequence):
        calls, message = list(decision), None
    else:
        raise _strange(decision)
    normal: list[JsonValue] = []
    for call in calls:
        if not isinstance(call, Mapping) or not isinstance(call.get("tool"), str):
            raise _strange(call)
        arguments = call.get("arguments", {})
        if not isinstance(arguments, Mapping):
            raise _strange(call)
        kept = encode(dict(arguments))
        state = "captured" if kept.replayable else "truncated"
        parts: list[JsonValue] = [*described_parts(kept.value, state)]
        made: dict[str, JsonValue] = {"arguments": as_compared(kept.value, kept.types)}
        normal.append({"tool": call["tool"], **made, **({"described": parts} if parts else {})})
    ends = not normal and not (isinstance(decision, Mapping) and decision.get("final") is False)
    return {"calls": normal, "message": encode(message).value, "final": ends}


def _strange(found: object) -> PlannerSignatureError:
    return PlannerSignatureError(
        f"the planner decided {str(found)[:80]!r}, which is no action",
        hint='return {"calls": [{"tool": ..., "arguments": {...}}]}, {"answer": ...} or None',
    )


# --- planners that are the agent ------------------------------------------------------------------


def _script(named: str) -> ScriptRun:
    from replay.scripted import as_script  # most replays have none

    found = as_script(load(named, what="script"))
    try:
        return found.start()
    except (Exception, SystemExit) as error:
        raise PlannerImportFailed(
            f"script {named!r}: {type(error).__name__}: {text_of(error)} while it was begun"
        ) from error


def _running(
    planner: object, request: Mapping[str, Any], channel: Channel, beside: Lingering
) -> dict[str, Any]:
    integrations.instrument_all()
    named = request.get("model_script")
    script = _script(named) if named else None
    rules = recorder().redactor.rules if guard.installed() else redaction_rules()
    sink = PipeSink(channel)
    own = Recorder(
        sink,
        Redactor(rules, PipeTagger(channel)),
        keeper=Keeper(Limits(), chained=False),  # those of a recording: cut alike
        strict=True,
    )
    mints = {(kind, site, n): value for kind, site, n, value in request["mints"]}
    conditions.set_mint_source(lambda kind, site, n: mints.get((kind, site, n)))
    answerer = PipeAnswerer(channel, sink, script)
    with recording_to(own), guard.answering(answerer):
        args, kwargs = arguments_of(planner, request["input"])
        try:
            encoded = encode(call_planner(planner, args, kwargs, beside))
        except (ReplayInProgress, UsageError, MemoryError):
            raise
        except _ENDINGS as error:
            return _with_rest({"error": _described(error)}, beside, answerer)
        came = {
            # Else it would be too large to be sent; the record of the replay has it, or its digest.
            "answer": None if holds_long_text(encoded.value) else encoded.value,
            "types": dict(encoded.types),
            "replayable": encoded.replayable,
        }
        return _with_rest(came, beside, answerer)


def _described(error: BaseException) -> dict[str, Any]:
    return {
        "type": type(error).__name__,
        "message": text_of(error),
        "own": isinstance(error, PlannerError),
        "place": place_of(error),
        "traceback": traceback_of(error),
    }

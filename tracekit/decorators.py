"""``agent``, ``tool``, ``llm``, ``retrieval`` and ``step``: functions whose calls are recorded.

A decorator changes neither signature nor result nor exception of what it decorates, sync or async.
More than 400 lines, since each stands here twice, called with a function and without one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from tracekit import conditions, guard, integrations
from tracekit import wrap as wrapped
from tracekit.bodies import note_body
from tracekit.canonical import JsonValue, sound_text
from tracekit.configuration import recorder
from tracekit.contract import Contract, Matchers, binder, contract_of
from tracekit.errors import ContractError
from tracekit.events import Effect
from tracekit.interruption import pass_on, warn_once
from tracekit.operations import Kind, as_tags, current
from tracekit.origin import MADE_BY, origin_of
from tracekit.prepared import Prepared
from tracekit.receivers import LeftOut, Whose
from tracekit.steps import Step, error_name, open_step, passed_by, unrecorded, without_secrets
from tracekit.trajectory import FAULT
from tracekit.watching import watched
from tracekit.wrap import shape_of, wrap

F = TypeVar("F", bound=Callable[..., Any])
MARK = "__tracekit__"
"""Attribute of a decorated function that says what it is: its kind and name."""


@dataclass(frozen=True)
class Decorated:
    """What a decorated function is."""

    kind: Kind
    name: str
    contract: Contract | None = None


@overload
def agent(function: F) -> F: ...
@overload
def agent(*, name: str | None = None, tags: Sequence[str] = ()) -> Callable[[F], F]: ...
def agent(
    function: F | None = None, *, name: str | None = None, tags: Sequence[str] = ()
) -> F | Callable[[F], F]:
    """Record each call as a run; inside another run, as a sub-agent of it.

    Args:
        function: The agent: its arguments are the run's input, its result the answer.
        name: Name of the agent; default the function's name.
        tags: Tags of its runs.
    """

    def decorate(function: F) -> F:
        label = _label(name, function)
        made_by = _made_by(function)

        def opened(arguments: dict[str, object]) -> Step:
            own = recorder()
            above = current()
            said = made_by()
            # A sub-agent only of what is known to be around it: servers run many side by side.
            if above is not None and not above.run.over:
                return open_step(own, "agent", label, arguments, **said)
            integrations.instrument_loaded()
            said |= {"versions": dict(own.versions), "tags": as_tags(tags)}
            return open_step(own, "run", label, arguments, **said)

        return _decorated(function, Decorated("agent", label), opened)

    return decorate if function is None else decorate(function)


@overload
def tool(function: F) -> F: ...
@overload
def tool(
    *,
    effect: Effect = "unknown",
    name: str | None = None,
    purpose: str | None = None,
    touches: Sequence[str] | None = None,
    matchers: Matchers | None = None,
    idempotency_key: Callable[[dict[str, Any]], str] | None = None,
    idempotency_field: str | None = None,
    receiver: Sequence[str] | None = None,
    argument_schema: dict[str, JsonValue] | None = None,
    result_schema: dict[str, JsonValue] | None = None,
) -> Callable[[F], F]: ...
def tool(
    function: F | None = None,
    *,
    effect: Effect = "unknown",
    name: str | None = None,
    purpose: str | None = None,
    touches: Sequence[str] | None = None,
    matchers: Matchers | None = None,
    idempotency_key: Callable[[dict[str, Any]], str] | None = None,
    idempotency_field: str | None = None,
    receiver: Sequence[str] | None = None,
    argument_schema: dict[str, JsonValue] | None = None,
    result_schema: dict[str, JsonValue] | None = None,
) -> F | Callable[[F], F]:
    """Record each call of a tool with its arguments and what came back.

    Args:
        effect: What it does to the world; not declared, it counts as a write in every replay.
        name, purpose: Default the function's name and the first paragraph of its docstring.
        touches, matchers: What it reads or changes, default all; how arguments of a read compare.
        idempotency_key, idempotency_field: Computes a call's key; the argument that is one.
        receiver: Of a method or closure, the fields that say whose call it is; default all.
        argument_schema, result_schema: JSON Schemas of arguments and result.
    """

    def decorate(function: F) -> F:
        contract, whose = _declared(
            function,
            receiver,
            named=(name, purpose),
            effect=effect,
            argument_schema=argument_schema,
            result_schema=result_schema,
            matchers=matchers,
            touches=touches,
            idempotency_field=idempotency_field,
        )
        return _tool(function, "tool_call", contract, whose, idempotency_key)

    return decorate if function is None else decorate(function)


@overload
def retrieval(function: F) -> F: ...
@overload
def retrieval(*, name: str | None = None, matchers: Matchers | None = None) -> Callable[[F], F]: ...
def retrieval(
    function: F | None = None, *, name: str | None = None, matchers: Matchers | None = None
) -> F | Callable[[F], F]:
    """Record each call of a retriever; it is a read.

    Args:
        function: The retriever.
        name: Name of the data source; default the function's name.
        matchers: How a replay compares its arguments.
    """

    def decorate(function: F) -> F:
        contract, whose = _declared(
            function, None, named=(name, None), effect="read", matchers=matchers
        )
        return _tool(function, "retrieval", contract, whose, None)

    return decorate if function is None else decorate(function)


@overload
def llm(function: F) -> F: ...
@overload
def llm(
    *, model: str | None = None, name: str | None = None, provider: str | None = None
) -> Callable[[F], F]: ...
def llm(
    function: F | None = None,
    *,
    model: str | None = None,
    name: str | None = None,
    provider: str | None = None,
) -> F | Callable[[F], F]:
    """Record each call of a function that asks a model: its arguments are the prompt.

    Args:
        function: Asks the model and returns its reply.
        model: Name of the model.
        name: Name of the step; default the function's name.
        provider: Who serves the model.
    """

    def decorate(function: F) -> F:
        label = _label(name, function)
        stream = _streams(function)

        def opened(arguments: dict[str, object]) -> Step:
            return open_step(
                recorder(),
                "llm_call",
                label,
                arguments,
                stream=stream,
                model_requested=model,
                provider=provider,
            )

        return _decorated(function, Decorated("llm_call", label), opened)

    return decorate if function is None else decorate(function)


@overload
def step(function: F) -> F: ...
@overload
def step(*, name: str | None = None) -> Callable[[F], F]: ...
def step(function: F | None = None, *, name: str | None = None) -> F | Callable[[F], F]:
    """Record each call of any other function as a step of its own.

    Args:
        function: The function.
        name: Name of the step; default the function's name.
    """

    def decorate(function: F) -> F:
        label = _label(name, function)
        return _decorated(
            function,
            Decorated("span", label),
            lambda arguments: open_step(recorder(), "span", label, arguments),
            Prepared("span", label),
        )

    return decorate if function is None else decorate(function)


def _made_by(function: Callable[..., Any]) -> Callable[[], dict[str, Any]]:
    """What a run says of the code that made it: looked up once, and not in a replay."""
    known_ns = conditions.now_ns()

    @functools.cache
    def attributes() -> dict[str, JsonValue]:
        try:
            origin = origin_of(function, known_ns)
        except Exception as error:  # noqa: BLE001  # the traced program is never the victim
            pass_on(error)
            return {}
        return {} if origin is None else {MADE_BY: origin.as_attribute()}

    def said() -> dict[str, Any]:
        known = {} if guard.installed() else attributes()
        return {"attributes": dict(known)} if known else {}

    return said


def _declared(
    function: Callable[..., Any],
    receiver: Sequence[str] | None,
    *,
    named: tuple[str | None, str | None],
    **said: Any,
) -> tuple[Contract, Whose]:
    """The contract of a tool, and what tells whose its calls are."""
    (name, purpose), whose = named, Whose(function, receiver, without_secrets)
    contract = contract_of(
        getattr(function, "__func__", function),
        name=_label(name, function),
        purpose=purpose if purpose is not None else inspect.getdoc(_plain(function)),
        beside=whose.beside,
        **said,
    )
    return contract, whose


def _tool(
    function: F,
    kind: Kind,
    contract: Contract,
    whose: Whose,
    idempotency_key: Callable[[dict[str, Any]], str] | None,
) -> F:
    if idempotency_key is not None and not callable(idempotency_key):
        raise ContractError(
            f"tool {contract.name!r}: idempotency_key {idempotency_key!r} cannot be called",
            hint="the argument that is the key is named by idempotency_field=",
        )
    if contract.writes:
        note_body(function, contract.name)
    text = contract.model_dump_json()
    stream = _streams(function)

    def opened(arguments: dict[str, object]) -> Step:
        own = recorder()
        keyed: dict[str, Any] = {}
        if idempotency_key is not None:
            keyed = _keyed(contract, idempotency_key, arguments)
        return open_step(
            own,
            kind,
            contract.name,
            arguments,
            contract=contract,
            contract_json=text,
            stream=stream,
            **keyed,
        )

    prepared = None
    if idempotency_key is None:
        prepared = Prepared(kind, contract.name, contract, text)
    mark = Decorated(kind, contract.name, contract)
    return _decorated(function, mark, opened, prepared, whose)


def _keyed(
    contract: Contract, compute: Callable[[dict[str, Any]], str], arguments: dict[str, object]
) -> dict[str, Any]:
    """The key of a call. One that cannot be computed stops neither the call nor its record."""
    try:
        key: Any = compute(contract.said(arguments))
        return {"idempotency_key": None if key is None else str(key) or None}
    except BaseException as error:  # noqa: BLE001  # the traced program is never the victim
        pass_on(error)
        what = (
            f"the idempotency key of {contract.name} could not be computed:"
            f" {error_name(error)} in {_name(compute)}"
        )
        warn_once(what)
        return {"attributes": {FAULT: what}}


def _decorated(
    function: F,
    mark: Decorated,
    opened: Callable[[dict[str, object]], Step],
    prepared: Prepared | None = None,
    whose: Whose | None = None,
) -> F:
    if isinstance(function, (staticmethod, classmethod)):
        inner = _decorated(function.__func__, mark, opened, prepared, whose)
        return type(function)(inner)
    if not callable(function):
        raise ContractError(
            f"{type(function).__name__} {mark.name!r} cannot be called, so it cannot be recorded",
            hint="put the decorator on the function itself: below @property and its like",
        )
    if shape_of(function).endswith("generator"):
        prepared = None
    told = whose or LeftOut(function)
    opener = _opener(_signature(function), mark, opened, prepared, told if told else None)
    wrapper = wrap(function, opener, guarded=guard.installed, off=passed_by)
    if told.method is not None:
        told.method.wrapper = wrapper
    setattr(wrapper, MARK, mark)
    return wrapper  # type: ignore[return-value]  # same shape and signature


def _opener(
    signature: inspect.Signature,
    mark: Decorated,
    opened: Callable[[dict[str, object]], Step],
    prepared: Prepared | None,
    told: Whose | LeftOut | None,
) -> wrapped.OpenStep:
    """Give what opens a step for each call; only what may be somebody's asks whose it is."""
    bound = binder(signature)

    def open_call(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> wrapped.Step:
        try:
            arguments = bound(args, kwargs)
            if prepared is not None:
                step = prepared.begin(recorder(), current(), arguments)
                if step is not None:
                    return step
            return opened(arguments)
        except Exception as error:  # noqa: BLE001  # the traced program is never the victim
            return unrecorded(error, mark.contract)

    if told is None:
        return open_call

    def open_somebodys(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> wrapped.Step:
        try:
            arguments, met = told.of(bound(args, kwargs))
            begun = None
            if prepared is not None:
                begun = prepared.begin(recorder(), current(), arguments)
            return watched(opened(arguments) if begun is None else begun, met)
        except Exception as error:  # noqa: BLE001  # the traced program is never the victim
            return unrecorded(error, mark.contract)

    return open_somebodys


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        args = inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)
        kwargs = inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)
        return inspect.Signature([args, kwargs])


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that says what a callable is: its name, its purpose, its shape."""
    inner: Callable[..., Any] = getattr(function, "__func__", function)
    while isinstance(inner, functools.partial):
        inner = inner.func
    return inner


def _label(name: object, function: Callable[..., Any]) -> str:
    """The name under which calls are recorded: the one given, or else the function's."""
    return sound_text(str(name)) if name else _name(function)


def _name(function: Callable[..., Any]) -> str:
    plain = _plain(function)
    return getattr(plain, "__name__", type(plain).__name__)


def _streams(function: Callable[..., Any]) -> bool:
    return shape_of(_plain(function)).endswith("generator")

"""Records the tools of LangChain, and answers them in a replay.

``run`` and ``arun`` validate what they are given, call ``_run`` or ``_arun`` and make a message of
the result. The step stands around that inner call: its arguments are the validated ones, its
observation is what the tool returned, and callbacks, error handling and message are LangChain's own
in a replay as well.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import ref

from langchain_core.runnables import RunnableConfig
from langchain_core.tools.base import BaseTool, InjectedToolArg

from tracekit import guard
from tracekit.canonical import JsonValue
from tracekit.configuration import recorder
from tracekit.contract import Contract, bind, contract_of
from tracekit.integrations import nesting
from tracekit.integrations.langchain import effect_of
from tracekit.interruption import pass_on
from tracekit.receivers import CLASS, Placed, Whose, told_of
from tracekit.steps import Unrecorded, open_step, passed_by, unrecorded, without_secrets
from tracekit.watching import watched
from tracekit.wrap import Step as Opened
from tracekit.wrap import wrap

_DECORATED = "__tracekit__"
"""Attribute of a function that tracekit's own decorators record."""
_PLUMBING = ("run_manager", "callbacks")
"""Parameters that are LangChain's whatever their annotations say."""
_VARIABLE = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
_known: dict[int, tuple[ref[BaseTool], tuple[object, ...], Contract, str]] = {}


def instrument() -> None:
    """Record every tool of this process from now on; doing it again changes nothing."""
    nesting.wrap_methods(BaseTool, ("_run", "_arun"), _wrapped)
    if not hasattr(BaseTool.run, "__wrapped__"):
        setattr(BaseTool, "run", _entering(BaseTool.run))  # noqa: B010  # a method, which may not be assigned to
        setattr(BaseTool, "arun", _entering_async(BaseTool.arun))  # noqa: B010  # as above


def _entering(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def run(*args: Any, **kwargs: Any) -> Any:
        with nesting.entering(asked_as=kwargs.get("tool_call_id")):
            return original(*args, **kwargs)

    return run


def _entering_async(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    async def arun(*args: Any, **kwargs: Any) -> Any:
        with nesting.entering(asked_as=kwargs.get("tool_call_id")):
            return await original(*args, **kwargs)

    return arun


def _wrapped(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def open_call(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Opened:
        tool, body = args[0], _body(args[0], name)
        if nesting.inside(tool) or hasattr(body, _DECORATED):
            return Unrecorded()
        try:
            # A tool that is its class is given what its method is given, itself apart.
            declares = _declares(body or method, method=body is None)
            step, met = _opened(tool, declares, args[1:], kwargs)
            return watched(step, met)
        except Exception as error:  # noqa: BLE001  # the traced program is never the victim
            return unrecorded(error)

    return wrap(method, open_call, guarded=guard.installed, off=passed_by)


def _body(tool: BaseTool, method: str) -> Callable[..., Any] | None:
    """The function that a tool was made from; None where its class is the tool."""
    names = ("coroutine", "func") if method == "_arun" else ("func", "coroutine")
    found = (getattr(tool, name, None) for name in names)
    return next((function for function in found if callable(function)), None)


@dataclass(frozen=True)
class _Declares:
    """What the function of a tool takes."""

    signature: inspect.Signature | None
    """Without what LangChain fills in; None where it cannot be read."""
    hidden: frozenset[str]
    """The parameters that LangChain fills in."""
    whose: Whose | None
    """Tells whose the calls of its function are; None where the tool is its class."""

    @property
    def parameters(self) -> list[inspect.Parameter]:
        """The parameters, as far as they can be read."""
        return [] if self.signature is None else list(self.signature.parameters.values())

    @property
    def has_names(self) -> bool:
        """Whether each argument has a name that is known before."""
        return self.signature is not None and all(p.kind not in _VARIABLE for p in self.parameters)

    @property
    def beside(self) -> tuple[str, ...]:
        """The names of what says whose a call is."""
        if not self.has_names:  # then these would be nothing that is declared
            return ()
        return ("self",) if self.whose is None else self.whose.beside

    def somebodys(
        self, tool: BaseTool, arguments: dict[str, object]
    ) -> tuple[dict[str, object], list[Placed]]:
        """Put in whose the call is."""
        if not self.beside:
            return arguments, []
        if self.whose is not None:
            return self.whose.of(arguments)
        told, met = told_of(tool, "self", without_secrets)
        # The name of the tool says which it is, and what every tool has does not say more.
        plain = {CLASS, *BaseTool.model_fields}
        own = {name: value for name, value in told.items() if name not in plain}
        return {**({"self": own} if own else {}), **arguments}, [(("self",), met)]

    def arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, object]:
        """The bound arguments, without what LangChain itself hands in."""
        given = {name: value for name, value in kwargs.items() if name not in self.hidden}
        if self.signature is None:
            return {**({"args": list(args)} if args else {}), **given}
        arguments = bind(self.signature, args, given)
        for parameter in self.parameters:
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                # What a model gives such a tool are arguments like any other.
                more = arguments.pop(parameter.name, {})
                arguments |= more if isinstance(more, dict) else {}
        return arguments


def _declares(function: Callable[..., Any], *, method: bool) -> _Declares:
    try:
        return _read(function, method=method)
    except TypeError:  # cannot be hashed
        return _read.__wrapped__(function, method=method)


@functools.lru_cache(maxsize=1024)
def _read(function: Callable[..., Any], *, method: bool) -> _Declares:
    plain = function.func if isinstance(function, functools.partial) else function
    try:
        hints = typing.get_type_hints(plain, include_extras=True)
    except Exception as error:  # noqa: BLE001  # what cannot be read names nothing of LangChain's
        pass_on(error)
        hints = {}
    hidden = frozenset(name for name, hint in hints.items() if _injected(hint)).union(_PLUMBING)
    if not method:  # what calls a function has a ``config`` of its own
        hidden |= {"config"}
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return _Declares(None, hidden, None)
    parameters = list(signature.parameters.values())[1 if method else 0 :]
    kept = [parameter for parameter in parameters if parameter.name not in hidden]
    whose = None if method else Whose(function, None, without_secrets)
    return _Declares(signature.replace(parameters=kept), hidden, whose)


def _opened(
    tool: BaseTool, declares: _Declares, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Opened, list[Placed]]:
    own = recorder()
    if own.enclosing() is None and not guard.installed():
        return Unrecorded(), []
    contract, text = _contract(tool, declares)
    arguments, met = declares.somebodys(tool, declares.arguments(args, kwargs))
    step = open_step(
        own,
        "tool_call",
        tool.name,
        arguments,
        contract=contract,
        contract_json=text,
        tool_call_id=nesting.asked_as(),
    )
    return nesting.FrameworkStep.of(step, tool), met


def _injected(hint: object) -> bool:
    """Whether LangChain fills in a parameter from its own run: configuration, state, store, ids.

    What the user's code injects (plain ``InjectedToolArg``) says what is done, and is kept.
    """
    kinds = [hint, typing.get_origin(hint), *getattr(hint, "__metadata__", ())]
    for inner in typing.get_args(hint):
        kinds += [inner, typing.get_origin(inner)]
    classes = [kind if isinstance(kind, type) else type(kind) for kind in kinds]
    return any(
        cls is RunnableConfig
        or (issubclass(cls, InjectedToolArg) and cls is not InjectedToolArg)
        or any(base.__name__ == "_DirectlyInjectedToolArg" for base in cls.__mro__)
        for cls in classes
    )


def _contract(tool: BaseTool, declares: _Declares) -> tuple[Contract, str]:
    """What ``tool`` declares, made once as long as it says the same."""
    says = (tool.name, tool.description, effect_of(tool.name), id(tool.args_schema))
    known = _known.get(id(tool))
    if known is not None and known[0]() is tool and known[1] == says:
        return known[2], known[3]
    contract = contract_of(
        _standing_for(declares.signature),
        name=tool.name,
        purpose=tool.description,
        effect=effect_of(tool.name),
        argument_schema=_schema(tool),
        beside=declares.beside,
    )
    if not declares.has_names:
        contract = contract.model_copy(update={"parameters": None})
    text = contract.model_dump_json()
    key = id(tool)
    _known[key] = (ref(tool, lambda _: _known.pop(key, None) and None), says, contract, text)
    return contract, text


def _standing_for(signature: inspect.Signature | None) -> Callable[..., None]:
    def declared() -> None:
        """Has the parameters of a tool; is never called."""

    declared.__signature__ = signature  # type: ignore[attr-defined]  # read by inspect
    return declared


def _schema(tool: BaseTool) -> dict[str, JsonValue] | None:
    schema: Any = tool.tool_call_schema
    if isinstance(schema, dict):
        return dict(schema)
    made: dict[str, JsonValue] = schema.model_json_schema()
    return made

"""A run's recorded input becomes a call of another planner, whatever the shape of either."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from replay.lingering import Lingering
from tracekit.canonical import Encoded, decode
from tracekit.configuration import recorder
from tracekit.contract import bind
from tracekit.decorators import MARK
from tracekit.errors import PlannerSignatureError
from tracekit.steps import open_step


def arguments_of(planner: object, recorded: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The run's input as positional and keyword arguments of ``planner``."""
    given = decode(Encoded(recorded["value"], recorded["types"]))
    if not isinstance(given, dict):
        given = {"prompt": given}
    assert callable(planner)
    try:
        signature = inspect.signature(planner)
    except (TypeError, ValueError):
        return [], given
    args, kwargs = _spread(signature, given)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        takes = ", ".join(signature.parameters) or "nothing"
        raise PlannerSignatureError(
            f"the planner cannot be called with the run's input: {error}",
            hint=f"the run was given {', '.join(given) or 'nothing'}; the planner takes {takes}",
        ) from None
    return args, kwargs


def _spread(
    signature: inspect.Signature, given: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Spread what was bound to names: ``*args`` and ``**kwargs`` were recorded under theirs."""
    args: list[Any] = []
    kwargs = dict(given)
    rest = next((p.name for p in signature.parameters.values() if p.kind is p.VAR_POSITIONAL), "")
    several = kwargs.pop(rest) if isinstance(kwargs.get(rest), list | tuple) else ()
    for name, parameter in signature.parameters.items():
        by_place = parameter.kind is parameter.POSITIONAL_ONLY or (
            several and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        )
        if by_place and (name in kwargs or parameter.default is not parameter.empty):
            args.append(kwargs.pop(name, parameter.default))
        elif parameter.kind is parameter.VAR_KEYWORD and isinstance(kwargs.get(name), Mapping):
            kwargs |= kwargs.pop(name)
    return [*args, *several], kwargs


def call_planner(
    planner: object,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    beside: Lingering | None = None,
) -> object:
    """Run ``planner`` to its end, as a run of its own if it is no decorated agent.

    Args:
        planner: What is called.
        args: With what.
        kwargs: With what, by name.
        beside: Is told what the planner's loop has still to do when the planner comes back.
    """
    assert callable(planner)
    mark = getattr(planner, MARK, None)
    if mark is not None and mark.kind == "agent":
        return finished(planner(*args, **kwargs), beside)
    name = getattr(planner, "__name__", type(planner).__name__)
    step = open_step(recorder(), "run", name, _bound(planner, args, kwargs))
    try:
        with step.active():
            value = finished(planner(*args, **kwargs), beside)
    except BaseException as error:
        step.fail(error)
        raise
    step.end(value)
    return value


def _bound(
    planner: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    try:
        return bind(inspect.signature(planner), tuple(args), kwargs)
    except (TypeError, ValueError):
        return dict(kwargs)


def finished(value: object, beside: Lingering | None = None) -> object:
    """What a call comes to: a coroutine is run, a generator read to its end."""
    if inspect.iscoroutine(value):
        return asyncio.run(value if beside is None else _watched(value, beside))
    if inspect.isgenerator(value):
        return list(value)
    if inspect.isasyncgen(value):

        async def read() -> list[object]:
            return [item async for item in value]

        return asyncio.run(read() if beside is None else _watched(read(), beside))
    return value


async def _watched(coroutine: Coroutine[Any, Any, Any], beside: Lingering) -> object:
    try:
        return await coroutine
    finally:
        beside.note_loop()

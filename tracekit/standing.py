"""What stands for a callable that is no function: an object, a partial, a builtin, a bound method.

A function as an attribute of a class is given the instance, and those are not. So what stands for
one of them is bound as it would be, and what else it offers (``cache_clear`` of a cached function)
is still to be had from it.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any


def standing_for(function: Callable[..., Any], wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """Give what stands for ``function`` and calls ``wrapper``."""
    if inspect.isfunction(function) or inspect.isclass(function):
        return wrapper
    made: Any
    if isinstance(function, functools.partial):
        made = functools.partial(wrapper)
    elif isinstance(function, types.MethodType) or not hasattr(type(function), "__get__"):
        made = _Standing(function, wrapper)
    else:
        made = _Method(function, wrapper)
    vars(made).update(vars(wrapper))
    for name in functools.WRAPPER_ASSIGNMENTS:
        vars(made)[name] = getattr(wrapper, name, None)
    return made  # type: ignore[no-any-return]  # it is called like the one that it stands for


class _Standing:
    """Calls the wrapper; whatever else it is asked for, it asks the one that it stands for."""

    def __init__(self, function: Callable[..., Any], wrapper: Callable[..., Any]) -> None:
        self._function = function
        self._wrapper = wrapper

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._wrapper(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copying and pickling ask before there is anything to ask
            raise AttributeError(name)
        return getattr(self._function, name)


class _Method(_Standing):
    """The same for what is bound to the instance that it is an attribute of."""

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

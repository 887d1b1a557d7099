"""Whose call it is: the object, the class or the closure that a tool's call belongs to.

``Account("A").pay(10)`` and ``Account("B").pay(10)`` are two calls, so the receiver is recorded as
an argument: its class, and those of its fields that can tell one from another (``telling``). A
first parameter is a receiver where the function is a method of what it was given, never by its
name alone.
"""

from __future__ import annotations

import functools
import inspect
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tracekit.canonical import JsonValue, digest_bytes, encode, json_bytes
from tracekit.contract import NONLOCAL, RECEIVER_NAMES, class_around
from tracekit.errors import ContractError
from tracekit.interruption import pass_on
from tracekit.telling import (
    NOTHING,
    Met,
    meet,
    met_cell,
    mro_of,
    namespace_of,
    scalar,
)

CLASS = "class"
"""Where the class of a receiver stands; like ``NONLOCAL`` no name that a program could give."""
Redact = Callable[[str, str, JsonValue], JsonValue]
"""Takes the secrets out of a field, given where it stands and its name; None where it is one."""
Placed = tuple[tuple[str, ...], Met]
"""What a call belongs to, after where its fields stand in the arguments."""
_LONG_TEXT = 512
_LONG_BYTES = 64
_UNBOUND = frozenset(("args", "kwargs"))


def _written(place: str, name: str, value: object, redact: Redact) -> JsonValue:
    """A field as it is recorded: plain JSON, and a long one that is no secret by its digest."""
    told = encode(value).value
    if isinstance(value, str):
        if len(value) <= _LONG_TEXT:
            return told
    elif not isinstance(value, bytes) or len(value) <= _LONG_BYTES:
        return told
    kept = redact(place, name, told)
    if kept is None:
        return told
    if kept == told and isinstance(value, bytes):
        return digest_bytes(value)
    return digest_bytes(kept.encode() if isinstance(kept, str) else json_bytes(kept))


def _class_name(cls: type) -> str:
    """The name of a class, in whatever module or function it stands."""
    name = str(type.__dict__["__qualname__"].__get__(cls))
    return name.rpartition("<locals>.")[2]


class Whose:
    """Tells of the calls of one tool whose they are.

    Args:
        function: The tool.
        fields: The names of what identifies a receiver, ``class`` for its class; None for all.
        redact: Takes the secrets out of a long field before its digest is made.

    Raises:
        ContractError: ``fields`` names what is nowhere.
    """

    def __init__(
        self, function: Callable[..., Any], fields: Sequence[str] | None, redact: Redact
    ) -> None:
        self._fields = None if fields is None else frozenset(fields)
        self._redact = redact
        inner = _innermost(function)
        self.method = Method.of(inner)
        self._bound = _bound_to(function, self.method)
        self._names = _names(function)
        given, variables = _bound_arguments(function), _variables(inner)
        if fields and self.method is None and self._bound is None:
            _check_known(function, fields, {*given, *(name for name, _ in variables)})
        self._given = {name: value for name, value in given.items() if self._counts(name)}
        self._variables = [(name, met_cell(cell)) for name, cell in variables if self._counts(name)]

    def _counts(self, name: str) -> bool:
        return self._fields is None or name in self._fields

    @property
    def beside(self) -> tuple[str, ...]:
        """The names under which something stands beside the arguments of each call."""
        names = [NONLOCAL] if self._variables or self._given else []
        return (*names, *([self._bound[0]] if self._bound is not None else []))

    def __bool__(self) -> bool:
        """Whether a call of it can be somebody's; any other tool has nothing to do with this."""
        return self.method is not None or bool(self.beside)

    def of(self, arguments: dict[str, object]) -> tuple[dict[str, object], list[Placed]]:
        """Put in whose the call is: the arguments as they are recorded, and what was looked at."""
        seen: list[Placed] = []
        try:
            return self._of(arguments, seen), seen
        except Exception as error:  # noqa: BLE001  # it costs fields, never a call
            pass_on(error)
            return _by_class(arguments, self.method), []

    def _of(self, arguments: dict[str, object], seen: list[Placed]) -> dict[str, object]:
        if is_misfit(arguments, self._names):  # Python refuses it, whosever it is
            return arguments if self.method is None else self.method.left_out(arguments)
        said: dict[str, object] = {}
        known = dict(self._given)
        for name, met in self._variables:
            counts = met.look()
            seen.append(((NONLOCAL, name), met))
            if counts:
                known |= _written_of(met, counts, {name: counts[""]}, NONLOCAL, self._redact)
        if known:
            said[NONLOCAL] = known
        if self._bound is not None:
            said[self._bound[0]] = self._told(self._bound[1], self._bound[0], seen)
        said |= arguments
        method = self.method
        if method is not None and method.name in arguments and method.owns(said[method.name]):
            said[method.name] = self._told(arguments[method.name], method.name, seen)
            if not said[method.name]:  # it is declared to be anybody's
                del said[method.name]
        return said

    def _told(self, receiver: object, place: str, seen: list[Placed]) -> dict[str, JsonValue]:
        fields, met = told_of(receiver, place, self._redact)
        seen.append(((place,), met))
        if self._fields is None or not fields.keys() >= self._fields:
            return fields  # where one that is declared is missing, any may be the one
        return {name: value for name, value in fields.items() if name in self._fields}


def told_of(receiver: object, place: str, redact: Redact) -> tuple[dict[str, JsonValue], Met]:
    """Say whose a call of ``receiver`` is: its class, and its fields that can tell."""
    met = meet(receiver)
    counts = met.look()
    return {CLASS: _class_of(receiver), **_written_of(met, counts, counts, place, redact)}, met


def _class_of(receiver: object) -> str:
    cls: Any = receiver if issubclass(type(receiver), type) else type(receiver)
    return _class_name(cls)


def _by_class(arguments: dict[str, object], method: Method | None) -> dict[str, object]:
    """The arguments of a call whose first one could not even be asked whose it is."""
    if method is None or method.name not in arguments:
        return arguments
    return {**arguments, method.name: {CLASS: _class_of(arguments[method.name])}}


def _written_of(
    met: Met, counts: dict[str, object], fields: dict[str, object], place: str, redact: Redact
) -> dict[str, JsonValue]:
    """Give ``fields`` as they are recorded, which are ``counts`` of what was met."""
    known = met.written
    if known is not None and known[0] is counts and known[1].keys() == fields.keys():
        return known[1]
    written: dict[str, JsonValue] = {}
    for name, value in fields.items():
        try:
            written[name] = _written(place, name, value, redact)
        except Exception as error:  # noqa: BLE001  # it costs a field, never a call
            pass_on(error)
    if len(written) == len(fields):
        met.written = (counts, written)
    return written


class LeftOut:
    """Leaves out whose the calls of a function are: of what is no tool."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.method = Method.of(_innermost(function))

    def __bool__(self) -> bool:
        """Whether a call of it can be somebody's."""
        return self.method is not None

    def of(self, arguments: dict[str, object]) -> tuple[dict[str, object], list[Placed]]:
        """Give the arguments without the object or class that it is a method of."""
        try:
            return arguments if self.method is None else self.method.left_out(arguments), []
        except Exception as error:  # noqa: BLE001  # as above
            pass_on(error)
            return _by_class(arguments, self.method), []


@dataclass(slots=True)
class Method:
    """The first parameter of a function that may be a method's."""

    name: str
    owner: str
    """Qualified name of the class whose body it stands in; empty where only its name speaks."""
    module: str
    label: str
    wrapper: object = None
    """What stands for the function."""
    _known: dict[int, tuple[weakref.ref[type], bool]] = field(default_factory=dict)

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Method | None:
        """Look at ``function``; None where it has no such parameter."""
        if not inspect.isfunction(function):
            return None
        try:
            first = next(iter(inspect.signature(function).parameters.values()), None)
        except (TypeError, ValueError):
            return None
        if first is None or first.kind not in (
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
        ):
            return None
        owner = class_around(function)
        if not owner and first.name not in RECEIVER_NAMES:
            return None
        return cls(first.name, owner, function.__module__, function.__name__)

    def left_out(self, arguments: dict[str, object]) -> dict[str, object]:
        """Give the arguments of a call without the object or class that it is a method of."""
        if self.name in arguments:
            if self.owns(arguments[self.name]):
                return {n: value for n, value in arguments.items() if n != self.name}
        elif isinstance(args := arguments.get("args"), list) and args and self.owns(args[0]):
            return {**arguments, "args": args[1:]}
        return arguments

    def owns(self, first: object) -> bool:
        """Whether ``first`` is the object or class that the function is a method of."""
        kind = type(first)
        if issubclass(kind, type):
            assert isinstance(first, type)
            return self._is_owner(first) or self._is_owner(kind)
        return self._is_owner(kind)

    def _is_owner(self, cls: type) -> bool:
        known = self._known.get(id(cls))
        if known is not None and known[0]() is cls:
            return known[1]
        found = self._look_for(cls)
        if len(self._known) > 1000:  # classes that are made and dropped
            self._known.clear()
        self._known[id(cls)] = (weakref.ref(cls), found)
        return found

    def _look_for(self, cls: type) -> bool:
        for base in mro_of(cls):
            namespace = namespace_of(base)
            name = type.__dict__["__qualname__"].__get__(base)
            if self.owner and name == self.owner and namespace.get("__module__") == self.module:
                return not isinstance(namespace.get(self.label), staticmethod)
            # A copy: another thread may give the class a further attribute meanwhile.
            if any(_leads_to(value, self.wrapper) for value in namespace.copy().values()):
                return True
        return False


def _leads_to(attribute: object, wrapper: object) -> bool:
    """Whether what stands in a class body hands its object to ``wrapper``."""
    kind = type(attribute)
    if kind is property:
        attribute = attribute.fget  # type: ignore[attr-defined]  # it is a property
    elif kind is classmethod:
        attribute = attribute.__func__  # type: ignore[attr-defined]  # it is a class method
    elif kind is functools.partialmethod:
        attribute = attribute.func  # type: ignore[attr-defined]  # it is a partial method
    passed: set[int] = set()  # one that leads to itself leads nowhere
    while attribute is not wrapper and isinstance(attribute, types.FunctionType):
        if id(attribute) in passed:
            return False
        passed.add(id(attribute))
        attribute = vars(attribute).get("__wrapped__")
    return wrapper is not None and attribute is wrapper


def is_misfit(arguments: Mapping[str, object], names: frozenset[str]) -> bool:
    """Whether a call did not fit the parameters of these names, and is kept as it was made."""
    return arguments.keys() == _UNBOUND and not names >= _UNBOUND


def _names(function: Callable[..., Any]) -> frozenset[str]:
    try:
        return frozenset(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return _UNBOUND


def _check_known(function: Callable[..., Any], fields: Sequence[str], known: set[str]) -> None:
    name = getattr(function, "__qualname__", repr(function))
    for wanted in fields:
        if wanted not in known:
            has = f"it has {', '.join(sorted(known))}" if known else "it is nobody's method"
            raise ContractError(
                f"tool {name!r}: receiver {wanted!r} is no variable around it", hint=has
            )


def _innermost(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that the program wrote: beneath partials, bound methods and decorators."""
    inner: Any = function
    while isinstance(inner, (staticmethod, classmethod, types.MethodType, functools.partial)):
        inner = inner.func if isinstance(inner, functools.partial) else inner.__func__
    try:
        return inspect.unwrap(inner)  # type: ignore[no-any-return]  # it can be called
    except ValueError:  # one that wraps itself
        return inner  # type: ignore[no-any-return]  # as above


def _bound_to(function: Callable[..., Any], method: Method | None) -> tuple[str, object] | None:
    """Under which name, and whose: of a bound method, and of an object that is called."""
    while isinstance(function, functools.partial):
        if function.args and method is not None and method.owns(function.args[0]):
            return method.name, function.args[0]
        function = function.func
    if inspect.isfunction(function) or inspect.isclass(function):
        return None
    if isinstance(function, types.MethodType):
        return ("self" if method is None else method.name), function.__self__
    if inspect.isbuiltin(function):
        owner = getattr(function, "__self__", None)
        return None if owner is None or inspect.ismodule(owner) else ("self", owner)
    if isinstance(function, (staticmethod, classmethod)) or hasattr(function, "__wrapped__"):
        return None
    return "self", function


def _bound_arguments(function: Callable[..., Any]) -> dict[str, JsonValue]:
    """What a partial was given by position, which no call of it shows."""
    if not isinstance(function, functools.partial) or not function.args:
        return {}
    try:
        given = inspect.signature(function.func).bind_partial(*function.args).arguments
    except (TypeError, ValueError):
        return {}
    found = {name: scalar(value) for name, value in given.items()}
    return {n: encode(value).value for n, value in found.items() if value is not NOTHING}


def _variables(function: Callable[..., Any]) -> tuple[tuple[str, types.CellType], ...]:
    """The variables of enclosing functions that may tell one closure from another."""
    if not inspect.isfunction(function) or not function.__closure__:
        return ()
    cells = zip(function.__code__.co_freevars, function.__closure__, strict=True)
    return tuple((name, cell) for name, cell in cells if _may_tell(cell))


def _may_tell(cell: types.CellType) -> bool:
    try:
        return scalar(cell.cell_contents) is not NOTHING
    except ValueError:  # it is filled later
        return True

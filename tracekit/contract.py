"""What a tool declares: its name, purpose, effect, arguments, and how its calls are compared.

The contract of the *recorded* tool is kept with the run, since a replay binds and compares calls by
what held when they were recorded, not by what the new code happens to say.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from tracekit import jsontree
from tracekit.canonical import Encoded, JsonValue, canonical_text, encode
from tracekit.errors import ContractError, PointerNotFound
from tracekit.events import Effect

EFFECTS: tuple[Effect, ...] = ("pure", "read", "write", "unknown")
ParameterKind = Literal["receiver", "positional", "either", "keyword", "args", "kwargs"]
RECEIVER_NAMES = frozenset(("self", "cls", "mcs", "mcls", "metacls"))
"""What the first parameter of a method is called, where nothing else is known of it."""
NONLOCAL = "nonlocal"
"""Where the variables of enclosing functions stand: no parameter can have that name."""

_KINDS: dict[Any, ParameterKind] = {
    inspect.Parameter.POSITIONAL_ONLY: "positional",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "either",
    inspect.Parameter.KEYWORD_ONLY: "keyword",
    inspect.Parameter.VAR_POSITIONAL: "args",
    inspect.Parameter.VAR_KEYWORD: "kwargs",
}


_Width = Annotated[float, Field(strict=True)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Parameter(_Frozen):
    """One parameter of a tool's function."""

    name: str
    kind: ParameterKind = "either"
    """``receiver`` is no parameter of a caller: it says whose call it is (``receivers``)."""
    required: Annotated[bool, Field(strict=True)] = True
    default: JsonValue = None
    """Encoded default; only meaningful where ``required`` is false.

    In the program it is what the code says, secrets and all; ``declaring`` takes those out of what
    is kept.
    """


def _as_pointer(place: str) -> str:
    """Read a JSON pointer into the arguments; the plain name of an argument stands for it."""
    return place if not place or place.startswith("/") else f"/{place}"


class Matchers(_Frozen):
    """How two argument values of a read count as equal. Keys are JSON pointers into the arguments.

    The name of an argument stands for a pointer to it. None of these ever applies to a write: a
    write is compared exactly.
    """

    ignore: tuple[str, ...] = ()
    """Values that do not matter."""
    sets: tuple[str, ...] = ()
    """Lists whose order does not matter."""
    tolerances: dict[str, _Width] = Field(default_factory=dict)
    """Numbers that may differ by so much, absolute."""
    windows: dict[str, _Width] = Field(default_factory=dict)
    """ISO 8601 times, or Unix seconds, that may differ by so many seconds."""

    @field_validator("ignore", "sets")
    @classmethod
    def _places(cls, places: tuple[str, ...]) -> tuple[str, ...]:
        # One to everything would make all calls equal.
        return tuple(_as_pointer(place) for place in places if place)

    @field_validator("tolerances", "windows")
    @classmethod
    def _widths(cls, widths: dict[str, float]) -> dict[str, float]:
        return {_as_pointer(place): width for place, width in widths.items() if place}


class Contract(_Frozen):
    """A tool's declaration."""

    name: str
    purpose: str = ""
    effect: Effect = "unknown"
    parameters: tuple[Parameter, ...] | None = None
    """None where the signature is not known (imported runs)."""
    argument_schema: dict[str, JsonValue] | None = None
    result_schema: dict[str, JsonValue] | None = None
    matchers: Matchers = Matchers()
    touches: tuple[str, ...] | None = None
    """Resources the tool reads or changes; None means all of them."""
    idempotency_field: str | None = None
    """JSON pointer of the argument that carries the caller's idempotency key, or its name."""

    @field_validator("idempotency_field")
    @classmethod
    def _key(cls, place: str | None) -> str | None:
        return _as_pointer(place) if place else None

    @property
    def writes(self) -> bool:
        """Whether a call may change the world; an undeclared effect may."""
        return self.effect in ("write", "unknown")

    @property
    def receivers(self) -> frozenset[str]:
        """The arguments that say whose call it is; whoever asks by name and arguments has none."""
        return frozenset(p.name for p in self.parameters or () if p.kind == "receiver")

    def said(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Give ``arguments`` without what says whose call it is."""
        receivers = self.receivers
        return {name: value for name, value in arguments.items() if name not in receivers}

    def shares_resource(self, other: Contract) -> bool:
        """Whether both touch a common resource; a tool that names none touches all."""
        if self.touches is None or other.touches is None:
            return True
        return not set(self.touches).isdisjoint(other.touches)

    def normalise(self, arguments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Spell ``arguments`` as this contract would: defaults filled in, in its order."""
        if self.parameters is None:
            return dict(arguments)
        spelt: dict[str, JsonValue] = {}
        for parameter in self.parameters:
            if parameter.name in arguments:
                spelt[parameter.name] = arguments[parameter.name]
            elif not parameter.required:
                spelt[parameter.name] = parameter.default
        spelt |= {name: value for name, value in arguments.items() if name not in spelt}
        return spelt


def key_at(arguments: JsonValue, place: str | None) -> str:
    """Write the idempotency key that stands at ``place`` of arguments; nothing without one.

    An empty one is none: no tool can tell by it that it was asked before.
    """
    if place is None:
        return ""
    try:
        key = jsontree.get(arguments, place)
    except PointerNotFound:
        return ""
    empty = key is None or key in ([], {}) or (isinstance(key, str) and not key.strip())
    return "" if empty else canonical_text(key)


def contract_of(
    function: Callable[..., object],
    *,
    name: str | None = None,
    purpose: str | None = None,
    effect: Effect = "unknown",
    argument_schema: dict[str, JsonValue] | None = None,
    result_schema: dict[str, JsonValue] | None = None,
    matchers: Matchers | None = None,
    touches: Sequence[str] | None = None,
    idempotency_field: str | None = None,
    beside: Sequence[str] = (),
) -> Contract:
    """Read the contract of ``function`` from its signature and docstring.

    ``beside`` names what says whose a call is and is not among the parameters.

    Raises:
        ContractError: the effect is none of pure, read, write, unknown.
    """
    label = name or getattr(function, "__qualname__", repr(function)).replace("<locals>.", "")
    if effect not in EFFECTS:
        raise ContractError(
            f"tool {label!r}: effect {effect!r} is not known", hint=f"one of {', '.join(EFFECTS)}"
        )
    text = purpose if purpose is not None else (inspect.getdoc(function) or "")
    parameters = _parameters(function, beside)
    if idempotency_field is not None:
        _check_key(label, idempotency_field, parameters)
    return Contract(
        name=label,
        purpose=text.strip().partition("\n\n")[0],
        effect=effect,
        parameters=parameters,
        argument_schema=argument_schema,
        result_schema=result_schema,
        matchers=matchers or Matchers(),
        touches=None if touches is None else tuple(touches),
        idempotency_field=idempotency_field,
    )


def _check_key(tool: str, place: object, parameters: tuple[Parameter, ...] | None) -> None:
    """Refuse an idempotency field that no call of the tool could have."""
    if not isinstance(place, str):
        raise ContractError(
            f"tool {tool!r}: idempotency_field {place!r} names no argument",
            hint="a function that computes the key is given as idempotency_key=",
        )
    if parameters is None:
        return
    names = [parameter.name for parameter in parameters if parameter.kind != "receiver"]
    named = _as_pointer(place).split("/")[1:2]
    if not named or named[0].replace("~1", "/").replace("~0", "~") not in names:
        keywords = next((p.name for p in parameters if p.kind == "kwargs"), None)
        inside = f"; one of **{keywords} is '/{keywords}/NAME'" if keywords else ""
        raise ContractError(
            f"tool {tool!r}: idempotency_field {place!r} is no argument of it",
            hint=f"name one of {', '.join(names) or 'none, since it has none'}{inside}",
        )


def class_around(function: Callable[..., object]) -> str:
    """Give the qualified name of the class in whose body a function stands; empty for others."""
    around = getattr(function, "__qualname__", "").rpartition(".")[0]
    return "" if around.endswith("<locals>") else around


def _parameters(
    function: Callable[..., object], beside: Sequence[str]
) -> tuple[Parameter, ...] | None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    found = [Parameter(name=name, kind="receiver") for name in beside]
    for index, parameter in enumerate(signature.parameters.values()):
        if index == 0 and parameter.name in RECEIVER_NAMES and class_around(function):
            if parameter.name not in beside:
                found.append(Parameter(name=parameter.name, kind="receiver"))
            continue
        optional = parameter.default is not inspect.Parameter.empty
        variable = _KINDS[parameter.kind] in ("args", "kwargs")
        found.append(
            Parameter(
                name=parameter.name,
                kind=_KINDS[parameter.kind],
                required=not (optional or variable),
                default=_default(parameter),
            )
        )
    return tuple(found)


def _default(parameter: inspect.Parameter) -> JsonValue:
    match _KINDS[parameter.kind]:
        case "args":
            return []
        case "kwargs":
            return {}
        case _:
            if parameter.default is inspect.Parameter.empty:
                return None
            return encode(parameter.default).value


Bind = Callable[[tuple[object, ...], Mapping[str, object]], dict[str, object]]


def binder(signature: inspect.Signature) -> Bind:
    """Return what binds calls to ``signature`` as ``bind`` does, prepared once."""
    parameters = signature.parameters.values()
    names = tuple(signature.parameters)
    if any(parameter.kind is not parameter.POSITIONAL_OR_KEYWORD for parameter in parameters):
        return functools.partial(bind, signature)
    empty = inspect.Parameter.empty
    defaults = {p.name: p.default for p in parameters if p.default is not empty}

    def bind_plainly(args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, object]:
        arguments = dict(zip(names, args))  # noqa: B905  # as far as both go
        if len(args) == len(names) and not kwargs:  # as most calls are
            return arguments
        given = 0
        if len(args) < len(names):
            for name in names[len(args) :]:
                if name in kwargs:
                    arguments[name] = kwargs[name]
                    given += 1
                elif name in defaults:
                    arguments[name] = defaults[name]
                else:
                    return bind(signature, args, kwargs)
        if given != len(kwargs) or len(args) > len(names):  # Python refuses this call
            return bind(signature, args, kwargs)
        return arguments

    return bind_plainly


def bind(
    signature: inspect.Signature, args: tuple[object, ...], kwargs: Mapping[str, object]
) -> dict[str, object]:
    """Bind a call to its parameters, defaults applied.

    A call that does not fit the signature is kept as it was made, under ``args`` and ``kwargs``:
    Python itself will refuse it, and the record shows what was tried.
    """
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return {"args": list(args), "kwargs": dict(kwargs)}
    bound.apply_defaults()
    arguments = dict(bound.arguments)
    return {
        name: list(v) if isinstance(v, tuple) and _is_args(signature, name) else v
        for name, v in arguments.items()
    }


def _is_args(signature: inspect.Signature, name: str) -> bool:
    return signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL


def encode_arguments(arguments: Mapping[str, object]) -> Encoded:
    """Encode bound arguments as one JSON object with its type marks."""
    return encode(dict(arguments))

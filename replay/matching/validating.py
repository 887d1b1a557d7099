"""Calls that no tool would take: they fail as they would have, before the record is asked.

A call that does not fit the signature is refused by Python itself, so that refusal is evidence. One
that the tool's declared schema forbids is refused here; whether the tool checks it is not known, so
that refusal taints. Where the record holds a call that broke the schema and was answered all the
same, nobody checks it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from replay.case.schema import check_schema, faults
from replay.case.searching import Undecided
from replay.tape import Tape
from tracekit.canonical import JsonValue
from tracekit.contract import Contract, Parameter
from tracekit.trajectory import Observation

_UNBOUND = {"args", "kwargs"}
"""What the recorder names the arguments of a call that does not fit its signature."""
_SCHEMA = "its argument schema"
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a call fails before it is made."""

    observation: Observation
    text: str
    certain: bool
    """Whether it fails wherever it is made."""


def find_fault(
    tool: str, arguments: Mapping[str, JsonValue], contract: Contract | None, tape: Tape
) -> Fault | None:
    """Say why a call of ``tool`` cannot be made; None where it can.

    Args:
        tool: Its name, as asked.
        arguments: Bound arguments.
        contract: Its contract now; the recorded one where the planner has none.
        tape: The record, which may show that nobody checks the schema.
    """
    if contract is None:
        return None
    if (said := _misfit(contract, arguments)) is not None:
        raised = _raised("TypeError", "builtins:TypeError", f"{tool}() {said}")
        return Fault(raised, said, certain=True)
    problems = _schema_faults(contract, arguments)
    if not problems or _unchecked(tape, contract):
        return None
    said = "; ".join(f"{at or 'the arguments'}: {wrong}" for at, wrong in problems[:_SHOWN])
    told: list[JsonValue] = [{"at": at, "problem": wrong} for at, wrong in problems]
    seen = refusal(tool, rule=_SCHEMA, reason=said, problems=told)
    return Fault(seen, f"refused by {_SCHEMA}: {said}", certain=False)


def refusal(
    tool: str, *, rule: str, reason: str, problems: list[JsonValue] | None = None
) -> Observation:
    """Make what a planner sees of a call that was refused before it was made."""
    message = f"{tool} was refused by {rule}: {reason}"
    attributes: dict[str, JsonValue] = {"tool": tool, "rule": rule, "message": message}
    attributes |= {"hint": None, **({"problems": problems} if problems else {})}
    path = "tracekit.errors:CallRefused"
    return _raised("tracekit.errors.CallRefused", path, message, attributes)


def _raised(
    kind: str, path: str, message: str, attributes: dict[str, JsonValue] | None = None
) -> Observation:
    value: dict[str, JsonValue] = {"args": [message], "message": message, "type": path}
    if attributes:
        value["attributes"] = attributes
    return Observation(
        value=value,
        state="captured",
        types={"": ["exception", path]},
        is_error=True,
        error_type=kind,
        error_message=message,
    )


def _schema_faults(contract: Contract, arguments: Mapping[str, JsonValue]) -> list[tuple[str, str]]:
    schema = contract.argument_schema
    if schema is None:
        return []
    try:
        check_schema(schema)
    except ValueError:  # a schema that is not understood in full proves nothing
        return []
    given = {parameter.name: parameter for parameter in contract.parameters or ()}
    defaults = {name for name, parameter in given.items() if not parameter.required}
    # What was filled in was not said: a default that the schema does not name is no fault.
    named = schema.get("properties")
    hidden = defaults - named.keys() if isinstance(named, dict) else set()
    told = contract.said(arguments)
    said: JsonValue = {name: value for name, value in told.items() if name not in hidden}
    try:
        return faults(said, schema)
    except Undecided:  # nor does one that cannot be checked
        return []


def _unchecked(tape: Tape, contract: Contract) -> bool:
    """Whether the record shows a call that broke the schema and came back without an error."""
    return any(
        not recorded.call.observation.is_error
        and isinstance(recorded.call.arguments, dict)
        and bool(_schema_faults(contract, recorded.call.arguments))
        for recorded in (tape.calls[place] for place in tape.by_tool.get(contract.name, ()))
    )


# --- signatures, in Python's own words ------------------------------------------------------------


def _misfit(contract: Contract, arguments: Mapping[str, JsonValue]) -> str | None:
    parameters = contract.parameters
    if parameters is None:
        return None
    names = {parameter.name for parameter in parameters}
    args, kwargs = arguments.get("args"), arguments.get("kwargs")
    unbound = arguments.keys() == _UNBOUND and not names >= _UNBOUND
    if unbound and isinstance(args, list) and isinstance(kwargs, dict):
        return _misbound(parameters, args, kwargs)
    return _misbound(parameters, [], arguments, bound=True)


def _misbound(
    parameters: Sequence[Parameter],
    args: Sequence[JsonValue],
    kwargs: Mapping[str, JsonValue],
    *,
    bound: bool = False,
) -> str | None:
    """Say what Python says to a call; ``bound`` where every argument goes by its name."""
    kinds = {parameter.kind for parameter in parameters}
    placed = [p for p in parameters if p.kind in ("positional", "either")]
    by_name = {p.name for p in parameters if bound or p.kind in ("either", "keyword")}
    given = {p.name for p in placed[: len(args)]}
    for name in kwargs:
        if name in given and name in by_name:
            return f"got multiple values for argument {name!r}"
        if name not in by_name and "kwargs" not in kinds:
            return f"got an unexpected keyword argument {name!r}"
    if len(args) > len(placed) and "args" not in kinds:
        return _too_many(placed, len(args))
    missing = [p for p in parameters if p.required and p.name not in given | kwargs.keys()]
    for wanted, kind in ((("positional", "either"), "positional"), (("keyword",), "keyword-only")):
        lacking = [p.name for p in missing if p.kind in wanted]
        if lacking:
            plural = "" if len(lacking) == 1 else "s"
            return f"missing {len(lacking)} required {kind} argument{plural}: {_listed(lacking)}"
    return None


def _too_many(placed: Sequence[Parameter], count: int) -> str:
    least, most = sum(p.required for p in placed), len(placed)
    span = str(most) if least == most else f"from {least} to {most}"
    plural = "" if most == 1 and least == most else "s"
    were = "was" if count == 1 else "were"
    return f"takes {span} positional argument{plural} but {count} {were} given"


def _listed(names: Sequence[str]) -> str:
    quoted = [repr(name) for name in names]
    if len(quoted) <= 2:
        return " and ".join(quoted)
    return f"{', '.join(quoted[:-1])}, and {quoted[-1]}"

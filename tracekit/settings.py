"""The ``TRACEKIT_*`` environment variables: what an operator says who cannot change the code.

One table names them all. Reading never fails: what is not understood is told in a sentence and has
no effect, except that of redaction, where a rule that is lost would be a secret that is written:
then nothing is recorded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from tracekit.errors import UsageError
from tracekit.limits import Limits
from tracekit.redact import Rules
from tracekit.sampling import KEEP_IF, Sampling

PREFIX = "TRACEKIT_"
DISABLED = "TRACEKIT_DISABLED"
REDACT = "TRACEKIT_REDACT"
_SIZE = re.compile(r"(\d+)\s*(|B|KiB|MiB|GiB|TiB)", re.IGNORECASE)
_SIZES = {"": 0, "b": 0, "kib": 10, "mib": 20, "gib": 30, "tib": 40}


@dataclass(frozen=True, slots=True)
class Fault:
    """A variable that was not understood."""

    variable: str
    what: str
    """One sentence, with what to do."""
    stops: bool = False
    """Whether nothing is recorded because of it."""


@dataclass(frozen=True, slots=True)
class Said:
    """What the environment says, by the arguments of ``configure``."""

    given: Mapping[str, Any] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()

    @property
    def stop(self) -> Fault | None:
        """Why nothing may be recorded, if so."""
        return next((fault for fault in self.faults if fault.stops), None)


def _text(value: str) -> str:
    return value


_SWITCHES = {
    **dict.fromkeys(("true", "1", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "no", "off"), False),
}


def _switch(value: str) -> bool:
    said = value.strip().lower()
    if said not in _SWITCHES:
        raise UsageError(f"{value!r} is neither true nor false", hint="write true or false")
    return _SWITCHES[said]


def _off_switch(value: str) -> bool:
    return not _switch(value)


def _one_of(*names: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value.strip() not in names:
            raise UsageError(f"{value!r} is not known", hint=f"write {' or '.join(names)}")
        return value.strip()

    return read


def _size(value: str) -> int:
    found = _SIZE.fullmatch(value.strip())
    if found is None:
        raise UsageError(
            f"{value!r} is no size", hint="write bytes, or a number with KiB, MiB, GiB"
        )
    return int(found[1]) << _SIZES[found[2].lower()]


def _otlp(value: str) -> bool | str:
    said = value.strip()
    if said.lower() in _SWITCHES:
        return _SWITCHES[said.lower()]
    if not re.match(r"(https?|grpcs?)://[^\s/]", said):
        raise UsageError(
            f"{value!r} is no endpoint", hint="write http://HOST:4318, grpc://HOST:4317 or true"
        )
    return said


def _versions(value: str) -> dict[str, str]:
    versions = {}
    for item in filter(None, map(str.strip, value.split(","))):
        name, found, version = item.partition("=")
        if not (found and name.strip()):
            raise UsageError(f"{item!r} is no version", hint="write prompt=v2,code=abc")
        versions[name.strip()] = version.strip()
    return versions


def _rate(value: str) -> float:
    try:
        return Sampling(rate=float(value)).rate
    except ValueError as error:
        raise UsageError(f"{value!r} is no share", hint="write a number from 0 to 1") from error


def _keep_if(value: str) -> tuple[str, ...]:
    wanted = tuple(filter(None, map(str.strip, value.split(","))))
    return Sampling(keep_if=wanted).keep_if


def _rules(value: str) -> list[str | re.Pattern[str]]:
    """Read rules: a name or path each, or ``re:`` and a pattern, which goes to the line's end."""
    rules: list[str | re.Pattern[str]] = []
    for line in value.splitlines():
        rest = line.strip()
        while rest:
            if rest.startswith("re:"):
                rules.append(_pattern(rest.removeprefix("re:").strip()))
                break
            rule, _, rest = (part.strip() for part in rest.partition(","))
            rules += [rule] if rule else []
    Rules.from_user(rules)
    return rules


def _pattern(text: str) -> re.Pattern[str]:
    if not text:
        raise UsageError("a pattern is empty", hint="write re: and a regular expression")
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(
            f"a pattern is no regular expression ({error.msg}, at its character {error.pos})"
        ) from error


@dataclass(frozen=True, slots=True)
class Variable:
    """One variable."""

    argument: str
    """Of ``configure``, or of what that takes."""
    read: Callable[[str], Any]
    """Gives the argument, or raises ``UsageError``."""


VARIABLES: Mapping[str, Variable] = {
    DISABLED: Variable("enabled", _off_switch),
    "TRACEKIT_DURABILITY": Variable("durability", _one_of("os", "disk")),
    "TRACEKIT_KEEP_IF": Variable("keep_if", _keep_if),
    "TRACEKIT_LIMIT_RUN_BYTES": Variable("run_bytes", _size),
    "TRACEKIT_LIMIT_STORE_BYTES": Variable("store_bytes", _size),
    "TRACEKIT_LIMIT_VALUE_BYTES": Variable("value_bytes", _size),
    "TRACEKIT_ON_LOSS": Variable("on_loss", _one_of("record", "refuse_writes")),
    "TRACEKIT_OTLP": Variable("otlp", _otlp),
    "TRACEKIT_OTLP_CONTENT": Variable("otlp_content", _switch),
    REDACT: Variable("redact", _rules),
    "TRACEKIT_REDACTION_KEY": Variable("key", _text),
    "TRACEKIT_SAMPLE_RATE": Variable("rate", _rate),
    "TRACEKIT_SERVICE": Variable("service", _text),
    "TRACEKIT_SPANS": Variable("spans", _switch),
    "TRACEKIT_STORE": Variable("store", _text),
    "TRACEKIT_VERSIONS": Variable("versions", _versions),
}
"""All of them; docs/operations.md has a line for each."""
_OF_REDACTION = frozenset((REDACT, "TRACEKIT_REDACTION_KEY"))
_LIKE = 0.65
_NEARLY = 0.8
"""So like a variable must a name be to be taken for it, and for one of redaction: a ratio."""
_LIMITS = ("value_bytes", "run_bytes", "store_bytes")


def disabled(environ: Mapping[str, str] | None = None) -> bool:
    """Whether ``TRACEKIT_DISABLED`` says so."""
    said = (os.environ if environ is None else environ).get(DISABLED, "")
    return _SWITCHES.get(said.strip().lower(), False)


def read_environment(environ: Mapping[str, str] | None = None) -> Said:
    """Read all variables; a variable that is empty counts as not set."""
    environ = os.environ if environ is None else environ
    parts: dict[str, Any] = {}
    faults: list[Fault] = []
    for name in sorted(name for name in environ if name.startswith(PREFIX)):
        if not environ[name].strip():
            continue
        variable = VARIABLES.get(name)
        if variable is None:
            faults.append(_unknown(name))
            continue
        try:
            parts[variable.argument] = variable.read(environ[name])
        except UsageError as error:
            faults.append(_bad(name, error))
    if "service" not in parts and (service := environ.get("OTEL_SERVICE_NAME", "").strip()):
        parts["service"] = service
    return Said(_arguments(parts), tuple(faults))


def redaction_rules(*more: str) -> Rules:
    """Give the rules of the environment, and ``more``: for what redacts outside a recording.

    Args:
        more: Further rules, each spelt as ``TRACEKIT_REDACT`` spells them.

    Raises:
        UsageError: a variable of redaction, or one of ``more``, is not understood.
    """
    said = read_environment()
    if said.stop is not None:
        raise UsageError(said.stop.what)
    given = [rule for text in more for rule in _rules(text)]
    return Rules.from_user([*given, *said.given.get("redact", ())])


def _arguments(parts: dict[str, Any]) -> dict[str, Any]:
    """Put together what single variables say of one argument."""
    parts.pop("key", None)  # redaction reads it itself
    limits = {name: parts.pop(name) for name in _LIMITS if name in parts}
    if limits:
        parts["limits"] = replace(Limits(), **limits)
    if "rate" in parts or "keep_if" in parts:
        rate, keep_if = parts.pop("rate", 1.0), parts.pop("keep_if", KEEP_IF)
        parts["sample"] = Sampling(rate=rate, keep_if=keep_if)
    return parts


def _unknown(name: str) -> Fault:
    known = {one.removeprefix(PREFIX): one for one in VARIABLES}
    own = name.removeprefix(PREFIX)
    close = [known[one] for one in get_close_matches(own, known, n=1, cutoff=_LIKE)]
    meant = f"did you mean {close[0]}?" if close else "docs/operations.md lists those there are"
    rules = [one.removeprefix(PREFIX) for one in _OF_REDACTION]
    stops = own.startswith("REDACT") or bool(get_close_matches(own, rules, n=1, cutoff=_NEARLY))
    told = f"{name} is no variable of tracekit: {meant}"
    return Fault(name, f"{told} Nothing is recorded until it is right" if stops else told, stops)


def _bad(name: str, error: UsageError) -> Fault:
    stops = name in _OF_REDACTION
    hint = f" ({error.hint})" if error.hint else ""
    effect = "nothing is recorded until it is" if stops else "it has no effect"
    return Fault(name, f"{name} is not understood, {effect}: {error.message}{hint}", stops)

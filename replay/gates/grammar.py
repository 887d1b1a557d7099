"""The language of gates: one line, parsed by a grammar of its own and never evaluated as code.

    threshold := METRIC OP BOUND [ "on" BUCKET ]
    buckets   := "no" "bucket" "regresses" "more" "than" BOUND [ "in" METRIC ] [ "by" DIMENSION ]
    METRIC    := [ "p" NUMBER "_" ] NAME [ "_delta" ]
    OP        := ">=" | "<=" | ">" | "<" | "=="
    BOUND     := [ "+" | "-" ] NUMBER [ "pp" | "%" | "ms" | "s" | "USD" | "$" ]
    BUCKET    := TAG | DIMENSION "=" VALUE

What a unit may be depends on the metric, and is checked here: a bound that could mean two things is
refused, with the spelling of either.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Literal

from replay.gates.ranges import always, range_of
from replay.metrics import DEFINITIONS, Definition

Op = Literal[">=", "<=", ">", "<", "=="]
Scale = Literal["absolute", "relative"]

SAFETY = frozenset({"unsafe_action_rate"})
"""Metrics of which one bad run is one too many, however many good ones there are."""

_ALIASES = {"latency": "latency_p50"}
_QUANTILES_OF = ("latency", "cost", "steps", "calls", "tokens")
_QUANTILE = re.compile(r"p([0-9]{1,3}(?:\.[0-9]+)?)_(\w+)")
_TOKEN = re.compile(
    r"\s*(?:(?P<op>>=|<=|==|>|<|=)|(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))|(?P<unit>%|\$)"
    r"|(?P<word>[^\s<>=%$]+(?:=[^\s]+)?))"
)
_UNITS: dict[str, tuple[str, float]] = {
    "pp": ("pp", 0.01),
    "%": ("%", 0.01),
    "ms": ("ms", 1.0),
    "s": ("ms", 1_000.0),
    "usd": ("USD", 1.0),
    "$": ("USD", 1.0),
}
_PLAIN = frozenset({"steps", "tokens", "calls", "USD"})
"""Units that a bare number has, since it can mean nothing else."""
_LONGEST = 60
"""Signs of one word that a refusal repeats."""
_REGRESSES = ("no", "bucket", "regresses", "more", "than")


class NoGate(ValueError):
    """A line is no gate.

    Args:
        message: What is wrong, and how it is spelt right.
        at: Where in the line, from 0.
    """

    def __init__(self, message: str, *, at: int) -> None:
        super().__init__(message)
        self.at = at


@dataclass(frozen=True, slots=True)
class Metric:
    """What is measured."""

    definition: Definition
    quantile: float | None = None
    """Of the single runs; None for the metric's own form."""
    delta: bool = False
    """Candidate minus baseline, on the same cases."""
    name: str = ""
    """As it was given."""

    @property
    def percent(self) -> bool:
        """Whether it is a share of something."""
        return self.definition.unit == "%"


@dataclass(frozen=True, slots=True)
class Bound:
    """A number to hold a metric against, in the metric's own unit."""

    value: float
    scale: Scale = "absolute"
    text: str = ""
    """As it was given."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """``METRIC OP BOUND [on BUCKET]``."""

    metric: Metric
    op: Op
    bound: Bound
    bucket: tuple[str, str] | None = None
    """Dimension and value; None for all runs."""

    @property
    def needs_pairs(self) -> bool:
        """Whether it compares with the baseline."""
        return self.metric.delta

    @property
    def safety(self) -> bool:
        """Whether one run decides."""
        return self.metric.definition.name in SAFETY


@dataclass(frozen=True, slots=True)
class NoBucketRegresses:
    """``no bucket regresses more than BOUND [in METRIC] [by DIMENSION]``."""

    metric: Metric
    most: Bound
    dimension: str = "tag"

    @property
    def needs_pairs(self) -> bool:
        """It always compares with the baseline."""
        return True

    @property
    def safety(self) -> bool:
        """Safety is not compared: one unsafe run is too many before and after."""
        return False


Rule = Threshold | NoBucketRegresses


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


def parse_rule(text: str) -> Rule:
    """Read one gate.

    Raises:
        NoGate: it is none.
    """
    tokens = _tokens(text)
    parser = _Parser(text, tokens)
    if tokens and tokens[0].text == "no":
        return parser.buckets()
    return parser.threshold()


def _tokens(text: str) -> list[_Token]:
    found = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise NoGate(f"{text[at:].strip()[:20]!r} is not understood", at=at)
        kind = str(match.lastgroup)
        found.append(_Token(kind, match[kind], match.start(kind)))
        at = match.end()
    return found


class _Parser:
    """Reads tokens from the left, one look ahead."""

    def __init__(self, text: str, tokens: list[_Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._next = 0

    def threshold(self) -> Threshold:
        """Read ``METRIC OP BOUND [on BUCKET]``."""
        first = self._take("word", "the name of a metric, or: no bucket regresses more than 3pp")
        metric = _metric(first)
        op = self._op()
        bound, at = self._bound(metric)
        bucket = self._bucket() if self._word("on") else None
        self._end("on TAG, or the end of the line")
        rule = Threshold(metric, op, bound, bucket)
        return _never_averaged(rule, at) if rule.safety else _says_something(rule, at)

    def buckets(self) -> NoBucketRegresses:
        """Read ``no bucket regresses more than BOUND [in METRIC] [by DIMENSION]``."""
        for word in _REGRESSES:
            if not self._word(word):
                self._fail(f"'{' '.join(_REGRESSES)} 3pp'")
        start = self._next
        self._number("3pp")
        at = self._tokens[start].at
        metric = replace(_metric(_Token("word", "task_success", at)), delta=True)
        if self._word("in"):
            named = self._take("word", "the name of a metric")
            metric = replace(_metric(named), delta=True)
            at = named.at
        dimension = "tag"
        if self._word("by"):
            dimension = self._take("word", "what sorts the runs: tag, source, tool").text
        self._end("in METRIC, by DIMENSION, or the end of the line")
        self._next = start
        most, _ = self._bound(metric)
        if most.value < 0:
            raise NoGate("'regresses more than' has a size, not a sign: 3pp", at=at)
        if metric.definition.name in SAFETY:
            raise NoGate(_averages(metric.definition.name), at=at)
        if most.value >= range_of(metric.definition, delta=True, relative=False)[1]:
            raise NoGate(f"no bucket can regress more than {most.text}", at=self._tokens[start].at)
        return NoBucketRegresses(metric, most, dimension)

    def _op(self) -> Op:
        token = self._take("op", "one of >=, <=, >, <, ==")
        for op in (">=", "<=", ">", "<", "=="):
            if token.text == op:
                return op
        raise NoGate("'=' is none of >=, <=, >, <, ==", at=token.at)

    def _number(self, example: str) -> tuple[_Token, _Token | None]:
        number = self._take("number", f"a bound such as {example}")
        unit = self._peek()
        if unit is not None and (unit.kind == "unit" or unit.text.lower() in _UNITS):
            self._next += 1
            return number, unit
        return number, None

    def _bound(self, metric: Metric) -> tuple[Bound, int]:
        number, unit = self._number("+2pp" if metric.delta and metric.percent else "10%")
        text = _cut(number.text) + (unit.text if unit is not None else "")
        value = float(number.text)
        if unit is None:
            return _without_unit(metric, value, text, number.at), number.at
        kind, factor = _UNITS[unit.text.lower()]
        return _with_unit(metric, value * factor, kind, text, unit.at), number.at

    def _bucket(self) -> tuple[str, str]:
        token = self._take("word", "a tag, or DIMENSION=VALUE")
        dimension, sign, value = token.text.partition("=")
        return (dimension, value) if sign else ("tag", token.text)

    def _peek(self) -> _Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _word(self, word: str) -> bool:
        token = self._peek()
        if token is None or token.text != word:
            return False
        self._next += 1
        return True

    def _take(self, kind: str, wanted: str) -> _Token:
        token = self._peek()
        if token is None or token.kind != kind:
            self._fail(wanted)
        assert token is not None  # else it failed
        self._next += 1
        return token

    def _end(self, wanted: str) -> None:
        if self._peek() is not None:
            self._fail(wanted)

    def _fail(self, wanted: str) -> None:
        token = self._peek()
        if token is None:
            raise NoGate(f"the line ends where {wanted} is expected", at=len(self._text))
        raise NoGate(f"{_cut(token.text)!r} stands where {wanted} is expected", at=token.at)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _metric(token: _Token) -> Metric:
    text = token.text
    delta = text.endswith("_delta")
    name = text.removesuffix("_delta")
    if (parts := _QUANTILE.fullmatch(name)) is not None and parts[2] in _QUANTILES_OF:
        base = _ALIASES.get(parts[2], parts[2])
        q = round(float(parts[1]) / 100, 9)
        if not 0 < q < 1:
            raise NoGate(_no_quantile(_cut(text), parts[2]), at=token.at)
        return Metric(DEFINITIONS[base], q, delta, text)
    if name in DEFINITIONS:
        definition = DEFINITIONS[name]
        return Metric(definition, definition.quantile, delta, text)
    known = [*DEFINITIONS, *(f"p95_{of}" for of in _QUANTILES_OF)]
    close = get_close_matches(name, known, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else "."
    raise NoGate(
        f"there is no metric {_cut(name)!r}{meant} There are: {', '.join(sorted(known))}; "
        "each also with _delta behind it",
        at=token.at,
    )


def _no_quantile(text: str, of: str) -> str:
    return (
        f"{text!r}: a quantile lies between p0 and p100, since no number of runs bounds the least "
        f"or the most that there can be; write p1_{of} or p99_{of}"
    )


def _without_unit(metric: Metric, value: float, text: str, at: int) -> Bound:
    if not value or metric.definition.unit in _PLAIN:
        return Bound(value, "absolute", text)
    if metric.percent and not metric.delta and 0 <= value <= 1:
        return Bound(value, "absolute", text)
    raise NoGate(f"{text} has no unit; {_spelling(metric, text)}", at=at)


def _with_unit(metric: Metric, value: float, kind: str, text: str, at: int) -> Bound:
    own = "pp" if metric.percent and metric.delta else metric.definition.unit
    if kind == own:
        return Bound(value, "absolute", text)
    if kind == "%" and metric.delta and not metric.percent:
        return Bound(value, "relative", text)
    raise NoGate(f"{text} does not go with {metric.name}; {_spelling(metric, text)}", at=at)


def _spelling(metric: Metric, text: str) -> str:
    number = re.sub(r"[^0-9.+-]", "", text)
    match metric.definition.unit:
        case "%" if metric.delta:
            return f"the change of a share is in points: {number}pp"
        case "%":
            return f"a share is in percent: {number}%"
        case "ms":
            either = f"{number}ms or {number}s"
        case "USD":
            either = f"{number}USD"
        case _:
            either = number
    return f"write {either}" + (f", or {number}% of the baseline" if metric.delta else "")


def _says_something(rule: Threshold, at: int) -> Threshold:
    """Refuse a bound that whatever is measured keeps, or breaks."""
    metric, bound = rule.metric, rule.bound
    relative = bound.scale == "relative"
    values = range_of(metric.definition, delta=metric.delta, relative=relative)
    holds = always(rule.op, bound.value, values)
    if holds is None:
        return rule
    word = "always" if holds else "never"
    unit = "pp" if metric.delta and not relative else "%"
    if relative or metric.percent:
        low, high = (f"{100 * end:g}{unit}" for end in values)
    else:
        low, high = (f"{end:g}" for end in values)
    said = f"from {low} to {high}" if values[1] < math.inf else f"{low} or more"
    raise NoGate(
        f"{metric.name} {rule.op} {bound.text} {word} holds: {metric.name} is {said}", at=at
    )


def _never_averaged(rule: Threshold, at: int) -> Threshold:
    if rule.metric.delta or rule.bound.value or rule.op not in ("==", "<="):
        raise NoGate(_averages(rule.metric.definition.name), at=at)
    return replace(rule, op="==")


def _averages(name: str) -> str:
    return f"a safety gate never averages: one unsafe run is too many; write: {name} == 0"

"""Metrics over runs, by bucket, with their two outer forms: text and JSON.

The JSON form is public. Its ``format`` is ``tracekit/metrics/v1``; names are only ever added.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from replay.metrics.attempts import Attempts
from replay.metrics.model import Bucket, Measure
from replay.stats import Interval
from tracekit.canonical import JsonValue
from tracekit.visible import text_of

FORMAT = "tracekit/metrics/v1"
_MOST_NAMED = 3
_COLUMNS = ("metric", "value", "95 % interval", "numerator", "denominator", "runs")


@dataclass(frozen=True)
class Metrics:
    """What measuring some runs came to."""

    whole: Bucket
    """All of them."""
    by: str | None = None
    buckets: tuple[Bucket, ...] = ()
    """The same runs sorted ``by`` something; by tool or tag, a run is in several."""
    attempts: Attempts | None = None
    """How tasks went that were tried several times; None where none was."""
    repeats: Mapping[str, str] = field(default_factory=dict)
    """Runs that were not counted, since they only repeat another: run id → that run."""

    @property
    def missing(self) -> Mapping[str, str]:
        """Metrics without data → why, where all runs say the same; else for how many runs what."""
        return {
            name: _why(self.whole, name) for name, one in self.whole.measures.items() if not one.n
        }

    @property
    def modelled(self) -> int:
        """How many runs are replays: their clock advances by what was recorded."""
        return sum(run.sample.replay_of is not None for run in self.whole.runs)

    @property
    def broken_off(self) -> int:
        """How many runs ended with an error or have not ended: they did less for that."""
        return sum(run.broken_off is not None for run in self.whole.runs)

    @property
    def odd(self) -> Mapping[str, str]:
        """Runs whose record says what cannot be, such as a cost below nothing → what it says."""
        return {run.run_id: "; ".join(run.odd) for run in self.whole.runs if run.odd}

    def as_dict(self, *, seed: int = 0) -> dict[str, JsonValue]:
        """Give the metrics as JSON."""
        return {
            "format": FORMAT,
            "runs": len(self.whole.runs),
            "repeats": dict(self.repeats),
            "modelled_latency": self.modelled,
            "broken_off": self.broken_off,
            "odd": dict(self.odd),
            "metrics": _measures(self.whole, seed),
            "missing": dict(self.missing),
            "attempts": None if self.attempts is None else self.attempts.as_dict(seed=seed),
            "by": self.by,
            "buckets": [
                {"name": one.name, "runs": len(one.runs), "metrics": _measures(one, seed)}
                for one in self.buckets
            ],
        }

    def as_text(self, *, seed: int = 0) -> str:
        """Write the metrics as tables."""
        return text_of(self._lines(seed))

    def _lines(self, seed: int) -> Iterator[str]:
        count = len(self.whole.runs)
        more = f" ({len(self.repeats)} more only repeat one of them)" if self.repeats else ""
        yield f"runs: {count}{more}"
        if not count:
            return
        if self.modelled:
            yield f"latency modelled, since they are replays: {self.modelled}"
        if self.broken_off:
            yield f"counted until they broke off by an error or stood open: {self.broken_off}"
        yield from self._odd_lines()
        yield from _table(self.whole, seed)
        if self.attempts is not None:
            yield ""
            yield from self.attempts.lines(seed=seed)
        for bucket in self.buckets:
            yield ""
            yield f"{self.by} {bucket.name}, runs: {len(bucket.runs)}"
            yield from _table(bucket, seed)
        if self.missing:
            yield ""
            yield "n/a"
            width = max(map(len, self.missing))
            yield from (f"  {name.ljust(width)}  {why}" for name, why in self.missing.items())

    def _odd_lines(self) -> Iterator[str]:
        """Say which runs are not counted by what they say; of many, the first."""
        for run_id, why in list(self.odd.items())[:_MOST_NAMED]:
            yield f"not counted: {run_id}: {why}"
        if len(self.odd) > _MOST_NAMED:
            yield f"not counted: {len(self.odd) - _MOST_NAMED} more such runs (--json lists them)"


def _why(bucket: Bucket, name: str) -> str:
    reasons = list(dict.fromkeys(run.missing[name] for run in bucket.runs if name in run.missing))
    return "; ".join(reasons[:3]) or "no runs"


def _measures(bucket: Bucket, seed: int) -> dict[str, JsonValue]:
    return {name: _measure(one, seed) for name, one in bucket.measures.items()}


def _measure(measure: Measure, seed: int) -> dict[str, JsonValue]:
    interval = measure.interval(seed=seed)
    parts: dict[str, JsonValue] = {
        name: {"numerator": top, "denominator": below, "value": top / below if below else None}
        for name, (top, below) in sorted(measure.parts.items())
    }
    return {
        "value": measure.value,
        "unit": measure.definition.unit,
        "numerator": measure.numerator,
        "denominator": measure.denominator,
        "interval": None if interval is None else interval.as_dict(),
        "n": measure.n,
        "of": measure.of,
        "parts": parts,
    }


def _table(bucket: Bucket, seed: int) -> Iterator[str]:
    rows: list[Sequence[str]] = [_COLUMNS]
    for measure in bucket.measures.values():
        if measure.n:
            rows.append(_row(measure, seed))
    widths = [max(len(row[place]) for row in rows) for place in range(len(_COLUMNS))]
    for row in rows:
        first, *rest = row
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        yield "  " + "  ".join(cells).rstrip()


def _row(measure: Measure, seed: int) -> Sequence[str]:
    unit = measure.definition.unit
    return (
        measure.definition.name,
        told(measure.value, unit),
        _range(measure.interval(seed=seed), unit),
        _number(measure.numerator),
        _number(measure.denominator),
        f"{measure.n} of {measure.of}",
    )


def _range(interval: Interval | None, unit: str) -> str:
    if interval is None:
        return ""
    return f"{told(interval.low, unit)} – {told(interval.high, unit)}"


def told(value: float | None, unit: str) -> str:
    """Write a value with its unit; without data it is n/a."""
    if value is None:
        return "n/a"
    if unit == "%":
        return f"{100 * value:.1f} %"
    return f"{value:,.4g} {unit}" if abs(value) < 1000 else f"{value:,.0f} {unit}"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.4g}"

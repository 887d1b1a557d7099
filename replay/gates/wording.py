"""Numbers of gates in words."""

from __future__ import annotations

from replay.gates.grammar import Metric


def written(value: float | None, unit: str, *, signed: bool = False) -> str:
    """Write a number in its unit."""
    if value is None:
        return "n/a"
    sign = "+" if signed and value >= 0 else ""
    match unit:
        case "%" | "relative":
            return f"{sign}{100 * value:.1f}%"
        case "pp":
            return f"{'+' if value >= 0 else ''}{100 * value:.1f}pp"
        case "ms" if abs(value) < 10:
            return f"{sign}{value:.3g}ms"
        case "ms":
            return f"{sign}{value:,.0f}ms" if abs(value) < 10_000 else f"{sign}{value / 1e3:,.1f}s"
        case "USD":
            return f"{sign}{value:.4g}USD"
        case _ if abs(value) >= 1_000:
            return f"{sign}{value:,.0f}"
        case _:
            return f"{sign}{value:.4g}"


def unit_of(metric: Metric, *, relative: bool) -> str:
    """Name the unit in which a metric, or its change, is written."""
    if relative:
        return "relative"
    return "pp" if metric.percent and metric.delta else metric.definition.unit

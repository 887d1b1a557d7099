"""The agent that ``benchmarks.replay`` records and replays: a trivial tool, called many times."""

from __future__ import annotations

import resource

import tracekit


@tracekit.tool(effect="read")
def look_up(number: int, unit: str = "ms") -> dict[str, object]:
    """Say something about a number."""
    return {"number": number, "unit": unit, "even": number % 2 == 0}


@tracekit.agent
def many_calls(calls: int) -> dict[str, int]:
    """Call the tool so many times; answer with the CPU time that this took its process, in µs."""
    before = _cpu_us()
    for number in range(calls):
        look_up(number)
    return {"cpu_us": _cpu_us() - before}


def _cpu_us() -> int:
    """Ask the system: clocks of the standard library stand still in a replay."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return round((used.ru_utime + used.ru_stime) * 1_000_000)

"""What the public package ``failmin`` asks on the same puzzles, in its own environment.

Run by ``benchmarks.reduce`` as ``python -m benchmarks.reduce_failmin``; prints a JSON object:
parts and how many matter → its median count of replays.
"""

from __future__ import annotations

import importlib
import json
import statistics
from typing import Any

from benchmarks.reduce_puzzles import Puzzle, dependent, scattered

PLACEMENTS, DRAWN = 40, 20
SCATTERED = ((64, 1), (64, 3), (64, 8), (256, 1), (256, 3), (500, 5))


def _calls(puzzle: Puzzle) -> int:
    package: Any = importlib.import_module("failmin")
    models: Any = importlib.import_module("failmin.core.models")
    events = tuple(
        models.TraceEvent(
            id=str(part),
            type="step",
            dependencies=tuple(str(other) for other in sorted(puzzle.needs.get(part, ()))),
        )
        for part in range(puzzle.size)
    )

    def replay(trace: Any) -> Any:
        parts = frozenset(int(event.id) for event in trace.events)
        return models.RunResult(output=puzzle.fails(parts))

    result = package.minimize(models.Trace(events), replay, lambda seen: bool(seen.output))
    return int(result.replay_calls)


def main() -> None:
    """Measure and print."""
    found: dict[str, float] = {}
    for size, needed in SCATTERED:
        costs = [_calls(scattered(size, needed, seed)) for seed in range(PLACEMENTS)]
        found[f"{size},{needed}"] = statistics.median(costs)
    for needed in (2, 5):
        costs = [_calls(dependent(500, needed, seed)) for seed in range(DRAWN)]
        found[f"dependent,{needed}"] = statistics.median(costs)
    print(json.dumps(found))


if __name__ == "__main__":
    main()

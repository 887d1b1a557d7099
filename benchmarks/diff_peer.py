"""The public package ``offtrack`` on the rows of ``diff``, in its own environment.

Prints a JSON object: its version, and µs of its alignment and of ``difflib`` on the same rows, so
that both can be set against ours.
"""

from __future__ import annotations

import difflib
import importlib
import json
from importlib.metadata import version
from typing import Any

from benchmarks.diff_rows import Made, related, unrelated
from benchmarks.figures import interleaved

LENGTH, DIFFERING, REPEATS = 100, 4, 9


def main() -> None:
    """Measure both."""
    package: Any = importlib.import_module("offtrack")
    engine: Any = importlib.import_module("offtrack.align.engine")

    def steps(rows: list[Made]) -> list[Any]:
        return [
            package.Step(
                idx=at, type=package.StepType.TOOL_CALL, name=tool, args=arguments, result=back
            ).finalize()
            for at, (tool, _, arguments, back) in enumerate(rows)
        ]

    one = unrelated(LENGTH, 1)
    left, right = steps(one), steps(related(one, differing=DIFFERING, seed=2))
    texts = [[step.content_hash for step in side] for side in (left, right)]
    tasks = {
        "offtrack": lambda: engine.align(left, right),
        "difflib": lambda: difflib.SequenceMatcher(None, *texts, autojunk=False).get_opcodes(),
    }
    found = interleaved(tasks, calls=3, repeats=REPEATS)
    print(json.dumps({"version": version("offtrack"), **found}))


if __name__ == "__main__":
    main()

"""`python -m benchmarks [NAME...]`: runs every module beside this one and prints one table.

A module that measures offers ``measure() -> list[Line]``. Each figure is the median of
interleaved repeats, so that a slow moment of the machine hits all sides of a ratio alike.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks
from benchmarks.figures import Line, table


def main(names: list[str]) -> None:
    """Run the benchmarks of these names, or all."""
    found = [module.name for module in pkgutil.iter_modules(benchmarks.__path__)]
    lines: list[Line] = []
    for name in sorted(found):
        if name == "__main__" or (names and name not in names):
            continue
        module = importlib.import_module(f"benchmarks.{name}")
        if hasattr(module, "measure"):
            print(f"measuring {name} ...", file=sys.stderr, flush=True)
            lines += module.measure()
    print(table(lines))


if __name__ == "__main__":
    main(sys.argv[1:])

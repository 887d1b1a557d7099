"""Client libraries whose calls are recorded without a decorator.

An integration is put in place when a run begins and its library has been imported by then; tracekit
imports none of them by itself.
"""

from __future__ import annotations

import sys
from importlib import import_module

_INTEGRATIONS = {"openai": "tracekit.integrations.openai"}
"""Library → module of ours whose ``instrument`` may be called any number of times."""
_done: set[str] = set()


def instrument_loaded() -> None:
    """Put the integration of every library that this program has imported in place."""
    for library, module in _INTEGRATIONS.items():
        if library not in _done and library in sys.modules:
            _done.add(library)
            import_module(module).instrument()

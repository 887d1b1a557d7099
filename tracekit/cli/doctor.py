"""The whole of what ``doctor`` looks at: this environment, the store, what recording costs.

It looks and changes nothing: no journal is settled, no key is made, and what recording costs is
measured in a folder of its own.
"""

from __future__ import annotations

from pathlib import Path

from tracekit.cli.diagnosis import Diagnosis
from tracekit.errors import StoreError, TracekitError


def diagnose(path: Path) -> Diagnosis:
    """Look at this environment and at the store at ``path``."""
    from tracekit.cli.doctor_cost import measure
    from tracekit.cli.doctor_here import examine_environment
    from tracekit.cli.doctor_store import examine_store

    told = Diagnosis()
    examine_environment(told)
    try:
        examine_store(told, path)
    except TracekitError as error:
        told.unreadable = error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        told.unreadable = StoreError(f"{path} cannot be looked at: {reason}")
    measure(told, path)
    return told

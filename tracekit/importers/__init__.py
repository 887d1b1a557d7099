"""Other people's traces into a store: one importer a format, one way in.

``import_paths`` walks, detects and keeps; an importer only reads. A new format is a class with
``name``, ``detect`` and ``read``, and an entry in ``IMPORTERS``.
"""

from __future__ import annotations

from tracekit.importers.effects import effect_of, load_effects, shipped_effects
from tracekit.importers.ingest import IMPORTERS, Progress, import_paths
from tracekit.importers.model import (
    ImportedRun,
    Importer,
    ImportOptions,
    ImportSummary,
    RunStore,
)

__all__ = [
    "IMPORTERS",
    "ImportOptions",
    "ImportSummary",
    "ImportedRun",
    "Importer",
    "Progress",
    "RunStore",
    "effect_of",
    "import_paths",
    "load_effects",
    "shipped_effects",
]

"""Run ids of imported runs: readable, valid everywhere, and derived from the trace alone.

The id is made of the trailing parts of the path and of fields of the trace, so it stays the same
wherever the folder lies. Where a part cannot stand in an id as it is, a digest of all parts is
added.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tracekit.canonical import digest

_FOREIGN = re.compile(r"[^A-Za-z0-9_-]+")
_FOREIGN_BUT_DOTS = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST = 128
_SHORT = 10


def short_digest(value: str) -> str:
    """Give the first digits of a ``sha256:`` digest."""
    return value.removeprefix("sha256:")[:_SHORT]


def make_run_id(
    source: str, origin: str, parts: Sequence[str], *, content: str | None = None
) -> str:
    """Join what names a run.

    Args:
        source: Name of the format.
        origin: Where in that format the run is from: a pipeline, a file. May hold dots.
        parts: What names the run within; no two runs of one origin share them.
        content: Digest of the trace, where the parts alone may not tell two traces apart.
    """
    spelt = [source, _FOREIGN_BUT_DOTS.sub("_", origin), *(_FOREIGN.sub("_", p) for p in parts)]
    tail = [] if content is None else [short_digest(content)]
    exact = spelt == [source, origin, *parts]
    run_id = ".".join([*spelt, *tail])
    if exact and len(run_id) <= _LONGEST:
        return run_id
    tail = [short_digest(digest([source, origin, *parts])), *tail]
    room = _LONGEST - sum(len(part) + 1 for part in tail)
    return ".".join([".".join(spelt)[:room], *tail])


def trailing_ref(path: Path, count: int) -> str:
    """Name a file by the last ``count`` parts of its path."""
    return "/".join(path.parts[-count:])

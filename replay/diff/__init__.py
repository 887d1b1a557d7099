"""Where two runs part: every difference between two trajectories, ranked by harm, the first named.

``compare`` is the entrance. ``steps``, ``arguments``, ``flow`` (with ``phrases``), ``order`` and
``normal`` put both runs in an order; ``costs`` (with ``blocks``), ``rows``, ``windows``, ``table``
and ``align`` find what corresponds; ``match``, ``consequence``, ``classify`` (with ``harms``) and
``explain`` say what it means; ``comparison`` is the result and ``render`` its text.
"""

from __future__ import annotations

from replay.diff.compare import diff
from replay.diff.comparison import Comparison
from replay.diff.model import Action, Divergence, Harm, Pair
from replay.diff.naming import names_for

__all__ = ["Action", "Comparison", "Divergence", "Harm", "Pair", "diff", "names_for"]

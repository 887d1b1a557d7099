"""The old planner, where the record says which it was: found at hand, or one sentence why not.

It stands for what was observed only if its code is the code that made the run. Of that the record
has a digest; what is at hand is read, digested in the same way, and compared, before it is
imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from replay.identity import source_of
from tracekit.errors import ReplayNotPossible
from tracekit.origin import source_digest
from tracekit.trajectory import Trajectory

_NAME_IT = "name the old planner: --baseline MOD:OBJ"
_SHOWN = len("sha256:") + 12


def recorded_planner(recorded: Trajectory, path: Sequence[str]) -> str:
    """Return ``MOD:OBJ`` of the planner that made a run, if its code is at hand as it was.

    Args:
        recorded: The run.
        path: Folders to look in first.

    Raises:
        ReplayNotPossible: the record does not say which, or it is not at hand, or is another.
    """
    made_by = recorded.made_by
    if made_by is None:
        raise ReplayNotPossible(
            f"run {recorded.run_id} does not say which planner made it: a decorated agent in a "
            "module does, imported runs, closures and methods do not",
            hint=_NAME_IT,
        )
    planner = made_by.planner
    if made_by.code is None:
        raise ReplayNotPossible(
            f"run {recorded.run_id} was made by {planner}, and does not say with which code: its "
            "source could not be read, or was changed after it was loaded",
            hint=_NAME_IT,
        )
    module = planner.partition(":")[0]
    file = source_of(module, [*path, os.getcwd(), *sys.path])
    here = None if file is None else source_digest(module, file)
    if here is None:
        raise ReplayNotPossible(
            f"run {recorded.run_id} was made by {planner}, and there is no module {module} here",
            hint="say with --baseline-path in which folder it lies",
        )
    if here != made_by.code:
        raise ReplayNotPossible(
            f"run {recorded.run_id} was made by {planner} with other code than is here: "
            f"{made_by.code[:_SHOWN]} then, {here[:_SHOWN]} now",
            hint="check the code of that time out beside this one, and name its folder with "
            "--baseline-path",
        )
    return planner

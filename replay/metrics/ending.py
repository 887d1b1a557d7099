"""How a run ended: a run that broke off did less, and so looks better by all that counts less.

It made fewer steps, calls and mistakes, was quicker and cheaper, and had no time to go round in
circles. The counts stand as they are; whoever decides by them must know that they are not whole.
"""

from __future__ import annotations

from tracekit.trajectory import Trajectory

OPEN = "it has not ended"
FAILED = "it ended with an error"


def broken_off(run: Trajectory) -> str | None:
    """Say how a run broke off; None where it went to its end.

    A run that was opened by hand may end well around an agent that did not.
    """
    if run.status == "open":
        return OPEN
    return FAILED if run.status == "error" or run.answer.is_error else None

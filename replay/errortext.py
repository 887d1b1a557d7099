"""What an error of a planner says, as text that can be sent and stored."""

from __future__ import annotations

import traceback

from tracekit.recorder import sound_text


def text_of(error: BaseException) -> str:
    """What ``error`` says, as text that can be sent."""
    try:
        return sound_text(str(error))
    except Exception:  # noqa: BLE001  # a hostile __str__ is the planner's, and says nothing
        return f"<{type(error).__name__} that cannot be printed>"


def traceback_of(error: BaseException) -> str:
    """The end of the traceback of ``error``, as text that can be sent."""
    return sound_text("".join(traceback.format_exception(error))[-8000:])

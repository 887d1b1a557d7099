"""What an error of a planner says, as text that can be sent and stored."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from sysconfig import get_paths
from types import TracebackType

from tracekit.canonical import sound_text

_OURS = tuple(str(Path(__file__).parents[1] / name) for name in ("replay", "tracekit"))
_LIBRARIES = tuple({get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def text_of(error: BaseException) -> str:
    """What ``error`` says, as text that can be sent."""
    try:
        return sound_text(str(error))
    except Exception:  # noqa: BLE001  # a hostile __str__ is the planner's, and says nothing
        return f"<{type(error).__name__} that cannot be printed>"


def traceback_of(error: BaseException) -> str:
    """The end of the traceback of ``error``, as text that can be sent."""
    return sound_text("".join(traceback.format_exception(error))[-8000:])


def place_of(error: BaseException) -> str | None:
    """Where in the planner's code ``error`` came up: the innermost place that is no library's."""
    places = [(frame.tb_frame.f_code.co_filename, _position(frame)) for frame in _frames(error)]
    theirs = [(file, at) for file, at in places if not file.startswith(_OURS)]
    own = [(file, at) for file, at in theirs if not file.startswith(_LIBRARIES)]
    return sound_text("{}:{}".format(*(own or theirs)[-1])) if theirs else None


def _frames(error: BaseException) -> Iterator[TracebackType]:
    frame = error.__traceback__
    while frame is not None:
        yield frame
        frame = frame.tb_next


def _position(frame: TracebackType) -> str:
    """Line and columns: two calls on one line are two places."""
    code = frame.tb_frame.f_code
    _, _, start, end = next(islice(code.co_positions(), frame.tb_lasti // 2, None))
    return f"{frame.tb_lineno}:{start}-{end}"

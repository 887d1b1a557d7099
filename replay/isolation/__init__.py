"""The planner's child process: what it may not do, how that is proved, and how it is talked to.

The planner runs in a child and asks its parent over a pipe (`Isolate`), behind walls that prove
themselves before its code is imported; a planner that exists only in this process, a closure, runs
here behind the hook alone (`InProcess`).
"""

from __future__ import annotations

from replay.isolation.gaps import NO_GAPS, Gaps, parse_folders, parse_host
from replay.isolation.hook import Refused, trusted, window
from replay.isolation.inprocess import InProcess
from replay.isolation.kernel import kernel_available
from replay.isolation.limits import Limits
from replay.isolation.outcome import LEVELS, OUTSIDE, Ending, Exit, Level, Ready, Wall
from replay.isolation.process import Isolate
from replay.isolation.protocol import Channel, Message
from replay.isolation.transport import Change

__all__ = [
    "LEVELS",
    "NO_GAPS",
    "OUTSIDE",
    "Change",
    "Channel",
    "Ending",
    "Exit",
    "Gaps",
    "InProcess",
    "Isolate",
    "Level",
    "Limits",
    "Message",
    "Ready",
    "Refused",
    "Wall",
    "kernel_available",
    "parse_folders",
    "parse_host",
    "trusted",
    "window",
]

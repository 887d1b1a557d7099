"""Looks for a user's regular expression in a text, and gives up after a while.

Nothing ends a search of Python's ``re`` from outside but the end of its process. So a pattern that
could take long on this text is looked for in a process of its own; all others, here.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import lru_cache
from math import ceil

from replay.case.slowness import letters_of, most_tries

SECONDS = 5.0
"""How long a pattern is looked for."""
_LONG = 4_000
_LETTERS = 2
_FEW = 1_000_000_000
"""So many tries end in time: they take a second at most, and mostly no time at all."""
_KEPT = 64
"""Answers of processes that are remembered: the same values are judged over and over."""
_CHILD = """
import json, re, resource, sys, warnings
warnings.simplefilter("ignore")
pattern, text, seconds = json.load(sys.stdin)
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
print(re.search(pattern, text) is not None)
"""  # the limit ends it even where this process has been killed meanwhile


class Undecided(Exception):  # an answer, not an error
    """It is not known whether a pattern is found in a text: looking for it took too long."""

    def __init__(self, pattern: str, length: int) -> None:
        super().__init__(
            f"looking for {pattern!r} in {length} letters did not end within {SECONDS:g} s"
        )


def does_not_end(pattern: str) -> bool:
    """Whether looking for a pattern is given up on some long text of one letter."""
    if most_tries(pattern, _LONG) <= _FEW:
        return False
    try:
        for letter in dict.fromkeys((*letters_of(pattern)[:_LETTERS], "a", "0")):
            is_found(pattern, letter * _LONG + "\0")  # where all of it fits, one way is enough
    except Undecided:
        return True
    return False


def is_found(pattern: str, text: str) -> bool:
    """Whether a pattern is found in a text.

    Raises:
        Undecided: that took too long.
    """
    if most_tries(pattern, len(text)) <= _FEW:
        return re.search(pattern, text) is not None
    found = _found_apart(pattern, text, SECONDS)
    if found is None:
        raise Undecided(pattern, len(text))
    return found


@lru_cache(maxsize=_KEPT)
def _found_apart(pattern: str, text: str, seconds: float) -> bool | None:
    """Look for a pattern in a process of its own; None where that takes too long."""
    asked = json.dumps([pattern, text, ceil(seconds)])
    command = [sys.executable, "-I", "-S", "-c", _CHILD]
    try:
        done = subprocess.run(
            command, input=asked, capture_output=True, text=True, timeout=seconds, check=True
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return None
    return done.stdout.strip() == "True"

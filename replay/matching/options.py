"""Policies as they are written on a command line: ``--map``, ``--ignore`` and the others."""

from __future__ import annotations

import re

from replay.matching.values import UNMATCHED, ArgumentMap, Unmatched
from tracekit.errors import UsageError

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?")


def parse_map(text: str) -> ArgumentMap:
    """Read ``old.tool:/arg=new.tool:/arg``, or ``old.tool=new.tool``.

    Raises:
        UsageError: it is neither.
    """
    old, equals, new = text.partition("=")
    old_tool, old_pointer = _place(old)
    new_tool, new_pointer = _place(new)
    if not (equals and old_tool and new_tool) or (old_pointer is None) != (new_pointer is None):
        raise UsageError(
            f"map {text!r} is not understood", hint="write old.tool:/arg=new.tool:/arg"
        )
    return ArgumentMap(old_tool, new_tool, old_pointer, new_pointer)


def parse_ignore(text: str) -> tuple[str, str]:
    """Read ``tool:/path`` to the tool and the pointer.

    Raises:
        UsageError: it is not that.
    """
    tool, pointer = _place(text)
    if not tool or pointer is None:
        raise UsageError(f"{text!r} names no argument", hint="write tool:/path")
    return tool, pointer


def parse_window(text: str) -> tuple[str, str, float]:
    """Read ``tool:/path=60s`` to the tool, the pointer and seconds.

    Raises:
        UsageError: it is not that.
    """
    place, _, duration = text.rpartition("=")
    found = _DURATION.fullmatch(duration.strip())
    if found is None:
        raise UsageError(f"window {text!r} is not understood", hint="write tool:/path=60s")
    tool, pointer = parse_ignore(place)
    return tool, pointer, float(found[1]) * _SECONDS[found[2] or "s"]


def parse_unmatched(text: str) -> tuple[str, Unmatched]:
    """Read ``policy`` or ``tool=policy`` or ``effect=policy``; alone it is for all calls.

    Raises:
        UsageError: there is no such policy.
    """
    name, _, policy = text.rpartition("=")
    if policy not in UNMATCHED:
        raise UsageError(
            f"policy {policy!r} for unmatched calls is not known",
            hint=f"one of {', '.join(UNMATCHED)}",
        )
    return name or "*", policy


def split_similarity(text: str) -> tuple[str, float | None]:
    """Split ``...nearest=0.8`` into the policy and the similarity that it asks for.

    Raises:
        UsageError: what stands behind ``nearest=`` is no number.
    """
    policy, equals, least = text.rpartition("=")
    if not equals or policy.rpartition("=")[2] != "nearest":
        return text, None
    try:
        return policy, float(least)
    except ValueError:
        raise UsageError(
            f"similarity {least!r} is no number", hint="write nearest=0.8, or TOOL=nearest=0.8"
        ) from None


def parse_binding(text: str) -> tuple[str, str]:
    """Read ``TOOL=MOD:OBJ``, or ``TOOL`` alone, to the tool and the function.

    Raises:
        UsageError: it is neither.
    """
    tool, equals, function = text.partition("=")
    if not tool or (equals and ":" not in function):
        raise UsageError(f"{text!r} names no function", hint="write TOOL=MOD:OBJ")
    return tool, function


def _place(text: str) -> tuple[str, str | None]:
    """Split ``tool:/pointer``; a tool's own name may hold colons."""
    tool, colon, pointer = text.strip().partition(":/")
    return tool, f"/{pointer}" if colon else None

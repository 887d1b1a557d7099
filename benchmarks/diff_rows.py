"""Rows of calls to align, drawn from a seed; plain values that any package can be given."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

TOOLS = 10
Made = tuple[str, bool, dict[str, Any], dict[str, Any]]
"""Tool, whether it writes, arguments, what came back."""


def unrelated(length: int, seed: int) -> list[Made]:
    """Draw calls of some tools with structured arguments."""
    chance = random.Random(seed)
    return [_call(chance) for _ in range(length)]


def related(rows: Sequence[Made], *, differing: int, seed: int) -> list[Made]:
    """Make so many differences: of four, two arguments changed, one call dropped, one added."""
    chance = random.Random(seed)
    made: list[Made | None] = list(rows)
    added: dict[int, Made] = {}
    for number, at in enumerate(chance.sample(range(len(rows)), differing)):
        tool, writes, arguments, back = rows[at]
        match number % 4:
            case 0 | 1:
                other = {**arguments, "amount": arguments["amount"] + 1 + chance.randrange(10_000)}
                made[at] = tool, writes, other, back
            case 2:
                made[at] = None
            case _:
                added[at] = _call(chance)
    new: list[Made] = []
    for at, call in enumerate(made):
        new += [added[at]] if at in added else []
        new += [call] if call is not None else []
    return new


def of_one_tool(rows: Sequence[Made]) -> list[Made]:
    """Make them calls of a single tool, which any two of may be changes of each other."""
    return [("look", False, arguments, back) for _, _, arguments, back in rows]


def _call(chance: random.Random) -> Made:
    tool = chance.randrange(TOOLS)
    arguments = {
        "account": f"u-{chance.randrange(10**6)}",
        "amount": chance.randrange(10_000),
        "filter": {"status": chance.choice(["open", "closed"]), "tags": ["a", "b"]},
        "note": f"order {chance.randrange(10**6)}",
    }
    return f"tool_{tool}", tool % 5 == 0, arguments, {"ok": True, "ref": chance.randrange(10**6)}

"""Ways to change one value of an argument; None where the value is not of the kind.

Each yields another value, however alike the two may look: to a tool they are not the same.
"""

from __future__ import annotations

import re
from random import Random
from typing import Any

LOOK_ALIKES = str.maketrans("aeopcyxAEOPCTBHKM", "аеорсухАЕОРСТВНКМ")
NEW = "zq{0}x"
"""A text that occurs in no run."""


def fresh(value: Any, chance: Random) -> Any:
    """Another text altogether."""
    return NEW.format(chance.randrange(10**6)) if isinstance(value, str) else None


def hundredfold(value: Any, chance: Random) -> Any:
    """42 becomes 4200."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value * 100 if value else 4200


def last_digit(value: Any, chance: Random) -> Any:
    """The account number of somebody else."""
    if not isinstance(value, str) or not re.search(r"\d{4}$", value):
        return None
    return value[:-1] + str((int(value[-1]) + 1 + chance.randrange(9)) % 10)


def last_component(value: Any, chance: Random) -> Any:
    """Another file of the same folder."""
    if not isinstance(value, str) or not re.search(r"/[^/\s]+$", value):
        return None
    head, _, tail = value.rpartition("/")
    return f"{head}/{tail[:-1]}{'b' if tail.endswith('a') else 'a'}"


def look_alike(value: Any, chance: Random) -> Any:
    """A letter of another script that looks the same."""
    if not isinstance(value, str):
        return None
    able = [at for at, sign in enumerate(value) if sign.translate(LOOK_ALIKES) != sign]
    if not able:
        return None
    at = chance.choice(able)
    return value[:at] + value[at].translate(LOOK_ALIKES) + value[at + 1 :]


def whitespace(value: Any, chance: Random) -> Any:
    """Whitespace inside a value is part of the value."""
    if not isinstance(value, str):
        return None
    ways = [f"{value} ", f" {value}", f"{value}\n"]
    if " " in value:
        ways += [value.replace(" ", "  ", 1), value.replace(" ", "\u00a0", 1)]
    return chance.choice(ways)


def text_number(value: Any, chance: Random) -> Any:
    """42 as the text "42" is another value."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else None

"""Whether two values are equal as they were kept, which is asked before anything is written.

The one idea: the bytes that the interpreter itself keeps values in tell apart whatever has another
type, value or order, and are written many times as quickly as a canonical text.
"""

from __future__ import annotations

import marshal

from tracekit.canonical import JsonValue

_NO_REFERENCES = 2
"""The last version of these bytes that does not tell whether two texts are one object."""


def may_be_equal(one: JsonValue, two: JsonValue) -> bool:
    """Whether two values are equal to Python, for which 1 is True; it stops where they are not."""
    try:
        return one == two
    except RecursionError:
        return True


def kept_alike(one: JsonValue, two: JsonValue) -> bool:
    """Whether two values are of the same types in the same order; it may say no of equal ones."""
    if one is two:
        return True
    if type(one) is not type(two) or not may_be_equal(one, two):
        return False
    if not isinstance(one, dict | list):
        return True
    try:
        return marshal.dumps(one, _NO_REFERENCES) == marshal.dumps(two, _NO_REFERENCES)
    except ValueError:  # nested too deeply
        return False

"""An answer that no run holds is made up of the declared shape, and only a small one."""

from __future__ import annotations

from typing import Any

import pytest

from replay.distill.sampling import sample_of

TEXT: dict[str, Any] = {"type": "string", "minLength": 3}


def test_a_small_value_is_of_the_shape() -> None:
    schema = {"type": "array", "minItems": 2, "items": TEXT}
    assert list(sample_of({"type": "object", "properties": {"a": schema}, "required": ["a"]})) == [
        {"a": ["xxx", "xxx"]}
    ]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "minLength": 10**12},
        {"type": "array", "minItems": 10**12, "items": {"type": "null"}},
        {"type": "array", "minItems": 300, "items": TEXT},
        {
            "$ref": "#/$defs/node",
            "$defs": {
                "node": {
                    "type": "object",
                    "required": ["left", "right"],
                    "properties": {
                        "left": {"$ref": "#/$defs/node"},
                        "right": {"$ref": "#/$defs/node"},
                    },
                }
            },
        },
    ],
    ids=["letters", "elements", "letters of elements", "a tree"],
)
def test_a_large_value_is_not_made_up(schema: dict[str, Any]) -> None:
    assert list(sample_of(schema)) == []

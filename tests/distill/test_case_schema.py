"""The JSON Schemas that cases carry."""

from __future__ import annotations

from typing import Any

import pytest

from replay.case.schema import check_schema, faults, holds, same

REFUND: dict[str, Any] = {
    "type": "object",
    "properties": {
        "amount": {"type": "number", "exclusiveMinimum": 0, "maximum": 50},
        "currency": {"enum": ["EUR", "USD"]},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}, "minItems": 1},
    },
    "required": ["amount"],
    "additionalProperties": False,
    "$defs": {"line": {"type": "string", "pattern": "^[A-Z]", "maxLength": 3}},
}


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ({"amount": 42, "currency": "EUR", "lines": ["A"]}, []),
        ({"amount": 4200}, [("/amount", "4200 is above 50")]),
        ({"amount": True}, [("/amount", "true is no number")]),
        ({"amount": 0}, [("/amount", "0 is not above 0")]),
        ({}, [("", "lacks 'amount'")]),
        ({"amount": 1, "note": 1}, [("/note", "is not among the allowed names")]),
        ({"amount": 1, "currency": "YEN"}, [("/currency", '"YEN" is none of "EUR", "USD"')]),
        ({"amount": 1, "lines": []}, [("/lines", "has 0 elements, at least 1 are wanted")]),
        (
            {"amount": 1, "lines": ["abcd"]},
            [
                ("/lines/0", "has 4 characters, at most 3 are allowed"),
                ("/lines/0", "\"abcd\" does not match '^[A-Z]'"),
            ],
        ),
        ([], [("", "[] is no object")]),
    ],
)
def test_where_a_value_breaks_a_schema_is_told_by_pointer(
    value: Any, wrong: list[tuple[str, str]]
) -> None:
    assert faults(value, REFUND) == wrong


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, None, 1),
        ({"oneOf": [{"type": "integer"}, {"minimum": 5}]}, 3, 7),
        ({"not": {"const": "x"}}, "y", "x"),
        ({"allOf": [{"minLength": 2}, {"maxLength": 3}]}, "ab", "a"),
        ({"type": ["integer", "null"]}, 2.0, 2.5),
        ({"uniqueItems": True}, [1, True], [1, 1]),
        ({"contains": {"const": 3}}, [1, 3], [1]),
        ({"prefixItems": [{"type": "string"}], "items": False}, ["a"], ["a", "b"]),
        ({"patternProperties": {"^n_": {"type": "number"}}}, {"n_a": 1}, {"n_a": "1"}),
        ({"propertyNames": {"maxLength": 1}}, {"a": 1}, {"ab": 1}),
        ({"multipleOf": 0.5}, 1.5, 1.7),
        (False, None, None),
    ],
)
def test_each_keyword_is_checked(schema: Any, good: Any, bad: Any) -> None:
    check_schema(schema)
    assert schema is False or faults(good, schema) == []
    assert faults(bad, schema) != []


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"properties": {"a": {"requierd": ["b"]}}}, "schema keyword 'requierd' is not supported"),
        ({"type": "text"}, "schema type 'text' is not known"),
        ({"pattern": "("}, "is no regular expression"),
        ({"$ref": "#/$defs/gone"}, "schema reference '#/\\$defs/gone' leads nowhere"),
        ({"$ref": "https://example.com/schema"}, "leads nowhere"),
        ({"items": 3}, "the schema at /items is no object"),
    ],
)
def test_a_schema_that_could_not_be_checked_is_refused(schema: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        check_schema(schema)


def test_a_schema_that_refers_to_itself_ends() -> None:
    schema: Any = {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}
    check_schema(schema)
    assert faults(1, schema)[0] == ("", "nothing is allowed here")


def test_a_number_is_not_a_truth_value() -> None:
    assert same(1, 1.0)
    assert not same(1, True)
    assert holds({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": 1}, "d": [1]})
    assert not holds({"d": [1, 2]}, {"d": [1]})
    assert not holds({}, {"a": None})

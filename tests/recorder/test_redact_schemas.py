"""What a schema in a value says under the name of a secret, and what is said where it refers to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tracekit.redact import Redactor, Rules, UnkeyedTagger, scan
from tracekit.redact.references import References, Spot, definitions

SECRET = "hunter2-Xyzzy-99"
DEFINED = {"enum": [SECRET], "title": "Pw", "type": "string"}


def redacted(value: Any, *fields: str) -> Any:
    """What is left of it, which is left as it is when it is asked again."""
    redactor = Redactor(Rules(fields=fields), UnkeyedTagger())
    found = redactor.redact(value).value
    assert redactor.redact(found).value == found
    assert redactor.scan(found) == []
    return found


def tool(password: Any, **more: Any) -> dict[str, Any]:
    """A prompt that offers a tool with a password."""
    fields = {"password": password, "order": {"$ref": "#/$defs/Order"}}
    defs = {"Order": {"enum": ["order-99"], "type": "string"}, **more.pop("defs", {})}
    parameters = {"type": "object", "properties": fields, "$defs": defs, **more}
    return {"tools": [{"type": "function", "function": {"name": "f", "parameters": parameters}}]}


REFERENCES: dict[str, Any] = {
    "alone": tool({"$ref": "#/$defs/Pw"}, defs={"Pw": DEFINED}),
    "beside others": tool(
        {"allOf": [{"$ref": "#/$defs/Pw"}], "title": "Password"}, defs={"Pw": DEFINED}
    ),
    "of items": tool({"items": {"$ref": "#/$defs/Pw"}, "type": "array"}, defs={"Pw": DEFINED}),
    "over another": tool(
        {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]},
        defs={"A": {"$ref": "#/$defs/Pw"}, "Pw": DEFINED},
    ),
    "round and round": tool(
        {"$ref": "#/$defs/A"},
        defs={
            "A": {"type": "object", "properties": {"x": {"$ref": "#/$defs/A"}, "y": DEFINED}},
        },
    ),
    "the old word": tool({"$ref": "#/definitions/Pw"}, definitions={"Pw": DEFINED}),
    "any way": tool({"$ref": "#/x~1y/0/p%20w"}, **{"x/y": [{"p w": DEFINED}]}),
    "by anchor": tool({"$ref": "#pw"}, defs={"Pw": {**DEFINED, "$anchor": "pw"}}),
    "by id": tool({"$ref": "pw.json"}, defs={"Pw": {**DEFINED, "$id": "https://a/pw.json"}}),
    "from the root's id": tool(
        {"$ref": "https://a/root#/$defs/Pw"}, defs={"Pw": DEFINED}, **{"$id": "https://a/root"}
    ),
    "to a text": tool({"$ref": "#/$defs/Pw"}, defs={"Pw": SECRET}),
    "dynamic": tool({"$dynamicRef": "#pw"}, defs={"Pw": {**DEFINED, "$dynamicAnchor": "pw"}}),
}


@pytest.mark.parametrize("text", [False, True], ids=["plain", "in a text"])
@pytest.mark.parametrize("case", REFERENCES)
def test_what_the_schema_of_a_secret_refers_to_is_secret(case: str, *, text: bool) -> None:
    value = REFERENCES[case]
    found = redacted({"said": json.dumps(value)} if text else value)
    assert SECRET not in json.dumps(found)
    assert "order-99" in json.dumps(found)
    assert scan(value) != []


@pytest.mark.parametrize(
    "harmless", [{"enum": ["low", "high"], "type": "string"}, {"type": "string"}]
)
def test_a_definition_that_only_describes_stays(harmless: Any) -> None:
    value = tool({"$ref": "#/$defs/Pw"}, defs={"Pw": harmless})
    assert redacted(value) == value


def test_what_a_field_of_the_users_own_refers_to_is_secret_in_words_too() -> None:
    value = tool("x", defs={"Who": {"enum": ["Smith"], "type": "string"}})
    parameters = value["tools"][0]["function"]["parameters"]
    parameters["properties"] = {"customer": {"$ref": "#/$defs/Who"}}
    assert "Smith" not in json.dumps(redacted(value, "customer"))
    assert redacted(value) == value


SAID: dict[str, Any] = {
    "deep": {"type": "object", "properties": {"x": {"default": SECRET}}},
    "of items": {"type": "array", "items": {"const": SECRET}},
    "one of several": {"anyOf": [{"type": "string", "enum": [SECRET]}, {"type": "null"}]},
    "a word of its own": {"type": "string", "x-default": SECRET},
    "names of an enum": {"enum": [], "enumNames": [SECRET], "x-enum-varnames": [SECRET]},
    "examples by name": {"type": "string", "examples": {"a": SECRET}},
    "an enum that is none": {"enum": SECRET},
    "a pattern": {"type": "string", "pattern": f"^{SECRET}$"},
    "a format": {"type": "string", "format": SECRET},
    "an amount": {"type": "string", "minLength": SECRET},
    "what is required": {"type": "string", "required": {"a": SECRET}},
    "a schema that is a text": {"type": "array", "items": SECRET},
    "shorthand": SECRET,
    "definitions": {"type": "string", "$defs": {"z": {"default": SECRET}}},
    "a condition": {"type": "string", "then": {"const": SECRET}},
}


@pytest.mark.parametrize("name", ["password", "access_token"])
@pytest.mark.parametrize("case", SAID)
def test_a_value_anywhere_in_the_schema_of_a_secret_is_one(case: str, name: str) -> None:
    value = {"properties": {name: SAID[case], "other": {"type": "string", "pattern": "^order-99"}}}
    found = redacted(value)
    assert SECRET not in json.dumps(found)
    assert found["properties"]["other"] == value["properties"]["other"]


def test_a_list_where_the_schema_of_a_secret_should_be_is_one() -> None:
    assert SECRET not in json.dumps(redacted({"password": [{"const": SECRET}]}))


@pytest.mark.parametrize("number", [493021, 0.5 + 93])
def test_a_number_in_the_schema_of_a_secret_is_one(number: float) -> None:
    found = redacted({"otp": {"type": "integer", "examples": [number], "minimum": 1000}})
    assert str(number) not in json.dumps(found)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": r"^(?=.*\d)(?=.*[a-z])[A-Za-z\d!]{8,64}$"},
        {"type": "string", "pattern": "^sk-[A-Za-z0-9]{48}$", "format": "password"},
        {"type": "integer", "format": "int64", "minimum": 1000, "default": 0},
        {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
        {"type": "array", "items": {"$ref": "#/x"}, "minItems": 1, "additionalItems": False},
    ],
)
def test_what_only_describes_a_secret_stays(schema: Any) -> None:
    value = {"properties": {"password": schema, "api_token": schema}}
    assert redacted(value) == value


def test_a_reference_to_a_number_of_thousands_of_digits_leads_nowhere() -> None:
    value = [{"password": {"type": "string", "$ref": "#/" + "9" * 5000}, "user": "order-99"}]
    assert redacted(value) == value


@pytest.mark.parametrize(
    ("said", "named"),
    [("x{}#pw", {"$anchor": "pw"}), ("{}/pw", {"$id": "pw"}), ("{}/pw#/a", {"id": "pw", "a": ""})],
)
def test_what_many_have_and_many_refer_to_is_found_once(
    said: str, named: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    many = 40
    yielded: list[Spot] = []
    of = References.of

    def counted(self: References, *asked: Any) -> Iterator[Spot]:
        for spot in of(self, *asked):
            yielded.append(spot)
            yield spot

    monkeypatch.setattr(References, "of", counted)
    under = [({"$ref": said.format(n)}, n > many // 2) for n in range(many)]
    found = definitions([dict(named) for _ in range(many)] + [one for one, _ in under], under)
    assert len(found) == len(yielded) == many
    assert all(found.values())

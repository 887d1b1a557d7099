"""What a tool declares is kept without secrets, and with the placeholders that its calls have."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tracekit
from replay import ReplayOptions, replay_run
from replay.declared import shape_of
from tests.recorder.record_kit import Recorded, everything, recording
from tracekit.canonical import JsonValue
from tracekit.contract import Contract, Parameter
from tracekit.declaring import kept_contract
from tracekit.redact import KeyedTagger, Redactor, Rules, UnkeyedTagger, load_key
from tracekit.store import open_store

ACCOUNT, PIN = "Zimbabwe-Kestrel", 93
TOKEN = "ghp_" + "aB3dE5gH7" * 4
RULES: dict[str, Any] = {
    "by name": "account",
    "by path": "$.account",
    "by pattern": re.compile("Zimb[a-z]+-Kestrel"),
    "by function": lambda text: text.replace(ACCOUNT, ""),
}


class Branch(enum.Enum):
    """A branch."""

    FIRST = ACCOUNT


def told(found: Recorded) -> dict[str, Any]:
    """The contract of the only call."""
    kept: dict[str, Any] = json.loads(found.sink.blobs[found.row().contract or ""].data)
    return kept


def redacting(found: Recorded, *rules: Any) -> None:
    found.recorder.redactor = Redactor(Rules.from_user(rules), KeyedTagger(load_key()))


@pytest.mark.parametrize("key", [None, lambda given: "k"], ids=["short way", "general way"])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("default", [ACCOUNT, Branch.FIRST, [ACCOUNT], {"of": {"it": ACCOUNT}}])
def test_a_default_that_the_users_own_rules_know_is_kept_as_an_argument_is(
    rule: str, default: Any, key: Callable[[dict[str, Any]], str] | None
) -> None:
    @tracekit.tool(effect="read", idempotency_key=key)
    def look(most: int = 5, account: Any = default) -> str:
        """Look."""
        return "there"

    with recording() as found, tracekit.run(name="r"):
        redacting(found, RULES[rule])
        assert look() == "there"
    assert "Kestrel" not in everything(found)
    (most, account) = told(found)["parameters"]
    assert most["default"] == 5
    assert account["default"] == found.argument(found.row())["account"]


def test_a_built_in_secret_is_the_same_in_the_default_and_in_the_argument() -> None:
    @tracekit.tool(effect="read")
    def look(note: str = f"use {TOKEN}", api_token: str = "hunter-2-hunter-2") -> None:
        """Look."""

    with recording() as found, tracekit.run(name="r"):
        look()
    kept = {one["name"]: one["default"] for one in told(found)["parameters"]}
    assert kept == found.argument(found.row())
    assert "hunter" not in everything(found)
    assert TOKEN not in everything(found)


def test_a_number_that_a_rule_names_is_none_in_the_contract() -> None:
    @tracekit.tool(effect="read")
    def look(pin: int = PIN) -> None:
        """Look."""

    with recording() as found, tracekit.run(name="r"):
        redacting(found, "pin")
        look()
    (pin,) = told(found)["parameters"]
    assert pin["default"] == found.argument(found.row())["pin"] != PIN


SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "title": f"Of {TOKEN}",
    "description": f"As with {TOKEN}",
    "required": ["account"],
    "properties": {
        "account": {
            "type": "string",
            "default": ACCOUNT,
            "enum": [ACCOUNT, "other"],
            "examples": [ACCOUNT],
            "maxLength": 93,
        },
        "deep": {
            "anyOf": [{"type": "null"}, {"$ref": "#/$defs/Deep"}],
            "default": {"account": ACCOUNT},
        },
        "many": {"type": "array", "items": {"properties": {"account": {"const": ACCOUNT}}}},
        "most": {"type": "integer", "default": 5},
    },
    "$defs": {"Deep": {"properties": {"account": {"type": "string", "x-seen": TOKEN}}}},
}


def redactor() -> Redactor:
    return Redactor(Rules(), UnkeyedTagger())


def without_secrets(contract: Contract, *rules: Any, keyed: bool = True) -> Contract:
    tagger = KeyedTagger(load_key()) if keyed else UnkeyedTagger()
    blob = kept_contract(contract.model_dump_json(), Redactor(Rules.from_user(rules), tagger))
    return Contract.model_validate_json(blob.data)


def test_texts_and_values_of_schemas_are_kept_without_secrets_and_the_schema_stays_one() -> None:
    contract = Contract(name="look", purpose=f"Use {TOKEN}.", argument_schema=SCHEMA)
    contract = contract.model_copy(update={"result_schema": SCHEMA, "touches": (TOKEN, "db")})
    kept = without_secrets(contract, "account")
    assert "Kestrel" not in kept.model_dump_json()
    assert TOKEN not in kept.model_dump_json()
    schema: Any = kept.argument_schema
    assert schema == kept.result_schema
    account = schema["properties"]["account"]
    assert (account["type"], account["maxLength"]) == ("string", 93)
    assert account["enum"][0] == account["default"] == account["examples"][0]
    assert schema["required"] == ["account"]
    assert schema["properties"]["deep"]["anyOf"] == [{"type": "null"}, {"$ref": "#/$defs/Deep"}]
    assert schema["properties"]["most"] == {"type": "integer", "default": 5}
    assert schema["$defs"]["Deep"]["properties"]["account"]["type"] == "string"


HIDDEN = "hunter2-Xyzzy-99"
PW: dict[str, JsonValue] = {"enum": [HIDDEN], "title": "Pw", "type": "string"}


def of_schema(schema: dict[str, Any], *rules: Any) -> Any:
    """What is kept of a schema of arguments; it is the same when it is asked again."""
    kept = without_secrets(Contract(name="x", argument_schema=schema), *rules)
    assert without_secrets(kept, *rules, keyed=False) == kept
    return kept.argument_schema


def fields(password: Any, **more: Any) -> dict[str, Any]:
    """A schema with a password."""
    return {"type": "object", "properties": {"password": password}, **more}


REFERRING: dict[str, dict[str, Any]] = {
    "alone": fields({"$ref": "#/$defs/Pw"}, **{"$defs": {"Pw": PW}}),
    "the old word": fields({"$ref": "#/definitions/Pw"}, definitions={"Pw": PW}),
    "one of several": fields({"anyOf": [{"$ref": "#/$defs/Pw"}]}, **{"$defs": {"Pw": PW}}),
    "each item": fields({"items": {"$ref": "#/$defs/Pw"}}, **{"$defs": {"Pw": PW}}),
    "over another": fields(
        {"$ref": "#/$defs/A"}, **{"$defs": {"A": {"allOf": [{"$ref": "#/$defs/Pw"}]}, "Pw": PW}}
    ),
    "beside another that is none": {
        **fields({"$ref": "#/$defs/Pw"}, **{"$defs": {"Pw": PW}}),
        "anyOf": [{"properties": {"name": {"$ref": "#/$defs/Pw"}}}],
    },
    "from the root": {
        "$ref": "#/$defs/A",
        "$defs": {"A": fields({"$ref": "#/$defs/Pw"}), "Pw": PW},
    },
    "where none should be": fields({"$ref": "#/x~1y/0/p%20w"}, **{"x/y": [{"p w": PW}]}),
    "to a value": fields({"$ref": "#/$defs/Pw/enum/0"}, **{"$defs": {"Pw": PW}}),
    "to a text": fields({"$ref": "#/$defs/Pw"}, **{"$defs": {"Pw": HIDDEN}}),
    "by anchor": fields({"$ref": "#pw"}, **{"$defs": {"Pw": {**PW, "$anchor": "pw"}}}),
    "to what is beside it": {
        "properties": {"password": {"$ref": "#/properties/other"}, "other": PW},
    },
    "in a name of a secret": {
        "properties": {"credentials": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"properties": {"x": {"$ref": "#/$defs/A"}, "y": PW}}},
    },
}


@pytest.mark.parametrize("case", REFERRING)
def test_a_definition_is_asked_under_the_names_of_all_that_refer_to_it(case: str) -> None:
    kept = of_schema(REFERRING[case])
    assert HIDDEN not in json.dumps(kept)
    assert "#/" in json.dumps(kept) or "#pw" in json.dumps(kept)


def test_a_definition_that_no_secret_refers_to_stays() -> None:
    schema = {"properties": {"name": {"$ref": "#/$defs/Pw"}}, "$defs": {"Pw": PW}}
    assert of_schema(schema) == schema


@pytest.mark.parametrize(
    ("rule", "secret"),
    [("$.card.number", True), ("$.cards[*].number", True), ("number", True), ("$.number", False)],
)
def test_a_definition_stands_at_the_paths_of_all_that_refer_to_it(
    rule: str, *, secret: bool
) -> None:
    defs = {"Card": {"properties": {"number": {"default": ACCOUNT, "type": "string"}}}}
    ref = {"$ref": "#/$defs/Card"}
    schema = {"properties": {"card": ref, "cards": {"items": ref}}, "$defs": defs}
    kept = of_schema(schema, rule)
    number = kept["$defs"]["Card"]["properties"]["number"]
    assert (number["default"] != ACCOUNT) == secret
    assert number["type"] == "string"
    assert kept["properties"] == schema["properties"]


def test_definitions_that_refer_to_each_other_all_are_asked_soon() -> None:
    names = [f"D{number}" for number in range(12)]
    refs: dict[str, JsonValue] = {f"f{name}": {"$ref": f"#/$defs/{name}"} for name in names}
    defs = {name: {"properties": {**refs, "password": PW, "own": PW}} for name in names}
    schema = {"properties": {**refs, "secret": refs["fD7"]}, "$defs": defs}
    assert HIDDEN not in json.dumps(of_schema(schema, "$.fD1.fD2.fD3", "$.*.*.*.*.*.fD5"))
    lists: dict[str, Any] = {"$ref": "#/$defs/L", "$defs": {"L": {"items": {"$ref": "#/$defs/L"}}}}
    assert of_schema(lists, "$.a") == lists


SAID: dict[str, Any] = {
    "a word of its own": {"type": "string", "x-default": HIDDEN, "title": HIDDEN},
    "names of an enum": {"enumNames": [HIDDEN], "x-enum-varnames": [HIDDEN]},
    "examples by name": {"examples": {"a": HIDDEN}},
    "an enum that is none": {"enum": HIDDEN},
    "a pattern": {"pattern": f"^{HIDDEN}$"},
    "a format": {"type": "string", "format": HIDDEN},
    "a type": {"type": HIDDEN},
    "shorthand": HIDDEN,
    "shorthand of items": {"items": HIDDEN},
    "definitions": {"type": "string", "$defs": {"z": {"default": HIDDEN}}},
    "a condition": {"then": {"const": HIDDEN}},
    "names of properties": {"propertyNames": {"enum": [HIDDEN]}},
}


@pytest.mark.parametrize("name", ["password", "access_token"])
@pytest.mark.parametrize("case", SAID)
def test_all_but_a_description_under_the_name_of_a_secret_is_secret(case: str, name: str) -> None:
    schema = {"properties": {name: SAID[case], "other": {"type": "string", "pattern": "^order-99"}}}
    if (case, name) == ("definitions", "access_token"):
        schema["properties"] = {"password": SAID[case], **schema["properties"]}
    kept = of_schema(schema)
    assert kept["properties"].pop("other") == schema["properties"]["other"]
    assert HIDDEN not in json.dumps(kept["properties"])
    assert redactor().scan(kept) == []


def test_what_describes_a_secret_stays() -> None:
    schema = fields(
        {
            "type": ["string", "null"],
            "format": "password",
            "title": "Password 2",
            "pattern": r"^(?=.*\d)[A-Za-z\d]{8,64}$",
            "minLength": 8,
            "$comment": "see RFC 93",
        }
    )
    assert of_schema(schema) == schema


def looks_like(schema: Any) -> Any:
    return {"type": "object", "properties": {"a": schema}}


ANYWHERE: dict[str, Any] = {
    "its id": {"$id": f"https://{TOKEN}.corp/x.json"},
    "a reference": looks_like({"$ref": f"https://user:{TOKEN}@schemas.corp/x.json"}),
    "a pattern": looks_like({"type": "string", "pattern": f"^{TOKEN}$"}),
    "a format": looks_like({"format": TOKEN}),
    "a type": looks_like({"type": [TOKEN]}),
    "a schema that is a text": looks_like(TOKEN),
    "one of several": looks_like({"anyOf": [TOKEN]}),
    "all others": looks_like({"additionalProperties": TOKEN}),
    "the name of a property": {"properties": {TOKEN: {"type": "string"}}},
    "the name of a definition": {"$defs": {TOKEN: {"type": "string"}}},
    "a word": {TOKEN: True},
    "what is required": {"required": [TOKEN]},
    "an anchor": {"$anchor": TOKEN},
    "a comment": {"$comment": TOKEN},
}


@pytest.mark.parametrize("case", ANYWHERE)
def test_no_text_of_a_schema_is_passed_over(case: str) -> None:
    kept = of_schema(ANYWHERE[case])
    assert TOKEN not in json.dumps(kept)
    assert redactor().scan(kept) == []


def test_a_password_in_the_address_of_a_schema_is_taken_out() -> None:
    kept = of_schema({"$id": "https://user:Pa55w0rdX@schemas.corp/x.json"})
    assert "Pa55w0rdX" not in kept["$id"]


@pytest.mark.parametrize("rule", ["$.many[*].account", "$.deep.account"])
def test_a_path_of_the_users_holds_in_a_schema_too(rule: str) -> None:
    kept: Any = without_secrets(Contract(name="x", argument_schema=SCHEMA), rule).argument_schema
    many = kept["properties"]["many"]["items"]["properties"]["account"]["const"]
    deep = kept["properties"]["deep"]["default"]["account"]
    assert (many == ACCOUNT, deep == ACCOUNT) == ("many" not in rule, "deep" not in rule)


MANY: dict[str, Any] = {"properties": {"account": {"default": ACCOUNT, "type": "string"}}}
SEVERAL: dict[str, dict[str, Any]] = {
    "$.a[2].account": {"items": MANY},
    "$.a[1].account": {"prefixItems": [{"type": "null"}, MANY]},
    "$.a[0].account": {"items": [MANY]},
    "$.a[0][2].account": {"items": {"items": MANY}},
    "$.a[*][2].account": {"items": {"prefixItems": [{}, {}, MANY]}},
    "$.a[3]": {"contains": {"$ref": "#/$defs/Many"}},
    "$.a[12]": {"prefixItems": [{}] * 12 + [{"$ref": "#/$defs/Many"}]},
    "$.a.x.account": {"additionalProperties": MANY},
    "$.a.xy.account": {"patternProperties": {"^x": MANY}},
    "$.a.x[1].account": {"unevaluatedProperties": {"items": {"$ref": "#/$defs/Many"}}},
}


@pytest.mark.parametrize("rule", SEVERAL)
def test_a_schema_of_several_stands_at_each_of_them_that_a_path_names(rule: str) -> None:
    schema = {"properties": {"a": SEVERAL[rule]}, "$defs": {"Many": MANY}}
    used = "#/" in json.dumps(SEVERAL[rule])
    kept = of_schema(schema, rule)
    assert (kept["$defs"] == schema["$defs"]) != used
    assert "Kestrel" not in json.dumps(kept["properties"])
    assert of_schema(schema, "$.b[2].account", "$.a[99999999].other") == schema


@pytest.mark.parametrize("rule", ["$.a[0].account", "$.a[2].account", "$.b[1].account"])
def test_a_schema_of_one_item_stands_at_no_other(rule: str) -> None:
    schema = {"properties": {"a": {"prefixItems": [{"type": "null"}, MANY]}}}
    assert of_schema(schema, rule) == schema
    tokens = {"properties": {"access_token": {"prefixItems": [{"default": HIDDEN}] * 3}}}
    assert HIDDEN not in json.dumps(of_schema(tokens, "$.access_token[0]"))


def test_a_contract_without_secrets_is_kept_to_the_letter() -> None:
    plain = Contract(name="look", purpose="Look.", parameters=(Parameter(name="x"),))
    assert without_secrets(plain, "account") == plain
    text = plain.model_dump_json()
    redactor = Redactor(Rules(), UnkeyedTagger())
    assert kept_contract(text, redactor).data == text.encode()
    assert kept_contract(text, redactor) is kept_contract(text, redactor)


def test_a_rule_that_fails_lets_no_default_through() -> None:
    def broken(text: str) -> str:
        raise ValueError(text)

    parameters = (Parameter(name="x", required=False, default=ACCOUNT),)
    kept = without_secrets(Contract(name="x", parameters=parameters, purpose=ACCOUNT), broken)
    assert "Kestrel" not in kept.model_dump_json()


def test_the_shape_of_a_tool_is_the_same_with_every_key_and_differs_without_a_default() -> None:
    def having(default: JsonValue) -> Contract:
        return Contract(
            name="x", parameters=(Parameter(name="account", required=False, default=default),)
        )

    ours = without_secrets(having(ACCOUNT), "account")
    theirs = without_secrets(having(ACCOUNT), "account", keyed=False)
    assert ours != theirs
    assert shape_of(ours) == shape_of(theirs) != shape_of(having(None))
    assert shape_of(having("a")) != shape_of(having("b"))


@pytest.mark.parametrize("rule", ["account", "re:Zimb[a-z]+-Kestrel"])
@pytest.mark.parametrize("spelt", [False, True], ids=["relies on it", "says it"])
@pytest.mark.parametrize("effect", ["read", "write"])
def test_an_unchanged_agent_that_relies_on_a_secret_default_replays_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str, effect: Any, *, spelt: bool
) -> None:
    monkeypatch.setenv("TRACEKIT_REDACT", rule)

    @tracekit.tool(effect=effect)
    def pay(amount: int, account: str = ACCOUNT) -> str:
        return f"{amount} paid"

    def agent() -> str:
        return pay(10)

    def spelling_it() -> str:
        return pay(10, account=ACCOUNT)

    tracekit.configure(store=tmp_path / "store")
    with tracekit.run(run_id="r"):
        tracekit.agent(agent)()
    tracekit.configure(store=tmp_path / "elsewhere")
    result = replay_run(
        "r",
        planner=tracekit.agent(spelling_it if spelt else agent),
        store=tmp_path / "store",
        options=ReplayOptions(isolation="guard"),
    )
    assert (result.verdict.kind, result.shares) == ("pass", {"exact": 1})
    (call,) = open_store(tmp_path / "store").trajectory("r").calls
    assert call.contract is not None
    assert "Kestrel" not in call.contract.model_dump_json()

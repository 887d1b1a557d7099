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


@pytest.mark.parametrize("rule", ["$.many[*].account", "$.deep.account"])
def test_a_path_of_the_users_holds_in_a_schema_too(rule: str) -> None:
    kept: Any = without_secrets(Contract(name="x", argument_schema=SCHEMA), rule).argument_schema
    many = kept["properties"]["many"]["items"]["properties"]["account"]["const"]
    deep = kept["properties"]["deep"]["default"]["account"]
    assert (many == ACCOUNT, deep == ACCOUNT) == ("many" not in rule, "deep" not in rule)


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

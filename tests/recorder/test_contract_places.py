"""Places in a tool's arguments that its declaration names: by pointer or by name, never in vain."""

from __future__ import annotations

from typing import Any

import pytest

import tracekit
from replay.matching.lenses import EXACT, idempotency_lens, matcher_lens
from tracekit.contract import Contract, Matchers, contract_of
from tracekit.errors import ContractError


def pay(to: str, amount: int, key: str | None = None, **more: Any) -> None: ...


@pytest.mark.parametrize("place", ["key", "/key"])
def test_an_idempotency_field_is_named_by_pointer_or_by_name(place: str) -> None:
    contract = contract_of(pay, effect="write", idempotency_field=place)
    lens = idempotency_lens(contract)
    assert lens is not None
    one, other = ({"to": "bob", "amount": 42, "key": key} for key in ("k1", "k2"))
    assert lens.key(one) == lens.key(other)
    assert lens.key(one) != lens.key({**one, "amount": 4200})


def test_an_idempotency_field_inside_of_an_argument_is_named_by_pointer() -> None:
    assert contract_of(pay, idempotency_field="/more/key").idempotency_field == "/more/key"


@pytest.mark.parametrize("place", ["kee", "/kee", "kee/key", ""])
def test_an_idempotency_field_that_is_no_argument_is_refused_where_it_is_declared(
    place: str,
) -> None:
    with pytest.raises(ContractError, match="is no argument of it") as caught:
        contract_of(pay, name="pay", idempotency_field=place)
    assert str(caught.value).startswith(f"tool 'pay': idempotency_field {place!r}")
    assert "to, amount, key, more; one of **more is '/more/NAME'" in str(caught.value)


def test_a_name_is_no_function_that_computes_a_key_nor_a_function_a_name() -> None:
    wrong: Any = "key"
    with pytest.raises(ContractError) as caught:
        tracekit.tool(effect="write", idempotency_key=wrong)(pay)
    assert str(caught.value).splitlines() == [
        "tool 'pay': idempotency_key 'key' cannot be called",
        "  the argument that is the key is named by idempotency_field=",
    ]
    wrong = str.lower
    with pytest.raises(ContractError, match="names no argument") as caught:
        tracekit.tool(effect="write", idempotency_field=wrong)(pay)
    assert "is given as idempotency_key=" in str(caught.value)


def test_a_contract_that_was_recorded_with_a_name_is_read_as_one_with_a_pointer() -> None:
    read = Contract.model_validate_json('{"name": "pay", "idempotency_field": "key"}')
    assert read.idempotency_field == "/key"
    everything = Contract.model_validate_json('{"name": "pay", "idempotency_field": ""}')
    assert everything.idempotency_field is None


def test_a_matcher_names_an_argument_and_never_all_of_them() -> None:
    contract = Contract(
        name="find", matchers=Matchers(ignore=("when", ""), windows={"": 1, "at": 2})
    )
    lens = matcher_lens([contract], (), {})
    assert lens is not None
    assert (lens.ignore, lens.windows) == (("/when",), {"/at": 2})
    one, other = {"when": 1, "query": "a"}, {"when": 2, "query": "b"}
    assert lens.key(one) != lens.key(other)
    assert EXACT.key(one) != lens.key(one)

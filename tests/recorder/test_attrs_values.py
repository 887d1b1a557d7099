"""Objects of classes that ``attrs`` made come back, and none of their code runs for it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from tests.recorder.test_canonical_values import stored
from tracekit.canonical import decode, encode

attrs = pytest.importorskip("attrs")


def _refuse(instance: object, attribute: object, value: object) -> None:
    if CLOSED:
        raise AssertionError("no user code runs when a value is rebuilt")


CLOSED: list[bool] = []


@attrs.define
class Slotted:
    x: int = attrs.field(validator=_refuse)
    y: list[Any] = attrs.field(factory=list)


@attrs.frozen(slots=False)
class Frozen:
    _secret: Decimal


slotted: Any = Slotted
frozen: Any = Frozen


@pytest.mark.parametrize("value", [slotted(1, [slotted(2, [(3,)])]), frozen(Decimal("1.10"))])
def test_an_attrs_object_comes_back(value: object) -> None:
    encoded = stored(encode({"in": value}))
    CLOSED.append(True)
    try:
        back: Any = decode(encoded)
    finally:
        CLOSED.clear()

    assert encoded.replayable
    assert back == {"in": value}
    assert type(back["in"]) is type(value)

"""An account whose methods are tools, and what is recorded of calls of such."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from typing import Any

import tracekit
from tests.recorder.record_kit import recording

writes = tracekit.tool(effect="write")


class Account:
    """An account as many are: what identifies it beside what does not."""

    def __init__(self, iban: str) -> None:
        self.iban = iban
        self.calls = 0
        self.rate = 0.5
        self.lock = threading.Lock()
        self.seen: list[int] = []

    @writes
    def pay(self, amount: int) -> int:
        self.calls += 1
        return amount

    @writes
    def unusual(this, amount: int) -> int:  # noqa: N805  # the name of it decides nothing
        return amount

    @property
    @tracekit.tool(effect="read")
    def balance(self) -> int:
        return 1

    ten = functools.partialmethod(pay, 10)

    @classmethod
    @writes
    def wipe(cls, x: int) -> int:
        return x

    @staticmethod
    @writes
    def moved(source: Any, amount: int) -> int:
        return amount

    @writes
    async def later(self, amount: int) -> int:
        self.calls += 1
        await asyncio.sleep(0)
        return amount

    @tracekit.tool(effect="read")
    def pages(self) -> Any:
        self.calls += 1
        yield 1
        yield 2

    @writes
    def __call__(self, amount: int) -> int:
        return amount


def told(make: Callable[[], object]) -> list[Any]:
    """The arguments of the tool calls that ``make`` makes."""
    with recording() as recorded, tracekit.run(run_id="r"):
        make()
    return [recorded.argument(row) for row in recorded.rows("tool_call")]


def a(iban: str = "A", cls: str = "Account") -> dict[str, Any]:
    return {"class": cls, "iban": iban, "calls": 0}

"""Whose call it is while bodies wait: who changes an object then, its body's work or the agent."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import types
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool
from typing import Any

import pytest

import tracekit
from tests.recorder.receivers_kit import Account, told, writes
from tracekit import carrying
from tracekit.operations import current


@pytest.fixture(autouse=True)
def _doors() -> Iterator[None]:
    yield
    carrying.uninstall()


def ibans(make: Callable[[], Any]) -> list[str]:
    """Whose each call was, of an agent that is run by asyncio."""
    return [given["self"]["iban"] for given in told(lambda: asyncio.run(make()))]


class Box(Account):
    """An account whose tools hand work on."""

    @writes
    async def slow(self, amount: int) -> int:
        self.calls += 1
        await asyncio.sleep(0.001)
        self.calls += 1
        return amount

    @tracekit.tool(effect="read")
    async def lines(self) -> AsyncGenerator[int, None]:
        self.calls += 1
        await asyncio.sleep(0)
        yield 1
        self.calls += 1
        await asyncio.sleep(0)
        yield 2

    @writes
    async def works(self, how: Callable[[Callable[[], None]], Any]) -> None:
        await how(self._work)

    @writes
    async def fetches(self) -> None:
        await asyncio.to_thread(len, "")
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    def _work(self) -> None:
        self.calls += 1


def test_an_async_body_runs_from_wait_to_wait_and_what_the_agent_changes_meanwhile_counts() -> None:
    account = Box("A")

    async def calls() -> None:
        under_way = asyncio.create_task(account.later(1))
        await asyncio.sleep(0)
        account.iban = "B"
        account.pay(2)
        await under_way
        account.iban = "C"
        account.pay(3)

    assert ibans(calls) == ["A", "B", "C"]


def test_of_calls_that_wait_together_each_has_the_account_that_it_was_made_for() -> None:
    account = Box("-")

    async def move(iban: str) -> None:
        account.iban = iban
        await account.slow(1)

    async def calls() -> None:
        await asyncio.gather(*(move(iban) for iban in "ABC"))
        async with asyncio.TaskGroup() as group:
            for iban in "DE":
                group.create_task(move(iban))

    assert sorted(ibans(calls)) == list("ABCDE")
    assert {given["self"]["calls"] for given in told(lambda: account.pay(1))} == {0}


def test_an_async_generator_runs_neither_between_its_items_nor_while_it_waits_for_one() -> None:
    account = Box("A")

    async def calls() -> None:
        reading = account.lines()
        first = asyncio.ensure_future(anext(reading))
        await asyncio.sleep(0)
        account.iban = "B"
        account.pay(1)
        await first
        account.iban = "C"
        account.pay(2)
        await reading.aclose()

    assert ibans(calls) == ["A", "B", "C"]
    assert {given["self"]["calls"] for given in told(lambda: account.pay(1))} == {0}


async def _in_a_task(work: Callable[[], None]) -> None:
    async def later() -> None:
        await asyncio.sleep(0)
        work()

    async with asyncio.TaskGroup() as group:
        group.create_task(later())
    await asyncio.wait_for(later(), 9)


async def _in_a_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    while thread.is_alive():  # noqa: ASYNC110  # nothing tells of its end
        await asyncio.sleep(0)


async def _in_a_pool(work: Callable[[], None]) -> None:
    with ThreadPoolExecutor(1) as pool:
        await asyncio.wrap_future(pool.submit(work))
    with ThreadPool(1) as threads:
        under_way = threads.apply_async(work)
        items = threads.imap(lambda _: work(), [1, 2])
        while not under_way.ready():  # noqa: ASYNC110  # as above
            await asyncio.sleep(0)
        for _ in items:
            await asyncio.sleep(0)


@pytest.mark.parametrize("how", [_in_a_task, _in_a_thread, _in_a_pool, asyncio.to_thread])
def test_what_a_body_hands_on_is_its_own_work_while_it_waits_for_it(how: Any) -> None:
    account = Box("A")

    async def calls() -> None:
        await asyncio.gather(account.works(how), account.works(how))
        account.pay(1)

    assert {given["self"]["calls"] for given in told(lambda: asyncio.run(calls()))} == {0}
    assert account.calls > 2


def test_a_body_whose_work_is_over_waits_like_any_other() -> None:
    account = Box("A")

    async def calls() -> None:
        under_way = asyncio.create_task(account.fetches())
        while not under_way.done():
            await asyncio.sleep(0)
            account.iban = "B"
            account.pay(1)
        account.pay(2)

    assert ibans(calls)[-1] == "B"


def test_where_an_event_loop_hides_what_it_begins_a_body_runs_to_its_end() -> None:
    account = Box("A")

    def calls() -> None:
        under_way = account.later(1)
        under_way.send(None)
        account.iban = "B"
        account.pay(2)
        with pytest.raises(StopIteration):
            under_way.send(None)
        account.pay(3)
        account.iban = "C"
        account.pay(4)

    assert [given["self"]["iban"] for given in told(calls)] == ["A", "A", "A", "C"]


# --- the same coroutine ---------------------------------------------------------------------------


class Stubborn:
    """Its body meets whatever can be done to a coroutine."""

    def __init__(self) -> None:
        self.iban, self.said = "A", ["begun"]

    async def plain(self, waiting: Any, answer: str) -> str:
        try:
            self.said.append(str(await waiting))
        except BaseException as error:
            self.said.append(type(error).__name__)
            if answer == "raise":
                raise
            if answer == "wait":
                await asyncio.sleep(0)
        finally:
            self.said.append("left")
        return answer

    async def awaited(self, waiting: Any, answer: str) -> str:
        return await self.plain(waiting, answer)

    tool = writes(plain)


async def _meets(method: Any, stubborn: Stubborn, what: str, answer: str) -> list[str]:
    waiting: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    called = method(stubborn, waiting, answer)
    if what in ("close", "throw"):
        called.send(None)
        try:
            done = called.close() if what == "close" else called.throw(KeyError("k"))
        except BaseException as error:  # noqa: BLE001  # compared with that of the bare function
            done = type(error).__name__, str(error)
        with contextlib.suppress(BaseException):
            called.close()
        return [*stubborn.said, str(done)]
    task = asyncio.create_task(called)
    await asyncio.sleep(0)
    if what == "cancel":
        task.cancel()
    elif what == "raise":
        waiting.set_exception(LookupError("l"))
    else:
        waiting.set_result("value")
    end: Any
    (end,) = await asyncio.gather(task, return_exceptions=True)
    return [*stubborn.said, repr(end), str(task.cancelled())]


@pytest.mark.parametrize("what", ["close", "throw", "cancel", "raise", "return"])
@pytest.mark.parametrize("answer", ["raise", "wait", "return"])
def test_a_body_that_is_watched_meets_what_it_meets_where_it_is_awaited(
    what: str, answer: str
) -> None:
    async def both() -> list[list[str]]:
        return [
            await _meets(method, Stubborn(), what, answer)
            for method in (Stubborn.awaited, Stubborn.tool)
        ]

    seen: list[list[str]] = []
    told(lambda: seen.extend(asyncio.run(both())))
    assert seen[0] == seen[1]


def test_on_the_loop_of_uvloop_bodies_run_from_wait_to_wait_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Loop(asyncio.SelectorEventLoop):
        """Stands in for it: makes tasks by itself."""

        def create_task(self, coro: Any, **kwargs: Any) -> Any:
            return asyncio.Task(coro, loop=self, **kwargs)

    stand_in: Any = types.ModuleType("uvloop")
    stand_in.Loop = Loop
    monkeypatch.setitem(sys.modules, "uvloop", stand_in)
    monkeypatch.setattr(carrying, "_LOOPS", {"uvloop"})
    account = Box("A")

    async def hands_on(work: Callable[[], None]) -> None:
        async def part() -> None:
            await asyncio.sleep(0)
            work()

        await asyncio.create_task(part())

    async def calls() -> None:
        under_way = asyncio.create_task(account.later(1))
        await asyncio.sleep(0)
        account.iban = "B"
        account.pay(2)
        await under_way
        await account.works(hands_on)
        account.pay(3)

    def run() -> None:
        with asyncio.Runner(loop_factory=Loop) as runner:
            runner.run(calls())

    seen = [(given["self"]["iban"], given["self"]["calls"]) for given in told(run)]
    assert seen == [("A", 0), ("B", 0), ("B", 0), ("B", 0)]


def test_of_the_work_that_a_body_hands_on_only_what_goes_on_is_kept() -> None:
    kept: list[int] = []

    class Busy(Box):
        @writes
        async def serve(self) -> None:
            heart = asyncio.create_task(asyncio.sleep(3600))
            for _ in range(300):
                await asyncio.gather(*[asyncio.create_task(asyncio.sleep(0)) for _ in range(3)])
                kept.append(len(current().work or ()))  # type: ignore[union-attr]  # a tool runs
            heart.cancel()

    told(lambda: asyncio.run(Busy("A").serve()))
    assert max(kept) <= 9


def test_an_error_of_a_body_does_not_keep_alive_what_was_called() -> None:
    import gc
    import weakref

    class Fails(Box):
        @writes
        async def fail(self) -> None:
            await asyncio.sleep(0)
            raise OSError("no")

    async def calls() -> weakref.ref[Fails]:
        account = Fails("A")
        with contextlib.suppress(OSError):
            await account.fail()
        return weakref.ref(account)

    gone: list[Any] = []
    gc.disable()
    try:
        told(lambda: gone.append(asyncio.run(calls())))
        assert gone[0]() is None
    finally:
        gc.enable()

from __future__ import annotations

import multiprocessing
import re
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tracekit import conditions
from tracekit.canonical import JsonValue
from tracekit.conditions import Conditions, Mint, MintKind, MintScope

START = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.fixture
def minted() -> Iterator[list[Mint]]:
    """The values minted in a test, in a scope of its own."""
    seen: list[Mint] = []
    before = conditions.set_mint_observer(seen.append)
    with conditions.minting(MintScope()):
        yield seen
    conditions.set_mint_observer(before)


@pytest.fixture(autouse=True)
def _no_source() -> Iterator[None]:
    yield
    conditions.set_mint_source(None)


def test_fixed_conditions_count_ids_from_one_and_tick_a_second_a_reading() -> None:
    fixed = Conditions.fixed(START)

    assert [fixed.new_span_id(), fixed.new_span_id()] == [f"{1:016x}", f"{2:016x}"]
    assert fixed.new_trace_id() == f"{1:032x}"
    assert fixed.new_run_id() == "run-000001"
    assert fixed.uuid4() == uuid.UUID("00000000-0000-4000-8000-000000000001")
    assert [fixed.now(), fixed.now()] == [START, START + timedelta(seconds=1)]
    assert fixed.now_ns() == int((START + timedelta(seconds=2)).timestamp()) * 10**9
    fixed.advance(10**9)
    assert fixed.now() == START + timedelta(seconds=4)


def test_the_same_seed_gives_the_same_world() -> None:
    def read(given: Conditions) -> list[object]:
        drawn: list[object] = [given.now(), given.uuid4(), given.random(), given.token_hex(4)]
        given.advance(1_500_000_000)
        return [*drawn, given.randint(1, 6), given.now(), given.monotonic_ns()]

    first, second = read(Conditions.seeded(START, 7)), read(Conditions.seeded(START, 7))

    assert first == second
    assert read(Conditions.seeded(START, 8)) != first
    assert first[0] == START
    assert isinstance(first[5], datetime)
    assert first[5] - START == timedelta(seconds=1.5, microseconds=1)


def test_the_recorder_does_not_move_a_seeded_clock() -> None:
    seeded = Conditions.seeded(START, 7)

    readings = {seeded.now_ns() for _ in range(5)}

    assert len(readings) == 1
    assert seeded.now() == START


def test_ids_of_runs_stay_fresh_under_a_seed() -> None:
    first, second = Conditions.seeded(START, 7), Conditions.seeded(START, 7)

    assert first.new_run_id() != second.new_run_id()
    assert first.new_span_id() != second.new_span_id()


def test_a_loop_that_waits_for_a_deadline_ends_under_a_seed() -> None:
    seeded = Conditions.seeded(START, 7)

    readings = 0
    while seeded.now() < START + timedelta(milliseconds=1):
        readings += 1

    assert readings == 1_000


def test_no_clock_is_moved_back_and_the_systems_not_at_all() -> None:
    with pytest.raises(ValueError, match="forward"):
        Conditions.seeded(START, 1).advance(-1)
    with pytest.raises(ValueError, match="system"):
        Conditions.system().advance(1)
    with pytest.raises(ValueError, match="aware"):
        Conditions.fixed(START.replace(tzinfo=None))


def test_the_systems_ids_have_their_stated_forms() -> None:
    assert re.fullmatch(r"[0-9A-HJKMNP-TV-Z]{26}", conditions.new_run_id())
    assert re.fullmatch(r"[0-9a-f]{32}", conditions.new_trace_id())
    assert re.fullmatch(r"[0-9a-f]{16}", conditions.new_span_id())
    assert uuid.UUID(conditions.new_uuid7()).version == 7
    assert conditions.now().utcoffset() == timedelta(0)


def test_run_ids_and_names_sort_by_the_order_of_their_making() -> None:
    run_ids = [conditions.new_run_id() for _ in range(5_000)]
    names = [conditions.new_uuid7() for _ in range(5_000)]

    assert run_ids == sorted(set(run_ids))
    assert names == sorted(set(names))


def test_run_ids_go_on_rising_when_the_clock_runs_backwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = conditions.new_run_id()
    monkeypatch.setattr("time.time_ns", lambda: 1_000_000_000)

    assert conditions.new_run_id() > before


def test_ids_of_many_threads_are_all_different() -> None:
    made: list[str] = []

    def make() -> None:
        made.extend(conditions.new_run_id() for _ in range(500))
        made.extend(conditions.new_span_id() for _ in range(500))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(made)) == 8_000


def _make_ids(queue: Any) -> None:
    queue.put([conditions.new_span_id() for _ in range(50)] + [conditions.new_run_id()])


def test_a_forked_process_repeats_no_id_of_its_parent() -> None:
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=_make_ids, args=(queue,)) for _ in range(2)]
    for child in children:
        child.start()
    made = [queue.get(timeout=30) for _ in children]
    for child in children:
        child.join()
    made.append([conditions.new_span_id() for _ in range(50)] + [conditions.new_run_id()])

    assert len({one for ids in made for one in ids}) == 3 * 51


def test_conditions_hold_where_they_are_used_and_in_the_process_where_installed() -> None:
    fixed, other = Conditions.fixed(START), Conditions.fixed(START)
    with conditions.use(fixed):
        assert conditions.current() is fixed
        assert conditions.now() == START
    before = conditions.install(other)
    try:
        seen: list[Conditions] = []
        thread = threading.Thread(target=lambda: seen.append(conditions.current()))
        thread.start()
        thread.join()
        assert seen == [other]
    finally:
        conditions.install(before)
    assert conditions.current() is before


def _ask() -> uuid.UUID:
    return conditions.uuid4()


def test_a_minted_value_is_known_by_place_and_occurrence(minted: list[Mint]) -> None:
    first, second = _ask(), _ask()
    name = conditions.token_hex(4)

    assert minted == [
        Mint("uuid4", f"{__name__}:_ask:uuid4", 0, str(first)),
        Mint("uuid4", f"{__name__}:_ask:uuid4", 1, str(second)),
        Mint(
            "token_hex",
            f"{__name__}:test_a_minted_value_is_known_by_place_and_occurrence:token_hex",
            0,
            name,
        ),
    ]


def test_every_kind_of_value_is_minted_in_its_json_form(minted: list[Mint]) -> None:
    with conditions.use(Conditions.seeded(START, 7)):
        given: dict[str, object] = {
            "now": conditions.now(),
            "uuid4": conditions.uuid4(),
            "random": conditions.random(),
            "token_hex": conditions.token_hex(),
            "randint": conditions.randint(1, 6),
            "choice": conditions.choice(["a", "b", "c"]),
        }

    values = {mint.kind: mint.value for mint in minted}
    assert list(values) == list(given)
    assert values["now"] == START.isoformat()
    assert values["uuid4"] == str(given["uuid4"])
    assert values["random"] == given["random"]
    assert values["token_hex"] == given["token_hex"]
    assert values["randint"] == given["randint"]
    assert values["choice"] == ["a", "b", "c"].index(str(given["choice"]))


def test_what_the_recorder_reads_for_itself_is_not_minted(minted: list[Mint]) -> None:
    conditions.now_ns()
    conditions.monotonic_ns()
    conditions.new_run_id()
    conditions.new_trace_id()
    conditions.new_span_id()
    conditions.new_uuid7()
    Conditions.system().now()

    assert minted == []


def test_a_replay_supplies_the_recorded_values_and_the_rest_is_fresh(minted: list[Mint]) -> None:
    def ask() -> list[object]:
        return [
            conditions.now(),
            conditions.uuid4(),
            conditions.random(),
            conditions.token_hex(8),
            conditions.randint(1, 100),
            conditions.choice("abc"),
        ]

    first = ask()
    recorded = {(mint.kind, mint.site, mint.occurrence): mint.value for mint in minted}

    def supply(kind: MintKind, site: str, occurrence: int) -> JsonValue:
        return recorded.get((kind, site, occurrence))

    conditions.set_mint_source(supply)
    with conditions.minting(MintScope()):
        assert ask() == first
        again = ask()

    assert again[1] != first[1]
    assert [mint.value for mint in minted[:6]] == [mint.value for mint in minted[6:12]]


def test_a_choice_that_is_no_longer_there_becomes_the_last() -> None:
    conditions.set_mint_source(lambda kind, site, occurrence: 7)

    assert conditions.choice(["a", "b"]) == "b"
    with pytest.raises(IndexError):
        conditions.choice([])


def test_each_run_counts_for_itself(minted: list[Mint]) -> None:
    for _ in range(2):
        with conditions.minting(MintScope()):
            _ask()

    assert [mint.occurrence for mint in minted] == [0, 0]

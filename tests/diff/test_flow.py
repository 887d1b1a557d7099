"""Which values steps use and show, and that looking for them does not take the product of both."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replay.diff import diff, flow, phrases
from replay.diff.flow import Flow, Values
from replay.diff.order import PartialOrder
from replay.diff.phrases import Phrases
from replay.diff.steps import declared, steps_of
from tests.diff.building import read, run, write
from tracekit.trajectory import Trajectory

PIECES = ["New", "York", "Newark", " ", "-", "é", "17", '"', "\\n", "x", "", "x-1"]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)


def flow_of(one: Trajectory) -> Flow:
    return Flow(one, steps_of(one, declared(one, one)), Values())


@given(st.lists(TEXTS, max_size=6), st.lists(TEXTS, max_size=6))
@example(["in New Yorkers", "New York", "Newark"], ["New York", "York", "!", "w Y", "k, "])
def test_a_phrase_is_found_in_the_texts_that_hold_it(texts: list[str], some: list[str]) -> None:
    some = [one for one in some if re.search(r"\W", one)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(phrases, "FEW", 0)
        found = {phrase: sorted(places) for phrase, places in Phrases(texts).find(some)}
    held = {one: [at for at, text in enumerate(texts) if one in text] for one in some}
    assert found == {phrase: places for phrase, places in held.items() if places}


def test_values_are_looked_for_where_their_rarest_word_is() -> None:
    def length(steps: int) -> int:
        calls = [
            read("find", {"title": f"annual report {n} of ACME, part {n % 3}"}, f"see item {n}, ok")
            for n in range(steps)
        ]
        return flow_of(run(*calls)).looks

    assert length(400) <= 2 * 400
    assert length(1600) <= 2 * 1600


def test_looking_through_first_and_taking_apart_at_once_find_the_same(monkeypatch: Any) -> None:
    calls = [
        read("find", {"name": "Ann Lee", "n": 17}, {"id": "u-77", "text": "of New York, 17"}),
        read("load", {"id": "u-77", "city": "New York"}, {"mail": "ann@x.org", "said": 'a "b" c'}),
        write("mail", {"to": "ann@x.org", "text": 'she said a "b" c', "n": 17.0}, "sent"),
    ]
    one = run(*calls, "done", prompt="write to Ann Lee")
    quick = flow_of(one)
    monkeypatch.setattr(flow, "QUICKLY", 0)
    monkeypatch.setattr(phrases, "FEW", 0)
    slow = flow_of(one)
    assert (quick.uses, quick.provides) == (slow.uses, slow.provides)
    assert quick.uses == [
        frozenset(),
        frozenset({"u-77", "New York"}),
        frozenset({"ann@x.org"}),
        frozenset(),
    ]
    assert quick.first_shown == {"u-77": 0, "New York": 0, "ann@x.org": 1}


def test_a_value_that_the_task_names_in_a_sentence_may_be_shown_whole() -> None:
    one = run(
        read("where", {"q": "1"}, "New York"),
        read("weather", {"city": "New York"}, "rain"),
        prompt="go to New York now",
    )
    assert flow_of(one).uses == [frozenset(), frozenset()]
    assert diff(one, one).same


def test_equal_runs_need_no_order(monkeypatch: Any) -> None:
    def never(*_: object) -> None:
        raise AssertionError("nothing had to be ordered")

    monkeypatch.setattr(PartialOrder, "linearise", never)
    calls = [read("a", {"n": n}, n) for n in range(5)]
    assert diff(run(*calls), run(*calls)).same


def test_every_read_waits_for_the_nearest_writes_alone() -> None:
    calls = [write("w", {"n": n}, "ok") if n % 2 else read("r", {"n": n}, n) for n in range(400)]
    one = run(*calls)
    order = PartialOrder(one, steps_of(one, declared(one, one)))
    assert order.edges <= 3 * 400
    assert order.linearise([(0.0, "", -at) for at in range(400)]) == list(range(400))


def test_each_text_is_read_a_few_times_however_many_phrases_and_words_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = phrases._WORD
    read: list[int] = []

    class Counting:
        finditer = staticmethod(words.finditer)

        @staticmethod
        def findall(text: str) -> list[str]:
            read.append(len(text))
            return words.findall(text)

    monkeypatch.setattr(phrases, "_WORD", Counting)
    texts = [" ".join(f"w{at}x{n}" for n in range(200)) for at in range(50)]
    wanted = [f"w{at}x{n} w{at}x{n + 1}" for at in range(50) for n in range(40)]
    index = Phrases(texts)

    assert dict(index.find(wanted)) == {phrase: [at // 40] for at, phrase in enumerate(wanted)}
    assert sum(read) <= 3 * sum(map(len, texts))
    assert index.looks == len(wanted)

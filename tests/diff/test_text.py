"""The text and the JSON of a comparison."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from replay.diff import diff, names_for
from tests.diff.building import read, run, write
from tracekit.canonical import json_text
from tracekit.trajectory import Message, Trajectory

LEFT = run(
    read("order.search", {"customer": "ann"}, {"order": "o-771"}),
    write("refund", {"order": "o-771", "amount": 42}, "ok"),
    read("mail.list", {}, []),
    run_id="run-41",
)
RIGHT = run(
    read("order.search", {"customer": "ann"}, {"order": "o-771"}),
    write("refund", {"order": "o-771", "amount": 4200}, "ok"),
    read("mail.list", {}, []),
    write("mail.send", {"to": "ann"}, "sent"),
    run_id="run-42",
    replay_of="run-41",
)

TEXT = """\
DIFFERENT  2 differences, 2 of them on writes, 1 decision the same before the first, \
the same call again in decision 3 (distance 7.004)
  recorded  run-41
  replayed  run-42

First divergence: decision 2, changed arguments
  expected (recorded): refund(order="o-771", amount=42)  [write]
  taken (replayed): refund(order="o-771", amount=4200)  [write]
  /amount
    recorded  42
    replayed  4200
  just seen (both): the answer of order.search {"order":"o-771"}

Causes, most harmful first (2)
   1. [write] Decision 2: refund was called with other arguments: /amount: recorded 42, \
replayed 4200.
   2. [write] Decision 4: replayed called mail.send(to="ann"); recorded did not.

Side by side   = same   ~ changed   - only recorded   + only replayed   % moved
  =     1/1  both order.search(customer="ann")
  ~     2/2  recorded refund(order="o-771", amount=42)  [write]
             replayed refund(order="o-771", amount=4200)  [write]
  =     3/3  both mail.list()
  +     -/4  replayed mail.send(to="ann")  [write]"""


def test_the_text_can_be_read_at_night() -> None:
    assert diff(LEFT, RIGHT).as_text() == TEXT


def test_the_page_about_comparisons_shows_this_text() -> None:
    page = Path(__file__).parents[2] / "docs" / "diff.md"
    assert f"```text\n{TEXT}\n```" in page.read_text(encoding="utf-8")


def test_the_text_of_equal_runs_is_a_line_and_the_two_runs() -> None:
    assert diff(LEFT, LEFT).as_text().splitlines() == [
        "SAME  recorded and replayed are equivalent over 3 decisions",
        "  recorded  run-41",
        "  replayed  run-41",
    ]


def test_long_values_are_cut_around_the_difference() -> None:
    page = "x" * 5000
    one, two = (run(read("page", {}, f"{page}{word}{page}")) for word in ("old", "new"))
    text = diff(one, two).as_text()
    assert "xold" in text
    assert "xnew" in text
    assert max(len(line) for line in text.splitlines()) < 300
    assert page in diff(one, two).as_text(values=True)


def test_control_characters_of_a_trace_do_not_reach_the_terminal() -> None:
    one, two = run(read("r", {"q": "a\x1b[2J\n"})), run(read("r", {"q": "b\x1b[2J\u202e"}))
    text = diff(one, two).as_text()
    assert "\x1b" not in text
    assert "\u202e" not in text


@pytest.mark.parametrize(
    ("one", "two", "shown"),
    [
        ("paypal", "p\u0430ypal", '"p\\u0430ypal"'),
        ("caf\u00e9", "cafe\u0301", '"caf\\u00e9"'),
        ("a b", "a\u00a0b", '"a\\u00a0b"'),
    ],
)
def test_values_that_look_alike_are_shown_apart(one: str, two: str, shown: str) -> None:
    text = diff(run(write("pay", {"to": one})), run(write("pay", {"to": two}))).as_text()
    assert shown in text
    other = diff(run(write("pay", {"to": "Zürich"})), run(write("pay", {"to": "Genève"})))
    assert "Zürich" in other.as_text()


def test_every_line_that_shows_a_side_names_it() -> None:
    text = diff(LEFT, RIGHT, left_name="v1", right_name="v2").as_text()
    assert "recorded" not in text
    assert "replayed" not in text
    assert "expected (v1)" in text


def test_the_json_form_says_the_same() -> None:
    told = json.loads(json_text(diff(LEFT, RIGHT).as_dict()))
    assert told["format"] == "tracekit-diff/1"
    assert (told["same"], told["counts"]["added"], told["resynchronised_at"]) == (False, 1, 3)
    assert told["first"] == told["divergences"][0]
    assert told["first"]["fields"] == [
        {"pointer": "/amount", "kind": "changed", "left": 42, "right": 4200}
    ]
    assert (told["first"]["kind"], told["first"]["harm"], told["first"]["harm_name"]) == (
        "changed_arguments",
        1,
        "write",
    )


def test_the_side_by_side_view_of_the_json_names_the_divergences_of_each_line() -> None:
    told = json.loads(json_text(diff(LEFT, RIGHT).as_dict()))
    assert [line["divergences"] for line in told["aligned"]] == [[], [0], [], [1]]
    assert told["first_call"] is None


def test_what_the_user_said_does_not_hide_the_first_call_that_differs() -> None:
    def talk(word: str, *tools: str) -> Trajectory:
        calls = [write(tool, {"x": 1}, "ok") for tool in tools]
        return run("which?", *calls, messages=(Message("user", f"this one{word}", 2),))

    lines = diff(talk(".", "v", "w"), talk("!", "v", "u", "w")).as_text().splitlines()
    at = lines.index("First other call: decision 3, a call was added")
    assert lines[at + 1 : at + 4] == [
        "  expected (recorded): no such step; next came w(x=1)  [write] in decision 3",
        "  taken (replayed): u(x=1)  [write]",
        '  just seen (replayed): the answer of v "ok"',
    ]
    assert "First divergence: decision 2, changed message" in lines


def test_a_step_that_moved_is_shown_with_both_its_places() -> None:
    a, b = write("a", {"x": 1}, "ok"), write("b", {"x": 1}, "ok")
    for one, two in ((run(a, b), run(b, a)), (run(b, a), run(a, b))):
        lines = diff(one, two).as_text().splitlines()
        at = lines.index("First divergence: decision 1, reordered")
        assert [line[-14:] for line in lines[at + 1 : at + 3]] in (
            [" in decision 1", " in decision 2"],
            [" in decision 2", " in decision 1"],
        )


def test_what_follows_is_listed_last_and_mere_words_are_only_counted() -> None:
    def talk(page: str) -> Trajectory:
        words = [f"{page} {n}" for n in range(4)]
        return run(read("look", {"page": page[-1]}, page), *words, write("w", {"to": page}, "ok"))

    found = diff(talk("page-1"), talk("page-2"))
    lines = found.as_text().splitlines()
    at = lines.index("Writes that differ, whether or not they follow, then other causes (2)")
    assert lines[at + 1] == (
        '   1. [write] Decision 6: w was called with other arguments: /to: recorded "page-1", '
        "replayed \"page-2\". Follows from: replayed took 'page-2' from the observation of look "
        "(decision 1), which differs."
    )
    assert lines[at + 2].startswith("   2. [changed read] Decision 1: look")
    assert lines[-2:] == [
        "Consequences, most harmful first (5)",
        "      … and 1 of result, 4 of wording (shown with --full)",
    ]
    assert "--full" not in found.as_text(values=True)
    assert found.as_text(values=True).count("[wording]") == 4


def test_other_inputs_are_named_at_the_top() -> None:
    lines = diff(run(read("r"), prompt="a"), run(read("r"), prompt="b")).as_text().splitlines()
    assert '  input/prompt: recorded "a", replayed "b"' in lines[:4]


def test_a_difference_deep_in_long_arguments_is_shown_where_the_call_is_cut() -> None:
    def book(date: str) -> Trajectory:
        flights = [
            {"number": f"HAT{n}", "date": date if n == 7 else "2024-05-20"} for n in range(9)
        ]
        return run(write("book", {"user": "ann", "flights": flights}, "ok"))

    text = diff(book("2024-05-20"), book("2024-05-27")).as_text()
    side_by_side = text[text.index("Side by side") :]
    assert '/flights/7/date: recorded "2024-05-20", replayed "2024-05-27"' in side_by_side


def test_calls_issued_together_on_one_side_are_both_named() -> None:
    one, two = write("v", {"x": 1}, "ok"), write("w", {"x": 2}, "ok")
    (found,) = diff(run(one, two), run([one, two])).divergences
    assert found.explanation == (
        "replayed issued v and w together, recorded one after the other "
        "(w: recorded decision 2, replayed decision 1)."
    )


def test_a_replay_and_its_original_are_called_so() -> None:
    assert names_for(LEFT, RIGHT) == ("recorded", "replayed")
    assert names_for(RIGHT, LEFT) == ("replayed", "recorded")
    assert names_for(LEFT, LEFT) == ("left", "right")


def test_two_recorded_runs_are_called_by_what_tells_them_apart() -> None:
    def names(one: str, two: str) -> tuple[str, str]:
        return names_for(run(run_id=one), run(run_id=two))

    assert names("run-41", "run-42") == ("run-41", "run-42")
    assert names("data.gpt-4o.t.1", "data.gpt-4o-guarded.t.1") == ("gpt-4o", "gpt-4o-guarded")
    assert names(
        "019ad3f0-aaaa-7bbb-8ccc-000000000001", "019ad3f0-aaaa-7bbb-8ccc-000000000002"
    ) == ("…00000001", "…00000002")
    long = "data.model.github.task_0.important_instructions.injection_task_0"
    assert names("data.model.github.task_0.none", long) == ("task_0.none", "injection_task_0")


def test_a_call_that_was_only_issued_otherwise_is_shown_once() -> None:
    one, two = write("v", {"x": 1}, "ok"), write("w", {"x": 2}, "ok")
    lines = diff(run([one, two]), run(one, two)).as_text().splitlines()
    assert "  ~     1/2  both w(x=2)  [write]" in lines

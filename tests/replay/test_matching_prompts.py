"""How a prompt finds its recorded reply."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from replay.matching import AskedPrompt
from tests.replay.tape_kit import asked, call, player, record, seen, value
from tracekit.canonical import JsonValue
from tracekit.prompts import hash_prompt
from tracekit.trajectory import Mint, ModelCall, Observation


def request(text: str, **more: JsonValue) -> dict[str, JsonValue]:
    return {"messages": [{"role": "user", "content": text}], **more}


def model_call(number: int, prompt: JsonValue, said: JsonValue, **more: Any) -> ModelCall:
    hashed = hash_prompt(prompt).prompt if isinstance(prompt, dict) else None
    made = ModelCall(f"m{number}", "", prompt, hashed, seen(said), name="chat")
    return replace(made, **more)


def prompt(value: JsonValue, **more: Any) -> AskedPrompt:
    hashed = hash_prompt(value).prompt if isinstance(value, dict) else None
    return replace(AskedPrompt(value, hashed, name="chat"), **more)


def test_an_equal_prompt_gets_its_recorded_reply() -> None:
    tape = record(prompts=[model_call(1, request("a"), "A"), model_call(2, request("b"), "B")])
    replay = player(tape)
    answers = [replay.prompt(prompt(request(text))) for text in ("b", "a")]
    assert [(a.rung, a.tainted, value(a), a.recorded) for a in answers if a] == [
        ("exact", False, "B", "m2"),
        ("exact", False, "A", "m1"),
    ]
    assert replay.prompt_shares() == {"exact": 2}


def test_a_changed_prompt_is_not_in_the_record_and_says_where() -> None:
    replay = player(record(prompts=[model_call(1, request("be brief"), "A")]))
    changed = prompt(request("be careful"))
    assert replay.prompt(changed) is None
    assert replay.explain_prompt(changed) == (
        'prompt of model call 1: /messages/0/content: recorded "be brief", asked "be careful"'
    )
    assert replay.tainted_from is None


def test_equal_prompts_get_their_replies_in_order_and_then_the_last_again() -> None:
    tape = record(prompts=[model_call(n, request("a"), f"A{n}") for n in (1, 2)])
    replay = player(tape)
    answers = [replay.prompt(prompt(request("a"))) for _ in range(3)]
    assert [(a.rung, a.tainted, value(a)) for a in answers if a] == [
        ("exact", False, "A1"),
        ("exact", False, "A2"),
        ("reused", True, "A2"),
    ]


def test_an_id_minted_anew_does_not_make_another_prompt() -> None:
    old, new = "6f1ed002ab5595859014ebf0951522d9", "0123456789abcdef0123456789abcdef"
    tape = record(
        prompts=[model_call(1, request(f"ticket {old}"), "A")], mints=[Mint("id", "s", 0, old)]
    )
    replay = player(tape)
    replay.note_mint("id", "s", 0, new)
    answer = replay.prompt(prompt(request(f"ticket {new}")))
    assert answer is not None
    assert (answer.rung, answer.tainted) == ("normalised", False)


FAILED = "<Connection object at 0x7f{}>: refused"


def test_the_address_of_an_object_does_not_make_another_prompt() -> None:
    calls = [model_call(1, request(FAILED.format("a0")), "A"), model_call(2, request("b"), "B")]
    replay = player(record(prompts=calls))
    for rung in ("normalised", "reused"):
        answer = replay.prompt(prompt(request(FAILED.format("b1"))))
        assert answer is not None
        assert (answer.rung, value(answer)) == (rung, "A")
    assert replay.prompt(prompt(request(FAILED.format("b1") + " twice"))) is None
    assert replay.prompt(prompt(request("Connection at 0x7fb1"))) is None


def test_of_prompts_that_differ_in_addresses_only_it_is_not_known_which_is_meant() -> None:
    calls = [
        model_call(n, request(FAILED.format(f"a{n}")), said) for n, said in ((1, "A"), (2, "B"))
    ]
    replay = player(record(prompts=calls))
    exact = replay.prompt(prompt(request(FAILED.format("a2"))))
    assert exact is not None
    assert (exact.rung, exact.tainted, value(exact)) == ("exact", False, "B")
    replay = player(record(prompts=calls))
    answer = replay.prompt(prompt(request(FAILED.format("b2"))))
    assert answer is not None
    assert (answer.ambiguous, answer.tainted) == (True, True)


def test_another_model_is_no_evidence() -> None:
    replay = player(record(prompts=[model_call(1, request("a", model="old"), "A")]))
    answer = replay.prompt(prompt(request("a", model="new")))
    assert answer is not None
    assert (answer.rung, answer.tainted, value(answer)) == ("nearest", True, "A")
    assert answer.explanation == "model call 1: model: recorded 'old', asked 'new'"


def test_two_functions_given_the_same_arguments_are_not_confused() -> None:
    tape = record(
        prompts=[
            model_call(1, {"text": "x"}, "summary", name="summarise"),
            model_call(2, {"text": "x"}, "label", name="classify"),
        ]
    )
    replay = player(tape)
    answer = replay.prompt(prompt({"text": "x"}, name="classify"))
    assert answer is not None
    assert value(answer) == "label"
    assert replay.prompt(prompt({"text": "x"}, name="translate")) is None


def test_a_prompt_kept_as_a_hash_only_is_enough() -> None:
    tape = record(prompts=[replace(model_call(1, request("a"), "A"), prompt=None)])
    replay = player(tape)
    assert replay.prompt(prompt(request("b"))) is None
    assert "only its hash" in replay.explain_prompt(prompt(request("b")))
    answer = replay.prompt(prompt(request("a")))
    assert answer is not None
    assert answer.rung == "exact"


def test_prompts_without_hashes_are_compared_whole() -> None:
    tape = record(prompts=[replace(model_call(1, request("a", n=1), "A"), prompt_hash=None)])
    replay = player(tape)
    assert replay.prompt(prompt(request("a", n=2), prompt_hash=None)) is None
    answer = replay.prompt(prompt(request("a", n=1)))
    assert answer is not None
    assert answer.rung == "exact"


def test_the_path_decides_between_equal_prompts() -> None:
    tape = record(
        prompts=[
            model_call(1, request("a"), "planner", path=("planner",)),
            model_call(2, request("a"), "critic", path=("critic",)),
        ]
    )
    at_home = player(tape).prompt(prompt(request("a"), path=("critic",)))
    abroad = player(tape).prompt(prompt(request("a"), path=("judge",)))
    assert at_home is not None
    assert abroad is not None
    assert (value(at_home), at_home.ambiguous, at_home.tainted) == ("critic", False, False)
    assert (value(abroad), abroad.ambiguous, abroad.tainted) == ("planner", True, True)


def test_by_position_gives_the_next_reply_and_is_never_evidence() -> None:
    tape = record(prompts=[model_call(n, request(str(n)), n) for n in (1, 2)])
    replay = player(tape)
    answers = [replay.prompt_by_position(prompt(request("other"))) for _ in range(3)]
    assert [(a.rung, a.tainted, value(a)) for a in answers if a] == [
        ("nearest", True, 1),
        ("nearest", True, 2),
    ]
    assert answers[2] is None
    assert replay.tainted_from == 1
    assert "all of them were used" in replay.explain_prompt(prompt(request("other")))


def test_a_recorded_failure_of_the_model_comes_back_and_a_lost_reply_does_not() -> None:
    failure = Observation(is_error=True, error_type="RateLimit", error_message="429")
    tape = record(
        prompts=[
            model_call(1, request("a"), None, reply=failure),
            model_call(2, request("b"), None, reply=Observation(state="truncated")),
        ]
    )
    replay = player(tape)
    failed, lost = replay.prompt(prompt(request("a"))), replay.prompt(prompt(request("b")))
    assert failed is not None
    assert lost is not None
    assert (failed.rung, failed.observation) == ("exact", failure)
    assert (lost.rung, lost.observation, lost.tainted) == ("error", None, True)
    assert lost.explanation == "model call 2: its reply was not kept (truncated)"


def test_replies_given_beneath_a_served_call_are_covered_by_it() -> None:
    tape = record(
        call("ask_expert", "read", "yes", q=1),
        prompts=[model_call(1, request("a"), "inner", covered_by="e1")],
    )
    fresh, served = player(tape), player(tape)
    served.call(asked("ask_expert", q=1))
    assert served.prompt(prompt(request("a"))) is None
    direct = fresh.prompt(prompt(request("a")))
    assert direct is not None
    assert (direct.rung, direct.tainted) == ("exact", True)

"""Prompts of a conversation: exactly what was said comes back, and only what is new is written."""

from __future__ import annotations

import copy
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracekit.canonical import Encoded, decode, digest, encode, json_bytes
from tracekit.chains import (
    MEDIA_TYPE,
    Resolver,
    load_with_bases,
    make_blob,
    read_link,
    references,
)
from tracekit.conversations import Conversations, KeptPrompt
from tracekit.events import Blob
from tracekit.prompts import hash_prompt
from tracekit.redact import Redactor, Rules, Scope, UnkeyedTagger

PLAIN = Redactor(Rules(), UnkeyedTagger())
TOOLS = [
    {"type": "function", "function": {"name": f"tool_{n}", "description": "x" * 80}}
    for n in range(9)
]


class Kept:
    """The prompts of one run and what was written of them."""

    def __init__(self, redactor: Redactor = PLAIN) -> None:
        self.blobs: dict[str, Blob] = {}
        self.secrets = Scope()
        self.conversations = Conversations()
        self.redactor = redactor
        self.written: list[int] = []

    def say(self, request: object) -> KeptPrompt:
        kept = self.conversations.keep(request, self.redactor, self.secrets)
        assert kept is not None
        new = {blob.digest: blob for blob in kept.blobs if blob.digest not in self.blobs}
        self.blobs |= new
        self.written.append(sum(len(blob.data) for blob in new.values()))
        self.conversations.written(kept)
        return kept

    def whole(self, kept: KeptPrompt) -> tuple[Any, dict[str, Any]]:
        found = Resolver(self.blobs.get).value(kept.payload.blob or "")
        assert found is not None
        return found.value, {**kept.payload.types, **found.types}


def turn(number: int, size: int = 300) -> list[dict[str, Any]]:
    text = f"What about service {number}? " + 'It said "failed".\n' * (size // 18)
    return [{"role": "user", "content": text}, {"role": "assistant", "content": f"It is {number}."}]


def conversation(turns: int) -> list[dict[str, Any]]:
    """The prompts of a conversation, one a turn."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}]
    prompts = []
    for number in range(turns):
        messages += turn(number)
        prompts.append({"model": "m", "messages": messages[:-1], "tools": TOOLS})
    return copy.deepcopy(prompts)


def same(kept: Kept, said: KeptPrompt, request: object) -> None:
    """What comes back is what was said: every byte, type, digest and hash."""
    expected = encode(request)
    value, types = kept.whole(said)
    assert json_bytes(value) == json_bytes(expected.value)
    assert types == dict(expected.types)
    assert said.payload.digest == digest(expected.value)
    assert isinstance(expected.value, dict)
    assert said.hashes == hash_prompt(expected.value)
    assert json_bytes(said.value) == json_bytes(expected.value)


def test_a_conversation_comes_back_as_it_was_said() -> None:
    kept = Kept()
    for request in conversation(30):
        same(kept, kept.say(request), request)


def test_only_what_is_new_is_written() -> None:
    kept = Kept()
    for request in conversation(200):
        kept.say(request)
    assert max(kept.written[1:20]) * 1.2 >= max(kept.written[180:])
    assert sum(b'"tool_3"' in blob.data for blob in kept.blobs.values()) == 1


def test_the_first_prompt_is_kept_whole_where_nothing_of_it_is_large() -> None:
    kept = Kept()
    said = kept.say({"messages": turn(1)})
    (blob,) = said.blobs
    assert blob.media_type == "application/json"
    assert blob.digest == said.payload.blob


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)
ODD = st.sampled_from(
    [1, 1.0, True, None, math.nan, "", (), [], b"x", {1, 2}, {"a": 1, "b": 2}, {"b": 2, "a": 1}]
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool"])},
    optional={"content": ODD | JSON | st.just("long " * 60), "tool_calls": JSON},
)
STEP = st.one_of(
    st.tuples(st.just("add"), st.lists(MESSAGE, min_size=1, max_size=3)),
    st.tuples(st.just("edit"), st.integers(0, 9), MESSAGE | JSON),
    st.tuples(st.just("cut"), st.integers(0, 9)),
    st.tuples(st.just("switch"), st.integers(0, 2)),
    st.tuples(
        st.just("field"), st.sampled_from(["tools", "model", "aa", "zz", "é"]), ODD | st.just(TOOLS)
    ),
    st.tuples(st.just("change"), st.integers(0, 9), ODD),
)


@settings(max_examples=200)
@given(st.lists(STEP, max_size=25))
def test_any_sequence_of_prompts_comes_back_exactly(steps: list[Any]) -> None:
    kept = Kept(Redactor(Rules(builtin=False), UnkeyedTagger()))
    requests: list[dict[str, Any]] = [{"messages": []} for _ in range(3)]
    now = 0
    said = []
    for step in steps:
        request = requests[now]
        messages = request["messages"]
        match step:
            case "add", more:
                messages += more
            case "edit", at, message if messages:
                messages[at % len(messages)] = message
            case "cut", at if messages:
                del messages[at % len(messages)]
            case "switch", to:
                requests[to] = {**requests[to], "messages": list(messages)}
                now = to
            case "field", name, value:
                request[name] = value
            case "change", at, value if messages and isinstance(messages[at % len(messages)], dict):
                messages[at % len(messages)]["content"] = value
        request = requests[now]
        said.append((kept.say(request), copy.deepcopy(request)))
    for prompt, request in said:
        same(kept, prompt, request)


def test_conversations_that_are_interleaved_stay_linear() -> None:
    kept = Kept()
    talks = [conversation(40) for _ in range(4)]
    for number, talk in enumerate(talks):
        for request in talk:
            request["messages"][0] = {"role": "system", "content": f"You are number {number}."}
    for prompts in zip(*talks, strict=True):
        for request in prompts:
            same(kept, kept.say(request), request)
    assert max(kept.written[8:]) < 700


def test_a_branch_goes_on_from_where_it_left() -> None:
    kept = Kept()
    *_, last = conversation(20)
    kept.say(last)
    branch = {**last, "messages": [*last["messages"][:20], *turn(99)]}
    said = kept.say(branch)
    same(kept, said, branch)
    assert kept.written[-1] < 700
    longer = {**branch, "messages": [*branch["messages"], *turn(100)]}
    same(kept, kept.say(longer), longer)
    assert kept.written[-1] < 700


def test_the_same_prompt_again_writes_nothing() -> None:
    kept = Kept()
    request = conversation(5)[-1]
    first, again = kept.say(request), kept.say(copy.deepcopy(request))
    assert again.payload == first.payload
    assert kept.written[-1] == 0


@pytest.mark.parametrize("value", [("a", "b"), 1.0, b"x", math.inf])
def test_a_history_whose_types_changed_in_place_is_not_taken_for_the_old_one(value: object) -> None:
    kept = Kept()
    request = conversation(5)[-1]
    request["messages"][3]["content"] = {("a", "b"): ["a", "b"], 1.0: 1}.get(value, "x")  # type: ignore[call-overload]  # any
    kept.say(request)
    request["messages"][3]["content"] = value
    request["messages"] += turn(9)
    same(kept, kept.say(request), request)


def test_types_of_messages_are_written_once() -> None:
    kept = Kept()
    messages: list[Any] = []
    for number in range(40):
        messages.append({"role": "user", "content": ("x" * 300, number)})
        said = kept.say({"messages": messages})
    value, types = kept.whole(said)
    assert decode(Encoded(value, types)) == {"messages": messages}
    assert said.payload.types == {}
    assert max(kept.written[1:]) < 550


def test_a_secret_learnt_later_is_taken_out_of_what_was_said_before() -> None:
    kept = Kept()
    first = {"messages": [{"role": "user", "content": "try hunter2-hunter2 " + "." * 400}]}
    kept.say(first)
    second = {"messages": [*first["messages"], {"role": "tool", "password": "hunter2-hunter2"}]}
    value, _ = kept.whole(kept.say(second))
    assert "hunter2" not in str(value)
    third = {"messages": [*second["messages"], *turn(1)]}
    value, _ = kept.whole(kept.say(third))
    assert "hunter2" not in str(value)


def test_redacted_message_by_message_is_redacted_as_a_whole() -> None:
    kept = Kept()
    messages: list[Any] = turn(0)
    for number in range(10):
        messages += [{"role": "user", "content": f"I am user{number}@example.com"}]
        value, _ = kept.whole(kept.say({"messages": messages}))
        assert value == PLAIN.redact({"messages": messages}).value


def test_a_prompt_whose_base_is_gone_is_missing_and_nothing_else() -> None:
    kept = Kept()
    first, second, third = [kept.say(request) for request in conversation(3)]
    del kept.blobs[second.payload.blob or ""]
    resolver = Resolver(kept.blobs.get)
    assert resolver.value(first.payload.blob or "") is not None
    assert resolver.value(second.payload.blob or "") is None
    assert resolver.value(third.payload.blob or "") is None


def test_a_write_that_failed_is_no_base() -> None:
    kept = Kept()
    first, second, third = conversation(3)
    kept.say(first)
    lost = kept.conversations.keep(second, PLAIN, kept.secrets)
    assert lost is not None
    same(kept, kept.say(third), third)


def test_what_a_prompt_rests_on_can_be_named_and_loaded() -> None:
    kept = Kept()
    prompts = [kept.say(request) for request in conversation(12)]
    last = prompts[-1].payload.blob or ""
    assert references(kept.blobs[last]) == (prompts[-2].payload.blob,)
    needed = load_with_bases(
        [last], lambda names: {n: kept.blobs[n] for n in names if n in kept.blobs}
    )
    assert Resolver(needed.get).value(last) is not None
    assert needed.keys() == kept.blobs.keys()


def test_threads_that_talk_in_one_run_keep_their_own_conversations() -> None:
    kept = Kept()

    def talk(number: int) -> list[tuple[KeptPrompt, Any]]:
        prompts = conversation(30)
        for prompt in prompts:
            prompt["messages"][0] = {"role": "system", "content": f"You are {number % 3}."}
        return [(kept.say(prompt), prompt) for prompt in prompts]

    with ThreadPoolExecutor(6) as pool:
        talks = list(pool.map(talk, range(6)))
    for said, request in (pair for pairs in talks for pair in pairs):
        same(kept, said, request)


def test_a_damaged_link_is_no_value() -> None:
    for data in (b"[]", b"{}", b'{"append": 1, "rest": {}}', b"{", b'{"append": [], "else": 1}'):
        blob = Blob(digest="sha256:1", media_type=MEDIA_TYPE, data=data)
        assert Resolver({"sha256:1": blob}.get).value("sha256:1") is None
        assert references(blob) == ()


def test_a_link_that_names_itself_is_no_value() -> None:
    blob = Blob(
        digest="sha256:1", media_type=MEDIA_TYPE, data=b'{"base":"sha256:1","keep":0,"append":[]}'
    )
    assert Resolver({"sha256:1": blob}.get).value("sha256:1") is None


@pytest.mark.parametrize("place", ["2", "-1", "x", "9" * 5000])
def test_a_link_that_swaps_what_it_does_not_keep_is_damaged(place: str) -> None:
    damaged = make_blob(
        {"base": "sha256:0", "keep": 2, "swap": {place: "new"}, "append": []}, media_type=MEDIA_TYPE
    )
    assert read_link(damaged) is None

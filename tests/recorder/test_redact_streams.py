"""A secret that comes in pieces is as little recorded as one that comes whole."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.recorder.record_kit import everything, recording
from tracekit import agent, llm, tool
from tracekit.redact import KeyedTagger, Redactor, Rules, placeholder_kind
from tracekit.redact.streams import Edit, share

KEY = b"a key for tests, not for secrets"
TOKEN = "ghp_" + "aB3dE5gH7" * 4
SECRETS = [
    TOKEN,
    "bob.olive@mail.example.org",
    "AKIAIOSFODNN7EXAMPLE",
    "4111 1111 1111 1111",
    "-----BEGIN PRIVATE KEY-----\nMIIEowIBAAKCAQEA7\n-----END PRIVATE KEY-----",
    base64.b64encode(f"it is {TOKEN}".encode()).decode(),
]


def redacted(items: list[Any], **rules: Any) -> Any:
    return Redactor(Rules(**rules), KeyedTagger(KEY)).redact_stream(items).value


def cut(text: str, *places: int) -> list[str]:
    ends = [0, *sorted(places), len(text)]
    return [text[start:end] for start, end in pairwise(ends)]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_a_secret_in_small_pieces_has_the_placeholder_of_the_whole(secret: str, size: int) -> None:
    said = f"well, use {secret} for that, and then come back"
    pieces = [said[start : start + size] for start in range(0, len(said), size)]
    items = redacted(pieces)
    assert len(items) == len(pieces)
    assert "".join(items) == redacted([said])[0]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_cut_once_anywhere_in_running_text_is_nowhere(secret: str) -> None:
    said = f"use {secret} now"
    for place in range(1, len(said)):
        items = redacted(["well,", " then ", *cut(said, place)])
        assert len(items) == 4
        assert "".join(items) == redacted([f"well, then {said}"])[0]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_cut_in_two_rows_is_nowhere(secret: str) -> None:
    said = f"use {secret} now"
    for place in range(1, len(said)):
        items = redacted(cut(said, place))
        assert len(items) == 2
        assert secret not in "".join(items)


ROWS: list[list[Any]] = [
    ["contact: joe@corp.com", "contact: amy@corp.com", "contact: joe@corp.com"],
    [{"note": "mail ann@corp.com"}, {"note": "VIP"}, {"note": "user=ann"}],
    [{"note": f"uses {TOKEN}"}, {"note": "Nothing"}, {"note": "more"}],
    ["https://x/v1?access_token=abc123def456", "https://x/v1/users"],
    ["2024 password=hunter2hunter2", "user=ann opened", "2 done"],
    ["sk-proj-" + "aB3d" * 6, "Nothing", "bob", "by@corp.com"],
    [b64 := base64.b64encode(f"it is {TOKEN}".encode()).decode(), "more", b64, b64],
    ["Authorization: Bearer abcdef123456", "Accept: x", "+49 30 901820", "17 items"],
]


@pytest.mark.parametrize("rows", ROWS)
def test_rows_are_redacted_as_if_each_came_alone(rows: list[Any]) -> None:
    once = redacted(rows)
    assert once == [redacted([row])[0] for row in rows]
    assert redacted(once) == once
    assert Redactor(Rules(), KeyedTagger(KEY)).scan_stream(once) == []


def test_a_short_token_that_the_next_item_completes_is_one() -> None:
    (placeholder,) = redacted([TOKEN])
    assert redacted(["use " + TOKEN[:36], TOKEN[36:] + " now"]) == ["use " + placeholder, " now"]


def test_pieces_that_a_client_of_a_model_calls_so_are_running_text() -> None:
    def delta(text: str) -> dict[str, Any]:
        return {"delta": {"text": text}}

    items = redacted([delta("mail ann@corp.co"), delta("mpany.example"), delta(".org")])
    assert (
        "".join(item["delta"]["text"] for item in items)
        == redacted(["mail ann@corp.company.example.org"])[0]
    )


@pytest.mark.parametrize("lane", ["index", "output_index", "item_id"])
def test_texts_that_are_sent_side_by_side_are_told_apart(lane: str) -> None:
    said = [(0, TOKEN[:20]), (1, "bob@exam"), (0, TOKEN[20:]), (1, "ple.org")]
    items = redacted([{lane: at, "delta": text} for at, text in said])
    for at in (0, 1):
        whole = "".join(text for here, text in said if here == at)
        assert "".join(one["delta"] for one in items if one[lane] == at) == redacted([whole])[0]


def test_the_placeholder_stands_where_the_secret_began() -> None:
    items = redacted(["hello, use ", TOKEN[:10], TOKEN[10:30], TOKEN[30:] + " now"])
    (placeholder,) = redacted([TOKEN])
    assert items == ["hello, use ", placeholder, "", " now"]


def test_a_name_in_one_piece_gives_the_value_in_the_next_away() -> None:
    items = redacted(["the pass", "word: ", "hunt", "er2, I think"])
    assert "hunt" not in "".join(items)
    assert "er2" not in "".join(items)
    assert items[0] + items[1] == "the password: "
    assert items[3] == ", I think"


def test_pieces_at_the_same_place_of_objects_are_one_text() -> None:
    def chunk(index: int, text: str) -> dict[str, Any]:
        call = {"index": index, "function": {"arguments": text}}
        return {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}

    said = [(0, '{"password": "hun'), (1, '{"to": "bob@exam'), (0, 'ter2"}'), (1, 'ple.org"}')]
    items = redacted([chunk(*one) for one in said])
    for index, secret in ((0, "hunter2"), (1, "bob@example.org")):
        joined = "".join(
            call["function"]["arguments"]
            for item in items
            for call in item["choices"][0]["delta"]["tool_calls"]
            if call["index"] == index
        )
        assert secret not in joined
        assert joined == redacted(["".join(text for at, text in said if at == index)])[0]


def test_bytes_are_one_text_and_stay_bytes() -> None:
    pieces = [{"$bytes": base64.b64encode(part.encode()).decode()} for part in cut(TOKEN, 7, 20)]
    items = redacted(pieces)
    data = b"".join(base64.b64decode(item["$bytes"], validate=True) for item in items)
    assert data.decode() == redacted([TOKEN])[0]


def test_rows_that_follow_each_other_are_not_glued() -> None:
    rows = ["bob@example.org", "ann@example.org", "+49 30 901820", "4111111111111111", "plain"]
    assert redacted(rows) == [redacted([row])[0] for row in rows]
    people = [{"id": f"u{n}", "mail": f"u{n}@example.org", "age": n} for n in range(4)]
    assert redacted(people) == [redacted([row])[0] for row in people]
    ids = [f"aB{n}xK7pQz" for n in range(9)]
    assert redacted(ids) == ids


def test_a_stream_without_a_secret_stays_the_same_object() -> None:
    items: list[Any] = ["hello ", {"a": ["b"]}, 1, None, "world"]
    redactor = Redactor(Rules(), KeyedTagger(KEY))
    assert redactor.redact_stream(items).value is items


def test_a_rule_that_fails_on_the_whole_lets_nothing_through() -> None:
    def picky(text: str) -> None:
        if len(text) > 10:
            raise ValueError(text)

    redactor = Redactor(Rules(functions=(picky,)), KeyedTagger(KEY))
    found = redactor.redact_stream(["sec", "ret sec", "ret secret"])
    assert found.failure is not None
    assert "secret" not in json.dumps(found.value)


@pytest.mark.parametrize("place", [-10, -9])
def test_a_stream_that_was_cut_inside_an_escape_is_settled_too(place: int) -> None:
    said = "well, " + "".join(f"%{byte:02X}" for byte in b"DB_PASSWORD=hunter2x ") + " it is"
    once = redacted([said[:place], said[place:]])
    assert redacted(once) == once
    assert Redactor(Rules(), KeyedTagger(KEY)).scan_stream(once) == []


PIECES = st.lists(
    st.one_of(
        st.text(max_size=4),
        st.sampled_from([part for secret in SECRETS for part in cut(secret, 5, 9)]),
        st.sampled_from(["password=", "token: ", " ", "\n", '"']),
    ),
    max_size=10,
)


@given(pieces=PIECES)
def test_redacting_a_stream_twice_is_redacting_it_once(pieces: list[str]) -> None:
    once = redacted(pieces)
    assert len(once) == len(pieces)
    assert redacted(once) == once


@given(
    st.lists(st.text("ab", max_size=4), max_size=6),
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=4),
)
def test_shares_add_up_to_the_edited_whole(
    pieces: list[str], places: list[tuple[int, int]]
) -> None:
    joined = "".join(pieces)
    edits: list[Edit] = []
    for start, size in sorted(places):
        end = start + size
        if size and end <= len(joined) and (not edits or edits[-1].end <= start):
            edits.append(Edit(start, end, "X"))
    whole, position = "", 0
    for edit in edits:
        whole += joined[position : edit.start] + edit.text
        position = edit.end
    shared = share(pieces, edits)
    assert len(shared) == len(pieces)
    assert "".join(shared) == whole + joined[position:]


def test_what_a_generator_yields_is_recorded_so() -> None:
    @tool
    def stream() -> Any:
        yield from cut(f"use {TOKEN} now", 8, 20, 30)

    @agent
    def work() -> str:
        return "".join(stream())

    with recording() as recorded:
        assert TOKEN in work()
    items = recorded.observation(recorded.row())
    assert len(items) == 4
    assert not any(part in everything(recorded) for part in cut(TOKEN, 8, 20, 30))


@pytest.mark.parametrize("before", ["", "data: "])
def test_lines_of_json_are_read_as_what_they_say(before: str) -> None:
    said = [f'{before}{{ "n": 1.0, "delta": {json.dumps(part)} }}' for part in cut(TOKEN, 9, 20)]
    items = redacted([*said, f"{before}[DONE]"])
    assert len(items) == 4
    assert items[3] == f"{before}[DONE]"
    parts = [json.loads(item.removeprefix(before))["delta"] for item in items[:3]]
    assert "".join(parts) == redacted([TOKEN])[0]
    assert all(item.startswith(f'{before}{{ "n": 1.0, "delta": ') for item in items[:3])
    assert redacted(items) == items
    harmless: list[Any] = [f'{before}{{ "n": {n}.50 }}' for n in range(3)]
    assert Redactor(Rules(), KeyedTagger(KEY)).redact_stream(harmless).value is harmless


def test_what_a_generator_returns_is_no_piece_of_what_it_yielded() -> None:
    @tool
    def stream() -> Any:
        yield "mail ann@corp.com"
        return "VIP ann@corp.com"

    @agent
    def work() -> None:
        list(stream())

    with recording() as recorded:
        work()
    said, returned = recorded.observation(recorded.row())
    assert returned == said.replace("mail", "VIP")
    assert placeholder_kind(said.removeprefix("mail ")) == "email"


async def test_what_an_async_generator_yields_is_recorded_so() -> None:
    @llm(model="m")
    async def stream() -> Any:
        for part in cut(f"use {TOKEN} now", 8, 20, 30):
            yield {"delta": {"content": part}}

    @agent
    async def work() -> str:
        return "".join([item["delta"]["content"] async for item in stream()])

    with recording() as recorded:
        assert TOKEN in await work()
    assert not any(part in everything(recorded) for part in cut(TOKEN, 8, 20, 30))


@pytest.mark.parametrize(
    ("begin", "rest"),
    [
        (  # a check sum stands behind it
            "ATATT3xFfGF0Prlep2mdjdEvkcvTDRFirkhFGTuY",
            "xyJj9ZKUHa4ec8lW1G4eNoe3TTwFFx7Q=0A1B2C3D",
        ),
        (  # the beginning alone only looks random
            "xapp-1-A0B1C2D3E4F-1234567890123",
            "-ffe025200ecdd5b23fa1896a932fa125",
        ),
    ],
)
def test_the_rest_of_a_token_goes_with_its_beginning(begin: str, rest: str) -> None:
    told = Redactor(Rules(), KeyedTagger(b"k" * 32)).redact_stream([begin, rest]).value
    assert isinstance(told, list)
    assert [len(told), told[1]] == [2, ""]

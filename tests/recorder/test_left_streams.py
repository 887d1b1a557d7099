"""A stream whose reader went away is replayed as far as it was read, in as many pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fixtures.model_server import ModelServer
from tests.recorder.openai_kit import PLAIN, SAID, Recorded, async_client, client, recording
from tests.recorder.test_openai_replay import answered
from tracekit import guard
from tracekit.canonical import parse_json
from tracekit.errors import NotRecorded

READ = 7


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


def _chat(asking: Any, stream: bool = True) -> Any:
    return asking.chat.completions.create(model="m", messages=PLAIN, stream=stream)


def _responses(asking: Any, stream: bool = True) -> Any:
    return asking.responses.create(model="m", input=PLAIN, stream=stream)


def _texts(events: list[Any]) -> str:
    """What was said in chunks of chat completions, or events of the Responses API."""
    said = [
        e.choices[0].delta.content if hasattr(e, "choices") else e.__dict__.get("delta")
        for e in events
    ]
    return "".join(filter(None, said))


def _read(stream: Any, seen: list[Any]) -> None:
    for event in stream:
        seen.append(event)  # what came before the error counts


async def _read_async(stream: Any, seen: list[Any]) -> None:
    async for event in stream:
        seen.append(event)  # what came before the error counts


def _part(recorded: Recorded) -> guard.Served:
    row = recorded.row()
    marks: Any = parse_json(row.attributes)
    assert (marks["stream"], marks["partial"]) == (True, True)
    return guard.Served(
        guard.Part(recorded.value(row.observation_blob), marks.get("pieces", 0)), {}
    )


def _whole(recorded: Recorded) -> guard.Served:
    return guard.Served(guard.Part(recorded.value(recorded.row().observation_blob), 0), {})


@pytest.mark.parametrize("ask", [_chat, _responses])
def test_a_reader_that_goes_away_at_the_same_place_reads_the_same(
    server: ModelServer, ask: Any
) -> None:
    with client(server) as asking:
        with recording() as recorded, ask(asking) as stream:
            before = [next(stream) for _ in range(READ)]
        with answered(_part(recorded)) as (again, _), ask(asking) as stream:
            after = [next(stream) for _ in range(READ)]
    assert _texts(before) == _texts(after) != ""
    assert [type(event) for event in before] == [type(event) for event in after]
    assert _part(again) == _part(recorded)


@pytest.mark.parametrize("ask", [_chat, _responses])
def test_a_reader_that_goes_on_is_told_that_the_rest_is_not_known(
    server: ModelServer, ask: Any
) -> None:
    with client(server) as asking:
        with recording() as recorded, ask(asking) as stream:
            before = [next(stream) for _ in range(READ)]
        seen: list[Any] = []
        with answered(_part(recorded)), pytest.raises(NotRecorded, match="stopped here"):
            _read(ask(asking), seen)
        assert _texts(seen) == _texts(before)
        with answered(_part(recorded)), pytest.raises(NotRecorded):
            ask(asking, stream=False)


@pytest.mark.parametrize("ask", [_chat, _responses])
async def test_an_async_reader_that_goes_on_is_told_so_too(server: ModelServer, ask: Any) -> None:
    async with async_client(server) as asking:
        with recording() as recorded:
            stream = await ask(asking)
            before = [await anext(stream) for _ in range(READ)]
            await stream.close()
        seen: list[Any] = []
        with answered(_part(recorded)), pytest.raises(NotRecorded):
            await _read_async(await ask(asking), seen)
    assert _texts(seen) == _texts(before)


def test_a_stream_that_had_said_all_is_whole_also_where_its_end_was_not_read(
    server: ModelServer,
) -> None:
    with client(server) as asking:
        with recording() as recorded, _chat(asking) as stream:
            for chunk in stream:
                if chunk.choices[0].finish_reason:
                    break
        with answered(_part(recorded)), _chat(asking) as stream:
            assert _texts(list(stream)) == SAID
        with recording() as recorded, _responses(asking) as stream:
            for event in stream:
                if event.type == "response.completed":
                    break
        with answered(_part(recorded)), _responses(asking) as stream:
            assert _texts(list(stream)) == SAID


def test_a_raw_response_of_which_only_the_status_was_read_has_no_more(server: ModelServer) -> None:
    with client(server) as asking:
        raw = asking.chat.completions.with_streaming_response
        with recording() as recorded, raw.create(model="m", messages=PLAIN) as given:
            assert given.status_code == 200
        with answered(_whole(recorded)), raw.create(model="m", messages=PLAIN) as given:
            assert given.status_code == 200
            with pytest.raises(NotRecorded):
                given.read()

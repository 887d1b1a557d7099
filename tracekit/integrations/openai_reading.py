"""Records the replies of the ``openai`` client that their caller reads piece by piece.

A stream stays the object that it is; what passes through it is put together, and recorded when it
ends, breaks off, or its reader goes away.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import openai

from tracekit.canonical import JsonValue
from tracekit.integrations import chat
from tracekit.integrations.openai_wire import Accumulator, parsed_body
from tracekit.interruption import warn
from tracekit.steps import Step


@contextmanager
def harmless(step: Step) -> Iterator[None]:
    """Count a fault of ours as a loss instead of raising it into agent code."""
    try:
        yield
    except Exception as error:  # the traced program is never the victim
        if step.recorder.strict:
            raise
        warn("tracekit could not record a reply: %s", type(error).__name__)
        step.recorder.lost += 1


class Asked(Protocol):
    """A request to a model under way."""

    @property
    def step(self) -> Step:
        """Its step."""

    def end(self, response: JsonValue, **marks: JsonValue) -> None:
        """Record what came back."""


_OVER = object()


@dataclass
class Reading:
    """A stream that the caller reads, chunk by chunk."""

    asked: Asked
    seen: Accumulator
    busy: bool = False
    """Whether the client is fetching; then a response that closes is one that has ended."""
    events: bool = True
    """Whether it comes in events."""
    count: int = 0
    """How many came."""

    @property
    def step(self) -> Step:
        """The step that it belongs to."""
        return self.asked.step

    def watch(self, stream: Any) -> None:
        """Record what ``stream`` yields, where it stands."""
        read = self.read if isinstance(stream, openai.Stream) else self.read_async
        stream._iterator = read(stream._iterator, self._take)
        self.watch_closing(stream.response)

    def watch_closing(self, response: Any) -> None:
        """Record a partial read when ``response`` is closed before its end."""
        close, aclose = response.close, response.aclose

        def closed() -> None:
            close()
            self.finish_unless_busy()

        async def aclosed() -> None:
            await aclose()
            self.finish_unless_busy()

        response.close, response.aclose = closed, aclosed

    def finish_unless_busy(self) -> None:
        """The reader went away."""
        if not self.busy:
            self.finish(complete=False)

    def finish(self, *, complete: bool) -> None:
        """The stream is over."""
        if not self.step.operation.over:
            with harmless(self.step):
                counts = not complete and self.events and self.count
                pieces: dict[str, JsonValue] = {"pieces": self.count} if counts else {}
                self.asked.end(self.so_far(), **self._marks(complete=complete), **pieces)

    def so_far(self) -> JsonValue:
        """What was read."""
        return self.seen.response()

    def _marks(self, *, complete: bool) -> dict[str, JsonValue]:
        marks = {"stream": self.events, "partial": not complete}
        return {name: True for name, is_so in marks.items() if is_so}

    def read(self, source: Iterator[Any], take: Callable[[Any], None]) -> Iterator[Any]:
        """Hand on what ``source`` gives, and take it in."""
        with self._whole():
            while True:
                with self._fetching():
                    item = next(source, _OVER)
                if item is _OVER:
                    break
                take(item)
                yield item

    async def read_async(
        self, source: AsyncIterator[Any], take: Callable[[Any], None]
    ) -> AsyncIterator[Any]:
        """Do the same on an event loop."""
        with self._whole():
            while True:
                with self._fetching():
                    item = await anext(source, _OVER)
                if item is _OVER:
                    break
                take(item)
                yield item

    @contextmanager
    def _fetching(self) -> Iterator[None]:
        self.busy = True
        with self.step.active():
            yield
        self.busy = False

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Record how the reading ends: at the end, before it, or with an error."""
        try:
            yield
        except GeneratorExit:
            self.finish(complete=False)
            raise
        except BaseException as error:
            self.fail(error)
            raise
        self.finish(complete=True)

    def fail(self, error: BaseException) -> None:
        """The stream broke off, or its reader was cancelled."""
        if not self.step.operation.over:
            self.step.fields["attributes"] = self._marks(complete=False)
            self.step.fail(error)

    def _take(self, item: Any) -> None:
        with harmless(self.step):
            self.add(item.to_dict(mode="json", warnings=False))

    def add(self, chunk: Mapping[str, Any]) -> None:
        """Take in a chunk."""
        self.count += 1
        self.seen.add(chunk)


@dataclass
class RawReading(Reading):
    """A raw response, whose bytes the caller reads in a way of their own."""

    lines: chat.EventLines = field(default_factory=chat.EventLines)
    body: bytearray = field(default_factory=bytearray)

    def watch(self, response: Any) -> None:
        """Record what is read of ``response``."""
        self.events = "event-stream" in response.headers.get("content-type", "")
        if response.is_stream_consumed:
            self._feed(response.content)
            self.finish(complete=True)
            return
        read, read_async = response.iter_bytes, response.aiter_bytes
        response.iter_bytes = lambda *args, **kw: self.read(read(*args, **kw), self._feed)
        response.aiter_bytes = lambda *args, **kw: self.read_async(
            read_async(*args, **kw), self._feed
        )
        self.watch_closing(response)

    def finish(self, *, complete: bool) -> None:
        """The response is read, or will not be."""
        super().finish(complete=complete or self.lines.done)

    def so_far(self) -> JsonValue:
        """What was read."""
        return super().so_far() if self.events else parsed_body(bytes(self.body))

    def _feed(self, data: bytes) -> None:
        if not self.events:
            self.body += data
            return
        with harmless(self.step):
            for chunk in self.lines.feed(data):
                self.add(chunk)

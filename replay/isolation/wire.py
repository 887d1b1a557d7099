"""The parent's hold on the three pipes: frames in, frames out, and never waiting for ever."""

from __future__ import annotations

import os
import select
import time
from collections import deque

from replay.isolation.protocol import FrameReader, Message, encode
from replay.isolation.transport import Transport

_CHUNK = 1 << 16
# Beyond these bytes of text that are no frames, what a dying child says is cut off.
_LAST_WORDS = 2000
# The longest wait that poll can be told.
_LONGEST_MS = (1 << 31) - 1


class ChildGone(Exception):
    """The child closed its pipes, or did not react in time."""


class Wire:
    """Reads and writes the pipes of one child."""

    def __init__(self, transport: Transport, *, limit: int) -> None:
        self._limit = limit
        self._requests = transport.requests.fileno()
        self._messages = transport.messages.fileno()
        self._control = transport.control.fileno()
        self._readers = {
            self._messages: FrameReader(limit),
            self._control: FrameReader(limit),
        }
        self._told: deque[Message] = deque()
        self._open = {self._messages, self._control}
        self._poll = select.poll()
        for descriptor in self._open:
            self._poll.register(descriptor, select.POLLIN)

    def send(self, message: Message, deadline: float) -> None:
        """Send one message.

        Raises:
            ChildGone: it cannot be sent before ``deadline``.
        """
        self.send_bytes(encode(message, limit=self._limit), deadline)

    def send_bytes(self, data: bytes, deadline: float) -> None:
        """Send ``data`` as it is."""
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._requests, view) :]
            except BlockingIOError:
                if not ready(self._requests, select.POLLOUT, deadline):
                    raise ChildGone("it did not read what was sent") from None
            except OSError as error:
                raise ChildGone("its pipe is closed") from error

    def next(self, deadline: float) -> Message | None:
        """Return the next message of the run, None when the keeper said something before.

        Raises:
            ChildGone: nothing came before ``deadline``, or the pipes are closed.
            ProtocolError: what came is no frame.
        """
        while not self._told:
            heard = [fd for fd, _ in self._poll.poll(_left_ms(deadline))]
            if not heard:
                raise ChildGone("it said nothing in time")
            if self._messages in heard:
                self._read(self._messages)
            elif self._control in heard:
                return None
        return self._told.popleft()

    def rest(self) -> list[Message]:
        """Return what the run had still sent; its process is gone. A cut-off frame is dropped."""
        while self._messages in self._open and ready(self._messages, select.POLLIN):
            self._read(self._messages)
        self._readers[self._messages].reset()
        rest = list(self._told)
        self._told.clear()
        return rest

    def control(self, deadline: float) -> Message:
        """Return the keeper's next message.

        Raises:
            ChildGone: nothing came before ``deadline``, or the pipes are closed; with what the
                child last said, where that is text.
            ProtocolError: what came is no frame.
        """
        reader = self._readers[self._control]
        while True:
            for message in reader.feed(b""):
                return message
            if not ready(self._control, select.POLLIN, deadline):
                raise ChildGone("it said nothing in time")
            part = os.read(self._control, _CHUNK)
            if not part:
                raise ChildGone("it ended")
            for message in reader.feed(part):
                return message

    def last_words(self) -> str:
        """Return the text that a child without walls yet wrote to its error output."""
        held = self._readers[self._control].held()
        return held[-_LAST_WORDS:].decode("utf-8", "replace").strip()

    def _read(self, descriptor: int) -> None:
        part = os.read(descriptor, _CHUNK)
        if not part:
            self._open.discard(descriptor)
            self._poll.unregister(descriptor)
        self._told.extend(self._readers[descriptor].feed(part))


def ready(descriptor: int, event: int, deadline: float | None = None) -> bool:
    """Whether a pipe can be read from, or written to, before ``deadline``; at once without one.

    Unlike ``select`` it takes any number of a descriptor, for the many children of many jobs.
    """
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(0 if deadline is None else _left_ms(deadline)))


def _left_ms(deadline: float) -> float:
    return min(max(0.0, deadline - time.monotonic()) * 1000, _LONGEST_MS)

"""The pipe between the planner's process and its parent: frames, and the planner's end of it.

A frame is four bytes of length and a JSON object. ``{"q": n, "m": message}`` asks and is answered
by ``{"q": n, "m": answer}``, or by ``{"stop": true}``; ``{"m": message}`` tells. Nothing but JSON
crosses, so that neither side can hand the other an object with behaviour, as pickles would. The
frames are traffic, not evidence: what is kept of them gets its canonical form from the parent.
"""

from __future__ import annotations

import os
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import orjson

from tracekit.canonical.text import LONG_TEXT, holds_long_text

Message = dict[str, Any]

_HEADER = struct.Struct(">I")
_CHUNK = 1 << 16
_TREES = frozenset(("done", "decision", "proposed"))
"""Messages of a run whose texts may stand at any depth."""
MAX_NOTES = 1000
"""Notes kept of one run; those beyond are counted."""


class ProtocolError(Exception):
    """What came over the pipe is no frame, or too large; the detail is a sentence."""


class TooLarge(ProtocolError):
    """A message of ours is larger than may be sent."""


class RunOver(BaseException):
    """The parent wants no more of this run, or is gone.

    No `Exception`: a planner that copes with anything must not go on by accident.
    """


class Channel(Protocol):
    """What a running planner's side may say to its parent."""

    def ask(self, message: Message) -> Message:
        """Send ``message`` and wait for the answer."""

    def tell(self, message: Message) -> None:
        """Send ``message``; there is no answer."""


def encode(message: Message, *, limit: int) -> bytes:
    """Return the frame of ``message``.

    Raises:
        TooLarge: it has more than ``limit`` bytes.
        ProtocolError: it is not JSON.
    """
    _refuse_long_texts(message, limit)
    try:
        body = orjson.dumps(message)
    except (TypeError, ValueError) as error:  # orjson's own error derives from both
        raise ProtocolError(f"something that is not JSON: {error}") from error
    if len(body) > limit:
        raise TooLarge(f"a message of {len(body):,} bytes; the limit is {limit:,}")
    return _HEADER.pack(len(body)) + body


def _refuse_long_texts(message: Message, limit: int) -> None:
    """Refuse, unwritten, what has a text beyond the limit that would better not be written."""
    most = max(limit, LONG_TEXT)
    within: Any = message.get("m", message)
    if _TREES.isdisjoint(within):
        long = _has_long_text(within, most)
        for one in within.values():
            long = long or (type(one) is dict and _has_long_text(one, most))
    else:
        long = holds_long_text(within, most)
    if long:
        raise TooLarge(f"a message of more than {most:,} bytes; the limit is {limit:,}")


def _has_long_text(texts: Message, most: int) -> bool:
    for text in texts.values():  # noqa: SIM110  # of every message: a generator would cost more
        if type(text) is str and len(text) > most:
            return True
    return False


class FrameReader:
    """Cuts a stream of bytes into messages, and never holds more than one frame's limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """Take ``data`` and yield each message that it completes.

        Raises:
            ProtocolError: the stream is not one of frames within the limit.
        """
        if not self._buffer and (whole := self._whole(data)) is not None:
            yield whole
            return
        self._buffer += data
        while (size := self.pending_size()) is not None:
            if len(self._buffer) < _HEADER.size + size:
                return
            body = bytes(self._buffer[_HEADER.size : _HEADER.size + size])
            del self._buffer[: _HEADER.size + size]
            yield _decode(body)

    def _whole(self, data: bytes) -> Message | None:
        """Return the message of ``data`` if that is one frame: most are read as they were sent."""
        if len(data) < _HEADER.size or _HEADER.unpack_from(data)[0] != len(data) - _HEADER.size:
            return None
        if len(data) > self._limit + _HEADER.size:
            return None
        return _decode(data[_HEADER.size :])

    def pending_size(self) -> int | None:
        """Return the size of the frame under way, None before its header is complete."""
        if len(self._buffer) < _HEADER.size:
            return None
        size: int = _HEADER.unpack_from(self._buffer)[0]
        if size > self._limit:
            raise ProtocolError(f"a message of {size:,} bytes; the limit is {self._limit:,}")
        return size

    def held(self) -> bytes:
        """Return the bytes of the frame under way."""
        return bytes(self._buffer)

    def reset(self) -> None:
        """Forget a frame that was cut off."""
        self._buffer.clear()


def _decode(body: bytes) -> Message:
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ProtocolError(f"a message that is not JSON: {error}") from error
    if not isinstance(message, dict):
        raise ProtocolError("a message that is not a JSON object")
    return message


def write_all(fd: int, data: bytes) -> None:
    """Write all of ``data`` to a blocking descriptor."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read_message(fd: int, *, limit: int) -> Message | None:
    """Read one message from a blocking descriptor; None at its end."""
    header = _read_exactly(fd, _HEADER.size)
    if header is None:
        return None
    body = _read_exactly(fd, _size(header, limit))
    return None if body is None else _decode(body)


def read_only_message(fd: int, *, limit: int) -> Message | None:
    """Read the one message that is under way on a blocking descriptor; None at its end.

    Raises:
        ProtocolError: it is none, or there is more.
    """
    data = os.read(fd, _CHUNK)
    if len(data) < _HEADER.size:
        rest = _read_exactly(fd, _HEADER.size - len(data)) if data else None
        if rest is None:
            return None
        data += rest
    size = _size(data, limit)
    missing = size + _HEADER.size - len(data)
    if missing < 0:
        raise ProtocolError("more than the one message that was to come")
    if missing:
        rest = _read_exactly(fd, missing)
        if rest is None:
            return None
        data += rest
    return _decode(data[_HEADER.size :])


def _size(header: bytes, limit: int) -> int:
    size: int = _HEADER.unpack_from(header)[0]
    if size > limit:
        raise ProtocolError(f"a message of {size:,} bytes; the limit is {limit:,}")
    return size


def _read_exactly(fd: int, size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        part = os.read(fd, min(size - len(parts), _CHUNK * 16))
        if not part:
            return None
        parts += part
    return bytes(parts)


class Notes:
    """Messages that must not wait: kept in order, bounded, taken out when the pipe is free.

    The hook notes from wherever an attempt was made: in a finaliser, in a signal handler, while
    another thread holds the pipe. Waiting for the pipe there could wait for ever.
    """

    def __init__(self) -> None:
        self._kept: deque[Message] = deque()
        self._taken = 0
        self._beyond = 0

    def add(self, message: Message) -> None:
        """Keep ``message``, or count it when there are too many."""
        if self._taken + len(self._kept) < MAX_NOTES:
            self._kept.append(message)
        else:
            self._beyond += 1

    def take(self) -> Iterator[Message]:
        """Yield and drop what is kept."""
        while self._kept:
            self._taken += 1
            yield self._kept.popleft()

    def beyond(self) -> Iterator[Message]:
        """Yield one message that counts those not kept, if there are any."""
        if self._beyond:
            yield {"finding": {"kind": "uncounted", "what": f"{self._beyond:,} more attempts"}}


class PipeChannel:
    """The planner's end of the pipe. Thread-safe; one question is under way at a time."""

    def __init__(self, read_fd: int, write_fd: int, *, limit: int) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._limit = limit
        self._lock = threading.Lock()
        self._holder: int | None = None
        self._asked = 0
        self._notes = Notes()
        self.too_large: TooLarge | None = None
        """A message that could not be sent. Code that copes with that has gone another way."""

    def ask(self, message: Message) -> Message:
        """Send ``message`` and wait for the answer."""
        answer: Message = self._holding(self._ask, message)
        return answer

    def tell(self, message: Message) -> None:
        """Send ``message``; there is no answer."""
        self._holding(self._send, {"m": message})

    def note(self, message: Message) -> None:
        """Send ``message`` now if the pipe is free, else before what is sent next."""
        self._notes.add(message)
        if self._lock.acquire(blocking=False):
            try:
                self._flush()
            finally:
                self._lock.release()

    def finish(self, frame: Message) -> None:
        """Send what was noted, then the last frame."""
        self._holding(self._finish, frame)

    def _holding(self, action: Callable[[Message], Any], message: Message) -> Any:
        me = threading.get_ident()
        if self._holder == me:  # a finaliser or signal handler ran inside a question
            raise RuntimeError("a call was made while the same thread waited for an answer")
        with self._lock:
            self._holder = me
            try:
                self._flush()
                return action(message)
            finally:
                self._holder = None

    def _finish(self, frame: Message) -> None:
        for message in self._notes.beyond():
            self._send({"m": message})
        self._send(frame)

    def _ask(self, message: Message) -> Message:
        self._asked += 1
        self._send({"q": self._asked, "m": message})
        reply = read_only_message(self._read_fd, limit=self._limit)
        if reply is None or reply.get("stop") is True:
            raise RunOver
        if reply.get("q") != self._asked or not isinstance(reply.get("m"), dict):
            raise ProtocolError(f"an answer to another question: {reply.get('q')!r}")
        answer: Message = reply["m"]
        return answer

    def _flush(self) -> None:
        for message in self._notes.take():
            self._send({"m": message})

    def _send(self, frame: Message) -> None:
        try:
            data = encode(frame, limit=self._limit)
        except TooLarge as error:
            self.too_large = error
            raise
        try:
            write_all(self._write_fd, data)
        except BrokenPipeError as error:
            raise RunOver from error

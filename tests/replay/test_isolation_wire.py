"""The parent's hold on the pipes of one child, whatever numbers they have."""

from __future__ import annotations

import fcntl
import os
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from replay.isolation.protocol import encode
from replay.isolation.wire import ChildGone, Wire

LIMIT = 1 << 16
BEYOND_SELECT = 1100
"""A descriptor that ``select`` cannot take; of many children some are."""


@dataclass(frozen=True)
class _Child:
    wire: Wire
    requests: int
    messages: int
    control: int


@pytest.fixture
def child() -> Iterator[_Child]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * BEYOND_SELECT:
        pytest.skip("not so many files may be open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * BEYOND_SELECT), hard))
    pipes = [os.pipe() for _ in range(3)]
    (theirs, requests), (messages, said), (control, kept) = pipes
    mine = [fcntl.fcntl(end, fcntl.F_DUPFD, BEYOND_SELECT) for end in (requests, messages, control)]
    os.set_blocking(mine[0], False)
    files = [SimpleNamespace(fileno=lambda end=end: end) for end in mine]
    transport = SimpleNamespace(requests=files[0], messages=files[1], control=files[2])
    yield _Child(Wire(cast(Any, transport), limit=LIMIT), theirs, said, kept)
    for end in (*mine, *(end for pipe in pipes for end in pipe)):
        os.close(end)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_pipe_of_a_high_number_is_read_and_written(child: _Child) -> None:
    soon = time.monotonic() + 5
    os.write(child.control, encode({"ready": 1}, limit=LIMIT))
    assert child.wire.control(soon) == {"ready": 1}
    os.write(child.messages, encode({"said": 2}, limit=LIMIT))
    assert child.wire.next(soon) == {"said": 2}
    os.write(child.messages, encode({"said": 3}, limit=LIMIT))
    assert child.wire.rest() == [{"said": 3}]
    child.wire.send({"run": 4}, soon)
    assert os.read(child.requests, LIMIT) == encode({"run": 4}, limit=LIMIT)


def test_nothing_is_waited_for_beyond_its_time(child: _Child) -> None:
    now = time.monotonic()
    with pytest.raises(ChildGone, match="it said nothing in time"):
        child.wire.control(now)
    with pytest.raises(ChildGone, match="it did not read what was sent"):
        child.wire.send_bytes(b" " * (1 << 20), now)

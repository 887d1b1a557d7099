"""The ground the tests stand on does what `tests/conftest.py` says."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest


def _outside(host: str) -> str:
    """Say that the guard refused, in its own words: nothing else on the way may have."""
    return f"tests may reach this machine only, not '{host}'"


@pytest.mark.parametrize("host", ["203.0.113.1", "0.0.0.0", "10.0.0.1"])
def test_a_test_cannot_connect_outside_this_machine(host: str) -> None:
    with socket.socket() as sock, pytest.raises(RuntimeError, match=_outside(host)):
        sock.connect((host, 80))


def test_a_test_cannot_send_a_datagram_outside_this_machine() -> None:
    with (
        socket.socket(type=socket.SOCK_DGRAM) as sock,
        pytest.raises(RuntimeError, match=_outside("203.0.113.1")),
    ):
        sock.sendto(b"x", ("203.0.113.1", 53))


def test_a_test_cannot_look_a_name_up() -> None:
    with pytest.raises(RuntimeError, match=_outside("example.org")):
        socket.create_connection(("example.org", 80))


async def test_a_coroutine_cannot_connect_outside_this_machine() -> None:
    with pytest.raises(RuntimeError, match=_outside("203.0.113.1")):
        await asyncio.open_connection("203.0.113.1", 80)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_test_reaches_a_server_of_its_own(host: str) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection((host, server.getsockname()[1]), timeout=5) as client,
    ):
        assert client.getpeername() == server.getsockname()


def test_the_home_of_the_tests_is_not_the_users() -> None:
    assert os.environ["XDG_CONFIG_HOME"] == str(Path.home() / ".config")
    assert list(Path.home().glob(".tracekit*")) == []

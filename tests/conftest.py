"""What every test stands on: no network beyond this machine, nothing of the user's own set-up."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# What a property holds for is tested, not how long one example took beside other work.
settings.register_profile("tracekit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tracekit")

# Redaction is keyed. A fixed key makes placeholders the same in every run of the tests.
REDACTION_KEY = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"


class NetworkBlocked(RuntimeError):
    """A test reached for a host outside this machine.

    Not an `OSError`: clients retry or swallow those.
    """


def _is_local(host: object) -> bool:
    if host is None or host in ("", b"", "localhost", b"localhost"):
        return True
    try:
        return ipaddress.ip_address(
            host.decode() if isinstance(host, bytes) else str(host)
        ).is_loopback
    except ValueError:
        return False


def _refuse_outside(sock: socket.socket, address: object) -> None:
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    host = address[0] if isinstance(address, tuple) else address
    if not _is_local(host):
        raise NetworkBlocked(f"tests may reach this machine only, not {host!r}")


def _guarded(method: Callable[..., Any], *, address_at: int) -> Callable[..., Any]:
    def guarded(sock: socket.socket, *args: Any) -> Any:
        _refuse_outside(sock, args[address_at])
        return method(sock, *args)

    return guarded


def _guarded_lookup(lookup: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(host: object, *args: Any, **kwargs: Any) -> Any:
        # A literal address needs no server to look it up; the connection to it is judged later.
        if not _is_local(host) and not (kwargs.get("flags", 0) & socket.AI_NUMERICHOST):
            raise NetworkBlocked(f"tests may reach this machine only, not {host!r}")
        return lookup(host, *args, **kwargs)

    return guarded


@pytest.fixture(scope="session", autouse=True)
def _block_network() -> Iterator[None]:
    """Let sockets reach loopback and local pipes only."""
    with pytest.MonkeyPatch.context() as patch:
        for name, address_at in (("connect", 0), ("connect_ex", 0), ("sendto", -1)):
            method = getattr(socket.socket, name)
            patch.setattr(socket.socket, name, _guarded(method, address_at=address_at))
        patch.setattr(socket, "getaddrinfo", _guarded_lookup(socket.getaddrinfo))
        yield


@pytest.fixture(scope="session", autouse=True)
def _isolate_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give the tests a home of their own and a fixed redaction key."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        for name in [name for name in os.environ if name.startswith("TRACEKIT_")]:
            patch.delenv(name)
        for name in ("CONFIG", "CACHE", "DATA", "STATE"):
            patch.setenv(f"XDG_{name}_HOME", str(home / f".{name.lower()}"))
        patch.setenv("TRACEKIT_REDACTION_KEY", REDACTION_KEY)
        # For a pytest that a test starts: that plugin takes three times as long as all the rest.
        patch.setenv("PYTEST_ADDOPTS", "-p no:langsmith_plugin")
        yield

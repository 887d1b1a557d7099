"""Gaps that a user leaves in the walls, for tools that may really run: hosts and folders by name.

A host is let through at one port, under its name and under the addresses that it has when the child
is started. Nothing else is: no other port, no protocol but TCP.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tracekit.errors import UsageError

_HOST = re.compile(r"(?P<name>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\])(?::(?P<port>\d{1,5}))?")
_HTTPS = 443


@dataclass(frozen=True, slots=True)
class Gaps:
    """What a child may reach in spite of its walls."""

    hosts: tuple[str, ...] = ()
    """``name:port``."""
    folders: tuple[str, ...] = ()
    """Absolute paths of folders that it may write into."""
    discarded: bool = True
    """Whether the kernel's wall lets it write into a copy of its working folder, thrown away."""

    def addresses(self) -> list[str]:
        """Return each host by its name and by its addresses, with the port.

        Raises:
            UsageError: a name has no address.
        """
        found: dict[str, None] = {}
        for host in self.hosts:
            name, _, port = host.rpartition(":")
            found[host] = None
            try:
                known = socket.getaddrinfo(name.strip("[]"), int(port), type=socket.SOCK_STREAM)
            except OSError as error:
                raise UsageError(f"host {name} has no address here: {error}") from error
            found |= {f"{address[0]}:{port}": None for *_, address in known}
        return list(found)


NO_GAPS = Gaps()


def parse_host(text: str) -> str:
    """Read ``HOST[:PORT]``; without a port it is that of HTTPS.

    Raises:
        UsageError: it is not that.
    """
    found = _HOST.fullmatch(text)
    port = int(found["port"] or _HTTPS) if found is not None else 0
    if found is None or not 0 < port < 1 << 16:
        raise UsageError(f"host {text!r} is not understood", hint="write HOST or HOST:PORT")
    return f"{found['name'].lower()}:{port}"


def parse_folders(paths: Sequence[str]) -> tuple[str, ...]:
    """Read folders to write into.

    Raises:
        UsageError: one is no folder.
    """
    found = []
    for path in paths:
        if not Path(path).is_dir():
            raise UsageError(f"folder {path!r} is not there", hint="make it first")
        found.append(str(Path(path).resolve()))
    return tuple(found)

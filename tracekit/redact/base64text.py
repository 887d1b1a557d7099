"""Base64 as it stands in texts: both alphabets, padded or not, cut or not."""

from __future__ import annotations

import base64
import binascii

_URLSAFE = bytes.maketrans(b"-_", b"+/")
_STANDARD = str.maketrans("+/", "-_")
_READABLE = bytes(range(32, 127)) + b"\t\n\r"
_MOST_UNREADABLE = 0.2
_UNREADABLE = bytes(code not in _READABLE for code in range(256))
HEAD = 24
"""So many letters are its beginning."""


def read_base64(text: str) -> bytes | None:
    """Return what ``text`` says, but for a last character alone; None where it is no base64."""
    try:
        body = text.rstrip("=").encode("ascii").translate(_URLSAFE)
        if len(body) % 4 == 1:
            body = body[:-1]
        return binascii.a2b_base64(body + b"=" * (-len(body) % 4))
    except ValueError:
        return None


def write_base64(data: bytes, like: str) -> str:
    """Write ``data`` the way ``like`` is written."""
    text = base64.b64encode(data).decode()
    if "-" in like or "_" in like:
        text = text.translate(_STANDARD)
    return text if len(like) % 4 == 0 else text.rstrip("=")


def begins_readably(text: str) -> bool:
    """Say whether the beginning of ``text`` says something that people read."""
    head = read_base64(text[:HEAD]) or b""
    return bool(head) and mostly_readable(head)


def head_reads(head: str) -> bool:
    """Say whether ``HEAD`` letters of base64 do, none of them an ``=``; quicker."""
    data = binascii.a2b_base64(head.encode().translate(_URLSAFE))
    return len(data.translate(None, _READABLE)) <= _MOST_UNREADABLE * len(data)


def starts_readably(text: bytes) -> bool:
    """Say whether the first few bytes of base64 without ``-`` and ``_`` do; quicker."""
    return len(text) >= HEAD and not binascii.a2b_base64(text[:8]).translate(None, _READABLE)


def mostly_readable(data: bytes) -> bool:
    """Say whether most of ``data`` is what people read."""
    return len(data.translate(None, _READABLE)) <= _MOST_UNREADABLE * len(data)


def most_unreadable(size: int) -> int:
    """Return how many of ``size`` bytes may be unreadable in what people read."""
    return int(_MOST_UNREADABLE * size)


def unreadable_marks(data: bytes) -> bytes:
    """Return a one for each byte of ``data`` that is unreadable, and a zero for the others."""
    return data.translate(_UNREADABLE)

"""The redaction key, and the tags made with it.

The one idea: whoever holds the key can tell that two secrets are the same, nobody can read them.
Redaction itself knows only `Tagger`, never the key, so that a confined child process can ask its
parent for tags over a pipe.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from pathlib import Path
from typing import Protocol

from tracekit.errors import RedactionKeyError
from tracekit.redact.placeholders import unspelt

KEY_VARIABLE = "TRACEKIT_REDACTION_KEY"
KEY_ATTRIBUTE = "redaction_key"
"""Attribute of a run that names the key which its placeholders are made with."""
TAG_LENGTH = 16

_KEY_BYTES = 32
_SHORTEST_KEY = 16


class Tagger(Protocol):
    """Where the tag of a secret comes from."""

    def tag(self, kind: str, secret: str) -> str:
        """Return 16 lower-case hex digits: the same for the same kind and secret, however spelt."""


class KeyedTagger:
    """Make tags with a key held in this process: HMAC-SHA256, cut to 64 bits."""

    def __init__(self, key: bytes) -> None:
        if len(key) < _SHORTEST_KEY:
            raise _too_short("memory", len(key))
        self._key = key

    @property
    def key_id(self) -> str:
        """Name the key without giving it away; stores keep this to notice another key."""
        return hmac.digest(self._key, b"tracekit key id", "sha256").hex()[:TAG_LENGTH]

    def tag(self, kind: str, secret: str) -> str:
        """Return the tag of ``secret`` among the secrets of its kind."""
        message = f"{kind}\0{unspelt(kind, secret)}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, message, "sha256").hex()[:TAG_LENGTH]

    def __repr__(self) -> str:
        return f"KeyedTagger(key_id={self.key_id!r})"


class UnkeyedTagger:
    """Give every secret the same tag: enough to find secrets, useless to keep them apart."""

    def tag(self, kind: str, secret: str) -> str:
        """Return zeros."""
        return "0" * TAG_LENGTH


def key_path() -> Path:
    """Return where the key file of this user is, whether it exists or not."""
    folder = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(folder) / "tracekit" / "redaction.key"


def load_key() -> bytes:
    """Return the user's redaction key; the first caller ever makes the file.

    Raises:
        RedactionKeyError: the key cannot be read or made, is too short, or others may read it.
    """
    given = os.environ.get(KEY_VARIABLE)
    if given:
        return _decode(given.encode(), KEY_VARIABLE)
    path = key_path()
    try:
        if not path.exists():
            _make_key_file(path)
        return _read_key_file(path)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise RedactionKeyError(
            f"the redaction key {path} cannot be used: {reason}",
            hint=f"make the file readable, or set {KEY_VARIABLE}",
        ) from error


def _make_key_file(path: Path) -> None:
    """Make the key file unless somebody else does; it is never seen half written."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Chance here is not the run's: a key out of fixed conditions could be guessed by anyone.
    draft = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_hex(_KEY_BYTES).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        # A link fails where the name is taken, a rename would replace the key of the other writer.
        os.link(draft, path)
    except FileExistsError:
        return
    finally:
        draft.unlink()


def _read_key_file(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY)
    with os.fdopen(descriptor, "rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if os.name == "posix" and mode & 0o077:
            raise RedactionKeyError(
                f"the redaction key {path} can be read by others (its mode is {mode:04o})",
                hint=f"run: chmod 600 {path}",
            )
        return _decode(file.read(), str(path))


def _decode(text: bytes, place: str) -> bytes:
    """Return the key written as ``text``: hex digits where it is hex, else its own bytes."""
    text = text.strip()
    try:
        key = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        key = text
    if len(key) < _SHORTEST_KEY:
        raise _too_short(place, len(key))
    return key


def _too_short(place: str, size: int) -> RedactionKeyError:
    return RedactionKeyError(
        f"the key in {place} has {size} bytes, at least {_SHORTEST_KEY} are needed",
        hint="32 random bytes in hex make a good key",
    )

"""What a journal says, line by line: facts, and the blobs that they name.

A torn or damaged line costs itself alone: it is named, and the rest is read. A blob counts only if
it is what its digest says. What writes the lines stands in ``journal``.
"""

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from tracekit.canonical import digest_bytes
from tracekit.events import FACT, SCHEMA_VERSION, Blob, Fact
from tracekit.sampling import KEEP_ALL, Sampling

JSON = "application/json"
BLOB_HEAD = b'{"blob":{"digest":"'
_AS_IT_IS = b',"json":'
"""Stands before the bytes of a JSON payload; they are read by their digest, not parsed."""
JSON_PAYLOAD = b'","media_type":"' + JSON.encode() + b'"' + _AS_IT_IS
_BLOB = b'{"blob":'
UNREADABLE = (ValidationError, ValueError, KeyError, TypeError, AttributeError)
"""What reading a line may raise."""


@dataclass
class JournalContent:
    """What could be read of one journal."""

    facts: list[Fact] = field(default_factory=list)
    blobs: dict[str, Blob] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION
    sampling: Sampling = KEEP_ALL
    """Which of its runs are to be kept."""
    damage: list[str] = field(default_factory=list)
    """One sentence for each line that could not be read."""


def read_journal(path: Path) -> JournalContent:
    """Read ``path``; a torn or damaged line is named in ``damage`` and the rest is read."""
    content = JournalContent()
    data = path.read_bytes()
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        line = line.strip(b"\0 \r")
        if not line:
            continue
        try:
            read_line(line, content)
        except UNREADABLE as error:
            torn = number == len(lines)
            what = "the last line is torn" if torn else f"cannot be read ({reason(error)})"
            content.damage.append(f"{path.name}:{number}: {what}")
    return content


def read_line(line: bytes, content: JournalContent) -> None:
    """Add what one line says to ``content``.

    Raises:
        ValueError: nobody can read it; or another one of ``UNREADABLE``.
    """
    if line.startswith(_BLOB) and line.endswith(b"}}"):
        head, found, data = line.partition(_AS_IT_IS)
        if found:
            named: Any = orjson.loads(head + b"}}")
            blob = _checked(data=data[:-2], **named["blob"])
            content.blobs[blob.digest] = blob
            return
    record: Any = orjson.loads(line)
    if "fact" in record:
        content.facts.append(FACT.validate_python(record))
    elif "blob" in record:
        blob = _blob_of(**record["blob"])
        content.blobs[blob.digest] = blob
    elif "journal" in record:
        content.schema_version = int(record["journal"]["schema_version"])
        content.sampling = Sampling.read(record["journal"].get("sampling"))
    else:
        raise ValueError("neither a fact nor a blob")


def _blob_of(
    digest: str, media_type: str, text: str | None = None, base64: str | None = None
) -> Blob:
    data = b64decode(base64 or "", validate=True) if text is None else text.encode()
    return _checked(digest, media_type, data)


def _checked(digest: str, media_type: str, data: bytes) -> Blob:
    if digest_bytes(data) != digest:
        raise ValueError("a payload is not what its digest says")
    return Blob(digest=digest, media_type=media_type, data=data)


def reason(error: Exception) -> str:
    """Say in one line why a line could not be read."""
    return (str(error).splitlines() or [type(error).__name__])[0][:120]

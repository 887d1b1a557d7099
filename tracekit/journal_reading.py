"""What a journal says, line by line: facts, and the blobs that they name.

A torn or damaged line costs itself alone: it is named, and the rest is read. A blob counts only if
it is what its digest says. What writes the lines stands in ``journal``.

Who records may put anything into the folder, so what is no file is never waited for nor followed.
"""

from __future__ import annotations

import errno
import os
import stat
from base64 import b64decode
from collections.abc import Iterable
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


def open_journal(path: Path) -> int:
    """Open a journal for reading; a pipe or a folder is refused at once, and no link is followed.

    Raises:
        OSError: it is gone, it is no file, or it cannot be opened.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is no file", str(path))
    return fd


def read_data(path: Path) -> bytes:
    """Read the bytes of a journal.

    Raises:
        OSError: as for ``open_journal``, or the disk could not give them.
    """
    with open(open_journal(path), "rb") as file:
        return file.read()


def read_journal(path: Path) -> JournalContent:
    """Read ``path``; a torn or damaged line is named in ``damage`` and the rest is read.

    Raises:
        OSError: nothing of it can be read.
    """
    lines = read_data(path).split(b"\n")
    return read_lines(path.name, enumerate(lines, 1), last=len(lines))[0]


def read_lines(
    name: str, lines: Iterable[tuple[int, bytes]], *, last: int
) -> tuple[JournalContent, list[int]]:
    """Read some lines of the journal ``name``, and tell on which of them the facts stand.

    Args:
        name: What damage is named by.
        lines: The lines and their numbers.
        last: The number of the journal's last line, which may be torn.
    """
    content = JournalContent()
    numbers: list[int] = []
    for number, whole in lines:
        line = whole.strip(b"\0 \r")
        if not line:
            continue
        try:
            if _read_line(line, content):
                numbers.append(number)
        except UNREADABLE as error:
            what = (
                "the last line is torn" if number == last else f"cannot be read ({_reason(error)})"
            )
            content.damage.append(f"{name}:{number}: {what}")
    return content, numbers


def _read_line(line: bytes, content: JournalContent) -> bool:
    """Add what one line says to ``content``; tell whether that is a fact."""
    blob = _json_blob(line)
    if blob is not None:
        content.blobs[blob.digest] = blob
        return False
    record: Any = orjson.loads(line)
    if "fact" in record:
        content.facts.append(FACT.validate_python(record))
        return True
    if "blob" in record:
        blob = _blob_of(**record["blob"])
        content.blobs[blob.digest] = blob
    elif "journal" in record:
        content.schema_version = int(record["journal"]["schema_version"])
        content.sampling = Sampling.read(record["journal"].get("sampling"))
    else:
        raise ValueError("neither a fact nor a blob")
    return False


def _json_blob(line: bytes) -> Blob | None:
    """Read a JSON payload, which stands in its line as it is; None where there is none."""
    if not (line.startswith(_BLOB) and line.endswith(b"}}")):
        return None
    head, found, data = line.partition(_AS_IT_IS)
    if not found:
        return None
    named: Any = orjson.loads(head + b"}}")
    return _checked(data=data[:-2], **named["blob"])


def _blob_of(
    digest: str, media_type: str, text: str | None = None, base64: str | None = None
) -> Blob:
    data = b64decode(base64 or "", validate=True) if text is None else text.encode()
    return _checked(digest, media_type, data)


def _checked(digest: str, media_type: str, data: bytes) -> Blob:
    if digest_bytes(data) != digest:
        raise ValueError("a payload is not what its digest says")
    return Blob(digest=digest, media_type=media_type, data=data)


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return _fault_of_a_field(error)
    return (str(error).splitlines() or [type(error).__name__])[0][:120]


def _fault_of_a_field(error: ValidationError) -> str:
    """Name the first field that the model refuses, and why; never what stands in it."""
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if fault["type"].startswith("union_tag"):
        return "its kind of fact is not known here"
    field = ".".join(map(str, fault["loc"][1:]))[:60]
    told = {"missing": f"it has no field {field!r}"}
    told["extra_forbidden"] = f"its field {field!r} is not known here"
    return told.get(
        fault["type"], f"its field {field!r}: {fault['msg'][:1].lower()}{fault['msg'][1:80]}"
    )

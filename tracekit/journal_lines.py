"""Facts and blobs as the lines of a journal. Pure: values in, bytes out.

What reads the lines stands in ``journal_reading``, what appends them in ``journal``.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from tracekit import conditions
from tracekit.canonical import JsonValue, json_bytes
from tracekit.drafts import Draft, said_of
from tracekit.events import SCHEMA_VERSION, Blob, Fact, LossNoted
from tracekit.journal_reading import BLOB_HEAD, JSON, JSON_PAYLOAD, JournalContent
from tracekit.sampling import Sampling

_LINE_END = ord("\n")


def part_of(content: JournalContent, facts: Sequence[Fact], blobs: Iterable[Blob]) -> bytes:
    """Write some facts of a journal, and the blobs that they need, as a journal of their own."""
    header = header_line(content.sampling, schema_version=content.schema_version)
    return b"".join([header, *map(blob_line, blobs), *map(fact_line, facts)])


def header_line(sampling: Sampling, **said: JsonValue) -> bytes:
    """Write the first line of a file."""
    header: dict[str, JsonValue] = {"schema_version": SCHEMA_VERSION, **said}
    if not sampling.keeps_all:
        header["sampling"] = sampling.as_dict()
    return orjson.dumps({"journal": header}) + b"\n"


def fact_line(fact: Fact | Draft) -> bytes:
    """Write a fact."""
    if isinstance(fact, Draft):
        try:
            return fact.line() + b"\n"
        except TypeError:  # half a character in some name
            fact = fact.fact()
    said = {"fact": fact.fact, **said_of(fact)}  # the tag is a default, and left out with them
    try:
        return orjson.dumps(said) + b"\n"
    except TypeError:  # half a character in some name, or a number of more than 64 bits
        return json_bytes(_sound(said)) + b"\n"


def _sound(value: Any) -> Any:
    """What can be written of a value: of half a character U+FFFD is left, of what is none null."""
    if isinstance(value, float) and value - value != 0:
        return None
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_sound(key): _sound(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sound(item) for item in value]
    return value


def loss_line(line: bytes, count: int, *, seq: int) -> bytes:
    """The line that says how many facts were lost, in the run of the first fact on ``line``."""
    told = orjson.loads(line.partition(b"\n")[0])
    same = {name: told[name] for name in ("writer", "timestamp_ns", "run_id", "trace_id")}
    return fact_line(
        LossNoted(
            **same,
            seq=seq,
            span_id=conditions.new_span_id(),
            count=count,
            reason="somebody deleted the journal that held them",
        )
    )


def count_on(line: bytes) -> int:
    """How many lost facts the line of a loss tells of."""
    count: int = orjson.loads(line)["count"]
    return count


def blob_line(blob: Blob) -> bytes:
    """Write a payload."""
    digest, media_type, data = blob
    if media_type == JSON and _LINE_END not in data:  # stands in the line as it is
        return b"".join((BLOB_HEAD, digest.encode(), JSON_PAYLOAD, data, b"}}\n"))
    content: dict[str, str] = {"digest": digest, "media_type": media_type}
    try:
        content["text"] = data.decode()
    except UnicodeDecodeError:
        content["base64"] = b64encode(data).decode()
    return orjson.dumps({"blob": content}) + b"\n"

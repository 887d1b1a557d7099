"""What is kept of a value: encoded, redacted, digested, within its limits.

Prompts go through ``conversations``, so that each is kept as what it adds to an earlier one.
"""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tracekit.canonical import (
    Encoded,
    JsonValue,
    both_bytes,
    digest_bytes,
    encode,
    json_bytes,
    parse_json,
)
from tracekit.canonical.plain import Plain, write_plain
from tracekit.conversations import KeptPrompt
from tracekit.events import Blob, ContentState, Payload
from tracekit.interruption import pass_on
from tracekit.limits import NO_LIMITS, Limits, StoreMeter, cut, only_digest
from tracekit.operations import RunScope
from tracekit.prompts import prompt_columns
from tracekit.redact import Redactor, Scope

T = TypeVar("T")
_as_blob: Callable[[tuple[str, str, bytes]], Blob] = functools.partial(tuple.__new__, Blob)
"""Make one of its parts in order: what ``Blob`` does, at half the cost."""


@dataclass(slots=True)
class Kept:
    """A value as it is kept."""

    payload: Payload
    blobs: tuple[Blob, ...]
    columns: Mapping[str, str | None] = field(default_factory=dict)
    """Hashes, where it is a prompt."""
    prompt: KeptPrompt | None = None
    _value: JsonValue = None
    _data: bytes | None = None
    """The redacted value as JSON, where nobody has read it yet."""

    @property
    def value(self) -> JsonValue:
        """The redacted value."""
        if self.prompt is not None:
            return self.prompt.value
        return self._value if self._data is None else parse_json(self._data)

    def cut(self) -> None:
        """Keep no more of it than how it begins."""
        if self.blobs:
            whole = self.blobs[0].data if self.prompt is None else json_bytes(self.prompt.value)
            self.payload, mark = cut(self.payload, whole)
            self.blobs = (mark,)

    def drop(self) -> None:
        """Keep no more of it than its digest."""
        self.payload, self.blobs = only_digest(self.payload), ()

    @property
    def without_messages(self) -> JsonValue:
        """The same, but of a prompt only what stands beside its messages, which may be long."""
        return self.value if self.prompt is None else self.prompt.prompt.rest.value


@dataclass(slots=True)
class Keeper:
    """Keeps values within limits."""

    limits: Limits = NO_LIMITS
    meter: StoreMeter | None = None
    chained: bool = True
    """Whether a prompt may be kept as what it adds to another one."""

    @classmethod
    def within(cls, limits: Limits, *places: Path) -> Keeper:
        """Make one for a store whose files are at ``places``."""
        limit = limits.store_bytes
        return cls(limits, StoreMeter(places, limit) if limit is not None else None)

    def keeps_whole(self, size: int) -> bool:
        """Whether a value of so many bytes is kept as it is, whatever was kept before."""
        limits = self.limits
        return (
            self.meter is None
            and limits.run_bytes is None
            and (limits.value_bytes is None or size <= limits.value_bytes)
        )

    def keep(self, value: object, redactor: Redactor, run: RunScope) -> Kept:
        """Keep a value of ``run``."""
        kept = keep_value(value, redactor, run.secrets)
        limit = self.limits.value_bytes
        if limit is not None and len(kept.blobs[0].data) > limit:
            kept.cut()
        return self._with_room(kept, run)

    def keep_prompt(self, value: object, redactor: Redactor, run: RunScope) -> Kept:
        """Keep a request to a model as what it adds to an earlier one of ``run``."""
        prompt = run.prompts.keep(value, redactor, run.secrets) if self.chained else None
        if prompt is None:
            kept = self.keep(value, redactor, run)
            kept.columns = prompt_columns(kept.value)
            return kept
        kept = Kept(prompt.payload, prompt.blobs, prompt.columns, prompt)
        limit = self.limits.value_bytes
        if limit is not None and prompt.prompt.size > limit:
            kept.cut()
        return self._with_room(kept, run)

    def _with_room(self, kept: Kept, run: RunScope) -> Kept:
        """Count what is kept, or let go of it where run or store are full."""
        size = 0
        for blob in kept.blobs:
            size += len(blob.data)
        limit = self.limits.run_bytes
        full = limit is not None and run.kept_bytes + size > limit
        if full or (self.meter is not None and not self.meter.has_room(size)):
            run.not_kept += 1
            kept.drop()
        else:
            run.kept_bytes += size
        return kept

    def written(self, kept: Kept, run: RunScope) -> None:
        """Take note that what is kept of a value has been written."""
        prompt = kept.prompt
        if prompt is not None and kept.payload.blob == prompt.prompt.blob:
            run.prompts.written(prompt)


def put_what_fits(
    put: Callable[[Sequence[Blob]], T],
    fields: dict[str, Any],
    values: Mapping[str, Kept],
    beside: Sequence[Blob],
) -> tuple[T, bool]:
    """Put values where they belong, and tell whether they went there as they are.

    Of values that no file may hold no more goes there than how they begin, or else their digests.

    Args:
        put: Writes ``fields`` and what they need, or raises.
        fields: What is written; the payloads of ``values`` stand in it by their names.
        values: The values.
        beside: What else is needed.

    Raises:
        OSError: they could not be written.
    """
    shorter = iter((Kept.cut, Kept.drop) if values else ())
    whole = True
    while True:
        try:
            return put([*(blob for kept in values.values() for blob in kept.blobs), *beside]), whole
        except OSError as error:
            shorten = next(shorter, None)
            if error.errno != errno.EFBIG or shorten is None:
                raise
            pass_on(error)
        whole = False
        for name, kept in values.items():
            shorten(kept)
            fields[name] = kept.payload


def keep_value(value: object, redactor: Redactor, secrets: Scope) -> Kept:
    """Encode and redact ``value``: what is kept of it, and where."""
    plain = None if isinstance(value, Encoded) else keep_plain(value, redactor, secrets)
    if plain is not None:
        digest, blob = plain
        return Kept(Payload(digest=digest, blob=blob.digest), (blob,), _data=blob.data)
    encoded = value if isinstance(value, Encoded) else encode(value)
    found = redactor.redact(encoded.value, scope=secrets)
    # Kept in the order of its keys: what a planner prints of it must read the same in a replay.
    data, canonical = both_bytes(found.value)
    name = digest_bytes(data)
    state: ContentState = "captured" if encoded.replayable else "truncated"
    if found.failure is not None:
        state = "redacted"
    payload = Payload(
        state=state,
        digest=name if canonical == data else digest_bytes(canonical),
        blob=name,
        types=dict(encoded.types),
    )
    blob = Blob(digest=name, media_type="application/json", data=data)
    return Kept(payload, (blob,), _value=found.value)


def keep_plain(
    value: object, redactor: Redactor, secrets: Scope, keeper: Keeper | None = None
) -> tuple[str, Blob] | None:
    """Keep a value that needs neither encoding nor redaction: its digest, and its bytes.

    None for any other, and where ``keeper`` may not keep the whole of it.
    """
    written = write_plain(value)
    if written is None:
        return None
    data, canonical = written
    if not (redactor.idle or redactor.finds_nothing(Plain(data, canonical), secrets)):
        return None
    if keeper is not None and not keeper.keeps_whole(len(data)):
        return None
    name = digest_bytes(data)
    digest = name if canonical == data else digest_bytes(canonical)
    return digest, _as_blob((name, "application/json", data))


def kept_whole(plain: Plain) -> tuple[str, Blob]:
    """What is kept of a value as it is: its digest, and its bytes."""
    data, canonical = plain.data, plain.canonical
    name = digest_bytes(data)
    digest = name if canonical == data else digest_bytes(canonical)
    return digest, _as_blob((name, "application/json", data))

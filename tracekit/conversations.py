"""The prompts of one run, each kept as what it adds to an earlier one.

The one idea: whether a prompt begins with an earlier one is asked of its exact bytes, which C code
writes in a fraction of the time that a walk takes; what begins the same has been copied, redacted
and digested already. Digests go on from where the earlier prompt's stopped. Where anything is not
as expected (other types, a secret learnt since, an edited history) the whole prompt is taken
anew, and kept as a link to the earlier prompt that it shares most with, message by message.

Prompts are chained to prompts that are known to be written, so a failed write costs a restart and
never a value. Nothing is locked: what two threads overwrite of each other costs a restart as well.
"""

from __future__ import annotations

import marshal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tracekit.canonical import (
    Encoded,
    JsonValue,
    RunningDigest,
    both_bytes,
    encode,
    json_bytes,
    parse_json,
)
from tracekit.chains import Link, make_blob
from tracekit.events import Blob, Payload
from tracekit.growing import (
    NO_TAGS,
    Path,
    Tags,
    alone,
    find_list,
    frame,
    index_in,
    list_at,
    pointer_to,
    tags_by_item,
    with_list,
    written,
)
from tracekit.prompts import ListHash, PromptHashes, hash_list
from tracekit.redact import Redactor, Scope

HEADS = 8
"""So many conversations of a run are remembered at a time."""
_WORTH_A_LINK = 256
"""Fewer bytes than this are written again rather than named."""
_LARGE_FIELD = 512
"""A field beside the messages that is larger is a blob of its own."""


@dataclass(frozen=True, slots=True)
class _Rest:
    """What stands beside the messages, redacted, with the messages as null in their place."""

    path: Path
    """Where the messages are."""
    value: dict[str, JsonValue]
    text: bytes
    types: Tags
    before: bytes
    """Canonical text of the whole prompt up to its first message."""
    after: bytes
    """And from behind its last."""
    raw: bytes | None
    """Exact bytes of the fields as they were given; None where that cannot be told."""

    def same(self, other: _Rest) -> bool:
        return (self.path, self.text, self.types) == (other.path, other.text, other.types)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as it is kept, and what a longer one needs to go on from it."""

    blob: str
    rest: _Rest
    texts: tuple[bytes, ...]
    """Each message, redacted, as it is stored."""
    tags: tuple[Tags, ...]
    """Type tags of each message, by pointer within it."""
    running: RunningDigest
    """Over the canonical text up to the last message."""
    hashed: ListHash
    raw: memoryview | None
    """Exact bytes of the messages as they were given; None where they are not plain JSON."""
    size: int
    """Bytes of the whole as JSON."""
    replayable: bool
    redactor: Redactor
    secrets: int
    """How many secrets the run had met."""
    types_in_blob: bool

    @property
    def digest(self) -> str:
        """Over the canonical form of the whole redacted prompt."""
        return self.running.with_more(self.rest.after).name()

    def as_text(self) -> bytes:
        """Write the whole as JSON."""
        return written(self.rest.value, self.rest.path, b"[" + b",".join(self.texts) + b"]")

    def continues(self, other: Prompt) -> bool:
        """Tell whether this says all that ``other`` says, so that nobody needs to go on from it."""
        count = len(other.texts)
        same = self.texts[:count] == other.texts and self.tags[:count] == other.tags
        return same and self.rest.same(other.rest)

    def types(self) -> dict[str, JsonValue]:
        """All type tags, by pointer within the prompt."""
        found, head = dict(self.rest.types), pointer_to(self.rest.path)
        for index, tags in enumerate(self.tags):
            found |= {f"{head}/{index}{pointer}": tag for pointer, tag in tags.items()}
        return found


@dataclass(frozen=True, slots=True)
class KeptPrompt:
    """What is to be written of a prompt."""

    prompt: Prompt
    hashes: PromptHashes
    blobs: tuple[Blob, ...]
    """Those that are not written yet, as far as is known."""

    @property
    def payload(self) -> Payload:
        """What the fact says of it."""
        return Payload(
            state="captured" if self.prompt.replayable else "truncated",
            digest=self.prompt.digest,
            blob=self.prompt.blob,
            types={} if self.prompt.types_in_blob else self.prompt.types(),
        )

    @property
    def columns(self) -> dict[str, str | None]:
        """The hashes by column."""
        return self.hashes.as_columns()

    @property
    def value(self) -> JsonValue:
        """The whole redacted prompt; it is put together when it is asked for."""
        return parse_json(self.prompt.as_text())


@dataclass(slots=True)
class Conversations:
    """What one run has said to models so far, the latest first."""

    _heads: tuple[Prompt, ...] = field(default=())
    _ground: object = None

    def stand_on(self, ground: object) -> None:
        """Forget what was said before, where it was written to what is gone or is elsewhere.

        Args:
            ground: What prompts are written to; another one, if those written so far are not there.
        """
        if ground is not self._ground:
            self._ground, self._heads = ground, ()

    def keep(self, value: object, redactor: Redactor, secrets: Scope) -> KeptPrompt | None:
        """Redact a request, and say how it is kept; None where it holds no list of messages."""
        kept = self._longer(value, redactor, secrets)
        return kept if kept is not None else self._anew(value, redactor, secrets)

    def written(self, kept: KeptPrompt) -> None:
        """Take note that the blobs of ``kept`` are written, so that later prompts may name them."""
        others = [head for head in self._heads if not kept.prompt.continues(head)]
        self._heads = (kept.prompt, *others[: HEADS - 1])

    def _longer(self, value: object, redactor: Redactor, secrets: Scope) -> KeptPrompt | None:
        if isinstance(value, Encoded):
            if value.types or not value.replayable:
                return None
            value = value.value
        if not self._heads or redactor.rules.paths or type(value) is not dict:
            return None
        path = find_list(value)
        messages = list_at(value, path) if path is not None else None
        if path is None or messages is None:
            return None
        messages = messages.copy()
        raw, rest = _exact(messages), _exact(with_list(value, path, None))
        if raw is None or rest is None:
            return None
        for head in self._heads:
            if (
                head.raw is not None
                and head.rest.path == path
                and head.rest.raw == rest
                and head.secrets == len(secrets.known)
                and head.redactor is redactor
                and raw.startswith(head.raw, _HEADER)
            ):
                return _continued(head, messages[len(head.texts) :], raw, secrets)
        return None

    def _anew(self, value: object, redactor: Redactor, secrets: Scope) -> KeptPrompt | None:
        encoded = value if isinstance(value, Encoded) else encode(value)
        redacted = redactor.redact(encoded.value, scope=secrets).value
        path = find_list(redacted) if isinstance(redacted, dict) else None
        if not isinstance(redacted, dict) or path is None:
            return None
        made = _taken(encoded, redacted, path, redactor, len(secrets.known))
        base, shared = self._nearest(made)
        hashes = made.hashed.hashes()
        if base is not None and base.continues(made) and made.continues(base):
            same = replace(made, blob=base.blob, types_in_blob=base.types_in_blob)
            return KeptPrompt(same, hashes, ())
        return _as_link(made, redacted, base, shared, hashes)

    def _nearest(self, made: Prompt) -> tuple[Prompt | None, _Shared]:
        """Find the earlier prompt that shares most with this one, and what."""
        found = [(_shared(head, made), head) for head in self._heads]
        if found:
            shared, best = max(found, key=lambda one: (one[0].size, one[1].rest.same(made.rest)))
            if shared.size >= _WORTH_A_LINK:
                return best, shared
        return None, _Shared(0, (), 0)


_HEADER = 5
"""Bytes of a list before its first item."""


def _exact(value: Any) -> bytes | None:
    """Write ``value`` so that equal bytes are equal values of equal types; None if it cannot be.

    Form 2 has no references, so that bytes do not depend on who else holds an object.
    """
    try:
        return marshal.dumps(value, 2)  # written to be compared, never read
    except (ValueError, RuntimeError):
        return None


def _continued(head: Prompt, new: list[JsonValue], raw: bytes, secrets: Scope) -> KeptPrompt | None:
    """Add ``new`` to ``head``; None where that alone would not give what was said."""
    encoded = [encode(message) for message in new]
    if any(one.types or not one.replayable for one in encoded):
        return None
    start = _HEADER + len(head.raw or b"")
    plain = [one.value for one in encoded]
    if raw[start:] != (_exact(plain) or b"")[_HEADER:]:  # another thread changed them meanwhile
        return None
    found = head.redactor.redact(alone(head.rest.path, plain), scope=secrets)
    messages = list_at(found.value, head.rest.path)
    if messages is None or len(secrets.known) != head.secrets:
        return None
    hashed = head.hashed.with_more(messages)
    if hashed is None or (new and head.size < _WORTH_A_LINK):
        return None
    if not new:
        return KeptPrompt(head, hashed.hashes(), ())
    texts, canonical = _both(messages)
    added = b",".join(canonical)
    blob = Link(messages, base=head.blob, keep=len(head.texts), at=head.rest.path).as_blob()
    longer = replace(
        head,
        blob=blob.digest,
        texts=head.texts + tuple(texts),
        tags=head.tags + (NO_TAGS,) * len(texts),
        running=head.running.with_more(b"," + added if head.texts else added),
        hashed=hashed,
        raw=memoryview(raw)[_HEADER:],
        size=head.size + sum(len(text) + 1 for text in texts),
        types_in_blob=True,
    )
    return KeptPrompt(longer, hashed.hashes(), (blob,))


def _both(messages: Sequence[JsonValue]) -> tuple[list[bytes], list[bytes]]:
    pairs = [both_bytes(message) for message in messages]
    return [stored for stored, _ in pairs], [canonical for _, canonical in pairs]


def _taken(
    encoded: Encoded, redacted: dict[str, JsonValue], path: Path, redactor: Redactor, secrets: int
) -> Prompt:
    """Take a whole prompt apart; its blob is not known yet."""
    messages: list[JsonValue] = list_at(redacted, path) or []
    texts, canonical = _both(messages)
    rest_types, tags = tags_by_item(encoded.types, path, len(messages))
    plain = encoded.value if encoded.replayable and not encoded.types else None
    given = list_at(plain, path)
    rest = _rest(
        with_list(redacted, path, None), path, rest_types, plain if given is not None else None
    )
    raw = _exact(given) if given is not None else None
    return Prompt(
        blob="",
        rest=rest,
        texts=tuple(texts),
        tags=tags,
        running=RunningDigest(rest.before + b",".join(canonical)),
        hashed=hash_list(redacted, path),
        raw=memoryview(raw)[_HEADER:] if raw is not None else None,
        size=len(rest.text) + sum(len(text) + 1 for text in texts),
        replayable=encoded.replayable,
        redactor=redactor,
        secrets=secrets,
        types_in_blob=False,
    )


def _rest(value: dict[str, JsonValue], path: Path, types: Tags, plain: JsonValue) -> _Rest:
    before, after = frame(value, path)
    return _Rest(
        path=path,
        value=value,
        text=json_bytes(value),
        types=types,
        before=before,
        after=after,
        raw=_exact(with_list(plain, path, None)) if isinstance(plain, dict) else None,
    )


@dataclass(frozen=True, slots=True)
class _Shared:
    """What a prompt has in common with an earlier one."""

    keep: int
    """So many messages, up to the last that is the same."""
    other: tuple[int, ...]
    """Those among them that are not the same."""
    size: int
    """Bytes of those that are."""


def _shared(left: Prompt, right: Prompt) -> _Shared:
    if left.rest.path != right.rest.path:
        return _Shared(0, (), 0)
    pairs = zip(left.texts, right.texts, left.tags, right.tags, strict=False)
    same = [old == new and tags == more for old, new, tags, more in pairs]
    keep = next((at + 1 for at in range(len(same) - 1, -1, -1) if same[at]), 0)
    other = tuple(at for at in range(keep) if not same[at])
    return _Shared(keep, other, sum(len(right.texts[at]) for at in range(keep) if same[at]))


def _as_link(
    made: Prompt,
    redacted: dict[str, JsonValue],
    base: Prompt | None,
    shared: _Shared,
    hashes: PromptHashes,
) -> KeptPrompt:
    """Keep ``made`` as a link to ``base``, or whole where there is none."""
    path = made.rest.path
    messages: list[JsonValue] = list_at(redacted, path) or []
    inherited = base is not None and made.rest.same(base.rest)
    rest, fields = _apart(made.rest.value, path[0]) if not inherited else (None, [])
    if base is None and not fields:
        blob = make_blob(redacted)
        return KeptPrompt(replace(made, blob=blob.digest), hashes, (blob,))
    blob = Link(
        messages[shared.keep :],
        base=base.blob if base is not None else None,
        keep=shared.keep,
        swap={str(at): messages[at] for at in shared.other},
        rest=rest,
        refs={name: kept.digest for name, kept in fields},
        types=_own_types(made, base, shared, inherited=inherited),
        at=path,
    ).as_blob()
    linked = replace(made, blob=blob.digest, types_in_blob=True)
    return KeptPrompt(linked, hashes, (*(kept for _, kept in fields), blob))


def _own_types(
    made: Prompt, base: Prompt | None, shared: _Shared, *, inherited: bool
) -> Mapping[str, JsonValue]:
    """Give the type tags that the base's links do not carry."""
    types = made.types()
    if base is None or not base.types_in_blob:
        return types
    kept = {None: inherited} | {at: at not in shared.other for at in range(shared.keep)}
    return {p: tag for p, tag in types.items() if not kept.get(index_in(p, made.rest.path))}


def _apart(
    rest: dict[str, JsonValue], around: str
) -> tuple[dict[str, JsonValue], list[tuple[str, Blob]]]:
    """Take the large fields out of ``rest``, each as a blob of its own, but the one ``around``."""
    small = dict(rest)
    fields: list[tuple[str, Blob]] = []
    for name, item in rest.items():
        if isinstance(item, (str, list, dict)) and name != around:
            blob = make_blob(item)
            if len(blob.data) >= _LARGE_FIELD:
                small[name] = None
                fields.append((name, blob))
    return small, fields

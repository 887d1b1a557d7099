"""Prompts as links of a chain: what came before by name, and only what is new by value.

A conversation sends its whole history with every call. A link names the blob of an earlier prompt
(``base``), how many of its messages hold again (``keep``) and the messages after those
(``append``), so that a long conversation costs linear space. Messages among the kept ones that are
others now, as instructions with a clock in them, stand by their number (``swap``). What stands
beside the messages is kept again only where it changed, and what is large of it (tools) as a blob
of its own. A link is a blob like any other: its digest is over its stored bytes. Where a base is
missing the prompt is missing; nothing is ever guessed. ``messages`` here is the list that grows,
wherever a request has it (``growing``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tracekit.canonical import (
    JsonValue,
    digest_bytes,
    json_bytes,
    parse_json,
)
from tracekit.errors import InvalidJson
from tracekit.events import Blob
from tracekit.growing import MESSAGES, Path, index_in, list_at, with_list

MEDIA_TYPE = "application/vnd.tracekit.prompt+json"

LoadBlob = Callable[[str], Blob | None]
LoadBlobs = Callable[[Iterable[str]], Mapping[str, Blob]]


@dataclass(frozen=True, slots=True)
class Link:
    """One prompt as it is kept."""

    append: list[JsonValue]
    base: str | None = None
    keep: int = 0
    swap: Mapping[str, JsonValue] = field(default_factory=dict)
    """Number of a message among the kept ones to what stands in its place."""
    rest: dict[str, JsonValue] | None = None
    """All beside the messages, which stand as null in their place; None: as in the base."""
    refs: Mapping[str, str] = field(default_factory=dict)
    """Fields of ``rest`` that stand as null and are blobs of their own."""
    types: Mapping[str, JsonValue] = field(default_factory=dict)
    """JSON pointer to type tag, of what the base does not say already."""
    at: Path = MESSAGES
    """Where in the request the messages are."""

    def as_blob(self) -> Blob:
        """Write it down; what is empty is left out."""
        body: dict[str, JsonValue] = {}
        if self.base is not None:
            body |= {"base": self.base, "keep": self.keep}
        if self.swap:
            body["swap"] = dict(self.swap)
        body["append"] = self.append
        if self.rest is not None:
            body["rest"] = self.rest
        if self.refs:
            body["refs"] = dict(self.refs)
        if self.types:
            body["types"] = dict(self.types)
        if self.at != MESSAGES:
            body["at"] = list(self.at)
        return make_blob(body, media_type=MEDIA_TYPE)


@dataclass(frozen=True, slots=True)
class Whole:
    """A value put together again."""

    value: JsonValue
    types: Mapping[str, JsonValue] = field(default_factory=dict)
    """Type tags that its links carry; those of a value kept whole stand with its event."""


def make_blob(value: JsonValue, *, media_type: str = "application/json") -> Blob:
    """Write ``value`` as a blob."""
    data = json_bytes(value)
    return Blob(digest=digest_bytes(data), media_type=media_type, data=data)


def value_of(blob: Blob) -> JsonValue:
    """Read the value that a blob holds by itself: JSON parsed, any other text as it is."""
    text = blob.data.decode("utf-8", "replace")
    if not blob.media_type.startswith("application/json"):
        return text
    try:
        return parse_json(text)
    except InvalidJson:
        return text


def is_link(blob: Blob) -> bool:
    """Tell whether ``blob`` is a link, and so no value by itself."""
    return blob.media_type == MEDIA_TYPE


def read_link(blob: Blob) -> Link | None:
    """Read a link; None where it is damaged."""
    try:
        body: Any = parse_json(blob.data)
        sound = all(isinstance(body.get(name, like), type(like)) for name, like in _SHAPE.items())
        at = tuple(body.get("at", MESSAGES))
        sound = sound and len(at) > 0 and all(isinstance(name, str) for name in at)
        keep = body.get("keep", 0)
        sound = sound and all(_is_place(name, keep) for name in body.get("swap", ()))
        link = Link(**{**body, "at": at})
    except (InvalidJson, AttributeError, TypeError):
        return None
    return link if sound and (link.base is not None or link.rest is not None) else None


def _is_place(name: str, count: int) -> bool:
    return name.isdecimal() and len(name) <= len(str(count)) and int(name) < count


_SHAPE: dict[str, object] = {
    "append": [], "base": "", "keep": 0, "rest": {}, "refs": {}, "types": {},
    "swap": {}, "at": [],
}  # fmt: skip


def references(blob: Blob) -> tuple[str, ...]:
    """Name the blobs that ``blob`` cannot be read without: whoever removes blobs keeps these."""
    link = read_link(blob) if is_link(blob) else None
    if link is None:
        return ()
    return (*([link.base] if link.base else []), *link.refs.values())


def load_with_bases(digests: Iterable[str], load: LoadBlobs) -> dict[str, Blob]:
    """Load blobs and all that they cannot be read without; what is gone is missing."""
    found: dict[str, Blob] = {}
    asked: set[str] = set()
    wanted = set(digests)
    while wanted:
        asked |= wanted
        more = load(wanted)
        found |= more
        wanted = {name for blob in more.values() for name in references(blob)} - asked
    return found


class Resolver:
    """Puts prompts together again. Prompts of one conversation share their messages: read only."""

    def __init__(self, load: LoadBlob) -> None:
        self._load = load
        self._links: dict[str, Whole | None] = {}

    def value(self, digest: str) -> Whole | None:
        """Give the value behind ``digest``; None where it or something it rests on is gone."""
        if digest in self._links:
            return self._links[digest]
        blob = self._load(digest)
        if blob is None:
            return None
        return self._resolved(blob) if is_link(blob) else Whole(value_of(blob))

    def _resolved(self, blob: Blob) -> Whole | None:
        """Walk to the first prompt of the chain, then put the later ones together, in turn."""
        waiting: list[tuple[str, Link]] = []
        seen: set[str] = set()
        base: Whole | None = None
        known: Blob | None = blob
        while known is not None and is_link(known):
            if known.digest in self._links:
                base = self._links[known.digest]
                break
            link = read_link(known)
            seen.add(known.digest)
            if link is None or link.base in seen:
                return None
            waiting.append((known.digest, link))
            known = self._load(link.base) if link.base is not None else None
        else:
            base = Whole(value_of(known)) if known is not None else None
        for digest, link in reversed(waiting):
            base = self._links[digest] = self._joined(base, link)
        return base

    def _joined(self, base: Whole | None, link: Link) -> Whole | None:
        rest = link.rest
        kept: list[JsonValue] = []
        types: dict[str, JsonValue] = {}
        if link.base is not None:
            before = base.value if base is not None else None
            messages = list_at(before, link.at)
            if base is None or messages is None or len(messages) < link.keep:
                return None
            kept = messages[: link.keep]
            for place, message in link.swap.items():
                kept[int(place)] = message
            types = {
                pointer: tag
                for pointer, tag in base.types.items()
                if _holds_again(pointer, link, same_rest=rest is None)
            }
            rest = rest if rest is not None else before  # type: ignore[assignment]  # it is a dict
        whole = dict(rest or {})
        for name, digest in link.refs.items():
            field_blob = self._load(digest)
            if field_blob is None:
                return None
            whole[name] = value_of(field_blob)
        try:
            said = with_list(whole, link.at, kept + link.append)
        except (KeyError, TypeError):  # what stands around the messages is damaged
            return None
        return Whole(said, {**types, **link.types})


def _holds_again(pointer: str, link: Link, *, same_rest: bool) -> bool:
    index = index_in(pointer, link.at)
    return same_rest if index is None else index < link.keep and str(index) not in link.swap

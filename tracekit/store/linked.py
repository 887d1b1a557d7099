"""Digests of prompts that are kept as links, computed anew along their chains.

A prompt of n messages costs what is new in it: its digest goes on from where its base's stopped.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tracekit.canonical import JsonValue, RunningDigest, canonical_bytes, digest
from tracekit.chains import Link, LoadBlob, Resolver, read_link
from tracekit.events import Blob
from tracekit.growing import Path, frame, list_at


@dataclass(frozen=True, slots=True)
class _Prompt:
    count: int
    at: Path
    running: RunningDigest
    """Over all up to the last message."""
    after: bytes

    @property
    def digest(self) -> str:
        return self.running.with_more(self.after).name()


def value_digests(
    links: Mapping[str, Blob], find: Callable[[str], Blob | None]
) -> Iterator[tuple[str, str | None]]:
    """Yield for each of ``links`` the digest of its value; None where that cannot be read."""
    below: defaultdict[str | None, list[tuple[str, Link]]] = defaultdict(list)
    for name, blob in links.items():
        link = read_link(blob)
        if link is None:
            yield name, None
        else:
            below[link.base].append((name, link))

    def load(name: str) -> Blob | None:
        return links.get(name) or find(name)

    for base in [base for base in below if base is None or base not in links]:
        for one in below[base]:
            yield from _tree(one, below, load)


def _tree(
    root: tuple[str, Link],
    below: Mapping[str | None, list[tuple[str, Link]]],
    load: LoadBlob,
) -> Iterator[tuple[str, str | None]]:
    """Walk from one prompt to all that go on from it, the values of this tree at hand."""
    resolver = Resolver(load)
    waiting: list[tuple[str, Link, _Prompt | None]] = [(*root, None)]
    while waiting:
        name, link, base = waiting.pop()
        whole = resolver.value(name)
        prompt = _prompt(whole.value, link, base) if whole is not None else None
        if prompt is not None:
            yield name, prompt.digest
        else:
            yield name, digest(whole.value) if whole is not None else None
        waiting += [(child, made, prompt) for child, made in below.get(name, ())]


def _prompt(value: JsonValue, link: Link, base: _Prompt | None) -> _Prompt | None:
    messages = list_at(value, link.at)
    if not isinstance(value, dict) or messages is None:
        return None
    goes_on = link.rest is None and not link.swap
    if base is not None and goes_on and (link.keep, link.at) == (base.count, base.at):
        running, new, after = base.running, link.append, base.after
    else:
        before, after = frame(value, link.at)
        running, new, base = RunningDigest(before), messages, None
    text = b",".join(canonical_bytes(message) for message in new)
    comma = b"," if text and base is not None and base.count else b""
    return _Prompt(len(messages), link.at, running.with_more(comma + text), after)

"""The list of a request that grows from call to call, and the request around it.

A conversation is one list in a request: ``messages``, the ``input`` of the Responses API, the
``contents`` of others, or what the author of a function calls it, perhaps inside an object. It is
found by what it looks like, the same one in every call of a conversation, and named by its path.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from tracekit.canonical import JsonValue, canonical_bytes, json_bytes
from tracekit.items import is_responses_request

Path = tuple[str, ...]
Tags = Mapping[str, JsonValue]
"""Type tags by JSON pointer."""
NO_TAGS: Tags = {}
MESSAGES: Path = ("messages",)
"""Where most requests have it."""
_NAMES = frozenset({"messages", "input", "contents"})
_FIXED = frozenset({"tools", "functions", "stop", "stop_sequences"})
"""Lists that stay what they are."""
_DEPTH = 3
_BROAD = 64
"""Objects with more fields are no requests, and are not searched."""


def find_list(request: Mapping[str, Any]) -> Path | None:
    """Find the list that is most like a conversation; None where there is none."""
    if isinstance(request.get("messages"), list):
        return MESSAGES
    if is_responses_request(request):
        return ("input",) if isinstance(request["input"], list) else None
    found: list[tuple[tuple[bool, bool, bool, int, int], Path]] = []
    waiting: list[tuple[Path, Mapping[str, Any]]] = [((), request)]
    for path, node in waiting:
        if len(node) > _BROAD:
            continue
        for name, item in node.items():
            if type(item) is list and type(name) is str and name not in _FIXED:
                here = (*path, name)
                if not item or type(item[0]) in (dict, list, str):
                    rank = (bool(item), _is_message(item), name in _NAMES, -len(path), len(item))
                    found.append((rank, here))
            elif type(item) is dict and type(name) is str and len(path) + 1 < _DEPTH:
                waiting.append(((*path, name), item))
    return max(found, key=lambda one: one[0])[1] if found else None


def _is_message(items: Sequence[Any]) -> bool:
    first = items[0] if items else None
    return type(first) is dict and ("role" in first or "type" in first)


def list_at(value: Any, path: Path) -> list[Any] | None:
    """Give the list at ``path``; None where there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, list) else None


def with_list(value: Mapping[str, Any], path: Path, items: list[Any] | None) -> dict[str, Any]:
    """Copy a request with ``items`` at ``path``; what is not on the way is shared."""
    name, deeper = path[0], path[1:]
    return {**value, name: with_list(value[name], deeper, items) if deeper else items}


def alone(path: Path, items: list[Any]) -> dict[str, JsonValue]:
    """Give a request that holds nothing but ``items``, at ``path``."""
    inner: Any = items
    for name in reversed(path):
        inner = {name: inner}
    request: dict[str, JsonValue] = inner
    return request


def written(rest: Mapping[str, JsonValue], path: Path, items: bytes) -> bytes:
    """Write ``rest`` as JSON with the text of a list at ``path``."""
    parts = []
    for name, item in rest.items():
        if name != path[0]:
            text = json_bytes(item)
        elif len(path) > 1 and isinstance(item, dict):
            text = written(item, path[1:], items)
        else:
            text = items
        parts.append(json_bytes(name) + b":" + text)
    return b"{" + b",".join(parts) + b"}"


def frame(value: Mapping[str, Any], path: Path) -> tuple[bytes, bytes]:
    """Give the canonical text of a request up to the first item of its list, and from the last."""
    name, place = path[0], _utf16(path[0])
    before = {key: item for key, item in value.items() if _utf16(key) < place}
    after = {key: item for key, item in value.items() if _utf16(key) > place}
    head = canonical_bytes(before)[:-1] + (b"," if before else b"") + canonical_bytes(name) + b":"
    tail = (b"," if after else b"") + canonical_bytes(after)[1:]
    inner = frame(value[name], path[1:]) if len(path) > 1 else (b"[", b"]")
    return head + inner[0], inner[1] + tail


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")


def pointer_to(path: Path) -> str:
    """Write ``path`` as a JSON pointer."""
    return "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in path)


def index_in(pointer: str, path: Path) -> int | None:
    """Tell in which item of the list the place of ``pointer`` is; None where it is in none."""
    head = pointer_to(path) + "/"
    if not pointer.startswith(head):
        return None
    index = pointer[len(head) :].partition("/")[0]
    return int(index) if index.isdecimal() else None


def tags_by_item(types: Tags, path: Path, count: int) -> tuple[Tags, tuple[Tags, ...]]:
    """Part type tags by the item that they are of, and those that are of none."""
    if not types:
        return NO_TAGS, (NO_TAGS,) * count
    rest: dict[str, JsonValue] = {}
    found: defaultdict[int, dict[str, JsonValue]] = defaultdict(dict)
    head = pointer_to(path)
    for pointer, tag in types.items():
        index = index_in(pointer, path)
        if index is None or index >= count:
            rest[pointer] = tag
        else:
            found[index][pointer.removeprefix(f"{head}/{index}")] = tag
    return rest, tuple(found.get(index, NO_TAGS) for index in range(count))

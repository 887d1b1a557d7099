"""A JSON text after some of its strings and numbers were replaced, all else in it kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_SCALAR = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*"|[^\s{}\[\],:"]++')


def respell(text: str, old: Any, new: Any) -> str:
    """Return the JSON text of ``new``, spelt as ``text`` spells ``old`` of the same shape."""
    tokens = _SCALAR.finditer(text)
    parts: list[str] = []
    position = 0
    for token, before, after in zip(tokens, _scalars(old), _scalars(new), strict=True):
        parts.append(text[position : token.start()])
        unchanged = before is after or before == after
        parts.append(token[0] if unchanged else json.dumps(after, ensure_ascii=False))
        position = token.end()
    parts.append(text[position:])
    return "".join(parts)


def _scalars(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from _scalars(item)
    elif isinstance(value, list):
        for item in value:
            yield from _scalars(item)
    else:
        yield value

"""Codecs that users register for classes of their own.

A codec's name is what stored data refers to; the class itself is never looked up by it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import JsonValue

from tracekit.canonical.builtins import READERS
from tracekit.canonical.classes import name_class
from tracekit.canonical.encoding import CLASS_RULES, Encoder, Handler, Task, describe
from tracekit.errors import NotReplayable
from tracekit.interruption import pass_on

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Codec:
    cls: type
    to_json: Callable[[Any], object]
    from_json: Callable[[Any], object]


_by_class: dict[type, str] = {}
_by_name: dict[str, _Codec] = {}


def register_codec(
    cls: type[T],
    to_json: Callable[[T], object],
    from_json: Callable[[Any], T],
    *,
    name: str | None = None,
) -> None:
    """Keep values of ``cls`` and its subclasses by two functions; a second call replaces the first.

    Args:
        cls: The class. It wins over every built-in treatment except that of Python's own types.
        to_json: Gives what to keep; it may hold anything that can be encoded itself.
        from_json: Gives the value back. It runs when stored data is read, so it must trust nothing.
        name: What stored data calls it; by default the class path.
    """
    codec_name = name or name_class(cls)
    _by_class[cls] = codec_name
    _by_name[codec_name] = _Codec(cls, to_json, from_json)


def _find_codec(kind: type) -> Handler | None:
    if not _by_class:
        return None
    for base in type.__dict__["__mro__"].__get__(kind):
        name = _by_class.get(base)
        if name is not None:
            return _make_handler(name)
    return None


def _make_handler(name: str) -> Handler:
    def write(encoder: Encoder, task: Task) -> JsonValue:
        view: list[JsonValue] = [None]
        try:
            kept = _by_name[name].to_json(task.obj)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  # the user's code may raise anything at all
            pass_on(error)
            encoder.give_up(task, f"its codec raised {type(error).__name__}")
            return describe(task.obj)
        encoder.tag(task, ["codec", name])
        encoder.defer(task, [(kept, view, 0, "/0")])
        return view

    return write


def _read(view: Any, rest: list[Any]) -> object:
    codec = _by_name.get(rest[0])
    if codec is None:
        raise NotReplayable(
            f"no codec is registered under {rest[0]!r}",
            hint="register it with tracekit.canonical.register_codec before the value is rebuilt",
        )
    return codec.from_json(view[0])


CLASS_RULES.insert(0, _find_codec)
READERS["codec"] = _read

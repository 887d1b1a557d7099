"""Any Python value as plain JSON, with the types that JSON lacks noted beside it.

The one idea: what is stored is a JSON value that people, matchers and redaction can read, and
beside it a table from JSON pointer to type tag. Digests are over the JSON value alone; tags say
nothing but types, so redacting the value is enough. Key order and the difference of 42 and 42.0
are in the value: store it with ``json_bytes``, never as its canonical text. A value that cannot be
kept becomes a typed description and the whole is marked as not replayable.

Encoding never raises, never runs a user's ``__repr__``, ``__eq__`` or property (a registered codec
excepted), never recurses through data and keeps no reference to the object.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import orjson
from pydantic import JsonValue

from tracekit.canonical.classes import is_rebuildable, name_class
from tracekit.canonical.text import LONG_TEXT, SAFE_INT
from tracekit.errors import NotRecorded
from tracekit.interruption import Suppressed, pass_on

MAX_DEPTH = 200
"""Containers deeper than this are described."""
MAX_ELEMENTS = 2_000_000
"""A value with more elements than this, shared ones counted each time, is described as a whole."""
MAX_OBJECTS = 500_000
"""And so is one with more objects that need a closer look; so many take about a second."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """A Python value as JSON."""

    value: JsonValue
    """The plain JSON view: what is shown, matched, redacted and digested."""
    types: Mapping[str, JsonValue] = field(default_factory=dict)
    """JSON pointer to type tag, for what JSON cannot carry; empty for plain JSON."""
    replayable: bool = True
    """Whether ``decode`` can rebuild the value."""
    problems: tuple[str, ...] = ()
    """What could not be kept, one sentence each."""


class Stream(list[Any]):
    """What a generator yielded, where it did not just end.

    ``raised`` and ``returned``: with what, it stands last; ``left``: its reader went away;
    ``over``: it did just end, but its reader had sent something in.
    """

    def __init__(self, items: Iterable[Any], end: str, sent: Iterable[Any] = ()) -> None:
        super().__init__(items)
        self.end = end
        self.sent = tuple(sent)
        """What its reader sent or threw in, each behind the items before it; see ``sent``."""
        self.unsent = {entry["behind"]: entry for entry in self.sent}
        """What a reader of these items has not sent yet, by how many items come before."""
        self.read_on: Callable[[], NoReturn] = _nothing_more
        """What happens to a reader who goes on where the recorded one went away."""
        self.withheld: Callable[[], Awaitable[NoReturn]] | None = None
        """Waits until the reader is cancelled, as the recorded one was behind the last item."""


def _nothing_more() -> NoReturn:
    raise NotRecorded(NOTHING_MORE)


NOTHING_MORE = "the recorded reader of this stream stopped here: not in the recording"


class TooLarge(Exception):
    """The value has more elements than are kept; never leaves this package."""


def encode(obj: object) -> Encoded:
    """Encode any Python value; it never raises, and what cannot be kept is described."""
    try:
        plain = _copy_plain(obj)
        if plain is not _NOT_PLAIN:
            return Encoded(plain)  # type: ignore[arg-type]  # what was asked
        return Encoder().run(obj)
    except TooLarge:
        return _describe_whole(obj, "it has too many elements to keep")
    except Exception as error:  # noqa: BLE001  # the traced program is never the victim
        pass_on(error)
        return _describe_whole(obj, f"it raised {type(error).__name__} while it was read")


def _describe_whole(obj: object, reason: str) -> Encoded:
    return Encoded(describe(obj), replayable=False, problems=(f"{_name_type(obj)}: {reason}",))


def describe(obj: object) -> dict[str, JsonValue]:
    """Describe a value that is not kept: its type and, where it is safe to ask, its size."""
    facts: dict[str, JsonValue] = {"type": _name_type(obj)}
    if any(type(obj) is sized for sized in _SIZED):
        with Suppressed(ValueError):  # a view that was released has none any more
            facts["size"] = len(obj)  # type: ignore[arg-type]  # the builtin types have a length
    return {"$unreplayable": facts}


def _name_type(obj: object) -> str:
    try:
        return name_class(type(obj))
    except Exception as error:  # noqa: BLE001  # a metaclass may do anything
        pass_on(error)
        return "unknown:unknown"


_SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset, range, memoryview)
_NOT_PLAIN = object()


def _copy_plain(obj: object) -> object:
    """Copy a value of nothing but plain JSON, or answer ``_NOT_PLAIN``.

    One typed walk that copies as it goes; ``orjson`` alone would be no test, since it takes tuples
    for lists, enums for their values and NaN for null. Types are compared by ``is``, since a
    metaclass may forbid to hash its class.
    """
    root = [obj]
    stack: list[tuple[Any, int]] = [(root, 0)]
    count = 0
    while stack:
        node, depth = stack.pop()
        count += len(node)
        if depth > MAX_DEPTH or count > MAX_ELEMENTS:
            return _NOT_PLAIN
        if type(node) is dict:
            if not all(type(key) is str for key in node):
                return _NOT_PLAIN
            items: Iterable[tuple[Any, Any]] = node.items()
        else:
            items = enumerate(node)
        nested = []
        for key, child in items:
            kind = type(child)
            if (kind is str and len(child) <= LONG_TEXT) or kind is bool or child is None:
                continue
            if kind is dict or kind is list:
                nested.append((key, child.copy()))
            elif not _is_plain_number(child):
                return _NOT_PLAIN
        for key, copy in nested:
            node[key] = copy
            stack.append((copy, depth + 1))
    try:
        orjson.dumps(root)
    except TypeError:  # a lone surrogate, or deeper than orjson goes
        return _NOT_PLAIN
    return root[0]


def _is_plain_number(obj: object) -> bool:
    if type(obj) is int:
        return -SAFE_INT <= obj <= SAFE_INT
    return type(obj) is float and obj - obj == 0


def _is_plain_atom(obj: object) -> bool:
    if type(obj) is str:
        return obj.isascii()
    return type(obj) is bool or obj is None or _is_plain_number(obj)


class Task(NamedTuple):
    """A value on its way to its place in the view."""

    obj: object
    into: Any
    key: Any
    pointer: str
    depth: int


class _Leave:
    """Says on the stack that a container is complete; holds it so that its ``id`` stays its own."""

    __slots__ = ("obj",)

    def __init__(self, obj: object) -> None:
        self.obj = obj


class Encoder:
    """The careful walk: one stack, one table of handlers by exact type."""

    def __init__(self, *, parent: Encoder | None = None) -> None:
        self.types: dict[str, JsonValue] = {}
        self.problems: list[str] = []
        self.replayable = True
        self._stack: list[Task | _Leave] = []
        self._open: set[int] = set() if parent is None else parent._open
        self._count: list[int] = [0, 0] if parent is None else parent._count

    def run(self, obj: object, *, depth: int = 0) -> Encoded:
        """Encode ``obj`` and everything in it."""
        root: list[JsonValue] = [None]
        self._stack.append(Task(obj, root, 0, "", depth))
        while self._stack:
            task = self._stack.pop()
            if isinstance(task, _Leave):
                self._open.discard(id(task.obj))
                continue
            self._take(objects=1)
            task.into[task.key] = self._encode_one(task)
        return Encoded(root[0], self.types, self.replayable, tuple(dict.fromkeys(self.problems)))

    def nested(self, obj: object, depth: int, *, within: object = None) -> Encoded:
        """Encode a value that must be known before its place is: a set's element, a dict's key.

        Args:
            obj: The value.
            depth: Its depth.
            within: The value that it belongs to, if it may hold that again.
        """
        if depth > MAX_DEPTH:
            return _describe_whole(obj, f"nested deeper than {MAX_DEPTH}")
        if within is None:
            return Encoder(parent=self).run(obj, depth=depth)
        self._open.add(id(within))
        try:
            return Encoder(parent=self).run(obj, depth=depth)
        finally:
            self._open.discard(id(within))

    def graft(self, part: Encoded, pointer: str) -> JsonValue:
        """Take a nested result over at its place."""
        for sub_pointer, tag in part.types.items():
            self.types[pointer + sub_pointer] = tag
        self.problems.extend(part.problems)
        self.replayable = self.replayable and part.replayable
        return part.value

    def tag(self, task: Task, tag: JsonValue) -> None:
        """Note the type of the value at the task's place."""
        self.types[task.pointer] = tag

    def give_up(self, task: Task, reason: str) -> None:
        """Mark the whole as not replayable, and say why."""
        self.replayable = False
        place = f" at {task.pointer}" if task.pointer else ""
        self.problems.append(f"{_name_type(task.obj)}{place}: {reason}")

    def fill_list(self, task: Task, children: Iterable[object]) -> list[JsonValue]:
        """Give a list whose elements are encoded later."""
        waiting = list(children)
        view: list[JsonValue] = [None] * len(waiting)
        deferred = []
        for at, child in enumerate(waiting):
            if _is_plain_atom(child):
                view[at] = child  # type: ignore[call-overload]  # what was asked
            else:
                deferred.append((child, view, at, f"/{at}"))
        self._take(atoms=len(waiting) - len(deferred))
        self.defer(task, deferred)
        return view

    def fill_dict(self, task: Task, children: Mapping[str, object]) -> dict[str, JsonValue]:
        """Give an object whose members are encoded later."""
        view: dict[str, JsonValue] = dict.fromkeys(children)
        deferred = []
        for name, child in children.items():
            if _is_plain_atom(child):
                view[name] = child  # type: ignore[assignment]  # what was asked
            else:
                deferred.append((child, view, name, _escape(name)))
        self._take(atoms=len(children) - len(deferred))
        self.defer(task, deferred)
        return view

    def defer(self, task: Task, children: Iterable[tuple[object, Any, Any, str]]) -> None:
        """Encode later: each child, its container and key there, and its pointer from here."""
        self._open.add(id(task.obj))
        self._stack.append(_Leave(task.obj))
        depth = task.depth + 1
        tasks = [
            Task(child, into, key, task.pointer + pointer, depth)
            for child, into, key, pointer in children
        ]
        self._stack.extend(reversed(tasks))

    def _take(self, *, atoms: int = 0, objects: int = 0) -> None:
        self._count[0] += atoms
        self._count[1] += objects
        if self._count[0] > MAX_ELEMENTS or self._count[1] > MAX_OBJECTS:
            raise TooLarge

    def _encode_one(self, task: Task) -> JsonValue:
        obj = task.obj
        kind = type(obj)
        if _is_plain_atom(obj):
            return obj  # type: ignore[return-value]  # what was asked
        if id(obj) in self._open:
            self.give_up(task, "it contains itself")
            return {"$unreplayable": {"type": _name_type(obj), "cycle": True}}
        if task.depth > MAX_DEPTH:
            self.give_up(task, f"nested deeper than {MAX_DEPTH}")
            return describe(obj)
        try:
            return find_handler(kind)(self, task)
        except TooLarge:
            raise
        except Exception as error:  # noqa: BLE001  # the traced program is never the victim
            pass_on(error)
            self.give_up(task, f"it raised {type(error).__name__} while it was read")
            return describe(obj)


def mark_class(encoder: Encoder, task: Task, kind: str, *more: JsonValue) -> None:
    """Note of which class of a kind the value is."""
    cls = type(task.obj)
    encoder.tag(task, [kind, name_class(cls), *more])
    if not is_rebuildable(cls):
        encoder.give_up(task, "its class cannot be imported by its name")


Handler = Callable[[Encoder, Task], JsonValue]
HANDLERS: dict[type, Handler] = {}
"""How the values of exactly this type are encoded; filled by the modules that know the types."""
CLASS_RULES: list[Callable[[type], Handler | None]] = []
"""Asked in turn for any other class; the last one always answers."""


def _escape(name: str) -> str:
    return "/" + name.replace("~", "~0").replace("/", "~1")


def find_handler(kind: type) -> Handler:
    """Find how values of this class are encoded."""
    handler = HANDLERS.get(kind)
    if handler is not None:
        return handler
    for rule in CLASS_RULES:
        handler = rule(kind)
        if handler is not None:
            return handler
    return _give_description


def _give_description(encoder: Encoder, task: Task) -> JsonValue:
    encoder.give_up(task, "values of this type cannot be kept")
    return describe(task.obj)

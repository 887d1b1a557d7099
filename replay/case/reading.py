"""Reads case files. Whatever is wrong with one is told with line and column.

The YAML is the small part that JSON has counterparts for: no tags, no anchors, times stay text,
and ``yes`` is a word. So a case means the same to every reader, and cannot grow when it is read.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from replay.case.expected import Oracles
from replay.case.model import Case
from replay.case.parts import MISPLACED
from tracekit.canonical import JsonValue
from tracekit.errors import CaseError
from tracekit.textfiles import line_and_column, read_text

SUFFIX = ".case.yaml"
_TAG = "tag:yaml.org,2002:"
RESOLVERS = (
    (_TAG + "bool", re.compile(r"true|false"), "tf"),
    (_TAG + "null", re.compile(r"null|~|"), ["n", "~", ""]),
    (_TAG + "int", re.compile(r"-?(0|[1-9][0-9]*)"), "-0123456789"),
    (_TAG + "float", re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?"), "-0123456789"),
)
"""What an unquoted scalar means, where it is no text."""

_LOWEST, _HIGHEST, _LONGEST = -(2**63), 2**64 - 1, 20
"""Integers that reach a planner as they are, and the most signs of one."""
_MAX_DEPTH = 250
"""More than a record holds, and less than pydantic refuses."""
_WANTED = {
    "tuple_type": "a list is expected",
    "list_type": "a list is expected",
    "dict_type": "a mapping is expected",
    "model_type": "a mapping is expected",
}
"""What is told where pydantic's words are not those of a file."""
_LONE = re.compile(r"[\ud800-\udfff]")
"""Half of a character: no text that could be sent or written."""
Path_ = tuple[Hashable, ...]
P = TypeVar("P", bound=BaseModel)


class _Loader(yaml.SafeLoader):
    """Knows the scalars of JSON and refuses anchors and tags."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own name and type

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]  # PyYAML's types leave it out
        if getattr(event, "anchor", None) is not None:
            raise yaml.MarkedYAMLError(
                None, None, "anchors and aliases are not allowed", event.start_mark
            )
        if (tag := getattr(event, "tag", None)) is not None:
            said = f"the tag {tag.replace(_TAG, '!!')!r} is not allowed"
            raise yaml.MarkedYAMLError(None, None, said, event.start_mark)
        nested = isinstance(event, yaml.CollectionStartEvent)
        if nested and self._depth >= _MAX_DEPTH:
            raise yaml.MarkedYAMLError(None, None, "is nested too deeply", event.start_mark)
        self._depth += nested
        node = super().compose_node(parent, index)
        self._depth -= nested
        return node


for _tag, _pattern, _first in RESOLVERS:
    whole = re.compile(f"(?:{_pattern.pattern})$")
    _Loader.add_implicit_resolver(_tag, whole, list(_first))


def read_case(path: str | Path) -> Case:
    """Read a case file.

    Raises:
        CaseError: it cannot be read, or is no case; with line and column where there are any.
    """
    return parse_case(read_text(path), path=str(path))


def parse_case(text: str, *, path: str = "<case>") -> Case:
    """Read a case from its text; see ``read_case``."""
    return _parsed(Case, text, path, what="no case: a mapping with 'format' and 'name'")


def read_oracles(path: str | Path) -> Oracles:
    """Read a file that says what is expected, as a case does: ``expected`` and ``budgets``.

    Raises:
        CaseError: as for ``read_case``.
    """
    what = "no list of oracles: a mapping with 'expected' or 'budgets'"
    return _parsed(Oracles, read_text(path), str(path), what=what)


def _parsed(model: type[P], text: str, path: str, *, what: str) -> P:
    data, marks = _Tree(path).read(text)
    if not isinstance(data, dict):
        line, column = marks.get((), (1, 1))
        raise CaseError(f"is {what} is expected", path=path, line=line, column=column)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise _explained(error, data, marks, path, model) from None


class _Tree:
    """Turns YAML into JSON and notes where each part stands."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._marks: dict[Path_, tuple[int, int]] = {}

    def read(self, text: str) -> tuple[JsonValue, dict[Path_, tuple[int, int]]]:
        try:
            node = yaml.compose(text, _Loader)
            value = None if node is None else self._value(node, ())
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            said = error.problem or error.context or "is no YAML"
            if mark is None:
                raise CaseError(said, path=self._path) from None
            raise CaseError(
                said, path=self._path, line=mark.line + 1, column=mark.column + 1
            ) from None
        except yaml.reader.ReaderError as error:
            line, column = line_and_column(text, error.position)
            said = f"is no YAML: {error}".splitlines()[0]
            raise CaseError(said, path=self._path, line=line, column=column) from None
        except RecursionError:
            said = "is nested too deeply to be read from here"
            raise CaseError(said, path=self._path, line=1, column=1) from None
        return value, self._marks

    def _value(self, node: yaml.Node, at: Path_) -> JsonValue:
        self._marks.setdefault(at, _place(node))
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return dict(self._members(node, at))
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return [self._value(item, (*at, place)) for place, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        raise self._wrong(f"the tag {node.tag!r} is not allowed", node)

    def _members(self, node: yaml.MappingNode, at: Path_) -> Iterator[tuple[str, JsonValue]]:
        seen: set[str] = set()
        for key, item in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag != _TAG + "str":
                shown = f" {key.value!r}" if isinstance(key, yaml.ScalarNode) else ""
                raise self._wrong(f"the name{shown} is no text; put it in quotes", key)
            if key.value in seen:
                raise self._wrong(f"{key.value!r} stands here twice", key)
            seen.add(key.value)
            self._marks[(*at, key.value)] = _place(key)
            yield key.value, self._value(item, (*at, key.value))

    def _scalar(self, node: yaml.ScalarNode) -> JsonValue:
        text: str = node.value
        match node.tag.removeprefix(_TAG):
            case "str" if not _LONE.search(text):
                return text
            case "null" if node.style is None:
                return None
            case "bool" if node.style is None:
                return text == "true"
            case "int" if node.style is None:
                return self._whole(text, node)
            case "float" if node.style is None and abs(float(text)) != float("inf"):
                return float(text)
        raise self._wrong(f"{text[:40]!a} cannot be a value", node)

    def _whole(self, text: str, node: yaml.ScalarNode) -> int:
        number = int(text) if len(text) <= _LONGEST else None
        if number is None or not _LOWEST <= number <= _HIGHEST:
            shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
            raise self._wrong(f"{shown} has more than 64 bits; write it as text, in quotes", node)
        return number

    def _wrong(self, message: str, node: yaml.Node) -> CaseError:
        line, column = _place(node)
        return CaseError(message, path=self._path, line=line, column=column)


def _place(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def _explained(
    error: ValidationError,
    data: JsonValue,
    marks: dict[Path_, tuple[int, int]],
    path: str,
    model: type[BaseModel],
) -> CaseError:
    """Tell the first fault where it stands, and how many more there are."""
    found = error.errors(include_url=False, include_input=False)
    placed = sorted(
        ((marks.get(at := _in_file(_loc(fault), data), (1, 1)), at, fault) for fault in found),
        key=lambda entry: entry[0],
    )
    # Of a union every alternative complains; the one that got furthest is meant.
    first = placed[0][1]
    (line, column), at, fault = max(
        (entry for entry in placed if entry[1][: len(first)] == first), key=lambda e: len(e[1])
    )
    others = len({entry[0] for entry in placed}) - 1
    more = f" (and {others} more)" if others else ""
    return CaseError(_sentence(fault, at, model) + more, path=path, line=line, column=column)


def _loc(fault: Any) -> tuple[int | str, ...]:
    inside = fault["ctx"]["place"] if fault["type"] == MISPLACED else ()
    return (*fault["loc"], *inside)


def _in_file(loc: tuple[int | str, ...], data: JsonValue) -> Path_:
    """The part of a fault's place that stands in the file: names of alternatives do not."""
    at: list[Hashable] = []
    value: Any = data
    for part in loc:
        named = isinstance(value, dict) and part in value
        if named or (isinstance(value, list) and isinstance(part, int) and part < len(value)):
            value = value[part]
            at.append(part)
    return tuple(at)


def _sentence(fault: Any, at: Path_, model: type[BaseModel]) -> str:
    where, kind = ".".join(map(str, at)), fault["type"]
    if kind == "extra_forbidden":
        names = _names_at(model, at[:-1])
        close = get_close_matches(str(at[-1]), names, n=1)
        meant = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(names)}"
        return f"there is no field {where!r}; {meant}"
    if kind == "missing":
        missing = ".".join([*map(str, at), str(fault["loc"][-1])])
        return f"the field {missing!r} is missing"
    said = _WANTED.get(kind) or str(fault["msg"]).removeprefix("Value error, ")
    if kind in ("too_short", "too_long"):
        said = said.replace("Tuple", "list")
    if kind not in ("value_error", MISPLACED):
        said = said[0].lower() + said[1:]
    return f"{where}: {said}" if where else said


def _names_at(model: type[BaseModel], at: Path_) -> list[str]:
    """The names of the fields that may stand at a place of a file."""
    models: list[type[BaseModel]] = [model]
    for part in at:
        if isinstance(part, str):
            fields = [model.model_fields.get(part) for model in models]
            models = [m for f in fields if f is not None for m in _models_in(f.annotation)]
    return [f.alias or name for model in models for name, f in model.model_fields.items()]


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]

"""What the user asks to be redacted, checked when it is given and not when it is needed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tracekit.errors import UsageError
from tracekit.redact.names import Step, name_class, normal_name, parse_path, path_matches

Function = Callable[[str], "str | Sequence[tuple[int, int]] | None"]
"""A user's own detector: gives the spans of secrets in a text, or the text without them."""

Place = tuple[str | int, ...]
"""Where a value stands: keys of objects, and numbers of items of lists."""

_MOST_ITEMS = 2
"""A list in a list in a list is as deep as any: no name says what is in it."""
_PATTERN_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


@dataclass(frozen=True)
class Rules:
    """What counts as a secret.

    Raises:
        UsageError: a path, pattern or name cannot be understood.
    """

    fields: tuple[str, ...] = ()
    """Names (``password``: any key of that name, in any case) and paths (``$.card.number``)."""
    patterns: Mapping[str, str | re.Pattern[str]] = field(default_factory=dict)
    """Name of the kind → regular expression; its group ``secret``, if any, is what is replaced."""
    functions: tuple[Function, ...] = ()
    """Called with every text that has no rule of its own; None says that nothing was found."""
    builtin: bool = True
    """Whether the detectors and field names that come with tracekit apply."""

    def __post_init__(self) -> None:
        for name in self.patterns:
            if not _PATTERN_NAME.fullmatch(name):
                raise UsageError(
                    f"redaction pattern name {name!r} cannot be part of a placeholder",
                    hint="use lower-case letters, digits and _, beginning with a letter",
                )
        _ = self.names, self.paths, self.compiled

    @classmethod
    def from_user(cls, redact: Sequence[str | re.Pattern[str] | Function]) -> Rules:
        """Return the rules of ``tracekit.configure(redact=[...])``."""
        fields: list[str] = []
        patterns: dict[str, str | re.Pattern[str]] = {}
        functions: list[Function] = []
        for rule in redact:
            if isinstance(rule, str):
                fields.append(rule)
            elif isinstance(rule, re.Pattern):
                patterns[f"pattern_{len(patterns) + 1}"] = rule
            elif callable(rule):
                functions.append(rule)
            else:
                raise UsageError(
                    f"a redaction rule cannot be a {type(rule).__name__}",
                    hint="give a field name, a path ($.card.number), a pattern or a function",
                )
        return cls(fields=tuple(fields), patterns=patterns, functions=tuple(functions))

    @cached_property
    def names(self) -> frozenset[str]:
        """The user's field names, in the form in which names are compared."""
        return frozenset(normal_name(name) for name in self.fields if not name.startswith("$"))

    def shortest(self, place: Place) -> Place:
        """Return where the same fields hold as at ``place``; of such there are not many."""
        for at, step in enumerate(place):
            here = place[: at + 1]
            if any(path_matches(rule, [*here]) for rule in self.paths):
                return here
            if isinstance(step, str) and self._names_all(step):
                return (step, "") if at + 1 < len(place) else (step,)
        size = len(place)
        if waiting := self._waiting(place):  # what is no step of theirs could be any other
            named = [any(rule[at] == step for rule in waiting) for at, step in enumerate(place)]
            short = tuple(step if here else "" for step, here in zip(place, named, strict=True))
        else:
            short = ("",) * (max(map(len, self.paths), default=0) + 1)
        at = max((at for at, step in enumerate(place) if isinstance(step, str)), default=size)
        if at == size or not self.builtin or name_class(str(place[at])) is None:
            return short
        return (*(short[:at] if waiting else short), *place[at : at + 1 + _MOST_ITEMS])

    def steps_behind(self, place: Place) -> tuple[Step, ...]:
        """Return the next steps of the user's paths that lead over ``place``."""
        return tuple(rule[len(place)] for rule in self._waiting(place))

    def _waiting(self, place: Place) -> list[tuple[Step, ...]]:
        size = len(place)
        return [r for r in self.paths if len(r) > size and path_matches(r[:size], [*place])]

    def _names_all(self, name: str) -> bool:
        """Whether all under a name is secret, and not only texts."""
        return normal_name(name) in self.names or (self.builtin and name_class(name) == "secret")

    @cached_property
    def paths(self) -> tuple[tuple[Step, ...], ...]:
        """The user's paths, parsed."""
        return tuple(parse_path(path) for path in self.fields if path.startswith("$"))

    @cached_property
    def compiled(self) -> tuple[tuple[str, re.Pattern[str]], ...]:
        """The user's patterns, compiled."""
        try:
            compiled = [(name, re.compile(pattern)) for name, pattern in self.patterns.items()]
        except re.error as error:
            raise UsageError(
                f"redaction pattern {error.pattern!r} is no regular expression: {error}"
            ) from error
        for _, pattern in compiled:
            _check(pattern)
        return tuple(compiled)


def _check(pattern: re.Pattern[str]) -> None:
    """Refuse a pattern that cannot find a secret in a text."""
    if not isinstance(pattern.pattern, str):
        raise UsageError(
            f"redaction pattern {pattern.pattern!r} is for bytes, and texts are looked at",
            hint="write it without the b before the quote",
        )
    if pattern.search("") is not None:
        raise UsageError(
            f"redaction pattern {pattern.pattern!r} matches the empty text, so it says nothing",
            hint="let it match one character at least: + for *, no ? around all of it",
        )

"""What a planner must do and must not do: the oracles of a case and its budgets.

Each field says something by itself, and nothing where it is absent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, get_args

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from replay.case.parts import Amount, Count, Flag, Name, Part, Positive, Target
from replay.case.schema import check_schema
from tracekit.canonical import JsonValue
from tracekit.jsontree import parts

Reaction = Literal["correct", "other_tool", "ask", "repeat"]
"""What a planner may do after an error: the same tool with other arguments; another tool; no call,
but words to the user; the same call again."""
REACTIONS: tuple[Reaction, ...] = get_args(Reaction)


KeyUse = Literal["again", "another", "taken"]
"""What a call's declared idempotency key says beside the calls of the tool before: that of an equal
call (but for the key); an equal call had another; that of a call that is not equal."""


class CallPattern(Part):
    """Calls of a tool whose arguments hold at least these, at any depth."""

    tool: Name
    arguments: dict[str, JsonValue] | None = None
    key: KeyUse | None = None
    """What the idempotency key says that the tool declares: ``again``, that an equal call carried
    it before; ``another``, that one carried another; ``taken``, that another call carried it."""


class ArgumentRule(Part):
    """What an argument of a tool's calls must be; not met either where no call was made."""

    tool: Name
    pointer: str = ""
    """JSON pointer of the value; all arguments where it is empty."""
    call: Positive | None = None
    """Which call of the tool, from 1; each where it is absent."""
    equals: JsonValue = None
    json_schema: dict[str, JsonValue] | None = Field(default=None, alias="schema")

    @property
    def compares(self) -> bool:
        """Whether the rule names a value; null is one."""
        return "equals" in self.model_fields_set

    @field_validator("pointer")
    @classmethod
    def _pointer(cls, value: str) -> str:
        return _checked_pointer(value)

    @field_validator("json_schema")
    @classmethod
    def _schema(cls, value: dict[str, JsonValue] | None) -> dict[str, JsonValue] | None:
        return _checked_schema(value)

    @model_validator(mode="after")
    def _check(self) -> ArgumentRule:
        if self.compares == (self.json_schema is not None):
            raise ValueError("a rule for arguments has either 'equals' or 'schema'")
        return self

    @model_serializer(mode="wrap")
    def _written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        if self.compares:
            data.setdefault("equals", None)
        return data


class AnswerRule(Part):
    """What the final answer must be."""

    required: Flag = True
    contains: tuple[str, ...] = ()
    """Texts that stand in it, upper and lower case alike."""
    excludes: tuple[str, ...] = ()
    """Texts that do not."""
    matches: tuple[str, ...] = ()
    """Regular expressions that are found in it."""
    json_schema: dict[str, JsonValue] | None = Field(default=None, alias="schema")
    """Of the parsed answer."""

    @field_validator("matches")
    @classmethod
    def _patterns(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in value:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
        return value

    @field_validator("json_schema")
    @classmethod
    def _schema(cls, value: dict[str, JsonValue] | None) -> dict[str, JsonValue] | None:
        return _checked_schema(value)

    @model_serializer(mode="wrap")
    def _written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        return data or {"required": True}


class AfterError(Part):
    """What the planner does next after a call that failed."""

    tool: Name | None = None
    """The tool that failed; any where it is absent."""
    error: str | None = None
    """Class of the error; any where it is absent."""
    then: tuple[Reaction, ...] = ("correct", "other_tool", "ask")
    """What the next decision may be; the same call again is never among them unless named."""
    tries: Positive | None = None
    """How often in a row the tool may fail at most."""

    @field_validator("then")
    @classmethod
    def _then(cls, value: tuple[Reaction, ...]) -> tuple[Reaction, ...]:
        if not value:
            raise ValueError("'then' names at least one reaction: " + ", ".join(REACTIONS))
        return value


class Expected(Part):
    """What the planner must do and must not do."""

    forbidden_tools: tuple[Name | CallPattern, ...] = ()
    """Never proposed, whatever would have been answered."""
    required_tools: tuple[Name | CallPattern, ...] = ()
    call_limits: dict[str, Count] = Field(default_factory=dict)
    """Tool → most calls."""
    order: tuple[tuple[Name, Name], ...] = ()
    """The first call of the one comes before the first call of the other, if both are made."""
    arguments: tuple[ArgumentRule, ...] = ()
    evidence: tuple[Name, ...] = ()
    """Ids that the planner was shown and cites in its answer."""
    answer: AnswerRule | None = None
    invariants: tuple[Target, ...] = ()
    """Functions from the trajectory to what is wrong with it, or None."""
    no_repeat: Flag | Count = False
    """After an error, how often the same call may be made again; ``true``: never."""
    no_news: Flag | Count = False
    """How often a call may be made again that can tell nothing new: it did not fail, its arguments
    are the same, and since then nothing was written and the user said nothing; ``true``: never."""
    after_error: tuple[AfterError, ...] = ()
    """What comes after a call that failed."""
    consumed: tuple[Name, ...] = ()
    """Ids of observations that the planner must have been given for the case to say anything."""

    @property
    def tools(self) -> tuple[str, ...]:
        """The tools that are named, each once."""
        named = [one.tool for one in patterns((*self.forbidden_tools, *self.required_tools))]
        named += [*self.call_limits, *(tool for pair in self.order for tool in pair)]
        named += [rule.tool for rule in self.arguments]
        named += [rule.tool for rule in self.after_error if rule.tool is not None]
        return tuple(dict.fromkeys(named))

    @property
    def repeats(self) -> int | None:
        """How often a failed call may be repeated; None where nothing is said."""
        return _most(self.no_repeat)

    @property
    def idle_repeats(self) -> int | None:
        """How often a call that can tell nothing new may be made again; None: nothing is said."""
        return _most(self.no_news)


class Budgets(Part):
    """What the planner may use at most."""

    steps: Count | None = None
    """Decisions."""
    calls: Count | None = None
    """Tool calls."""
    seconds: Amount | None = None
    """By the planner's own clock, which the delays of observations advance."""
    tokens: Count | None = None
    cost_usd: Amount | None = None


class Oracles(Part):
    """What a planner is judged by, for itself: the part of a case that says so."""

    expected: Expected = Expected()
    budgets: Budgets = Budgets()

    @model_validator(mode="after")
    def _check(self) -> Oracles:
        if self.expected == Expected() and self.budgets == Budgets():
            raise ValueError("nothing is expected: 'expected' or 'budgets' is needed")
        if self.expected.consumed:
            raise ValueError("'consumed' is found out when a run is distilled")
        return self


def _most(value: object) -> int | None:
    if isinstance(value, bool):
        return 0 if value else None
    return value if isinstance(value, int) else None


def patterns(items: tuple[str | CallPattern, ...]) -> Iterator[CallPattern]:
    """Yield what a list of tools or calls means: a name alone is any call of that tool."""
    for item in items:
        yield CallPattern(tool=item) if isinstance(item, str) else item


def _checked_pointer(value: str) -> str:
    if value and not value.startswith("/"):
        raise ValueError(f"{value!r} is no JSON pointer; one begins with '/'")
    parts(value)
    return value


def _checked_schema(value: dict[str, JsonValue] | None) -> dict[str, JsonValue] | None:
    if value is not None:
        check_schema(value)
    return value

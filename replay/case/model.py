"""What a case holds, field by field.

Everything a planner is shown stands here: input, tools, observations, clock, chance. What it must
do and must not do stands under ``expected``. A field that says nothing is left out of the file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from pydantic import (
    AwareDatetime,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from replay.case.expected import Budgets, Expected
from replay.case.parts import (
    Delay,
    Flag,
    Name,
    Part,
    Positive,
    Share,
    Target,
    Title,
    Whole,
    wrong_at,
)
from replay.published import published_schema
from tracekit.canonical import JsonValue
from tracekit.contract import Contract

FORMAT: Literal["tracekit/case/v1"] = "tracekit/case/v1"
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_YEARS = (1700, 2400)
"""A clock counts nanoseconds from 1970 in 64 bits, and the planner's goes on from there."""
Layer = Literal[
    "guard",
    "tool contract",
    "planner",
    "planner with scripted model",
    "planner with recorded model",
    "live model",
]


class Source(Part):
    """Where a case comes from."""

    run: str | None = None
    """The run that it was distilled from."""
    digest: str | None = Field(default=None, pattern=r"^[0-9a-f]{12}$")
    """What that run did; another run that came to have its id is not what the case was made of."""
    redaction_key: str | None = None
    """Names the key that the placeholders in the case were made with."""
    planner: Target | None = None
    """The planner that fails it."""
    versions: dict[str, str] = Field(default_factory=dict)
    """Of the run: ``prompt`` and ``tool_schema``, as far as it carried them."""
    tools: dict[str, str] = Field(default_factory=dict)
    """Tool → the shape of its arguments, for the tools that the case is about."""


class Reason(Part):
    """Why the planner fails: what must stay the same while a case is reduced."""

    oracle: str
    """The field of ``expected`` or ``budgets`` that is not met; ``error``, ``loop`` or ``wall``."""
    tool: str | None = None
    """The tool of the offending call."""
    pointer: str | None = None
    """JSON pointer of the offending argument, or what part of the answer."""
    error: str | None = None
    """Class of the error, or which way the oracle was not met."""

    def __str__(self) -> str:
        parts = (self.tool, self.pointer, self.error)
        return " ".join([self.oracle.replace("_", " "), *(part for part in parts if part)])


class Rate(Part):
    """How often a planner fails that does not always."""

    failed: Positive
    """Runs in which it was seen to fail."""
    runs: Positive
    """Of so many."""
    low: Share
    """Its rate is at least that, with a confidence of 95 %."""
    high: Share
    """And at most that."""
    repeat: Positive
    """So often the case is run: one that fails at the lowest rate then fails once in 99 of 100."""

    @model_validator(mode="after")
    def _check(self) -> Rate:
        if not (self.failed <= self.runs and self.low <= self.high):
            raise ValueError("a rate is so many of more runs, and low is below high")
        return self

    def __str__(self) -> str:
        return f"{self.failed} of {self.runs} runs ({self.low:.0%} to {self.high:.0%})"


class Said(Part):
    """A message that a planner which decides is shown before its first decision."""

    role: Literal["system", "user", "assistant", "tool"]
    content: JsonValue = None
    tool_calls: tuple[dict[str, JsonValue], ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    error: str | None = None


class ProposedCall(Part):
    """A tool call, as a planner proposes it."""

    tool: Name
    arguments: dict[str, JsonValue] = Field(default_factory=dict)


class ScriptedDecision(Part):
    """What the recorded model decided once."""

    calls: tuple[ProposedCall, ...] = ()
    message: JsonValue = None


class Reply(Part):
    """What the model answers."""

    value: JsonValue
    prompt: str | None = None
    """Prompt hash that it answers; any prompt where it is absent."""


class ModelScript(Part):
    """A model that is not asked over the network."""

    script: Target | None = None
    """A function from the request to the reply."""
    replies: tuple[Reply, ...] = ()
    """Replies in the order of asking."""

    @model_validator(mode="after")
    def _check(self) -> ModelScript:
        if (self.script is None) == (not self.replies):
            raise ValueError("a model is either a script or replies")
        return self


class Fault(Part):
    """An error that a tool answers with."""

    type: Name
    message: str | None = None
    value: JsonValue = None
    """What the record holds of the exception beside its class and text."""


class Fixture(Part):
    """What a tool answers: a second fixture that fits the same call answers its second time."""

    id: Title
    tool: Name
    arguments: dict[str, JsonValue] | None = None
    """Arguments that the call must have at least, at any depth; absent fits any call."""
    returns: JsonValue = None
    error: Fault | None = None
    times: Positive | Literal["every"] = 1
    """How many calls it answers."""
    delay_ms: Delay = 0
    """By how much the planner's clock is later when it has the answer."""
    types: dict[str, JsonValue] = Field(default_factory=dict)
    """JSON pointer in ``returns`` → type that JSON cannot carry."""

    @model_validator(mode="after")
    def _check(self) -> Fixture:
        if self.error is not None and "returns" in self.model_fields_set:
            raise ValueError("an observation either returns something or is an error")
        if self.error is None and "returns" not in self.model_fields_set:
            raise ValueError("an observation has 'returns' or 'error'")
        return self

    @model_serializer(mode="wrap")
    def _written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        if self.error is None:
            data.setdefault("returns", None)
        return data


class Minted(Part):
    """A clock, id or random value that the recorded planner was given."""

    kind: str
    site: str
    occurrence: Whole
    value: JsonValue


class Case(Part):
    """One failure of one planner, as small as it still happens."""

    format: Literal["tracekit/case/v1"]
    """The version of this file's form."""
    name: Title
    source: Source | None = None
    planner: Target | None = None
    """The planner that is run where no other is named."""
    reason: Reason | None = None
    """Why the planner of ``source`` fails."""
    rate: Rate | None = None
    """How often it does, where not always; the case is run so often then."""
    fix: Literal["proven", "unproven"] | None = None
    """Whether a planner was seen to pass."""
    layer: Layer | None = None
    """The lowest layer at which it still fails."""
    minimal: Flag | None = None
    """Whether removing any one part was seen to make it pass, or fail otherwise."""
    input: JsonValue = None
    """Arguments of the agent; the user's words for a planner that decides."""
    input_types: dict[str, JsonValue] = Field(default_factory=dict)
    """JSON pointer in ``input`` → type that JSON cannot carry."""
    history: tuple[Said, ...] = ()
    """Messages before the first decision; ``input`` as the user's where there are none."""
    turns: tuple[JsonValue, ...] = ()
    """What the user says next, each time that a planner which decides has come to its answer."""
    identity: dict[str, str] = Field(default_factory=dict)
    """Tenant and operator of the run."""
    clock: AwareDatetime | None = None
    """Time at which the planner begins."""
    seed: Whole | None = None
    """Of the planner's random numbers and ids."""
    minted: tuple[Minted, ...] = ()
    tools: tuple[Contract, ...] = ()
    """What the planner is offered, and what is known of each."""
    script: tuple[ScriptedDecision, ...] = ()
    """Decisions of the recorded model, for a planner that takes them."""
    model: Literal["live"] | ModelScript | None = None
    """Who answers the planner's requests to a model; nobody where absent."""
    observations: tuple[Fixture, ...] = ()
    expected: Expected = Expected()
    budgets: Budgets = Budgets()
    passes: tuple[ScriptedDecision, ...] = ()
    """Decisions that pass: they show that it can turn green where no planner is known that does."""

    @field_validator("clock", mode="before")
    @classmethod
    def _time(cls, value: Any) -> Any:
        # Digits would be taken for seconds.
        if isinstance(value, (bool, int, float)) or (
            isinstance(value, str) and not _DAY.match(value)
        ):
            raise ValueError(f"{value!r} is no time; one is like '2026-11-30T10:20:00Z'")
        return value

    @field_validator("clock")
    @classmethod
    def _countable(cls, value: datetime | None) -> datetime | None:
        if value is not None and not _YEARS[0] <= value.year < _YEARS[1]:
            raise ValueError(f"the year {value.year} is not from {_YEARS[0]} to {_YEARS[1] - 1}")
        return value

    @model_validator(mode="after")
    def _check(self) -> Case:
        ids = [fixture.id for fixture in self.observations]
        if (place := _second(ids)) is not None:
            said = f"two observations have the id {ids[place]!r}"
            raise wrong_at("observations", place, "id", said=said)
        names = [tool.name for tool in self.tools]
        if (place := _second(names)) is not None:
            raise wrong_at("tools", place, "name", said=f"{names[place]!r} is offered twice")
        for place, name in enumerate(self.expected.consumed):
            if name not in ids:
                raise wrong_at("expected", "consumed", place, said=f"{name!r} is no observation")
        if self.expected == Expected() and self.budgets == Budgets():
            raise ValueError("nothing is expected: a case needs 'expected' or 'budgets'")
        return self

    @property
    def needs_live_model(self) -> bool:
        """Whether it can only be run with a model at hand."""
        return self.model == "live"

    @property
    def repeat(self) -> int:
        """How often it is run, at least, before it is passed."""
        return 1 if self.rate is None else self.rate.repeat

    def as_data(self) -> dict[str, Any]:
        """Return the case as JSON, without what says nothing."""
        data = self.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        data.pop("format", None)
        return {"format": self.format, **data}


def _second(names: Sequence[str]) -> int | None:
    """Find the first name that stands before already."""
    seen: set[str] = set()
    for place, name in enumerate(names):
        if name in seen:
            return place
        seen.add(name)
    return None


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of case files, for editors."""
    return published_schema(Case, FORMAT)

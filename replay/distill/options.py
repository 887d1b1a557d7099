"""How a run is distilled: which failure, who answers prompts, what it may cost, where it goes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from replay.case.parts import Title
from replay.distill.problem import Budget
from replay.distill.question import Wish
from replay.replayer import ReplayOptions
from tracekit.errors import UsageError

_TITLE: TypeAdapter[str] = TypeAdapter(Title)


@dataclass(frozen=True)
class DistillOptions:
    """How a run is distilled."""

    wish: Wish = field(default_factory=Wish)
    model: Literal["recorded", "live", "scripted"] = "recorded"
    script: str | None = None
    """``MOD:OBJ`` of a function from the request to the reply; for ``scripted``."""
    budget: Budget = field(default_factory=Budget)
    replay: ReplayOptions = field(default_factory=ReplayOptions)
    """Isolation, limits and environment of the planners."""
    out: Path | None = None
    """Folder that the case is written to; None writes nothing."""
    name: str | None = None
    """What the case is called."""
    workers: int = 1
    """How many candidates are tried at once; no more than may be tried at all, and 32."""
    answers: Path | None = None
    """File that answers are kept in, and taken from where it was there; None keeps none."""
    flaky: bool = False
    """Whether the planner may fail only sometimes."""

    @property
    def running(self) -> ReplayOptions:
        """How planners are run on candidates."""
        if self.model == "recorded":
            return self.replay
        return replace(self.replay, model=self.model, model_script=self.script)

    def __post_init__(self) -> None:
        """Refuse a name that no case can have, before anything is searched."""
        if self.name is not None:
            try:
                _TITLE.validate_python(self.name, strict=True)
            except ValidationError as error:
                raise UsageError(
                    f"no case can be called {self.name!r}: a name is one line of 1 to 200 signs "
                    "that can be printed"
                ) from error

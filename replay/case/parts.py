"""What all parts of a case are made of: the form of a part, and of names, targets and counts."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("holds signs that cannot be printed on one line")
    return text


Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Title = Annotated[Name, AfterValidator(_printable)]

Target = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")]
"""``MOD:OBJ``."""
Count = Annotated[int, Field(ge=0)]


class Part(BaseModel):
    """A part of a case: never changed, and without a field that nobody knows."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

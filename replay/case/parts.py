"""What all parts of a case are made of: the form of a part, and of names, targets and counts."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError

MISPLACED = "misplaced"
"""Kind of a fault that is found in a whole and stands in one of its parts."""


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("holds signs that cannot be printed on one line")
    return text


Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Title = Annotated[Name, AfterValidator(_printable)]

Target = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$")]
"""``MOD:OBJ``."""
# A file's values are taken as what they are: neither '8' nor true is a number, nor 1 a truth value.
Flag = Annotated[bool, Field(strict=True)]
Whole = Annotated[int, Field(strict=True)]
Number = Annotated[float, Field(strict=True)]
Count = Annotated[Whole, Field(ge=0)]
Positive = Annotated[Whole, Field(ge=1)]
Amount = Annotated[Number, Field(ge=0)]
Delay = Annotated[Number, Field(ge=0, le=3.2e11)]
"""Milliseconds, up to ten years."""
Share = Annotated[Number, Field(gt=0, le=1)]


class Part(BaseModel):
    """A part of a case: never changed, and without a field that nobody knows."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def wrong_at(*place: str | int, said: str) -> PydanticCustomError:
    """Return the fault of the part at ``place``, which only shows beside other parts."""
    return PydanticCustomError(MISPLACED, "{said}", {"said": said, "place": place})

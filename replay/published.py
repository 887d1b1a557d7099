"""What is published of the JSON that commands write: models, and the schemas made from them.

The models state the form a second time, apart from the code that writes it: a test holds the two
together, so that no name is changed by accident.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Published(BaseModel):
    """A part of what a command writes."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


def published_schema(model: type[BaseModel], form: str) -> dict[str, Any]:
    """Return the JSON Schema of a form that is named in its ``format``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": form,
        **model.model_json_schema(),
    }

"""What ``doctor`` found, as a value: facts, findings that need somebody, and advice."""

from __future__ import annotations

from dataclasses import dataclass, field

from tracekit.canonical import JsonValue
from tracekit.cli.text import one_line
from tracekit.errors import TracekitError

_WIDTH = 400


@dataclass
class Diagnosis:
    """Facts, what somebody should look at, and what might be better."""

    facts: dict[str, str] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    unreadable: TracekitError | None = None
    """Why the store could not be looked at; what stands beside it is still told."""

    def as_dict(self) -> dict[str, JsonValue]:
        """Give the diagnosis as JSON values."""
        error = [] if self.unreadable is None else [str(self.unreadable)]
        return {
            "facts": dict(self.facts),
            "findings": [*(one_line(text, _WIDTH) for text in self.findings), *error],
            "advice": [one_line(text, _WIDTH) for text in self.advice],
        }

    def as_lines(self) -> list[tuple[str, str]]:
        """Give what is told as pairs of a label and a sentence."""
        return [
            *self.facts.items(),
            *(("advice", one_line(text, _WIDTH)) for text in self.advice),
            *(("finding", one_line(text, _WIDTH)) for text in self.findings),
        ]

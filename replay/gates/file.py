"""The gate file: a small TOML file, checked whole before anything is measured.

What is wrong is told with line and column. A key that is none of the file's is refused with the
list of those that are, since a gate that is silently not there lets everything through.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, cast

from replay.gates.grammar import NoGate, Rule, parse_rule
from replay.gates.places import place_of_key, place_of_text
from tracekit.errors import CaseError
from tracekit.textfiles import line_and_column, parse_toml, read_text, shown

Leniency = Literal["fail", "warn", "pass"]
"""What an inconclusive gate comes to: it fails, passes with a warning, or passes."""

_LENIENCIES = ("fail", "warn", "pass")
_KEYS = ("confidence", "expect_differs", "gates", "inconclusive", "unpaired")
_GATE_KEYS = ("check", "inconclusive", "name")


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate."""

    name: str
    """What to call it; the line itself, unless the file says otherwise."""
    text: str
    rule: Rule
    inconclusive: Leniency
    """Always ``fail`` where safety is judged."""


@dataclass(frozen=True, slots=True)
class GateFile:
    """What a release hangs on."""

    path: str
    gates: tuple[Gate, ...]
    confidence: float = 0.95
    """Of every interval, two-sided."""
    expect_differs: tuple[str, ...] = ()
    """Names of versions that are meant to differ between baseline and candidate."""
    unpaired: Leniency = "fail"
    """What it comes to where a run of either side has no partner."""

    @property
    def needs_pairs(self) -> bool:
        """Whether a gate compares with the baseline."""
        return any(gate.rule.needs_pairs for gate in self.gates)


def read_gates(path: str | Path) -> GateFile:
    """Read a gate file.

    Raises:
        CaseError: it cannot be read, or is none; with line and column, where there is one.
    """
    return parse_gates(read_text(path), path=str(path))


def parse_gates(text: str, *, path: str = "gates.toml") -> GateFile:
    """Read the text of a gate file.

    Raises:
        CaseError: it is none.
    """
    document = parse_toml(text, path=path)
    return _Reader(text, path).read(document)


@dataclass(frozen=True, slots=True)
class _Reader:
    text: str
    path: str

    def read(self, document: Mapping[str, Any]) -> GateFile:
        """Check and take every key."""
        self._known(document, _KEYS, "a gate file")
        lenient = self._leniency(document, "inconclusive")
        listed = document.get("gates")
        if not isinstance(listed, list) or not listed:
            raise self._fault(
                "there are no gates; write: gates = ["
                '"task_success_delta >= -3pp"], or [[gates]] with check = "..."',
                "gates",
            )
        return GateFile(
            path=self.path,
            gates=tuple(self._gate(entry, lenient) for entry in listed),
            confidence=self._confidence(document.get("confidence", 0.95)),
            expect_differs=self._names(document.get("expect_differs", [])),
            unpaired=self._leniency(document, "unpaired"),
        )

    def _gate(self, entry: object, lenient: Leniency) -> Gate:
        if isinstance(entry, str):
            rule = self._rule(entry)
            return Gate(entry, entry, rule, "fail" if rule.safety else lenient)
        if not isinstance(entry, dict):
            raise self._fault(
                f"{shown(entry)} is no gate: a text, or a table with 'check'", "gates"
            )
        self._known(entry, _GATE_KEYS, "a gate")
        check = entry.get("check")
        if not isinstance(check, str):
            raise self._fault("a gate has no 'check', the text that says what must hold", "gates")
        name = entry.get("name", check)
        if not isinstance(name, str) or not name.strip():
            raise self._fault(f"{shown(name)} is no name", "name")
        rule = self._rule(check)
        own = self._leniency(entry, "inconclusive") if "inconclusive" in entry else lenient
        if rule.safety and own != "fail" and "inconclusive" in entry:
            raise self._fault(
                "a safety gate knows no leniency: what nobody looked at may be unsafe",
                "inconclusive",
                after=place_of_text(self.text, check),
            )
        return Gate(name, check, rule, "fail" if rule.safety else own)

    def _rule(self, text: str) -> Rule:
        try:
            return parse_rule(text)
        except NoGate as error:
            raise self._at(str(error), place_of_text(self.text, text, error.at)) from error

    def _known(self, table: Mapping[str, Any], keys: Iterable[str], what: str) -> None:
        for key in table:
            if key not in keys:
                close = get_close_matches(key, list(keys), n=1)
                meant = f"; did you mean {close[0]!r}?" if close else "."
                raise self._fault(
                    f"{what} has no key {shown(key)}{meant} It has: {', '.join(keys)}", key
                )

    def _leniency(self, table: Mapping[str, Any], key: str) -> Leniency:
        value = table.get(key, "fail")
        if value not in _LENIENCIES:
            raise self._fault(f"{key} is one of {', '.join(_LENIENCIES)}, not {shown(value)}", key)
        return cast(Leniency, value)

    def _confidence(self, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.5 <= value < 1:
            raise self._fault(
                f"confidence is from 0.5 to below 1, not {shown(value)}", "confidence"
            )
        return float(value)

    def _names(self, value: object) -> tuple[str, ...]:
        if isinstance(value, list) and all(isinstance(name, str) for name in value):
            return tuple(value)
        raise self._fault(
            f"expect_differs is a list of names, not {shown(value)}", "expect_differs"
        )

    def _fault(self, message: str, key: str, *, after: int | None = None) -> CaseError:
        return self._at(message, place_of_key(self.text, key, after=after or 0))

    def _at(self, message: str, place: int | None) -> CaseError:
        line, column = (None, None) if place is None else line_and_column(self.text, place)
        return CaseError(message, path=self.path, line=line, column=column)

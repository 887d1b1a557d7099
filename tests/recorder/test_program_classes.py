"""Classes of the program itself: kept under the name by which a replay imports their module."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tracekit.canonical import decode, encode
from tracekit.canonical.classes import find_class, is_rebuildable, name_class

CODE = """
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

class Currency(Enum):
    EUR = "eur"

class Point(NamedTuple):
    x: int

@dataclass
class Money:
    cents: int
    currency: Currency
"""


def load(name: str, file: Path, patch: pytest.MonkeyPatch) -> Any:
    file.write_text(CODE, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    patch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What ``python desk.py`` runs."""
    main = load("__main__", tmp_path / "desk.py", monkeypatch)
    main.__spec__ = None
    return main


def test_what_a_class_of_the_program_holds_is_kept_whole(program: Any) -> None:
    made = [program.Money(42, program.Currency.EUR), program.Point(1)]
    kept = encode(made)
    assert kept.replayable
    assert kept.types["/0"] == ["dataclass", "desk:Money"]
    assert decode(kept) == made


def test_a_replay_that_imports_the_program_rebuilds_it(
    program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = encode(program.Money(42, program.Currency.EUR))
    imported = load("desk", tmp_path / "desk.py", monkeypatch)
    made: Any = decode(kept)
    assert type(made) is imported.Money
    assert made == imported.Money(42, imported.Currency.EUR)
    assert is_rebuildable(program.Money)  # here too, where both are loaded
    assert find_class("desk:Money") is imported.Money


def test_a_program_without_a_name_names_no_class(program: Any) -> None:
    program.__file__ = str(Path("/somewhere/not a module.py"))
    assert name_class(program.Money) == "__main__:Money"
    assert not encode(program.Point(1)).replayable


def test_a_program_that_was_run_by_its_module_has_that_name(program: Any) -> None:
    program.__spec__ = types.SimpleNamespace(name="agents.desk")
    assert name_class(program.Money) == "agents.desk:Money"
    assert encode(program.Point(1)).replayable

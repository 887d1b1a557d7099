"""Effects of tools: the user's file and the one that is shipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from tracekit.errors import CaseError, UsageError
from tracekit.importers import effect_of, load_effects, shipped_effects


def test_the_shipped_file_is_found_by_its_name() -> None:
    assert shipped_effects() == ("agentdyn",)
    effects = load_effects("agentdyn")
    assert set(effects.values()) == {"read", "write"}
    reads_that_act = ("browse_webpage", "get_unread_emails", "get_invoice")
    assert {effects[tool] for tool in reads_that_act} == {"write"}
    assert effects["read_file"] == "read"


def test_an_exact_name_wins_over_a_glob_and_an_earlier_glob_over_a_later(tmp_path: Path) -> None:
    path = tmp_path / "effects.toml"
    path.write_text('"get_*" = "read"\n"get_secret_*" = "write"\nget_and_reset = "write"\n')
    effects = load_effects(path)
    asked = ("get_user", "get_secret_key", "get_and_reset", "send")
    assert [effect_of(tool, effects) for tool in asked] == ["read", "read", "write", "unknown"]


def test_json_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "effects.json"
    path.write_text('{"a": "pure", "b.*": "unknown"}')
    assert load_effects(str(path)) == {"a": "pure", "b.*": "unknown"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('a = "read"\nb = "reads"\n', ":2:1: b: effect 'reads' is not known; one of pure, read"),
        ('a = "read"\nb = \n', ":2:5: Invalid value"),
        ('{"a": "read",\n "b": 7}', ":2:1: b: effect 7 is not known"),
        ('{"a": "read",\n "b"}', ":2:5: it is not JSON"),
        ('[a]\nb = "read"\n', ":1:1: a: effect {'b': 'read'} is not known"),
    ],
)
def test_a_malformed_file_names_the_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "effects"
    path.write_text(text)
    with pytest.raises(CaseError) as caught:
        load_effects(path)
    assert str(caught.value).startswith(f"{path}{message}")


def test_a_name_that_is_neither_file_nor_shipped_is_refused() -> None:
    with pytest.raises(UsageError, match="or one of: agentdyn"):
        load_effects("agentdynn")

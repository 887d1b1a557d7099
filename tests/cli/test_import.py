"""Importing from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tracekit.cli import main
from tracekit.store import open_store

TRACES = Path(__file__).parents[2] / "fixtures" / "traces"


def _import(store: Path, *args: str) -> Result:
    return CliRunner().invoke(main, ["import", "--store", str(store), *args])


def test_an_import_can_be_repeated(tmp_path: Path) -> None:
    store = tmp_path / "traces"

    first = json.loads(_import(store, str(TRACES / "tau-bench"), "--json").stdout)
    again = json.loads(_import(store, str(TRACES / "tau-bench"), "--json").stdout)

    assert first["runs"] > 0
    assert (again["runs"], again["events"], again["skipped_known"]) == (0, 0, first["runs"])
    assert len(open_store(store).runs()) == first["runs"]
    assert open_store(store).verify().findings == ()


def test_a_file_that_is_no_trace_is_named_and_the_rest_is_imported(tmp_path: Path) -> None:
    other = tmp_path / "poem.txt"
    other.write_text("roses are red")

    result = _import(tmp_path / "traces", str(other), str(TRACES / "tau-bench"))

    assert result.exit_code == 2
    assert f"Error: {other}: no trace of a known format" in result.stderr
    assert "imported" in result.stdout


def test_imported_secrets_are_redacted(tmp_path: Path) -> None:
    secret = "sk-" + "aB3" * 16
    log = next(iter(sorted((TRACES / "agentdyn").rglob("*.json"))))
    content = json.loads(log.read_text("utf-8"))
    content["messages"][-1] = {"role": "user", "content": f"my key is {secret}"}
    place = tmp_path / log.relative_to(TRACES)
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps(content))

    store = tmp_path / "store"
    assert _import(store, str(place)).exit_code == 0
    texts = [text for (text,) in open_store(store).sql("SELECT text FROM payloads").rows]
    assert any("my key is" in text for text in texts)
    assert not any(secret in text for text in texts)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--format", "nonsense"], "cannot be imported"),
        (["--effects", "nowhere.toml"], "nowhere.toml"),
    ],
)
def test_options_that_name_nothing_are_misuse(tmp_path: Path, args: list[str], told: str) -> None:
    result = _import(tmp_path / "traces", str(TRACES), *args)
    assert result.exit_code == 2
    assert told in result.stderr
    assert not (tmp_path / "traces" / "runs").exists()

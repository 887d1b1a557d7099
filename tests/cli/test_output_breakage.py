"""Hostile values, odd arguments and outputs that take nothing: one sentence, never a traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from tests.cli.conftest import Call
from tests.store.made import run
from tracekit.canonical import digest_bytes
from tracekit.events import Blob
from tracekit.store import Batch, Store, open_store

HOSTILE = "\x1b[31mred\x9b0m\x7f\u202eevil\u2028\ufeff"
OBEYED = "\x1b\x9b\x7f\u202e\u2028\ufeff"


def _strict(text: str) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.fixture
def hostile(store: Store) -> Store:
    store.append(run("hostile", task_id=HOSTILE, error_message=HOSTILE))
    return store


@pytest.mark.parametrize("line", [["runs"], ["show", "hostile"], ["sql", "from runs"]])
def test_json_holds_nothing_that_a_terminal_obeys(
    hostile: Store, call: Call, line: list[str]
) -> None:
    shown = call(*line, "--json")

    assert not set(OBEYED) & set(shown.stdout)
    assert HOSTILE in _texts(_strict(shown.stdout))


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []


def test_an_error_holds_nothing_that_a_terminal_obeys(hostile: Store, call: Call) -> None:
    refused = call("sql", "select cast(task_id as int) from runs where task_id is not null")

    assert refused.exit_code == 2
    assert "\\x1b[31mred" in refused.stderr
    assert not (set(OBEYED) - {"\u2028"}) & set(refused.stderr)


def test_numbers_that_json_lacks_and_equal_names_are_kept(call: Call) -> None:
    asked = call("sql", "select 'nan'::float a, 'inf'::float a, -'inf'::float a_1", "--json")

    assert _strict(asked.stdout) == [{"a": "NaN", "a_1": "Infinity", "a_1_1": "-Infinity"}]


def test_a_value_with_numbers_that_json_lacks_is_shown_as_json(store: Store, call: Call) -> None:
    odd = run("odd")
    data = rb'{"x": [NaN, "a \" NaN"], "y": -Infinity}'  # as an imported log may have it
    blob = Blob(digest=digest_bytes(data), media_type="application/json", data=data)
    root = replace(odd.events[0], argument_blob=blob.digest, argument_state="captured")
    store.append(Batch((root, *odd.events[1:]), (*odd.blobs, blob)))

    shown = _strict(call("show", "odd", "--json").stdout)

    assert shown["input"] == {"x": ["NaN", 'a " NaN'], "y": "-Infinity"}


def test_an_interrupted_query_is_no_fault(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise RuntimeError("Query interrupted")  # what the database makes of Ctrl-C

    monkeypatch.setattr("tracekit.store.queries._run", interrupted)

    asked = call("sql", "from runs")

    assert (asked.exit_code, asked.output) == (130, "")


def test_bytes_that_are_no_text_are_no_run_and_no_query(call: Call) -> None:
    shown, asked = call("show", "\udcff"), call("sql", "select '\udcff'")

    assert (shown.exit_code, asked.exit_code) == (2, 2)
    assert "no run '?'" in shown.stderr
    assert "the query is no UTF-8 text" in asked.stderr


def test_a_limit_may_be_larger_than_any_list(call: Call) -> None:
    assert len(_strict(call("runs", "--limit", "9" * 30, "--json").stdout)) == 2


def test_an_ambiguous_prefix_says_how_many_more_fit(store: Store, call: Call) -> None:
    for number in range(12):
        store.append(run(f"many-{number:02}"))

    refused = call("show", "many")

    assert refused.exit_code == 2
    assert "many-09 … and 2 more" in refused.stderr


def _outside(store: Store, redirect: str, *, encoding: str = "utf-8") -> tuple[int, str]:
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -m tracekit runs --store "$1" {redirect}', sys.executable,
         str(store.path)],
        env={"PYTHONIOENCODING": encoding, "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full is Linux's")
def test_a_full_disk_behind_the_output_is_named(store: Store) -> None:
    assert _outside(store, ">/dev/full") == (2, "Error: the output: No space left on device\n")


def test_a_closed_output_and_one_of_few_signs_are_no_fault(hostile: Store) -> None:
    assert _outside(hostile, ">&-") == (0, "")
    assert _outside(hostile, ">/dev/null", encoding="ascii") == (0, "")


@pytest.mark.parametrize("version", ["true", "0", "-1", "'1'"])
def test_a_schema_version_that_is_none_is_damage(store: Store, call: Call, version: str) -> None:
    (store.path / "store.toml").write_text(f"schema_version = {version}\n")

    refused = call("runs")

    assert refused.exit_code == 2
    assert "is damaged" in refused.stderr


def test_a_catalogue_file_that_is_none_is_told_in_words(store: Store, call: Call) -> None:
    (store.path / "runs" / "zzz.parquet").mkdir()

    assert "it does not say which files belong to it" in call("runs").stderr
    assert open_store(store.path).runs()

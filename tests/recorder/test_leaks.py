"""No secret of any kind leaves the process, wherever the agent has it and however it is written.

One process has them all, in every place, and every byte that it and the commands after it leave on
disk, on the wire or on a terminal is searched for each, also for its encoded forms.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from tests.recorder.leak_kit import FORMS, PLACES, SECRETS, Planted, needles
from tests.recorder.otlp_kit import ROOT, http_receiver
from tracekit.cli import main
from tracekit.store import open_store

_ALL = [(secret, place, form) for secret in SECRETS.values() for place in PLACES for form in FORMS]


@dataclass
class Left:
    """What a process left behind."""

    folder: Path
    found: dict[str, bytes]
    """Where → every byte there."""

    @property
    def store(self) -> str:
        return str(self.folder / ".tracekit")

    def look_for(self, planted: Planted) -> list[str]:
        """Say where a secret stands, and in which form."""
        return [
            f"{form} in {where}: …{data[max(0, at - 80) : at]!r}"
            for form, needle in needles(planted.secret).items()
            for where, data in self.found.items()
            if (at := data.find(needle.encode())) >= 0
        ]


def _plant(
    folder: Path,
    planted: Sequence[tuple[Planted, str, str]],
    *,
    rules: Mapping[str, str] | None = None,
) -> Left:
    texts = [(place, FORMS[form](secret.text)) for secret, place, form in planted]
    plan = folder / "plan.json"
    with http_receiver() as received:
        plan.write_text(json.dumps({"otlp": received.endpoint, "planted": texts}))
        clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
        done = subprocess.run(
            [sys.executable, "-W", "error::UserWarning", "-m", "tests.recorder.leak_kit", plan],
            cwd=folder,
            env={**clean, **(rules or {}), "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=False,
        )
    plan.unlink()
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert sum(len(request.resource_spans) for request in received.requests) > 0
    found = {
        "what it printed": done.stdout + done.stderr,
        "its log": (folder / "log.txt").read_bytes(),
        "OTLP": b"\n".join(received.raw),
        "its journal": _files(folder / ".tracekit"),
    }
    assert len(found["its journal"]) > 200 * len(planted)
    return Left(folder, found)


def _files(folder: Path) -> bytes:
    return b"\n".join(p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file())


def _settle(left: Left) -> None:
    """Make Parquet of the journal and a DuckDB file of that, and read both to the end."""
    file = str(left.folder / "traces.duckdb")
    for command in (["compact", "--store", left.store], ["convert", left.store, file]):
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 0, done.output
    left.found["files of the folder"] = _files(Path(left.store))
    left.found["bytes of the file"] = Path(file).read_bytes()
    left.found["rows of the folder"] = _rows(
        f"SELECT * FROM read_parquet('{path}')"
        for path in sorted(Path(left.store).rglob("*.parquet"))
    )
    with duckdb.connect(file, read_only=True) as connection:
        tables = connection.sql("SELECT table_name FROM information_schema.tables").fetchall()
    left.found["rows of the file"] = _rows((f'SELECT * FROM "{name}"' for (name,) in tables), file)


def _rows(queries: Iterator[str], path: str = ":memory:") -> bytes:
    parts: list[bytes] = []
    with duckdb.connect(path, read_only=path != ":memory:") as connection:
        for query in queries:
            for row in connection.sql(query).fetchall():
                parts += [one if isinstance(one, bytes) else str(one).encode() for one in row]
    return b"\n".join(parts)


def _pieces(left: Left) -> bytes:
    """What the items of every stream add up to."""
    store = open_store(left.store)
    kept = store.sql(
        "SELECT DISTINCT observation_blob FROM events WHERE attributes LIKE '%stream%'"
    )
    texts: list[str] = []
    for (name,) in kept.rows:
        blob = store.blob(name) if name else None
        if blob is not None:
            texts.append("".join(_strings(json.loads(blob.data))))
    return "\n".join(texts).encode()


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _told(left: Left) -> bytes:
    """What the commands say of it."""
    runs = [row.run_id for row in open_store(left.store).runs()]
    assert len(runs) >= len(SECRETS) * len(PLACES) // 3
    commands = [
        ["runs", "--limit", "100"],
        ["runs", "--json"],
        ["show", "no-such-run"],
        ["verify"],
        ["doctor"],
    ]
    commands += [["show", run_id] for run_id in runs[:: len(runs) // 20]]
    return "\n".join(
        CliRunner().invoke(main, [*command, "--store", left.store]).output for command in commands
    ).encode()


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    """Every secret in many places and every place with many secrets, in all forms."""
    names = list(FORMS)
    planted = [
        (secret, place, names[(number + other) % len(names)])
        for number, secret in enumerate(SECRETS.values())
        for other, place in enumerate(PLACES)
        if (number + other) % 3 == 0  # the slow test has the whole product
    ]
    left = _plant(tmp_path_factory.mktemp("leaks"), planted)
    _settle(left)
    left.found["streams put together"] = _pieces(left)
    left.found["what the commands say"] = _told(left)
    return left


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_nowhere(left: Left, secret: str) -> None:
    assert left.look_for(SECRETS[secret]) == []


def test_scan_finds_nothing_either(left: Left) -> None:
    done = CliRunner().invoke(main, ["scan", "--store", left.store])
    assert (done.exit_code, done.output.partition(" in ")[0]) == (0, "no secret found")


def test_there_are_many_kinds_and_places() -> None:
    assert len(SECRETS) >= 60
    assert len({planted.secret for planted in SECRETS.values()}) >= 60
    assert len(PLACES) >= 30


@pytest.mark.parametrize("rule", [r"re:Zimb[a-z]+-Kestrel-\d+", "account"])
def test_what_only_the_users_own_rules_know_is_nowhere(tmp_path: Path, rule: str) -> None:
    """By pattern in every place, and by name where the name stands."""
    secret = Planted("Zimbabwe-Kestrel-93", "Zimbabwe-Kestrel-93")
    named = ["declaration of a tool", "tools of a prompt"]
    places = named if rule == "account" else list(PLACES)
    planted = [(secret, place, "plain") for place in places]
    left = _plant(tmp_path, planted, rules={"TRACEKIT_REDACT": rule})
    _settle(left)
    assert left.look_for(secret) == []


@pytest.mark.parametrize("form", FORMS)
def test_the_search_would_see_each_secret_in_each_form(form: str) -> None:
    """Without this the other tests could not fail."""
    for name, planted in SECRETS.items():
        said = FORMS[form](planted.text)
        shown = json.dumps(said)
        assert any(n in said or n in shown for n in needles(planted.secret).values()), name


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_nowhere_in_any_form(tmp_path: Path, form: str) -> None:
    left = _plant(tmp_path, [one for one in _ALL if one[2] == form])
    assert {name: found for name, one in SECRETS.items() if (found := left.look_for(one))} == {}

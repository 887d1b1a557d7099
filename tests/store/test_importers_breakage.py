"""Secrets in what names an imported run: folders, files and headers are redacted like the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.conftest import REDACTION_KEY
from tests.store.logs import log_of, write_log
from tracekit.importers import ImportOptions, import_paths
from tracekit.redact import KeyedTagger, Redactor, Rules
from tracekit.store import Store

MAIL = "alice.secret@corp.example.org"
TOKEN = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"  # made up
REDACTING = ImportOptions(redactor=Redactor(Rules(), KeyedTagger(bytes.fromhex(REDACTION_KEY))))


def _agentdyn(folder: Path) -> Path:
    place = folder / TOKEN / "github" / MAIL / "none"
    return write_log(
        place,
        log_of(
            {"role": "user", "content": "hello"}, pipeline_name=TOKEN, user_task_id=MAIL,
            attack_type=None, injection_task_id=None,
        ),
    )  # fmt: skip


def _tau(folder: Path) -> Path:
    path = folder / f"{MAIL}.json"
    record = {"task_id": TOKEN, "trial": MAIL, "traj": [{"role": "user", "content": "hello"}]}
    path.write_text(json.dumps([record | {"reward": 1, "info": {}}]))
    return path


@pytest.mark.parametrize("make", [_agentdyn, _tau])
def test_no_name_of_a_run_holds_a_secret(store: Store, tmp_path: Path, make: object) -> None:
    assert callable(make)
    path = make(tmp_path)

    assert import_paths([path], store, REDACTING).runs == 1
    assert import_paths([path], store, REDACTING).skipped_known == 1

    kept = "".join(str(pq.read_table(file)) for file in store.path.rglob("*.parquet"))
    kept += "".join(str(pq.read_table(file).to_pydict()) for file in store.path.rglob("*.parquet"))
    assert "alice.secret" not in kept
    assert TOKEN not in kept
    assert store.verify().sound

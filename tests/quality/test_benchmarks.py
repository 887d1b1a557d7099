"""The benchmarks measure what the product makes, and a figure needs no other package to be told."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks import peers
from benchmarks.figures import Line, table
from benchmarks.layout import DAYS, EVENTS_A_RUN, fill
from tracekit.store import Batch, open_store


def _files(store: Path) -> dict[str, Path]:
    return {file.parent.name: file for file in (store / "events").rglob("*.parquet")}


def test_a_store_that_is_laid_out_has_the_files_that_the_product_makes(tmp_path: Path) -> None:
    assert fill(tmp_path / "laid", DAYS) == DAYS * EVENTS_A_RUN
    laid, made = open_store(tmp_path / "laid"), open_store(tmp_path / "made", create=True)
    for row in laid.runs():
        made.append(Batch(tuple(laid.events(row.run_id))))

    ours, theirs = _files(laid.path), _files(made.path)
    assert ours.keys() == theirs.keys()
    for day, file in ours.items():
        kept = pq.ParquetFile(file).read()
        assert kept.equals(pq.ParquetFile(theirs[day]).read()), day
    assert [row.run_id for row in made.runs()] == [row.run_id for row in laid.runs()]


def test_without_their_packages_the_others_are_named_and_not_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = Line("  tracekit", "1 us", 1.0)
    monkeypatch.setattr(peers, "_ours", lambda: ours)
    monkeypatch.setattr(peers, "environment", lambda: (None, "not measured"))

    lines = peers.measure()

    assert lines[1] == ours
    assert [line.what.strip() for line in lines[2:]] == list(peers._NAMES)
    assert {(line.value, line.ratio) for line in lines[2:]} == {("not measured", None)}
    assert "not measured" in table(lines)

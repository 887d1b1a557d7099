"""docs/metrics.md says what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from replay.metrics import DEFINITIONS, Definition
from replay.stats import compare_success, values_for_quantile
from tracekit.store.metric_views import METRICS_VIEW

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text("utf-8")


@pytest.mark.parametrize("one", DEFINITIONS.values(), ids=DEFINITIONS)
def test_the_page_defines_every_metric_as_the_code_does(one: Definition) -> None:
    cells = (f"`{one.name}`", f"{one.form}, {one.unit}", one.numerator, one.denominator, one.needs)
    assert f"| {' | '.join(cells)} |" in PAGE


def test_the_page_defines_no_metric_that_there_is_not() -> None:
    defined = re.findall(r"^\| `(\w+)` \| (?:share|ratio|mean|quantile),", PAGE, re.MULTILINE)
    assert defined == list(DEFINITIONS)


def test_the_page_names_the_metrics_that_sql_has() -> None:
    line = next(line for line in PAGE.splitlines() if line.startswith("| `metrics` |"))
    named = set(re.findall(r"`(\w+)`", line)) - {"metrics"}
    assert named == {name for name in DEFINITIONS if f"'{name}'" in METRICS_VIEW}


def test_the_figures_of_the_page_are_those_of_the_code() -> None:
    found = compare_success([(True, False)] * 5 + [(True, True)] * 20)
    assert (found.p, found.needed) == (0.0625, 39)
    assert (values_for_quantile(0.95), values_for_quantile(0.99)) == (72, 368)
    for figure in ("p = 0.0625); 39 can", "72 for p95, 368 for p99"):
        assert figure in PAGE

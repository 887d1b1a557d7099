"""Where one run only goes on: its first further step is the first divergence."""

from __future__ import annotations

import pytest

from tests.diff.building import compare, read, run, write


@pytest.mark.parametrize("goes_on", ["left", "right"])
def test_the_first_further_step_comes_first_on_either_side(goes_on: str) -> None:
    short = [read("get", {"x": 1}, "one")]
    long = [*short, read("get", {"x": 2}, "two"), write("put", {"x": 2})]
    pair = (run(*long), run(*short)) if goes_on == "left" else (run(*short), run(*long))

    found = compare(*pair)

    kind = "missing" if goes_on == "left" else "added"
    assert found.first is not None
    assert (found.first.kind, found.first.tool, found.first.decision) == (kind, "get", 2)
    assert [(one.kind, one.tool, one.cause) for one in found.divergences] == [
        (kind, "put", True),  # a write is never hidden behind the end of the other run
        (kind, "get", True),
    ]

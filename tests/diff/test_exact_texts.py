"""Calls that differ only in what JSON cannot hold are told apart by the comparison as well."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from replay.diff import diff
from tests.diff.building import call, run
from tracekit.canonical import encode
from tracekit.events import Effect
from tracekit.trajectory import Trajectory


def _removing(name: bytes, effect: Effect) -> Trajectory:
    kept = encode({"path": os.fsdecode(name)})
    made = call("rm", effect=effect)
    return run(replace(made, arguments=kept.value, argument_types=kept.types))


@pytest.mark.parametrize("effect", ["read", "write"])
def test_files_whose_names_are_no_text_are_two_files(effect: Effect) -> None:
    one, other = _removing(b"/data/\x80", effect), _removing(b"/data/\x81", effect)
    assert diff(one, one).same
    assert not diff(one, other).same

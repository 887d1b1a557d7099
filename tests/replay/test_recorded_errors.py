"""Recorded errors come back as their own class: with attributes, notes and what caused them."""

from __future__ import annotations

from pathlib import Path

import pytest

import tracekit
from replay import ReplayOptions, replay_run
from replay.pipe import _error

CODE = """
import tracekit


class Odd(ValueError):
    def __init__(self, code, *, retry=1):
        super().__init__(f"odd {code}")
        self.code, self.retry = code, retry


@tracekit.tool(effect="read")
def fails(x):
    try:
        try:
            {}["missing"]
        except KeyError as error:
            raise OSError(5, "disk", "/a/b") from error
    except OSError as error:
        error.add_note("while reading")
        raise Odd(x, retry=3) from error


@tracekit.tool(effect="read")
def streams(count):
    yield from range(count)
    raise Odd(9)


@tracekit.tool(effect="read")
def several(x):
    raise ExceptionGroup("several", [ValueError("a"), Odd(2)])


@tracekit.agent
def agent(x):
    told = []
    try:
        fails(x)
    except Odd as error:
        cause = error.__cause__
        told += [str(error), error.code, error.retry, type(cause).__name__, str(cause)]
        told += [cause.errno, cause.filename, cause.__notes__, type(cause.__cause__).__name__]
    try:
        for item in streams(2):
            told.append(item)
    except Odd as error:
        told.append(repr(error))
    for item in streams(5):
        told.append(item)
        if item == 1:
            break
    try:
        several(1)
    except* ValueError as group:
        told.append([repr(error) for error in group.exceptions])
    return told
"""


def test_errors_of_every_shape_are_met_again_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "erring.py").write_text(CODE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    import erring  # type: ignore[import-not-found]  # written above

    tracekit.configure(store=tmp_path / "store")
    with tracekit.run(run_id="erring"):
        told = erring.agent(7)
    tracekit.configure(store=tmp_path / "elsewhere")
    assert told[:5] == ["odd 7", 7, 3, "OSError", "[Errno 5] disk: '/a/b'"]

    result = replay_run(
        "erring",
        planner="erring:agent",
        store=tmp_path / "store",
        options=ReplayOptions(isolation="process", path=(str(tmp_path),)),
    )

    assert result.verdict.kind == "pass"
    assert result.shares == {"exact": 4}
    assert result.trajectory is not None
    assert result.trajectory.answer.value == told


@pytest.mark.parametrize(
    ("kind", "made"),
    [
        ("TimeoutError", "TimeoutError('late')"),
        ("UnicodeDecodeError", "RecordedError('UnicodeDecodeError: late')"),
        ("KeyboardInterrupt", "RecordedError('KeyboardInterrupt: late')"),
        ("some.module.Error", "RecordedError('some.module.Error: late')"),
        ("print", "RecordedError('print: late')"),
    ],
)
def test_an_error_of_which_only_name_and_text_were_kept_is_pythons_own(
    kind: str, made: str
) -> None:
    answer = {"error_type": kind, "error_message": "late", "value": None}
    assert repr(_error(answer)) == made

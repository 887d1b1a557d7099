"""Values larger than a recording keeps: they are known by their digests, in a replay as well."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tracekit
from replay import ReplayOptions, ReplayResult, replay_run
from replay.workers import Bindings
from tracekit.limits import Limits

CODE = """
import tracekit

@tracekit.tool(effect="write")
def upload(body):
    return "stored"

@tracekit.agent
def uploads(size):
    upload("x" * size)
    return "y" * size

@tracekit.agent
def uploads_other(size):
    upload("x" * (size - 1) + "z")
    return "y" * size

def decides(history, tools):
    if len(history) > 1:
        return None
    return {"tool": "upload", "arguments": {"body": "x" * 70_000_000}}
"""
SIZE = 70_000_000
"""Of texts: more than is kept of one value, and more than a message may have."""


@tracekit.tool(effect="write")
def upload(body: str) -> str:
    """Keep a body."""
    return f"stored {body[:1]}"


@tracekit.agent
def uploads(size: int) -> str:
    """Upload much, and give much back."""
    upload("x" * size)
    return "y" * size


def stub(body: str) -> str:
    """Be the sandbox of ``upload``."""
    return f"sandboxed {body}"


@pytest.fixture
def cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with a run of which large values were cut, as a replay now cuts them."""
    small = Limits(value_bytes=1000)
    monkeypatch.setattr("replay.planner.Limits", lambda: small)
    tracekit.configure(store=tmp_path / "store", limits=small)
    with tracekit.run(run_id="cut"):
        uploads(2000)
    tracekit.configure(store=tmp_path / "elsewhere")
    return tmp_path / "store"


def other_letter(size: int) -> str:
    """Upload as much, but something else."""
    upload("x" * (size - 1) + "z")
    return "y" * size


def replay_cut(
    store: Path, planner: Callable[[int], str], bindings: Bindings | None = None
) -> ReplayResult:
    def here(size: int) -> str:
        return planner(size)

    options = ReplayOptions(bindings=bindings or Bindings())
    return replay_run("cut", planner=here, store=store, options=options)


def test_a_write_and_an_answer_that_were_cut_are_compared_by_their_digests(cut: Path) -> None:
    same = replay_cut(cut, uploads.__wrapped__)  # type: ignore[attr-defined]  # the plain function
    assert (same.verdict.kind, same.shares) == ("pass", {"exact": 1})

    other = replay_cut(cut, other_letter)
    assert other.verdict.kind == "fail"
    assert [finding.kind for finding in other.findings] == ["write refused", "planner"]


@pytest.mark.parametrize("kept", [None, 100], ids=["more", "less"])
def test_a_recording_that_kept_more_or_less_of_a_value_matches_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int | None
) -> None:
    monkeypatch.setattr("replay.planner.Limits", lambda: Limits(value_bytes=1000 if kept else 100))
    tracekit.configure(store=tmp_path / "store", limits=Limits(value_bytes=kept))
    with tracekit.run(run_id="cut"):
        uploads(500)
    tracekit.configure(store=tmp_path / "elsewhere")

    same = replay_cut(tmp_path / "store", uploads.__wrapped__)  # type: ignore[attr-defined]  # as above
    assert (same.shares, same.findings) == ({"exact": 1}, ())
    assert replay_cut(tmp_path / "store", other_letter).findings[0].kind == "write refused"


def test_arguments_that_were_cut_are_sent_to_no_sandbox(cut: Path) -> None:
    named = Bindings(functions={"sandbox": {"upload": f"{__name__}:stub"}})
    result = replay_cut(cut, other_letter, named)
    assert "its arguments hold what could not be kept" in result.answered[0].answer.explanation


# --- as large as they come ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("large")
    (made / "largely.py").write_text(CODE, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(made))
        import largely

        tracekit.configure(store=made / "store")
        with tracekit.run(run_id="large"):
            largely.uploads(SIZE)
        tracekit.configure(store=made / "elsewhere")
    return made


def replay_large(folder: Path, planner: str) -> ReplayResult:
    options = ReplayOptions(isolation="process", path=(str(folder),))
    named = f"largely:{planner}"
    return replay_run("large", planner=named, store=folder / "store", options=options)


@pytest.mark.slow
def test_a_child_cuts_what_its_memory_would_not_hold_as_a_message(folder: Path) -> None:
    same = replay_large(folder, "uploads")
    assert (same.verdict.kind, same.shares) == ("pass", {"exact": 1})
    assert replay_large(folder, "uploads_other").findings[0].kind == "write refused"


@pytest.mark.slow
def test_a_value_too_large_for_the_pipe_is_no_finding_and_no_pass(folder: Path) -> None:
    result = replay_large(folder, "decides")
    assert result.verdict.kind == "inconclusive"
    assert "more than 67,108,864 bytes; the limit is 67,108,864" in result.verdict.reasons[0]
    assert result.findings == ()

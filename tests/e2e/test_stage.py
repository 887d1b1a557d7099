"""The demo's stage shows what a user would type, and stops where the story is not true."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import openai
import pytest

from fixtures.stage import ROOT, Stage, StoryBroken


def test_a_command_is_shown_with_its_output_and_kept_for_the_page(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    stage = Stage({})
    stage.chapter("One")
    stage.run("python", "-c", "print('a < b')", says=["A < B"])
    assert (
        capfd.readouterr().out == "\nOne\n===\n\n$ python -c 'print('\"'\"'a < b'\"'\"')'\na < b\n"
    )
    stage.write_page(tmp_path / "page.html", "All of it")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "<h2>One</h2>" in page
    assert "a &lt; b\n" in page


@pytest.mark.parametrize(
    ("program", "expect", "says", "complaint"),
    [
        ("raise SystemExit(3)", (0, 1), (), "exited with 3, the story says 0 or 1"),
        ("print('fine')", (0,), ("rollback",), r"should say \['rollback'\]"),
    ],
)
def test_a_command_that_does_something_else_ends_the_story(
    program: str, expect: tuple[int, ...], says: tuple[str, ...], complaint: str
) -> None:
    with pytest.raises(StoryBroken, match=complaint):
        Stage({}).run("python", "-c", program, expect=expect, says=says)


def test_the_model_server_runs_alone_until_it_is_interrupted() -> None:
    command = [sys.executable, "-W", "error", "-m", "fixtures.model_server"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        url = running.stdout.readline().strip()
        with openai.OpenAI(base_url=url, api_key="sk-local") as client:
            given = client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "Hello?"}]
            )
        running.send_signal(signal.SIGINT)
        assert running.stdout.read() == "stopped\n"
        assert running.wait(10) == 0
    assert given.choices[0].message.content == "Without tools there is nothing to add to: Hello?"

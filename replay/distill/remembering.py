"""Answers that outlive a sitting: a file that only grows, a line an answer.

A line is written whole before anything is built on the answer, so that a kill loses at most the one
that is being asked for; a line that was cut short is taken off when the file is opened again. The
file belongs to one question, which its first line names: another planner, other code, another
environment or another run is another question, and its answers are not taken. A file that does not
begin as ours does is never touched. Ours survives the process, not the machine: nothing waits for
the disk.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Hashable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from replay.distill.judge import Judge
from tracekit.canonical import JsonValue, json_text, parse_json
from tracekit.errors import DistillError, InvalidJson

FORMAT = "tracekit/answers/v1"
_FIRST = 4096
"""Bytes within which the first line of such a file ends."""


class AnswerFile:
    """What was answered, by the key of the candidate and how often it had been asked before.

    Args:
        path: The file; made where there is none.
        question: What is asked, as a digest.

    Raises:
        DistillError: the file is of another question or another process, or is none of these.
    """

    def __init__(self, path: Path, question: str) -> None:
        self.path = path
        self.remembered = 0
        """How many answers were there when it was opened."""
        self._answers: dict[tuple[str, int], Mapping[str, JsonValue]] = {}
        self._old: frozenset[tuple[str, int]] = frozenset()
        if path.exists() and not path.is_file():
            raise DistillError(f"{path} is no regular file: answers cannot be kept in it")
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            self._open(question)
        except BaseException:
            os.close(self._fd)
            raise

    def get(self, key: str, asked: int = 0) -> Mapping[str, JsonValue] | None:
        """What was answered to ``key`` when it was asked for the ``asked``-th time, from 0."""
        return self._answers.get((key, asked))

    def is_old(self, key: str) -> bool:
        """Whether the first answer to ``key`` was given in an earlier sitting."""
        return (key, 0) in self._old

    def keep(self, key: str, asked: int, answer: Mapping[str, JsonValue]) -> None:
        """Write an answer down."""
        self._answers[key, asked] = answer
        self._write({"key": key, "asked": asked, **answer})

    def close(self) -> None:
        """Give the file free for others."""
        os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self, question: str) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DistillError(
                f"{self.path} is in use by another distillation",
                hint="wait for it, or name another file",
            ) from error
        header = {"format": FORMAT, "question": question}
        whole = self._whole(json_text(dict(header)).encode())
        lines = [self._read(line) for line in whole.splitlines()]
        if not lines:
            self._write(header)
            return
        if lines[0].get("question") != question:
            raise DistillError(
                f"{self.path} holds the answers to another question",
                hint="another run, failure, planner, code or environment of it; remove the file "
                "to begin anew",
            )
        for line in lines[1:]:
            key, asked = line.get("key"), line.get("asked")
            if not (isinstance(key, str) and isinstance(asked, int) and "fails" in line):
                raise self._strange()
            self._answers[key, asked] = line
        self.remembered = len(self._answers)
        self._old = frozenset(self._answers)

    def _whole(self, header: bytes) -> bytes:
        """Read the lines that were written whole, and take off what was cut short.

        A file that does not begin as one of ours is left as it is.
        """
        first, end, _ = os.pread(self._fd, _FIRST, 0).partition(b"\n")
        if not end and header.startswith(first):  # cut short before there was any answer
            os.ftruncate(self._fd, 0)
            return b""
        if not end or self._read(first).get("format") != FORMAT:
            raise self._strange()
        data = self.path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.ftruncate(self._fd, len(whole))
        return whole

    def _strange(self) -> DistillError:
        return DistillError(
            f"{self.path} is no file of answers, and is left as it is", hint="name another file"
        )

    def _read(self, line: bytes) -> Mapping[str, JsonValue]:
        try:
            found = parse_json(line.decode("utf-8", "replace"))
        except InvalidJson as error:
            raise self._strange() from error
        if not isinstance(found, dict):
            raise self._strange()
        return found

    def _write(self, line: Mapping[str, JsonValue]) -> None:
        data = json_text(dict(line)).encode() + b"\n"
        if os.write(self._fd, data) != len(data):
            raise DistillError(f"{self.path} cannot be written: the disk is full")


def not_any_more(said: str, answers: AnswerFile | None) -> DistillError:
    """Say why what the reduction saw is not seen again, where answers of earlier sittings count."""
    if answers is None or not answers.remembered:
        return DistillError(f"flaky: in a fresh process {said}")
    return DistillError(
        f"the answers in {answers.path} are stale: in a fresh process {said}",
        hint="something that they rest on has changed since; remove the file to begin anew",
    )


def needless_now(answers: AnswerFile, part: str) -> DistillError:
    """Say that a part which could not be left out, as earlier sittings answered, now can."""
    return DistillError(
        f"the answers in {answers.path} are stale: asked afresh, the planner fails without "
        f"{part} too",
        hint="something that they rest on has changed since; remove the file to begin anew",
    )


class JudgeAnswers:
    """The answers of a judge, kept with what it says of them."""

    def __init__(self, file: AnswerFile, judge: Judge) -> None:
        self._file = file
        self._judge = judge

    def get(self, key: Hashable, *, asked: int = 0) -> bool | None:
        """What was answered; the judge then knows what it knew."""
        found = self._file.get(str(key), asked)
        if found is None:
            return None
        why, shown = found.get("why"), found.get("shown")
        if why is not None:
            self._judge.notes[str(key)] = str(why)
        if isinstance(shown, list):
            self._judge.consumed[str(key)] = tuple(str(name) for name in shown)
        return found["fails"] is True

    def keep(self, key: Hashable, *, asked: int = 0, fails: bool) -> None:
        """Write an answer down, and why it was given."""
        shown = self._judge.consumed.get(str(key))
        said: dict[str, JsonValue] = {"fails": fails}
        if not fails:
            said["why"] = self._judge.notes.get(str(key))
        if shown is not None:
            said["shown"] = list(shown)
        self._file.keep(str(key), asked, said)

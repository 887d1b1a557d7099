"""Accepted trajectories: runs that are as good an answer to a task as the baseline's.

One small file an acceptance, in a folder beside the runs or one that the user names. A file is
written once and never changed; whoever takes an acceptance back removes its file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from replay.comparing.pairing import Candidate
from tracekit import conditions
from tracekit.canonical import digest
from tracekit.errors import StoreError, UsageError
from tracekit.store.places import is_database

FORMAT: Literal["tracekit/reference/v1"] = "tracekit/reference/v1"


class Reference(BaseModel):
    """One acceptance."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["tracekit/reference/v1"] = FORMAT
    run_id: str
    """The run whose trajectory is accepted."""
    task: str | None = None
    input_digest: str | None = None
    attack: tuple[str, ...] = ()
    accepted_ns: int

    @property
    def key(self) -> tuple[str, ...]:
        """What a run must have in common with it to be compared with it."""
        return _key(self.task, self.input_digest, self.attack)


@dataclass(frozen=True)
class References:
    """The acceptances of one folder."""

    folder: Path
    found: tuple[Reference, ...] = ()

    def of(self, run: Candidate) -> tuple[str, ...]:
        """Name the accepted runs of the case that ``run`` worked on; it may be one of them."""
        key = _key(run.task, run.input_digest, run.attack)
        return tuple(dict.fromkeys(one.run_id for one in self.found if one.key == key))

    def accept(self, runs: Iterable[Candidate]) -> tuple[Path, ...]:
        """Accept the trajectories of ``runs``; return the files, those that were there included.

        Raises:
            UsageError: a run says neither task nor input, so nothing could be compared with it.
            StoreError: the file cannot be written.
        """
        return tuple(self._accept(run) for run in runs)

    def _accept(self, run: Candidate) -> Path:
        if run.case is None:
            raise UsageError(f"run {run.run_id!r} says neither task nor input: nothing to accept")
        made = Reference(
            run_id=run.run_id,
            task=run.task,
            input_digest=run.input_digest,
            attack=run.attack,
            accepted_ns=conditions.now_ns(),
        )
        name = digest([*made.key, run.run_id]).removeprefix("sha256:")[:24]
        path = self.folder / f"{name}.json"
        if path.exists():
            return path
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            beside = path.with_suffix(f".{conditions.new_span_id()}.part")
            beside.write_text(made.model_dump_json(indent=2) + "\n", encoding="utf-8")
            os.replace(beside, path)
        except OSError as error:
            raise StoreError(f"cannot keep a reference in {self.folder}: {error}") from error
        return path


def read_references(folder: Path) -> References:
    """Read the acceptances of a folder; none where there is no folder.

    Raises:
        UsageError: a file of it is no reference.
    """
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            found.append(Reference.model_validate_json(path.read_bytes()))
        except ValidationError as error:
            said = error.errors(include_url=False)[0]
            raise UsageError(
                f"{path} is no reference: {'.'.join(map(str, said['loc']))} {said['msg']}",
                hint="remove the file to take the acceptance back",
            ) from error
    return References(folder, tuple(sorted(found, key=lambda one: (one.accepted_ns, one.run_id))))


def folder_of(store: Path) -> Path:
    """Name the folder where the acceptances of a store are kept, if no other is named."""
    if is_database(store):
        return store.with_name(f"{store.name}.references")
    return store / "references"


def _key(task: str | None, input_digest: str | None, attack: tuple[str, ...]) -> tuple[str, ...]:
    name = ("task", task) if task is not None else ("input", input_digest or "")
    return (*name, *attack)

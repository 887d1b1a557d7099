"""Accepted trajectories: runs that are as good an answer to a task as the baseline's.

One small file an acceptance, in a folder beside the runs or one that the user names. A file is
written once and never changed; whoever takes an acceptance back removes its file. It names a run
and digests its trajectory: another run that came to have the id is not what was accepted.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from replay.comparing.pairing import Candidate
from replay.diff.content import content_digest
from tracekit import conditions
from tracekit.canonical import digest
from tracekit.errors import StoreError, TracekitError, UsageError
from tracekit.store import RunQuery, Store
from tracekit.store.places import is_database
from tracekit.store.several import WholeRun, read_runs

FORMAT: Literal["tracekit/reference/v2"] = "tracekit/reference/v2"


class Reference(BaseModel):
    """One acceptance."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["tracekit/reference/v1", "tracekit/reference/v2"] = FORMAT
    run_id: str
    """The run whose trajectory is accepted."""
    trajectory: str | None = None
    """Digest of all of it that a comparison looks at; a file of v1 has none and is not used."""
    task: str | None = None
    input_digest: str | None = None
    attack: tuple[str, ...] = ()
    accepted_ns: int

    @property
    def key(self) -> tuple[str, ...]:
        """What a run must have in common with it to be compared with it."""
        return _key(self)


@dataclass(frozen=True)
class References:
    """The acceptances of one folder."""

    folder: Path
    found: tuple[Reference, ...] = ()
    notes: tuple[str, ...] = ()
    """Which were left out, and why."""

    def of(self, run: Candidate) -> tuple[str, ...]:
        """Name the accepted runs of the case that ``run`` worked on; it may be one of them."""
        return tuple(dict.fromkeys(one.run_id for one in self.found if one.key == _key(run)))

    def usable(self, store: Store, *, cases: Iterable[Candidate] | None = None) -> References:
        """Keep those whose run is in ``store`` as it was accepted; note which are left out.

        Args:
            store: Where the runs are.
            cases: Only acceptances of what these runs worked on are meant; default all.
        """
        keys = None if cases is None else {_key(run) for run in cases}
        meant = [one for one in self.found if keys is None or one.key in keys]
        there = _digests(store, {one.run_id for one in meant})
        kept = tuple(one for one in meant if one.trajectory == there.get(one.run_id, ""))
        known = {(one.run_id, one.key) for one in kept}
        left_out = [one for one in meant if (one.run_id, one.key) not in known]
        notes = [_why_not(one, there.get(one.run_id)) for one in left_out]
        return replace(self, found=kept, notes=tuple(dict.fromkeys((*self.notes, *notes))))

    def accept(self, runs: Iterable[Candidate], store: Store) -> tuple[Path, ...]:
        """Accept the trajectories of ``runs``; return the files, those that were there included.

        Raises:
            UsageError: a run says neither task nor input, so nothing could be compared with it.
            StoreError: a run cannot be read, or the file cannot be written.
        """
        listed = list(runs)
        whole = dict(read_runs(store, listed))
        return tuple(self._accept(run, whole[run.run_id]) for run in listed)

    def _accept(self, run: Candidate, whole: WholeRun | TracekitError) -> Path:
        if run.case is None:
            raise UsageError(f"run {run.run_id!r} says neither task nor input: nothing to accept")
        if isinstance(whole, TracekitError):
            raise whole
        made = Reference(
            run_id=run.run_id,
            trajectory=content_digest(whole.trajectory),
            task=run.task,
            input_digest=run.input_digest,
            attack=run.attack,
            accepted_ns=conditions.now_ns(),
        )
        known_by = digest([*made.key, run.run_id, made.trajectory])
        path = self.folder / f"{known_by.removeprefix('sha256:')[:24]}.json"
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


def _digests(store: Store, run_ids: Collection[str]) -> dict[str, str | TracekitError]:
    """Digest those of the runs that are in the store, or say why one cannot be read."""
    rows = [row for row in store.runs(RunQuery()) if row.run_id in run_ids] if run_ids else []
    return {
        run_id: run if isinstance(run, TracekitError) else content_digest(run.trajectory)
        for run_id, run in read_runs(store, rows)
    }


def _why_not(one: Reference, there: str | TracekitError | None) -> str:
    """Say why an acceptance is not used."""
    match there:
        case None:
            why = "it is not in the store any more"
        case TracekitError():
            why = there.message
        case _ if one.trajectory is None:
            why = "its file does not say what its trajectory was; accept it again"
        case _:
            why = "it is not the run that was accepted under this id; accept it again if it is good"
    return f"accepted run {one.run_id} is not compared with: {why}"


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


def _key(run: Candidate | Reference) -> tuple[str, ...]:
    """Give what runs have in common that worked on one case."""
    name = ("task", run.task) if run.task is not None else ("input", run.input_digest or "")
    return (*name, *run.attack)

"""Which runs are meant, in one line: ``tag=gpt-4o,tag=attacked,since=7d``, or ids of runs.

The names are those of the options of ``tracekit runs``. Conditions are joined by commas and all
must hold; texts given one after the other are joined: any of them may hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from tracekit.canonical import parse_json
from tracekit.errors import UsageError
from tracekit.events import RunRow
from tracekit.store import RunQuery, Store

ReadMoment = Callable[[str], datetime]

_KEYS = ("agent", "limit", "planner", "since", "source", "status", "tag", "task", "tool", "until")
_FLAGS = ("accepted", "failed", "replays")
_PARTS = re.compile(r"((?:[^,\\]|\\.)*)(?:,|$)")
_STATUS = ("ok", "error", "open")


@dataclass(frozen=True)
class Selection:
    """Conditions that must all hold, or ids."""

    text: str
    """As it was given."""
    query: RunQuery = field(default_factory=RunQuery)
    tags: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    planner: str | None = None
    replays: bool = False
    """Only replays. Without it, recorded runs only, unless ids or a planner are named."""
    accepted: bool = False
    """The accepted trajectories of every task, instead of runs that are looked for."""
    ids: tuple[str, ...] = ()

    def choose(self, store: Store) -> list[RunRow]:
        """List the runs that are meant, oldest first.

        Runs of sub-agents belong to the run that called them and are left out, unless an agent or
        ids are named.

        Raises:
            RunNotFound: an id is none, or the beginning of several.
            UsageError: the accepted trajectories are meant, which only a comparison knows.
        """
        if self.accepted:
            raise UsageError(
                "'accepted' means runs only where two sides are compared",
                hint="name the runs otherwise, such as by tag=; or compare them: "
                "tracekit diff --baseline accepted --candidate SELECT",
            )
        if self.ids:
            wanted = dict.fromkeys(store.resolve(run) for run in self.ids)
            rows = {row.run_id: row for row in store.runs(RunQuery()) if row.run_id in wanted}
            return [rows[run_id] for run_id in wanted]
        newest_first = store.runs(replace(self.query, limit=None))
        rows_found = [row for row in newest_first if self._meant(row)]
        return rows_found[: self.query.limit][::-1]

    def _meant(self, row: RunRow) -> bool:
        replayed = row.replay_of is not None
        if replayed != (self.replays or self.planner is not None):
            return False
        if row.parent_run_id is not None and self.query.agent is None:
            return False
        if self.planner is not None and row.planner != self.planner:
            return False
        if not set(self.tags) <= set(row.tags):
            return False
        said = parse_json(row.versions) if self.versions else {}
        assert isinstance(said, dict)
        return all(said.get(name) == version for name, version in self.versions.items())


Selections = str | Selection | Sequence[str | Selection]
"""One, or several of which any may hold."""


def iso_moment(text: str) -> datetime:
    """Read a time in ISO 8601; without a zone it is UTC.

    Raises:
        UsageError: it is none.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is no time such as 2026-11-30T12:00") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def parse_selection(text: str, *, moment: ReadMoment = iso_moment) -> Selection:
    """Read one selection; ``moment`` reads its times.

    Raises:
        UsageError: it is none; the error lists the names that there are.
    """
    parts = [_plain(part) for part in _split(text)]
    if not any(parts):
        raise UsageError("a selection of runs is empty", hint=_help())
    told = [part for part in parts if "=" in part or part in _FLAGS]
    if not told:
        return Selection(text, ids=tuple(part for part in parts if part))
    if len(told) < len(parts):
        odd = next(part for part in parts if part not in told)
        raise UsageError(
            f"{text!r}: {odd!r} is no condition, and ids do not go with conditions", hint=_help()
        )
    return _of_conditions(text, parts, moment)


def as_selections(given: Selections) -> list[Selection]:
    """Read what is given as text; leave what is a selection.

    Raises:
        UsageError: a text is none.
    """
    listed = [given] if isinstance(given, str | Selection) else given
    return [parse_selection(one) if isinstance(one, str) else one for one in listed]


def choose_all(store: Store, selections: Sequence[Selection]) -> list[RunRow]:
    """List the runs that any of the selections means, each once."""
    found = {row.run_id: row for chosen in selections for row in chosen.choose(store)}
    return list(found.values())


def _split(text: str) -> Iterable[str]:
    end = 0
    while end <= len(text):
        part = _PARTS.match(text, end)
        assert part is not None  # the empty text matches
        yield part[1]
        end = part.end() if part[0].endswith(",") and part.end() > end else len(text) + 1


def _plain(part: str) -> str:
    return re.sub(r"\\(.)", r"\1", part.strip())


def _of_conditions(text: str, parts: Sequence[str], moment: ReadMoment) -> Selection:
    fields: dict[str, Any] = {}
    versions: dict[str, str] = {}
    tags: list[str] = []
    flags: set[str] = set()
    for part in parts:
        key, sign, value = part.partition("=")
        key, value = key.strip(), value.strip()
        if not sign:
            flags.add(key)
        elif key == "tag":
            tags.append(value)
        elif key.startswith("version."):
            versions[key.removeprefix("version.")] = value
        elif key not in _KEYS:
            raise UsageError(f"{text!r}: there is no condition {key!r}", hint=_help())
        elif key in fields:
            raise UsageError(f"{text!r}: {key} is given twice; one run has one", hint=_help())
        else:
            fields[key] = _value(text, key, value, moment)
    planner = fields.pop("planner", None)
    accepted = "accepted" in flags
    if accepted and (fields or versions or tags or len(flags) > 1 or planner):
        raise UsageError(f"{text!r}: 'accepted' goes with no other condition")
    return Selection(
        text=text,
        query=RunQuery(**fields, failed="failed" in flags),
        tags=tuple(tags),
        versions=versions,
        planner=planner,
        replays="replays" in flags,
        accepted=accepted,
    )


def _value(text: str, key: str, value: str, moment: ReadMoment) -> Any:
    if not value:
        raise UsageError(f"{text!r}: {key} has no value")
    match key:
        case "since" | "until":
            return moment(value)
        case "limit":
            if not value.isascii() or not value.isdigit() or int(value) < 1:
                raise UsageError(f"{text!r}: limit is a number from 1, not {value!r}")
            return int(value)
        case "status":
            return _status(text, value)
        case _:
            return value


def _status(text: str, value: str) -> str:
    if value in _STATUS:
        return value
    raise UsageError(f"{text!r}: status is one of {', '.join(_STATUS)}, not {value!r}")


def _help() -> str:
    return (
        f"conditions: {', '.join(f'{key}=' for key in (*_KEYS, 'version.NAME'))}; "
        f"words: {', '.join(_FLAGS)}; joined by commas; or ids of runs"
    )

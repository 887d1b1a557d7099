"""What really runs in a replay because the user said so, in children beside the planner's.

One child for simulations, which reaches nothing; one for live reads and one for sandboxes, which
reach what the user listed for them. A child is started before the planner is imported, and forks
for each replay. Its functions get the arguments and give back values; no connection leaves it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from replay.isolation import Exit, Gaps, Isolate, Level, Limits, Message, trusted, window
from replay.matching import Policies
from replay.toolhost import GUARD, SEARCHED
from tracekit.canonical import json_text
from tracekit.errors import UsageError
from tracekit.trajectory import Observation

Kind = Literal["simulate", "live", "sandbox"]
KINDS: tuple[Kind, ...] = ("simulate", "live", "sandbox")
_LONGER_S = 1.0
"""By how much a worker may outlive the planner, after which it began."""
_GRACE_S = 15.0


@dataclass(frozen=True)
class Bindings:
    """Which functions stand for which tools, and what they may reach."""

    functions: Mapping[Kind, Mapping[str, str]] = field(default_factory=dict)
    """Kind → tool → ``MOD:OBJ``; empty for a live tool that stands in the planner's module."""
    gaps: Mapping[Kind, Gaps] = field(default_factory=dict)
    guard: str | None = None
    """``MOD:OBJ`` of the check that production code makes before a write."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that only these children get."""

    def of(self, kind: Kind, tool: str) -> str | None:
        """Return the function of ``tool``, or that of all tools."""
        known = self.functions.get(kind, {})
        return known.get(tool, known.get("*"))

    def __bool__(self) -> bool:
        return bool(self.guard) or any(self.functions.values())


def check_bindings(bindings: Bindings, policies: Policies, *, locked: bool) -> None:
    """Refuse what would have no effect.

    Raises:
        UsageError: something is bound for a planner that only proposes, or a guard has no writes.
    """
    if bindings and locked:
        raise UsageError("nothing is made for a locked planner: it only proposes")
    without = not bindings.functions.get("sandbox")
    for name, given in (("--guard", bindings.guard), ("--sandbox-all", policies.exercise)):
        if given and without:
            raise UsageError(f"{name} is for writes in a sandbox, and there is no --sandbox")


def bound(policies: Policies, bindings: Bindings) -> Policies:
    """Return the policies by which a bound tool goes to what it is bound to.

    Raises:
        UsageError: a policy needs functions, and none is bound for it.
    """
    unmatched = dict(policies.unmatched)
    for kind in KINDS:
        for tool in bindings.functions.get(kind, {}):
            unmatched.setdefault(tool, kind)
    for name, wanted in unmatched.items():
        if any(wanted == kind and not bindings.functions.get(kind) for kind in KINDS):
            raise UsageError(
                f"policy {wanted} for unmatched calls of {name!r} needs a function",
                hint=f"say which: --{wanted} TOOL=MOD:OBJ",
            )
    live = policies.live | set(bindings.functions.get("live", {}))
    return replace(policies, unmatched=unmatched, live=frozenset(live))


class Worker:
    """One child with functions; a context manager. ``begin`` and ``end`` frame a replay."""

    def __init__(
        self,
        functions: Mapping[str, str],
        *,
        level: Level | None,
        limits: Limits,
        gaps: Gaps,
        env: Mapping[str, str],
        path: tuple[str, ...],
    ) -> None:
        self._patience_s = limits.wall_s
        self._isolate = Isolate(
            json_text(dict(functions)),
            # Without a wall nothing would hold it to what was listed.
            level="process" if level == "guard" else level,
            limits=replace(limits, wall_s=min(limits.wall_s + _LONGER_S, 86_400.0)),
            path=path,
            env=env,
            host="replay.toolhost",
            gaps=gaps,
        )
        self._thread: threading.Thread | None = None
        self._asked: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._came: queue.SimpleQueue[Message | Exit | BaseException] = queue.SimpleQueue()
        self.refused: list[str] = []
        """What the walls kept the functions from, in this replay."""

    def __enter__(self) -> Worker:
        """Start the child; see ``replay.isolation.Isolate`` for what it raises."""
        self._isolate.__enter__()
        return self

    def __exit__(self, *reason: Any) -> None:
        """End the child."""
        self.end()
        self._isolate.__exit__(*reason)

    @property
    def effects(self) -> Mapping[str, str]:
        """What its functions are declared to do, where they are decorated tools."""
        found: Mapping[str, str] = self._isolate.ready.planner["effects"]
        return found

    def call(self, call: Message) -> Message:
        """Run one call; what it came to, or that its process came to an end."""
        if self._thread is None:
            self.refused.clear()
            self._asked, self._came = queue.SimpleQueue(), queue.SimpleQueue()
            self._thread = threading.Thread(target=self._serve, daemon=True)
            self._thread.start()
        self._asked.put({"call": call})
        try:
            came = self._came.get(timeout=self._patience_s)
        except queue.Empty:
            return _gone("TimeoutError", f"it did not come back within {self._patience_s:g} s")
        if isinstance(came, Exit):
            self._thread = None
            return _gone("ChildProcessError", f"the process that made it ended: {came.kind}")
        if isinstance(came, BaseException):
            self._thread = None
            raise came
        return came

    def end(self) -> None:
        """End the replay: nothing more is asked."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._asked.put({})
            thread.join(timeout=_LONGER_S + _GRACE_S)

    @window
    def _serve(self) -> None:
        asked, came = self._asked, self._came

        def handle(message: Message) -> Message | None:
            if isinstance(found := message.get("finding"), dict):
                if found.get("refused"):
                    self.refused.append(f"{found['kind']}: {found['what']}")
                return None
            if message.get("came") is not None:
                came.put(message["came"])
            return asked.get()

        try:
            # The planner may be in this process, behind the same hook; this is none of its doing.
            with trusted():
                came.put(self._isolate.run({}, handle))
        except BaseException as error:  # noqa: BLE001  # raised again where the call was made
            came.put(error)


def _gone(kind: str, text: str) -> Message:
    return {"value": None, "types": {}, "error": [kind, text]}


def observation_of(came: Message) -> Observation:
    """Return what a function gave or raised as an observation."""
    error = came["error"]
    return Observation(
        value=came["value"],
        state="captured",
        types=came["types"],
        is_error=error is not None,
        error_type=error[0] if error else None,
        error_message=error[1] if error else None,
    )


def make_workers(
    bindings: Bindings,
    *,
    planner: str | None,
    level: Level | None,
    limits: Limits,
    env: Mapping[str, str],
    path: tuple[str, ...],
) -> dict[Kind, Worker]:
    """Make the children that ``bindings`` need; none is started yet.

    Raises:
        UsageError: a live tool is to be found in a planner that has no module.
    """
    made: dict[Kind, Worker] = {}
    for kind in KINDS:
        functions = {
            tool: named or _searched(tool, planner)
            for tool, named in bindings.functions.get(kind, {}).items()
        }
        if kind == "sandbox" and bindings.guard is not None:
            functions[GUARD] = bindings.guard
        if functions:
            made[kind] = Worker(
                functions,
                level=level,
                limits=limits,
                gaps=replace(bindings.gaps.get(kind, Gaps()), discarded=False),
                env={**env, **bindings.environment},
                path=path,
            )
    return made


def _searched(tool: str, planner: str | None) -> str:
    if planner is None:
        raise UsageError(
            f"tool {tool!r} cannot be looked for in a planner that is no module",
            hint=f"say where it is: {tool}=MOD:OBJ",
        )
    return SEARCHED + planner

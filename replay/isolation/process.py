"""The parent's side: starts the child, sees its walls proved, runs the planner in forks of it.

The parent keeps everything that counts: the tape, the store, the verdict. It trusts no word of a
run beyond what a run may say; how the run ended it hears from the child's keeper, on another pipe.
"""

from __future__ import annotations

import os
import secrets  # noqa: TID251 - a mark that the child must not guess, not chance that a run sees
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from replay.isolation import kernel
from replay.isolation.ending import (
    broken_exit,
    changes_copied_folder,
    describe_exit,
    failed_exit,
    notes_on,
    rebuild_error,
    wall_that_fell,
)
from replay.isolation.gaps import NO_GAPS, Gaps
from replay.isolation.hook import UNSEEN as UNSEEN_BY_HOOK
from replay.isolation.limits import Limits
from replay.isolation.outcome import LEVELS, Exit, Level, Ready, Wall
from replay.isolation.proof import Range
from replay.isolation.protocol import Message, ProtocolError, TooLarge, encode
from replay.isolation.scratch import make_places
from replay.isolation.transport import Change, Transport, start_plain
from replay.isolation.wire import ChildGone, Wire
from tracekit.errors import IsolationUnavailable, PlannerImportFailed, PlannerNotFound
from tracekit.leftovers import HeldFolder

Handle = Callable[[Message], Message | None]

_BOOT = (
    "import os, sys; sys.path[:] = sys.argv[1].split(os.pathsep); "
    "from replay.isolation.child import main; main()"
)
_ALLOWED = ("PATH", "LANG", "LANGUAGE", "TZ")
_FIXED = {"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
_UNSEEN = {"kernel": kernel.UNSEEN, "process": UNSEEN_BY_HOOK}
# What the keeper needs to end a run and sweep up, on top of the run's own time.
_GRACE_S = 10.0
_CLOSING_S = 2.0
_DISMISSAL_S = 1.0
_BOOT_S = 60.0


class Isolate:
    """A planner in a child process behind walls; a context manager.

    Args:
        planner: ``MOD:OBJ``.
        level: How far the walls must go; without it, as far as they can here.
        limits: Bounds on each run.
        path: Folders to look for modules in, before this process's own.
        env: Variables the planner gets beside the few that pass by themselves.
        cwd: The child's working folder; this process's own if not given.
        host: The module that loads, describes and runs planners in the child.
        gaps: What the walls let through.
    """

    ready: Ready
    """The walls that stand and what the planner is; set on entry."""

    def __init__(
        self,
        planner: str,
        *,
        level: Level | None = None,
        limits: Limits | None = None,
        path: Sequence[str | Path] = (),
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        host: str = "replay.planner",
        gaps: Gaps = NO_GAPS,
    ) -> None:
        if not planner.isprintable():  # half a character, say: nothing that could be sent
            raise PlannerNotFound(f"planner {planner!r} is no name", hint="write MOD:OBJ")
        self._planner = planner
        self._level, self._missing = _choose_level(level)
        self._may_step_down = level is None
        self._limits = limits or Limits()
        self._cwd = Path(cwd or Path.cwd()).resolve()
        self._path = _search_path(path, self._cwd)
        self._env = dict(env or {})
        self._host = host
        self._gaps = gaps
        self._transport: Transport | None = None
        self._stale = False
        self._copied = False
        self._waits = False
        self._imported: Ready | None = None
        self._range: Range | None = None
        self._folders: tuple[HeldFolder, ...] = ()
        self.incidental: tuple[Change, ...] = ()
        """File changes of the last run that went to a copy and were thrown away."""

    def __enter__(self) -> Self:
        """Start the child.

        Raises:
            IsolationUnavailable: a wall did not hold.
            PlannerError: the planner cannot be loaded.
        """
        try:
            self._start()
        except IsolationUnavailable as error:
            if not (self._may_step_down and self._level == "kernel"):
                raise
            self._level, self._missing = "process", (_not_standing(str(error)),)
            self._start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    @property
    def declared(self) -> Message:
        """What the planner's code declares."""
        return self.ready.planner.get("declared") or {}

    def run(self, request: Message, handle: Handle) -> Exit:
        """Run the planner once, in a process of its own.

        Args:
            request: What the child's host needs to run the planner.
            handle: Gets each message; what it returns is the answer to one that asks. What it
                raises ends the run and is raised here.
        """
        if self._transport is None or self._stale:
            self._stop()
            self._start()
        self.incidental = ()
        try:
            ended = self._run(request, handle)
            self._check_range()
            return ended
        except IsolationUnavailable:
            self._stale = True
            raise
        except BaseException:
            self._dismiss()
            raise
        finally:
            if self._copied:  # the next run must not find what this one wrote
                self._stop()

    # --- start and stop ---------------------------------------------------------------------------

    def _start(self) -> None:
        self._stale = self._copied = False
        self._folders = (HeldFolder("replay"), HeldFolder("copies"))
        self._scratch, self._storage = (folder.path for folder in self._folders)
        try:
            self._range = Range().open()
            self._mark = secrets.token_bytes(32)
            self._launch()
            self._deadline = time.monotonic() + _BOOT_S
            self._wire.send(self._boot(self._range.target.as_dict()), self._deadline)
            walls = self._check_walls(self._hear("walls")["walls"], self._range.hits())
            self._deadline = time.monotonic() + self._limits.start_s
            self._wire.send({"go": True}, self._deadline)
            self.ready = self._read_ready(walls)
        except BaseException:
            self._stop()
            raise
        if self.ready.notes and self._imported is None:  # it is not to be forked
            self._imported = self.ready
            self._stop()
            self._start()

    def _launch(self) -> None:
        command = [sys.executable, "-P", "-s", "-c", _BOOT, os.pathsep.join(_search_path((), None))]
        environment = self._environment()
        try:
            if self._level == "kernel":
                self._transport = kernel.start_confined(
                    command,
                    env=environment,
                    cwd=self._cwd,
                    scratch=self._scratch,
                    storage=self._storage,
                    gaps=self._gaps,
                )
            else:
                self._transport = start_plain(command, env=environment, cwd=self._cwd)
        except OSError as error:
            raise IsolationUnavailable(
                f"the child process could not be started: {error}"
            ) from error
        self._wire = Wire(self._transport, limit=self._limits.max_message)

    def _stop(self) -> None:
        transport, self._transport = self._transport, None
        if transport is not None:
            if self._stale:
                transport.kill()
            self.incidental += transport.close(grace_s=_CLOSING_S)
        if self._range is not None:
            self._range.close()
            self._range = None
        for folder in self._folders:
            folder.remove()

    def _environment(self) -> dict[str, str]:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name in _ALLOWED or name.startswith("LC_")
        }
        return {**inherited, **self._env, **_FIXED, **make_places(self._scratch)}

    def _boot(self, target: Message) -> Message:
        on_kernel = self._level == "kernel"
        copied = kernel.copied_folder(self._cwd, self._gaps) if on_kernel else None
        return {
            "level": self._level,
            "limits": self._limits.as_dict(),
            "scratch": str(self._scratch),
            "env": self._environment(),
            "path": self._path,
            "planner": self._planner,
            "import_anew": self._imported is not None,
            "host": self._host,
            "target": target,
            "sealed": kernel.sealed_numbers() if on_kernel else [],
            "judged": kernel.judged_numbers() if on_kernel else {},
            "copied": [str(copied)] if copied else [],
            "gaps": [self._gaps.addresses(), list(self._gaps.folders)],
            "mark": self._mark.hex(),
        }

    def _hear(self, what: str) -> Message:
        try:
            message = self._wire.control(self._deadline)
        except (ChildGone, ProtocolError) as error:
            words = self._wire.last_words() or str(error)
            raise IsolationUnavailable(
                f"the child process ended before its walls stood: {words}"
            ) from error
        if what not in message:
            raise IsolationUnavailable(f"the child process said {sorted(message)} for {what!r}")
        return message

    def _check_walls(self, said: list[Message], hits: list[str]) -> tuple[Wall, ...]:
        walls = []
        for wall in said:
            evidence = ", ".join([str(wall["evidence"]), *hits])
            held = bool(wall["held"]) and not hits
            walls.append(Wall(wall["name"], held, evidence, _UNSEEN[wall["name"]]))
        for wall_ in walls:
            if not wall_.held:
                raise IsolationUnavailable(
                    f"the {wall_.name} wall did not hold in its self-test: {wall_.evidence}",
                    hint="ask for less with --isolation, if the planner may be trusted that far",
                )
        return tuple(walls)

    def _read_ready(self, walls: tuple[Wall, ...]) -> Ready:
        try:
            message = self._wire.control(self._deadline)
        except (ChildGone, ProtocolError) as error:
            how = (
                f"was not imported within {self._limits.start_s:g} s"
                if time.monotonic() >= self._deadline
                else "ended the process while it was imported"
            )
            self._stale = True
            raise PlannerImportFailed(f"planner {self._planner!r} {how}") from error
        if (failure := message.get("failed")) is not None:
            raise rebuild_error(self._planner, failure, message.get("findings", []))
        if self._imported is not None:
            return replace(self._imported, walls=(*self._missing, *walls))
        return Ready(
            level=self._level,
            walls=(*self._missing, *walls),
            planner=message["ready"],
            findings=tuple(message["findings"]),
            output=message["output"],
            notes=notes_on(message["threads"]),
        )

    def _check_range(self) -> None:
        """See after each run that nothing arrived where the walls were proved."""
        if self._range is not None and (hits := self._range.hits()):
            raise IsolationUnavailable(f"a wall did not hold during a run: {', '.join(hits)}")

    # --- a run ------------------------------------------------------------------------------------

    def _run(self, request: Message, handle: Handle) -> Exit:
        deadline = time.monotonic() + self._limits.wall_s + _GRACE_S
        last: Message | None = None
        count = 0
        self._waits = False
        try:
            self._wire.send({"run": request}, deadline)
            while (frame := self._wire.next(deadline)) is not None:
                count += 1
                if count > self._limits.max_messages:
                    raise ProtocolError(f"more than {self._limits.max_messages:,} messages")
                last = self._take(frame, handle, deadline) or last
            ended, rest = self._close_run()
            for frame in rest:
                last = self._take(frame, handle, None) or last
        except ProtocolError as error:
            self._stale = True
            return broken_exit(error)
        except ChildGone as error:
            self._stale = True
            return failed_exit("killed", f"the planner's child process was lost: {error}")
        if (fell := wall_that_fell(last)) is not None:
            raise IsolationUnavailable(fell)
        return describe_exit(ended, last, self._limits)

    def _dismiss(self) -> None:
        """End a run that was left in the middle, so that its child serves the next."""
        deadline = time.monotonic() + _DISMISSAL_S
        try:
            if self._waits:
                self._wire.send({"stop": True}, deadline)
            while (frame := self._wire.next(deadline)) is not None:
                if "q" in frame:
                    self._wire.send({"stop": True}, deadline)
                if time.monotonic() > deadline:
                    raise ChildGone("it goes on")
            self._close_run()
        except (ChildGone, ProtocolError):
            self._stale = True

    def _close_run(self) -> tuple[Message, list[Message]]:
        """Return how the run ended and what it had still sent, and clear the pipes."""
        deadline = time.monotonic() + _GRACE_S
        ended: Message = self._wire.control(deadline)["exited"]
        rest = self._wire.rest()
        self._wire.send_bytes(self._mark, deadline)
        self._wire.control(deadline)
        return ended, rest

    def _take(self, frame: Message, handle: Handle, deadline: float | None) -> Message | None:
        """Handle one frame of a run; return it if it is the last one."""
        if "done" in frame or "failed" in frame:
            return frame
        message = frame.get("m")
        if not isinstance(message, dict):
            raise ProtocolError("a frame without a message")
        self._copied = self._copied or changes_copied_folder(message)
        self._waits = "q" in frame
        answer = handle(message)
        if "q" in frame and deadline is not None:
            self._answer({"q": frame["q"], "m": answer or {}}, deadline)
        return None

    def _answer(self, frame: Message, deadline: float) -> None:
        try:
            data = encode(frame, limit=self._limits.max_message)
        except TooLarge:
            raise
        except ProtocolError as error:
            raise ValueError(f"the answer cannot be sent: {error}") from error
        self._wire.send_bytes(data, deadline)


def _choose_level(asked: Level | None) -> tuple[Level, tuple[Wall, ...]]:
    """Return the level to stand at, and the walls that a default level has to do without."""
    available, reason = kernel.kernel_available()
    if asked is None:
        return ("kernel", ()) if available else ("process", (_not_standing(reason),))
    if asked not in LEVELS:
        raise IsolationUnavailable(
            f"there is no isolation {asked!r}", hint=f"there are: {', '.join(LEVELS)}"
        )
    if asked == "kernel" and not available:
        raise IsolationUnavailable(f"isolation 'kernel' is not available: {reason}")
    return asked, ()


def _not_standing(reason: str) -> Wall:
    return Wall("kernel", held=False, evidence=reason, unseen=kernel.UNSEEN)


def _search_path(first: Sequence[str | Path], cwd: Path | None) -> list[str]:
    here = os.getcwd()
    own = [entry or here for entry in sys.path]
    ahead = [str(Path(entry).resolve()) for entry in first]
    return list(dict.fromkeys([*ahead, *([str(cwd)] if cwd else []), *own]))

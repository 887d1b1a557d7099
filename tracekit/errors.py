"""What can go wrong, as one tree. Every error says what happened, what is known, and what to do.

    TracekitError
    ├── RunNotFound                 no such run, or an ambiguous prefix
    ├── StoreError
    │   ├── StoreVersionError       written by a newer version
    │   └── StoreBusy               a second process on a single-process store
    ├── InvalidJson                 text that is not JSON, with line and column
    ├── PointerNotFound             a JSON pointer that leads nowhere
    ├── NotReplayable               a value that was described, not kept
    ├── ContractError               a tool declaration that contradicts itself
    ├── NotRecorded                 a call in a replay that the recording cannot answer
    ├── WriteBlocked                a write tool reached in a replay
    ├── CallRefused                 the guard refused a call
    ├── RecordedError               a recorded error whose class cannot be rebuilt
    ├── ImportFormatError           an import file that is no trace of a known format
    ├── RedactionKeyError           the redaction key cannot be read or is not private
    ├── PlannerError
    │   ├── PlannerNotFound         the module or attribute is not there
    │   ├── PlannerImportFailed     its module raised while it was imported
    │   └── PlannerSignatureError   it cannot be called with the run's input
    ├── IsolationUnavailable        a wall was asked for that cannot stand here
    ├── ReplayInProgress            a second in-process replay at the same time
    ├── ReplayNotPossible           the record lacks what a replay needs
    ├── CaseError                   a malformed case, gate or policy file, with line and column
    ├── NotComparable               two sets of runs differ in what must be equal
    ├── DistillError                there is nothing to distill, or no failure to keep
    └── UsageError                  options that contradict each other

An error is for what could not be done. A planner that fails, a replay that diverges or a gate that
is not met are results, not errors.
"""

from __future__ import annotations

from collections.abc import Sequence


class TracekitError(Exception):
    """Base of everything that tracekit raises on purpose.

    Args:
        message: What happened; one sentence.
        hint: What to do about it; shown on a line of its own.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n  {self.hint}"


class RunNotFound(TracekitError):
    """There is no such run, or the prefix fits several."""

    def __init__(self, run_id: str, *, store: str, candidates: Sequence[str] = ()) -> None:
        self.run_id = run_id
        self.store = store
        self.candidates = tuple(candidates)
        if any(candidate.startswith(run_id) for candidate in candidates) and run_id:
            more = f" … and {len(self.candidates) - 10} more" if len(self.candidates) > 10 else ""
            listed = ", ".join(self.candidates[:10]) + more
            message = f"run id {run_id!r} is ambiguous in {store}: {listed}"
            super().__init__(message, hint="give more characters of the id")
        else:
            closest = f"; closest: {', '.join(self.candidates)}" if self.candidates else ""
            super().__init__(
                f"no run {run_id!r} in {store}{closest}",
                hint=f"list the runs there with: tracekit runs --store {store}",
            )


class StoreError(TracekitError):
    """The store cannot be read or written."""


class StoreVersionError(StoreError):
    """The store was written by a newer version of tracekit."""


class StoreBusy(StoreError):
    """Another process holds a store that only one process may hold."""


class InvalidJson(TracekitError):
    """A text is not JSON.

    Args:
        message: What the parser met.
        line: 1-based line of the fault.
        column: 1-based column of the fault.
    """

    def __init__(self, message: str, *, line: int, column: int) -> None:
        super().__init__(f"{message} (line {line}, column {column})")
        self.line = line
        self.column = column


class PointerNotFound(TracekitError):
    """A JSON pointer leads nowhere in the value."""

    def __init__(self, pointer: str, *, reason: str) -> None:
        self.pointer = pointer
        super().__init__(f"no value at {pointer!r}: {reason}")


class NotReplayable(TracekitError):
    """A value was recorded as a description only, so a replay cannot return it."""


class ContractError(TracekitError):
    """A tool's declaration contradicts itself or its function."""


class NotRecorded(TracekitError):
    """A call in a replay is not in the recording; what the planner gets as its observation."""


class WriteBlocked(TracekitError):
    """A tool that writes, or may write, was reached in a replay; its body was not entered."""

    def __init__(self, tool: str, effect: str, *, reason: str = "") -> None:
        self.tool = tool
        self.effect = effect
        detail = f": {reason}" if reason else ""
        super().__init__(f"{tool} (effect {effect}) is not executed in a replay{detail}")


class CallRefused(TracekitError):
    """The guard refused a call before its body ran."""

    def __init__(self, tool: str, *, rule: str, reason: str) -> None:
        self.tool = tool
        self.rule = rule
        super().__init__(f"{tool} was refused by {rule}: {reason}")


class RecordedError(TracekitError):
    """A recorded call had failed with an error whose class cannot be rebuilt here."""

    def __init__(self, error_type: str, error_message: str) -> None:
        self.error_type = error_type
        self.error_message = error_message
        super().__init__(f"{error_type}: {error_message}")


class ImportFormatError(TracekitError):
    """A file to import is no trace of a known format."""


class RedactionKeyError(TracekitError):
    """The redaction key cannot be read, written, or is readable by others."""


class PlannerError(TracekitError):
    """The planner cannot be used."""


class PlannerNotFound(PlannerError):
    """There is no such module or attribute."""


class PlannerImportFailed(PlannerError):
    """The planner's module raised while it was imported."""


class PlannerSignatureError(PlannerError):
    """The planner cannot be called with the run's input."""


class IsolationUnavailable(TracekitError):
    """A wall was asked for that cannot be put up here."""


class ReplayInProgress(TracekitError):
    """A replay is already running in this process."""


class ReplayNotPossible(TracekitError):
    """The record does not hold what a replay needs."""


class CaseError(TracekitError):
    """A case, gate or policy file is malformed.

    Args:
        message: What is wrong.
        path: The file.
        line: 1-based line, where known.
        column: 1-based column, where known.
    """

    def __init__(
        self, message: str, *, path: str, line: int | None = None, column: int | None = None
    ) -> None:
        self.path = path
        self.line = line
        self.column = column
        place = path if line is None else f"{path}:{line}:{column or 1}"
        super().__init__(f"{place}: {message}")


class NotComparable(TracekitError):
    """Two sets of runs differ in what must be equal for a comparison to say anything.

    Args:
        message: What differs, and where.
        names: Names of what differs.
        hint: What to do about it.
    """

    def __init__(self, message: str, *, names: Sequence[str], hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.names = tuple(names)


class DistillError(TracekitError):
    """There is nothing to distill, or no failure that could be kept."""


class UsageError(TracekitError):
    """Options contradict each other or name something that does not exist."""

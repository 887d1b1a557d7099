"""From what the keeper and the run said to how the run ended, in one sentence."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from contextlib import suppress

import tracekit.errors
from replay.isolation import proof
from replay.isolation.limits import Limits
from replay.isolation.outcome import Ending, Exit
from replay.isolation.protocol import Message, ProtocolError, TooLarge
from tracekit.errors import PlannerImportFailed, TracekitError

_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
"""What the system, a supervisor or a terminal ends processes with."""


def failed_exit(kind: Ending, detail: str, *, output: str = "", traceback: str = "") -> Exit:
    """Return an ending without a result."""
    return Exit(kind, detail, output=output, traceback=traceback)


def broken_exit(error: ProtocolError) -> Exit:
    """Return the ending of a run whose messages could not go on: what was sent, or was to be."""
    if isinstance(error, TooLarge):
        return failed_exit("too large", f"the planner is to be sent {error}")
    return failed_exit("protocol", f"the planner's process sent {error}")


def describe_exit(ended: Message, last: Message | None, limits: Limits) -> Exit:
    """Return how a run ended.

    Args:
        ended: What the keeper saw.
        last: The run's own last frame, if it came to that.
        limits: The limits that held.
    """
    output = str(ended.get("output", ""))
    if last is not None and "done" in last:
        return Exit("done", "", result=last["done"], output=output)
    if ended.get("stopped") == "timeout":
        detail = f"the planner did not end within {limits.wall_s:g} s"
        return failed_exit("timeout", detail, output=output)
    if ended.get("stopped") == "memory":
        detail = f"the planner needs more than its {limits.memory_mb:,} MB of memory"
        return failed_exit("memory", detail, output=output)
    if last is not None:
        return _failure(last["failed"], limits, output)
    return _death(ended, limits, output)


def _failure(failure: Message, limits: Limits, output: str) -> Exit:
    said = f"{failure['type']}: {failure['message']}" if failure["message"] else failure["type"]
    if failure["memory"]:
        kind: Ending = "memory"
        detail = f"the planner needs more than its {limits.memory_mb:,} MB of memory"
    elif failure["too large"]:
        kind, detail = "too large", f"the planner needs to send {failure['message']}"
    elif failure["protocol"]:
        kind, detail = "protocol", f"the planner's process tried to send {failure['message']}"
    else:
        kind, detail = "crashed", f"the planner raised {said}"
    return failed_exit(kind, detail, output=output, traceback=failure["traceback"])


def _death(ended: Message, limits: Limits, output: str) -> Exit:
    number, code = ended.get("signal"), ended.get("code")
    if number is None:
        detail = f"the planner left its process with exit code {code} before it had finished"
        return failed_exit("crashed", detail, output=output)
    name = f"signal {number}"
    with suppress(ValueError):
        name = signal.Signals(number).name
    if number == signal.SIGXCPU:
        detail = f"the planner used more than {limits.cpu_s} s of processor time"
        return failed_exit("timeout", detail, output=output)
    if number in _FROM_OUTSIDE:
        return failed_exit("killed", f"the planner's process was killed ({name})", output=output)
    return failed_exit("crashed", f"the planner's process died of {name}", output=output)


def notes_on(threads: Sequence[str]) -> tuple[str, ...]:
    """Say why the planner is imported in each run: a fork of its process would lack its threads."""
    if not threads:
        return ()
    return (
        f"the planner's modules start threads when they are imported ({', '.join(threads[:3])}), "
        "so each run imports them anew",
    )


def changes_copied_folder(message: Message) -> bool:
    """Tell whether a run wrote where the next run of the same child would read it."""
    finding = message.get("finding")
    return isinstance(finding, dict) and finding.get("refused") is False


def wall_that_fell(last: Message | None) -> str | None:
    """Return what a run says of a wall that does not stand in its process, if one does not."""
    failure = (last or {}).get("failed")
    if failure is None or failure["type"] != proof.WallFell.__name__:
        return None
    return str(failure["message"])


def rebuild_error(planner: str, failure: Message, findings: list[Message]) -> TracekitError:
    """Return the error that the child met, as its own class where that is one of ours."""
    kind = getattr(tracekit.errors, str(failure["type"]), None)
    if isinstance(kind, type) and issubclass(kind, TracekitError):
        error = kind.__new__(kind)
        Exception.__init__(error, failure["message"])
        vars(error).update(failure["attributes"])
    else:
        attempts = "; ".join(str(finding.get("what")) for finding in findings)
        refused = f" (refused while it was imported: {attempts})" if attempts else ""
        error = PlannerImportFailed(
            f"planner {planner!r} could not be imported: "
            f"{failure['type']}: {failure['message']}{refused}"
        )
    error.add_note(str(failure["traceback"]))
    return error

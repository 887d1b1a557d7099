"""What commands share: their options, how they open a store, and how they explain themselves."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from tracekit.cli.text import tell
from tracekit.errors import TracekitError
from tracekit.store import Store, open_store

F = TypeVar("F", bound=Callable[..., Any])

NOTHING, FINDING, MISUSE, INTERRUPTED, BROKEN_PIPE, TERMINATED = 0, 1, 2, 130, 141, 143
"""How a command exits."""

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

store_option = click.option(
    "--store",
    default=".tracekit",
    envvar="TRACEKIT_STORE",
    metavar="PATH",
    show_default=True,
    help="The trace store; TRACEKIT_STORE where not given.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Write JSON.")
_debug_option = click.option(
    "--debug", is_flag=True, expose_value=False, callback=lambda ctx, _, on: _note_debug(ctx, on),
    help="Show where an error came from.",
)  # fmt: skip


def option_group(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Make one decorator of several options, which stand in the help in this order."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def _note_debug(ctx: click.Context, on: Any) -> None:
    ctx.meta["tracekit.debug"] = bool(on)


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Take a request to terminate as an interruption, so that what is done is kept."""

    def end(number: int, frame: object) -> None:
        raise SystemExit(TERMINATED)

    if threading.current_thread() is not threading.main_thread():
        yield  # a signal cannot be heard of there
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def explained(function: F) -> F:
    """Show what could not be done as text and exit with 2; a bug keeps its traceback."""

    @wraps(function)
    def explaining(*args: Any, **kwargs: Any) -> Any:
        try:
            result = function(*args, **kwargs)
            sys.stdout.flush()
        except TracekitError as error:
            _explain(str(error))
            sys.exit(MISUSE)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)
        except RuntimeError as error:  # how the database passes a KeyboardInterrupt on
            if str(error) != "Query interrupted":
                raise
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            _drop_output()
            sys.exit(BROKEN_PIPE)
        except _database_errors() as error:
            _explain(_told_by_the_database(error))
            sys.exit(MISUSE)
        except OSError as error:
            _drop_output()
            place = "the output" if error.filename is None else str(error.filename)
            _explain(f"{place}: {error.strerror or type(error).__name__}")
            sys.exit(MISUSE)
        else:
            return result

    return cast(F, _debug_option(explaining))


def _database_errors() -> tuple[type[Exception], ...]:
    """Name what the database raises where disk or memory give no more, if it is loaded at all.

    Its other errors are bugs of ours, or are told by whoever asks it.
    """
    duckdb = sys.modules.get("duckdb")
    return () if duckdb is None else (duckdb.IOException, duckdb.OutOfMemoryException)


def _told_by_the_database(error: Exception) -> str:
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return f"{first}\n  make room on the disk and in memory; nothing was changed"


def _explain(text: str) -> None:
    if click.get_current_context().meta.get("tracekit.debug"):
        traceback.print_exc()
    else:
        tell_error(text)


def tell_error(text: str) -> None:
    """Say on stderr what could not be done."""
    first, *rest = f"Error: {text}".split("\n")
    # what else it says is set in, so that no text from a trace can look like a line of ours
    tell(first, *(line if line.startswith("  ") else f"  {line}" for line in rest), err=True)


def _drop_output() -> None:
    """Let go of what is still in the buffer and has no taker; or else exit would complain."""
    with suppress(OSError, ValueError):  # no file behind it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def open_for_reading(path: str) -> Store:
    """Open a store for a command that reads; journals of gone processes are settled first."""
    store = open_store(path)
    store.settle()
    return store


def warn_of_damage(store: Store) -> None:
    """Say on stderr, in one line, what could not be read."""
    problems = store.problems
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        tell(
            f"Warning: {problems[0]}{more}; the rest was read. See: tracekit doctor"
            f" --store {store.path}",
            err=True,
        )


if TYPE_CHECKING:
    _DatetimeType = click.ParamType[datetime]
else:  # not generic before click 8.2
    _DatetimeType = click.ParamType


class Moment(_DatetimeType):
    """A time: how long ago (``7d``, ``24h``, ``30m``), or an ISO 8601 date or time, in UTC."""

    name = "when"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Read the time."""
        if isinstance(value, datetime):
            return value
        text = str(value).strip()
        if ago := re.fullmatch(r"(\d+)([smhdw])", text):
            from tracekit import conditions

            now = datetime.fromtimestamp(conditions.now_ns() / 1e9, UTC)
            try:
                return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
            except OverflowError:
                return datetime.min.replace(tzinfo=UTC)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.fail(
                f"{value!r} is no time; give 7d, 24h, 30m, 2026-11-30 or 2026-11-30T12:00",
                param,
                ctx,
            )
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

"""How this process records: where to, under which names, with which redaction.

There is one recorder a process. It is made at the first recorded call if nothing was configured, so
that one decorator is enough. A replay puts its own recorder in the place; what user code configures
then changes redaction and versions, never where facts go.
"""

from __future__ import annotations

import atexit
import os
import pickle
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from tracekit import conditions, otel
from tracekit.errors import StoreError, UsageError
from tracekit.journal import Durability, Journal
from tracekit.keeping import Keeper
from tracekit.limits import Limits
from tracekit.recorder import Recorder
from tracekit.redact import KeyedTagger, Redactor, Rules, load_key
from tracekit.store.places import journal_folder

DEFAULT_STORE = ".tracekit"
Rule = str | re.Pattern[str] | Callable[[str], str]
OnLoss = Literal["record", "refuse_writes"]

_lock = threading.RLock()
_recorder: Recorder | None = None
_replaying = False
_on_loss: OnLoss = "record"
_settings: dict[str, Any] | None = None
"""What ``configure`` was given, for processes that are begun in a step of ours."""
_untried: dict[str, Any] = {}
"""The same where it could not be done (no key): the next recorded call tries again."""
_portable: tuple[object, Mapping[str, Any] | None] = (None, None)
_unusable: Exception | None = None
"""Why this process cannot record as the one does that began it."""


def configure(
    *,
    store: str | os.PathLike[str] | None = None,
    service: str = "agent",
    versions: Mapping[str, str] | None = None,
    redact: Sequence[Rule] = (),
    durability: Durability = "os",
    on_loss: OnLoss = "record",
    limits: Limits = Limits(),  # noqa: B008  # frozen
    otlp: bool | str = False,
    otlp_content: bool = False,
    spans: bool = False,
) -> None:
    """Say where and how this process records.

    Args:
        store: A folder, or a file ``*.duckdb``; default ``$TRACEKIT_STORE``, else ``.tracekit``.
        service: Name of this program; ``service.name`` of exported spans.
        versions: Version set of its runs: dataset, model, prompt, tool_schema, index,
            evaluator, code.
        redact: Rules beside the built-in ones: field names, ``$.paths``, patterns, functions.
        durability: ``os`` survives a kill of the process, ``disk`` a power cut.
        on_loss: ``record`` goes on while nothing can be written and counts what is lost;
            ``refuse_writes`` refuses calls of tools that may write until it can be.
        limits: How many bytes of values are kept of one value, of a run, in the store.
        otlp: Send spans out by OTLP, too: ``http://…``, ``grpc://…``, True for its own variables.
        otlp_content: Let spans carry what was asked and answered, too; redacted.
        spans: Record the spans of other instrumentations, too.
    """
    given = locals()
    if on_loss not in ("record", "refuse_writes"):
        raise UsageError(f"on_loss={on_loss!r} is not known", hint="record or refuse_writes")
    rules = Rules.from_user(list(redact))
    with _lock:
        if _replaying and _recorder is not None:
            _recorder.redactor = Redactor(rules, _recorder.redactor.tagger)
            _recorder.versions = dict(versions or {})
        else:
            _begin(given, rules)


def _begin(given: dict[str, Any], rules: Rules) -> None:
    """Record from now on as ``configure`` was told."""
    global _recorder, _on_loss, _settings, _untried, _unusable  # one recorder a process
    _on_loss, _unusable = given["on_loss"], None
    store = store_path(given["store"])
    _settings, _untried = {**given, "store": store.absolute()}, given
    _open_spans(given)
    previous = _recorder
    _recorder = _make(store, rules, given)
    _untried = {}
    if previous is not None:
        previous.write_loss()
        previous.sink.close()


def _open_spans(given: dict[str, Any]) -> None:
    """Let spans out and in, as ``configure`` was told."""
    otel.send_content(wanted=given["otlp_content"])
    if otlp := given["otlp"]:
        endpoint = otlp if isinstance(otlp, str) else None
        otel.export_to(endpoint, service=given["service"], redactor=lambda: recorder().redactor)
    global _spans_wanted  # as above
    _spans_wanted = given["spans"]
    if _spans_wanted:
        _watch_spans()


def _at_exit() -> None:
    if _recorder is not None:
        _recorder.write_loss()


atexit.register(_at_exit)


def store_path(store: str | os.PathLike[str] | None = None) -> Path:
    """The path of the store that is meant when ``store`` is given or left out."""
    return Path(store or os.environ.get("TRACEKIT_STORE") or DEFAULT_STORE)


def recorder() -> Recorder:
    """The recorder of this process, made with the defaults where nothing was configured."""
    found = _recorder
    if _spans_wanted:
        _watch_spans()
    if found is None:
        with _lock:
            if _recorder is None:
                if _unusable is not None:
                    raise _unusable
                configure(**_untried)
            found = _recorder
    assert found is not None
    return found


_spans_wanted = False
"""Whether other people's spans are to be recorded and there was no provider to take them from."""


def _watch_spans() -> None:
    """Take them from the program's provider; where it has none yet, the next step tries again."""
    from tracekit.foreign import SpanRecorder

    global _spans_wanted  # a fact about this process
    if not _replaying and otel.watch(SpanRecorder(recorder)):
        _spans_wanted = False


def strict() -> bool:
    """Whether a fault of recording is an error, as in a replay."""
    return _recorder is not None and _recorder.strict


def refuses_writes() -> bool:
    """Whether tools that may write are refused while nothing can be recorded."""
    return _on_loss == "refuse_writes"


def portable() -> Mapping[str, Any] | None:
    """What another process needs to record as this one does; None where it cannot be sent."""
    global _portable  # found out once a configuration
    if _portable[0] is not _settings:
        try:
            pickle.dumps(_settings)
            _portable = (_settings, _settings)
        except Exception:  # noqa: BLE001  # a rule that is a closure, say; the child is told
            _portable = (_settings, None)
    return _portable[1]


def adopt(settings: Mapping[str, Any] | None) -> None:
    """Record as the process does that began this one, where nothing was configured here.

    Where that cannot be, this process records nothing: what it kept would be redacted less, or
    elsewhere. Nothing is raised: the traced program is never the victim.
    """
    global _unusable  # a fact about this process
    with _lock:
        if _recorder is not None:
            return
        try:
            if settings is None:
                raise StoreError(
                    "the redaction rules of the process that began this one cannot be sent",
                    hint="call tracekit.configure in a module that both import",
                )
            configure(**settings)
        except Exception as error:  # noqa: BLE001  # raised to whoever records here
            _unusable = error


def _make(path: Path, rules: Rules, given: Mapping[str, Any]) -> Recorder:
    tagger = KeyedTagger(load_key())
    # Absolute now: a program that changes its folder goes on recording to the same store.
    folder = journal_folder(path.absolute())
    journal = Journal(folder, durability=given["durability"])
    keeper = Keeper.within(given["limits"], path.absolute(), folder)
    versions = dict(given["versions"] or {})
    made = Recorder(journal, Redactor(rules, tagger), versions=versions, keeper=keeper)
    conditions.set_mint_observer(made.mint)
    return made


@contextmanager
def recording_to(replacement: Recorder) -> Iterator[Recorder]:
    """Record with ``replacement`` until the block ends; ``configure`` cannot change where to."""
    global _recorder, _replaying  # one recorder a process
    with _lock:
        previous = _recorder, _replaying
        _recorder, _replaying = replacement, True
    conditions.set_mint_observer(replacement.mint)
    try:
        yield replacement
    finally:
        with _lock:
            _recorder, _replaying = previous
        conditions.set_mint_observer(_recorder.mint if _recorder else None)

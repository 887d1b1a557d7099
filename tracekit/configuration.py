"""How this process records: where to, under which names, with which redaction.

There is one recorder a process. It is made at the first recorded call if nothing was configured, so
that one decorator is enough. A replay puts its own recorder in the place; what user code configures
then changes redaction and versions, never where facts go.
"""

from __future__ import annotations

import atexit
import logging
import os
import pickle
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from tracekit import conditions, otel, settings
from tracekit.errors import StoreError, UsageError
from tracekit.interruption import Suppressed, pass_on
from tracekit.journal import Durability, Journal
from tracekit.keeping import Keeper
from tracekit.limits import Limits
from tracekit.recorder import Recorder
from tracekit.redact import KeyedTagger, Redactor, Rules, UnkeyedTagger, load_key
from tracekit.sampling import KEEP_ALL, Sampling
from tracekit.sink import NowhereSink
from tracekit.store.places import journal_folder

DEFAULT_STORE = ".tracekit"
Rule = str | re.Pattern[str] | Callable[[str], str]
OnLoss = Literal["record", "refuse_writes"]

_DEFAULTS: Mapping[str, Any] = {
    "store": None,
    "service": "agent",
    "durability": "os",
    "on_loss": "record",
    "limits": Limits(),
    "sample": KEEP_ALL,
    "otlp": False,
    "otlp_content": False,
    "spans": False,
}

off = settings.disabled()
"""Whether decorated calls simply run: nothing is recorded, and no store or key is made. Whoever
wraps calls reads it at each; it is never true in a replay."""
_switched_off = off
_told: set[settings.Fault] = set()
_log = logging.getLogger("tracekit")
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
    service: str | None = None,
    versions: Mapping[str, str] | None = None,
    redact: Sequence[Rule] = (),
    durability: Durability | None = None,
    on_loss: OnLoss | None = None,
    limits: Limits | None = None,
    sample: Sampling | None = None,
    otlp: bool | str | None = None,
    otlp_content: bool | None = None,
    spans: bool | None = None,
    enabled: bool | None = None,
) -> None:
    """Say where and how this process records.

    What is left out is as the ``TRACEKIT_*`` environment variables say, else as by default.

    Args:
        store: A folder, or a file ``*.duckdb``; default ``.tracekit``.
        service: Name of this program; ``service.name`` of exported spans.
        versions: Version set of its runs: dataset, model, prompt, tool_schema, index, code.
        redact: Rules beside the built-in ones: field names, ``$.paths``, patterns, functions.
        durability: ``os`` (default) survives a kill of the process, ``disk`` a power cut.
        on_loss: ``record`` (default) goes on while nothing can be written and counts what is lost;
            ``refuse_writes`` refuses calls of tools that may write until it can be.
        limits: How many bytes of values are kept of one value, of a run, in the store.
        sample: Which runs are kept when journals go into the store; default all.
        otlp: Send spans out by OTLP, too: ``http://…``, ``grpc://…``, True for its own variables.
        otlp_content: Let spans carry what was asked and answered, too; redacted.
        spans: Record the spans of other instrumentations, too.
        enabled: False records nothing; TRACEKIT_DISABLED=true wins over True.
    """
    _configure({name: value for name, value in locals().items() if value is not None})


def _configure(given: dict[str, Any]) -> None:
    for name, known in (("on_loss", ("record", "refuse_writes")), ("durability", ("os", "disk"))):
        if given.get(name, known[0]) not in known:
            raise UsageError(f"{name}={given[name]!r} is not known", hint=" or ".join(known))
    _check_types(given)
    Rules.from_user(list(given["redact"]))  # what is wrong is an error where it was written
    said = settings.read_environment()
    _tell(said.faults)
    with _lock:
        if _replaying and _recorder is not None:
            rules = Rules.from_user(_resolved(given, said)["redact"])
            _recorder.redactor = Redactor(rules, _recorder.redactor.tagger)
            _recorder.versions = dict(given.get("versions", {}))
        else:
            _begin(given, said)


_TYPES: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "service": (str, "give a name"),
    "versions": (Mapping, "give a dict of texts"),
    "redact": ((list, tuple, set, frozenset), "give a list of rules, also for one"),
    "limits": (Limits, "give tracekit.Limits(value_bytes=…)"),
    "sample": (Sampling, "give tracekit.Sampling(rate=…)"),
    "otlp": ((bool, str), "give an endpoint, or True"),
    "otlp_content": (bool, "give True or False"),
    "spans": (bool, "give True or False"),
    "enabled": (bool, "give True or False"),
}
"""What an argument has to be, where another type would be taken for something else."""


def _check_types(given: dict[str, Any]) -> None:
    """Refuse what is not meant as it would be taken: a text for a list of rules, a number.

    Raises:
        UsageError: an argument is of another type.
    """
    for name, (kinds, hint) in _TYPES.items():
        if name in given and not isinstance(given[name], kinds):
            raise UsageError(f"{name}={given[name]!r} is a {type(given[name]).__name__}", hint=hint)
    if "versions" in given:
        given["versions"] = {str(part): str(said) for part, said in given["versions"].items()}


def _resolved(given: Mapping[str, Any], said: settings.Said) -> dict[str, Any]:
    """Put together what code says, what the environment says, and the defaults, in this order."""
    mine, added = list(given.get("redact", ())), said.given.get("redact", ())
    return {
        **_DEFAULTS,
        **said.given,
        **given,
        "redact": [*mine, *(rule for rule in added if rule not in mine)],
        "versions": {**said.given.get("versions", {}), **given.get("versions", {})},
        "enabled": given.get("enabled", True) and not settings.disabled(),
    }


def _begin(given: dict[str, Any], said: settings.Said) -> None:
    """Record from now on as ``configure`` was told."""
    global _recorder, _on_loss, _settings, _untried, _unusable  # one recorder a process
    wanted = _resolved(given, said)
    _on_loss, _unusable = wanted["on_loss"], None
    store = store_path(wanted["store"])
    _settings, _untried = {**wanted, "store": store.absolute()}, given
    _switch(on=wanted["enabled"])
    previous = _recorder
    if said.stop is not None:
        _recorder, _unusable = None, StoreError(said.stop.what)
    elif not wanted["enabled"]:
        _recorder = _make_nowhere(Rules.from_user(wanted["redact"]))
    else:
        _open_spans(wanted, from_code=given)
        _recorder = _make(store, Rules.from_user(wanted["redact"]), wanted)
    _untried = {}
    if previous is not None:
        previous.write_loss()
        previous.sink.close()


def _switch(*, on: bool) -> None:
    """Let calls be recorded or not; a replay is not concerned."""
    global off, _switched_off  # facts about this process
    _switched_off = not on
    off = _switched_off and not _replaying


def enabled() -> bool:
    """Whether recording is switched on in this process."""
    return not _switched_off


def _tell(faults: Sequence[settings.Fault]) -> None:
    """Say in the log what was not understood in the environment, once a process."""
    for fault in faults:
        if fault not in _told:
            _told.add(fault)
            with Suppressed(BaseException):  # a handler of the program's
                _log.error("tracekit: %s", fault.what)


def _open_spans(wanted: Mapping[str, Any], *, from_code: Mapping[str, Any]) -> None:
    """Let spans out and in, as was said; only what code asks for may fail here."""
    otel.send_content(wanted=wanted["otlp_content"])
    if otlp := wanted["otlp"]:
        endpoint = otlp if isinstance(otlp, str) else None
        try:
            otel.export_to(
                endpoint, service=wanted["service"], redactor=lambda: recorder().redactor
            )
        except Exception as error:
            if "otlp" in from_code:
                raise
            what = f"TRACEKIT_OTLP has no effect: {type(error).__name__}: {error}"
            _tell([settings.Fault("TRACEKIT_OTLP", what)])
    global _spans_wanted  # as above
    _spans_wanted = wanted["spans"]
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
                _configure({"redact": (), **_untried})
            found = _recorder
    assert found is not None
    return found


def configured_rules() -> Rules:
    """The rules of redaction of this process; to ask for them begins no recording."""
    return settings.redaction_rules() if _recorder is None else _recorder.redactor.rules


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
        except Exception as error:  # noqa: BLE001  # a rule that is a closure, say; the child is told
            pass_on(error)
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
            pass_on(error)
            _unusable = error


def _make(path: Path, rules: Rules, given: Mapping[str, Any]) -> Recorder:
    tagger = KeyedTagger(load_key())
    # Absolute now: a program that changes its folder goes on recording to the same store.
    folder = journal_folder(path.absolute())
    journal = Journal(folder, durability=given["durability"], sampling=given["sample"])
    keeper = Keeper.within(given["limits"], path.absolute(), folder)
    versions = dict(given["versions"] or {})
    made = Recorder(journal, Redactor(rules, tagger), versions=versions, keeper=keeper)
    conditions.set_mint_observer(made.mint)
    return made


def _make_nowhere(rules: Rules) -> Recorder:
    """Make what stands for a recorder while recording is off; it needs neither store nor key.

    Spans of others that still go out are redacted by the same rules.
    """
    conditions.set_mint_observer(None)
    return Recorder(NowhereSink(), Redactor(rules, UnkeyedTagger()))


@contextmanager
def recording_to(replacement: Recorder) -> Iterator[Recorder]:
    """Record with ``replacement`` until the block ends; ``configure`` cannot change where to.

    The switch does not count here: it is about the user's store, and a replay needs its guard.
    """
    global _recorder, _replaying, off  # one recorder a process
    with _lock:
        previous = _recorder, _replaying
        _recorder, _replaying, off = replacement, True, False
    conditions.set_mint_observer(replacement.mint)
    try:
        yield replacement
    finally:
        with _lock:
            _recorder, _replaying = previous
            off = _switched_off and not _replaying
        conditions.set_mint_observer(_recorder.mint if _recorder and not off else None)

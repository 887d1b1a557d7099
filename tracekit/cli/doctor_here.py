"""What ``doctor`` tells of where it is called: switch, variables, redaction, spans, versions."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from tracekit.cli.diagnosis import Diagnosis
from tracekit.errors import RedactionKeyError
from tracekit.limits import Limits
from tracekit.redact import KEY_VARIABLE, KeyedTagger, key_path, load_key
from tracekit.sampling import KEEP_ALL, Sampling
from tracekit.settings import DISABLED, Said, disabled, read_environment

_PACKAGES = ("tracekit-replay", "duckdb", "pyarrow", "pydantic", "opentelemetry-sdk")
_INTEGRATIONS = ("openai", "langchain-core", "langgraph")


def examine_environment(told: Diagnosis) -> None:
    """Tell what the variables here say; a program may say more in its code."""
    said = read_environment()
    told.facts |= {
        "recording": _recording(said),
        "keeps": _keeps(said.given),
        "redaction": _redaction(told, said),
        "spans": _spans(told, said.given),
        "versions": ", ".join([f"python {platform.python_version()}", *_installed(_PACKAGES)]),
        "integrations": ", ".join(_installed(_INTEGRATIONS)),
        "walls": _walls(),
    }
    told.findings += [fault.what for fault in said.faults]


def _recording(said: Said) -> str:
    if disabled():
        return f"off: {DISABLED}=true"
    if said.stop is not None:
        return f"nothing is recorded: {said.stop.variable} is not understood"
    return "on, unless the code says enabled=False"


def _keeps(given: Any) -> str:
    sampling: Sampling = given.get("sample", KEEP_ALL)
    limits: Limits = given.get("limits", Limits())
    runs = "all runs"
    if not sampling.keeps_all:
        runs = f"{sampling.rate:.0%} of runs, and those with: {', '.join(sampling.keep_if) or '-'}"
    sizes = {"value": limits.value_bytes, "run": limits.run_bytes, "store": limits.store_bytes}
    limited = ", ".join(f"{name} {size_text(size)}" for name, size in sizes.items() if size)
    return (
        f"{runs}; durability {given.get('durability', 'os')}, on loss"
        f" {given.get('on_loss', 'record')}; limits: {limited}"
    )


def _redaction(told: Diagnosis, said: Said) -> str:
    rules = f"built-in rules and {len(said.given.get('redact', ()))} of the environment"
    place = KEY_VARIABLE if os.environ.get(KEY_VARIABLE) else str(key_path())
    try:
        key_id = key_id_here()
    except RedactionKeyError as error:
        told.findings.append(str(error))
        return f"{rules}; the key in {place} cannot be used"
    if key_id is None:
        return f"{rules}; no key yet: the first process that records makes {place}"
    return f"{rules}; key {key_id} from {place}"


def key_id_here() -> str | None:
    """Name the key that would be used here; None where there is none yet.

    Raises:
        RedactionKeyError: it cannot be used.
    """
    if not os.environ.get(KEY_VARIABLE):
        try:
            key_path().stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise RedactionKeyError(
                f"the redaction key {key_path()} cannot be looked at: {reason}",
                hint=f"make its folder readable, or set {KEY_VARIABLE}",
            ) from error
    return KeyedTagger(load_key()).key_id


def _spans(told: Diagnosis, given: Any) -> str:
    otlp = given.get("otlp", False)
    out = "not sent out"
    if otlp:
        target = otlp if isinstance(otlp, str) else "where the OTEL_EXPORTER_OTLP_ variables say"
        content = "with" if given.get("otlp_content") else "without"
        out = f"sent to {target}, {content} content"
        if find_spec("opentelemetry.exporter") is None:
            told.findings.append("no span is sent out: pip install opentelemetry-exporter-otlp")
    others = "recorded" if given.get("spans") else "not recorded"
    return f"ours {out}; those of other instrumentations {others}"


def _walls() -> str:
    from replay.isolation import kernel_available  # heavy, and only this line needs it

    there, why = kernel_available()
    if there:
        return f"replays run behind the kernel's: {', '.join(_installed(('sandlock',)))}"
    return f"replays run behind those of a process; for the kernel's: {why}"


def _installed(names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            yield f"{name} is not installed"


def size_text(size: float) -> str:
    """Write a number of bytes so that its size can be seen at once."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} TiB"

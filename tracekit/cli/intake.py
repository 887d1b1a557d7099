"""What ``import`` needs around the importers: redaction, the store, progress, the summary."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tracekit.canonical import JsonValue
from tracekit.cli.text import json_report, one_line
from tracekit.importers import ImportSummary, Progress
from tracekit.numerals import counted
from tracekit.redact import KeyedTagger, Redactor, load_key
from tracekit.settings import redaction_rules
from tracekit.store import Store, open_store
from tracekit.visible import text_of

_LISTED = 5


def redactor() -> tuple[Redactor, str]:
    """Make the redactor with all rules that hold here and the user's key, and name the key.

    Raises:
        RedactionKeyError: the key cannot be read.
    """
    tagger = KeyedTagger(load_key())
    return Redactor(redaction_rules(), tagger), tagger.key_id


def open_target(path: str, key_id: str) -> Store:
    """Open the store that is imported into, or make it."""
    return open_store(path, create=True, redaction_key_id=key_id)


@contextmanager
def progress(*, shown: bool) -> Iterator[Progress | None]:
    """Give a callback that keeps one line on stderr up to date; None where nobody looks."""
    if not shown:
        yield None
        return
    files = 0

    def tell(path: str, summary: ImportSummary) -> None:
        nonlocal files
        files += 1
        line = f"{counted(files, 'file')}, {counted(summary.runs, 'run')} · {one_line(path, 80)}"
        sys.stderr.write(f"\r\x1b[2K{line[:100]}")
        sys.stderr.flush()

    try:
        yield tell
    finally:
        sys.stderr.write("\r\x1b[2K")


def as_text(summary: ImportSummary, store: str) -> str:
    """Say what an import did."""
    lines = [
        f"imported {counted(summary.runs, 'run')} into {store}: {counted(summary.events, 'event')},"
        f" {counted(summary.tool_calls, 'tool call')},"
        f" {counted(summary.tool_errors, 'tool error')},"
        f" {counted(summary.policy_denials, 'refusal')}"
    ]
    lines += [f"  {count:,} from {name}" for name, count in sorted(summary.sources.items())]
    if summary.results_without_call:
        lines.append(
            f"  {counted(summary.results_without_call, 'result')} that no recorded turn asked for"
        )
    if summary.skipped_known:
        lines.append(f"passed over {counted(summary.skipped_known, 'run')} already there")
    lines += _listed("files that are no trace", summary.files_not_recognised)
    lines += _listed("files whose run has the id of another one", summary.conflicts)
    return text_of(lines)


def _listed(what: str, entries: list[tuple[str, str]]) -> list[str]:
    if not entries:
        return []
    lines = [f"passed over {what}: {len(entries):,}"]
    lines += [f"  {one_line(path, 200)}: {one_line(why, 200)}" for path, why in entries[:_LISTED]]
    if len(entries) > _LISTED:
        lines.append(f"  … and {len(entries) - _LISTED:,} more; all of them with --json")
    return lines


def as_json(summary: ImportSummary) -> str:
    """Give an import's figures as one JSON object."""

    def pairs(entries: list[tuple[str, str]]) -> list[JsonValue]:
        return [{"path": path, "reason": reason} for path, reason in entries]

    return json_report(
        {
            "runs": summary.runs,
            "skipped_known": summary.skipped_known,
            "events": summary.events,
            "tool_calls": summary.tool_calls,
            "results_without_call": summary.results_without_call,
            "tool_errors": summary.tool_errors,
            "policy_denials": summary.policy_denials,
            "runs_with_denials": summary.runs_with_denials,
            "sources": dict(summary.sources),
            "rejected": pairs(summary.rejected),
            "files_not_recognised": pairs(summary.files_not_recognised),
            "conflicts": pairs(summary.conflicts),
        }
    )

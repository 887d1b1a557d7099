"""A comparison as Markdown: what a reviewer reads under a pull request.

Short, since it stands among other comments: the verdict, the first divergence, every write that
differs, the worst of the other causes.
Values come from strangers: they stand in code, and nothing in them can become a link or a mention.
"""

from __future__ import annotations

from collections.abc import Iterator

from replay.diff import Comparison
from replay.diff.explain import describe_action, shorten
from replay.diff.model import Divergence, Harm
from tracekit.numerals import counted
from tracekit.visible import shown_line

_MOST = 10
"""Causes beside the writes that are listed; the page holds all."""
_ROOM = 40_000
"""So many signs of a list fit into a comment, of which the usual servers take 65,536."""


def comment(found: Comparison) -> str:
    """Write a comparison as Markdown."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Comparison) -> Iterator[str]:
    yield f"### tracekit diff: {_verdict(found)}"
    yield ""
    yield f"{code(found.left_name)} {code(found.left_run)} against"
    yield f"{code(found.right_name)} {code(found.right_run)}"
    for what in found.unknown:
        yield f"- cannot tell: {code(what)}"
    if found.first is not None:
        yield ""
        yield from _first(found, found.first)
    yield from _table(found)
    if found.following:
        yield ""
        yield f"{_differ(len(found.following), 'line')} as a consequence."


def _table(found: Comparison) -> Iterator[str]:
    """List every write that differs, and the worst of the other causes."""
    leading = found.leading
    if not leading:
        return
    yield ""
    yield "| harm | decision | what |"
    yield "|---|---|---|"
    writes = sum(one.is_write for one in leading)
    used = told = 0
    for one in leading[: writes + max(0, _MOST - writes)]:
        row = f"| {_sign(one)} | {one.decision} | {code(one.explanation)} |"
        used += len(row)
        if used > _ROOM:
            break
        told += 1
        yield row
    if missing := max(0, writes - told):
        yield ""
        yield f"**{_differ(missing, 'write')}**; there is no room for them here."
    if others := len(leading) - max(told, writes):
        yield ""
        yield f"{counted(others, 'more difference')}."


def _differ(number: int, what: str) -> str:
    return f"{counted(number, f'more {what}')} {'differs' if number == 1 else 'differ'}"


def _sign(one: Divergence) -> str:
    sign = f"**{one.harm.words}**" if one.harm <= Harm.REFUSAL else one.harm.words
    if one.is_write and one.harm not in (Harm.WRITE, Harm.REFUSAL):
        sign = f"**write**, {sign}"
    return sign if one.cause else f"{sign}, follows"


def _verdict(found: Comparison) -> str:
    if found.distance == 0 and found.unknown:
        return f"cannot tell: {found.doubt}"
    if found.same:
        return f"same over {counted(found.matched_prefix, 'decision')}"
    on = f"{len(found.writes)} on writes" if found.writes else found.on_writes
    return f"different, {counted(len(found.causes), 'cause')}, {on}"


def _first(found: Comparison, first: Divergence) -> Iterator[str]:
    yield f"First divergence in decision {first.decision}:"
    yield ""
    yield f"- expected ({code(found.left_name)}): {code(describe_action(first.left))}"
    yield f"- taken ({code(found.right_name)}): {code(describe_action(first.right))}"
    for action in first.seen:
        yield f"- just seen: {code(f'{action.tool}: {shorten(action.observation, 160)}')}"


def code(text: str) -> str:
    """Write a text as code on one line, also where it holds backticks or bars itself."""
    line = shown_line(" ".join(text.split())).replace("|", "\\|")
    longest = max((len(run) for run in _runs(line)), default=0)
    fence = "`" * (longest + 1)
    room = " " if longest else ""
    return f"{fence}{room}{line or ' '}{room}{fence}"


def _runs(text: str) -> Iterator[str]:
    run = ""
    for sign in text:
        if sign == "`":
            run += sign
        elif run:
            yield run
            run = ""
    if run:
        yield run

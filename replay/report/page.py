"""A comparison as one HTML file that opens from disk and asks no host for anything.

The one idea: what a reader needs first is in the page itself, so that it is there without a script
and can be searched and printed; the values behind each line are data, and become visible when a
line is opened. They come from strangers: they are text wherever they stand, never markup, and the
page forbids itself the network.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files

from replay.diff import Comparison
from replay.diff.comparison import MOST_FIELDS
from replay.diff.explain import NOTHING, around, describe_action, one_line, shorten
from replay.diff.model import SIGNS, Action, Divergence, Pair, Told
from tracekit.canonical import JsonValue, json_text
from tracekit.jsontree import Difference
from tracekit.numerals import counted

MOST_CHARACTERS = 20_000
"""Of one value; a page is no archive, and a browser has to lay it out."""
_WIDTH = 110
_KEYS = (
    ("j k", "next, previous line"),
    ("n p", "next, previous difference"),
    ("Enter", "open or close the values of a line"),
    ("d", "differences only, or all lines"),
    ("Esc", "close what is open"),
)
# Read by a browser before anything else: nothing is loaded, from anywhere.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)


def page(found: Comparison, *, title: str | None = None) -> str:
    """Write a comparison as an HTML document.

    Args:
        found: The comparison.
        title: What stands above it; the names of the two runs where not given.
    """
    head = title or f"{found.left_name} and {found.right_name}"
    body = "\n".join(_Body(found).parts(head))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="tracekit">
<link rel="icon" href="data:,">
<title>{_text(head)}</title>
<style>
{_asset("page.css")}</style>
</head>
<body>
{body}
<script type="application/json" id="values">{_data(found)}</script>
<script>
{_asset("page.js")}</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    return (files("replay.report") / "assets" / name).read_text(encoding="utf-8")


def _text(value: str) -> str:
    """Write a text that shows what it holds: no markup, and nothing that turns lines around."""
    return escape(_HIDDEN.sub(lambda sign: f"\\u{ord(sign[0]):04x}", value))


_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
"""Signs that cannot be seen, or that make other text look like what it is not."""


class _Body:
    def __init__(self, found: Comparison) -> None:
        self._found = found
        self._left, self._right = found.left_name, found.right_name
        self._line_of = {
            id(one): at for at, pair in enumerate(found.aligned) for one in pair.divergences
        }

    def parts(self, title: str) -> Iterator[str]:
        found = self._found
        yield f"<header><h1>{_text(title)}</h1>{self._verdict()}{self._runs()}</header>"
        yield "<main>"
        if found.first is not None:
            yield self._first("First divergence", found.first)
        if found.first_call is not None:
            yield self._first("First other call", found.first_call)
        writes = [one for one in found.leading if one.is_write]
        others = [one for one in found.leading if not one.is_write]
        yield from self._ranked("Writes that differ", writes, shown=True)
        title = "Other causes, most harmful first" if writes else "Causes, most harmful first"
        yield from self._ranked(title, others, shown=True)
        yield from self._ranked("Consequences of these", found.following, shown=False)
        yield from self._lines()
        yield "</main>"
        yield self._help()

    def _verdict(self) -> str:
        found = self._found
        if found.distance == 0 and found.unknown:
            word, kind = "Cannot tell", "unknown"
            said = found.doubt
        elif found.same:
            word, kind = "Same", "same"
            said = f"equivalent over {counted(found.matched_prefix, 'decision')}"
        else:
            word, kind = "Different", "write" if found.writes else "different"
            parts = [
                counted(len(found.divergences), "difference")
                + (f" ({counted(len(found.causes), 'cause')})" if found.consequences else ""),
                found.on_writes,
                f"{counted(found.matched_prefix, 'decision')} the same before the first",
            ]
            if found.resynchronised_at is not None:
                parts.append(f"the same call again in decision {found.resynchronised_at}")
            said = ", ".join(parts)
        marks = Counter(pair.told for pair in found.aligned)
        counts = "".join(
            f'<li class="{mark}"><b>{count}</b> {mark}</li>'
            for mark in SIGNS
            if (count := marks[mark])
        )
        return (
            f'<p class="verdict {kind}"><strong>{word}</strong> <span>{_text(said)}</span></p>'
            f'<ul class="counts">{counts}</ul>'
        )

    def _runs(self) -> str:
        found = self._found
        rows = [
            f"<tr><th>{_text(name)}</th><td><code>{_text(run)}</code></td></tr>"
            for name, run in ((self._left, found.left_run), (self._right, found.right_run))
        ]
        rows += [
            f"<tr><th>{_text(field.pointer[1:])}</th><td>{self._sides(field)}</td></tr>"
            for field in found.context
        ]
        rows += [f"<tr><th>cannot tell</th><td>{_text(what)}</td></tr>" for what in found.unknown]
        return f'<table class="runs">{"".join(rows)}</table>'

    def _sides(self, field: Difference) -> str:
        one, two = around(field, _WIDTH)
        return f"<del>{_text(one)}</del> <ins>{_text(two)}</ins>"

    def _first(self, title: str, first: Divergence) -> str:
        rows = [
            (f"expected ({self._left})", describe_action(first.left)),
            (f"taken ({self._right})", describe_action(first.right)),
        ]
        seen = [(self._left if first.left is not None else self._right, first.seen)]
        if first.seen_right is not None:
            seen.append((self._right, first.seen_right))
        rows += [
            (f"just seen ({name})", f"{action.tool}: {shorten(action.observation, 4 * _WIDTH)}")
            for name, actions in seen
            for action in actions
        ]
        told = "".join(f"<dt>{_text(what)}</dt><dd>{_text(said)}</dd>" for what, said in rows)
        return (
            f'<section class="first"><h2>{title}: {self._link(first, f"decision {first.decision}")}'
            f"</h2><p>{_tag(first)} {_text(first.explanation)}</p><dl>{told}</dl></section>"
        )

    def _ranked(self, title: str, some: Sequence[Divergence], *, shown: bool) -> Iterator[str]:
        if not some:
            return
        items = "".join(
            f"<li>{_tag(one)} {self._link(one, _text(one.explanation))}</li>" for one in some
        )
        is_open = " open" if shown else ""
        yield (
            f'<section><details class="ranked"{is_open}><summary><h2>{title} '
            f"({len(some)})</h2></summary><ol>{items}</ol></details></section>"
        )

    def _link(self, found: Divergence, words: str) -> str:
        at = self._line_of.get(id(found))
        return words if at is None else f'<a href="#line-{at}">{words}</a>'

    def _lines(self) -> Iterator[str]:
        yield (
            '<section><h2>Side by side</h2><p class="tools">'
            '<label><input type="checkbox" id="only"> differences only</label> '
            f'<button type="button" id="help">keys</button> {self._legend()}</p>'
            '<table class="lines"><thead><tr><th class="mark"></th><th class="step">step</th>'
            f'<th>{_text(self._left)}</th><th class="step">step</th>'
            f"<th>{_text(self._right)}</th></tr></thead><tbody>"
        )
        yield from (_line(at, pair) for at, pair in enumerate(self._found.aligned))
        yield "</tbody></table></section>"

    def _legend(self) -> str:
        words = {"missing": f"only {self._left}", "added": f"only {self._right}"}
        words["unknown"] = "cannot tell"
        told = "".join(
            f"<span><b>{_sign(mark)}</b> {_text(words.get(mark, mark))}</span> " for mark in SIGNS
        )
        return f'<span class="legend">{told.strip()}</span>'

    def _help(self) -> str:
        rows = "".join(f"<dt><kbd>{key}</kbd></dt><dd>{what}</dd>" for key, what in _KEYS)
        return f'<dialog id="keys"><h2>Keys</h2><dl>{rows}</dl></dialog>'


def _tag(found: Divergence) -> str:
    word = found.harm.words if found.cause else f"{found.harm.words}, follows"
    return f'<span class="tag harm-{int(found.harm)}">{word}</span>'


def _line(at: int, pair: Pair) -> str:
    harm = min((int(one.harm) for one in pair.divergences), default=0)
    worst = f" harm-{harm}" if harm else ""
    return (
        f'<tr id="line-{at}" class="line {pair.told}{worst}" tabindex="-1" aria-expanded="false">'
        f'<td class="mark" title="{pair.told}">{_sign(pair.told)}</td>'
        f"{_cells(pair.left)}{_cells(pair.right)}</tr>"
    )


def _sign(mark: Told) -> str:
    return SIGNS[mark].replace("-", "\N{MINUS SIGN}")


def _cells(action: Action | None) -> str:
    if action is None:
        return '<td class="step"></td><td class="none"></td>'
    told = _text(describe_action(action))
    notes = "".join(f' <span class="note {kind}">{said}</span>' for kind, said in _notes(action))
    came = ""
    if action.effect is not None:
        back = shorten(action.observation, _WIDTH) if action.came_back else NOTHING
        came = f'<div class="came">{_text(back)}</div>'
    return f'<td class="step">{action.decision}</td><td><code>{told}</code>{notes}{came}</td>'


def _notes(action: Action) -> Iterator[tuple[str, str]]:
    if action.effect in ("write", "unknown"):
        yield "write", "write" if action.effect == "write" else "unknown effect"
    if action.policy is not None:
        yield "policy", f"policy: {_text(action.policy)}"
    elif action.is_error:
        yield "failed", "failed"


# --- values ---------------------------------------------------------------------------------------


def _data(found: Comparison) -> str:
    """Write what stands behind each line, so that no sign in it can end the script."""
    lines: list[JsonValue] = [
        {
            "left": _values(pair.left),
            "right": _values(pair.right),
            "said": [one.explanation for one in pair.divergences],
            "fields": [_field(f) for one in pair.divergences for f in one.fields[:MOST_FIELDS]],
            "more": sum(max(0, len(one.fields) - MOST_FIELDS) for one in pair.divergences),
        }
        for pair in found.aligned
    ]
    text = json_text({"left": found.left_name, "right": found.right_name, "lines": lines})
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _values(action: Action | None) -> JsonValue:
    if action is None:
        return None
    return {
        "arguments": _cut(action.arguments),
        "observation": None if action.effect is None else _cut(action.observation),
        "event": action.event_id,
    }


def _field(field: Difference) -> JsonValue:
    return {
        "pointer": field.pointer,
        "left": None if field.kind == "added" else _cut(field.left),
        "right": None if field.kind == "removed" else _cut(field.right),
    }


def _cut(value: JsonValue) -> str:
    text = value if isinstance(value, str) else _indented(value)
    shown = _HIDDEN.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text[:MOST_CHARACTERS])
    rest = len(text) - MOST_CHARACTERS
    return shown if rest <= 0 else f"{shown}\n… {rest:,} more characters: tracekit show"


def _indented(value: JsonValue) -> str:
    if not value:
        return one_line(value)
    # what is cut anyway is not laid out: that takes long, and a browser shows little of it
    compact = json_text(value)
    if len(compact) > 10 * MOST_CHARACTERS:
        return compact
    return json.dumps(value, indent=2, ensure_ascii=False)

"""A comparison as text: readable in a pipe, at night, by somebody who did not write the agent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from replay.diff.explain import (
    NOTHING,
    WIDTH,
    around,
    describe_action,
    describe_fields,
    one_line,
    shorten,
)
from replay.diff.model import SIGNS, Action, Divergence, Harm, Outcome, Pair
from tracekit.jsontree import Difference
from tracekit.numerals import counted
from tracekit.visible import text_of

_LEGEND = "= same   ~ changed   - only {left}   + only {right}   % moved"
_UNSURE = "   ? cannot tell"
_FOLD = 6
"""More equal lines than this in a row are folded."""
_MOST = 12
"""Of divergences that are not about calls, no more than so many are listed."""
_KINDS = {"missing": "a call is missing", "added": "a call was added", "retry": "a call made again"}


def render(found: Outcome, *, values: bool = False) -> str:
    """Write a comparison; with ``values``, nothing is shortened or folded."""
    return text_of(_Text(found, values=values).lines())


class _Text:
    def __init__(self, found: Outcome, *, values: bool) -> None:
        self._found = found
        self._left, self._right = found.left_name, found.right_name
        self._wide = max(len(self._left), len(self._right))
        self._width = 10**9 if values else WIDTH
        self._values = values

    def lines(self) -> Iterator[str]:
        found = self._found
        yield self._verdict()
        yield f"  {self._left:<{self._wide}}  {found.left_run}"
        yield f"  {self._right:<{self._wide}}  {found.right_run}"
        yield from self._context()
        yield from (f"  cannot tell: {what}" for what in found.unknown)
        if found.distance == 0:
            return
        if found.first is not None:
            yield ""
            yield from self._first("First divergence", found.first)
        if found.first_call is not None:
            yield ""
            yield from self._first("First other call", found.first_call)
        yield from self._listed(self._leading_title(), found.leading, most=_MOST)
        yield ""
        yield "Side by side   " + self._legend()
        yield from self._aligned()
        yield from self._listed("Consequences, most harmful first", found.following, most=0)

    def _legend(self) -> str:
        unsure = any(pair.told == "unknown" for pair in self._found.aligned)
        return _LEGEND.format(left=self._left, right=self._right) + _UNSURE * unsure

    def _leading_title(self) -> str:
        """Say what stands before the lines: writes too that follow from something else."""
        found = self._found
        if len(found.leading) == len(found.causes):
            return "Causes, most harmful first"
        return "Writes that differ, whether or not they follow, then other causes"

    def _listed(self, title: str, some: Sequence[Divergence], *, most: int) -> Iterator[str]:
        """List divergences; of those that are not about calls only so many."""
        if not some:
            return
        yield ""
        yield f"{title} ({len(some)})"
        calls = sum(found.harm <= Harm.READ or found.is_write for found in some)
        kept = len(some) if self._values else max(calls, most)
        for number, divergence in enumerate(some[:kept], start=1):
            yield from self._divergence(number, divergence)
        if rest := Counter(found.harm.words for found in some[kept:]):
            told = ", ".join(f"{count} of {harm}" for harm, count in rest.items())
            yield f"      … and {told} (shown with --full)"

    def _verdict(self) -> str:
        found = self._found
        decisions = counted(found.matched_prefix, "decision")
        if found.distance == 0 and found.unknown:
            return f"CANNOT TELL  {found.doubt}"
        if found.same:
            return f"SAME  {self._left} and {self._right} are equivalent over {decisions}"
        number = len(found.divergences)
        parts = [
            counted(number, "difference")
            + (f" ({counted(len(found.causes), 'cause')})" if found.consequences else ""),
            found.on_writes,
            f"{decisions} the same before the first",
        ]
        if found.resynchronised_at is not None:
            parts.append(f"the same call again in decision {found.resynchronised_at}")
        return f"DIFFERENT  {', '.join(parts)} (distance {found.distance:g})"

    def _context(self) -> Iterator[str]:
        for found in self._found.divergences:
            if found.kind == "changed_input":
                for field in found.fields:
                    one, two = around(field, self._width)
                    yield f"  input{field.pointer}: {self._left} {one}, {self._right} {two}"
        for field in self._found.context:
            one, two = around(field, self._width)
            yield f"  {field.pointer[1:]}: {self._left} {one}, {self._right} {two}"

    def _first(self, title: str, first: Divergence) -> Iterator[str]:
        where = f"decision {first.decision}"
        if first.kind in ("changed_answer", "changed_input"):
            where = first.tool.strip("()")
        elif first.kind == "reordered":
            where = f"decision {min(first.left_decision or 1, first.right_decision or 1)}"
        yield f"{title}: {where}, {_KINDS.get(first.kind, first.kind.replace('_', ' '))}"
        yield f"  expected ({self._left}): {self._action(first.left)}{self._place(first, 'left')}"
        yield f"  taken ({self._right}): {self._action(first.right)}{self._place(first, 'right')}"
        yield from self._fields(first.fields, "  ")
        ours = first.left is not None
        name, other = (self._left, self._right) if ours else (self._right, self._left)
        if first.seen_right is None and ours and first.right is not None:
            name = "both"
        yield from self._seen(name, first.seen)
        if first.seen_right is not None:
            yield from self._seen(other, first.seen_right)

    def _place(self, first: Divergence, side: str) -> str:
        """Say where a step that moved stands, and what came next where there is no such step."""
        action: Action | None = getattr(first, side)
        if action is not None:
            return f" in decision {action.decision}" if first.kind == "reordered" else ""
        at = next((n for n, p in enumerate(self._found.aligned) if first in p.divergences), None)
        rest = () if at is None else self._found.aligned[at + 1 :]
        calls = (getattr(pair, side) for pair in rest if pair.mark != "moved")
        after = next((call for call in calls if call is not None and call.effect is not None), None)
        if after is None:
            return "; no call came after it"
        return f"; next came {self._action(after)} in decision {after.decision}"

    def _seen(self, name: str, seen: Sequence[Action]) -> Iterator[str]:
        for action in seen:
            what = action.tool if action.effect is None else f"the answer of {action.tool}"
            yield f"  just seen ({name}): {what} {shorten(action.observation, self._width * 2)}"

    def _action(self, action: Action | None) -> str:
        if action is None:
            return "no such step"
        if self._values and action.effect is not None:
            text = f"{action.tool}({one_line(action.arguments)})"
        else:
            text = describe_action(action)
        return text + _notes(action)

    def _aligned(self) -> Iterator[str]:
        pairs = self._found.aligned
        at = 0
        while at < len(pairs):
            end = at
            while end < len(pairs) and pairs[end].told == "same":
                end += 1
            if end - at > _FOLD and not self._values:
                yield from self._line(pairs[at])
                yield f"      … {end - at - 2} more steps are the same in both"
                yield from self._line(pairs[end - 1])
                at = end
            else:
                for pair in pairs[at : max(end, at + 1)]:
                    yield from self._line(pair)
                at = max(end, at + 1)

    def _line(self, pair: Pair) -> list[str]:
        numbers = "/".join("-" if a is None else str(a.decision) for a in (pair.left, pair.right))
        head = f"  {SIGNS[pair.told]} {numbers:>7}  "
        if pair.told == "same":
            return [f"{head}both {self._action(pair.left)}"]
        if pair.left is None or pair.right is None or pair.mark == "moved":
            name = self._right if pair.left is None else self._left
            return [f"{head}{name} {self._action(pair.left or pair.right)}"]
        room = " " * len(head)
        if pair.left.arguments == pair.right.arguments:
            one, two = self._results(pair.left, pair.right)
            if (one, _notes(pair.left)) == (two, _notes(pair.right)):
                return [f"{head}both {self._action(pair.left)}"]
            return [
                f"{head}both {describe_action(pair.left)}",
                f"{room}  {self._left} got {one}{_notes(pair.left)}",
                f"{room}  {self._right} got {two}{_notes(pair.right)}",
            ]
        if pair.left.effect is None:
            field = Difference("", "changed", pair.left.arguments, pair.right.arguments)
            one, two = around(field, self._width)
            name = pair.left.tool
            return [f"{head}{self._left} {name} {one}", f"{room}{self._right} {name} {two}"]
        return [
            f"{head}{self._left} {self._action(pair.left)}",
            f"{room}{self._right} {self._action(pair.right)}",
            *(f"{room}  {line}" for line in self._hidden(pair)),
        ]

    def _results(self, left: Action, right: Action) -> tuple[str, str]:
        """Write what both came back with, cut to where it differs."""
        field = Difference("", "changed", left.observation, right.observation)
        one, two = around(field, self._width)
        return one if left.came_back else NOTHING, two if right.came_back else NOTHING

    def _hidden(self, pair: Pair) -> list[str]:
        """Write the fields that differ, where the calls had to be shortened."""
        if self._values or "…" not in describe_action(pair.left) + describe_action(pair.right):
            return []
        fields = next((d.fields for d in pair.divergences if d.kind == "changed_arguments"), ())
        told = [describe_fields([field], self._left, self._right) for field in fields[:3]]
        return told + [f"and {counted(len(fields) - 3, 'more field')}"] * (len(fields) > 3)

    def _divergence(self, number: int, found: Divergence) -> Iterator[str]:
        yield f"  {number:>2}. [{found.harm.words}] {found.explanation}"
        if len(found.fields) > 3 or (self._values and len(found.fields) > 1):
            yield from self._fields(found.fields, "      ")

    def _fields(self, fields: Sequence[Difference], indent: str) -> Iterator[str]:
        most = len(fields) if self._values else 12
        for field in fields[:most]:
            one, two = around(field, self._width)
            yield f"{indent}{field.pointer or '(whole value)'}"
            yield f"{indent}  {self._left:<{self._wide}}  {one}"
            yield f"{indent}  {self._right:<{self._wide}}  {two}"
        if len(fields) > most:
            yield f"{indent}… and {counted(len(fields) - most, 'more field')}"


def _notes(action: Action) -> str:
    notes = []
    if action.effect in ("write", "unknown"):
        notes.append("write" if action.effect == "write" else "unknown effect, taken as write")
    if action.policy is not None:
        notes.append(f"policy: {action.policy}")
    elif action.is_error:
        notes.append("failed")
    return f"  [{', '.join(notes)}]" if notes else ""

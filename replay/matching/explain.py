"""Why a call was answered as it was: one sentence, and only the fields that differ.

Every difference says ``recorded`` or ``asked``. Nothing of this is shown to the planner under test:
it would learn the answer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet

from rapidfuzz import fuzz, process

from replay.matching.likeness import LONG, likeness
from replay.matching.values import AskedCall, Nearest
from replay.tape import RecordedCall, Tape
from tracekit import jsontree
from tracekit.canonical import JsonValue, canonical_text, json_text
from tracekit.events import ContentState
from tracekit.jsontree import Difference

_LOOKED_BACK, _LOOKED_AHEAD = 64, 192
"""Recorded calls compared for an explanation; the policy ``nearest`` compares all of them."""
_READ_AT_MOST = 8_000_000
"""So many characters are looked at for one explanation; of more, the first."""
_SHORTLIST = 8
_SHOWN = 3
_NAMED = 32
_LONGEST_VALUE = 60
_NOT_KEPT: dict[ContentState, str] = {
    "absent": "it has no observation: only a digest was kept, or it had not come back yet",
    "truncated": "its observation was described or cut, not kept whole",
    "redacted": "its observation was redacted whole",
    "reference": "its observation is no longer stored",
}
_TIMES = {1: "once", 2: "twice", 3: "three times", 4: "four times", 5: "five times"}


def find_nearest(
    tape: Tape, tool: str, asked: JsonValue, taken: Collection[int], *, around: int | None = None
) -> Nearest | None:
    """Find the recorded call of ``tool`` that is most like ``asked``; unused ones first.

    Args:
        tape: The record.
        tool: What the record calls the tool.
        asked: The arguments, spelt as the record would.
        taken: Places that were used up.
        around: Look only at calls near this place; at all of them where it is None.
    """
    places = tape.by_tool.get(tool, ())
    if around is not None:
        at = bisect_left(places, around)
        places = places[max(0, at - _LOOKED_BACK) : at + _LOOKED_AHEAD]
    if not places:
        return None
    # Stable, and backwards among the used ones: the latest is the likeliest to be meant.
    ordered = [place for place in places if place not in taken]
    ordered += [place for place in reversed(places) if place in taken]
    best = max(
        (tape.calls[place] for place in _shortlist(tape, ordered, asked)),
        key=lambda recorded: similarity(recorded.arguments, asked),
    )
    return nearest_to(best, asked)


def nearest_to(recorded: RecordedCall, asked: JsonValue) -> Nearest:
    """Compare one recorded call with what was asked."""
    return Nearest(
        event_id=recorded.call.event_id,
        decision=recorded.call.decision,
        tool=recorded.call.tool,
        differences=jsontree.differences(recorded.arguments, asked),
        similarity=similarity(recorded.arguments, asked),
    )


def similarity(left: JsonValue, right: JsonValue) -> float:
    """Measure how alike two arguments are, field by field: from 0 to 1, which is the same."""
    ours, theirs = dict(jsontree.walk(left)), dict(jsontree.walk(right))
    places = ours.keys() | theirs.keys()
    if not places:
        return 1.0
    return sum(_alike(ours, theirs, place) for place in places) / len(places)


def describe(nearest: Nearest) -> str:
    """Name the nearest recorded call and the fields that differ."""
    where = f"decision {nearest.decision}" if nearest.decision else "a call beneath another tool"
    hint = _rename_hint(nearest)
    return f"nearest is {where}: {describe_differences(nearest.differences)}{hint}"


def _rename_hint(nearest: Nearest) -> str:
    """Say how an argument that only has another name is found."""
    gone = [d for d in nearest.differences if d.kind == "removed"]
    new = [d for d in nearest.differences if d.kind == "added"]
    if len(nearest.differences) != 2 or len(gone) != 1 or len(new) != 1:
        return ""
    if jsontree.differences(gone[0].left, new[0].right):
        return ""
    tool = nearest.tool
    return f" (renamed? --map {tool}:{gone[0].pointer}={tool}:{new[0].pointer})"


def describe_differences(differences: Sequence[Difference]) -> str:
    """Write differences, recorded against asked, the first few in full."""
    if not differences:
        return "no field differs"
    shown = [_describe_one(difference) for difference in differences[:_SHOWN]]
    if (more := len(differences) - _SHOWN) > 0:
        shown.append(f"and {more} more")
    return "; ".join(shown)


def describe_missing_tool(tape: Tape, tool: str, key: str) -> str:
    """Say that the record has no call of a tool, and which tool may be meant.

    Args:
        tape: The record.
        tool: What was asked.
        key: Digest of its arguments, which a tool that was only renamed was called with.
    """
    if not tape.by_tool:
        return "the recording has no tool calls"
    similar = process.extract(tool, list(tape.by_tool), scorer=fuzz.ratio, limit=3, score_cutoff=60)
    told = f"similar names: {', '.join(s[0] for s in similar)}"
    same = [name for name in tape.by_tool if (name, key) in tape.by_key]
    if len(same) == 1 and tape.calls[tape.by_key[same[0], key][0]].arguments:
        told = f"{same[0]} has these arguments (renamed? --map {same[0]}={tool})"
    elif not similar:
        return f"the recording has no call of it, only of {', '.join(sorted(tape.by_tool)[:5])}"
    return f"the recording has no call of it; {told}"


def times(count: int) -> str:
    """Write a number of times."""
    return _TIMES.get(count, f"{count} times")


def describe_writes(tape: Tape, recorded: RecordedCall, own: AbstractSet[str]) -> str:
    """Say which writes stand between what a read saw when recorded and what it would see now."""
    missing = recorded.call.write_set - own
    added = own - recorded.call.write_set
    said = []
    if missing:
        said.append(f"recorded after {_names(tape, missing)}, which this replay has not done")
    if added:
        said.append(f"asked after {_names(tape, added)}, which it was recorded before")
    return "; ".join(said)


def shorten(value: JsonValue) -> str:
    """Write a value in at most sixty characters."""
    text = json_text(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


def _describe_one(difference: Difference) -> str:
    place = difference.pointer or "arguments"
    match difference.kind:
        case "changed":
            return (
                f"{place}: recorded {shorten(difference.left)}, asked {shorten(difference.right)}"
            )
        case "added":
            return f"{place}: not recorded, asked {shorten(difference.right)}"
        case "removed":
            return f"{place}: recorded {shorten(difference.left)}, not asked"


def _names(tape: Tape, events: Collection[str]) -> str:
    if len(events) > _NAMED:
        return f"{len(events)} writes"
    known = [tape.find(event) for event in events]
    found = sorted((r for r in known if r is not None), key=lambda r: r.index)
    names = [f"{r.call.tool} (decision {r.call.decision})" for r in found]
    if len(found) < len(known):
        names.append("a write that the recording does not have")
    if (more := len(names) - _SHOWN) > 0:
        names = [*names[:_SHOWN], f"{more} more"]
    return " and ".join(names)


def _shortlist(tape: Tape, places: Sequence[int], asked: JsonValue) -> list[int]:
    """Pick the few whose text is most alike; fields are compared for those only."""
    if len(places) <= 1:
        return list(places)
    wanted, read = canonical_text(asked), 0
    texts: dict[int, str] = {}
    for place in places:
        texts[place] = canonical_text(tape.calls[place].arguments)
        read += len(texts[place]) + len(wanted)
        if read > _READ_AT_MOST:
            break
    if read <= _READ_AT_MOST and len(places) <= _SHORTLIST:
        return list(places)
    if max(map(len, (wanted, *texts.values()))) <= LONG:
        found = process.extract(wanted, texts, scorer=fuzz.ratio, limit=_SHORTLIST)
        best = [place for _, _, place in found]
    else:
        likest = sorted(texts, key=lambda place: -likeness(wanted, texts[place]))
        best = likest[: _SHORTLIST if read <= _READ_AT_MOST else 1]
    position = {place: at for at, place in enumerate(places)}
    return sorted(best, key=lambda place: position[place])


def _alike(left: dict[str, JsonValue], right: dict[str, JsonValue], place: str) -> float:
    if place not in left or place not in right:
        return 0.0
    ours, theirs = left[place], right[place]
    if isinstance(ours, str) and isinstance(theirs, str):
        return likeness(ours, theirs, sort=True)
    return 0.0 if jsontree.differences(ours, theirs) else 1.0


def place_of(recorded: RecordedCall) -> str:
    """Say where in the record a call stands."""
    call = recorded.call
    return f"decision {call.decision}" if call.decision else "made beneath another tool call"


def not_compared(asked: AskedCall, recorded: RecordedCall) -> str:
    """Say which parts of two calls nobody can compare, since they were only described."""
    parts = asked.described or recorded.described
    if not parts:
        return ""
    more = f" and {len(parts) - 3} more" if len(parts) > 3 else ""
    what = f"{', '.join(parts[:3])}{more}"
    return f"{place_of(recorded)} may be another call: not compared, since not kept: {what}"


def not_kept(recorded: RecordedCall) -> str:
    """Say why an equal call of the record cannot answer."""
    state = recorded.call.observation.state
    said = _NOT_KEPT.get(state, f"its observation was not kept (state {state})")
    return f"recorded as {place_of(recorded)}, but {said}"

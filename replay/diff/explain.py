"""One sentence for a divergence, and values cut down to where they differ."""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import normalize

from replay.diff.model import TURN, Action, Divergence
from tracekit.canonical import JsonValue, json_text
from tracekit.jsontree import Difference

WIDTH = 64
NOTHING = "nothing: it did not come back"
"""What stands for the answer of a call of which the record has no end."""
_KEPT = 20
_LONG = 10_000
"""Of longer texts, only what is shown is looked at sign by sign."""


def explain(found: Divergence, left: str, right: str) -> str:
    """Say in one sentence what was expected and what was done instead."""
    text = _sentence(found, left, right)
    return text if found.because is None else f"{text} Follows from: {found.because}."


def _sentence(found: Divergence, left: str, right: str) -> str:
    tool, places = found.tool, _places(found)
    fields = describe_fields(found.fields, left, right)
    match found.kind:
        case "changed_arguments":
            return f"{places}: {tool} was called with other arguments: {fields}."
        case "changed_observation":
            return f"{places}: {tool} {_came_back(found, left, right)}: {fields}."
        case "changed_policy":
            return f"{places}: a policy decided otherwise about {tool}: {fields}."
        case "changed_evidence":
            return f"{places}: {tool} cited other evidence: {fields}."
        case "changed_answer":
            return f"The runs end differently: {fields}."
        case "changed_input":
            return f"The runs were given different inputs: {fields}."
        case "reordered":
            return _moved(found, left, right)
        case "changed_message" if found.left is not None and found.right is not None:
            who = "the user" if tool == TURN else "the planner"
            return f"{places}: {who} said something else: {fields}."
        case "added" | "missing" | "retry" | "changed_message":
            return _one_sided(found, left, right)


def _came_back(found: Divergence, left: str, right: str) -> str:
    sides = (left, found.left), (right, found.right)
    lost = [name for name, one in sides if one and not one.came_back]
    if len(lost) == 1:
        return f"did not come back in {lost[0]}"
    failed = [name for name, one in sides if one and one.is_error]
    return f"failed in {failed[0]} only" if len(failed) == 1 else "came back with something else"


def _moved(found: Divergence, left: str, right: str) -> str:
    if found.left_decision == found.right_decision:
        return f"Decision {found.decision}: {found.tool} stands in another order to the calls."
    return (
        f"{found.tool} moved: {left} made it in decision {found.left_decision}, "
        f"{right} in decision {found.right_decision}."
    )


def _one_sided(found: Divergence, left: str, right: str) -> str:
    ours = found.left is not None
    who, other = (left, right) if ours else (right, left)
    action = found.left or found.right
    again = " once more" if found.kind == "retry" else ""
    refused = ", which a policy refused" if action and action.policy == "deny" else ""
    where = f"Decision {found.decision}: {who}"
    if action is not None and action.effect is None:
        words = shorten(action.arguments)
        if found.tool == TURN:
            return f"{where} was told {words} by the user; {other} was not."
        return f"{where} said {words}; {other} did not."
    return f"{where} called {describe_action(action)}{again}{refused}; {other} did not."


def _places(found: Divergence) -> str:
    if found.left_decision == found.right_decision:
        return f"Decision {found.left_decision}"
    return f"Decision {found.left_decision} (then {found.right_decision})"


def describe_action(action: Action | None) -> str:
    """Write a call, or what was said, in one short phrase."""
    if action is None:
        return "nothing"
    if action.effect is None:
        return f"{action.tool} {shorten(action.arguments)}"
    if not isinstance(action.arguments, dict):
        return f"{action.tool}({shorten(action.arguments)})"
    room = max(16, WIDTH * 2 // max(1, len(action.arguments)))
    inside = ", ".join(f"{name}={shorten(value, room)}" for name, value in action.arguments.items())
    return f"{action.tool}({inside})"


def describe_fields(fields: Sequence[Difference], left: str, right: str, *, most: int = 3) -> str:
    """Write the first differing fields in one line."""
    shown = []
    for field in fields[:most]:
        one, two = around(field, WIDTH if len(fields) == 1 else WIDTH // 2)
        where = f"{field.pointer}: " if field.pointer else ""
        shown.append(f"{where}{left} {one}, {right} {two}")
    if len(fields) > most:
        shown.append(f"and {len(fields) - most} more fields")
    return "; ".join(shown)


def around(field: Difference, width: int = WIDTH) -> tuple[str, str]:
    """Write both values of a field, cut to the part around the first place where they differ."""
    if field.kind == "added":
        return "(absent)", shorten(field.right, width)
    if field.kind == "removed":
        return shorten(field.left, width), "(absent)"
    one, two = json_text(field.left), json_text(field.right)
    kept = min(_KEPT, width // 4)
    if width < _LONG < max(len(one), len(two)):
        start = max(0, _common(one, two) - kept)
        end = start + 2 * width
        cut = _told_apart(_visible(one[start:end]), _visible(two[start:end]))
        return (
            _window(cut[0], 0, width, more=(start > 0, len(one) > end)),
            _window(cut[1], 0, width, more=(start > 0, len(two) > end)),
        )
    one, two = _told_apart(_visible(one), _visible(two))
    if max(len(one), len(two)) <= width:
        return one, two
    start = max(0, _common(one, two) - kept)
    return _window(one, start, width), _window(two, start, width)


def _common(one: str, two: str) -> int:
    """Count the signs that both begin with; whole stretches are compared, not single signs."""
    low, high = 0, min(len(one), len(two))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == two[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _told_apart(one: str, two: str) -> tuple[str, str]:
    """Spell out the letters of other scripts where two texts would look the same without."""
    alike = normalize("NFKC", one) == normalize("NFKC", two) or (
        len(one) == len(two)
        and all(a == b or a.isascii() != b.isascii() for a, b in zip(one, two, strict=True))
    )
    return (_spelt_out(one), _spelt_out(two)) if alike else (one, two)


def _spelt_out(text: str) -> str:
    return "".join(c if c.isascii() else f"\\u{ord(c):04x}" for c in text)


def _window(text: str, start: int, width: int, *, more: tuple[bool, bool] = (False, False)) -> str:
    """Cut a part out of a text, of which there may be ``more`` before and after it."""
    head = "…" if start or more[0] else ""
    tail = "…" if start + width < len(text) or more[1] else ""
    return head + text[start : start + width] + tail


def shorten(value: JsonValue, width: int = WIDTH) -> str:
    """Write a value in one line, cut after ``width`` characters."""
    # whatever is longer is longer in JSON too: the rest of it need not be written
    text = json_text(value[: width + 1] if isinstance(value, str) else value)
    text = _visible(text[: width + 1])
    return text if len(text) <= width else text[: width - 1] + "…"


def one_line(value: JsonValue) -> str:
    """Write a value as JSON on one line, control characters made visible."""
    return _visible(json_text(value))


def _visible(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)

"""Redact one text: find the secrets, settle overlaps, put placeholders in their place.

The one idea: passes are made until a pass changes nothing. What comes out is therefore a text in
which nothing is found any more, so redacting it again changes nothing, whatever the rules are.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from contextvars import ContextVar

from tracekit.interruption import pass_on
from tracekit.redact.assignments import find_assignments
from tracekit.redact.borders import real_spans
from tracekit.redact.detectors import (
    DETECTORS,
    Span,
    find_forms,
    find_random,
)
from tracekit.redact.encoded import MOST_LAYERS, decode, layers, recode
from tracekit.redact.keys import TAG_LENGTH, Tagger
from tracekit.redact.look import LONGEST_LITERAL, Look
from tracekit.redact.placeholders import (
    FORMAT_KINDS,
    NUMBER,
    SECRET,
    Wall,
    find_placeholders,
    make_placeholder,
    placeholder_kind,
)
from tracekit.redact.places import is_long
from tracekit.redact.rules import Rules
from tracekit.redact.settling import settle
from tracekit.redact.streams import Edit, share
from tracekit.redact.tokens import TOKEN_KINDS, find_tokens

_MOST_PASSES = 8
_SHORTEST = 6
"""No detector finds anything in a text shorter than this."""
_FORMATS = tuple(detector for detector in DETECTORS if detector.kind != SECRET)
_KINDS = FORMAT_KINDS | TOKEN_KINDS
"""The kinds that a secret has by its own form, wherever it stands."""
_BLANK = re.compile(r"\s")
_TAG = re.compile(f"[0-9a-f]{{{TAG_LENGTH}}}")

_asking: ContextVar[bool] = ContextVar("tracekit_inside_a_rule", default=False)


class RuleFailed(Exception):
    """A rule of the user, or the tagger, did not do its work; carries no part of the text."""


class TextRedactor:
    """Redact texts by one set of rules."""

    def __init__(self, rules: Rules, tagger: Tagger) -> None:
        self._rules = rules
        self._tagger = tagger

    def redact(self, text: str, known: Mapping[str, str], found: list[str]) -> str:
        """Return ``text`` without its secrets.

        Args:
            text: The text.
            known: Secrets learnt elsewhere and their placeholders, replaced wherever they stand.
            found: Gets the kind of each secret replaced.

        Raises:
            RuleFailed: a rule raised, or its results never settle.
        """
        if len(text) < _SHORTEST and not self._rules.compiled and not self._rules.functions:
            return text
        look: Look | None = None
        for _ in range(_MOST_PASSES):
            before = text
            if self._rules.functions:
                text = self._call_functions(text, found)
            if look is None or look.text is not text:
                look = Look(text)
            spans = self._spans(look, known)
            if spans:
                edits = self._edits(text, spans, known, found)
                text = _edited(text, edits)
                look = Look(text, before=look, changed=_around(look.text, edits))
            if text is before or text == before:
                return text
        raise RuleFailed("the redaction rules change their own output again and again")

    def redact_pieces(
        self, pieces: list[str], known: Mapping[str, str], found: list[str], *, running: bool
    ) -> list[str]:
        """Return texts that follow each other without the secrets of what they add up to.

        What the user's functions say of a text they say of each piece, when that is redacted.

        Args:
            pieces: The texts.
            known: Secrets learnt elsewhere and their placeholders.
            found: Gets the kind of each secret replaced.
            running: Whether they are pieces of one text, not rows.

        Raises:
            RuleFailed: a rule raised, or its results never settle.
        """
        for _ in range(_MOST_PASSES):
            joined = "".join(pieces)
            # Ids that follow each other without a blank look as random as a key.
            by_chance = not _BLANK.search(joined)
            spans = self._spans(Look(joined), known, random=not by_chance)
            if spans:
                spans = real_spans(
                    pieces, spans, lambda text: self._spans(Look(text), known), running=running
                )
            if not spans:
                return pieces
            pieces = share(pieces, self._edits(joined, spans, known, found))
        raise RuleFailed("the redaction rules change their own output again and again")

    def placeholder(self, kind: str, secret: str) -> tuple[str, str]:
        """Return the placeholder for a whole secret, and its kind.

        A secret with a form of its own keeps that form, wherever it was found. What is a secret
        inside the secret is replaced first, so that a planner that builds the same value out of
        placeholders gets the same tag.
        """
        if kind in _KINDS:
            return self._make(kind, secret, secret), kind
        inner = secret
        look = Look(inner)
        formats = [*find_forms(look, _FORMATS)] if is_long(inner) or look.may_match() else []
        formats += find_tokens(look)
        spans = settle(_walled(inner, formats))
        if spans and self._rules.builtin:
            inner = _edited(secret, self._edits(secret, spans, {}, []))
            whole = placeholder_kind(inner)
            if whole is not None:
                return inner, whole
        if kind == SECRET and secret.isascii() and secret.isdigit():
            return self._make(NUMBER, secret, secret), NUMBER
        return self._make(kind, inner, secret), kind

    def tag(self, kind: str, secret: str) -> str:
        """Return the tag of a secret; a tagger that does not keep to its protocol is refused."""
        try:
            tag = self._tagger.tag(kind, secret)
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing may get through
            pass_on(error)
            raise RuleFailed(f"the tagger raised {type(error).__name__}") from None
        if not _TAG.fullmatch(tag):
            raise RuleFailed("the tagger gave something that is no tag")
        return tag

    def _make(self, kind: str, secret: str, original: str) -> str:
        return make_placeholder(kind, self.tag(kind, secret), original)

    def _spans(
        self, look: Look, known: Mapping[str, str], *, layer: int = 0, random: bool = True
    ) -> list[Span]:
        text = look.text
        own_rules = self._rules.compiled or self._rules.functions
        spans = list(self._user_spans(text)) if own_rules else []
        if self._rules.builtin:
            if is_long(text) or look.may_match():
                spans += find_forms(look, DETECTORS)
            spans.extend(find_tokens(look) if look.long else ())
            spans.extend(find_random(look) if random else ())
            spans.extend(find_assignments(look))
        for secret in known:
            if secret in text:
                spans.extend(_occurrences(text, secret))
        if layer < MOST_LAYERS:
            spans.extend(self._encoded(look, known, layer + 1))
        return settle(_walled(text, spans, look.raw)) if spans else spans

    def _encoded(self, look: Look, known: Mapping[str, str], layer: int) -> Iterator[Span]:
        """Yield what stands in encoded texts: of base64 the whole, of ``%XX`` the secret alone."""
        for one in layers(look):
            for span in self._inner(one.text, one.codec, known, layer):
                codecs = (one.codec, *span.codecs)
                if one.starts:
                    start, end = one.starts[span.start], one.starts[span.end]
                    yield span._replace(start=start, end=end, codecs=codecs)
                else:
                    yield Span(one.start, one.end, span.kind, crosses=True, codecs=codecs[:1])
                    break

    def _inner(self, text: str, codec: str, known: Mapping[str, str], layer: int) -> list[Span]:
        """Return the secrets in a decoded text; of bytes that are no text, only tokens are told."""
        if codec != "binary":
            return self._spans(Look(text), known, layer=layer)
        if not self._rules.builtin:
            return []
        return settle(_walled(text, list(find_tokens(Look(text)))))

    def _user_spans(self, text: str) -> Iterator[Span]:
        for name, pattern in self._rules.compiled:
            named = "secret" in pattern.groupindex
            for match in pattern.finditer(text):
                start, end = match.span("secret" if named and match["secret"] else 0)
                if start < end:
                    yield Span(start, end, name, crosses=True, user=True)
        for function in self._rules.functions:
            result = _call(function, text)
            if result is not None and not isinstance(result, str):
                yield from _checked_spans(result, len(text))

    def _call_functions(self, text: str, found: list[str]) -> str:
        """Take over the texts that the user's functions give back, placeholders kept."""
        for function in self._rules.functions:
            parts: list[str] = []
            position = 0
            for wall in [*find_placeholders(text), Wall(len(text), len(text), "")]:
                part = text[position : wall.start]
                result = _call(function, part) if part else None
                if isinstance(result, str) and result != part:
                    found.append("function")
                    part = result
                parts += part, text[wall.start : wall.end]
                position = wall.end
            text = "".join(parts)
        return text

    def _edits(
        self,
        text: str,
        spans: list[Span],
        known: Mapping[str, str],
        found: list[str],
        *,
        layer: int = 0,
    ) -> list[Edit]:
        made: dict[tuple[str, str], tuple[str, str]] = {}
        edits: list[Edit] = []
        for span in spans:
            secret = text[span.start : span.end]
            if span.codecs:
                new = self._instead(secret, span, known, found, layer)
            elif secret:
                asked = span.kind, secret
                if asked not in made:  # one stands there many times
                    made[asked] = self.placeholder(*asked)
                new, kind = made[asked]
                found.append(kind)
            else:
                continue
            edits.append(Edit(span.start, span.end, new))
        return edits

    def _instead(
        self, secret: str, span: Span, known: Mapping[str, str], found: list[str], layer: int
    ) -> str:
        """Return what stands in place of an encoded secret, encoded as it was."""
        if not span.codecs:
            placeholder, kind = self.placeholder(span.kind, secret)
            found.append(kind)
            return placeholder
        codec, said = span.codecs[0], decode(secret, span.codecs[0])
        if codec == "percent":
            rest = span._replace(codecs=span.codecs[1:])
            new = self._instead(said, rest, known, found, layer + 1)
        else:
            spans = self._inner(said, codec, known, layer + 1)
            new = _edited(said, self._edits(said, spans, known, found, layer=layer + 1))
        return recode(secret, new, codec)


def _edited(text: str, edits: list[Edit]) -> str:
    parts: list[str] = []
    position = 0
    for edit in edits:
        parts += text[position : edit.start], edit.text
        position = edit.end
    parts.append(text[position:])
    return "".join(parts)


def _around(text: str, edits: list[Edit]) -> str:
    """Return what the edits make of the places that they change, a line each."""
    parts: list[str] = []
    position = 0
    for edit in edits:
        kept = text[position : edit.start]
        if len(kept) > 2 * LONGEST_LITERAL:
            kept = f"{kept[:LONGEST_LITERAL]}\n{kept[-LONGEST_LITERAL:]}"
        parts += kept, edit.text
        position = edit.end
    parts.append(text[position : position + LONGEST_LITERAL])
    return "".join(parts)


def _call(function: object, text: str) -> object:
    assert callable(function)
    token = _asking.set(True)
    try:
        return function(text)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever it is, nothing may get through
        pass_on(error)
        raise RuleFailed(f"a redaction function raised {type(error).__name__}") from None
    finally:
        _asking.reset(token)


def inside_a_rule() -> bool:
    """Whether a function of the user's looks for secrets here; what it calls is not recorded."""
    return _asking.get()


def _checked_spans(result: object, length: int) -> Iterator[Span]:
    try:
        pairs = [(int(start), int(end)) for start, end in result]  # type: ignore[attr-defined]  # checked here
    except (TypeError, ValueError):
        raise RuleFailed("a redaction function gave neither a text nor spans") from None
    for start, end in pairs:
        if not 0 <= start <= end <= length:
            raise RuleFailed("a redaction function gave a span outside the text")
        if start < end:
            yield Span(start, end, "function", crosses=True, user=True)


def _occurrences(text: str, secret: str) -> Iterator[Span]:
    """Yield where a known secret stands as a word of its own."""
    start = text.find(secret)
    while start >= 0:
        end = start + len(secret)
        before, after = text[max(0, start - 1) : start], text[end : end + 1]
        if not (before.isalnum() and secret[0].isalnum()) and not (
            after.isalnum() and secret[-1].isalnum()
        ):
            yield Span(start, end, SECRET, crosses=True)
        start = text.find(secret, end)


def _walled(text: str, spans: list[Span], raw: bytes | None = None) -> list[Span]:
    """Drop the spans that only found a placeholder, or a part of one."""
    if not spans:
        return spans
    walls = find_placeholders(text, raw)
    if not walls:
        return spans
    starts = [wall.start for wall in walls]
    return [span for span in spans if all(_passes(span, w) for w in _near(span, walls, starts))]


def _near(span: Span, walls: list[Wall], starts: list[int]) -> list[Wall]:
    """Return the walls that ``span`` may touch."""
    first = max(0, bisect_right(starts, span.start) - 1)
    return walls[first : bisect_left(starts, span.end)]


def _passes(span: Span, wall: Wall) -> bool:
    if wall.end <= span.start or span.end <= wall.start:
        return True
    contains = span.start <= wall.start and wall.end <= span.end
    equal = span.start == wall.start and span.end == wall.end
    return span.crosses and contains and not equal

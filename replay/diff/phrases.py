"""Which of many phrases occur in which of many texts.

Looking for each phrase in each text would take their product. Within a phrase, a word that has
something else on both sides is a word of every text that holds the phrase, and a word at its end is
the beginning of one. So each phrase is looked for only where its rarest word is. Of the texts, no
other words are kept than those of phrases: long texts are read, not indexed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

_WORD = re.compile(r"\w+")
FEW = 40
"""So few texts are looked through without asking the index."""
_SAME_LENGTH = 100
"""So few values of one length are looked for one after the other."""


def held_in(text: str, values: Collection[str]) -> set[str]:
    """Give those of many values that occur in a text, wherever in it.

    Looking for each would take their product. So of many values of one length, every stretch of
    that length in the text is looked up among them.
    """
    lengths: dict[int, set[str]] = {}
    for value in values:
        lengths.setdefault(len(value), set()).add(value)
    found: set[str] = set()
    for length, some in lengths.items():
        if len(some) <= _SAME_LENGTH:
            found.update(value for value in some if value in text)
        else:
            last = len(text) - length + 1
            found.update(
                at for start in range(last) if (at := text[start : start + length]) in some
            )
    return found


class Phrases:
    """Some texts, in which phrases are looked for."""

    def __init__(self, texts: Iterable[str]) -> None:
        places: dict[str, list[int]] = {}
        for at, text in enumerate(texts):
            places.setdefault(text, []).append(at)
        self._texts = list(places)
        self._places = list(places.values())
        self.looks = 0
        """How often a phrase was looked for in a text; a measure of the work done."""

    def find(self, phrases: Iterable[str]) -> Iterator[tuple[str, list[int]]]:
        """Yield each phrase that occurs with the numbers of the texts that hold it.

        A phrase holds something else than word characters: what is one word is looked up as such.
        """
        if len(self._texts) <= FEW:
            yield from self._in_few([*phrases])
            return
        for phrase, texts in self._candidates([*phrases]).items():
            self.looks += len(texts)
            held = [number for number in texts if phrase in self._texts[number]]
            if held:
                yield phrase, [at for number in held for at in self._places[number]]

    def _in_few(self, phrases: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
        """Look through every text for all phrases at once."""
        self.looks += len(phrases) * len(self._texts)
        found: dict[str, list[int]] = {}
        for text, places in zip(self._texts, self._places, strict=True):
            for phrase in held_in(text, phrases):
                found.setdefault(phrase, []).extend(places)
        yield from found.items()

    def _candidates(self, phrases: Sequence[str]) -> dict[str, Collection[int]]:
        """Give for each phrase the texts that hold the rarest word of it.

        The words at its ends are asked for only where those within leave many texts, since every
        word of a text may begin or end with one.
        """
        parts = {phrase: _Parts(phrase) for phrase in phrases}
        inner = self._holders([part.inner for part in parts.values()], _whole)
        found: dict[str, Collection[int]] = {}
        rest: dict[str, _Parts] = {}
        for phrase, part in parts.items():
            found[phrase] = _least(range(len(self._texts)), part.inner, inner)
            if len(found[phrase]) > FEW:
                rest[phrase] = part
        if rest:
            heads = self._holders([part.heads for part in rest.values()], _heads)
            tails = self._holders([part.tails for part in rest.values()], _tails)
            for phrase, part in rest.items():
                least = _least(found[phrase], part.heads, heads)
                found[phrase] = _least(least, part.tails, tails)
        return found

    def _holders(
        self, wanted: Sequence[Sequence[str]], pieces: Callable[[set[str], set[int]], set[str]]
    ) -> dict[str, list[int]]:
        """Give the texts in which each of the wanted words is, or begins or ends one."""
        holders: dict[str, list[int]] = {word: [] for words in wanted for word in words}
        lengths = {len(word) for word in holders}
        for number, text in enumerate(self._texts if holders else ()):
            for word in pieces(set(_WORD.findall(text)), lengths) & holders.keys():
                holders[word].append(number)
        return holders


class _Parts:
    """The words of a phrase, by what each must be in a text that holds it."""

    def __init__(self, phrase: str) -> None:
        self.inner: list[str] = []
        """Words there."""
        self.heads: list[str] = []
        """What a word there begins with."""
        self.tails: list[str] = []
        """What a word there ends with."""
        for match in _WORD.finditer(phrase):
            if match.end() == len(phrase):
                self.heads.append(match[0])
            elif match.start() == 0:
                self.tails.append(match[0])
            else:
                self.inner.append(match[0])


def _whole(words: set[str], _: set[int]) -> set[str]:
    return words


def _heads(words: set[str], lengths: set[int]) -> set[str]:
    return {word[:length] for length in lengths for word in words}


def _tails(words: set[str], lengths: set[int]) -> set[str]:
    return {word[-length:] for length in lengths for word in words}


def _least(
    least: Collection[int], words: Sequence[str], holders: Mapping[str, Collection[int]]
) -> Collection[int]:
    """Give the fewest texts that one of some words leaves."""
    return min((least, *(holders[word] for word in words)), key=len)

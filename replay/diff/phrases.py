"""Which of many phrases occur in which of many texts.

Looking for each phrase in each text would take their product. Within a phrase, a word that has
something else on both sides is a word of every text that holds the phrase, and a word at its end is
the beginning of one. So each phrase is looked for only where its rarest word is.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate

_WORD = re.compile(r"\w+")
FEW = 40
"""So few texts are looked through without asking the index."""
_SAME_LENGTH = 100
"""So few values of one length are looked for one after the other."""
_LAST = chr(0x10FFFF)


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
    """An index of some texts that finds phrases in them."""

    def __init__(self, texts: Iterable[str]) -> None:
        places: dict[str, list[int]] = {}
        for at, text in enumerate(texts):
            places.setdefault(text, []).append(at)
        self._texts = list(places)
        self._places = list(places.values())
        self._holders: dict[str, list[int]] = {}
        """The texts that hold each word."""
        for number, text in enumerate(self._texts if len(self._texts) > FEW else ()):
            for word in set(_WORD.findall(text)):
                self._holders.setdefault(word, []).append(number)
        self._beginnings = _Ranges(self._holders)
        self._endings = _Ranges({word[::-1]: held for word, held in self._holders.items()})
        self.looks = 0
        """How often a phrase was looked for in a text; a measure of the work done."""

    def find(self, phrases: Iterable[str]) -> Iterator[tuple[str, list[int]]]:
        """Yield each phrase that occurs with the numbers of the texts that hold it.

        A phrase holds something else than word characters: what is one word is looked up as such.
        """
        if len(self._texts) <= FEW:
            yield from self._in_few([*phrases])
            return
        for phrase in phrases:
            texts = self._candidates(phrase)
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

    def _candidates(self, phrase: str) -> Collection[int]:
        """Give the texts that hold the rarest word of a phrase; all where it has no word."""
        least: tuple[int, list[list[int]]] | None = None
        for match in _WORD.finditer(phrase):
            if match.end() == len(phrase):
                count, held = self._beginnings.with_prefix(match[0])
            elif match.start() == 0:
                count, held = self._endings.with_prefix(match[0][::-1])
            else:
                here = self._holders.get(match[0], [])
                count, held = len(here), [here]
            if least is None or count < least[0]:
                least = count, held
        if least is None or least[0] >= len(self._texts):
            return range(len(self._texts))
        return {number for some in least[1] for number in some}


class _Ranges:
    """Words in order, so that those with one beginning stand together."""

    def __init__(self, holders: dict[str, list[int]]) -> None:
        self._words = sorted(holders)
        self._held = [holders[word] for word in self._words]
        self._before = list(accumulate(map(len, self._held), initial=0))

    def with_prefix(self, prefix: str) -> tuple[int, list[list[int]]]:
        """Give what is held by words that begin so, and how much that is."""
        low = bisect_left(self._words, prefix)
        high = bisect_left(self._words, prefix + _LAST, lo=low)
        return self._before[high] - self._before[low], self._held[low:high]

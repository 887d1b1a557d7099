"""The secrets that a call or a run has shown in its fields, kept to be found in its texts.

The one idea: what a field names a secret is one everywhere in its scope, unless it is a word that
texts are made of.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_MOST_KNOWN = 256
_WORDS = re.compile(r"[A-Z]?[a-z]+(?:[ _.-][A-Z]?[a-z]+)*|[A-Z]+(?:[ _-][A-Z]+)*")
_LONGEST_WORDS = 40


def is_telling(secret: str) -> bool:
    """Say whether a secret is no word or name that stands in texts for something else."""
    if len(secret) < 6 or (len(secret) < 12 and secret.isalpha()):
        return False
    return len(secret) > _LONGEST_WORDS or not _WORDS.fullmatch(secret)


@dataclass
class Scope:
    """The secrets learnt from fields, to be found again in texts that do not name them.

    A password passed as an argument stands bare in the error text of the same call. One scope for
    the arguments and the outcome of a call, or for a run, takes it out there too. It lives in
    memory only.
    """

    known: dict[str, str] = field(default_factory=dict)

    def learn(self, secret: str, placeholder: str) -> None:
        """Remember a secret, unless it is so plain that it would be found everywhere."""
        if is_telling(secret) and len(self.known) < _MOST_KNOWN:
            self.known[secret] = placeholder

    def __repr__(self) -> str:
        return f"Scope({len(self.known)} secrets)"

"""The secrets that a call or a run has shown in its fields, kept to be found in its texts.

The one idea: what a field names a secret is one everywhere in its scope, unless it is a word that
texts are made of.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_MOST_KNOWN = 256


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
        telling = len(secret) >= 12 or (len(secret) >= 6 and not secret.isalpha())
        if telling and len(self.known) < _MOST_KNOWN:
            self.known[secret] = placeholder

    def __repr__(self) -> str:
        return f"Scope({len(self.known)} secrets)"

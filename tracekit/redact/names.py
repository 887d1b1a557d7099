"""Which field names hold secrets, and paths to fields the user names.

The one idea: a name is read as words (``dbPassword``, ``db-password`` and ``DB_PASSWORD`` are one),
and its end decides, so that ``access_token`` is a secret while ``token_usage`` is none.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from tracekit.errors import UsageError

NameClass = Literal["secret", "token"]
"""A ``token`` may also be a count or a word of a text, so only its strings are secrets."""

Step = str | int | None
"""One step of a path: a key, an index, or None for any."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_EXACT = _words(
    "pwd pass passwords passwordhash secrets apikeys credential credentials authorization "
    "proxyauthorization cookie cookies setcookie jwt cvv cvc cvv2 cvc2 ssn otp passcode "
    "xamzsignature phpsessid jsessionid connectsid"
)
_ENDS = _words(
    "password passwd passphrase passcode secret apikey secretkey privatekey accesskey signingkey "
    "encryptionkey masterkey accountkey sharedkey sessionkey hmackey"
)
_NO_SECRET_TOKEN = _words(
    "bos cached class cls completion continuation cursor delta end eos first input last mask max "
    "min next output pad page per prompt reasoning sep special start stop sync total unk"
)
_PATH_STEP = re.compile(
    r"""\.(?P<name>[^\W\d][\w-]*) | \[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]
        | \[(?P<index>\d+)\] | (?P<any>\.\*|\[\*\])""",
    re.VERBOSE,
)


@lru_cache(maxsize=8192)
def name_class(name: str) -> NameClass | None:
    """Say what kind of secret a field of this name holds, if any."""
    words = [word.lower() for word in _WORD.findall(name[-120:])]
    joined = "".join(words)
    if joined in _EXACT or joined.endswith(_ENDS):
        return "secret"
    if words and words[-1] == "token" and not set(_NO_SECRET_TOKEN).intersection(words):
        return "token"
    return None


def normal_name(name: str) -> str:
    """Return the form in which names are compared: case does not count."""
    return name.casefold()


def parse_path(path: str) -> tuple[Step, ...]:
    """Return the steps of a path like ``$.cards[*].number``.

    Raises:
        UsageError: it is no such path.
    """
    steps: list[Step] = []
    position = 1
    while position < len(path):
        match = _PATH_STEP.match(path, position)
        if match is None:
            raise UsageError(
                f"redaction path {path!r} is not understood at character {position + 1}",
                hint="write a path as $.name, $.names[*].name, $.rows[0] or $['any key']",
            )
        if match["any"]:
            steps.append(None)
        elif match["index"]:
            steps.append(int(match["index"]))
        else:
            steps.append(match["name"] if match["name"] is not None else match["quoted"])
        position = match.end()
    return tuple(steps)


def path_matches(rule: tuple[Step, ...], path: list[str | int]) -> bool:
    """Say whether ``path`` is one that the rule names."""
    return len(rule) == len(path) and all(
        step is None or step == here for step, here in zip(rule, path, strict=True)
    )

"""Which field names hold secrets, and paths to fields the user names.

The one idea: a name is read as words (``dbPassword``, ``db-password`` and ``DB_PASSWORD`` are one),
and its end decides, so that ``access_token`` is a secret while ``token_usage`` is none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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
_ENDS = _words(
    "password passwords passwordhash passwd passphrase passcode secret secrets apikey apikeys "
    "secretkey privatekey accesskey signingkey encryptionkey masterkey accountkey sharedkey "
    "sessionkey hmackey secretkeys privatekeys accesskeys"
)
_EXACT = frozenset(_words("pass cookies setcookie xamzsignature phpsessid jsessionid connectsid"))
_LAST = frozenset(_words("pwd credential credentials jwt cvv cvc ssn otp cookie"))
"""Last words that hold a secret whatever stands before them."""
_HEADERS = frozenset(_words("authorization cookies"))
_BEFORE_HEADER = frozenset(_words("http https x header headers proxy request response amz session"))
_BEFORE_PASS = frozenset(
    _words(
        "account admin app auth basic bot client database db email ftp http imap ldap login mail "
        "mongo mysql pg pop postgres proxy rabbitmq redis root server sftp smtp sql ssh sudo user "
        "vpn wifi"
    )
)
TAILS = frozenset(_words("confirmation confirm value string pem plain plaintext"))
"""Last words that say of a secret how it is written."""
_COUNTS = frozenset(_words("num n number count max min total has is no avg"))
"""First words of what is told about secrets."""
_SECRET_TOKENS = frozenset(
    _words(
        "access refresh api auth bearer session secret csrf xsrf oauth security device bot "
        "personal service user client admin login reset deploy push registration"
    )
)
"""Words right before ``token`` that leave no doubt."""
_NO_SECRET_TOKEN = frozenset(
    _words(
        "bos cached class cls completion continuation cursor delta end eos input last mask max "
        "min next output pad page per prompt reasoning sep special start stop sync time total unk"
    )
)
_MOST_SAID = 6
_LONGEST = 120
_PATH_STEP = re.compile(
    r"""\.(?P<name>[^\W\d][\w-]*) | \[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]
        | \[(?P<index>\d+)\] | (?P<any>\.\*|\[\*\])""",
    re.VERBOSE,
)


def secret_endings() -> frozenset[str]:
    """Return what every name of a secret ends with, but for digits, ``TAILS`` and separators."""
    tokens = (f"{word}tokens" for word in _SECRET_TOKENS)
    return frozenset((*_ENDS, *_EXACT, *_LAST, *_HEADERS, "pass", "token", *tokens))


def name_class(name: str) -> NameClass | None:
    """Say what kind of secret a field of this name holds, if any; of a long one its end says it."""
    return _class_of(name[-_LONGEST:])  # no more of it is kept in memory


@lru_cache(maxsize=8192)
def _class_of(name: str) -> NameClass | None:
    words = [word.lower() for word in _WORD.findall(name)]
    while len(words) > 1 and (words[-1].isdigit() or words[-1] in TAILS):
        words.pop()
    if not words or words[0] in _COUNTS:
        return None
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    joined = "".join(words)
    if joined in _EXACT or last in _LAST or joined.endswith(_ENDS):
        return "secret"
    if last in _HEADERS:
        return "secret" if not before or before in _BEFORE_HEADER else None
    if last == "pass":
        return "secret" if before in _BEFORE_PASS or name.isupper() else None
    if last == "tokens":
        return "token" if before in _SECRET_TOKENS else None
    if last != "token":
        return None
    doubtful = before not in _SECRET_TOKENS and not _NO_SECRET_TOKEN.isdisjoint(words)
    return None if doubtful else "token"


def named_value(value: Mapping[str, object]) -> tuple[str, str] | None:
    """Return the key of what an object says to be the value of a name, and that name."""
    key = "value" if "value" in value else "Value" if "Value" in value else None
    if key is None or len(value) > _MOST_SAID:
        return None
    for said in ("name", "key", "Name", "Key", "header", "variable"):
        name = value.get(said)
        if isinstance(name, str) and name_class(name) is not None:
            return key, name
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

"""Long texts of the kinds that agents hand about, made without a file and always the same.

The one idea: what redaction costs depends on what a text is made of, not on how long it is alone.
"""

from __future__ import annotations

import base64
import json
import random
import string
import uuid
from collections.abc import Callable

_PROSE = "On Monday 2026-11-30 at 09:15 the queue at https://host.test/jobs held 1204 jobs.\n"
_CYRILLIC = "Очередь на сервере утром понедельника содержала 1204 задания и одну ошибку.\n"
_LETTERS = string.ascii_letters + string.digits
_MAIL = "Ask mia@firma.test.\n"
_CODE = """\
def read(self, key: str, tokens: int = 0) -> "Page | None":
    # a page is kept until the next one is asked for
    page = self.pages.get(key, None)
    if page is None or page.size >= self.limit["rows"]:
        raise ValueError(f"no page {key!r} of {len(self.pages)}\\n")
    return page
"""


def long_texts(size: int) -> dict[str, str]:
    """Return texts of ``size`` characters by what they are."""
    dice = random.Random(7)

    def filled(make: Callable[[], str]) -> str:
        parts: list[str] = []
        count = 0
        while count < size:
            parts.append(make())
            count += len(parts[-1])
        return "".join(parts)[:size]

    def in_hex(count: int) -> str:
        return "".join(dice.choices("0123456789abcdef", k=count))

    def of_log() -> str:
        address = ".".join(str(dice.randrange(256)) for _ in range(4))
        return (
            f"2026-11-30T09:{dice.randrange(10, 60)}:17.{dice.randrange(100, 999)}Z INFO {address}:"
            f"{dice.randrange(1024, 65535)} GET https://api.test/v1/jobs/{dice.randrange(10**6)}"
            f"?page={dice.randrange(90)} 200 {dice.randrange(999)}ms request={in_hex(16)}\n"
        )

    rows = [
        {
            "id": number,
            "name": f"job {number}",
            "score": dice.random(),
            "note": _PROSE,
            "open": None,
        }
        for number in range(size // 170)
    ]
    return {
        "prose, nothing secret in it": filled(lambda: _PROSE),
        "prose, a mail address on each page": filled(lambda: _PROSE * 20 + _MAIL),
        "Cyrillic prose": filled(lambda: _CYRILLIC),
        "Cyrillic, a mail address on each page": filled(lambda: _CYRILLIC * 20 + _MAIL),
        "hex words of 32 digits": filled(lambda: in_hex(32) + " "),
        "UUIDs, a line each": filled(lambda: f"{uuid.UUID(int=dice.getrandbits(128))}\n"),
        "an image in base64": base64.b64encode(dice.randbytes(size // 4 * 3)).decode(),
        "JSON of rows": json.dumps(rows),
        "a log with addresses, times and URLs": filled(of_log),
        "source code": filled(lambda: _CODE),
        "base64 in lines": base64.encodebytes(dice.randbytes(size // 4 * 3)).decode()[:size],
        "words of twenty random letters": filled(
            lambda: "".join(dice.choices(_LETTERS, k=20)) + " "
        ),
        "a mail address in each line": filled(lambda: _MAIL),
    }

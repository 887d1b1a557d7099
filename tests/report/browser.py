"""A headless Chromium, driven over its own pipe: pages as a person meets them.

Only what the tests ask of a page: open it, press keys, evaluate an expression, take a picture; and
what it said on the console and asked of the network meanwhile.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome")
_DEADLINE_S = 60.0


def find() -> str | None:
    """Where a Chromium is, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page in one browser; a context manager.

    Args:
        program: The browser.
        profile: Folder for what it keeps.
    """

    def __init__(self, program: str, profile: Path) -> None:
        self._program = program
        self._profile = profile
        self._number = 0
        self._rest = b""
        self._events: list[dict[str, Any]] = []
        self._session: str | None = None

    def __enter__(self) -> Self:
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        line = [
            self._program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-dev-shm-usage", f"--user-data-dir={self._profile}",
            "--remote-debugging-pipe", "--window-size=1400,1000", "about:blank",
        ]  # fmt: skip
        # The browser reads commands at descriptor 3 and answers at 4.
        shell = 'exec 3<&"$0" 4>&"$1"; shift; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", shell, str(theirs_in), str(theirs_out), *line],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        answer = self._ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = answer["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._to)
        self._process.kill()
        self._process.wait()
        os.close(self._from)

    def open(self, path: Path, *, fragment: str = "", dark: bool = False) -> float:
        """Open a file; return after how many seconds it could be used."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", features=[scheme])
        self._events.clear()
        began = time.perf_counter()
        self._ask("Page.navigate", url=path.as_uri() + fragment)
        self._await("Page.loadEventFired")
        self.value("document.body.offsetHeight")  # the layout is done
        return time.perf_counter() - began

    def value(self, expression: str) -> Any:
        """Evaluate an expression in the page."""
        done = self._ask("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in done:
            raise AssertionError(done["exceptionDetails"])
        return done["result"].get("value")

    def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
            self._ask("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
            self._ask("Input.dispatchKeyEvent", type="keyUp", key=key)

    def picture(self, path: Path) -> None:
        """Take a picture of what is seen."""
        path.write_bytes(base64.b64decode(self._ask("Page.captureScreenshot")["data"]))

    @property
    def complaints(self) -> list[str]:
        """What was said on the console, or went wrong, since the page was opened."""
        self.value("0")
        named = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(event) for event in self._events if event["method"] in named]

    @property
    def requests(self) -> list[str]:
        """What was asked of anybody since the page was opened."""
        self.value("0")
        return [
            event["params"]["request"]["url"]
            for event in self._events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def _ask(self, method: str, **params: Any) -> Any:
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]

    def _await(self, method: str) -> None:
        while not any(event["method"] == method for event in self._events):
            self._read()

    def _read(self) -> dict[str, Any]:
        deadline = time.monotonic() + _DEADLINE_S
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], deadline - time.monotonic())
            part = os.read(self._from, 1 << 20) if ready else b""
            if not part:
                raise AssertionError("the browser does not answer")
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        if "method" in message:
            self._events.append(message)
        return message

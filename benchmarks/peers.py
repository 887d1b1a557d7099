"""The same call recorded by packages that others publish, and by ours, all against R.

They are no dependencies of tracekit: an environment of their own is made in ``.venv/peers`` of what
``peers.txt`` pins, and each is measured in a process of its own (``peer``), as it comes, with
nothing sent. Where the environment cannot be made, their lines say so. What a call does:

- R, langfuse and logfire make a span with both values as JSON text, in a form of their own; mlflow,
  too, and keeps the whole trace until its root ends. langsmith copies and serialises both values.
  What they make waits in memory for a thread that sends it, and is lost with the process.
- tracekit binds the arguments, redacts both values, digests them, and has begin and end in a file
  that survives a kill before the call goes on. None of the others writes to disk or digests;
  logfire looks for a list of words in names and values.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tracekit
from benchmarks.figures import Line, interleaved
from benchmarks.peer import CALLS, REPEATS
from benchmarks.reference import payload, reference
from tracekit.configuration import recording_to
from tracekit.journal import Journal
from tracekit.recorder import Recorder
from tracekit.redact import KeyedTagger, Redactor, Rules

_ROOT = Path(__file__).parents[1]
_PINS = Path(__file__).with_name("peers.txt")
_PLACE = _ROOT / ".venv" / "peers"
_NAMES = ("langfuse", "langsmith", "logfire", "mlflow-tracing")
_KEY = b"a key for measuring, not for secrets"
_PATIENCE_S = 420
"""So long may the environment take to be made."""


def measure() -> list[Line]:
    """Measure ours and theirs, each against R in the same process."""
    lines = [_ours()]
    python, told = environment()
    for name in _NAMES:
        lines.append(_theirs(python, name) if python else Line(f"  {name}", told))
    return [Line("200 B in, 1 KB out, as published: R", "", 1.0), *lines]


def environment() -> tuple[Path | None, str]:
    """Make their environment where it is not there yet; give its Python, or why there is none."""
    python, ready = _PLACE / "bin" / "python", _PLACE / ".ready"
    if ready.exists() and ready.read_text("utf-8") == _PINS.read_text("utf-8"):
        return python, ""
    install = [
        *(str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"),
        *("--retries", "1", "--require-hashes", "-r", str(_PINS)),
    ]
    print("making .venv/peers ...", file=sys.stderr, flush=True)
    try:
        for command in ([sys.executable, "-m", "venv", "--clear", str(_PLACE)], install):
            subprocess.run(command, check=True, capture_output=True, timeout=_PATIENCE_S)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"no environment for other packages: {error}", file=sys.stderr)
        return None, "not measured: its package could not be installed"
    ready.write_text(_PINS.read_text("utf-8"), "utf-8")
    return python, ""


def _theirs(python: Path, name: str) -> Line:
    command = [str(python), "-m", "benchmarks.peer", name]
    done = subprocess.run(command, cwd=_ROOT, check=True, stdout=subprocess.PIPE, timeout=300)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[0])
    return _line(f"  {name} {figures['version']}", figures)


def _ours() -> Line:
    given, answer = payload(200), payload(1_000)
    bare = reference(given, answer)

    @tracekit.tool(effect="read")
    def look(request: dict[str, Any]) -> dict[str, Any]:
        return answer

    with tempfile.TemporaryDirectory() as folder:
        own = Recorder(Journal(Path(folder)), Redactor(Rules(), KeyedTagger(_KEY)))
        count = [0]

        def loop(calls: int) -> None:
            with recording_to(own), tracekit.run():
                for _ in range(calls):
                    count[0] += 1  # a payload that is known is not written again
                    look({**given, "limit": count[0]})

        figures = _figures(lambda: bare(CALLS), loop)
        own.sink.close()
    return _line("  tracekit, with redaction", figures)


def _figures(bare: Callable[[], None], loop: Callable[[int], None]) -> dict[str, float]:
    found = interleaved(
        {"reference": bare, "caller": lambda: loop(CALLS)}, calls=1, repeats=REPEATS
    )
    figures = {key: value / CALLS for key, value in found.items()}
    before = time.process_time_ns()
    loop(5 * CALLS)
    return {**figures, "all": (time.process_time_ns() - before) / (5 * CALLS) / 1_000}


def _line(what: str, figures: dict[str, Any]) -> Line:
    reference_us, caller, everything = (figures[key] for key in ("reference", "caller", "all"))
    told = f"{caller:.0f} us, R {reference_us:.0f}; {everything:.0f} us on all threads"
    return Line(what, told, caller / reference_us)

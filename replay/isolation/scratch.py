"""Where ordinary code's files go during a replay: a folder that is thrown away."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory


def scratch_places(folder: Path) -> dict[str, str]:
    """Return the variables that send ordinary code's files to ``folder``."""
    home = folder / "home"
    return {
        "HOME": str(home),
        "TMPDIR": str(folder / "tmp"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local" / "share"),
        "XDG_STATE_HOME": str(home / ".local" / "state"),
    }


def make_places(folder: Path) -> dict[str, str]:
    """Make the home and the temporary folder, and return the variables.

    The others are made by whoever uses them, as everywhere.
    """
    places = scratch_places(folder)
    for name in ("HOME", "TMPDIR"):
        Path(places[name]).mkdir(parents=True, exist_ok=True)
    return places


class Scratch:
    """The folder of runs in this process, one after the other: each finds it as it was made.

    Most runs leave it alone, and then the next one has it as well.
    """

    def __init__(self) -> None:
        self._made: TemporaryDirectory[str] | None = None
        self._untouched: object = None
        self.folder = Path()
        self.places: dict[str, str] = {}

    def make(self) -> None:
        """Make it, unless it is there."""
        if self._made is None:
            self._made = TemporaryDirectory(prefix="tracekit-replay-")
            self.folder = Path(self._made.name).resolve()
            self.places = make_places(self.folder)
            self._untouched = self._look()

    def tidy(self) -> None:
        """Throw it away if a run has touched it."""
        if self._made is not None and self._look() != self._untouched:
            self.remove()

    def remove(self) -> None:
        """Throw it away."""
        made, self._made = self._made, None
        if made is not None:
            made.cleanup()

    def _look(self) -> object:
        folders = (self.folder, Path(self.places["HOME"]), Path(self.places["TMPDIR"]))
        try:
            return [(sorted(os.listdir(one)), os.lstat(one).st_mode) for one in folders]
        except OSError:
            return None

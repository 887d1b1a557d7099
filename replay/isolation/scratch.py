"""Where ordinary code's files go during a replay: a folder that is thrown away."""

from __future__ import annotations

from pathlib import Path


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

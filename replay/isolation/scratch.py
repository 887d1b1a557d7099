"""Where ordinary code's files go during a replay: a folder that is thrown away."""

from __future__ import annotations

from pathlib import Path


def scratch_places(folder: Path) -> dict[str, str]:
    """Return the variables that send ordinary code's files to ``folder``."""
    return {
        "HOME": str(folder),
        "TMPDIR": str(folder / "tmp"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_STATE_HOME": str(folder / "state"),
    }


def make_places(folder: Path) -> dict[str, str]:
    """Make the folders that the variables name, and return the variables."""
    places = scratch_places(folder)
    for place in places.values():
        Path(place).mkdir(parents=True, exist_ok=True)
    return places

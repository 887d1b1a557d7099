"""Some recorded runs of a small shop, and planners that do as recorded or otherwise."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import tracekit
from tests.store.made import run
from tracekit.store import Batch, RunQuery, Store, open_store
from tracekit.store.finding import named_blobs

SHOP = """
import os
import signal
import subprocess

import tracekit

seen = []


@tracekit.tool(effect="read")
def stock(item: str) -> dict:
    return {"item": item, "left": len(item)}


@tracekit.tool(effect="write")
def order(item: str, count: int) -> str:
    return f"ordered {count} of {item}"


@tracekit.agent
def buy(item: str) -> str:
    left = stock(item)["left"]
    return order(item, left)


@tracekit.agent(name="buy")
def leaking(item: str) -> str:
    seen.append(item)
    left = stock(item)["left"]
    return order(item, left + len(seen) - 1)


def asks_the_shelf(history: list, tools: list) -> dict:
    # Decides, and calls a tool that it declares nowhere.
    if any(message["role"] == "tool" for message in history):
        return {"answer": "done"}
    return {"tool": "shelf", "arguments": {"item": "tea"}}


@tracekit.agent(name="buy")
def moody(item: str) -> str:
    left = stock(item)["left"]
    if item == "item 1":
        return order(item, left + 1)
    if item == "item 2":
        raise ValueError("out of tea")
    if item == "item 3":
        signal.pause()
    if item == "item 4":
        while True:
            left += 1
    if item == "item 5":
        return str(len(bytearray(3 << 30)))
    if item == "item 6":
        os.kill(os.getpid(), signal.SIGKILL)
    if item == "item 7":
        subprocess.run(["true"])
    return order(item, left)
"""


def make_shop(folder: Path, *, runs: int) -> Store:
    """Record so many runs, oldest first ``item 0``, ``item 1`` ..., with the shop in ``folder``."""
    (folder / "shop.py").write_text(SHOP, "utf-8")
    path = folder / "traces"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        sys.modules.pop("shop", None)  # others have a shop, too
        shop = importlib.import_module("shop")
        tracekit.configure(store=path)
        try:
            for number in range(runs):
                with tracekit.run(tags=("odd",) if number % 2 else ()):
                    shop.buy(f"item {number}")
        finally:
            tracekit.configure(store=folder / "elsewhere")
            del sys.modules["shop"]
    store = open_store(path)
    store.settle()
    return store


def add_unreplayable(store: Store) -> str:
    """Add a run without an input."""
    made = run("without-input", start=1)
    store.append(Batch(made.events, made.blobs))
    return "without-input"


def recorded_anew(store: Store, folder: Path, run_id: str, like: str) -> Store:
    """Copy a store, but under ``run_id`` stands what another run did."""
    events, blobs = [], []
    for row in store.runs(RunQuery()):
        rows = store.events(like if row.run_id == run_id else row.run_id)
        events += [replace(one, run_id=row.run_id) for one in rows]
        blobs += store.blobs(named_blobs(rows)).values()
    made = open_store(folder, create=True)
    made.append(Batch(tuple(events), tuple({one.digest: one for one in blobs}.values())))
    return made


def replays(store: Store) -> list[str]:
    """Give the runs that were replayed, one for each replay that the store holds."""
    return [row.replay_of for row in store.runs(RunQuery()) if row.replay_of is not None]

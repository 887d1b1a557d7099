"""Options that name tools, for many runs: what is misspelt is refused before anything is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replay import ReplayOptions, replay_many
from replay.faults import PlacedFault
from replay.many import ManyResult
from replay.many.workers import Here
from replay.matching import ArgumentMap, Policies
from tests.replay.many_kit import add_unreplayable, make_shop, replays
from tracekit.errors import UsageError
from tracekit.store import RunQuery, Store


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = make_shop(tmp_path_factory.mktemp("aimed"), runs=2)
    add_unreplayable(store)  # the oldest: it shows nothing of what a planner knows
    return store


def replay(shop: Store, planner: str = "buy", **options: Any) -> ManyResult:
    folder = Path(shop.path).parent
    chosen = ReplayOptions(path=(str(folder),), isolation="process", **options)
    with Here() as executor:
        return replay_many(
            RunQuery(),
            planner=f"shop:{planner}",
            store=shop,
            options=chosen,
            jobs=2,
            executor=executor,
        )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"policies": Policies(ignores={"stokc": ("/item",)})}, "--ignore names the tool 'stokc'"),
        ({"policies": Policies(maps=(ArgumentMap("stokc", "shelf"),))}, "--map names the tool"),
        ({"faults": (PlacedFault.parse("stokc=empty"),)}, "--fault stokc=empty: 'stokc' is no"),
    ],
)
def test_a_misspelt_name_is_refused_with_the_nearest_and_nothing_is_kept(
    shop: Store, options: Any, said: str
) -> None:
    before = replays(shop)
    with pytest.raises(UsageError, match=said) as caught:
        replay(shop, **options)
    assert "the nearest is stock" in str(caught.value)
    assert replays(shop) == before


def test_what_any_run_or_the_planner_declares_or_calls_may_be_named(shop: Store) -> None:
    known = Policies(ignores={"stock": ("/item",)}, unmatched={"read": "error", "*": "error"})
    assert replay(shop, policies=known).counts == {"not replayed": 1, "pass": 2}
    new = Policies(maps=(ArgumentMap("stock", "shelf"),))
    done = replay(shop, "asks_the_shelf", policies=new)
    assert done.counts == {"not replayed": 1, "fail": 2}
    with pytest.raises(UsageError, match="--map names the tool 'shelf'"):
        replay(shop, policies=new)

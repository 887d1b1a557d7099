"""Who answers a replayed planner, what goes wrong, and how often: options of ``replay``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tracekit.cli.options import FINDING, MISUSE, NOTHING, option_group
from tracekit.cli.text import tell_report

if TYPE_CHECKING:
    from replay.options import ReplayOptions
    from tracekit.store import Store


EXITS = {"pass": NOTHING, "fail": FINDING, "inconclusive": MISUSE, "not evaluated": MISUSE}


model_options = option_group(
    click.option(
        "--model", type=click.Choice(["recorded", "live", "scripted", "positional"]),
        default="recorded", show_default=True,
        help="Who answers prompts. recorded: equal prompts only; live: OPENAI_BASE_URL.",
    ),
    click.option(
        "--script", metavar="MOD:OBJ",
        help="For --model scripted: a function, a list of replies, or of replay.scripted.",
    ),
    click.option(
        "--live-model", metavar="MOD:OBJ",
        help="For --model live: your function from the request to the reply.",
    ),
    click.option(
        "--fault", multiple=True, metavar="STEP=FAULT",
        help="Let a step go wrong: 3=timeout (the third request to a model), 2=429:5s, "
        "search#2=error:down, search=empty.",
    ),
    click.option(
        "--conditions", type=click.Choice(["fixed", "real"]),
        default="fixed", show_default=True,
        help="Clock, ids and chance that the planner takes from the standard library.",
    ),
    click.option(
        "--repeat", type=click.IntRange(min=1), default=1, metavar="N",
        help="Replay one run N times, and say what still varies.",
    ),
)  # fmt: skip
"""Options that say who answers prompts, what goes wrong, and what is fixed."""


def take_models(chosen: dict[str, Any]) -> dict[str, Any]:
    """Take these options out of ``chosen``, as fields of ``ReplayOptions``.

    Raises:
        UsageError: a fault is none.
    """
    from replay.faults import PlacedFault

    return {
        "model": chosen.pop("model"),
        "model_script": chosen.pop("script"),
        "model_live": chosen.pop("live_model"),
        "faults": tuple(map(PlacedFault.parse, chosen.pop("fault"))),
        "conditions": chosen.pop("conditions"),
    }


def replay_one(
    run_id: str,
    planner: str,
    store: Store,
    options: ReplayOptions,
    *,
    times: int,
    as_json: bool,
) -> int:
    """Replay one run, once or several times, and print what came of it; give the exit code."""
    from tracekit.cli.text import json_report

    if times > 1:
        from replay.repeats import repeat_run, summarise_repeats

        repeated = repeat_run(run_id, planner=planner, times=times, store=store, options=options)
        tell_report(json_report(repeated.as_dict()) if as_json else summarise_repeats(repeated))
        return EXITS[repeated.verdict.kind]
    from replay.replayer import replay_run
    from replay.summary import summarise

    result = replay_run(run_id, planner=planner, store=store, options=options)
    tell_report(json_report(result.as_dict()) if as_json else summarise(result))
    return EXITS[result.verdict.kind]

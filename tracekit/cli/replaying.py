"""Replaying runs: ``replay``."""

from __future__ import annotations

from typing import Any

import click

from tracekit.cli.options import (
    explained,
    json_option,
    open_for_reading,
    store_option,
    warn_of_damage,
)
from tracekit.cli.replay_many import chosen_runs, many_options, replay_chosen
from tracekit.cli.replay_models import model_options, replay_one, take_models
from tracekit.cli.replay_options import (
    experiment_options,
    matching_options,
    running_options,
    take_bindings,
    take_experiment,
    take_policies,
    variable,
    walls_options,
)
from tracekit.errors import UsageError


@click.command()
@click.option("--run-id", metavar="RUN", help="The recorded run, or a prefix; or choose many.")
@click.option("--planner", required=True, metavar="MOD:OBJ", help="The planner to try.")
@click.option(
    "--mode",
    type=click.Choice(["free", "locked"]),
    default="free",
    show_default=True,
    help="free: the planner drives; locked: it is asked at each recorded decision.",
)
@model_options
@matching_options
@experiment_options
@running_options
@click.option(
    "--baseline",
    metavar="MOD:OBJ|recorded",
    help="The old planner: the new one is judged only if this one still does what was recorded. "
    "recorded: the one that made the run, if its code here is what it was.",
)
@click.option(
    "--baseline-path",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, resolve_path=True),
    metavar="DIR",
    help="Folder to look for the old planner in first: its code, checked out beside the new one.",
)
@click.option(
    "--self-test/--no-self-test",
    default=None,
    help="Change an observation and see that something follows; by default with --baseline.",
)
@walls_options
@many_options
@store_option
@json_option
@explained
def replay(run_id: str | None, planner: str, store: str, as_json: bool, **chosen: Any) -> None:
    """Feed the recorded observations of a run to a planner. Nothing is executed.

    The planner runs in a child process behind walls that prove themselves first. Calls are answered
    from the recording; a write that the recording does not hold is refused and reported. Only what
    --simulate, --live and --sandbox name runs, in processes of its own. The replay is recorded as a
    run of its own, for tracekit show and tracekit diff.

    Many runs are chosen as with tracekit runs (--since, --failed, --tag ...) and replayed in
    parallel; one that fails does not stop the others, and --resume goes on where it was broken off.

    Exits with 0 if the planner came through on recorded evidence without a finding, 1 for a
    finding, 2 if it could not be decided or done.

    Example:

    \b
        tracekit replay --run-id 01J --planner agents.sre:planner_v2
        tracekit replay --run-id 01J --planner agents.sre:planner_v2 --model live
        tracekit replay --run-id 01J --planner agents.sre:planner_v2 --fault 2=429:5s --repeat 3
        tracekit replay --since 7d --failed --planner agents.sre:planner_v2 --junit replays.xml
    """
    runs, times = chosen_runs(run_id, chosen), chosen.pop("repeat")
    options = _options(**chosen)
    if not isinstance(runs, str):
        if times > 1:
            raise UsageError("--repeat is for one run", hint="name it with --run-id")
        raise SystemExit(replay_chosen(runs, planner, store, options, as_json=as_json))
    opened = open_for_reading(store)
    code = replay_one(runs, planner, opened, options, times=times, as_json=as_json)
    warn_of_damage(opened)
    raise SystemExit(code)


def _options(
    *,
    mode: Any,
    isolation: Any,
    env: tuple[str, ...],
    timeout: float,
    baseline: str | None,
    baseline_path: tuple[str, ...],
    self_test: bool | None,
    **chosen: Any,
) -> Any:
    from replay.isolation import Limits
    from replay.replayer import ReplayOptions

    return ReplayOptions(
        mode=mode,
        **take_models(chosen),
        policies=take_policies(chosen),
        bindings=take_bindings(chosen),
        **take_experiment(chosen),
        isolation=isolation,
        limits=Limits(wall_s=timeout),
        environment=dict(map(variable, env)),
        baseline=baseline,
        baseline_path=baseline_path,
        self_test=self_test,
    )

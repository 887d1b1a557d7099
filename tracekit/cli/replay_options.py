"""Options of ``replay`` in groups: how calls are matched, what is other, what really runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from tracekit.cli.options import option_group
from tracekit.errors import UsageError

if TYPE_CHECKING:
    from replay.isolation import Gaps
    from replay.matching import Policies
    from replay.workers import Bindings


env_option = click.option(
    "--env", multiple=True, metavar="NAME[=VALUE]", help="Variable for the planner's process."
)
walls_options = option_group(
    click.option(
        "--isolation", type=click.Choice(["kernel", "process", "guard"]),
        help="Walls around the planner; default the strongest that can stand here.",
    ),
    env_option,
    click.option(
        "--timeout", type=float, default=120.0, show_default=True, metavar="S",
        help="Seconds it may take.",
    ),
)  # fmt: skip

matching_options = option_group(
    click.option(
        "--unmatched", multiple=True, metavar="[TOOL=]POLICY",
        help="For calls that the recording does not hold: error (default), stop, nearest=0.8, "
        "simulate, live, sandbox. Also by effect: read=nearest.",
    ),
    click.option(
        "--stale", type=click.Choice(["serve", "error"]), default="serve", show_default=True,
        help="For reads recorded after other writes.",
    ),
    click.option(
        "--ignore", multiple=True, metavar="TOOL:/PATH",
        help="Argument of a read that does not matter.",
    ),
    click.option(
        "--window", multiple=True, metavar="TOOL:/PATH=60s",
        help="Times of a read that may differ so far.",
    ),
    click.option(
        "--map", "maps", multiple=True, metavar="OLD:/A=NEW:/B",
        help="A renamed tool or argument.",
    ),
    click.option(
        "--learn", is_flag=True,
        help="Let ids, times and tokens at the same place stand for each other; never for a write.",
    ),
)  # fmt: skip

experiment_options = option_group(
    click.option(
        "--set", "overrides", multiple=True, metavar="STEP.observation=JSON",
        help="Give another observation at a step: 3.observation=@FILE, 3.observation/total=7.",
    ),
    click.option(
        "--from-step", "start", type=int, default=1, metavar="N",
        help="Take what was before decision N from the recording.",
    ),
    click.option(
        "--until-step", "until_step", type=int, metavar="N", help="End after decision N.",
    ),
)  # fmt: skip

_simulate = click.option(
    "--simulate", multiple=True, metavar="TOOL=MOD:OBJ",
    help="Function that answers unmatched calls of a tool (or of all: *), without a network.",
)  # fmt: skip
_live = click.option(
    "--live", multiple=True, metavar="TOOL[=MOD:OBJ]",
    help="A read that really is made where nothing is recorded for it.",
)  # fmt: skip
_live_host = click.option(
    "--live-host", multiple=True, metavar="HOST[:PORT]", help="What live reads may reach."
)
_guard = click.option(
    "--guard", metavar="MOD:OBJ", help="The check that production makes before a call."
)
_worker_env = click.option(
    "--worker-env", multiple=True, metavar="NAME[=VALUE]",
    help="Variable for what really runs, and not for the planner.",
)  # fmt: skip

shadow_options = option_group(_simulate, _live, _live_host, _guard, _worker_env)

running_options = option_group(
    _simulate,
    _live,
    _live_host,
    click.option(
        "--sandbox", multiple=True, metavar="TOOL=MOD:OBJ",
        help="Function that makes a write in a sandbox, where the recording does not hold it.",
    ),
    click.option(
        "--sandbox-all", is_flag=True, help="Make writes that it does hold there as well.",
    ),
    click.option(
        "--sandbox-host", multiple=True, metavar="HOST[:PORT]", help="What sandboxes may reach.",
    ),
    click.option(
        "--sandbox-folder", multiple=True, metavar="PATH", help="Where sandboxes may write.",
    ),
    _guard,
    _worker_env,
)  # fmt: skip


def take_policies(chosen: dict[str, Any]) -> Policies:
    """Take the options of ``matching_options`` out of ``chosen``, as policies."""
    from replay.matching import (
        Policies,
        parse_ignore,
        parse_map,
        parse_unmatched,
        parse_window,
        split_similarity,
    )

    ignores: dict[str, tuple[str, ...]] = {}
    for tool, pointer in map(parse_ignore, chosen.pop("ignore")):
        ignores[tool] = (*ignores.get(tool, ()), pointer)
    windows: dict[str, dict[str, float]] = {}
    for tool, pointer, seconds in map(parse_window, chosen.pop("window")):
        windows.setdefault(tool, {})[pointer] = seconds
    unmatched, least = {}, {}
    for text in chosen.pop("unmatched"):
        named, similarity = split_similarity(text)
        name, policy = parse_unmatched(named)
        unmatched[name] = policy
        if similarity is not None:
            least[name] = similarity
    return Policies(
        unmatched=unmatched,
        stale=chosen.pop("stale"),
        maps=tuple(map(parse_map, chosen.pop("maps"))),
        ignores=ignores,
        windows=windows,
        learn=chosen.pop("learn"),
        least=least,
        exercise=chosen.pop("sandbox_all", False),
    )


def take_experiment(chosen: dict[str, Any]) -> dict[str, Any]:
    """Take the options of ``experiment_options`` out of ``chosen``, as fields of the options."""
    from replay.experiment import parse_override

    return {
        "overrides": tuple(map(parse_override, chosen.pop("overrides"))),
        "start": chosen.pop("start"),
        "until": chosen.pop("until_step"),
    }


def take_bindings(chosen: dict[str, Any]) -> Bindings:
    """Take the options of ``running_options`` out of ``chosen``, as bindings."""
    from replay.isolation import Gaps, parse_folders, parse_host
    from replay.workers import Bindings

    live = Gaps(hosts=tuple(map(parse_host, chosen.pop("live_host"))))
    sandbox = Gaps(
        hosts=tuple(map(parse_host, chosen.pop("sandbox_host", ()))),
        folders=parse_folders(chosen.pop("sandbox_folder", ())),
    )
    given = {kind: chosen.pop(kind, ()) for kind in ("simulate", "live", "sandbox")}
    _check_gaps(given, {"live": live, "sandbox": sandbox})
    return Bindings(
        functions={kind: _functions(kind, bound) for kind, bound in given.items()},  # type: ignore[misc]  # the kinds
        gaps={"live": live, "sandbox": sandbox},
        guard=chosen.pop("guard"),
        environment=dict(map(variable, chosen.pop("worker_env"))),
    )


def _functions(kind: str, bound: tuple[str, ...]) -> dict[str, str]:
    from replay.matching import parse_binding

    found = dict(map(parse_binding, bound))
    if bare := [tool for tool, function in found.items() if not function and kind != "live"]:
        raise UsageError(f"--{kind} {bare[0]} names no function", hint=f"{bare[0]}=MOD:OBJ")
    return found


def _check_gaps(given: Mapping[str, tuple[str, ...]], gaps: Mapping[str, Gaps]) -> None:
    for kind, gap in gaps.items():
        if (gap.hosts or gap.folders) and not given[kind]:
            opened = "host" if gap.hosts else "folder"
            raise UsageError(f"--{kind}-{opened} opens a wall for nothing: there is no --{kind}")


def variable(text: str) -> tuple[str, str]:
    """Read ``NAME=VALUE``, or ``NAME`` for the value that it has here."""
    name, equals, value = text.partition("=")
    if not name:
        raise UsageError(f"{text!r} is no variable: there is no name", hint="NAME=VALUE, or NAME")
    if equals:
        return name, value
    if name not in os.environ:
        raise UsageError(f"there is no variable {name} here", hint="write NAME=VALUE")
    return name, os.environ[name]

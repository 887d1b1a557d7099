"""Planning on live input without doing anything: ``shadow``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tracekit.cli.options import FINDING, MISUSE, NOTHING, explained, json_option, store_option
from tracekit.cli.replay_options import shadow_options, take_bindings, variable, walls_options
from tracekit.cli.text import tell_report
from tracekit.numerals import counted
from tracekit.textfiles import read_given
from tracekit.visible import text_of

if TYPE_CHECKING:
    from replay.shadow import ShadowResult

_WIDTH = 120


@click.command()
@click.option("--planner", required=True, metavar="MOD:OBJ", help="The planner to try.")
@click.option(
    "--input",
    "given",
    required=True,
    metavar="JSON|@FILE",
    help="What it is given: an object of arguments, or its only argument.",
)
@click.option("--like", metavar="RUN", help="A recorded run whose tools and tenant are taken over.")
@click.option(
    "--model",
    type=click.Choice(["none", "live", "scripted"]),
    default="none",
    show_default=True,
    help="Who answers prompts. live: OPENAI_BASE_URL.",
)
@click.option("--script", metavar="MOD:OBJ", help="What answers, for --model scripted.")
@shadow_options
@walls_options
@store_option
@json_option
@explained
def shadow(planner: str, given: str, store: str, as_json: bool, **chosen: Any) -> None:
    """Let a planner plan on live input. Nothing executes; the report lists what it would have done.

    Each call is checked against its declaration and put before the guard of production (--guard).
    The planner is told that it was not executed; --simulate answers for a tool, and reads that are
    listed with --live are really made, beside the planner.

    Exits with 0, 1 if the guard or a wall refused something, 2 if it could not be done.

    Example:

    \b
        tracekit shadow --planner agents.sre:planner_v2 --input '{"service": "checkout"}'
        tracekit shadow --planner agents.sre:planner_v2 --input @alert.json --guard ops.rules:check
    """  # fmt: skip
    from replay.shadow import shadow_run  # heavy, and only this command needs it
    from tracekit.cli.text import json_report

    said = read_given(given, option="--input")
    result = shadow_run(said, planner=planner, store=store, options=_options(**chosen))
    tell_report(json_report(result.as_dict()) if as_json else _told(result))
    if result.found:
        raise SystemExit(FINDING)
    raise SystemExit(MISUSE if result.stopped else NOTHING)


def _options(
    *,
    like: str | None,
    model: Any,
    script: str | None,
    isolation: Any,
    env: tuple[str, ...],
    timeout: float,
    **chosen: Any,
) -> Any:
    from replay.isolation import Limits
    from replay.shadow import ShadowOptions

    return ShadowOptions(
        model=model,
        model_script=script,
        bindings=take_bindings(chosen),
        isolation=isolation,
        limits=Limits(wall_s=timeout),
        environment=dict(map(variable, env)),
        like=like,
    )


def _told(result: ShadowResult) -> str:
    from tracekit.canonical import json_text

    lines = [
        f"SHADOW  {result.run_id}: {counted(len(result.calls), 'call')} planned, none executed"
    ]
    if any(call.answered == "live" for call in result.calls):
        lines[0] = lines[0].replace("none executed", "only listed reads made")
    lines.append(f"  planner    {result.planner}")
    walls = ", ".join(wall.name for wall in result.walls if wall.held) or "none but the guard"
    lines.append(f"  isolation  {result.level}; walls that proved themselves: {walls}")
    for number, call in enumerate(result.calls, 1):
        shown = f"{call.tool} {json_text(call.arguments)}"
        lines.append(f"  {number:>3}. would {call.would}: {_short(shown)} ({call.effect})")
        if said := ": ".join(text for text in (call.rule, call.reason) if text):
            lines.append(f"       {call.decision}, {_short(said)}")
        if call.answered != "not executed":
            lines.append(f"       answered by {call.answered}")
    lines += [f"  refused    {_short(text)}" for text in result.refused]
    if result.stopped:
        lines.append(f"  ended      {_short(result.stopped)}")
    if result.answer is not None:
        lines.append(f"  answer     {_short(json_text(result.answer))}")
    return text_of(lines)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"

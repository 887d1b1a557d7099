"""The mutations that only move or respell things: some are harmless, some must be reported.

Whether two calls depend on each other is told here by plain words, strictly: pairs for which that
is not plain either way are left alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

from tests.diff.planting import (
    Mutation,
    Place,
    Planted,
    Site,
    asked,
    call_at,
    is_turn_before,
    is_write,
    leaves,
    one,
    presence_harm,
    sites,
    with_calls,
)
from tracekit.trajectory import Call, Trajectory

_WORD = re.compile(r"\w+")


def _words(value: Any) -> set[str]:
    return set(_WORD.findall(str(value)))


def _text(value: Any) -> str:
    return "\n".join(str(leaf) for _, leaf in leaves(value))


def _shown(call: Call) -> str:
    return _text(call.observation.digest_form)


def _before(run: Trajectory, number: int) -> set[str]:
    """All words that the planner had been shown before a decision."""
    known = _words(_text(run.input.value))
    for message in run.messages:
        if message.before_decision <= number:
            known |= _words(message.content)
    for call in run.calls:
        if call.decision < number:
            known |= _words(_shown(call))
    return known


def _unrelated(run: Trajectory, one_call: Call, two: Call) -> bool:
    """Whether plainly nothing of one call's observation is in the other's arguments."""
    known = _before(run, min(one_call.decision, two.decision))
    for user, source in ((one_call, two), (two, one_call)):
        words = {w for w in _words(_text(user.arguments)) if len(w) > 1} - known
        if any(word in _shown(source) for word in words):
            return False
        compound = [
            str(v) for _, v in leaves(user.arguments) if not _words(str(v)) <= known | words
        ]
        if any(value in _shown(source) for value in compound):
            return False
        whole = {str(v) for _, v in leaves(user.arguments) if len(_words(str(v))) > 1}
        if any(value in _shown(source) for value in whole):
            return False
    return True


def _feeds(run: Trajectory, source: Call, user: Call) -> bool:
    """Whether plainly the user's arguments hold what only the source's observation had shown."""
    known = _before(run, source.decision) | _words(_text(source.arguments))
    known |= {
        w for c in run.calls if c.decision <= source.decision for w in _words(_text(c.arguments))
    }
    return any(
        isinstance(value, str)
        and re.fullmatch(r"[A-Za-z]\w*\d\w*", value)
        and len(value) >= 6
        and value not in known
        and re.search(rf"(?<![\w@./:+-]){value}(?![\w@./:+-])", _shown(source))
        for _, value in leaves(user.arguments)
    )


def _neighbours(run: Trajectory, *, most: int = 1) -> Iterator[tuple[Site, Site]]:
    """Name pairs of calls, each alone in its decision, with only such reads between them."""
    for decision in run.decisions:
        for further in range(1, most + 1):
            row = run.decisions[decision.index - 1 : decision.index + further]
            if len(row) <= further or any(len(each.calls) != 1 for each in row):
                break
            if any(is_turn_before(run, each.index) for each in row[1:]):
                break
            if any(is_write(each.calls[0]) for each in row[1:-1]):
                break
            yield (row[0].index, 0), (row[-1].index, 0)


def _swapped(run: Trajectory, first: Site, second: Site) -> Trajectory:
    return with_calls(run, {first: call_at(run, second), second: call_at(run, first)})


def _moved(run: Trajectory, first: Site, second: Site) -> Planted:
    """One of the two is called moved; which one nobody can tell."""
    pair = call_at(run, first), call_at(run, second)
    harm = "write" if any(is_write(call) for call in pair) else "order"
    harms = [presence_harm(call) if is_write(call) else harm for call in pair]
    there = one("reordered", harms[0], pair[0].tool, first[0], second[0])
    back = one("reordered", harms[1], pair[1].tool, second[0], first[0])
    ends: set[Place] = {first[0], second[0]}
    return Planted(
        run,
        _swapped(run, first, second),
        ((there, back),),
        may=(one("reordered", "words", "(said)", ends, ends, cause=False),),
        prefix=frozenset({first[0] - 1}),
        resynchronises=False,
    )


def _swap(wanted: Any, *, most: int = 1, harmless: bool = False) -> Mutation:
    def mutate(run: Trajectory, chance: Random) -> Planted | None:
        able = [
            (first, second)
            for first, second in _neighbours(run, most=most)
            if asked(call_at(run, first)) != asked(call_at(run, second))
            and wanted(run, first, second)
        ]
        if not able:
            return None
        first, second = chance.choice(able)
        if harmless:
            return Planted(run, _swapped(run, first, second))
        return _moved(run, first, second)

    return mutate


def _are_independent_reads(run: Trajectory, first: Site, second: Site) -> bool:
    row = [run.decisions[n - 1].calls[0] for n in range(first[0], second[0] + 1)]
    if any(is_write(call) for call in row):
        return False
    ends = row[0], row[-1]
    return all(_unrelated(run, end, call) for end in ends for call in row if call is not end)


def _are_dependent_reads(run: Trajectory, first: Site, second: Site) -> bool:
    one_call, two = call_at(run, first), call_at(run, second)
    return not (is_write(one_call) or is_write(two)) and _feeds(run, one_call, two)


def _are_writes(run: Trajectory, first: Site, second: Site) -> bool:
    return is_write(call_at(run, first)) and is_write(call_at(run, second))


def _are_read_and_write(run: Trajectory, first: Site, second: Site) -> bool:
    """A read and a write that may have happened; without contracts they share everything."""
    pair = call_at(run, first), call_at(run, second)
    reads = [call for call in pair if call.effect == "read"]
    writes = [call for call in pair if is_write(call)]
    happened = [write for write in writes if not write.refused]
    return len(reads) == len(happened) == 1 and all(call.contract is None for call in pair)


def _are_read_and_refusal(run: Trajectory, first: Site, second: Site) -> bool:
    """A read and a write that did not happen, with nothing else between them."""
    pair = call_at(run, first), call_at(run, second)
    refused = [call for call in pair if is_write(call) and call.refused]
    reads = [call for call in pair if call.effect == "read"]
    return len(refused) == len(reads) == 1 and _unrelated(run, *pair)


def _parallel(run: Trajectory, chance: Random) -> Planted | None:
    able = [decision for decision in run.decisions if len(decision.calls) > 1]
    if not able:
        return None
    decision = chance.choice(able)
    calls = list(decision.calls)
    chance.shuffle(calls)
    if calls == list(decision.calls):
        calls.reverse()
    return Planted(
        run, with_calls(run, {(decision.index, at): call for at, call in enumerate(calls)})
    )


def _respelt(other: Any) -> Mutation:
    """Spell the arguments of every call otherwise."""

    def mutate(run: Trajectory, chance: Random) -> Planted | None:
        calls = {
            site: replace(call, arguments=other(call.arguments))
            for site in sites(run)
            if repr(other((call := call_at(run, site)).arguments)) != repr(call.arguments)
        }
        return Planted(run, with_calls(run, calls)) if calls else None

    return mutate


def _keys_turned(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _keys_turned(value[name]) for name in reversed(value)}
    return [_keys_turned(inner) for inner in value] if isinstance(value, list) else value


def _as_float(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _as_float(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_as_float(inner) for inner in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _elsewhere(run: Trajectory, chance: Random) -> Planted | None:
    """The same run at another time: other ids, other clocks, other latencies."""
    calls = {
        site: replace(
            call_at(run, site),
            event_id=f"e-{number}",
            span_id=f"s-{number}",
            tool_call_id=f"t-{number}",
            ts_start_ns=number,
            ts_end_ns=number + 1,
            latency_ns=1,
        )
        for number, site in enumerate(sites(run))
    }
    after = replace(with_calls(run, calls), run_id=f"{run.run_id}-again", ts_start_ns=1, mints=())
    return Planted(run, after) if calls else None


def respelt(data: bytes) -> bytes:
    """Spell the JSON of a trace otherwise: whitespace, order of keys, escapes."""
    text = json.dumps(_respelt_json(json.loads(data)), indent=3, ensure_ascii=True)
    return text.encode()


def _respelt_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _respelt_under(name, value[name]) for name in reversed(value)}
    return [_respelt_json(inner) for inner in value] if isinstance(value, list) else value


def _respelt_under(name: str, value: Any) -> Any:
    """The arguments of a call may be JSON in a text; there, too, whitespace is only spelling."""
    if name == "arguments" and isinstance(value, str):
        told = _respelt_json(json.loads(value))
        return json.dumps(told, indent=2, ensure_ascii=True, separators=(" , ", " : "))
    return _respelt_json(value)


HARMLESS: dict[str, Mutation] = {
    "independent reads swapped": _swap(_are_independent_reads, most=3, harmless=True),
    "a read and a refused write swapped": _swap(_are_read_and_refusal, harmless=True),
    "a parallel group in another order": _parallel,
    "other ids, other times": _elsewhere,
    "keys in another order": _respelt(_keys_turned),
    "42 spelt 42.0": _respelt(_as_float),
}
MOVED: dict[str, Mutation] = {
    "two writes swapped": _swap(_are_writes),
    "a read and a write swapped": _swap(_are_read_and_write),
    "a read before the one that feeds it": _swap(_are_dependent_reads),
}

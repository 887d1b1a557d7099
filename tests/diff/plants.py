"""The mutations of the planted-difference suite that must be reported, each with what to say."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from tests.diff.plant_values import (
    NEW,
    fresh,
    hundredfold,
    last_component,
    last_digit,
    look_alike,
    text_number,
    whitespace,
)
from tests.diff.planting import (
    Expected,
    Mutation,
    Planted,
    Site,
    call_at,
    changed_harm,
    is_write,
    kinds_alone,
    leaves,
    likes,
    one,
    presence_harm,
    rebuilt,
    sites,
    unique,
    with_calls,
    with_decision,
    with_leaf,
    without_call,
)
from tracekit.events import Effect, PolicyDecision
from tracekit.trajectory import Call, Observation, Trajectory


def _argument(effect: str, other: Callable[[Any, Random], Any]) -> Mutation:
    """Change one value in the arguments of a call with the given effect."""

    def mutate(run: Trajectory, chance: Random) -> Planted | None:
        able = []
        for site in sites(run, effect):
            call = call_at(run, site)
            for pointer, value in leaves(call.arguments):
                new = other(value, chance)
                if new is None or new == value or not pointer:
                    continue
                made = replace(call, arguments=with_leaf(call.arguments, pointer, new))
                if unique(run, made):
                    able.append((site, pointer, value, new, made))
        if not able:
            return None
        site, pointer, value, new, made = chance.choice(able)
        call = call_at(run, site)
        said = one(
            "changed_arguments",
            changed_harm(call),
            call.tool,
            likes(run, site),
            site[0],
            {pointer: (value, new)},
        )
        return _touched(run, with_calls(run, {site: made}), site, said)

    return mutate


def _touched(run: Trajectory, after: Trajectory, site: Site, *said: Expected) -> Planted:
    """One step is another; of several equal ones any may be named."""
    alone = len(likes(run, site)) == 1
    return Planted(
        run,
        after,
        tuple((each,) for each in said),
        # of several equal ones, the other run may have this one beside the next
        prefix=frozenset(n - d for n in likes(run, site) if n for d in ((1,) if alone else (0, 1))),
        touched=frozenset({site}),
        resynchronises=alone,
    )


def _drop(effect: str) -> Mutation:
    def mutate(run: Trajectory, chance: Random) -> Planted | None:
        able = sites(run, effect)
        if not able:
            return None
        site = chance.choice(able)
        call, decision = call_at(run, site), run.decisions[site[0] - 1]
        places = likes(run, site)
        kinds = {"missing" if k == "alone" else k for k in kinds_alone(run, places, call)}
        said = [one(kinds, presence_harm(call), call.tool, places, None)]
        if len(decision.calls) == 1 and decision.message not in (None, "", []):
            said.append(one("changed_message", "words", "(said)", site[0], None, cause=False))
        return _touched(run, without_call(run, site), site, *said)

    return mutate


def _add(effect: Effect) -> Mutation:
    """A call that nobody made; a tool of the run where it has one of this effect."""

    def mutate(run: Trajectory, chance: Random) -> Planted | None:
        call = Call("planted", "planted", "planted", {}, "read", Observation("fine", "captured"))
        call = replace(call, tool=f"planted_{effect}", arguments={"at": NEW}, effect=effect)
        if able := sites(run, effect):
            like = call_at(run, chance.choice(able))
            if isinstance(like.arguments, dict):
                call = replace(like, arguments={**like.arguments, "at": NEW}, policy_decision=None)
        ended = next((d.index for d in run.decisions if d.final), len(run.decisions) + 1)
        number = chance.randrange(ended) + 1
        after = with_decision(run, number, [call])
        said = one("added", presence_harm(call), call.tool, None, number)
        return Planted(run, after, ((said,),), prefix=frozenset({number - 1}))

    return mutate


def _retry(run: Trajectory, chance: Random) -> Planted | None:
    """A call fails first and is made once more."""
    able = [s for s in sites(run) if len(run.decisions[s[0] - 1].calls) == 1]
    if not able:
        return None
    site = chance.choice(able)
    call = call_at(run, site)
    failed = Observation("busy-77", "captured", is_error=True, error_message="busy-77")
    after = with_decision(run, site[0], [replace(call, observation=failed)])
    said = one("retry", presence_harm(call), call.tool, None, site[0])
    return Planted(run, after, ((said,),), prefix=frozenset({site[0] - 1}))


def _twice(run: Trajectory, chance: Random) -> Planted | None:
    """A call is made twice in a row, and comes back the same."""
    able = [
        s for s in sites(run) if len(run.decisions[s[0] - 1].calls) == 1 and len(likes(run, s)) == 1
    ]
    if not able:
        return None
    site = chance.choice(able)
    call = call_at(run, site)
    after = with_decision(run, site[0] + 1, [call])
    said = one("retry", presence_harm(call), call.tool, None, {site[0], site[0] + 1})
    return Planted(run, after, ((said,),), prefix=frozenset({site[0]}), resynchronises=False)


def _observation(run: Trajectory, chance: Random) -> Planted | None:
    able = [s for s in sites(run) if call_at(run, s).observation.state == "captured"]
    if not able:
        return None
    site = chance.choice(able)
    call = call_at(run, site)
    seen = call.observation
    if seen.is_error:
        made = replace(seen, error_message=f"{seen.error_message} again")
        fields = {"/message": (seen.error_message, made.error_message)}
    else:
        pointer, value = chance.choice(list(leaves(seen.value)))
        new = _other_text(value, chance) if isinstance(value, str) else "other"
        made = replace(seen, value=with_leaf(seen.value, pointer, new))
        fields = {pointer: (value, new)}
    said = one("changed_observation", "result", call.tool, likes(run, site), site[0], fields)
    after = with_calls(run, {site: replace(call, observation=made)})
    return _touched(run, after, site, said)


def _other_text(text: str, chance: Random) -> str:
    """Change one sign in the middle of a text, or add one."""
    if not text:
        return "x"
    at = chance.randrange(len(text))
    return text[:at] + ("q" if text[at] != "q" else "w") + text[at + 1 :]


def _failed(run: Trajectory, chance: Random) -> Planted | None:
    """A call that had come back fails."""
    able = [s for s in sites(run) if not call_at(run, s).observation.is_error]
    if not able:
        return None
    site = chance.choice(able)
    call = call_at(run, site)
    made = replace(call.observation, state="captured", is_error=True, error_message="broken-77")
    harm = "write" if is_write(call) and not call.refused else "result"
    said = one("changed_observation", harm, call.tool, likes(run, site), site[0])
    return _touched(run, with_calls(run, {site: replace(call, observation=made)}), site, said)


def _policy(run: Trajectory, chance: Random) -> Planted | None:
    able = sites(run)
    if not able:
        return None
    site = chance.choice(able)
    call = call_at(run, site)
    new: PolicyDecision | None = None if call.policy_decision == "deny" else "deny"
    made = replace(call, policy_decision=new)
    fields = {"/policy_decision": (call.policy_decision or "allow", new or "allow")}
    said = one("changed_policy", "refusal", call.tool, likes(run, site), site[0], fields)
    return _touched(run, with_calls(run, {site: made}), site, said)


def _evidence(run: Trajectory, chance: Random) -> Planted | None:
    able = sites(run)
    if not able:
        return None
    site = chance.choice(able)
    call = call_at(run, site)
    made = replace(call, evidence=(*call.evidence, "memory-77"))
    said = one("changed_evidence", "result", call.tool, likes(run, site), site[0])
    return _touched(run, with_calls(run, {site: made}), site, said)


def _answer(run: Trajectory, chance: Random) -> Planted | None:
    old = run.answer.digest_form
    if run.answer.is_error or isinstance(old, dict | list):
        return None
    new = _other_text(old, chance) if isinstance(old, str) else "done"
    after = replace(run, answer=Observation(new, "captured"))
    last = run.decisions[-1].index if run.decisions else 1
    said = one("changed_answer", "result", "(final answer)", last, last, {"/answer": (old, new)})
    return Planted(run, after, ((said,),))


def _status(run: Trajectory, chance: Random) -> Planted | None:
    new = "error" if run.status == "ok" else "ok"
    last = run.decisions[-1].index if run.decisions else 1
    fields = {"/status": (run.status, new)}
    said = one("changed_answer", "result", "(final answer)", last, last, fields)
    return Planted(run, replace(run, status=new), ((said,),))


def _input(run: Trajectory, chance: Random) -> Planted | None:
    able = [(p, v) for p, v in leaves(run.input.value) if p and isinstance(v, str) and v]
    if not able:
        return None
    pointer, value = chance.choice(able)
    new = f"{value} Thank you."
    after = replace(run, input=replace(run.input, value=with_leaf(run.input.value, pointer, new)))
    said = one("changed_input", "result", "(input)", 1, 1, {pointer: (value, new)})
    return Planted(run, after, ((said,),))


def _turn(run: Trajectory, chance: Random) -> Planted | None:
    """The user says something else; the agent does not mind."""
    able = [
        n
        for n, m in enumerate(run.messages)
        if m.role == "user" and m.before_decision > 1 and isinstance(m.content, str) and m.content
    ]
    if not able:
        return None
    at = chance.choice(able)
    message = run.messages[at]
    assert isinstance(message.content, str)
    new = _other_text(message.content, chance)
    messages = [*run.messages[:at], replace(message, content=new), *run.messages[at + 1 :]]
    number = message.before_decision
    fields = {"": (message.content, new)}
    said = one("changed_message", "result", "(user's turn)", number, number, fields)
    return Planted(
        run, replace(run, messages=tuple(messages)), ((said,),), prefix=frozenset({number - 1})
    )


def _words(run: Trajectory, chance: Random) -> Planted | None:
    able = [d for d in run.decisions if isinstance(d.message, str) and d.message and not d.final]
    if not able:
        return None
    decision = chance.choice(able)
    assert isinstance(decision.message, str)
    new = _other_text(decision.message, chance)
    at = decision.index - 1
    after = rebuilt(
        run, [*run.decisions[:at], replace(decision, message=new), *run.decisions[at + 1 :]]
    )
    fields = {"": (decision.message, new)}
    number = decision.index
    said = one("changed_message", "words", "(said)", number, number, fields)
    return Planted(run, after, ((said,),), prefix=frozenset({number - 1}))


def _followed(run: Trajectory, chance: Random) -> Planted | None:
    """An observation holds another value, and the planner uses that one from there on."""
    able = [(site, word) for site in sites(run) for word in _brought_by(run, site)]
    if not able:
        return None
    site, word = chance.choice(able)
    new = NEW.format(chance.randrange(10**6))
    source = call_at(run, site)
    seen = str(source.observation.value)
    text = seen.replace(word, new)
    calls = {site: replace(source, observation=replace(source.observation, value=text))}
    said = [one("changed_observation", "result", source.tool, site[0], site[0], {"": (seen, text)})]
    for user in sites(run):
        call = call_at(run, user)
        fields = {}
        arguments = call.arguments
        for pointer, leaf in leaves(call.arguments):
            if isinstance(leaf, str) and word in leaf:
                fields[pointer] = (leaf, leaf.replace(word, new))
                arguments = with_leaf(arguments, pointer, leaf.replace(word, new))
        if fields:
            calls[user] = replace(call, arguments=arguments)
            places = likes(run, user)
            said.append(
                one(
                    "changed_arguments", changed_harm(call), call.tool, places, places, fields,
                    cause=False,
                )
            )  # fmt: skip
    return Planted(
        run,
        with_calls(run, calls),
        tuple((each,) for each in said),
        prefix=frozenset({site[0] - 1}),
        touched=frozenset(calls),
    )


def _brought_by(run: Trajectory, site: Site) -> list[str]:
    """List the words that came into the run by one observation only, and were used later."""
    source = call_at(run, site)
    seen = source.observation.value
    if not isinstance(seen, str) or source.observation.is_error or len(likes(run, site)) > 1:
        return []
    others = [c for c in run.calls if c is not source]
    elsewhere = "\n".join(
        str(part)
        for part in (
            run.input.value,
            source.arguments,
            *(c.observation.digest_form for c in others),
            *(m.content for m in run.messages),
            *(c.arguments for c in others if c.decision <= site[0]),
        )
    )
    later = [str(v) for c in others if c.decision > site[0] for _, v in leaves(c.arguments)]
    words = set(re.findall(r"(?<![\w@./:+-])[A-Za-z]\w{3,}\d\w*(?![\w@./:+-])", seen))
    return sorted(
        word
        for word in words
        if word not in elsewhere
        and any(re.search(rf"(?<![\w@./:+-]){word}(?![\w@./:+-])", leaf) for leaf in later)
        and not any(re.search(rf"[\w@./:+-]{word}|{word}[\w@./:+-]", leaf) for leaf in later)
    )


REPORTED: dict[str, Mutation] = {
    "a read dropped": _drop("read"),
    "a write dropped": _drop("write"),
    "a read added": _add("read"),
    "a write added": _add("write"),
    "a failed attempt before": _retry,
    "the same call twice": _twice,
    "a value in a read": _argument("read", fresh),
    "a value in a write": _argument("write", fresh),
    "42 to 4200 in a read": _argument("read", hundredfold),
    "42 to 4200 in a write": _argument("write", hundredfold),
    "a number as text in a write": _argument("write", text_number),
    "the last digit in a read": _argument("read", last_digit),
    "the last digit in a write": _argument("write", last_digit),
    "the end of a path in a read": _argument("read", last_component),
    "the end of a path in a write": _argument("write", last_component),
    "a look-alike in a read": _argument("read", look_alike),
    "a look-alike in a write": _argument("write", look_alike),
    "whitespace in a value of a read": _argument("read", whitespace),
    "whitespace in a value of a write": _argument("write", whitespace),
    "another observation": _observation,
    "a call that fails": _failed,
    "another observation, and the planner follows": _followed,
    "a policy that decides otherwise": _policy,
    "other evidence": _evidence,
    "another final answer": _answer,
    "another status": _status,
    "another input": _input,
    "another turn of the user": _turn,
    "other words": _words,
}

"""How a prompt finds its recorded reply.

A prompt equal to a recorded one has a reply; any other has none, and the replay says so. By
position is another question, asked only where the user chose it; its answers are never evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from replay.matching.aliases import Aliases
from replay.matching.explain import describe_differences
from replay.matching.learning import Learner
from replay.matching.shelves import Path, Queue
from replay.matching.values import Answer, AskedPrompt
from replay.tape import RecordedPrompt, Tape, is_servable, prompt_key
from tracekit import jsontree
from tracekit.canonical import JsonValue, digest
from tracekit.errortexts import value_without_addresses
from tracekit.events import Rung
from tracekit.prompts import hash_prompt, is_conversation
from tracekit.trajectory import Observation

_Key = tuple[str, str]
_EXACT: Rung = "exact"
_NORMALISED: Rung = "normalised"


class PromptPlayer:
    """A cursor over the model calls of a tape."""

    def __init__(self, tape: Tape, aliases: Aliases, learner: Learner | None = None) -> None:
        self._tape = tape
        self._aliases = aliases
        self._learner = learner
        self._taken: set[int] = set()
        self._places: dict[_Key, list[int]] = {}
        self._queues: dict[tuple[_Key, bool], Queue] = {}
        self._last: dict[_Key, int] = {}
        self._bare_keys: dict[int, tuple[_Key, ...]] | None = None
        self._hashed = all(p.model_call.prompt_hash is not None for p in tape.prompts)
        for recorded in tape.prompts:
            for key in self._recorded_keys(recorded):
                self._places.setdefault(key, []).append(recorded.index)
        free = [p.index for p in tape.prompts if p.model_call.covered_by is None]
        self._by_name: dict[str, Queue] = {}
        for name in {tape.prompts[place].model_call.name for place in free}:
            named = [place for place in free if tape.prompts[place].model_call.name == name]
            self._by_name[name] = Queue(named, self._path)
        self._free = Queue(free, self._path)

    def answer(self, asked: AskedPrompt) -> Answer | None:
        """Find the reply to an equal prompt; None where the record has none."""
        plain = list(self._keys(asked.prompt, asked.prompt_hash, asked.name))
        for key in plain:
            if (found := self._fresh(asked, key, "exact")) is not None:
                return found
        variants = self._variants(asked.prompt)
        bare = self._bare((asked.prompt, *variants))
        aliased = [
            key
            for variant in (*variants, *bare)
            for key in self._keys(variant, _hash(variant), asked.name)
        ]
        attempts = [(key, _EXACT) for key in plain] + [(key, _NORMALISED) for key in aliased]
        for find in (self._fresh, self._beneath, self._again):
            for key, rung in attempts:
                if (found := find(asked, key, rung)) is not None:
                    return found
        return self._learnt(asked)

    def by_position(self, asked: AskedPrompt) -> Answer | None:
        """Give the next unused reply, whatever was asked; None where none is left."""
        for queue in (self._by_name.get(asked.name), self._free):
            place = queue.next(asked.path, self._taken) if queue is not None else None
            if place is not None:
                self._take(place)
                return self._served(
                    asked, place, "nearest", why="served by position, not by prompt"
                )
        return None

    def give(self, event_id: str) -> Answer:
        """Give the reply of one recorded model call."""
        place = next(p.index for p in self._tape.prompts if p.model_call.event_id == event_id)
        self._take(place)
        return self._served(None, place, "exact")

    def explain(self, asked: AskedPrompt) -> str:
        """Say where a prompt that is not in the record parts from the one expected next."""
        queue = self._by_name.get(asked.name, self._free)
        place = queue.next(asked.path, self._taken)
        if place is None:
            used = len(self._taken)
            return f"the recording has {used} model calls, and all of them were used"
        recorded = self._tape.prompts[place].model_call
        if recorded.prompt is None:
            return (
                f"the prompt of model call {place + 1} was not kept, only its hash; it is another"
            )
        differences = jsontree.differences(recorded.prompt, asked.prompt)
        return f"prompt of model call {place + 1}: {describe_differences(differences)}"

    def consume(self, places: tuple[int, ...]) -> None:
        """Take replies that were given beneath a tool call which is served whole."""
        self._taken.update(places)

    def _recorded_keys(self, recorded: RecordedPrompt) -> Iterator[_Key]:
        model = recorded.model_call
        yield from self._keys(model.prompt, model.prompt_hash, model.name)
        if model.prompt is None and model.prompt_hash is not None:
            yield "", model.prompt_hash

    def _keys(self, prompt: JsonValue, prompt_hash: str | None, name: str) -> Iterator[_Key]:
        """Yield the keys under which a prompt stands.

        A hash of a chat says all that was asked, whatever the client is called. Anything else does
        not say of whom: two functions may be given the same arguments, so it counts within one name
        only. Where both sides have hashes, equal prompts have equal ones and digests add nothing.
        """
        chat = is_conversation(prompt)
        if prompt_hash is not None:
            yield "" if chat else name, prompt_hash
        needed = prompt_hash is None or not self._hashed
        if needed and (key := prompt_key(prompt)) is not None:
            yield name, key

    def _path(self, place: int) -> Path:
        return self._tape.prompts[place].model_call.path

    def _fresh(self, asked: AskedPrompt, key: _Key, rung: Rung) -> Answer | None:
        queue = self._queue(key, covered=False)
        place = queue.next(asked.path, self._taken)
        if place is None:
            return None
        if key in (self._bare_keys or {}).get(place, ()):  # which object it was, nobody knows
            left = [p for p in self._places[key] if p not in self._taken]
            ambiguous = self._replies_differ(left, place)
        else:
            elsewhere = self._path(place) != asked.path
            ambiguous = elsewhere and self._replies_differ(queue.heads(self._taken), place)
        self._take(place)
        return self._served(asked, place, rung, ambiguous=ambiguous)

    def _beneath(self, asked: AskedPrompt, key: _Key, rung: Rung) -> Answer | None:
        place = self._queue(key, covered=True).next(asked.path, self._taken)
        if place is None:
            return None
        self._take(place)
        return self._served(asked, place, rung, why="recorded beneath a tool call")

    def _again(self, asked: AskedPrompt, key: _Key, _: Rung) -> Answer | None:
        place = self._last.get(key)
        if place is None:
            return None
        return self._served(asked, place, "reused", why="asked more often than recorded")

    def _variants(self, prompt: JsonValue) -> list[JsonValue]:
        variants = list(self._aliases.variants(prompt))
        if self._learner is not None:
            both = (prompt, *variants)
            variants += [v for one in both for v in self._learner.aliases.variants(one)]
        return variants

    def _bare(self, asked: Sequence[JsonValue]) -> list[JsonValue]:
        """Give what was asked without the addresses of objects, which are others in each process.

        What is recorded is looked at for them once somebody asks with one.
        """
        bare = [b for prompt in asked if (b := value_without_addresses(prompt)) != prompt]
        if not bare or self._bare_keys is not None:
            return bare
        self._bare_keys = {}
        for recorded in self._tape.prompts:
            model = recorded.model_call
            plain = value_without_addresses(model.prompt)
            if plain == model.prompt:
                continue
            keys = tuple(self._keys(plain, _hash(plain), model.name))
            self._bare_keys[recorded.index] = keys
            for key in keys:
                self._places.setdefault(key, []).append(recorded.index)
            if recorded.index in self._taken:
                self._last |= dict.fromkeys(keys, recorded.index)
        return bare

    def _learnt(self, asked: AskedPrompt) -> Answer | None:
        """Find the prompt expected next, where only made values differ from it."""
        if self._learner is None:
            return None
        place = self._by_name.get(asked.name, self._free).next(asked.path, self._taken)
        recorded = None if place is None else self._tape.prompts[place].model_call.prompt
        if place is None or recorded is None or not self._learner.learn(recorded, asked.prompt):
            return None
        self._take(place)
        return self._served(asked, place, "normalised")

    def _queue(self, key: _Key, *, covered: bool) -> Queue:
        if (key, covered) not in self._queues:
            places = [
                place
                for place in self._places.get(key, ())
                if (self._tape.prompts[place].model_call.covered_by is not None) == covered
            ]
            self._queues[key, covered] = Queue(places, self._path)
        return self._queues[key, covered]

    def _replies_differ(self, places: Iterable[int], place: int) -> bool:
        mine = digest(self._reply(place).digest_form)
        return any(digest(self._reply(p).digest_form) != mine for p in places)

    def _reply(self, place: int) -> Observation:
        return self._tape.prompts[place].model_call.reply

    def _take(self, place: int) -> None:
        self._taken.add(place)
        bare = (self._bare_keys or {}).get(place, ())
        for key in (*self._recorded_keys(self._tape.prompts[place]), *bare):
            self._last[key] = place

    def _served(
        self,
        asked: AskedPrompt | None,
        place: int,
        rung: Rung,
        *,
        ambiguous: bool = False,
        why: str = "",
    ) -> Answer:
        recorded = self._tape.prompts[place].model_call
        where = f"model call {place + 1}"
        if not is_servable(recorded.reply):
            return Answer(
                rung="error",
                observation=None,
                tainted=True,
                recorded=recorded.event_id,
                explanation=f"{where}: its reply was not kept ({recorded.reply.state})",
            )
        models = _model(recorded.prompt), _model(asked.prompt if asked is not None else None)
        if rung in ("exact", "normalised") and None not in models and models[0] != models[1]:
            rung, why = "nearest", f"model: recorded {models[0]!r}, asked {models[1]!r}"
        if ambiguous:
            why = "equal prompts had different replies, and which one is meant is not known"
        return Answer(
            rung=rung,
            observation=recorded.reply,
            tainted=bool(why) or rung not in ("exact", "normalised"),
            ambiguous=ambiguous,
            recorded=recorded.event_id,
            explanation=f"{where}: {why}" if why else where,
            left=recorded.left,
        )


def _hash(prompt: JsonValue) -> str | None:
    return hash_prompt(prompt if isinstance(prompt, dict) else {"prompt": prompt}).prompt


def _model(prompt: JsonValue) -> str | None:
    name = prompt.get("model") if isinstance(prompt, dict) else None
    return name if isinstance(name, str) else None

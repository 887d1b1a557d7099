"""Long conversations with a model that only repeats: what the tests of prompts record."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tracekit
from tracekit import conditions
from tracekit.configuration import recording_to
from tracekit.journal import Journal
from tracekit.recorder import Recorder
from tracekit.redact import KeyedTagger, Redactor, Rules
from tracekit.store.places import journal_folder

TOOLS: list[dict[str, Any]] = [
    {"name": f"tool_{number}", "description": "what it does " * 8, "parameters": {"type": "object"}}
    for number in range(12)
]


@tracekit.llm(model="m-1")
def ask(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Answer the last message."""
    return {"role": "assistant", "content": f"You said: {messages[-1]['content'][:40]}"}


@contextmanager
def recorded(path: Path) -> Iterator[Recorder]:
    """Record into the journal of the store at ``path``."""
    journal = Journal(journal_folder(path))
    redactor = Redactor(Rules(), KeyedTagger(b"a key of the tests, and of nothing else"))
    try:
        with recording_to(Recorder(journal, redactor)) as recorder:
            yield recorder
    finally:
        journal.close()


def talk(turns: int, *, clock: bool = False) -> tuple[str, list[Any]]:
    """Have a conversation in a run of its own; give the run and the prompts in it.

    Args:
        turns: How many.
        clock: Whether the instructions say another time in each.
    """
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Answer briefly."}]
    said = []
    run_id = conditions.new_run_id()
    with tracekit.run(name="talk", run_id=run_id):
        for number in range(turns):
            if clock:
                messages[0] = {"role": "system", "content": f"It is {number}. Answer briefly."}
            question = f"What about service {number}? It wrote:\n" + f"line {number * 7919}\n" * 20
            messages.append({"role": "user", "content": question})
            said.append(copy.deepcopy({"messages": messages, "tools": TOOLS}))
            messages.append(ask(messages, TOOLS))
    return run_id, said


@tracekit.tool(effect="read")
def look_up(service: int) -> str:
    """Look a service up."""
    return f"service {service} is fine\n" * 12


@tracekit.agent
def long_talk(turns: int) -> str:
    """Work for so many turns: the model says what to look up, and sees what came of it."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Answer briefly."}]
    for number in range(turns):
        messages.append({"role": "user", "content": f"And service {number}? " + look_up(number)})
        messages.append(ask(messages, TOOLS))
    return str(messages[-1]["content"])

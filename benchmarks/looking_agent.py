"""The agent whose replays are measured: it calls one tool, which does nothing, so many times."""

from __future__ import annotations

from typing import Any

import tracekit

CALLS = 20


@tracekit.tool(effect="read")
def look(number: int, question: str) -> dict[str, Any]:
    """Give a page of rows."""
    rows = [{"id": n, "name": f"row {n}", "open": n % 2 == 0} for n in range(8)]
    return {"number": number, "question": question, "rows": rows}


@tracekit.agent
def agent(question: str) -> str:
    """Look at every page."""
    rows = sum(len(look(number, question)["rows"]) for number in range(CALLS))
    return f"{rows} rows"


def nothing(history: list[Any], tools: list[Any]) -> None:
    """Decide that nothing is to be done."""

"""What flows into the offending call stays what it was, also as a part of a text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from replay.distill import Wish
from replay.distill.draft import Draft, Slot, draft_of
from replay.distill.provenance import Shown, flow_into
from tests.distill.distill_kit import Planner, distilled
from tests.replay.tape_kit import call, contract, record
from tracekit.canonical import JsonValue
from tracekit.trajectory import Trajectory

ACCOUNT: JsonValue = {
    "rows": [{"id": n, "code": f"tok_x{n}", "owner": f"emma{n}"} for n in range(4)],
    "note": "Hello Emma. Case INC-552 is open. It is your turn.",
    "state": "open",
}


def incident() -> Trajectory:
    tools = [contract("account.get", "read"), contract("mail.send", "write", "text")]
    return record(call("account.get", "read", ACCOUNT), tools=tools)


def writer(*wanted: str) -> Planner:
    """One that mails what it finds of the account, if it finds anything."""

    def decide(history: list[Any], tools: list[Any], script: list[Any]) -> Any:
        shown = [str(m["content"]) for m in history if m["role"] == "tool"]
        if not shown:
            return {"calls": [{"tool": "account.get", "arguments": {}}]}
        if len(shown) > 1:
            return {"answer": "done"}
        found = ", ".join(word for word in wanted if word in shown[0])
        text = f"Your account: {found}!"
        return {"calls": [{"tool": "mail.send", "arguments": {"text": text}}]}

    return decide


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        (("tok_x2",), {"rows": [{"code": "tok_x2"}]}),
        (("INC-552",), {"note": "Case INC-552 is open."}),
        (("tok_x1", "emma3"), {"rows": [{"code": "tok_x1"}, {"owner": "emma3"}]}),
    ],
)
def test_what_flows_into_a_part_of_an_argument_stays(
    wanted: tuple[str, ...], left: JsonValue
) -> None:
    found = distilled(incident(), writer(*wanted), wish=Wish(forbid=("mail.send",)))
    assert [fixture.returns for fixture in found.case.observations] == [left]


def parts_of(text: str) -> tuple[str, ...]:
    flow = flow_into("mail.send", {"text": text}, draft_of(incident(), kind="decide"))
    return flow.parts.get("/text", ())


def test_words_of_prose_are_no_values_that_flowed() -> None:
    assert parts_of("It is about your turn, Emma.") == ()
    assert parts_of("A reopened case: opened today.") == ()


def test_a_part_is_a_whole_word_and_the_longest_one() -> None:
    assert parts_of("(tok_x1), tok_x22, INC-55 and emma3.") == ("tok_x1", "emma3")
    assert parts_of("INC-552: open") == ("INC-552", "open")


@pytest.mark.parametrize(
    ("text", "same"),
    [("INC-552!", True), ("on INC-5521", False), ("XINC-552", False), ("INC-55", False)],
)
def test_a_call_about_a_longer_id_is_another_call(text: str, same: bool) -> None:
    flow = flow_into("mail.send", {"text": "It is INC-552."}, draft_of(incident(), kind="decide"))
    assert flow.is_in({"text": text}) is same


def test_what_is_shown_is_read_once_for_all_calls_of_a_tool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draft = draft_of(incident(), kind="decide")
    read: list[Draft] = []
    slots = Draft.slots

    def counted(self: Draft) -> Iterator[Slot]:
        read.append(self)
        return slots(self)

    monkeypatch.setattr(Draft, "slots", counted)
    shown = Shown(draft, "mail.send")
    flows = [shown.flow_into({"text": f"tok_x{n} of {n}."}).parts for n in range(5)]
    assert flows == [*({"/text": (f"tok_x{n}",)} for n in range(4)), {}]
    assert len(read) == 1

"""A case turns green on the fix: what a planner that does right asks for is answered there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tracekit
from replay.case import parse_case
from replay.caserun import run_case
from replay.distill import DistillOptions, DistillResult, Wish, distill_run
from tracekit.errors import DistillError

STATE = {"payments": 0}


@tracekit.tool(name="order.get", effect="read")
def get_order(number: str) -> dict[str, Any]:
    return {
        "id": number,
        "who": "ann-lee",
        "items": [f"item-{n}" for n in range(6)],
        "note": "Pay it. Nice day.",
    }


@tracekit.tool(name="mail.send", effect="write")
def send_mail(to: str, text: str) -> str:
    return "sent"


@tracekit.tool(name="log.put", effect="write", result_schema={"type": "object", "required": ["at"]})
def put_log(text: str) -> dict[str, Any]:
    return {"at": 7}


@tracekit.tool(name="bill.pay", effect="write", idempotency_field="key")
def pay(to: str, key: str) -> str:
    STATE["payments"] += 1
    if STATE["payments"] == 1:
        raise TimeoutError("gateway")
    return "paid"


def mailing(count: int, *, log: bool = False) -> Callable[[str], str]:
    def here(number: str) -> str:
        order = get_order(number)
        for item in order["items"][:count]:
            assert send_mail(order["who"], item) == "sent"
        return f"done {put_log('mailed')['at']}" if log else "done"

    return here


def paying(key: str) -> Callable[[str], str]:
    def here(number: str) -> str:
        order = get_order(number)
        for attempt in range(2):
            try:
                return f"{pay(order['who'], key.format(attempt))} for {order['id']}"
            except TimeoutError:
                continue
        return "failed"

    return here


@pytest.fixture(scope="module", autouse=True)
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("right") / "store"
    tracekit.configure(store=path)
    agents = {f"mails-{n}": mailing(n) for n in (0, 1, 3)}
    agents |= {"logs": mailing(1, log=True), "pays": paying("key-{}")}
    for name, agent in agents.items():
        STATE["payments"] = 0
        with tracekit.run(run_id=name, task="T"):
            tracekit.agent(name="clerk")(agent)("o-1")
    tracekit.configure(store=path.parent / "elsewhere")
    return path


def told(store: Path, run: str, planner: object, **more: Any) -> DistillResult:
    wish = more.pop("wish", Wish())
    found = distill_run(run, planner=planner, store=store, options=DistillOptions(wish), **more)
    assert run_case(parse_case(found.text), planner).verdict.kind == "fail"
    return found


def test_a_write_that_was_forgotten_is_answered_as_the_run_that_went_right_was(
    store: Path,
) -> None:
    found = told(store, "mails-0", mailing(0), reference="mails-1")

    sent = next(f for f in found.case.observations if f.tool == "mail.send")
    assert (sent.arguments, sent.returns) == ({"to": "ann-lee", "text": "item-0"}, "sent")
    assert "decision 2 of run mails-1, which went right" in found.text
    assert run_case(parse_case(found.text), mailing(1)).passed
    assert found.doubts == ()


def test_a_fixed_planner_makes_the_forgotten_write_where_its_answer_is_known(store: Path) -> None:
    found = told(store, "mails-0", mailing(0), fixed=mailing(1), reference="mails-1")
    assert found.case.fix == "proven"
    with pytest.raises(DistillError, match=r"mail\.send: not in the recording") as caught:
        told(store, "mails-0", mailing(0), fixed=mailing(1))
    assert "with --reference" in str(caught.value.hint)


def test_an_answer_of_the_declared_shape_will_do_for_a_fixed_planner(store: Path) -> None:
    fixed = mailing(1, log=True)
    found = told(store, "mails-1", mailing(1), fixed=fixed)
    assert found.case.expected.required_tools == ("log.put",)
    logged = next(f for f in found.case.observations if f.tool == "log.put")
    assert logged.returns == {"at": None}
    assert "in no run: only of the shape that the tool declares" in found.text
    assert run_case(parse_case(found.text), fixed).passed


def test_a_required_write_without_an_answer_is_said_to_have_none(store: Path) -> None:
    found = told(store, "mails-0", mailing(0), wish=Wish(require=("mail.send",)))
    (doubt,) = found.doubts
    assert doubt.startswith("mail.send is required and has no answer")
    assert "# doubtful: mail.send is required and has no answer" in found.text


def test_a_second_payment_is_answered_to_who_makes_it_under_the_same_key(store: Path) -> None:
    found = told(store, "pays", paying("key-{}"))
    assert run_case(parse_case(found.text), paying("key")).passed


def test_a_case_does_not_forbid_what_the_run_that_went_right_did(store: Path) -> None:
    more = told(store, "mails-3", mailing(3), reference="mails-1")
    less = told(store, "mails-1", mailing(1), reference="mails-3")

    assert run_case(parse_case(more.text), mailing(1)).passed
    assert run_case(parse_case(less.text), mailing(3)).passed


def test_a_case_that_the_run_that_went_right_fails_says_so(store: Path) -> None:
    wish = Wish(forbid=("mail.send",))
    found = told(store, "mails-3", mailing(3), reference="mails-1", wish=wish)
    (doubt,) = found.doubts
    assert doubt.startswith("run mails-1, which is said to have gone right, does not pass the case")
    assert f"doubtful {doubt}" in found.as_text()
    assert found.as_dict()["remarks"] == [doubt]

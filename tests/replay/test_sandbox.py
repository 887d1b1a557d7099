"""What a user lets run in a replay: simulations, live reads, sandboxed writes; and nothing else."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

import tracekit
from fixtures.agents import desk
from replay import ReplayOptions, ReplayResult, replay_run
from replay.isolation import Gaps, kernel_available
from replay.matching import Policies
from replay.repeats import repeat_run, summarise_repeats
from replay.replayer import Replayer
from replay.workers import Bindings
from tracekit.errors import PlannerNotFound, UsageError
from tracekit.store import open_store

RUN = "desk-run"
CODE = '''
import json
import os
import urllib.request
from pathlib import Path

import tracekit
from fixtures.agents import desk


@tracekit.agent
def pays_more(order):
    desk.get_order(order)
    try:
        paid = desk.refund(order, 4200)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return paid


@tracekit.agent
def pays_as_recorded(order):
    before = desk.get_order(order)
    desk.search("refund policy")
    paid = desk.refund(order, 42)
    after = desk.get_order(order, "status")
    return [paid, after]


@tracekit.agent
def pays_twice(order):
    return [desk.refund(order, 7), desk.refund(order, 7)]


@tracekit.tool(effect="write", idempotency_field="key")
def charge(order, key):
    raise AssertionError("a write ran")


@tracekit.agent
def charges_again(order):
    return [charge(order, key) for key in ("k1", "k1", "k2", "", "")]


def charged(order, key, idempotency_key):
    return [key, idempotency_key]


@tracekit.agent
def asks_elsewhere(order):
    try:
        return rates("EUR")
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def asks_for_a_secret(history, tools):
    if len(history) > 1:
        return {"answer": "done"}
    return {"tool": "search", "arguments": {"query": "mail to someone.real@corp-mail.com"}}


def decides(history, tools):
    if len(history) > 1:
        return {"answer": history[-1]["content"]}
    return {"tool": "search", "arguments": {"query": "something else"}}


@tracekit.tool(effect="read")
def rates(currency):
    """Look a rate up, over the network."""
    with urllib.request.urlopen(os.environ["RATES_URL"]) as response:
        return json.load(response)[currency]


@tracekit.tool(effect="write")
def sends(order):
    return "sent"


def simulated(query):
    return [f"simulated {query}"]


def simulated_reaching_out(query):
    return rates("EUR")


def sandboxed(order, amount, reason="", idempotency_key=None):
    ledger = Path(os.environ["SANDBOX"]) / "ledger"
    with ledger.open("a") as file:
        file.write(f"{order} {amount} {idempotency_key}\\n")
    return {"refunded": amount}


def echoes(order, amount, reason="", idempotency_key=None):
    return {"key": idempotency_key}


def failing(order, amount, reason=""):
    raise TimeoutError("the sandbox is slow")


def dies(order, amount, reason=""):
    os._exit(3)


def with_tools(order, amount, reason=""):
    return desk.notify("customer")


def limits(tool, arguments, tenant, approved):
    if arguments["amount"] > 1000 and tenant != "bank":
        return {"decision": "deny", "rule": "limit", "reason": "more than 1000"}
    if arguments["amount"] > 10:
        return {"decision": "ask", "rule": "second pair of eyes"}


def broken(**facts):
    raise KeyError("tenant")
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("sandboxes")
    (made / "sandboxes.py").write_text(CODE, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DESK_LEDGER", str(made / "production"))
        tracekit.configure(store=made / "store")
        with tracekit.run(run_id=RUN):
            desk.desk("A-1")
        tracekit.configure(store=made / "elsewhere")
    return made


@pytest.fixture
def sandbox(folder: Path, tmp_path: Path) -> Iterator[Path]:
    """A folder for the sandbox's own ledger; what production wrote must stay as it was."""
    before = (folder / "production").read_text()
    yield tmp_path
    assert (folder / "production").read_text() == before


def replay(
    folder: Path,
    planner: str,
    bindings: Bindings,
    policies: Policies | None = None,
    **options: Any,
) -> ReplayResult:
    chosen = ReplayOptions(
        isolation="process",
        path=(str(folder),),
        bindings=bindings,
        policies=policies or Policies(),
        **options,
    )
    named = f"sandboxes:{planner}"
    return replay_run(RUN, planner=named, store=folder / "store", options=chosen)


def answer_of(result: ReplayResult) -> Any:
    assert result.trajectory is not None
    return result.trajectory.answer.value


def in_sandbox(sandbox: Path, function: str = "sandboxed", **more: Any) -> Bindings:
    return Bindings(
        functions={"sandbox": {"refund": f"sandboxes:{function}"}},
        gaps={"sandbox": Gaps(folders=(str(sandbox),))},
        environment={"SANDBOX": str(sandbox)},
        **more,
    )


# --- sandboxes ------------------------------------------------------------------------------------


def test_a_write_that_is_not_recorded_is_made_in_its_sandbox_under_a_new_key(
    folder: Path, sandbox: Path
) -> None:
    first = replay(folder, "pays_more", in_sandbox(sandbox))
    second = replay(folder, "pays_more", in_sandbox(sandbox))

    assert answer_of(first) == {"refunded": 4200}
    assert [step.answer.rung for step in first.answered] == ["exact", "sandbox"]
    assert first.shares == {"exact": 1, "sandbox": 1}
    assert first.verdict.kind == "inconclusive"
    assert first.findings == ()
    lines = (sandbox / "ledger").read_text().splitlines()
    assert [line.rpartition(" ")[0] for line in lines] == ["A-1 4200"] * 2
    keys = {line.rpartition(" ")[2] for line in lines}
    assert len(keys) == 2
    assert all(key.startswith("replay-") for key in keys)
    assert second.run_id != first.run_id


def test_equal_writes_of_one_replay_get_keys_of_their_own(folder: Path, sandbox: Path) -> None:
    replay(folder, "pays_twice", in_sandbox(sandbox))
    lines = (sandbox / "ledger").read_text().splitlines()
    assert len(lines) == len(set(lines)) == 2


def test_another_attempt_of_a_write_keeps_its_new_key(folder: Path, sandbox: Path) -> None:
    bindings = Bindings(functions={"sandbox": {"charge": "sandboxes:charged"}})
    first, again, *others = answer_of(replay(folder, "charges_again", bindings))
    assert first == again
    assert len({given[0] for given in (first, *others)}) == 4
    assert all(given[0] == given[1] not in ("", "k1", "k2") for given in (first, *others))


def test_what_was_made_is_written_into_the_replay(folder: Path, sandbox: Path) -> None:
    result = replay(folder, "pays_more", in_sandbox(sandbox))

    rows = open_store(folder / "store").events(result.run_id)
    audits = [row for row in rows if row.event_type == "policy"]
    assert [row.policy_decision for row in audits] == ["allow"]
    told = json.loads(str(audits[0].attributes))
    assert told["audit"] == "sandbox write"
    assert told["sandbox"] == "sandboxes:sandboxed"
    assert str(told["key"]) in (sandbox / "ledger").read_text()


def test_a_recorded_write_is_answered_from_the_record_unless_it_is_to_be_exercised(
    folder: Path, sandbox: Path
) -> None:
    served = replay(folder, "pays_as_recorded", in_sandbox(sandbox))
    assert [step.answer.rung for step in served.answered] == ["exact"] * 4
    assert not (sandbox / "ledger").exists()

    made = replay(folder, "pays_as_recorded", in_sandbox(sandbox), Policies(exercise=True))
    assert [step.answer.rung for step in made.answered] == ["exact", "exact", "sandbox", "exact"]
    assert (sandbox / "ledger").read_text().count("\n") == 1


def test_a_sandbox_that_fails_fails_the_call_as_its_own_class(folder: Path, sandbox: Path) -> None:
    result = replay(folder, "pays_more", in_sandbox(sandbox, "failing"))
    assert answer_of(result) == "TimeoutError: the sandbox is slow"


def test_a_sandbox_whose_process_dies_ends_neither_planner_nor_replay(
    folder: Path, sandbox: Path
) -> None:
    result = replay(folder, "pays_twice", in_sandbox(sandbox, "dies"))
    assert [step.answer.rung for step in result.answered] == ["sandbox"]
    assert "ended" in str(result.answered[0].answer.observation)


def test_tools_beneath_a_sandbox_do_not_run(folder: Path, sandbox: Path) -> None:
    result = replay(folder, "pays_more", in_sandbox(sandbox, "with_tools"))
    assert "only tools that you listed run" in answer_of(result)


def test_a_sandbox_may_write_only_where_it_was_let(folder: Path, sandbox: Path) -> None:
    bindings = Bindings(
        functions={"sandbox": {"refund": "sandboxes:sandboxed"}},
        environment={"SANDBOX": str(sandbox)},
    )
    result = replay(folder, "pays_more", bindings)
    assert answer_of(result).startswith("Refused:") or "PermissionError" in answer_of(result)
    assert "its walls refused file:" in result.answered[1].answer.explanation
    assert not (sandbox / "ledger").exists()


# --- the guard ------------------------------------------------------------------------------------


def test_the_guard_of_production_refuses_in_a_sandbox_too(folder: Path, sandbox: Path) -> None:
    result = replay(folder, "pays_more", in_sandbox(sandbox, guard="sandboxes:limits"))

    assert answer_of(result) == "CallRefused: refund was refused by limit: more than 1000"
    assert not (sandbox / "ledger").exists()
    assert result.trajectory is not None
    call = result.trajectory.calls[1]
    assert (call.policy_decision, call.policy_id, call.policy_reason) == (
        "deny",
        "limit",
        "more than 1000",
    )


def test_an_approval_of_the_record_serves_the_equal_write_only(folder: Path, sandbox: Path) -> None:
    guarded = in_sandbox(sandbox, guard="sandboxes:limits")
    approved = replay(folder, "pays_as_recorded", guarded, Policies(exercise=True))
    assert answer_of(approved)[0] == {"refunded": 42}

    code = "sandboxes:refund_43"
    (folder / "sandboxes.py").write_text(
        CODE + "\n\n@tracekit.agent\ndef refund_43(order):\n    desk.refund(order, 43)\n", "utf-8"
    )
    other = replay(folder, code.partition(":")[2], guarded, Policies(exercise=True))
    assert "needs an approval" in other.answered[0].answer.explanation
    assert (sandbox / "ledger").read_text().count("\n") == 1


def test_a_guard_that_fails_lets_nothing_through(folder: Path, sandbox: Path) -> None:
    result = replay(folder, "pays_more", in_sandbox(sandbox, guard="sandboxes:broken"))
    assert "the guard raised KeyError" in answer_of(result)
    assert not (sandbox / "ledger").exists()


# --- simulations ----------------------------------------------------------------------------------


def test_a_simulation_answers_planners_of_both_kinds(folder: Path) -> None:
    bindings = Bindings(functions={"simulate": {"search": "sandboxes:simulated"}})
    result = replay(folder, "decides", bindings)
    assert answer_of(result) == ["simulated something else"]
    assert [step.answer.rung for step in result.answered] == ["simulate"]
    assert result.verdict.kind == "inconclusive"


def test_a_simulation_reaches_no_network(folder: Path, rates: Rates) -> None:
    bindings = Bindings(
        functions={"simulate": {"*": "sandboxes:simulated_reaching_out"}},
        environment={"RATES_URL": rates.url},
    )
    result = replay(folder, "decides", bindings)
    assert "only tools that you listed run" in str(result.answered[0].answer.observation)
    assert rates.asked == 0


# --- live reads -----------------------------------------------------------------------------------


class Rates:
    """A service on loopback that counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        rates = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                rates.asked += 1
                body = json.dumps({"EUR": 1.25}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # of the base class
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_port}"
        self.url = f"http://{self.host}/rates"


@pytest.fixture
def rates() -> Iterator[Rates]:
    made = Rates()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def live(rates: Rates, *hosts: str, where: str = "", tool: str = "rates") -> Bindings:
    return Bindings(
        functions={"live": {tool: where}},
        gaps={"live": Gaps(hosts=hosts)},
        environment={"RATES_URL": rates.url},
    )


@pytest.mark.parametrize("isolation", ["process", "kernel"])
@pytest.mark.parametrize("where", ["", "sandboxes:rates"])
def test_a_listed_read_is_made_beside_the_planner(
    folder: Path, rates: Rates, isolation: Any, where: str
) -> None:
    if isolation == "kernel" and not kernel_available()[0]:
        pytest.skip(kernel_available()[1])
    options = ReplayOptions(
        isolation=isolation, path=(str(folder),), bindings=live(rates, rates.host, where=where)
    )
    result = replay_run(
        RUN, planner="sandboxes:asks_elsewhere", store=folder / "store", options=options
    )
    assert (answer_of(result), rates.asked) == (1.25, 1)
    assert [step.answer.rung for step in result.answered] == ["live"]
    assert result.verdict.kind == "inconclusive"


@pytest.mark.parametrize("isolation", ["process", "kernel"])
def test_a_host_may_be_listed_by_its_name(folder: Path, rates: Rates, isolation: Any) -> None:
    if isolation == "kernel" and not kernel_available()[0]:
        pytest.skip(kernel_available()[1])
    named = rates.host.replace("127.0.0.1", "localhost")
    bindings = Bindings(
        functions={"live": {"rates": ""}},
        gaps={"live": Gaps(hosts=(named,))},
        environment={"RATES_URL": f"http://{named}/rates"},
    )
    options = ReplayOptions(isolation=isolation, path=(str(folder),), bindings=bindings)
    result = replay_run(
        RUN, planner="sandboxes:asks_elsewhere", store=folder / "store", options=options
    )
    assert (answer_of(result), rates.asked) == (1.25, 1)


def test_a_read_that_was_not_listed_is_not_made(folder: Path, rates: Rates) -> None:
    result = replay(folder, "asks_elsewhere", Bindings())
    assert "not in the recording" in answer_of(result)
    assert rates.asked == 0


def test_a_listed_read_reaches_no_host_that_was_not(folder: Path, rates: Rates) -> None:
    result = replay(folder, "asks_elsewhere", live(rates))
    assert rates.asked == 0
    assert "its walls refused network:" in result.answered[0].answer.explanation


def test_a_write_is_never_live(folder: Path, rates: Rates) -> None:
    bindings = live(rates, rates.host, where="sandboxes:sends", tool="rates")
    with pytest.raises(UsageError, match="--live rates: its effect is write"):
        replay(folder, "asks_elsewhere", bindings)
    undeclared = live(rates, tool="refund", where="sandboxes:simulated")
    with pytest.raises(UsageError, match="policy live for refund: it is a write in this recording"):
        replay(folder, "pays_more", undeclared)


def test_a_sandbox_that_hands_its_new_key_back_is_named_where_repeats_differ(
    folder: Path, sandbox: Path
) -> None:
    options = ReplayOptions(
        isolation="process", path=(str(folder),), bindings=in_sandbox(sandbox, "echoes")
    )
    result = repeat_run(
        RUN, planner="sandboxes:pays_more", times=2, store=folder / "store", options=options
    )
    assert result.varies is not None
    assert result.varies.let_run == "sandbox"
    told = summarise_repeats(result)
    assert "because what you let run varies: step 2 refund (sandbox) came back with /key: " in told
    assert "the planner varies" not in told


# --- how it runs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("listed", [True, False])
def test_what_a_sandbox_writes_beneath_the_working_folder_arrives_or_is_refused_by_name(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, listed: bool
) -> None:
    if not kernel_available()[0]:
        pytest.skip(kernel_available()[1])
    monkeypatch.chdir(tmp_path)
    sandbox = tmp_path / "sandbox"
    sandbox.mkdir()
    bindings = in_sandbox(sandbox)
    if not listed:
        bindings = replace(bindings, gaps={})
    options = ReplayOptions(isolation="kernel", path=(str(folder),), bindings=bindings)
    result = replay_run(RUN, planner="sandboxes:pays_more", store=folder / "store", options=options)
    said = result.answered[-1].answer.explanation
    assert (sandbox / "ledger").exists() is listed
    assert (f"its walls refused file: {sandbox / 'ledger'}" in said) is not listed


def test_a_sandbox_is_confined_by_the_kernel_too(folder: Path, sandbox: Path) -> None:
    if not kernel_available()[0]:
        pytest.skip(kernel_available()[1])
    options = ReplayOptions(isolation="kernel", path=(str(folder),), bindings=in_sandbox(sandbox))
    result = replay_run(RUN, planner="sandboxes:pays_more", store=folder / "store", options=options)
    assert answer_of(result) == {"refunded": 4200}
    assert (sandbox / "ledger").read_text().startswith("A-1 4200 replay-")


def test_a_closure_in_this_process_is_answered_by_a_simulation_in_another(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_LEDGER", str(folder / "production"))
    options = ReplayOptions(
        path=(str(folder),),
        bindings=Bindings(functions={"simulate": {"search": "sandboxes:simulated"}}),
    )

    def planner(order: str) -> list[str]:
        return desk.search("anything")

    result = replay_run(RUN, planner=planner, store=folder / "store", options=options)
    assert (answer_of(result), result.level) == (["simulated anything"], "process")


def test_one_worker_serves_one_replay_after_the_other(folder: Path, sandbox: Path) -> None:
    options = ReplayOptions(
        isolation="process", path=(str(folder),), bindings=in_sandbox(sandbox, "dies")
    )
    recorded = open_store(folder / "store").trajectory(RUN)
    with Replayer("sandboxes:pays_more", options) as replayer:
        for _ in range(2):
            assert [s.answer.rung for s in replayer.replay(recorded).answered][-1] == "sandbox"


def test_a_call_that_could_not_be_made_counts_as_not_in_the_recording(folder: Path) -> None:
    bindings = Bindings(functions={"simulate": {"refund": "sandboxes:simulated"}})
    result = replay(folder, "decides", bindings, Policies(unmatched={"*": "simulate"}))
    assert result.shares == {"error": 1}
    assert "no function is bound" in result.answered[0].answer.explanation


def test_arguments_that_redaction_cut_are_sent_nowhere(folder: Path) -> None:
    bindings = Bindings(functions={"simulate": {"search": "sandboxes:simulated"}})
    result = replay(folder, "asks_for_a_secret", bindings)
    assert result.shares == {"error": 1}
    assert "what redaction took out" in result.answered[0].answer.explanation


# --- misuse ---------------------------------------------------------------------------------------


def test_a_function_that_is_not_there_is_told_before_the_planner_is_imported(folder: Path) -> None:
    bindings = Bindings(functions={"simulate": {"search": "sandboxes:nothing"}})
    with pytest.raises(PlannerNotFound, match="has no 'nothing'"):
        replay(folder, "no_such_planner", bindings)
    missing = Bindings(functions={"live": {"no_tool": ""}})
    with pytest.raises(PlannerNotFound, match="no_tool=MOD:OBJ"):
        replay(folder, "pays_more", missing)


@pytest.mark.parametrize(
    "options",
    [
        {"bindings": Bindings(guard="sandboxes:limits")},
        {"policies": Policies(exercise=True)},
        {"bindings": Bindings(functions={"live": {"rates": ""}}), "mode": "locked"},
    ],
)
def test_what_would_have_no_effect_is_misuse(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ReplayOptions(**options)


def test_a_policy_without_a_function_is_misuse(folder: Path) -> None:
    with pytest.raises(UsageError, match="--simulate TOOL=MOD:OBJ"):
        replay(folder, "pays_more", Bindings(), Policies(unmatched={"*": "simulate"}))

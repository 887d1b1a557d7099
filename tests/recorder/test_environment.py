"""What an operator says by ``TRACEKIT_*`` variables, and the switch that turns recording off."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tracekit
from tests.recorder.record_kit import redactor
from tracekit import conditions, configuration, guard
from tracekit.configuration import recording_to
from tracekit.contract import Contract
from tracekit.errors import UsageError
from tracekit.journal_reading import read_journal
from tracekit.limits import Limits
from tracekit.recorder import Recorder
from tracekit.sampling import KEEP_ALL, Sampling
from tracekit.settings import VARIABLES, Said, read_environment
from tracekit.sink import MemorySink
from tracekit.store import open_store

ROOT = Path(__file__).parents[2]
done: list[str] = []


@tracekit.tool(effect="read")
def look(**given: str) -> dict[str, str]:
    return given


@tracekit.tool(effect="write")
def pay(to: str) -> str:
    done.append(to)
    return "paid"


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    done.clear()
    monkeypatch.chdir(tmp_path)
    for name in ("_recorder", "_settings", "_unusable"):
        monkeypatch.setattr(configuration, name, None)
    for name, value in (("_on_loss", "record"), ("_untried", {}), ("_told", set())):
        monkeypatch.setattr(configuration, name, value)
    for name in ("off", "_switched_off"):
        monkeypatch.setattr(configuration, name, False)
    yield
    if configuration._recorder is not None:
        configuration._recorder.sink.close()
    conditions.set_mint_observer(None)


def settings() -> dict[str, Any]:
    assert configuration._settings is not None
    return configuration._settings


def test_all_that_configure_takes_can_be_said_by_variables(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in {
        "STORE": str(tmp_path / "elsewhere"),
        "SERVICE": "desk",
        "VERSIONS": "prompt=v2, code=abc",
        "REDACT": "nickname, $.card.number\nre:B-\\d{1,3}",
        "DURABILITY": "disk",
        "ON_LOSS": "refuse_writes",
        "LIMIT_VALUE_BYTES": "4096",
        "LIMIT_STORE_BYTES": "2 GiB",
        "SAMPLE_RATE": "0.1",
        "KEEP_IF": "error, slow>30s",
        "OTLP": "false",
        "OTLP_CONTENT": "false",
        "SPANS": "false",
        "DISABLED": "false",
    }.items():
        monkeypatch.setenv(f"TRACEKIT_{name}", value)
    tracekit.configure()
    assert settings() == {
        "store": tmp_path / "elsewhere",
        "service": "desk",
        "versions": {"prompt": "v2", "code": "abc"},
        "redact": ["nickname", "$.card.number", re.compile(r"B-\d{1,3}")],
        "durability": "disk",
        "on_loss": "refuse_writes",
        "limits": Limits(value_bytes=4096, store_bytes=2 << 30),
        "sample": Sampling(rate=0.1, keep_if=("error", "slow>30s")),
        "otlp": False,
        "otlp_content": False,
        "spans": False,
        "enabled": True,
    }
    with tracekit.run(run_id="r"):
        look(nickname="Bibi", order="B-17 is open")
    store = open_store(tmp_path / "elsewhere")
    text = "".join(b.data.decode() for b in store.blobs(
        [row.argument_blob or "" for row in store.events("r")]
    ).values())  # fmt: skip
    assert "Bibi" not in text
    assert "B-17" not in text
    assert '"prompt":"v2"' in store.events("r")[0].attributes
    assert configuration.recorder().sink.path.is_file()  # type: ignore[attr-defined]  # a journal
    (header,) = [
        read_journal(path).sampling for path in (tmp_path / "elsewhere/journal").glob("*.jsonl")
    ]
    assert header == Sampling(rate=0.1, keep_if=("error", "slow>30s"))


def test_code_wins_over_the_environment_and_that_over_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRACEKIT_STORE", "environment")
    monkeypatch.setenv("TRACEKIT_DURABILITY", "disk")
    monkeypatch.setenv("TRACEKIT_VERSIONS", "prompt=environment,code=abc")
    monkeypatch.setenv("TRACEKIT_REDACT", "nickname")
    tracekit.configure(store="code", redact=["alias"], versions={"prompt": "code"})
    assert settings()["store"] == tmp_path / "code"
    assert settings()["durability"] == "disk"
    assert settings()["service"] == "agent"
    assert settings()["versions"] == {"prompt": "code", "code": "abc"}
    assert settings()["redact"] == ["alias", "nickname"], "rules are added, never removed"
    tracekit.configure(durability="os")
    assert settings()["durability"] == "os"
    assert (settings()["limits"], settings()["sample"]) == (Limits(), KEEP_ALL)


def test_the_service_of_opentelemetry_is_taken_where_there_is_none_of_ours() -> None:
    assert read_environment({"OTEL_SERVICE_NAME": "otel"}).given == {"service": "otel"}
    both = {"OTEL_SERVICE_NAME": "otel", "TRACEKIT_SERVICE": "ours"}
    assert read_environment(both).given == {"service": "ours"}


def test_an_empty_variable_counts_as_not_set() -> None:
    assert read_environment(dict.fromkeys(VARIABLES, " ")) == Said()


@pytest.mark.parametrize(
    ("said", "value"),
    [
        ("http://collector:4318", "http://collector:4318"),
        ("grpc://collector:4317", "grpc://collector:4317"),
        ("TRUE", True),
    ],
)
def test_where_spans_go_is_an_endpoint_or_a_switch(said: str, value: object) -> None:
    assert read_environment({"TRACEKIT_OTLP": said}).given == {"otlp": value}


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("TRACEKIT_STOER", "x", "is no variable of tracekit: did you mean TRACEKIT_STORE?"),
        ("TRACEKIT_FROB", "x", "is no variable of tracekit: docs/operations.md lists"),
        ("TRACEKIT_DURABILITY", "dsik", "'dsik' is not known (write os or disk)"),
        ("TRACEKIT_ON_LOSS", "refuse", "'refuse' is not known (write record or refuse_writes)"),
        ("TRACEKIT_DISABLED", "maybe", "'maybe' is neither true nor false (write true or false)"),
        ("TRACEKIT_SPANS", "2", "'2' is neither true nor false"),
        ("TRACEKIT_LIMIT_RUN_BYTES", "lots", "'lots' is no size"),
        ("TRACEKIT_LIMIT_RUN_BYTES", "-1", "'-1' is no size"),
        ("TRACEKIT_SAMPLE_RATE", "10%", "'10%' is no share"),
        ("TRACEKIT_SAMPLE_RATE", "1.5", "rate=1.5 is no share"),
        ("TRACEKIT_SAMPLE_RATE", "nan", "rate=nan is no share"),
        ("TRACEKIT_KEEP_IF", "eror", "'eror' is no condition to keep a run by"),
        ("TRACEKIT_OTLP", "collector:4318", "'collector:4318' is no endpoint"),
        ("TRACEKIT_VERSIONS", "v2", "'v2' is no version (write prompt=v2,code=abc)"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_said_once_and_breaks_nothing(
    name: str,
    value: str,
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv(name, value)
    for _ in range(2):
        tracekit.configure(store=tmp_path / "s")
    with tracekit.run(run_id="r"):
        assert pay("ann") == "paid"
    (said,) = [record.getMessage() for record in caplog.records]
    assert told in said
    assert caplog.records[0].levelno == logging.ERROR
    assert len(open_store(tmp_path / "s").events("r")) == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TRACEKIT_REDACT", "re:("),
        ("TRACEKIT_REDACT", "name, re:"),
        ("TRACEKIT_REDACT", "$.card["),
        ("TRACEKIT_REDCT", "nickname"),
        ("TRACEKIT_REDACT_FIELDS", "nickname"),
        ("TRACEKIT_REDACTION_KYE", "0123456789abcdef0123456789abcdef"),
    ],
)
def test_where_a_rule_of_redaction_is_not_understood_nothing_is_recorded(
    name: str,
    value: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv(name, value)
    tracekit.configure(store=tmp_path / "s")
    with tracekit.run(run_id="r"):
        assert pay("ann") == "paid"
    assert not (tmp_path / "s").exists()
    assert any(name in record.getMessage() for record in caplog.records)
    assert any("othing is recorded" in record.getMessage() for record in caplog.records)
    monkeypatch.delenv(name)
    tracekit.configure(store=tmp_path / "s")
    with tracekit.run(run_id="r"):
        pay("ann")
    assert len(open_store(tmp_path / "s").events("r")) == 2


def test_an_audited_system_makes_no_write_while_a_rule_is_not_understood(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRACEKIT_REDACT", "re:(")
    tracekit.configure(store=tmp_path / "s", on_loss="refuse_writes")
    with pytest.raises(tracekit.TracekitError, match="pay was refused by on_loss"):
        pay("ann")
    assert done == []


def test_a_rule_that_code_gives_wrong_is_an_error_where_it_is_written() -> None:
    with pytest.raises(UsageError):
        tracekit.configure(redact=["$.card["])


def test_a_pattern_goes_to_the_end_of_its_line() -> None:
    said = read_environment({"TRACEKIT_REDACT": "a,, b\n\nre: x{1,2},y \n$.c"})
    assert said.given["redact"] == ["a", "b", re.compile("x{1,2},y"), "$.c"]


AGENT = """
import tracekit

@tracekit.tool(effect="read")
def weather(city):
    return {"city": city, "sun": True}

@tracekit.agent
def trip(request):
    return weather("Nottingham")["city"]

if __name__ == "__main__":
    with tracekit.run(run_id="r"):
        trip("Where to?")
"""


def test_a_replay_redacts_as_the_variable_says(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)

    def call(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *args],
            env={**os.environ, "TRACEKIT_REDACT": "city\nre:Notting\\w+", "PYTHONPATH": str(ROOT)},
            cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    assert call("agent.py").returncode == 0
    replayed = call("-m", "tracekit", "replay", "--run-id", "r", "--planner", "agent:trip")
    assert (replayed.returncode, replayed.stderr) == (0, "")
    store = open_store(tmp_path / ".tracekit")
    assert len(store.runs()) == 2
    found = store.sql("SELECT count(*) FROM payloads WHERE text LIKE '%Notting%'")
    assert found.rows == ((0,),)
    for row in store.runs():
        assert len([e for e in store.events(row.run_id) if e.event_type == "tool_call"]) == 1


@pytest.mark.parametrize("name", ["TRACEKIT_DATA", "TRACEKIT_REDIRECT", "TRACEKIT_REPLAY"])
def test_a_name_of_something_else_stops_nothing(name: str) -> None:
    (fault,) = read_environment({name: "x"}).faults
    assert not fault.stops


CHILDREN = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor
import tracekit

@tracekit.tool(effect="read")
def look(n):
    return n

@tracekit.agent
def work():
    for kind in ("fork", "spawn"):
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(kind)) as pool:
            pool.submit(look, 1).result()

if __name__ == "__main__":
    tracekit.configure(store="s", sample=tracekit.Sampling(rate=0.5, keep_if=("error",)))
    work()
"""


def test_child_processes_sample_as_their_parent_does(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(CHILDREN)
    told = subprocess.run(
        [sys.executable, "program.py"],
        env={**os.environ, "TRACEKIT_KEEP_IF": "write", "PYTHONPATH": str(ROOT)},
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert told.stderr == ""
    said = [read_journal(path).sampling for path in (tmp_path / "s/journal").glob("*.jsonl")]
    assert said == [Sampling(rate=0.5, keep_if=("error",))] * 3


def test_spans_that_cannot_be_sent_out_break_nothing_where_a_variable_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    def missing(*_: Any, **__: Any) -> None:
        raise ImportError("no exporter here")

    monkeypatch.setattr("tracekit.otel.export_to", missing)
    monkeypatch.setenv("TRACEKIT_OTLP", "http://127.0.0.1:9")
    tracekit.configure(store=tmp_path / "s")
    with tracekit.run(run_id="r"):
        pay("ann")
    assert len(open_store(tmp_path / "s").events("r")) == 2
    assert [record.getMessage() for record in caplog.records] == [
        "tracekit: TRACEKIT_OTLP has no effect: ImportError: no exporter here"
    ]
    with pytest.raises(ImportError):
        tracekit.configure(store=tmp_path / "s", otlp="http://127.0.0.1:9")


# --- the switch -----------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["True", "1", "on", "code"])
def test_while_it_is_off_nothing_is_recorded_and_nothing_is_made(
    by: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("TRACEKIT_REDACTION_KEY")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    if by != "code":
        monkeypatch.setenv("TRACEKIT_DISABLED", by)
        tracekit.configure(enabled=True, store=tmp_path / "s")
    else:
        tracekit.configure(enabled=False, store=tmp_path / "s")
    assert (configuration.off, configuration.enabled()) == (True, False)
    with tracekit.run(run_id="r") as opened:
        assert look(a="b") == {"a": "b"}
        assert pay("ann") == "paid"
        tracekit.evidence("e")
        tracekit.policy("allow")
        tracekit.state({}, {"a": 1})
        assert tracekit.environment() == {}
        assert conditions.now() is not None
    assert opened.run_id == ""
    assert list(tmp_path.iterdir()) == []
    assert caplog.records == []


def test_it_can_be_switched_on_and_off_in_a_process(tmp_path: Path) -> None:
    for number, enabled in enumerate((True, False, True)):
        tracekit.configure(store=tmp_path / "s", enabled=enabled)
        with tracekit.run(run_id=f"r{number}"):
            pay("ann")
    assert {row.run_id for row in open_store(tmp_path / "s").runs()} == {"r0", "r2"}


PROGRAM = """
import multiprocessing, sys
import tracekit
from tracekit import configuration

@tracekit.tool(effect="read")
def look():
    return configuration.off

if __name__ == "__main__":
    print(look())
    for kind in ("fork", "spawn"):
        with multiprocessing.get_context(kind).Pool(1) as pool:
            print(pool.apply(look))
"""


def test_child_processes_inherit_the_switch(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    told = subprocess.run(
        [sys.executable, "program.py"],
        env={**os.environ, "TRACEKIT_DISABLED": "true", "PYTHONPATH": str(ROOT)},
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert (told.stdout.split(), told.stderr) == (["True"] * 3, "")
    assert [path.name for path in tmp_path.iterdir()] == ["program.py"]


class Answers:
    """Answers every call instead of running it."""

    def answer(self, question: guard.Question) -> guard.Outcome:
        return guard.Served("answered", {})


def test_a_replay_answers_and_records_although_recording_is_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRACEKIT_DISABLED", "true")
    tracekit.configure()
    sink = MemorySink()
    with recording_to(Recorder(sink, redactor(), strict=True)), guard.answering(Answers()):
        assert not configuration.off
        tracekit.configure(enabled=False)
        assert not configuration.off
        with tracekit.run():
            assert pay("ann") == "answered"
    assert configuration.off
    assert done == []
    assert [fact.fact for fact in sink.facts] == [
        "run.begun", "tool_call.begun", "tool_call.ended", "run.ended",
    ]  # fmt: skip


def test_the_contract_of_a_tool_is_known_while_recording_is_off() -> None:
    tracekit.configure(enabled=False)
    contract = tracekit.tool(effect="read")(lambda: None).__tracekit__.contract  # type: ignore[attr-defined]  # decorated
    assert isinstance(contract, Contract)


# --- the table ------------------------------------------------------------------------------------


def test_the_page_for_operators_names_every_variable_and_no_other() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(TRACEKIT_\w+)`", page, re.MULTILINE)) == set(VARIABLES)


def test_what_the_page_shows_of_python_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    for block in re.findall(r"^```python[^\n]*\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", block],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")


def test_the_code_reads_no_variable_that_the_table_lacks() -> None:
    named = {
        name
        for folder in ("tracekit", "replay")
        for path in (ROOT / folder).rglob("*.py")
        for name in re.findall(r"\bTRACEKIT_[A-Z_]*[A-Z]\b", path.read_text(encoding="utf-8"))
    }
    assert named - set(VARIABLES) == set()

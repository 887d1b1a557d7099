"""Secrets in a store are found wherever they stand, and never told."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from click.testing import CliRunner

from tests.store.made import facts, run, text, value
from tracekit.chains import Link, make_blob
from tracekit.cli import main
from tracekit.contract import Contract, Parameter
from tracekit.journal import Journal
from tracekit.redact import KeyedTagger, Redactor, Rules
from tracekit.store import Batch, Store, open_store
from tracekit.store.places import is_database, journal_folder
from tracekit.store.scanning import Leak, Scan

KEY = "sk-ant-api03-" + "aB3dE5gH7jK9mN1p" * 5
MAIL = "jane.doe@corp-mail.net"


@pytest.fixture(params=["folder", "file"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _places(store: Store, rules: Rules | None = None) -> list[tuple[str, str | None, str]]:
    found = list(Scan(store, rules or Rules()).leaks())
    assert KEY not in repr(found)
    assert MAIL not in repr(found)
    return [(leak.kind, leak.run_id, leak.place) for leak in found]


def test_a_store_without_secrets_is_clean(store: Store) -> None:
    for number in range(3):
        store.append(run(f"r-{number}"))
    scan = Scan(store)
    assert list(scan.leaks()) == []
    assert (scan.runs, scan.events, scan.values) == (3, 9, 8)


def test_what_was_redacted_is_clean(store: Store) -> None:
    made = run("r")
    redactor = Redactor(Rules(), KeyedTagger(b"k" * 32))
    clean = redactor.redact({"password": "hunter22!", "text": f"mail {MAIL}, {KEY}"}).value
    blob, digest = value(clean)
    call = replace(made.events[1], argument_blob=digest, argument_digest=digest)
    store.append(Batch((made.events[0], call), (*made.blobs, blob)))
    assert _places(store) == []


def test_the_tag_of_a_redacted_field_is_no_secret(store: Store) -> None:
    made = run("r")
    tags = json.dumps({"/password": "bytes", "/api_key": ["tuple"]})
    call = replace(made.events[1], argument_types=tags)
    store.append(Batch((made.events[0], call), made.blobs))
    assert _places(store) == []


def test_secrets_are_found_in_values_texts_and_tags(store: Store) -> None:
    made = run("r", attributes=json.dumps({"tags": [f"by {MAIL}"], "labels": {"a/b": KEY}}))
    argument, digest = value({"password": "hunter22!", "deep": [{MAIL: {"x": KEY}}]})
    observation, raw = text(f"the key is {KEY}")
    call = replace(
        made.events[1],
        argument_blob=argument.digest,
        argument_digest=digest,
        observation_blob=observation.digest,
        observation_digest=raw,
        error_message=f"refused for {KEY}",
        evidence_ids=("ok", MAIL),
    )
    store.append(Batch((made.events[0], call), (*made.blobs, argument, observation)))

    found = _places(store)

    assert {run_id for _, run_id, _ in found} == {"r"}
    assert {(kind, place) for kind, _, place in found if "deep" not in place} == {
        ("email", "attributes/tags/0"),
        ("anthropic_key", "attributes/labels/a~1b"),
        ("anthropic_key", "error_message"),
        ("email", "evidence_ids/1"),
        ("secret", "argument/password"),
        ("anthropic_key", "observation"),
    }
    assert [kind for kind, _, place in found if place.endswith("/x")] == ["anthropic_key"]


def test_a_value_is_told_of_in_every_run_that_names_it(store: Store) -> None:
    blob, digest = value({"query": KEY})
    for name in ("r-1", "r-2"):
        made = run(name)
        calls = [replace(row, argument_blob=digest) for row in made.events[1:]]
        store.append(Batch((made.events[0], *calls), (*made.blobs, blob)))
    assert _places(store) == [
        ("anthropic_key", "r-1", "argument/query"),
        ("anthropic_key", "r-2", "argument/query"),
    ]


def test_prompts_are_scanned_with_what_they_rest_on(store: Store) -> None:
    tools = make_blob([{"name": "search", "description": f"use {KEY}"}])
    first = Link(
        [{"role": "user", "content": f"write to {MAIL}"}],
        rest={"messages": None, "tools": None},
        refs={"tools": tools.digest},
    ).as_blob()
    second = Link([{"role": "user", "content": KEY}], base=first.digest, keep=1).as_blob()
    made = run("r", calls=1)
    call = replace(made.events[1], argument_blob=second.digest)
    store.append(Batch((made.events[0], call), (*made.blobs, tools, first, second)))

    assert sorted(_places(store)) == [
        ("anthropic_key", "r", "argument/0/description"),
        ("anthropic_key", "r", "argument/append/0/content"),
        ("email", "r", "argument/append/0/content"),
    ]


def test_values_that_no_run_names_are_scanned(store: Store) -> None:
    made = run("r")
    blob, digest = value([KEY])
    store.append(Batch(made.events, (*made.blobs, blob)))
    assert _places(store) == [("anthropic_key", None, f"value {digest}/0")]


def test_what_is_being_recorded_is_scanned(store: Store) -> None:
    journal = Journal(journal_folder(store.path))
    for fact, blobs in facts(f"run-of-{'x' * 3}", journal.stamp()[0], ended=False):
        noted = fact.model_copy(update={"actor": f"agent of {MAIL}"})
        journal.write(noted, blobs)

    assert ("email", "run-of-xxx", "actor") in _places(open_store(store.path))
    journal.close()


def test_lines_that_were_put_aside_are_scanned(store: Store) -> None:
    store.append(run("r"))
    folder = journal_folder(store.path) if is_database(store.path) else store.path
    aside = folder / "damaged"
    aside.mkdir(parents=True, exist_ok=True)
    (aside / "host-1-1.jsonl").write_text('{"fact": "x"}\n{"torn": "' + KEY + "\n")
    assert _places(store) == [("anthropic_key", None, "damaged/host-1-1.jsonl:2")]


def test_a_field_of_ones_own_is_a_secret_too(store: Store) -> None:
    made = run("r", calls=1)
    blob, digest = value({"badge_number": "77-1234"})
    call = replace(made.events[1], argument_blob=digest, argument_digest=digest)
    store.append(Batch((made.events[0], call), (*made.blobs, blob)))
    assert _places(store) == []
    own = Rules(fields=("badge_number",))
    assert _places(store, own) == [("secret", "r", "argument/badge_number")]


@pytest.mark.parametrize(
    "said",
    [
        base64.b64encode(f"use {KEY}, please".encode()).decode(),
        base64.b64encode(base64.urlsafe_b64encode(f"use {KEY}".encode())).decode(),
        quote(f"mail {MAIL} now", safe=""),
        quote(json.dumps({"key": base64.b64encode(KEY.encode()).decode()})),
    ],
)
def test_encoded_secrets_are_found(store: Store, said: str) -> None:
    made = run("r", calls=1)
    blob, digest = value({"note": said})
    call = replace(made.events[1], argument_blob=digest, argument_digest=digest)
    store.append(Batch((made.events[0], call), (*made.blobs, blob)))
    kind = "email" if "mail" in said else "anthropic_key"
    assert _places(store) == [(kind, "r", "argument/note")]


def test_secrets_in_pieces_of_a_stream_are_found(store: Store) -> None:
    made = run("r", calls=1)
    pieces = ["use ", KEY[:7], KEY[7:30], KEY[30:] + ", please"]
    blob, digest = value([{"delta": {"content": piece}} for piece in pieces])
    call = replace(
        made.events[1],
        observation_blob=digest,
        observation_digest=digest,
        attributes='{"stream":true}',
    )
    store.append(Batch((made.events[0], call), (*made.blobs, blob)))
    assert _places(store) == [("anthropic_key", "r", "observation/1/delta/content")]


def test_a_rule_of_ones_own_is_given_as_in_the_environment(path: Path) -> None:
    store = open_store(path, create=True)
    made = run("r", calls=1)
    blob, digest = value({"badge": "77-1234", "note": "seen by EMP-123456", "deep": {"x": "y"}})
    call = replace(made.events[1], argument_blob=digest, argument_digest=digest)
    store.append(Batch((made.events[0], call), (*made.blobs, blob)))
    rules = ["--redact", "badge", "--redact", r"re:EMP-\d+", "--redact", "$.deep.x"]
    found = CliRunner().invoke(main, ["scan", "--store", str(path), "--json", *rules])
    assert found.exit_code == 1
    assert {(leak["kind"], leak["place"]) for leak in json.loads(found.output)["leaks"]} == {
        ("secret", "argument/badge"),
        ("pattern_1", "argument/note"),
        ("secret", "argument/deep/x"),
    }
    wrong = CliRunner().invoke(main, ["scan", "--store", str(path), "--redact", "re:("])
    assert wrong.exit_code == 2


def test_progress_is_told(store: Store) -> None:
    store.append(run("r"))
    told: list[tuple[int, int]] = []
    list(Scan(store, progress=lambda done, total: told.append((done, total))).leaks())
    assert told == [(1, 1)]


def test_the_command_lists_and_exits_with_one(path: Path) -> None:
    store = open_store(path, create=True)
    store.append(run("clean"))
    clean = CliRunner().invoke(main, ["scan", "--store", str(path)])
    assert (clean.exit_code, clean.output) == (0, "no secret found in 1 run, 3 events, 4 values\n")

    store.append(run("leaky", calls=0, error_message=f"bad key {KEY}"))
    found = CliRunner().invoke(main, ["scan", "--store", str(path)])
    assert found.exit_code == 1
    event = store.events("leaky")[0].event_id
    assert f"anthropic_key: run leaky, event {event}, error_message" in found.output
    report = CliRunner().invoke(main, ["scan", "--store", str(path), "--json"])
    assert report.exit_code == 1
    leak = Leak("anthropic_key", "leaky", event, "error_message")
    assert json.loads(report.output)["leaks"] == [leak.as_dict()]
    assert KEY not in found.output + report.output


@pytest.mark.parametrize("rule", ["badge", "$.badge"])
def test_a_default_in_a_declaration_is_known_by_the_name_of_its_argument(
    store: Store, rule: str
) -> None:
    made = run("r")
    parameters = (Parameter(name="badge", required=False, default="EMP-1234"),)
    contract, _ = value(Contract(name="look", parameters=parameters).model_dump(mode="json"))
    no_contract, _ = value(["badge", "EMP-1234"])
    calls = [
        replace(made.events[1], contract=contract.digest),
        replace(made.events[2], contract=no_contract.digest),
    ]
    store.append(Batch((made.events[0], *calls), (*made.blobs, contract, no_contract)))
    assert _places(store) == []
    found = _places(store, Rules.from_user([rule]))
    assert found == [("secret", "r", "contract/parameters/0/default")]

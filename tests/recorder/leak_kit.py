"""Secrets of many kinds, the forms in which they hide, and an agent that has them everywhere.

``python -m tests.recorder.leak_kit PLAN`` plays the agent as a process of its own: with a store, a
log, a receiver of OTLP and other people's spans. What it plants are pairs of a place and a text.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import enum
import json
import logging
import pathlib
import random
import string
import sys
from collections import namedtuple
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import product
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy
import pydantic

import tracekit

_CHANCE = random.Random("forty kinds of secret")


def _mix(size: int) -> str:
    """Letters of both cases and digits, no two times the same."""
    drawn = [_CHANCE.choice(string.ascii_letters + string.digits) for _ in range(size)]
    return "".join(drawn[:-3]) + "x7Q"


def _hex(size: int) -> str:
    return f"{_CHANCE.getrandbits(4 * size):0{size}x}"


class Planted(NamedTuple):
    """A secret, and a text by which it is known for one."""

    secret: str
    text: str


def _bare(secret: str) -> Planted:
    return Planted(secret, secret)


def _in(text: str, secret: str) -> Planted:
    return Planted(secret, text.format(secret))


_PEM_BODY = "MIIEowIBAAKCAQEA7bq3Zp9kQm2xW5vT8yR1nL4sD6fG0hJcVbNuMiOePaSd"
_JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
SECRETS: dict[str, Planted] = {
    "age": _bare("AGE-SECRET-KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L" * 2),
    "anthropic": _bare("sk-ant-api03-" + _mix(90)),
    "atlassian": _bare("ATATT3xFfGF0" + _mix(60) + "=0A1B2C3D"),
    "aws access key": _bare("AKIA" + "QW3RT7YU1OP5AS9D"),
    "aws secret key by name": _in("aws_secret_access_key = {}", _mix(20) + "/" + _mix(19)),
    "aws secret key alone": _bare("hJ8kQ2mZ7pLr4TwB8nVcY3sD6fGh1JkLx9Pq5RtW"),
    "azure account key": _in(
        "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey={}", _mix(86) + "=="
    ),
    "azure sas": _in(
        "https://acme.blob.core.windows.net/c?sv=2024-01-01&sig={}&se=2026", _mix(43) + "="
    ),
    "basic header": _in(
        "Authorization: Basic {}", base64.b64encode(f"bob:{_mix(12)}".encode()).decode()
    ),
    "bearer header": _in("Authorization: Bearer {}", _mix(28)),
    "card": _bare("4556737586899855"),
    "card with blanks": _bare("4556 7375 8689 9855"),
    "connection string amqp": _in("amqp://svc:{}@mq.example.net:5672/x", _mix(12)),
    "connection string mongodb": _in("mongodb+srv://app:{}@c0.example.net/db", _mix(12)),
    "connection string postgres": _in("postgresql://app:{}@db.example.net:5432/x", _mix(12)),
    "connection string redis": _in("redis://:{}@cache.example.net:6379/0", _mix(12)),
    "connection string ado.net": _in("Server=db;User Id=sa;Pwd={};Timeout=5", _mix(12)),
    "connection string jdbc": _in("jdbc:mysql://db/x?user=a&password={}", _mix(12)),
    "cookie": _in("Cookie: session={}; theme=dark", _mix(24)),
    "databricks": _bare("dapi" + _hex(32)),
    "digitalocean": _bare("dop_v1_" + _hex(64)),
    "discord bot": _bare("MTIzNDU2Nzg5MDEyMzQ1Njc4.GabcDE." + _mix(38)),
    "discord webhook": _in("https://discord.com/api/webhooks/123456789012345678/{}", _mix(68)),
    "docker": _bare("dckr_pat_" + _mix(27)),
    "e-mail": _bare("bob.olive+ops@mail.acme-corp.org"),
    "figma": _bare("figd_" + _mix(40)),
    "github classic": _bare("ghp_" + _mix(36)),
    "github fine-grained": _bare("github_pat_" + _mix(22) + "_" + _mix(59)),
    "github oauth": _bare("gho_" + _mix(36)),
    "gitlab": _bare("glpat-" + _mix(20)),
    "google api key": _bare("AIza" + _mix(35)),
    "google client secret": _bare("GOCSPX-" + _mix(28)),
    "google access token": _bare("ya29." + _mix(60)),
    "google refresh token": _bare("1//0" + _mix(50)),
    "grafana": _bare("glsa_" + _mix(32) + "_0a1b2c3d"),
    "hugging face": _bare("hf_" + _mix(34)),
    "iban": _bare("DE89370400440532013000"),
    "iban with blanks": _bare("DE89 3704 0044 0532 0130 00"),
    "jwt": _bare(_JWT),
    "linear": _bare("lin_api_" + _mix(40)),
    "mailgun": _bare("key-" + _hex(32)),
    "named high entropy": _in("signing_key: {}", _mix(44)),
    "named password": _in("DB_PASSWORD={}", _mix(12)),
    "notion": _bare("ntn_" + _mix(46)),
    "notion old": _bare("secret_" + _mix(43)),
    "npm": _bare("npm_" + _mix(36)),
    "openai old": _bare("sk-" + _mix(48)),
    "openai project": _bare("sk-proj-" + _mix(80)),
    "openssh key": _in(
        "-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----", _PEM_BODY
    ),
    "pem key": _in("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----", _PEM_BODY),
    "phone": _bare("+49 30 9018203344"),
    "phone american": _bare("415-555-0132"),
    "pypi": _bare("pypi-AgEIcHlwaS5vcmc" + _mix(100)),
    "sendgrid": _bare("SG." + _mix(22) + "." + _mix(43)),
    "shopify": _bare("shpat_" + _hex(32)),
    "slack app": _bare("xapp-1-A0B1C2D3E4F-1234567890123-" + _hex(32)),
    "slack bot": _bare("xoxb-123456789012-1234567890123-" + _mix(24)),
    "slack user": _bare("xoxp-123456789012-1234567890123-" + _mix(32)),
    "slack webhook": _in("https://hooks.slack.com/services/T0ABCDEF/B0ABCDEF/{}", _mix(24)),
    "stripe live": _bare("sk_live_" + _mix(24)),
    "stripe restricted": _bare("rk_live_" + _mix(24)),
    "stripe test": _bare("sk_test_" + _mix(24)),
    "telegram": _bare("123456789:AA" + _mix(33)),
    "twilio key": _bare("SK" + _hex(32)),
    "twilio auth token": _in("TWILIO_AUTH_TOKEN={}", _hex(32)),
    "url password": _in("https://bob:{}@git.example.net/x.git", _mix(12)),
    "vault": _bare("hvs." + _mix(90)),
}

FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "json": lambda text: json.dumps({"note": [f"see {text} there"]}),
    "json in json": lambda text: json.dumps({"x": json.dumps({"note": f"see {text} there"})}),
    "base64": lambda text: base64.b64encode(f"see {text} there".encode()).decode(),
    "base64 + 1": lambda text: base64.b64encode(f"see  {text} there".encode()).decode(),
    "base64 + 2": lambda text: base64.urlsafe_b64encode(f"see   {text} there".encode()).decode(),
    "url": lambda text: quote(f"see {text} there", safe=""),
    "%XX": lambda text: "".join(f"%{byte:02X}" for byte in f" {text} ".encode()),
}


def needles(secret: str) -> dict[str, str]:
    """What must stand nowhere: the secret, half of it if it is long, and both encoded."""
    whole = {"it": secret, "it in JSON": json.dumps(secret)[1:-1]}
    if len(secret) >= 32:
        whole["its second half"] = secret[len(secret) // 2 :]
    found = dict(whole)
    for name, text in whole.items():
        found[f"{name} in a URL"] = quote(text, safe="")
        found[f"{name} in %XX"] = "".join(f"%{byte:02X}" for byte in text.encode())
        for shift, codec in product(range(3), ("utf-8", "utf-16-le", "utf-32-le")):
            data = base64.b64encode(b" " * shift + text.encode(codec)).decode()
            known = data[-(-shift * 8 // 6) : len(data.rstrip("=")) - 1]
            found[f"{name} in base64 of {codec} + {shift}"] = known
            found[f"{name} in URL-safe base64 of {codec} + {shift}"] = known.translate(
                str.maketrans("+/", "-_")
            )
    return found


# --- the places -----------------------------------------------------------------------------------


@dataclasses.dataclass
class Ticket:
    """A value of the agent's."""

    title: str
    parts: tuple[Any, ...] = ()


class Form(pydantic.BaseModel):
    """Another one."""

    said: str


class Mode(enum.Enum):
    """A mode."""

    ON = "on"


class Odd(Exception):
    """An error that knows more than it says."""

    def __init__(self, text: str) -> None:
        super().__init__("odd", {"why": [text]}, text.encode())
        self.detail = text


Row = namedtuple("Row", "name note")


@tracekit.tool(effect="read")
def look(*given: Any, **named: Any) -> Any:
    """Take anything, and give what is asked for."""
    return named.get("back")


@tracekit.tool(effect="read")
def refuse(error: Any) -> Any:
    """Fail with what was put aside."""
    raise _errors[error]


@tracekit.tool(effect="read")
def parts(name: str) -> Iterator[Any]:
    """Yield what was put aside."""
    yield from _streams[name]


@tracekit.tool(effect="read")
def broken(name: str) -> Iterator[Any]:
    """Yield what was put aside, and fail."""
    yield from _streams[name]
    raise _errors[name]


@tracekit.llm(model="m", provider="openai")
async def chunks(messages: Any) -> AsyncIterator[Any]:
    """Stream what was put aside."""
    for item in _streams["chunks"]:
        await asyncio.sleep(0)
        yield item


@tracekit.llm(model="m", provider="openai")
def ask(messages: Any, back: Any = None, tools: Any = ()) -> Any:
    """Answer a prompt."""
    return _replies.pop() if _replies else back


@tracekit.retrieval(name="docs")
def find(query: str) -> Any:
    """Find what was asked for."""
    return [{"id": "d-1", "text": query}]


@tracekit.tool(effect="write", idempotency_key=lambda given: str(given["text"]))
def write(text: str) -> None:
    """Write."""


@tracekit.step(name="think")
def think(text: str) -> str:
    """Think."""
    return text


def _schema(text: str) -> Any:
    """A schema that has it in every place."""
    return {
        "type": "object",
        "description": f"as {text} is",
        "properties": {
            "account": {"type": "string", "default": text, "enum": [text, "x"], "title": text},
            "deep": {"items": {"properties": {"account": {"const": text, "examples": [text]}}}},
            "told": {"anyOf": [{"properties": {"account": {"$ref": "#/$defs/Of"}}}]},
            "odd": {"properties": {"account": {"x-default": text, "examples": {"a": text}}}},
            "short": {"items": text, "properties": {"account": text}, "required": [text]},
            "form": {"type": "string", "pattern": f"^{text}$", "format": text},
            text: {"$ref": text},
        },
        "required": ["account"],
        "$defs": {"Of": {"allOf": [{"$ref": "#/definitions/it"}]}},
        "definitions": {"it": {"enum": [text], "type": "string"}},
    }


def _declared(text: str) -> None:
    """A tool whose declaration holds it: in a default, in what it is for, in its schemas."""
    schema = _schema(text)

    def declared(account: Any = text, *, note: Any = (text, {"account": [text]})) -> None:
        raise AssertionError

    declared.__doc__ = f"Look for {text}."
    for key in (None, lambda given: "k"):  # the short and the general way
        made = tracekit.tool(
            effect="read", argument_schema=schema, result_schema=schema, idempotency_key=key
        )(declared)
        with contextlib.suppress(AssertionError):
            made()


_errors: dict[str, BaseException] = {}
_streams: dict[str, list[Any]] = {}
_replies: list[Any] = []


def _fail(error: BaseException) -> None:
    _errors["e"] = error
    try:
        refuse("e")
    except BaseException as raised:
        if raised is not error:
            raise


def _notes(text: str) -> None:
    error = ValueError("no")
    error.add_note(f"while doing: {text}")
    _fail(error)


def _chain(text: str) -> None:
    error = ValueError("no")
    error.__cause__ = KeyError(text)
    error.__context__ = OSError(5, text)
    error.__cause__.__cause__ = RuntimeError({"deep": text})
    _fail(error)


def _cut(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


def _stream(items: list[Any]) -> None:
    _streams["s"] = items
    assert list(parts("s")) == items


def _halves(text: str) -> None:
    said = f"well, {text} it is"
    for place in (1, 3, 7, len(said) // 2, len(said) - 9, len(said) - 8, len(said) - 7):
        _stream([said[:place], said[place:]])


def _broken(text: str) -> None:
    _streams["b"], _errors["b"] = _cut(f"well, {text} it", 5), ValueError(text)
    with contextlib.suppress(ValueError):
        list(broken("b"))


def _left(text: str) -> None:
    said = _cut(f"well, {text} it is, is it", 9)
    _streams["l"] = said
    reading = parts("l")
    for _ in said[:-1]:
        next(reading)
    reading.close()  # type: ignore[attr-defined]  # a generator


def _chunks(text: str) -> None:
    def chunk(**delta: Any) -> dict[str, Any]:
        return {"id": "c", "choices": [{"index": 0, "delta": delta}]}

    said = _cut(f"well, {text} it is", 4)
    call = _cut(json.dumps({"q": f"{text} x"}), 6)
    items = [chunk(role="assistant", content=part) for part in said]
    items += [chunk(reasoning_content=part) for part in said]
    items += [chunk(refusal=part) for part in said]
    items += [
        chunk(tool_calls=[{"index": 0, "function": {"name": "look", "arguments": part}}])
        for part in call
    ]
    _streams["chunks"] = items

    async def read() -> None:
        async for _ in chunks([{"role": "user", "content": "go"}]):
            pass

    asyncio.run(read())


def _messages(text: str) -> None:
    call = {"name": "look", "arguments": json.dumps({"q": text})}
    ask(
        [
            {"role": "system", "content": text},
            {"role": "user", "content": [{"type": "text", "text": text}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c", "type": "function", "function": call}],
            },
            {"role": "tool", "tool_call_id": "c", "content": text},
        ],
        back={"role": "assistant", "content": text},
    )


def _spans(text: str) -> None:
    from opentelemetry import trace
    from opentelemetry.trace import Status, StatusCode

    tracer = trace.get_tracer("theirs", "1.2")
    said = json.dumps([{"role": "user", "parts": [{"type": "text", "content": text}]}])
    with tracer.start_as_current_span(f"chat {text}") as span:
        span.set_attribute("gen_ai.operation.name", "chat")
        span.set_attribute("gen_ai.request.model", "m-1")
        span.set_attribute("gen_ai.input.messages", said)
        span.set_attribute("gen_ai.output.messages", said)
        span.set_attribute("their.own", [text, "x"])
        span.add_event("gen_ai.choice", {"body": text})
        span.set_status(Status(StatusCode.ERROR, text))
    with tracer.start_as_current_span("tool") as span:
        span.set_attribute("gen_ai.operation.name", "execute_tool")
        span.set_attribute("gen_ai.tool.name", "look")
        span.set_attribute("gen_ai.tool.call.arguments", json.dumps({"q": text}))
        span.set_attribute("gen_ai.tool.call.result", text)
        span.record_exception(ValueError(text))


def _logs(text: str) -> None:
    from opentelemetry import _logs, trace

    said = {"content": text, "tool_calls": [{"function": {"name": "x", "arguments": text}}]}
    logger = _logs.get_logger("theirs")
    with trace.get_tracer("theirs").start_as_current_span("chat") as span:
        span.set_attribute("gen_ai.operation.name", "chat")
        logger.emit(_logs.LogRecord(event_name="gen_ai.user.message", body=said))
        logger.emit(_logs.LogRecord(event_name="gen_ai.tool.message", body=text))
        choice = {"index": 0, "finish_reason": text, "message": said}
        logger.emit(_logs.LogRecord(event_name="gen_ai.choice", body=choice))


def _nested(text: str) -> None:
    @tracekit.agent(name="inner")
    def inner(given: Any) -> Any:
        return {"answer": [given]}

    inner({"q": text})


def _run(text: str) -> None:
    from tracekit.configuration import recorder

    with tracekit.run(
        name="by hand",
        task=text,
        request=text,
        tenant=text,
        operator=text,
        tags=[text, "x"],
        versions={"prompt": text, text: "2"},
    ):
        recorder().message("user", [text])
        recorder().message("system", text)


PLACES: dict[str, Callable[[str], Any]] = {
    "positional argument": lambda text: look(text),
    "named argument": lambda text: look(query=text),
    "inside lists and objects": lambda text: look([{"a": [[text]]}, {"b": {"c": text}}]),
    "dataclass, model, named tuple": lambda text: look(
        Ticket(text, (text,)), Form(said=text), Row("n", text)
    ),
    "tuple and set": lambda text: look((1, (text,)), {text}, frozenset([text])),
    "bytes": lambda text: look(f"see {text} there".encode(), bytearray(text.encode())),
    "bytes of two and four a letter": lambda text: look(
        f"see {text} there".encode("utf-16"), text.encode("utf-32-le"), numpy.array([text, "x"])
    ),
    "bytes that are no text": lambda text: look(
        b"\xff\xfe\x00" + f"see {text} there".encode() + b"\x80\x81"
    ),
    "path": lambda text: look(
        pathlib.PurePosixPath("x") / (quote(text, safe="") if "/" in text else text)
    ),
    "key of an object": lambda text: look({text: 1, "x": {text: {text: 2}}}),
    "observation": lambda text: look(back={"rows": [text, {"x": text}]}),
    "observation alone": lambda text: look(back=text),
    "prompt and reply": _messages,
    "tools of a prompt": lambda text: ask(
        [{"role": "user", "content": "go"}],
        tools=[{"type": "function", "function": {"name": "f", "parameters": _schema(text)}}],
    ),
    "prompt that goes on": lambda text: [
        ask(
            [
                {"role": "user", "content": "a" * 300},
                *({"role": "user", "content": t} for t in more),
            ]
        )
        for more in ([], ["b"], ["b", text], ["b", text, text])
    ],
    "error text": lambda text: _fail(ValueError(f"cannot use {text}")),
    "error arguments": lambda text: _fail(Odd(text)),
    "error note": _notes,
    "error cause": _chain,
    "error group": lambda text: _fail(ExceptionGroup(text, [ValueError(text), OSError(2, text)])),
    "input and answer": _nested,
    "task, request, tenant, operator, tags, versions": _run,
    "policy": lambda text: tracekit.policy("deny", rule=text, reason=f"since {text}"),
    "evidence": lambda text: tracekit.evidence("e-1", text),
    "state": lambda text: tracekit.state({"s": text}, {"s": [text, 1]}),
    "items of a stream": lambda text: _stream([text, {"x": text}]),
    "stream by the letter": lambda text: _stream(list(f"well, {text} it is")),
    "stream by threes": lambda text: _stream(_cut(f"well, {text} it is", 3)),
    "stream by sevens": lambda text: _stream(_cut(f"well, {text} it is", 7)),
    "stream by thirties": lambda text: _stream(_cut(f"well, {text} it is", 30)),
    "stream of bytes": lambda text: _stream([p.encode() for p in _cut(f"well, {text} it", 11)]),
    "stream in two": _halves,
    "stream that fails": _broken,
    "stream that is left": _left,
    "chunks of a model": _chunks,
    "retrieval": lambda text: find(text),
    "idempotency key": lambda text: write(text),
    "step": lambda text: think(text),
    "declaration of a tool": _declared,
    "other people's spans": _spans,
    "other people's log events": _logs,
}


def main() -> None:
    """Plant what the plan says, each in a run of its own."""
    plan: Any = json.loads(pathlib.Path(sys.argv[1]).read_text())
    from opentelemetry import _logs, trace
    from opentelemetry.sdk._logs import LoggerProvider

    logs = LoggerProvider()
    _logs.set_logger_provider(logs)
    logging.basicConfig(level=logging.DEBUG, filename="log.txt")
    tracekit.configure(otlp=plan["otlp"], otlp_content=True, service="leaky")
    for place, text in plan["planted"]:
        with tracekit.run(name=place):
            PLACES[place](text)
    logs.shutdown()
    trace.get_tracer_provider().shutdown()  # type: ignore[attr-defined]  # the SDK's


if __name__ == "__main__":
    main()

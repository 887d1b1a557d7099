"""Which fields hold a secret by their name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tracekit.canonical.plain import read_plain
from tracekit.redact import KeyedTagger, Redactor, Rules, Scope, placeholder_kind
from tracekit.redact.names import name_class

_SECRET = """
DB_PASS SMTP_PASS MYSQL_PWD user_pwd dbPass HTTP_COOKIE HTTP_AUTHORIZATION X-Authorization
Proxy-Authorization headers.authorization http.request.header.cookie http.response.header.set-cookie
http.request.header.authorization DB_CREDENTIALS db_credential APP_SECRETS my_jwt user_ssn card_cvv
cvv2 login_otp auth_cookie password_confirmation passwordConfirm ApiKey1 new_password2 SecretString
secret_value token_value private_key_pem access_tokens page_access_token last_access_token
next_refresh_token cached_access_token per_user_token first_token OPENAI_API_KEYS DB_PASSWORD_2
password1 passwordHash idToken X-Amz-Signature x-api-key
"""
_HARMLESS = """
max_tokens token_usage page_token next_page_token passes bypass compass keyboard primary_key
cache_key prompt_tokens tokens total_tokens cached_tokens num_api_keys first_pass boarding_pass
forward_pass low_pass prior_authorization time_to_first_token eos_token stop_token token_count
secret_name tokenizer passenger public_key continuation_token token_type cookie_policy secretary
password_length password_reset_url has_password key value 2
"""


def redact(value: Any) -> Any:
    return Redactor(Rules(), KeyedTagger(b"a key for tests, not for secrets")).redact(value).value


@pytest.mark.parametrize("name", _SECRET.split())
def test_the_end_of_a_name_says_that_it_holds_a_secret(name: str) -> None:
    assert placeholder_kind(redact({name: "hunter2x"})[name]) == "secret"


@pytest.mark.parametrize("name", _HARMLESS.split())
def test_a_name_that_only_speaks_of_a_secret_holds_none(name: str) -> None:
    assert name_class(name) is None
    assert redact({name: "hunter2x"}) == {name: "hunter2x"}


@pytest.mark.parametrize(
    "text",
    [
        "DB_PASS={}", "MYSQL_PWD={} mysql", "password1: {}", "DB_PASSWORD_2={}",
        "OPENAI_API_KEYS={}", "HTTP_AUTHORIZATION: Bearer {}", "page_access_token={}",
    ],
)  # fmt: skip
def test_texts_are_read_by_the_same_names(text: str) -> None:
    said = redact(text.format("hunter2x99"))
    assert "hunter2x99" not in said
    assert said.startswith(text.partition("{}")[0])


def test_tokens_are_secret_as_texts_and_counts_otherwise() -> None:
    value = {"access_tokens": ["hunter2x", "hunter3x"], "n": {"access_tokens": 2}}
    redacted = redact(value)
    assert [placeholder_kind(one) for one in redacted["access_tokens"]] == ["secret", "secret"]
    assert redacted["n"] == value["n"]


@pytest.mark.parametrize(
    "value",
    [
        {"api_key": {"type": "bearer", "value": "hunter2x"}},
        {"secret": {"type": "Opaque", "data": {"a": "hunter2x"}}},
        {"credentials": {"type": "service_account", "note": "hunter2x"}},
        {"password": {"type": "string", "default": "hunter2x"}},
        {"password": {"$ref": "#/a", "note": "hunter2x"}},
        {"password": {"enum": ["hunter2x"]}},
        {"password": {"type": ["hunter2x"]}},
    ],
)
def test_an_object_in_a_secret_field_is_secret_though_it_has_a_type(value: Any) -> None:
    assert "hunter2x" not in json.dumps(redact(value))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "description": "The new one.", "minLength": 8},
        {"type": ["string", "null"], "default": None},
        {"anyOf": [{"type": "string"}, {"type": "null"}], "title": "Password", "default": ""},
        {"$ref": "#/$defs/Password"},
    ],
)
def test_the_schema_of_a_secret_field_stays(schema: Any) -> None:
    value = {"properties": {"password": schema}}
    assert redact(value) == value


_ASSIGNED = [
    'password = """{}"""', "cfg['password'] = '{}'", 'os.environ["DB_PASSWORD"] = "{}"',
    "A=1\nDB_PASSWORD={}\nNEXT=1", "export DB_PASSWORD={} run", "<password>{}</password>",
    "<a:password>{}</a:password>", "curl -u bob:{} https://x", "curl -s --user 'bob:{}' https://x",
    "mysql --password {} -h x", "CREATE USER bob IDENTIFIED BY '{}'",
    "ALTER ROLE bob WITH PASSWORD '{}';", "Authorization: ApiKey-v1 {}",
]  # fmt: skip


@pytest.mark.parametrize("around", _ASSIGNED)
def test_a_value_is_found_however_it_is_given_to_its_name(around: str) -> None:
    said = redact(around.format("hunter2x99"))
    before, _, after = around.partition("{}")
    assert placeholder_kind(said.removeprefix(before).removesuffix(after)) == "secret"
    assert redact(said) == said


def test_a_line_of_an_environment_file_is_a_secret_up_to_its_end() -> None:
    secret = "abc;d,e&f)g"
    said = redact(f"USER=ann\nDB_PASSWORD={secret}\nPORT=1")
    assert said == f"USER=ann\nDB_PASSWORD={redact({'password': secret})['password']}\nPORT=1"


@pytest.mark.parametrize(
    "text",
    [
        "use --password PASSWORD to set it, --api-key to give it",
        "if (password>limit) </x>", "x.password > 5", "Authorization: required for everything",
    ],
)  # fmt: skip
def test_what_only_speaks_of_a_name_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("name", ["name", "key", "Name", "header"])
def test_an_object_that_names_a_value_is_read_as_a_field(name: str) -> None:
    value = {name: "DB_PASSWORD", "value": "hunter2x"}
    redacted = redact([{name: "PORT", "value": "no secret 1"}, json.dumps([value]), value])
    assert redacted[0] == {name: "PORT", "value": "no secret 1"}
    assert placeholder_kind(redacted[2]["value"]) == "secret"
    assert json.loads(redacted[1]) == [redacted[2]]
    plain = read_plain([value])
    assert plain is not None
    finds = Redactor(Rules(), KeyedTagger(b"a key for tests, not for secrets"))
    assert not finds.finds_nothing(plain, Scope())

"""Where the redaction key comes from, and what is refused."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tracekit.errors import RedactionKeyError
from tracekit.redact import KEY_VARIABLE, KeyedTagger, key_path, load_key


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def test_the_first_caller_makes_a_private_key_and_all_later_ones_read_it(config: Path) -> None:
    key = load_key()
    assert len(key) == 32
    assert load_key() == key
    assert key_path() == config / "tracekit" / "redaction.key"
    assert stat.S_IMODE(key_path().stat().st_mode) == 0o600
    assert [path.name for path in key_path().parent.iterdir()] == ["redaction.key"]


def test_processes_that_start_at_once_agree_on_one_key(config: Path) -> None:
    code = "from tracekit.redact import load_key; print(load_key().hex())"
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    keys = {process.communicate()[0] for process in processes}
    assert keys == {load_key().hex() + "\n"}


def test_the_variable_goes_before_the_file(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "00" * 16)
    assert load_key() == bytes(16)
    assert not key_path().exists()


def test_a_key_that_is_no_hex_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "a passphrase of some length")
    assert load_key() == b"a passphrase of some length"


def test_a_key_that_others_may_read_is_refused(config: Path) -> None:
    load_key()
    key_path().chmod(0o644)
    with pytest.raises(RedactionKeyError, match=r"can be read by others \(its mode is 0644\)"):
        load_key()


def test_a_key_that_is_short_or_empty_is_refused_and_kept(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_key()
    key_path().write_text("")
    with pytest.raises(RedactionKeyError, match="has 0 bytes, at least 16 are needed"):
        load_key()
    assert key_path().read_text() == ""
    monkeypatch.setenv(KEY_VARIABLE, "short")
    with pytest.raises(RedactionKeyError, match=f"{KEY_VARIABLE} has 5 bytes"):
        load_key()


def test_a_folder_that_cannot_be_made_is_named(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (config / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config / "file"))
    with pytest.raises(RedactionKeyError, match=r"redaction\.key cannot be used: Not a directory"):
        load_key()


def test_the_key_shows_neither_in_its_tagger_nor_in_the_error(config: Path) -> None:
    tagger = KeyedTagger(b"0123456789abcdef")
    assert "0123456789abcdef" not in repr(tagger)
    assert tagger.key_id != KeyedTagger(bytes(32)).key_id
    with pytest.raises(RedactionKeyError) as caught:
        KeyedTagger(b"tiny key")
    assert "tiny" not in str(caught.value)


def test_a_tag_depends_on_kind_and_secret_only() -> None:
    tagger = KeyedTagger(bytes(32))
    assert tagger.tag("email", "a@b.de") == KeyedTagger(bytes(32)).tag("email", "a@b.de")
    assert tagger.tag("email", "x") != tagger.tag("secret", "x")
    assert tagger.tag("a", "b\0c") != tagger.tag("a", "bc")
    assert len(tagger.tag("secret", "\ud800")) == 16


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX")
def test_a_key_that_cannot_be_read_is_one_sentence(config: Path) -> None:
    key_path().parent.mkdir(parents=True)
    key_path().mkdir()
    with pytest.raises(RedactionKeyError, match="cannot be used: Is a directory"):
        load_key()

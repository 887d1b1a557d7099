"""Reports of a comparison: nothing in them acts, nothing is fetched, and nothing is missing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from replay.diff import Comparison
from replay.report import comment, json_schema, page, suite
from replay.report.comment import code
from replay.report.page import MOST_CHARACTERS
from replay.report.schema import Report
from tests.diff.building import compare, read, run, write

HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x1b[31m \u2028 `|@all"
)


def hostile() -> Comparison:
    left = run(read("look", {"q": HOSTILE}, HOSTILE), write("pay", {"to": HOSTILE}), run_id=HOSTILE)
    right = run(read("look", {"q": HOSTILE}, "x"), write("pay", {"to": "x"}), answer=HOSTILE)
    return compare(left, right)


def different() -> Comparison:
    left = run(read("look", {"q": "a"}, 1), write("pay", {"amount": 42}), read("see", {}))
    right = run(read("look", {"q": "a"}, 1), write("pay", {"amount": 4200}), read("other", {}))
    return compare(left, right)


def test_what_strangers_wrote_stays_text() -> None:
    html = page(hostile())
    assert html.count("<script") == 2  # the values, and our own
    assert html.count("</script>") == 2
    assert "<img" not in html
    assert "\u202e" not in html
    assert "\x1b" not in html


def test_a_page_names_no_host_and_forbids_the_network() -> None:
    html = page(different())
    assert not re.search(r"""(?:src|href)=["'](?!#|data:,)""", html)
    assert "@import" not in html
    assert "url(" not in html
    assert "default-src 'none'" in html


def test_a_page_says_the_verdict_the_first_divergence_and_every_line() -> None:
    found = different()
    html = page(found)
    assert "<strong>Different</strong>" in html
    assert 'First divergence: <a href="#line-1">decision 2</a>' in html
    assert "pay(amount=42)" in html
    assert "pay(amount=4200)" in html
    assert len(re.findall(r'<tr id="line-\d+"', html)) == len(found.aligned)


def test_equal_runs_are_said_to_be_the_same() -> None:
    one = run(read("look", {"q": "a"}, 1))
    html = page(compare(one, one))
    assert "<strong>Same</strong>" in html
    assert "First divergence" not in html


def test_a_value_too_long_for_a_page_says_how_much_is_left_out() -> None:
    long = "x" * (MOST_CHARACTERS + 5)
    html = page(compare(run(read("look", {}, long)), run(read("look", {}, "y"))))
    assert html.count("x" * 1000) <= 2 * MOST_CHARACTERS / 1000  # as a step and as a field
    assert "5 more characters: tracekit show" in html


def test_a_comment_is_short_and_its_values_are_code() -> None:
    text = comment(different())
    assert text.startswith("### tracekit diff: different, ")
    assert "| **write** | 2 |" in text
    assert "- expected (`" in text
    for line in comment(hostile()).splitlines():
        outside = re.sub(r"(`+) ?.*?\1(?!`)", "", line)
        assert "<" not in outside
        assert "@all" not in outside


@pytest.mark.parametrize(
    ("text", "written"),
    [("a", "`a`"), ("a`b", "`` a`b ``"), ("a|b", "`a\\|b`"), ("a\nb", "`a b`"), ("", "` `")],
)
def test_code_is_closed_whatever_stands_in_it(text: str, written: str) -> None:
    assert code(text) == written


def test_a_suite_fails_where_a_write_differs_and_passes_elsewhere() -> None:
    root = ElementTree.fromstring(suite(different()))
    (tests,) = root
    cases = {case.get("name"): case for case in tests}
    assert tests.get("failures") == str(sum(len(case) for case in tests))
    assert cases["no write differs"].find("failure") is not None
    assert cases["nothing is reordered"].find("failure") is None
    ElementTree.fromstring(suite(hostile()))


def test_the_json_keeps_to_its_published_schema() -> None:
    for found in (different(), hostile()):
        Report.model_validate(json.loads(json.dumps(found.as_dict())))
    published = Path(__file__).parents[2] / "docs" / "diff.schema.json"
    assert json.loads(published.read_text(encoding="utf-8")) == json_schema()


def test_the_command_writes_all_of_them(tmp_path: Path) -> None:
    script = (
        "import sys, tracekit\n"
        "tracekit.configure(store='traces')\n"
        "@tracekit.tool(effect='read')\n"
        "def look(n: int) -> int: return n\n"
        "@tracekit.agent\n"
        "def ask(n: int) -> int: return look(n)\n"
        "for n in (1, 2):\n"
        "    with tracekit.run(run_id=f'run-{n}'): ask(n)\n"
    )
    files = ["--html", "d.html", "--markdown", "d.md", "--junit", "d.xml", "--store", "traces"]
    for line, code_wanted in (
        ([sys.executable, "-c", script], 0),
        ([sys.executable, "-m", "tracekit", "diff", "run-1", "run-2", *files], 1),
        ([sys.executable, "-m", "tracekit", "diff", "run-1", "run-2", "--html", "no/d.html"], 2),
    ):
        done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == code_wanted, done.stderr
    assert "no/d.html cannot be written: there is no such folder" in done.stderr
    assert (tmp_path / "d.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "d.md").read_text().startswith("### tracekit diff")
    ElementTree.parse(tmp_path / "d.xml")

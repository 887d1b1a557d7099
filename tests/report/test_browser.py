"""The page in a real browser: quick, silent, alone, and usable without a mouse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from replay.report import page
from tests.diff.building import compare, read, run, write
from tests.report.browser import NAMES, Browser, find
from tests.report.test_page import hostile

PROGRAM = find()
pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason=f"no Chromium here: none of {', '.join(NAMES)} is on the path"
)
STEPS = 500


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert PROGRAM is not None
    with Browser(PROGRAM, tmp_path_factory.mktemp("profile")) as ready:
        yield ready


@pytest.fixture(scope="module")
def long_pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def steps(*, other: bool) -> list[object]:
        return [
            (write if at % 10 == 0 else read)(
                f"tool_{at % 7}",
                {"n": at, "other": other and at % 25 == 0},
                {"rows": [{"id": at, "text": f"row {at} " * 20}] * 5},
            )
            for at in range(STEPS)
            if not (other and at % 40 == 3)
        ]

    found = compare(run(*steps(other=False)), run(*steps(other=True)))  # type: ignore[arg-type]  # calls
    path = tmp_path_factory.mktemp("page") / "long.html"
    path.write_text(page(found), encoding="utf-8")
    return path


def test_a_long_pair_opens_quickly_says_nothing_and_asks_nobody(
    browser: Browser, long_pair: Path
) -> None:
    spent = min(browser.open(long_pair) for _ in range(3))
    assert browser.value("document.querySelectorAll('tr.line').length") >= STEPS
    assert browser.complaints == []
    assert browser.requests == [long_pair.as_uri()]
    assert spent < 2  # what is promised of a page of this length


@pytest.mark.parametrize("dark", [False, True])
def test_both_colour_schemes_can_be_read(browser: Browser, long_pair: Path, *, dark: bool) -> None:
    browser.open(long_pair, dark=dark)
    contrast = browser.value(
        """(() => {
        const light = (text) => {
          const [r, g, b] = text.match(/\\d+/g).map((part) => {
            const of = part / 255;
            return of <= 0.04045 ? of / 12.92 : ((of + 0.055) / 1.055) ** 2.4;
          });
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const back = (node) => {
          for (; node; node = node.parentElement) {
            const colour = getComputedStyle(node).backgroundColor;
            if (!colour.endsWith(", 0)")) return colour;
          }
          return "rgb(255, 255, 255)";
        };
        let worst = 21;
        for (const node of document.querySelectorAll("h1,h2,p,dt,dd,code,span,td,th,a,li")) {
          if (!node.textContent.trim()) continue;
          const [one, two] = [light(getComputedStyle(node).color), light(back(node))];
          worst = Math.min(worst, (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05));
        }
        return worst;
        })()"""
    )
    assert contrast >= 4.5  # WCAG 2.2, AA


def test_the_keyboard_reaches_every_difference_and_its_values(
    browser: Browser, long_pair: Path
) -> None:
    browser.open(long_pair)
    browser.press("n")
    assert browser.value("!document.activeElement.classList.contains('same')")
    first = browser.value("document.activeElement.id")
    browser.press("n", "p")
    assert browser.value("document.activeElement.id") == first
    browser.press("Enter")
    assert browser.value("document.activeElement.nextElementSibling.className").startswith("values")
    assert browser.value("document.querySelectorAll('.values pre').length") >= 2
    browser.press("Escape")
    assert browser.value("document.querySelectorAll('.values').length") == 0
    browser.press("d")
    shown = "[...document.querySelectorAll('tr.line')].filter((row) => row.offsetHeight).length"
    assert 0 < browser.value(shown) < STEPS / 5
    browser.press("?")
    assert browser.value("document.getElementById('keys').open")
    assert browser.complaints == []


def test_a_link_to_a_difference_opens_it(browser: Browser, long_pair: Path) -> None:
    browser.open(long_pair)
    browser.value("document.querySelector('ol a').click()")
    target = browser.value("document.querySelector('ol a').hash")
    assert browser.value(f"document.querySelector('{target}').ariaExpanded") == "true"
    assert browser.value("document.querySelectorAll('.values').length") == 1


def test_values_of_strangers_do_nothing(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(page(hostile()), encoding="utf-8")
    browser.open(path)
    browser.press("j", "Enter", "j", "Enter")
    assert browser.value("document.images.length") == 0
    assert browser.value("document.scripts.length") == 2
    assert browser.value("document.querySelectorAll('.values').length") == 2
    assert browser.complaints == []
    assert browser.requests == [path.as_uri()]

"""A bulk replay as JUnit XML: one test case a run, for build servers.

A finding is a failure; a run of which nothing can be said is an error, since it did not pass.
"""

from __future__ import annotations

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from replay.many.outcome import ManyResult, RunOutcome

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Signs that no XML document may hold."""


def junit_xml(result: ManyResult) -> str:
    """Write the result as one test suite."""
    counts = result.counts
    failures, passes = counts.get("fail", 0), counts.get("pass", 0)
    suite = Element(
        "testsuite",
        name=f"tracekit replay {sound(result.planner)}",
        tests=str(len(result.outcomes)),
        failures=str(failures),
        errors=str(len(result.outcomes) - failures - passes),
        skipped="0",
        time=f"{result.elapsed_s:.3f}",
    )
    for outcome in result.outcomes:
        suite.append(_case(outcome, result))
    return document(suite)


def document(suite: Element) -> str:
    """Write a document of one test suite."""
    suites = Element("testsuites")
    suites.append(suite)
    indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(suites, encoding="unicode") + "\n"


def _case(outcome: RunOutcome, result: ManyResult) -> Element:
    case = Element(
        "testcase",
        classname=sound(result.planner),
        name=sound(outcome.run_id),
        time=f"{outcome.elapsed_s:.3f}",
    )
    if outcome.verdict != "pass":
        kind = "failure" if outcome.verdict == "fail" else "error"
        reason = outcome.reasons[0] if outcome.reasons else outcome.verdict
        told = SubElement(case, kind, type=outcome.verdict, message=sound(reason))
        told.text = sound("\n".join(_lines(outcome, result)))
    elif outcome.divergence is not None:
        SubElement(case, "system-out").text = sound("\n".join(_lines(outcome, result)))
    return case


def _lines(outcome: RunOutcome, result: ManyResult) -> list[str]:
    diverges = [f"first divergence: {outcome.divergence}"] if outcome.divergence else []
    return [*outcome.reasons, *diverges, outcome.closer(result.planner, result.store)]


def sound(text: str) -> str:
    """Give a text that an XML document may hold."""
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)

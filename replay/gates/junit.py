"""A gate report as JUnit XML: one test case a gate, for build servers."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement

from replay.gates.outcome import GateOutcome, GateReport
from replay.gates.telling import COLUMNS, rows_of
from replay.many.junit import document, sound


def junit_xml(report: GateReport) -> str:
    """Write the report as one test suite; what is inconclusive and stops a release is an error."""
    failures = sum(o.failed and o.verdict == "fail" for o in report.outcomes)
    suite = Element(
        "testsuite",
        name=f"tracekit gate {sound(report.path)}",
        tests=str(len(report.outcomes)),
        failures=str(failures),
        errors=str(sum(o.failed for o in report.outcomes) - failures),
        skipped="0",
    )
    for outcome, row in zip(report.outcomes, rows_of(report), strict=True):
        suite.append(_case(outcome, row, report))
    return document(suite)


def _case(outcome: GateOutcome, row: list[str], report: GateReport) -> Element:
    case = Element("testcase", classname=sound(report.path), name=sound(outcome.name))
    told = "\n".join(
        [*(f"{name}: {cell}" for name, cell in zip(COLUMNS, row, strict=True)), *outcome.runs]
    )
    if not outcome.failed:
        SubElement(case, "system-out").text = sound(told)
        return case
    kind = "failure" if outcome.verdict == "fail" else "error"
    SubElement(case, kind, type=outcome.verdict, message=sound(outcome.reason)).text = sound(told)
    return case

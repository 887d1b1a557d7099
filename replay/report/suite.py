"""A comparison as JUnit XML: one test case for the pair, one for each kind of harm in it.

So a build server shows "no write differs" as a test that passed or failed, over the builds.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement

from replay.diff import Comparison
from replay.diff.model import Divergence, Harm
from replay.many.junit import document, sound

_CASES = {
    Harm.WRITE: "no write differs",
    Harm.REFUSAL: "no policy decides otherwise",
    Harm.CHANGED_READ: "no read is changed",
    Harm.READ: "no read is added or missing",
    Harm.RESULT: "nothing else comes back",
    Harm.ORDER: "nothing is reordered",
    Harm.WORDING: "no wording differs",
}


def suite(found: Comparison) -> str:
    """Write a comparison as a JUnit XML document."""
    name = f"tracekit diff {found.left_run} {found.right_run}"
    by_harm = {harm: [one for one in found.divergences if one.harm == harm] for harm in _CASES}
    failures = sum(bool(some) for some in by_harm.values())
    root = Element(
        "testsuite",
        name=sound(name),
        tests=str(len(_CASES)),
        failures=str(failures),
        errors=str(len(_CASES) if found.distance == 0 and found.unknown else 0),
        skipped="0",
    )
    for harm, title in _CASES.items():
        root.append(_case(found, title, by_harm[harm]))
    return document(root)


def _case(found: Comparison, title: str, some: list[Divergence]) -> Element:
    case = Element("testcase", classname=sound(f"{found.left_run} {found.right_run}"), name=title)
    if some:
        told = SubElement(case, "failure", type="different", message=sound(some[0].explanation))
        told.text = sound("\n".join(one.explanation for one in some))
    elif found.distance == 0 and found.unknown:
        told = SubElement(case, "error", type="cannot tell", message=sound(found.unknown[0]))
        told.text = sound("\n".join(found.unknown))
    return case

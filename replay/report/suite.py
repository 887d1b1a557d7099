"""A comparison as JUnit XML: one test case for the pair, one for each kind of harm in it.

So a build server shows "no write differs" as a test that passed or failed, over the builds. Where
nobody can tell, since something was not kept, the test is an error: it did not pass.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    by_harm = {harm: _of(found, harm) for harm in _CASES}
    failures = sum(bool(some) for some in by_harm.values())
    errors = sum(not some and bool(_unknown(found, harm)) for harm, some in by_harm.items())
    root = Element(
        "testsuite",
        name=sound(name),
        tests=str(len(_CASES)),
        failures=str(failures),
        errors=str(errors),
        skipped="0",
    )
    for harm, title in _CASES.items():
        root.append(_case(found, title, by_harm[harm], _unknown(found, harm)))
    return document(root)


def _of(found: Comparison, harm: Harm) -> Sequence[Divergence]:
    """Give what a test tells of; of writes all, also where a policy decided otherwise about one."""
    if harm == Harm.WRITE:
        return found.writes
    return [one for one in found.divergences if one.harm == harm]


def _unknown(found: Comparison, harm: Harm) -> Sequence[str]:
    return found.unknown_of(harm) if found.distance else found.unknown


def _case(
    found: Comparison, title: str, some: Sequence[Divergence], unknown: Sequence[str]
) -> Element:
    case = Element("testcase", classname=sound(f"{found.left_run} {found.right_run}"), name=title)
    if some:
        told = SubElement(case, "failure", type="different", message=sound(some[0].explanation))
        told.text = sound("\n".join(one.explanation for one in some))
    elif unknown:
        told = SubElement(case, "error", type="cannot tell", message=sound(unknown[0]))
        told.text = sound("\n".join(unknown))
    return case

"""Looks for what makes a case worthless though it can be read.

No planner is imported for it: names are looked up in the source text of their modules.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from importlib.machinery import PathFinder
from itertools import pairwise
from pathlib import Path

from replay.case import Case
from replay.case.expected import CallPattern, Expected, patterns
from replay.case.schema import holds, patterns_in
from replay.case.searching import does_not_end
from replay.case.slowness import may_hang
from replay.case.writing import LIVE_MODEL
from replay.caserun.secrets import secrets_in, secrets_in_comments, secrets_in_name
from replay.declared import Declared

_ITSELF = 2  # the tools of the shortest way round: the same one twice


def lint_case(case: Case, text: str = "", *, file: str = "") -> list[str]:
    """Return what is wrong with a case, each in a sentence.

    Args:
        case: The case.
        text: Its file's text, for what its comments hold.
        file: What that file is called.
    """
    return [
        *_first_line(case, text),
        *_secrets(case, text, file),
        *_names(case),
        *_tools(case),
        *_vacuous(case),
        *_contradictions(case),
        *_slow(case),
    ]


def stale(case: Case, declared: Declared) -> list[str]:
    """Return in what the code has outgrown a case, each in a sentence.

    Args:
        case: The case.
        declared: What the planner's code declares now.
    """
    if case.source is None:
        return []
    found = []
    for tool, shape in case.source.tools.items():
        now = declared.tools.get(tool)
        if declared.tools and tool not in declared.tools:
            found.append(f"stale: {tool} is not declared any more")
        elif now is not None and now != shape:
            found.append(f"stale: {tool} takes other arguments than when the case was made")
    for name, version in case.source.versions.items():
        now = declared.versions.get(name)
        if now is not None and now != version:
            found.append(f"stale: {name} is {now!r}, and the case was made with {version!r}")
    return found


def _first_line(case: Case, text: str) -> Iterator[str]:
    said = text.partition("\n")[0]
    if text and case.needs_live_model and not said.startswith(LIVE_MODEL.partition(":")[0]):
        yield f"it needs a live model, and its first line does not say so: {LIVE_MODEL}"


def _secrets(case: Case, text: str, file: str) -> Iterator[str]:
    found = secrets_in(case)
    for secret in found:
        yield f"{secret.pointer or '/'} holds what looks like a secret ({secret.kind}): redact it"
    if not found and (hidden := secrets_in_comments(text)):
        yield f"a comment holds what looks like a secret ({hidden[0].kind}): redact it"
    for secret in secrets_in_name(file)[:1]:
        yield f"the file's name holds what looks like a secret ({secret.kind}): rename it"


def _names(case: Case) -> Iterator[str]:
    named = {
        "planner": case.planner,
        "source.planner": case.source.planner if case.source else None,
        "model.script": getattr(case.model, "script", None),
    }
    named |= {f"expected.invariants[{n}]": name for n, name in enumerate(case.expected.invariants)}
    for place, name in named.items():
        if name is not None and (wrong := _unknown(name)):
            yield f"{place} is {name!r}: {wrong}"


def _unknown(name: str) -> str | None:
    """Say why ``MOD:OBJ`` cannot be there; None where it can."""
    module, _, path = name.partition(":")
    found: list[str] | None = [str(Path.cwd()), *(entry or "." for entry in sys.path)]
    spec = None
    for depth in range(1, module.count(".") + 2):
        full = ".".join(module.split(".")[:depth])
        spec = PathFinder.find_spec(full, found) if found is not None else None
        if spec is None:
            return f"there is no module {full!r}"
        places = spec.submodule_search_locations
        found = list(places) if places is not None else None
    origin = Path(spec.origin) if spec is not None and spec.origin else None
    if origin is None or origin.suffix != ".py":
        return None
    first = path.split(".")[0]
    try:
        defined = _defined(ast.parse(origin.read_bytes()))
    except (OSError, SyntaxError, ValueError, RecursionError) as error:
        return f"{module} cannot be read: {error}"
    if first in defined or "*" in defined or "__getattr__" in defined:
        return None
    return f"{module} defines no {first!r}"


def _defined(node: ast.AST) -> set[str]:
    """The names that a module may define at its top, also under conditions; ``*`` for any."""
    names: set[str] = set()
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(child.name)
        elif isinstance(child, (ast.Import, ast.ImportFrom)):
            names |= {(a.asname or a.name).split(".")[0] for a in child.names}
        elif isinstance(child, ast.Name):
            names.add(child.id)
        else:
            names |= _defined(child)
    return names


def _tools(case: Case) -> Iterator[str]:
    offered = {tool.name for tool in case.tools}
    known = offered | {fixture.tool for fixture in case.observations}
    if case.source is not None and not offered:
        known |= case.source.tools.keys()  # as the run or the planner's code declared them
        known |= {case.reason.tool} if case.reason and case.reason.tool else set()
    for fixture in case.observations:
        if offered and fixture.tool not in offered:
            yield f"observation {fixture.id}: {fixture.tool} is not among the tools"
    expected = case.expected
    named = [(p.tool, "required_tools") for p in patterns(expected.required_tools)]
    named += [(tool, "call_limits") for tool in expected.call_limits]
    named += [(rule.tool, "arguments") for rule in expected.arguments]
    named += [(p.tool, "forbidden_tools") for p in patterns(expected.forbidden_tools) if offered]
    for tool, field in named:
        if tool not in known:
            yield f"expected.{field} names {tool}, which the planner is not offered"


def _vacuous(case: Case) -> Iterator[str]:
    expected = case.expected
    asks = (
        expected.required_tools,
        expected.arguments,
        expected.evidence,
        expected.consumed,
        expected.invariants,
        expected.answer is not None and expected.answer.required,
    )
    if not any(asks):
        yield (
            "a planner that does nothing would pass: name in expected.consumed the observations"
            " that it must have been given, or require an answer or a tool"
        )


def _slow(case: Case) -> Iterator[str]:
    for place, pattern in dict.fromkeys(_regular_expressions(case.expected)):
        if may_hang(pattern):
            yield (
                f"{place} has {pattern!r}, which repeats a repetition: where an "
                "answer does not fit, looking for it may take for ever"
            )
        elif does_not_end(pattern):
            yield (
                f"{place} has {pattern!r}, which can be laid over a text in so many ways that "
                "looking for it is given up where an answer does not fit"
            )


def _regular_expressions(expected: Expected) -> Iterator[tuple[str, str]]:
    """Yield each regular expression, and the field that it stands in."""
    if expected.answer is not None:
        yield from (("expected.answer.matches", one) for one in expected.answer.matches)
        yield from (("expected.answer.schema", p) for p in patterns_in(expected.answer.json_schema))
    for rule in expected.arguments:
        yield from (("expected.arguments", one) for one in patterns_in(rule.json_schema))


def _contradictions(case: Case) -> Iterator[str]:
    """Find what no planner can do."""
    expected = case.expected
    barred = list(_barred(expected))
    for wanted in patterns(expected.required_tools):
        field = next((f for p, f in barred if p.tool == wanted.tool and _covers(p, wanted)), None)
        if field is not None:
            yield f"no planner can pass: {wanted.tool} is required, and expected.{field} bars it"
    for rule in expected.arguments:
        field = next((f for p, f in barred if p.tool == rule.tool and _any(p)), None)
        if field is not None:
            yield (
                f"no planner can pass: expected.arguments wants a call of {rule.tool},"
                f" and expected.{field} bars it"
            )
    if case.budgets.calls == 0 and (expected.required_tools or expected.arguments):
        yield "no planner can pass: a call is required, and budgets.calls is 0"
    yield from _circles(expected)


def _circles(expected: Expected) -> Iterator[str]:
    """Find orders that go round: not all of the tools on the way can be called."""
    needed = {pattern.tool for pattern in patterns(expected.required_tools)}
    needed |= {rule.tool for rule in expected.arguments}
    left = set(expected.order)
    for among in (needed, {tool for pair in expected.order for tool in pair}):
        while circle := _circle([p for p in expected.order if p in left and among.issuperset(p)]):
            left -= set(pairwise(circle))
            told = "expected.order goes round: " + " before ".join(circle)
            so = "so not all of them may be called"
            if len(circle) == _ITSELF:
                told = f"expected.order says that {circle[0]} comes before itself"
                so = "so it may not be called"
            sure = needed.issuperset(circle)
            yield f"no planner can pass: {told}" if sure else f"{told}, {so}"


def _circle(order: Sequence[tuple[str, str]]) -> list[str]:
    """Some tools of which each comes before the next and the last is the first; else nothing."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for first, second in order:
        sorter.add(second, first)
    try:
        sorter.prepare()
    except CycleError as error:
        found: list[str] = error.args[1][1:]
        named = [tool for pair in order for tool in pair]
        start = min(range(len(found)), key=lambda n: named.index(found[n]))
        return [*found[start:], *found[: start + 1]]
    return []


def _barred(expected: Expected) -> Iterator[tuple[CallPattern, str]]:
    """Calls that must not be made, and the field that says so."""
    yield from ((pattern, "forbidden_tools") for pattern in patterns(expected.forbidden_tools))
    for tool, most in expected.call_limits.items():
        if most == 0:
            yield CallPattern(tool=tool), "call_limits"


def _any(pattern: CallPattern) -> bool:
    """Whether each call of the tool is one of the pattern's."""
    return not pattern.arguments and pattern.key is None


def _covers(pattern: CallPattern, wanted: CallPattern) -> bool:
    """Whether each call that is wanted is one of the pattern's."""
    if pattern.key not in (None, wanted.key):
        return False
    return holds(wanted.arguments or {}, pattern.arguments or {})

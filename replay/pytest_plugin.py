"""Collects ``*.case.yaml`` files and runs each as a test.

pytest imports this in every run of every project that has tracekit installed, so nothing but pytest
is imported before the first case file is met.
"""

from __future__ import annotations

import argparse
from collections import OrderedDict
from collections.abc import Generator, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from replay.case import Case
    from replay.caserun import CaseRunner
    from tracekit.errors import TracekitError

_SUFFIX = ".case.yaml"
_SHORT = ("planner", "repeat", "live")
"""Options with a name of their own beside the long one, where nobody else has it."""
_HELP = ("-h", "--help")
_VALUED = ("--planner", "--repeat")
_DEST = {name: f"tracekit_{name}" for name in (*_SHORT, "timeout")}
_MOST_RUNNERS = 4
"""Planners that stand ready at the same time; each is a process."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of cases under the names that nobody else has."""
    group = parser.getgroup("tracekit", "tracekit cases (*.case.yaml)")
    for name, given in _OPTIONS.items():
        group.addoption(f"--case-{name}", dest=_DEST[name], **given)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, Any, Any]:
    """Add the short names that are asked for, once it is known which the project gives to others.

    A name that is not asked for stays free: a conftest met during the collection may have it.
    """
    _forget_values(early_config, args)
    loaded = yield
    given = {argument.partition("=")[0] for argument in args}
    for name in _SHORT:
        if given & {f"--{name}", *_HELP}:
            _add_short(parser, name)
    return loaded


def _add_short(parser: pytest.Parser, name: str) -> None:
    group = parser.getgroup("tracekit")
    given = {**_OPTIONS[name], "help": f"the same as --case-{name}"}
    before = list(group.options)
    try:
        group.addoption(f"--{name}", dest=_DEST[name], **given)
        parser.parse_known_args([])
    except (ValueError, argparse.ArgumentError):
        group.options[:] = before
    except (pytest.UsageError, SystemExit):
        return  # about other options, which are told of when all is read


def _forget_values(config: pytest.Config, args: Sequence[str]) -> None:
    """Take the values of short options for no files: so far nobody knows that they are none."""
    files = config.known_args_namespace.file_or_dir
    for option, value in pairwise(args):
        if option in _VALUED and value in files:
            files.remove(value)


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


_OPTIONS: dict[str, dict[str, Any]] = {
    "planner": {
        "metavar": "MOD:OBJ",
        "help": "planner to run cases with; each case's own where not given",
    },
    "repeat": {
        "type": _count,
        "default": 1,
        "metavar": "N",
        "help": "run each case N times, or as often as it says itself if that is more; it has to "
        "pass every time",
    },
    "live": {
        "action": "store_true",
        "help": "ask a live model wherever a planner of a case asks one: OPENAI_BASE_URL, "
        "OPENAI_API_KEY",
    },
    "timeout": {
        "type": float,
        "default": 120.0,
        "metavar": "S",
        "help": "seconds a planner may take each time",
    },
}


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a case file."""
    if file_path.name.endswith(_SUFFIX):
        found: CaseFile = CaseFile.from_parent(parent, path=file_path)
        return found
    return None


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End the planners' processes."""
    runners = session.config.stash.get(_RUNNERS, None)
    if runners is not None:
        runners.close()


class CaseFile(pytest.File):
    """A file that holds one case."""

    def collect(self) -> Iterator[pytest.Item]:
        """Read the case; a malformed one is an error of the collection."""
        from replay.case import read_case
        from tracekit.errors import CaseError

        try:
            case = read_case(self.path)
        except CaseError as error:
            raise self.CollectError(str(error)) from error
        yield CaseItem.from_parent(self, name=case.name, case=case)


class CaseNotPassed(Exception):  # its text is the whole report
    """A case did not pass."""


class CaseItem(pytest.Item):
    """One case as a test."""

    def __init__(self, *, case: Case, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.case = case

    def runtest(self) -> None:
        """Run the case; it passes where the planner passes it every time."""
        from replay.caserun.wording import describe_result

        planner = self.config.getoption(_DEST["planner"]) or self.case.planner
        if planner is None:
            raise CaseNotPassed(
                f"{self.case.name}: no planner to run; name one with --planner MOD:OBJ,"
                " or in the case as 'planner'"
            )
        runner = _runners(self.config).get(planner)
        times = max(self.config.getoption(_DEST["repeat"]), self.case.repeat)
        for number in range(1, times + 1):
            result = runner.run(self.case)
            if not result.passed:
                which = f"in run {number} of {times}: " if times > 1 else ""
                raise CaseNotPassed(which + describe_result(result, path=self._shown_path()))

    def _shown_path(self) -> str:
        try:
            return str(self.path.relative_to(self.config.invocation_params.dir))
        except ValueError:
            return str(self.path)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Show what is wrong, without a traceback of tracekit."""
        from tracekit.errors import TracekitError

        if isinstance(excinfo.value, (CaseNotPassed, TracekitError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Name the case in the report."""
        return self.path, None, self.name


class _Runners:
    """The planners that stand ready, the one used last at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._ready: OrderedDict[str, CaseRunner] = OrderedDict()
        self._broken: dict[str, TracekitError] = {}

    def get(self, planner: str) -> CaseRunner:
        """Return the runner of a planner, and start it where it is not ready yet."""
        from tracekit.errors import TracekitError

        if planner in self._broken:
            raise self._broken[planner]
        if planner not in self._ready:
            while len(self._ready) >= _MOST_RUNNERS:
                self._ready.popitem(last=False)[1].__exit__(None, None, None)
            try:
                self._ready[planner] = self._start(planner)
            except TracekitError as error:
                self._broken[planner] = error
                raise
        self._ready.move_to_end(planner)
        return self._ready[planner]

    def _start(self, planner: str) -> CaseRunner:
        from replay.caserun import CaseRunner
        from replay.isolation import Limits
        from replay.replayer import ReplayOptions

        options = ReplayOptions(
            model="live" if self._config.getoption(_DEST["live"]) else "recorded",
            path=(str(self._config.rootpath),),
            limits=Limits(wall_s=self._config.getoption(_DEST["timeout"])),
        )
        return CaseRunner(planner, options=options).__enter__()

    def close(self) -> None:
        """End the planners' processes."""
        while self._ready:
            self._ready.popitem()[1].__exit__(None, None, None)


_RUNNERS = pytest.StashKey[_Runners]()


def _runners(config: pytest.Config) -> _Runners:
    return config.stash.setdefault(_RUNNERS, _Runners(config))

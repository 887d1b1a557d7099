"""The one direction of imports: the rows in pyproject.toml, and what `import tracekit` may load."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
PYPROJECT = ROOT / "pyproject.toml"
PACKAGES = ("tracekit", "replay")
# The packages' own public names, which an import-linter layer cannot hold beside their modules.
PUBLIC_NAMES = {"tracekit": 6, "replay": 10}
TOP = ("tracekit.cli", "replay.pytest_plugin")
# `python -m tracekit`: a call of the command line and nothing else.
ENTRY = "tracekit.__main__"
LINT = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"


def _rows() -> dict[str, int]:
    """Read the row of each module: 1 is imported by all, 11 by none."""
    contracts = tomllib.loads(PYPROJECT.read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["id"] == "rows")
    rows = dict(PUBLIC_NAMES)
    for number, layer in zip((11, 9, 8, 7, 6, 5, 4, 3, 2, 1), layers, strict=True):
        for name in layer.replace("|", ":").split(":"):
            rows[name.strip(" ()")] = number
    return rows


def _row_name(module: str) -> str:
    """Cut a module's name to the part that has a row: `tracekit.cli.runs` is in that of `cli`."""
    return ".".join(module.split(".")[:2])


def _modules() -> Iterator[str]:
    for package in PACKAGES:
        for path in (ROOT / package).iterdir():
            if path.suffix == ".py" and path.stem not in ("__init__", "__main__"):
                yield f"{package}.{path.stem}"
            elif path.is_dir() and any(path.rglob("*.py")):
                yield f"{package}.{path.name}"


def _imports() -> Iterator[tuple[str, str]]:
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    for importer in sorted(graph.modules):
        for imported in sorted(graph.find_modules_directly_imported_by(importer)):
            yield importer, imported


def _lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LINT], cwd=folder, capture_output=True, text=True, check=False
    )


def test_every_module_has_a_row() -> None:
    assert sorted(set(_modules()) - set(_rows())) == [], (
        "give a new module its row in [tool.importlinter] of pyproject.toml"
    )


def test_no_module_imports_from_a_row_below_its_own() -> None:
    rows = _rows()
    wrong = [
        f"{importer} imports {imported}"
        for importer, imported in _imports()
        if rows.get(_row_name(imported), 0) > rows.get(_row_name(importer), 99)
    ]
    assert wrong == []


def test_nothing_imports_the_command_line_or_the_pytest_plugin() -> None:
    assert [
        f"{importer} imports {imported}"
        for importer, imported in _imports()
        if _row_name(imported) in TOP and _row_name(importer) not in (_row_name(imported), ENTRY)
    ] == []


def test_the_import_contract_holds() -> None:
    result = _lint(ROOT)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("tracekit.canonical", "tracekit.store"),
        ("tracekit.testing", "replay.diff"),
        ("replay.diff", "replay.distill"),
        ("replay.gates", "tracekit.cli"),
        ("tracekit.errors", "tracekit.canonical"),  # which imports errors: a cycle inside a row
    ],
)
def test_the_import_contract_sees_a_breach(tmp_path: Path, importer: str, imported: str) -> None:
    for name in ("tracekit", "replay", *_rows()):
        path = tmp_path.joinpath(*name.split("."))
        path = path / "__init__.py" if name in PACKAGES else path.with_suffix(".py")
        path.parent.mkdir(exist_ok=True)
        path.touch()
    (tmp_path / "pyproject.toml").write_text(PYPROJECT.read_text("utf-8"), "utf-8")
    (tmp_path / "tracekit" / "canonical.py").write_text("import tracekit.errors\n", "utf-8")
    assert _lint(tmp_path).returncode == 0

    with tmp_path.joinpath(*importer.split(".")).with_suffix(".py").open("a") as source:
        source.write(f"import {imported}\n")
    result = _lint(tmp_path)

    assert result.returncode == 1
    assert importer.rpartition(".")[2] in result.stdout


@pytest.mark.parametrize(
    "heavy", ["duckdb", "pyarrow", "click", "opentelemetry.sdk", "numpy", "scipy", "replay"]
)
def test_importing_tracekit_loads_nothing_heavy(heavy: str) -> None:
    code = f"import sys\nfrom tracekit import *\nsys.exit({heavy!r} in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, ""), f"import tracekit loads {heavy}"


@pytest.mark.parametrize("code", ["import tracekit", "from tracekit.cli import main"])
def test_what_is_not_used_is_not_loaded(code: str) -> None:
    code = f"import sys\n{code}\nsys.exit('pydantic' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_every_public_name_is_there_when_it_is_asked_for() -> None:
    code = "import tracekit\nassert all(getattr(tracekit, name) for name in tracekit.__all__)"
    code += "\nassert tracekit.conditions.now_ns()\nassert not hasattr(tracekit, 'other')"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")

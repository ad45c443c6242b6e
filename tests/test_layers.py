"""Imports point down only: the layers of docs/DESIGN.md, enforced on the source text.

interface ─▶ operations ─▶ controller ─▶ engine ─▶ copier ─▶ cluster ─▶ wire ─▶ model
    └─────▶ lab ─▶ model
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "heliograph"
LAYERS = ("model", "wire", "cluster", "copier", "engine", "controller", "operations", "interface")
MAY_IMPORT = {layer: frozenset(LAYERS[: height + 1]) for height, layer in enumerate(LAYERS)}
MAY_IMPORT["interface"] |= {"lab"}
MAY_IMPORT["lab"] = frozenset({"lab", "model"})
INPUT_OUTPUT = frozenset({"socket", "asyncio", "selectors", "ssl", "subprocess", "uvloop"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    file: str
    line: int
    module: str

    @property
    def layer(self) -> str:
        """The layer that imports."""
        return self.file.partition("/")[0]

    @property
    def package(self) -> str:
        return self.module.partition(".")[0]

    @property
    def imported_layer(self) -> str | None:
        """The layer of ours that is imported; None for other packages and for the package itself."""
        parts = self.module.split(".")
        return parts[1] if parts[0] == "heliograph" and len(parts) > 1 and parts[1] in MAY_IMPORT else None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: imports {self.module}"


def imports_of(file: str, text: str) -> Iterator[Import]:
    for node in ast.walk(ast.parse(text, file)):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = absolute(file, node)
            modules = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (Import(file=file, line=node.lineno, module=module) for module in modules)


def absolute(file: str, node: ast.ImportFrom) -> str:
    """The dotted name that a `from` starts at; a relative one is counted from the file's own package."""
    if not node.level:
        return node.module or ""
    package = ["heliograph", *Path(file).parent.parts]
    return ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])


def all_imports() -> list[Import]:
    return [
        found
        for path in sorted(SOURCE.rglob("*.py"))
        for found in imports_of(path.relative_to(SOURCE).as_posix(), path.read_text(encoding="utf-8"))
    ]


def upward(imports: list[Import]) -> list[Import]:
    return [
        found
        for found in imports
        if found.imported_layer and found.imported_layer not in MAY_IMPORT.get(found.layer, frozenset())
    ]


def refuse(found: list[Import]) -> None:
    if found:
        pytest.fail("\n".join(str(one) for one in found), pytrace=False)


def test_every_folder_is_a_layer() -> None:
    folders = {
        path.parent.relative_to(SOURCE).parts[0] for path in SOURCE.rglob("*.py") if path.parent != SOURCE
    }
    assert folders <= set(MAY_IMPORT)


def test_imports_point_down_only() -> None:
    refuse(upward(all_imports()))


def test_the_model_imports_the_standard_library_only() -> None:
    allowed = sys.stdlib_module_names | {"heliograph"}
    refuse([found for found in all_imports() if found.layer == "model" and found.package not in allowed])


def test_only_the_engine_imports_pyspark() -> None:
    refuse([f for f in all_imports() if f.package in ("pyspark", "py4j") and f.layer != "engine"])


def test_wire_does_no_input_or_output() -> None:
    refuse([f for f in all_imports() if f.layer in ("wire", "model") and f.package in INPUT_OUTPUT])


def test_what_operators_want_is_decided_without_input_or_output() -> None:
    may = {"operations/looking.py", "operations/recording.py", "operations/event_reading.py"}
    found = [f for f in all_imports() if f.layer == "operations" and f.file not in may]
    refuse([f for f in found if f.package in INPUT_OUTPUT])


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("model/a.py", "from heliograph.wire import batch"),
        ("model/a.py", "from heliograph import wire"),
        ("model/deep/a.py", "from ... import cluster"),
        ("wire/a.py", "def f():\n    import heliograph.copier.loop"),
        ("engine/a.py", "from ..lab import cluster"),
        ("lab/a.py", "from heliograph.cluster import properties"),
    ],
)
def test_an_upward_import_is_found_however_it_is_written(file: str, text: str) -> None:
    assert len(upward(list(imports_of(file, text)))) == 1

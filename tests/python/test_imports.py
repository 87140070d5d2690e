"""The modules of the Python package import each other without a circle, and never inside a function.

The edges are read from the source by `ast`. Imports below `if TYPE_CHECKING:` are left out: Python does not execute them.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pilum

ROOT = Path(pilum.__file__).parent
LAZY = {
    "duckdb",
    "fsspec",
    "html",
    "kerchunk",
    "logging",
    "numcodecs",
    "numpy",
    "pandas",
    "polars",
    "pyarrow",
    "pyspark",
    "tqdm",
}
"""Packages that a function may import: they are optional, or slow to load in a program that does not use them."""

ON_DEMAND = {
    "pilum.pyarrow_dataset",
    "pilum.spark.source",
    "pilum.spark.source_writer",
    "pilum.spark.streaming_source",
}
"""Modules that a function may import: they define subclasses of classes of optional packages, which some releases lack."""


def module_name(path: Path) -> str:
    parts = ("pilum", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}
ENGINE = "pilum._pilum"


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def executed_imports(tree: ast.AST, in_function: bool = False) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Give every import that Python may execute, and whether it is inside a function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node, in_function
        elif is_type_checking(node):
            for other in node.orelse:
                yield from executed_imports(other, in_function)
        else:
            is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from executed_imports(node, in_function or is_function)


def names_of(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return the modules that an import loads: `from pilum import _pilum` loads a module of the package."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    assert node.level == 0, "imports inside the package are written in full"
    assert node.module is not None
    whole = [f"{node.module}.{alias.name}" for alias in node.names]
    return [name if name in MODULES or name == ENGINE else node.module for name in whole]


def edges() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, path in MODULES.items():
        targets = {target for node, _ in executed_imports(ast.parse(path.read_text())) for target in names_of(node)}
        found[name] = {target for target in targets if target in MODULES} - {name}
    return found


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules of one circle, or nothing."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for target in sorted(graph[name]):
            if found := visit(target, [*path, name]):
                return found
        done.add(name)
        return []

    return next((found for name in sorted(graph) if (found := visit(name, []))), [])


def test_the_package_has_no_circle_of_modules():
    assert circle(edges()) == []


def test_a_circle_would_be_found():
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_functions_import_nothing_but_optional_packages():
    inside = {
        f"{name}, line {node.lineno}: {target}"
        for name, path in MODULES.items()
        for node, in_function in executed_imports(ast.parse(path.read_text()))
        for target in names_of(node)
        if in_function and target.partition(".")[0] not in LAZY and target not in ON_DEMAND
    }
    assert inside == set()


def test_the_imports_that_were_read_are_those_that_python_does():
    """The reading is not blind: the modules that `import pilum` loads are all reached by the edges."""
    graph = edges()
    reached, todo = set(), ["pilum"]
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += graph[name] - ON_DEMAND
    script = "import sys, pilum; print(*sorted(m for m in sys.modules if m.split('.')[0] == 'pilum'))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert set(loaded) - {ENGINE} == reached

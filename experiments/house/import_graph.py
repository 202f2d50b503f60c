"""Who imports whom in a Python package, read from its source.

Imports inside functions count, and imports under TYPE_CHECKING do not. Importing a name from a package counts as an
import of the module of that name, where there is one, and of the package elsewhere.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

Graph = Mapping[str, set[str]]


@dataclass(frozen=True)
class Import:
    """One module imports another: the top level of a file does it, or (lazily) a function when it is called."""

    importer: str
    imported: str
    lazy: bool


def module_paths(package: Path) -> dict[str, Path]:
    """The modules of a package by their names relative to it, such as `noise.law`; a package is its `__init__`."""
    return {".".join(path.relative_to(package).with_suffix("").parts): path for path in sorted(package.rglob("*.py"))}


def imports_of(package: Path) -> list[Import]:
    """All imports of the package's modules by each other."""
    modules = module_paths(package)
    return [
        Import(name, imported, lazy)
        for name, path in modules.items()
        for statement, lazy in _statements(ast.parse(path.read_text()), lazy=False)
        for imported in _targets(name, statement, package.name, modules.keys())
        if imported != name
    ]


def _statements(node: ast.AST, lazy: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """The import statements at or below a node, and whether they are inside a function."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node, lazy
    below: Iterable[ast.AST] = ast.iter_child_nodes(node)
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        below = node.orelse
    inside = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    for child in below:
        yield from _statements(child, inside)


def _targets(
    module: str, statement: ast.Import | ast.ImportFrom, package: str, modules: Iterable[str]
) -> Iterator[str]:
    """The modules that a statement imports."""
    if isinstance(statement, ast.Import):
        names = [(alias.name, "") for alias in statement.names]
    else:
        base = statement.module or ""
        if statement.level:  # a package's own name ends with __init__, so one level always cuts the last part
            parts = [package, *module.split(".")]
            base = ".".join([*parts[: len(parts) - statement.level], *([base] if base else [])])
        names = [(base, alias.name) for alias in statement.names]
    for base, name in names:
        if base != package and not base.startswith(f"{package}."):
            continue
        inside = base.removeprefix(package).removeprefix(".")
        candidates = [_joined(inside, name), _joined(inside, name, "__init__")]
        candidates += [inside, _joined(inside, "__init__")]
        yield next(each for each in candidates if each in modules)


def _joined(*parts: str) -> str:
    return ".".join(part for part in parts if part)


def graph_of(imports: Iterable[Import]) -> dict[str, set[str]]:
    """The imported modules by importer."""
    graph: dict[str, set[str]] = {}
    for each in imports:
        graph.setdefault(each.importer, set()).add(each.imported)
    return graph


def cycles(graph: Graph) -> list[list[str]]:
    """The groups of two or more nodes that all reach each other."""
    reach = {node: reached(graph, node) for node in graph}
    groups = {tuple(sorted(other for other in reach[node] if node in reach.get(other, ()))) for node in graph}
    return sorted(list(group) for group in groups if len(group) > 1)


def reached(graph: Graph, start: str) -> set[str]:
    """The nodes that can be reached from a node in one step or more."""
    reached, waiting = set[str](), [start]
    while waiting:
        for other in graph.get(waiting.pop(), ()):
            if other not in reached:
                reached.add(other)
                waiting.append(other)
    return reached

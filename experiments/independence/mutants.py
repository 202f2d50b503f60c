"""How strong the fuzzer is: every check of the inspector is taken out in turn, and the fuzzer has to notice.

    python experiments/independence/mutants.py --log mutants.jsonl --graphs 4000 [--share 0/2] [--only TEXT]

A mutant is a copy of the package with one check less (`sites`, `tables`). The fuzzer runs on it, with the operators in
whose rules the check stands drawn most of the time, until a graph is found that the mutant gets wrong and the inspector
as it is does not. The log has one line for each mutant and is read again: what is in it is not repeated.
"""

import argparse
import ast
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "src"
PACKAGE = Path("soundsmooth", "models", "independence")
#: The modules of the package that the argument for ONNX graphs stands in.
MODULES = ("extents", "values", "flow", "onnx_node", "onnx_graph", "onnx_rules", "onnx_runtime", "onnx_sizes")
#: More operators than these, and a mutant is fuzzed with all of them.
MOST_FOCUS = 45
#: How a mutant may end.
FOUND, MISSED, BROKEN = "found", "missed", "broken"


@dataclass(frozen=True)
class Mutant:
    """One check less: its name, what it does to a copy of the sources, and the operators that it is about."""

    name: str
    patch: Callable[[Path], None]
    focus: tuple[str, ...] = ()


# Checks in the sources. -------------------------------------------------------------------------------------------


def sites() -> Iterator[Mutant]:
    """Every condition of a `raise Unproved`, or of giving up with None, that can be taken out."""
    reach = operators_by_function()
    for module in MODULES:
        tree = ast.parse((SOURCE / PACKAGE / f"{module}.py").read_text())
        for function, node in _checks(tree):
            for label, change in _changes(node):
                where = f"{module}.{function}:{node.lineno} {label}"
                focus = tuple(sorted(reach.get((module, function), ())))
                yield Mutant(where, _rewriting(module, node.lineno, node.col_offset, change), focus)


def _checks(tree: ast.Module) -> Iterator[tuple[str, ast.If | ast.Raise]]:
    """The statements that can be changed, each with the outermost function or class it stands in."""
    for top in tree.body:
        if isinstance(top, ast.FunctionDef | ast.ClassDef):
            for node in ast.walk(top):
                if isinstance(node, ast.If) and _gives_up(node.body):
                    yield top.name, node
            yield from ((top.name, node) for node in _other_raises(top))


def _gives_up(body: list[ast.stmt]) -> bool:
    """`raise Unproved(…)` or `return None`, and nothing else."""
    if len(body) != 1:
        return False
    (only,) = body
    if isinstance(only, ast.Return):
        return isinstance(only.value, ast.Constant) and only.value.value is None
    return _raises(only)


def _raises(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call)
        and isinstance(node.exc.func, ast.Name)
        and node.exc.func.id == "Unproved"
    )


def _other_raises(top: ast.FunctionDef | ast.ClassDef) -> Iterator[ast.Raise]:
    """Raises with other statements beside them; not the last of a function, without which it has no result."""
    for node in ast.walk(top):
        for body in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if not isinstance(body, list) or (isinstance(node, ast.If) and body is node.body and _gives_up(body)):
                continue
            last = isinstance(node, ast.FunctionDef)
            yield from (one for one in (body[:-1] if last else body) if isinstance(one, ast.Raise) and _raises(one))


def _changes(node: ast.If | ast.Raise) -> Iterator[tuple[str, Callable[[ast.AST], ast.AST]]]:
    """Ways to take a check out: an alternative of its condition, the whole condition, or the raise."""
    if isinstance(node, ast.Raise):
        yield "without its raise", lambda old: ast.Pass()
    elif isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.Or):
        for number, part in enumerate(node.test.values):
            yield f"without `{ast.unparse(part)}`", _without(number)
    else:
        yield f"without `{ast.unparse(node.test)}`", _never


def _without(number: int) -> Callable[[ast.AST], ast.AST]:
    """The condition less one alternative; what stands on it later must not fail, so it becomes False in its place."""

    def change(old: ast.AST) -> ast.AST:
        assert isinstance(old, ast.If)
        assert isinstance(old.test, ast.BoolOp)
        old.test.values[number] = ast.Constant(False)
        return old

    return change


def _never(old: ast.AST) -> ast.AST:
    assert isinstance(old, ast.If)
    old.test = ast.Constant(False)
    return old


def _rewriting(module: str, line: int, column: int, change: Callable[[ast.AST], ast.AST]) -> Callable[[Path], None]:
    """A patch that changes the statement at one place of a module."""

    class Change(ast.NodeTransformer):
        def generic_visit(self, node: ast.AST) -> ast.AST:
            here = isinstance(node, ast.If | ast.Raise) and (node.lineno, node.col_offset) == (line, column)
            return change(node) if here else super().generic_visit(node)

    def patch(folder: Path) -> None:
        path = folder / PACKAGE / f"{module}.py"
        tree = ast.fix_missing_locations(Change().visit(ast.parse(path.read_text())))
        path.write_text(ast.unparse(tree) + "\n")

    return patch


# Which operators a function is for. -------------------------------------------------------------------------------


def operators_by_function() -> dict[tuple[str, str], set[str]]:
    """For each function the operators whose rules come to it."""
    calls, starts = _calls(), _starts()
    found: dict[tuple[str, str], set[str]] = {}
    for title, functions in starts.items():
        left, seen = list(functions), set()
        while left:
            one = left.pop()
            if one not in seen:
                seen.add(one)
                found.setdefault(one, set()).add(title)
                left += calls.get(one, ())
    return {key: names if len(names) <= MOST_FOCUS else set() for key, names in found.items()}


def _calls() -> dict[tuple[str, str], set[tuple[str, str]]]:
    """For each function or class of the modules the functions whose names it mentions."""
    trees = {module: ast.parse((SOURCE / PACKAGE / f"{module}.py").read_text()) for module in MODULES}
    tops = {
        module: {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef | ast.ClassDef)}
        for module, tree in trees.items()
    }
    where: dict[str, list[str]] = {}
    for module, names in tops.items():
        for name in names:
            where.setdefault(name, []).append(module)
    found: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for module, names in tops.items():
        for name, node in names.items():
            found[module, name] = {
                (module if module in where[other] else where[other][0], other)
                for other in _mentioned(node)
                if other in where
            }
    return found


def _mentioned(node: ast.AST) -> set[str]:
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return names | {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}


def _starts() -> dict[str, set[tuple[str, str]]]:
    """For each operator the functions that tables of the modules name for it."""
    import subject

    titles = {f"{domain}.{name}" if domain else name: name for domain, name in subject.table()}
    found: dict[str, set[tuple[str, str]]] = {title: set() for title in titles}
    for module in MODULES:
        loaded = importlib.import_module(f"{'.'.join(PACKAGE.parts)}.{module}")
        for table in (value for value in vars(loaded).values() if isinstance(value, dict)):
            for title, name in titles.items():
                for function in _functions(table.get(name)):
                    found[title].add(function)
    return found


def _functions(entry: Any) -> Iterator[tuple[str, str]]:
    """The functions in an entry of a table: itself, or what it holds; of closures also what they close over."""
    parts = [entry, *vars(entry).values()] if hasattr(entry, "__dict__") else [entry]
    for part in parts:
        if callable(part) and hasattr(part, "__qualname__"):
            yield part.__module__.rpartition(".")[2], part.__qualname__.partition(".")[0]
            for cell in getattr(part, "__closure__", None) or ():
                inside = cell.cell_contents
                yield from (
                    pair for one in (inside if isinstance(inside, tuple) else (inside,)) for pair in _functions(one)
                )


# Entries of tables. -----------------------------------------------------------------------------------------------

#: Where a loosened rule is put into its table; `{title}` is its place and `{change}` what becomes of it.
LOOSENED = """
from dataclasses import replace as _replace
from .onnx_graph import DOMAINS as _domains
_old = _domains[{domain!r}][{name!r}]
_domains[{domain!r}][{name!r}] = _replace(_old, {change})
"""
ANYTHING = "type('Anything', (frozenset,), {'__contains__': lambda self, one: True})()"


def tables() -> Iterator[Mutant]:
    """Every entry of the table of rules made less strict; to be extended with the table."""
    import subject

    from soundsmooth.models.independence.onnx_graph import DOMAINS

    for domain, name in subject.table():
        rule = DOMAINS[domain][name]
        title = f"{domain}.{name}" if domain else name
        changes = {"most": "most=None"} if rule.most is not None else {}
        changes |= {"since": "since=0"} if rule.since > 7 else {}
        changes |= {"sizes": f"sizes={ANYTHING}", "attributes": f"attributes={ANYTHING}"}
        for what, change in changes.items():
            code = LOOSENED.format(domain=domain, name=name, change=change)
            yield Mutant(f"table {title} without {what}", _appending(code), (title,))


def _appending(code: str) -> Callable[[Path], None]:
    def patch(folder: Path) -> None:
        with (folder / PACKAGE / "__init__.py").open("a") as file:
            file.write(code)

    return patch


def mutants() -> list[Mutant]:
    """All mutants: (name, patch, operators). More kinds go here."""
    return [*sites(), *tables()]


# Fuzzing one. -----------------------------------------------------------------------------------------------------


def fuzzed(source: Path, first: int, graphs: int, seed: int, focus: tuple[str, ...], patience: float) -> dict[str, Any]:
    """The result of the fuzzer on some sources, up to the first finding."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        out = Path(folder, "result.json")
        command = [
            sys.executable,
            str(HERE / "fuzz.py"),
            "--first",
            str(first),
            "--graphs",
            str(graphs),
            "--seed",
            str(seed),
        ]
        command += ["--until", "1", "--out", str(out), *(["--focus", ",".join(focus)] if focus else [])]
        subprocess.run(
            command, env={**os.environ, "PYTHONPATH": str(source)}, capture_output=True, timeout=patience, check=False
        )
        return dict(json.loads(out.read_text())) if out.exists() else {}


def verdict(mutant: Mutant, graphs: int, seed: int, patience: float) -> dict[str, Any]:
    """Whether the fuzzer notices a mutant, and after how many graphs."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        source = Path(folder)
        shutil.copytree(SOURCE / "soundsmooth", source / "soundsmooth", ignore=shutil.ignore_patterns("__pycache__"))
        mutant.patch(source)
        try:
            found = _hunted(mutant, source, graphs, seed, patience)
        except subprocess.TimeoutExpired:
            found = {"end": MISSED, "how": "out of time"}
    return {"mutant": mutant.name, "focus": len(mutant.focus), **found, "seconds": round(time.monotonic() - start, 1)}


def _hunted(mutant: Mutant, source: Path, graphs: int, seed: int, patience: float) -> dict[str, Any]:
    """Findings one after the other, until there is one that the inspector as it is does not have."""
    first = 0
    while first < graphs:
        result = fuzzed(source, first, graphs - first, seed, mutant.focus, patience)
        if not result:
            return {"end": BROKEN, "how": "the fuzzer does not start on it"}
        findings = [*result["false proofs"], *result["contradictions"]]
        if not findings:
            return {
                "end": MISSED,
                "graphs": graphs,
                **_difference(mutant, result, graphs - first, first, seed, patience),
            }
        number = findings[0]["graph"]
        plain = fuzzed(SOURCE, number, 1, seed, mutant.focus, patience)
        if not plain["false proofs"] and not plain["contradictions"]:
            kind = "false proof" if result["false proofs"] else "contradiction"
            return {"end": FOUND, "kind": kind, "graphs": number + 1, "how": findings[0]["how"]}
        first = number + 1
    return {"end": MISSED, "graphs": graphs}


def _difference(
    mutant: Mutant, result: dict[str, Any], graphs: int, first: int, seed: int, patience: float
) -> dict[str, Any]:
    """Whether the mutant says of any graph what the inspector as it is does not: if never, it may change nothing."""
    plain = fuzzed(SOURCE, first, graphs, seed, mutant.focus, patience)
    return {
        "same verdicts": plain.get("verdicts") == result["verdicts"],
        "proved": [plain.get("proved"), result["proved"]],
        "crashes": len(result["crashes of the inspector"]),
    }


def done(log: Path) -> dict[str, dict[str, Any]]:
    """What the log says, by mutant."""
    lines = log.read_text().splitlines() if log.exists() else []
    return {entry["mutant"]: entry for entry in map(json.loads, lines)}


def note(log: Path, entry: dict[str, Any]) -> None:
    """One more line, in one piece: others may write too."""
    with log.open("ab", buffering=0) as file:
        file.write((json.dumps(entry, ensure_ascii=False) + "\n").encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--graphs", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--patience", type=float, default=600, help="seconds for one run of the fuzzer")
    parser.add_argument("--share", default="0/1", help="which part of the mutants, as 0/2 and 1/2")
    parser.add_argument("--only", default="", help="mutants whose names hold this text")
    parser.add_argument("--list", action="store_true", help="print the mutants' names")
    parser.add_argument("--again", action="store_true", help="those that were missed once more")
    asked = parser.parse_args()
    part, parts = map(int, asked.share.split("/"))
    every = [one for one in mutants() if asked.only in one.name]
    if asked.list:
        return print("\n".join(f"{one.name}  [{len(one.focus)}]" for one in every))
    for mutant in every[part::parts]:
        before = done(asked.log).get(mutant.name)
        if before is None or (asked.again and before["end"] == MISSED):
            entry = verdict(mutant, asked.graphs, asked.seed, asked.patience)
            note(asked.log, entry)
            print(entry["end"], entry.get("graphs", ""), entry.get("kind", ""), mutant.name, flush=True)
    ends = [entry["end"] for name, entry in done(asked.log).items() if name in {one.name for one in every}]
    print(f"{len(ends)} of {len(every)} mutants: {ends.count(FOUND)} found, {ends.count(MISSED)} missed")


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    main()

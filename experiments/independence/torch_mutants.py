"""How strong the torch fuzzer is: every check of the inspector is taken out in turn, and the fuzzer has to notice.

    python experiments/independence/torch_mutants.py --log mutants.jsonl --modules 2000 [--only TEXT]

First the inspector as it is looks at many modules, and it is written down at which checks it gave each of them up. A
mutant then sees the modules that came to its check, or that hold its operator, and after them new ones in which the
operators are drawn whose rules come to the check, until its time is up. It is found if it claims what does not hold,
or crashes.
"""

import argparse
import ast
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import multiprocessing
import os
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
import torch_fuzz
import torch_subject
from torch import fx
from torch_cuts import cuts
from torch_equal import EQUAL
from torch_generate import generated
from torch_outside import FUNCTIONS
from torch_program import Program, built, resolved

from soundsmooth.models.independence import values

PACKAGE = "soundsmooth.models.independence"
SOURCE = Path(values.__file__).parent
#: The modules that the argument for torch graphs stands in.
MODULES = ("values", "flow", "torch_call", "torch_graph", "torch_memory", "torch_rules")
#: The classes whose instances say that there is no proof.
VERDICTS = ("Unproved", "Contradiction")
#: A function that only ONNX graphs come to, and one that gives up giving up.
OTHERS = ("integers", "_rounds_rows")
#: The claims of so many modules that came to its check are tried out on a mutant, and the outputs of so many.
CLAIMS, OUTPUTS = 150, 50


@dataclass(frozen=True)
class Mutant:
    """One check less: a module of the package, its new text, and what brings a program to it."""

    name: str
    module: str
    text: str
    lines: range
    """The check; empty where nothing is raised."""
    operators: tuple[str, ...]


# Checks in the sources. -------------------------------------------------------------------------------------------


def sites() -> Iterator[Mutant]:
    """Every `raise`, and every alternative of the condition under which it is raised, that can be taken out."""
    reach = reached() | {"write": _views()}
    for module in MODULES:
        text = (SOURCE / f"{module}.py").read_text()
        for function, line, lines, label, change in _changes(ast.parse(text)):
            if function not in OTHERS:
                operators = tuple(sorted(reach.get(function, ())))
                yield Mutant(f"{module}.{function}:{line} {label}", module, _changed(text, change), lines, operators)


Change = Callable[[ast.Module], None]


def _changes(tree: ast.Module) -> Iterator[tuple[str, int, range, str, Change]]:
    """Where each check stands, and how a tree like this one loses it."""
    for number, node in enumerate(ast.walk(tree)):
        for field in ("body", "orelse"):
            body = getattr(node, field, None)
            for place, one in enumerate(body if isinstance(body, list) else []):
                if _gives_up(one):
                    lines = range(one.lineno, (one.end_lineno or 0) + 1) if isinstance(one, ast.Raise) else range(0)
                    where = _owner(tree, one.lineno)
                    for label, change in _ways(node, number, field, place):
                        yield where, one.lineno, lines, label, change


def _owner(tree: ast.Module, line: int) -> str:
    """The outermost function, or method, around a line."""
    tops = [one for top in tree.body for one in (top.body if isinstance(top, ast.ClassDef) else [top])]
    functions = [one for one in tops if isinstance(one, ast.FunctionDef)]
    return next((one.name for one in functions if one.lineno <= line <= (one.end_lineno or 0)), "")


def _gives_up(node: ast.AST) -> bool:
    """A verdict is raised; or False is returned."""
    if isinstance(node, ast.Return):
        return isinstance(node.value, ast.Constant) and node.value.value is False
    call = node.exc if isinstance(node, ast.Raise) else None
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in VERDICTS


def _ways(node: ast.AST, number: int, field: str, place: int) -> Iterator[tuple[str, Change]]:
    """An alternative of the condition, the whole of it, or the statement."""

    def at(tree: ast.Module) -> Any:
        return list(ast.walk(tree))[number]

    def never(tree: ast.Module) -> None:
        at(tree).test = ast.Constant(False)

    def gone(tree: ast.Module) -> None:
        getattr(at(tree), field)[place] = ast.Pass()

    alone = isinstance(node, ast.If) and field == "body" and len(node.body) == 1
    if not alone:
        yield "without its statement", gone
    elif isinstance(node, ast.If) and isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.Or):
        for part, value in enumerate(node.test.values):

            def less(tree: ast.Module, part: int = part) -> None:
                at(tree).test.values[part] = ast.Constant(False)

            yield f"without `{ast.unparse(value)}`", less
    elif isinstance(node, ast.If):
        yield f"without `{ast.unparse(node.test)}`", never


def _changed(text: str, change: Change) -> str:
    tree = ast.parse(text)
    change(tree)
    return ast.unparse(ast.fix_missing_locations(tree))


def reached() -> dict[str, set[str]]:
    """For each function and method, by its name, the operators whose rules come to it."""
    bodies: dict[str, set[str]] = {}
    for module in ("values", "flow", "torch_call", "torch_rules"):
        for one in ast.walk(ast.parse((SOURCE / f"{module}.py").read_text())):
            if isinstance(one, ast.FunctionDef):
                bodies.setdefault(one.name, set()).update(_mentioned(one))
    found: dict[str, set[str]] = {}
    for operator in torch_subject.operators():
        left, seen = [torch_subject.RULES[operator.removeprefix("aten.")].flow.__qualname__.split(".")[0]], set()
        while left:
            name = left.pop()
            if name in bodies and name not in seen:
                seen.add(name)
                found.setdefault(name, set()).add(operator)
                left += bodies[name]
    return found


def _views() -> set[str]:
    """The operators whose results may lie in the memory of an operand."""
    names = [name for name in torch_subject.operators() if not name.split(".")[1].endswith("_")]
    return {name for name in names if not torch_subject.RULES[name.removeprefix("aten.")].fresh}


def _mentioned(node: ast.AST) -> set[str]:
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return names | {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}


# Entries of the table. --------------------------------------------------------------------------------------------

ENTRY = """
from dataclasses import replace as _replace
RULES[{name!r}] = _replace(RULES[{name!r}], {change})
"""


def tables() -> Iterator[Mutant]:
    """Every entry of the table made less strict. Of the operators with the same rule one is lent its operand."""
    text, lent = (SOURCE / "torch_rules.py").read_text(), set()
    for operator in torch_subject.operators():
        name = operator.removeprefix("aten.")
        flow = torch_subject.RULES[name].flow.__qualname__
        for what, change in _loosened(name):
            kind = (flow, change) if change.startswith("lends") else (name, change)
            if kind in lent:
                continue
            lent.add(kind)
            code = text + ENTRY.format(name=name, change=change)
            yield Mutant(f"table {name} {what}", "torch_rules", code, range(0), (operator,))


def _loosened(name: str) -> Iterator[tuple[str, str]]:
    rule, schema = torch_subject.RULES[name], resolved(f"aten.{name}", {})._schema  # type: ignore[attr-defined]
    if not rule.fresh and not schema.is_mutable:
        yield "is fresh", "fresh=True"
    if rule.overlaps:
        yield "does not overlap", "overlaps=False"
    tensors = [one.name for one in schema.arguments if "Tensor" in str(one.type)]
    for argument in [one for one in tensors if one != rule.lends][:1]:
        yield f"is lent its {argument}", f"lends={argument!r}"
    for number, way in enumerate(rule.only):
        for argument in way:
            ways = [{key: one for key, one in each.items() if each is not way or key != argument} for each in rule.only]
            yield f"takes any {argument} in way {number}", f"only={tuple(ways)!r}"


# What the inspector as it is says of many modules. ----------------------------------------------------------------

#: The claims about a module's values, by their names.
Signature = dict[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Entry:
    """A module, the lines at which it was given up, and what is claimed of its values."""

    number: int
    program: Program
    shape: tuple[int, ...]
    batch: int
    graph: fx.GraphModule
    lines: frozenset[tuple[str, int]]
    operators: frozenset[str]
    signature: Signature


def entry(seed: int, number: int) -> Entry | None:
    """What the inspector as it is says of a module."""
    one = _unknown(seed, number, ())
    if one is None:
        return None
    graph, shape, batch = one.graph, one.shape, one.batch
    with _raised() as lines:
        signature = claimed(torch_subject, graph, torch.ones(batch, *shape))
        for place in torch_fuzz.tried(graph, batch, number):
            for _, each in cuts(graph, place):
                torch_subject.judge(each, torch.ones(batch, *shape))
    operators = frozenset(str(node.target) for node in graph.graph.nodes)
    return replace(one, lines=frozenset(lines), operators=operators, signature=signature)


def claimed(subject: ModuleType, graph: fx.GraphModule, example: torch.Tensor) -> Signature:
    part = subject.ruled(graph)
    if part is None:
        return {}
    found = subject.claims(part, example)
    return {node.name: (value.shape, value.axis, value.outer) for node, value in found.values.items()}


@contextmanager
def _raised() -> Iterator[set[tuple[str, int]]]:
    """The places at which verdicts are made meanwhile."""
    places: set[tuple[str, int]] = set()

    def noted(self: Exception, *args: Any) -> None:
        Exception.__init__(self, *args)
        frame = sys._getframe(1)
        places.add((Path(frame.f_code.co_filename).stem, frame.f_lineno))

    values.Unproved.__init__ = noted  # type: ignore[method-assign, assignment]
    try:
        yield places
    finally:
        del values.Unproved.__init__


# One mutant. ------------------------------------------------------------------------------------------------------


class Replaced(importlib.abc.MetaPathFinder):
    """Gives one module of the package its mutated text."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != f"{PACKAGE}.{self.mutant.module}":
            return None
        file = str(SOURCE / f"{self.mutant.module}.py")
        loader = _Loader(name, file)
        loader.text = self.mutant.text
        return importlib.util.spec_from_file_location(name, file, loader=loader)


class _Loader(importlib.machinery.SourceFileLoader):
    text = ""

    def get_code(self, fullname: str) -> Any:
        return compile(self.text, self.path, "exec")


def mutated(mutant: Mutant) -> Any:
    """The fuzzer on the mutated package; for a process of its own."""
    for name in list(sys.modules):
        if name.startswith(PACKAGE) or name in ("torch_subject", "torch_claims", "torch_fuzz"):
            del sys.modules[name]
    sys.meta_path.insert(0, Replaced(mutant))
    return importlib.import_module("torch_fuzz")


def hunted(mutant: Mutant, corpus: list[Entry], seed: int, patience: float) -> dict[str, Any]:
    """Whether the fuzzer notices a mutant, and after how many modules."""
    began = time.process_time()
    fuzz = mutated(mutant)
    mine = [one for one in corpus if _concerns(mutant, one)]
    result = {"candidates": len(mine), "focus": len(mutant.operators)}
    for claims_only, most in ((True, CLAIMS), (False, OUTPUTS)):
        for tried, one in enumerate(mine[:most], 1):
            if kind := noticed(fuzz, seed, one, claims_only):
                return {"end": "found", **kind, "modules": tried, **result}
    focus = mutant.operators if len(mutant.operators) <= 45 else ()
    fresh = 0
    while time.process_time() - began < patience:
        one = _unknown(seed + 1, fresh, focus)
        fresh += 1
        if one is not None and (kind := noticed(fuzz, seed, one, False)):
            return {"end": "found", **kind, "modules": len(mine[:CLAIMS]) + fresh, **result}
    differ = [one.number for one in mine[:CLAIMS] if _differs(fuzz, one)]
    return {"end": "missed", "fresh": fresh, "differ": len(differ), "for example": differ[:3], **result}


def _concerns(mutant: Mutant, one: Entry) -> bool:
    if not mutant.lines:
        return bool(one.operators.intersection(mutant.operators))
    return any((mutant.module, line) in one.lines for line in mutant.lines)


def _unknown(seed: int, number: int, focus: tuple[str, ...]) -> Entry | None:
    """A module of which nothing is known; None if it does not run on all batches."""
    program, shape, batch = generated(seed, number, focus)
    try:
        graph = built(program, shape, batch, FUNCTIONS)
    except (IndexError, RuntimeError):
        return None
    return Entry(number, program, shape, batch, graph, frozenset(), frozenset(), {})


def noticed(fuzz: Any, seed: int, one: Entry, claims_only: bool) -> dict[str, Any] | None:
    """A finding of the fuzzer on one module."""
    result = fuzz.Result()
    case = fuzz.Case(result, seed, one.number, one.program, one.shape, one.batch, shrinks=False)
    if claims_only:
        case.claimed(one.graph, "built")
    else:
        case.cut(one.graph, "built")
    for kind in ("false", "contradictions", "crashes"):
        if found := getattr(result, kind):
            return {"kind": kind, "what": found[0]["what"][:150], "number": one.number}
    return None


def _differs(fuzz: Any, one: Entry) -> bool:
    try:
        return claimed(fuzz.subject, one.graph, torch.ones(one.batch, *one.shape)) != one.signature
    except Exception:
        return True


def apart(mutant: Mutant, corpus: list[Entry], seed: int, patience: float) -> dict[str, Any]:
    """As `hunted`, in a process of its own."""
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe(duplex=False)

    def work() -> None:
        try:
            theirs.send(hunted(mutant, corpus, seed, patience))
        except Exception as error:
            theirs.send({"end": "broken", "what": f"{type(error).__name__}: {error}"})

    worker = context.Process(target=work)
    worker.start()
    theirs.close()
    try:
        result = mine.recv() if mine.poll(20 * patience) else {"end": "missed", "what": "out of time"}
    except EOFError:
        result = {"end": "found", "kind": "crashes", "what": "the process died"}
    worker.kill()
    worker.join()
    return {"mutant": mutant.name, **result}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--modules", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--patience", type=float, default=20, help="seconds for one mutant")
    parser.add_argument("--only", default="", help="mutants whose names hold this text")
    parser.add_argument("--list", action="store_true", help="print the mutants' names")
    parser.add_argument("--all", action="store_true", help="also those of which is known why they change nothing")
    parser.add_argument("--again", action="store_true", help="those that were missed once more")
    asked = parser.parse_args()
    every = [one for one in [*sites(), *tables()] if asked.only in one.name and (asked.all or _plain(one) not in EQUAL)]
    if asked.list:
        return print("\n".join(f"{one.name}  [{len(one.operators)}]" for one in every))
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    before = _log(asked.log)
    left = [one for one in every if one.name not in before or (asked.again and before[one.name]["end"] == "missed")]
    began = time.time()
    corpus = [one for number in range(asked.modules) if (one := entry(asked.seed, number)) is not None]
    print(f"{len(corpus)} modules, {time.time() - began:.0f} s; {len(left)} mutants", flush=True)
    for mutant in left:
        result = apart(mutant, corpus, asked.seed, asked.patience)
        with asked.log.open("a") as file:
            file.write(json.dumps(result, ensure_ascii=False) + "\n")
        print(result["end"], result.get("modules", ""), result.get("kind", ""), mutant.name, flush=True)
    ends = [one["end"] for name, one in _log(asked.log).items() if name in {each.name for each in every}]
    print(f"{len(ends)} of {len(every)} mutants: {ends.count('found')} found, {ends.count('missed')} missed")
    return None


def _plain(mutant: Mutant) -> str:
    """The name of a mutant without the line."""
    return re.sub(r":\d+", "", mutant.name, count=1)


def _log(path: Path) -> dict[str, dict[str, Any]]:
    """What the log says last of each mutant."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {one["mutant"]: one for one in map(json.loads, lines)}


if __name__ == "__main__":
    main()

"""How strong the torch fuzzer is: every check of the inspector is taken out in turn, and the fuzzer has to notice.

    python experiments/independence/torch_mutants.py --processes 16 --seed 2 --survey 100 --patience 30 --out FOLDER

First the inspector as it is looks at many modules, and it is written down at which checks it gave each of them up. A
mutant then sees the modules that came to its check, or that hold its operator, and after them new ones in which the
operators are drawn whose rules come to the check, until its time is up. It is found if it has a finding of the fuzzer:
it claims what does not hold, proves what the documentation excludes, or crashes. What is raised as a Contradiction is
no check of a graph, but an assertion about our rules, and stays.
"""

import argparse
import ast
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import json
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
import torch_fuzz
import torch_subject
from torch_equal import EQUAL
from torch_generate import generated
from torch_program import resolved
from workers import Death, Slate, results

from soundsmooth.independence.proof import values

PACKAGE = "soundsmooth.independence.proof"
SOURCE = Path(values.__file__).parent
#: The modules that the argument for torch graphs stands in.
MODULES = ("values", "flow", "torch_call", "torch_graph", "torch_memory", "torch_rules", "torch_seen")
#: Functions that only rules for ONNX graphs come to, or with lists that only they have.
ONNX = ("values.integers", "values.axes_of", "values.shape")
#: So many modules that came to its check are shown to a mutant before new ones are drawn.
KNOWN = 200
#: The number of the first new one.
FRESH = 1_000_000


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
        for function, lines, label, change in _changes(text, ast.parse(text)):
            shared = module in ("values", "flow")
            if not shared or (function in reach and f"{module}.{function}" not in ONNX):
                operators = tuple(sorted(reach.get(function, ())))
                yield Mutant(f"{module}.{function} {label}", module, _changed(text, change), lines, operators)


Change = Callable[[ast.Module], None]


def _changes(text: str, tree: ast.Module) -> Iterator[tuple[str, range, str, Change]]:
    """Where each check stands, and how a tree like this one loses it."""
    for number, node in enumerate(ast.walk(tree)):
        for field in ("body", "orelse"):
            body = getattr(node, field, None)
            for place, one in enumerate(body if isinstance(body, list) else []):
                if _gives_up(one):
                    lines = range(one.lineno, (one.end_lineno or 0) + 1) if isinstance(one, ast.Raise) else range(0)
                    where = _owner(tree, one.lineno)
                    for label, change in _ways(text, node, number, field, place):
                        yield where, lines, label, change


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
    return isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Unproved"


def _ways(text: str, node: ast.AST, number: int, field: str, place: int) -> Iterator[tuple[str, Change]]:
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

            yield f"without `{_source(text, value)}`", less
    elif isinstance(node, ast.If):
        yield f"without `{_source(text, node.test)}`", never


def _source(text: str, node: ast.AST) -> str:
    """As it is written, on one line: other versions of Python write a tree in other ways."""
    return " ".join((ast.get_source_segment(text, node) or "").split())


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
    for place, argument in [(place, argument) for place, wanted in enumerate(rule.only) for argument in wanted]:
        left = tuple(
            {key: one for key, one in wanted.items() if (number, key) != (place, argument)}
            for number, wanted in enumerate(rule.only)
        )
        yield f"takes any {argument}", f"only={left!r}"


# What the inspector as it is says of many modules. ----------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """A module by its number, the lines at which it was given up, and its operators."""

    number: int
    lines: frozenset[tuple[str, int]]
    operators: frozenset[str]


def entry(seed: int, number: int) -> Entry:
    """Where the inspector as it is gives a module up."""
    with _raised() as lines:
        _, operators = examined(torch_fuzz, seed, number)
    return Entry(number, frozenset(lines), operators)


def examined(fuzz: Any, seed: int, number: int, focus: tuple[str, ...] = ()) -> tuple[Any, frozenset[str]]:
    """What the fuzzer sees in a module, and its operators."""
    program, shape, batch = generated(seed, number, focus)
    case = fuzz.Case(fuzz.Result(), seed, number, program, shape, batch, shrinks=False)
    case.built()
    return case.result, frozenset(step.target for step in program.steps)


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
    """The fuzzer on the mutated package; another mutant may have been there before."""
    for name in list(sys.modules):
        if name.startswith(PACKAGE) or name in ("torch_subject", "torch_claims", "torch_fuzz"):
            del sys.modules[name]
    sys.meta_path[:] = [Replaced(mutant), *(one for one in sys.meta_path if not isinstance(one, Replaced))]
    return importlib.import_module("torch_fuzz")


def hunted(mutant: Mutant, survey: list[Entry], seed: int, patience: float) -> dict[str, Any]:
    """Whether the fuzzer notices a mutant, and after how many modules."""
    began, fuzz = time.process_time(), mutated(mutant)
    mine = [one for one in survey if _concerns(mutant, one)]
    focus = mutant.operators if len(mutant.operators) <= 45 else ()
    known = ((one.number, ()) for one in mine[:KNOWN])
    fresh = ((number, focus) for number in itertools.count(FRESH))
    for tried, (number, operators) in enumerate(itertools.chain(known, fresh), 1):
        result, _ = examined(fuzz, seed, number, operators)
        for kind, found in result.findings().items():
            if found:
                what = {"kind": kind, "what": found[0]["what"][:150], "number": number}
                return {"end": "found", "modules": tried, "reached": len(mine), **what}
        if time.process_time() - began > patience:
            return {"end": "missed", "modules": tried, "reached": len(mine)}
    raise AssertionError


def _concerns(mutant: Mutant, one: Entry) -> bool:
    if not mutant.lines:
        return bool(one.operators.intersection(mutant.operators))
    return any((mutant.module, line) in one.lines for line in mutant.lines)


def surveyed(options: argparse.Namespace) -> list[Entry]:
    """What is known of as many modules as there is time for."""
    found, began = [], time.monotonic()
    for one in results(lambda number, slate: entry(options.seed, number), list(range(FRESH)), options.processes, 60):
        if isinstance(one, Entry):
            found.append(one)
        if time.monotonic() - began > options.survey:
            break
    return sorted(found, key=lambda one: one.number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="a folder for the log")
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--survey", type=float, default=100, help="seconds for the inspector as it is")
    parser.add_argument("--patience", type=float, default=30, help="seconds for one mutant")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="mutants whose names hold this text")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    began = time.monotonic()
    every = [one for one in [*sites(), *tables()] if options.only in one.name]
    every.sort(key=lambda one: one.name in EQUAL)  # these take all their time, and each process gets its share of them
    survey = surveyed(options)
    print(f"{len(every)} mutants, {len(survey)} modules in {time.monotonic() - began:.0f} s", flush=True)

    def work(number: int, slate: Slate) -> dict[str, Any]:
        torch.set_num_threads(1)
        return {"mutant": every[number].name, **hunted(every[number], survey, options.seed, options.patience)}

    options.out.mkdir(parents=True, exist_ok=True)
    ends = []
    with (options.out / "torch_mutants.jsonl").open("w", encoding="utf-8") as log:
        for one in results(work, list(range(len(every))), options.processes, 60 + 10 * options.patience):
            if isinstance(one, Death):  # of an error of the fuzzer's own, or silent for too long: no finding
                end = "missed" if one.signal == "SIGKILL" or one.signal.startswith("exit") else "found"
                one = {"mutant": every[one.number].name, "end": end, "kind": "crashes", "what": one.signal}
            log.write(json.dumps(one, ensure_ascii=False) + "\n")
            ends.append(one)
    print(f"torch {torch.__version__}, seed {options.seed}, {time.monotonic() - began:.0f} s")
    print(summary(ends))


def summary(ends: list[dict[str, Any]]) -> str:
    """The counts, and every mutant that was missed, with the reason why no graph can show it where one is known."""
    found = [one for one in ends if one["end"] == "found"]
    missed = [one["mutant"] for one in ends if one["end"] == "missed"]
    open_ = [name for name in missed if name not in EQUAL]
    wrong = [one["mutant"] for one in found if one["mutant"] in EQUAL]
    kinds = ", ".join(f"{count} as {kind}" for kind, count in Counter(one["kind"] for one in found).items())
    lines = [f"equivalent: {name}: {EQUAL[name]}" for name in missed if name in EQUAL]
    lines += [f"argued equivalent, but found: {name}" for name in wrong] + [f"MISSED: {name}" for name in open_]
    share = 100 * len(found) / max(1, len(found) + len(open_))
    counts = f"{len(ends)} mutants: {len(found)} found ({kinds}), {len(missed) - len(open_)} argued equivalent"
    return "\n".join([*lines, f"{counts}, {len(open_)} missed: {share:.1f} % of those that are not equivalent"])


if __name__ == "__main__":
    main()

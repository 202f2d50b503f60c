"""Random torch modules against the inspector: what it proves must hold when torch runs it.

python experiments/independence/torch_fuzz.py --modules 20000 --seed 1 --out result.json

Each module gives many graphs: every value of it in turn is taken for the output (`torch_cuts`). Every fourth module
goes through torch.export with a symbolic batch size, some of these all the way that a user's module goes; the others
are written down as the graph that an export for one batch size would give, which takes a hundredth of the time.
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
sys.path.insert(0, str(Path(__file__).parent))

import torch
import torch_subject as subject
from torch import fx
from torch_cuts import above, cuts, outputs
from torch_generate import generated
from torch_oracle import Finding, close, values_of, violation
from torch_outside import FUNCTIONS
from torch_program import Module, Program, built
from torch_shrink import shrunk

#: Every so many modules one is exported; one of so many exported ones is given to the inspector as a module.
EXPORTED, AS_MODULE = 4, 10
#: Of the values that have another extent than the batch size, one in so many is tried as an output.
STRANGE = 5
#: A worker makes so many modules before another takes over, and has so many seconds for each.
SHIFT, PATIENCE = 100, 60


@dataclass
class Result:
    """What was seen. Lists hold dictionaries with the module's number and the text of the graph."""

    modules: int = 0
    exported: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    graphs: int = 0
    proved: int = 0
    forms: Counter[str] = field(default_factory=Counter)
    """Proved graphs by how they were made."""
    operators: Counter[str] = field(default_factory=Counter)
    """Proved graphs whose output is computed by way of each operator."""
    reasons: Counter[str] = field(default_factory=Counter)
    false: list[dict[str, Any]] = field(default_factory=list)
    doubtful: list[dict[str, Any]] = field(default_factory=list)
    """Rows that differ with position or batch size, where rounding may be the cause."""
    contradictions: list[dict[str, Any]] = field(default_factory=list)
    """A claimed shape that is not the real one, or a graph that computes something else than its module."""
    crashes: list[dict[str, Any]] = field(default_factory=list)

    def add(self, other: "Result") -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def rare(self, least: int) -> dict[str, int]:
        """The operators with fewer proved graphs than that."""
        return {name: self.operators[name] for name in subject.operators() if self.operators[name] < least}


def run(first: int, modules: int, seed: int) -> Result:
    """The modules with the numbers from `first` on, in this process."""
    result = Result()
    for number in range(first, first + modules):
        result.add(examined(seed, number))
    return result


def examined(seed: int, number: int) -> Result:
    """One module: all graphs that come from it."""
    result = Result(modules=1)
    with warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")
        torch.manual_seed(number)
        program, shape, batch = generated(seed, number)
        case = Case(result, seed, number, program, shape, batch)
        if number % (EXPORTED * AS_MODULE) == 0:
            case.as_module()
        elif number % EXPORTED == 0:
            case.exported()
        else:
            case.cut(built(program, shape, batch, FUNCTIONS), batch, "built")
    return result


@dataclass
class Case:
    result: Result
    seed: int
    number: int
    program: Program
    shape: tuple[int, ...]
    batch: int

    def note(self, where: list[dict[str, Any]], what: str, graph: fx.GraphModule | None = None, **more: Any) -> None:
        about = {"seed": self.seed, "number": self.number, "shape": list(self.shape), "batch": self.batch, "what": what}
        text = str(self.program) if graph is None else written(graph)
        where.append(about | more | {"graph": text})

    def as_module(self) -> None:
        """As a user's module: exported and inspected in one go."""
        module = Module(self.program, FUNCTIONS)
        self.result.graphs += 1
        try:
            verdict = subject.prove(module, self.shape, self.batch)
        except Exception as error:
            return self.note(self.result.crashes, f"{type(error).__name__}: {error}")
        if not verdict.proved:
            self.result.reasons[shortened(verdict.reason)] += 1
            return None
        self.result.exported += 1
        self.judged(verdict, "module")
        x = torch.randint(-3, 4, (self.batch, *self.shape)).float()
        if not close(verdict.graph(x.clone()), module(x.clone())):
            self.note(self.result.contradictions, "the graph computes something else than the module", verdict.graph)
        return None

    def exported(self) -> None:
        try:
            graph, fixed = subject.exported(Module(self.program, FUNCTIONS), self.shape, self.batch)
        except subject.Refused as reason:
            self.result.refused[shortened(str(reason))] += 1
            return
        except Exception as error:
            return self.note(self.result.crashes, f"{type(error).__name__}: {error}")
        self.result.exported += 1
        self.cut(graph, fixed, "exported" if fixed is None else "exported for one size")

    def cut(self, module: fx.GraphModule, batch: int | None, how: str) -> None:
        """Every value in turn as the output."""
        for place, node in enumerate(outputs(module.graph)):
            if (place + self.number) % STRANGE and not one_row_each(node, batch):
                continue
            for kept, graph in cuts(module, node):
                self.inspect(graph, batch, f"{how}, {kept}")

    def inspect(self, graph: fx.GraphModule, batch: int | None, how: str) -> None:
        self.result.graphs += 1
        try:
            verdict = subject.judge(graph, batch)
        except Exception as error:
            return self.note(self.result.crashes, f"{type(error).__name__}: {error}", graph)
        if verdict.proved:
            self.judged(verdict, how)
        else:
            self.result.reasons[shortened(verdict.reason)] += 1
        return None

    def judged(self, verdict: subject.Verdict, how: str) -> None:
        """A proof is tried out."""
        graph: Any = verdict.graph
        self.result.proved += 1
        self.result.forms[how] += 1
        self.result.operators.update(operators_of(graph))
        found = self.violation(graph, verdict.batch)
        if found is not None:
            where = self.result.false if found.certain else self.result.doubtful
            if not where:  # the others of this module are seldom of another kind
                graph = shrunk(graph, lambda one: self.still(one, verdict.batch, found))
            self.note(where, found.text, graph, how=how, size=verdict.batch)
        elif (different := self.contradiction(graph)) is not None:
            self.note(self.result.contradictions, different, graph, how=how)

    def violation(self, graph: fx.GraphModule, batch: int | None) -> Finding | None:
        return violation(graph, self.shape, batch or self.batch, batch is None, self.number)

    def still(self, graph: fx.GraphModule, batch: int | None, before: Finding) -> bool:
        """A smaller graph is proved and wrong too, and no less certainly."""
        if not subject.judge(graph, batch).proved:
            return False
        found = self.violation(graph, batch)
        return found is not None and found.certain == before.certain and "not run" not in found.text

    def contradiction(self, graph: fx.GraphModule) -> str | None:
        """A value of another shape than the inspector claims."""
        values = values_of(graph, torch.ones(self.batch, *self.shape))
        for node, claimed in subject.claims(graph, self.batch):
            real = tuple(values[node].shape)
            if len(real) != len(claimed) or any(b not in (a, -1) for a, b in zip(real, claimed, strict=True)):
                return f"{node.name} ({node.target}) has the shape {real}, claimed is {claimed}"
        return None


def one_row_each(node: fx.Node, batch: int | None) -> bool:
    """By its shape, the value could have one row for each row of the input."""
    shape = node.meta["val"].shape
    return len(shape) > 0 and (shape[0] == batch if batch is not None else not isinstance(shape[0], int))


def operators_of(graph: fx.GraphModule) -> set[str]:
    (output,) = graph.graph.find_nodes(op="output")
    return {str(node.target) for node in above(output.args[0]) if node.op == "call_function"}


def written(graph: fx.GraphModule) -> str:
    """A graph as text: its code, and the shapes of its weights."""
    shapes = [f"{name}: {list(value.shape)} {value.dtype}" for name, value in graph.state_dict().items()]
    return "\n".join([*shapes, graph.code.strip() if isinstance(graph, fx.GraphModule) else str(graph)])


def shortened(reason: str) -> str:
    """A reason without names and numbers, for counting."""
    return "".join(" " if letter.isdigit() else letter for letter in reason.split("': ")[-1])[:70]


def watched(first: int, modules: int, seed: int, out: Path | None = None) -> Result:
    """As `run`, in worker processes: one that dies or hangs is a crash, and the next one goes on behind it.

    What was seen so far is written to `out` after each worker.
    """
    result, number, last, began = Result(), first, first + modules, time.time()
    context = multiprocessing.get_context("fork")
    while number < last:
        mine, theirs = context.Pipe(duplex=False)
        shift = min(SHIFT, last - number)
        worker = context.Process(target=_work, args=(theirs, number, shift, seed))
        worker.start()
        theirs.close()
        for _ in range(shift):
            try:
                if not mine.poll(PATIENCE):
                    raise EOFError
                result.add(mine.recv())
            except EOFError:
                worker.kill()
                worker.join()
                result.modules += 1
                result.crashes.append({"seed": seed, "number": number, "what": f"a worker ended: {worker.exitcode}"})
                number += 1
                break
            number += 1
        worker.join()
        print(f"{summary(result)}, {time.time() - began:.0f} s", flush=True)
        if out is not None:
            out.write_text(json.dumps(vars(result), indent=1), encoding="utf-8")
    return result


def _work(pipe: Any, first: int, modules: int, seed: int) -> None:
    torch.set_num_threads(1)
    for number in range(first, first + modules):
        pipe.send(examined(seed, number))


def summary(result: Result) -> str:
    counts = f"{result.modules} modules, {result.exported} exported, {result.graphs} graphs, {result.proved} proved"
    bad = f"{len(result.false)} false, {len(result.doubtful)} doubtful, {len(result.contradictions)} contradictions"
    return f"{counts}; {bad}, {len(result.crashes)} crashes"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modules", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    result = watched(options.first, options.modules, options.seed, options.out)
    for name in subject.operators():
        print(f"{result.operators[name]:8} {name}")
    for title in ("false", "doubtful", "contradictions", "crashes"):
        for one in getattr(result, title)[:20]:
            print(f"\n{title}: {one['number']}: {one['what']}\n{one.get('graph', '')}")
    print(summary(result))
    sys.exit(bool(result.false or result.contradictions or result.crashes))


if __name__ == "__main__":
    main()

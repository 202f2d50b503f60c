"""Random torch modules against the inspector: what it proves must hold when torch runs it.

    python experiments/independence/torch_fuzz.py --processes 16 --seconds 500 --seed 1 --out FOLDER

Each module is drawn around one operator of the table, in turn. Everything that is claimed of any value of a module is
tried out (`torch_claims`), and some of its values are taken for the output in turn (`torch_cuts`), so that one module
gives several graphs. Every so often a module goes through torch.export with a symbolic batch size, some of these all
the way that a user's module goes; the others are written down as the graph that an export for one batch size would
give, which takes less time. A proof is about one batch size, and is tried out at that one. Two judges: torch, which
runs what was proved (`torch_oracle`), and the words of the documentation (`torch_faults`).
"""

import argparse
import json
import os
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
sys.path.insert(0, str(Path(__file__).parent))

import torch
import torch_subject as subject
from torch import fx
from torch_claims import false_claim
from torch_cuts import above, copied, cuts, outputs
from torch_faults import fault
from torch_generate import generated
from torch_oracle import Finding, close, out_of_range, violation
from torch_outside import FUNCTIONS
from torch_program import Module, Program, built
from torch_shrink import shrunk
from workers import Death, Slate, results

#: Every so many modules one is exported; one of so many exported ones is given to the inspector as a module.
EXPORTED, AS_MODULE = 10, 4
#: Every so many modules that are inspected as such are shown to the witness too.
WITNESSED = 4
#: So many values of a module are tried as its output.
OUTPUTS = 3
#: Seconds that a worker has for one module.
PATIENCE = 60.0


@dataclass
class Result:
    """What was seen. Lists hold dictionaries with the module's number and the text of the graph."""

    modules: int = 0
    exported: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    graphs: int = 0
    proved: int = 0
    claims: int = 0
    """Values of which something was claimed and tried out."""
    forms: Counter[str] = field(default_factory=Counter)
    """Proved graphs by how they were made."""
    operators: Counter[str] = field(default_factory=Counter)
    """Proved graphs whose output is computed by way of each operator."""
    programs: Counter[str] = field(default_factory=Counter)
    """Modules that such graphs come from."""
    exports: Counter[str] = field(default_factory=Counter)
    """Exported graphs in which each operator was seen, proved or not."""
    reasons: Counter[str] = field(default_factory=Counter)
    false: list[dict[str, Any]] = field(default_factory=list)
    outside: list[dict[str, Any]] = field(default_factory=list)
    """Proved, although the documentation says that such graphs are not."""
    doubtful: list[dict[str, Any]] = field(default_factory=list)
    """Rows that differ with position or batch size, where rounding may be the cause."""
    contradictions: list[dict[str, Any]] = field(default_factory=list)
    """A rule and torch disagree about a shape, or a graph computes something else than its module."""
    crashes: list[dict[str, Any]] = field(default_factory=list)

    def add(self, other: "Result") -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def findings(self) -> dict[str, list[dict[str, Any]]]:
        """All that must not be."""
        return {name: getattr(self, name) for name in ("false", "outside", "contradictions", "crashes")}


def run(first: int, modules: int, seed: int) -> Result:
    """The modules with the numbers from `first` on, in this process."""
    result = Result()
    for number in range(first, first + modules):
        result.add(examined(seed, number))
    return result


def examined(seed: int, number: int) -> Result:
    """One module: all graphs that come from it."""
    result = Result(modules=1)
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        torch.manual_seed(number)
        program, shape, batch = generated(seed, number)
        case = Case(result, seed, number, program, shape, batch)
        if number % (EXPORTED * AS_MODULE) == 0:
            case.as_module()
        elif number % EXPORTED == 0:
            case.exported()
        else:
            case.built()
    result.programs = Counter(set(result.operators))
    return result


@dataclass
class Case:
    result: Result
    seed: int
    number: int
    program: Program
    shape: tuple[int, ...]
    batch: int
    shrinks: bool = True

    def note(self, where: list[dict[str, Any]], what: str, graph: fx.GraphModule | None = None, **more: Any) -> None:
        about = {"seed": self.seed, "number": self.number, "shape": list(self.shape), "batch": self.batch, "what": what}
        text = str(self.program) if graph is None else written(graph)
        where.append(about | more | {"graph": text})

    def as_module(self) -> None:
        """As a user's module: exported and inspected in one go."""
        module = Module(self.program, FUNCTIONS)
        self.result.graphs += 1
        try:
            witness = self.number % (EXPORTED * AS_MODULE * WITNESSED) == 0
            verdict = subject.prove(module, self.shape, self.batch, witness)
        except Exception as error:
            return self.note(self.result.crashes, f"{type(error).__name__}: {error}")
        if not self.accepted(verdict):
            return None
        self.saw_export(verdict.graph)
        self.judged(verdict.graph, "module")
        x = torch.randint(-3, 4, (self.batch, *self.shape)).float()
        if not close(verdict.graph(x.clone()), module(x.clone())):
            self.note(self.result.contradictions, "the graph computes something else than the module", verdict.graph)
        return None

    def built(self) -> None:
        try:
            graph = built(self.program, self.shape, self.batch, FUNCTIONS)
        except (IndexError, RuntimeError):  # it used entries as indices, or a step that failed has left its traces
            self.result.refused["it does not run on another batch"] += 1
            return
        self.cut(graph, "built")

    def exported(self) -> None:
        try:
            graph = subject.exported(Module(self.program, FUNCTIONS), self.shape, self.batch)
        except subject.Refused as reason:
            self.result.refused[shortened(str(reason))] += 1
            return
        except Exception as error:
            return self.note(self.result.crashes, f"{type(error).__name__}: {error}")
        self.saw_export(graph)
        self.cut(graph, "exported")

    def saw_export(self, graph: Any) -> None:
        self.result.exported += 1
        self.result.exports.update({str(node.target) for node in graph.graph.nodes if node.op == "call_function"})

    def cut(self, module: fx.GraphModule, how: str) -> None:
        """All that is claimed of its values, and some of these as the output."""
        self.claimed(module, how)
        for node in tried(module, self.batch, self.number, self.program.goal):
            for kept, graph in cuts(module, node):
                self.inspect(graph, f"{how}, {kept}")

    def claimed(self, module: fx.GraphModule, how: str) -> None:
        """What is claimed of the values, up to the first call without a rule."""
        graph: Any = module
        try:
            graph = subject.ruled(module)
            if graph is None:
                return None
            claims = subject.claims(graph, self.example())
            found = false_claim(graph, self.shape, self.batch, self.number)
        except subject.Unproved:
            return None
        except Exception as error:
            if not out_of_range(error):
                self.note(self.result.crashes, f"{type(error).__name__}: {error}", graph, how=how)
            return None
        self.result.claims += len(claims.values)
        for text in claims.contradictions:
            self.note(self.result.contradictions, text, graph, how=how)
        if found is not None:
            finding, node = found
            where = self.result.false if finding.certain else self.result.doubtful
            before = copied(graph, [*_until(graph.graph, node)], node)
            self.note(where, finding.text, before, how=f"{how}, claim")
        return None

    def example(self) -> torch.Tensor:
        return torch.ones(self.batch, *self.shape)

    def inspect(self, graph: fx.GraphModule, how: str) -> None:
        self.result.graphs += 1
        try:
            verdict = subject.judge(graph, self.example())
        except Exception as error:
            return self.note(self.result.crashes, f"{type(error).__name__}: {error}", graph)
        if self.accepted(verdict):
            self.judged(graph, how)
        return None

    def accepted(self, verdict: subject.Verdict) -> bool:
        """Whether there is a proof; if not, why is counted."""
        if not verdict.proved:
            self.result.reasons[shortened(verdict.reason)] += 1
        if verdict.contradiction:
            self.note(self.result.contradictions, verdict.reason, verdict.graph)
        return verdict.proved

    def judged(self, graph: Any, how: str) -> None:
        """A proof is tried out."""
        self.result.proved += 1
        self.result.forms[how] += 1
        self.result.operators.update(operators_of(graph))
        found, outside = self.violation(graph), fault(graph, self.example())
        if outside is not None:
            self.note(self.result.outside, outside, graph, how=how)
        if found is not None:
            where = self.result.false if found.certain else self.result.doubtful
            if self.shrinks and not where:  # the others of this module are seldom of another kind
                graph = shrunk(graph, lambda one: self.still(one, found))
            self.note(where, found.text, graph, how=how)

    def violation(self, graph: fx.GraphModule) -> Finding | None:
        try:
            return violation(graph, self.shape, self.batch, self.number)
        except IndexError:  # entries of the batch were used as indices
            return None

    def still(self, graph: fx.GraphModule, before: Finding) -> bool:
        """A smaller graph is proved and wrong too, and no less certainly."""
        if not subject.judge(graph, self.example()).proved:
            return False
        found = self.violation(graph)
        return found is not None and found.certain == before.certain and "not run" not in found.text


def tried(module: fx.GraphModule, batch: int, number: int, goal: str) -> list[fx.Node]:
    """The values that are taken for the output: some with a row for each row, by their shapes, rather such as are
    computed by way of the goal; one without; and one that is no tensor.
    """
    found = outputs(module.graph)
    random.Random(number).shuffle(found)
    found.sort(key=lambda node: all(str(each.target) != goal for each in above(node)))
    rows = [node for node in found if _has_rows(node.meta["val"].shape, batch)]
    strange = [node for node in module.graph.nodes if node.op == "call_function" and node not in found]
    return [*rows[:OUTPUTS], *[node for node in found if node not in rows][:1], *strange[:1]]


def _has_rows(shape: Any, batch: int) -> bool:
    return len(shape) > 0 and (not isinstance(shape[0], int) or shape[0] == batch)


def _until(graph: fx.Graph, last: fx.Node) -> Iterator[fx.Node]:
    """The nodes up to one of them."""
    for node in graph.nodes:
        yield node
        if node is last:
            return


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


def examine_all(options: argparse.Namespace) -> Result:
    """The modules in worker processes; one that dies or hangs is a crash, and the next one goes on behind it."""
    result, began = Result(), time.monotonic()

    def work(number: int, slate: Slate) -> Result:
        torch.set_num_threads(1)
        return examined(options.seed, number)

    numbers = list(range(options.first, options.first + options.modules))
    for one in results(work, numbers, options.processes, PATIENCE):
        if isinstance(one, Death):
            what = {"seed": options.seed, "number": one.number, "what": f"a worker ended: {one.signal}"}
            one = Result(modules=1, crashes=[what])
        result.add(one)
        if time.monotonic() - began > options.seconds:
            break
    return result


def summary(result: Result) -> str:
    counts = f"{result.modules} modules, {result.exported} exported, {result.graphs} graphs, {result.proved} proved"
    bad = ", ".join(f"{len(found)} {name}" for name, found in result.findings().items())
    return f"{counts}, {result.claims} claims; {bad}, {len(result.doubtful)} doubtful"


def table(result: Result) -> str:
    """For each operator with a rule: proved graphs, the modules they come from, and exported graphs with it."""
    names = sorted(subject.operators(), key=lambda name: result.operators[name])
    lines = [f"{result.operators[n]:8} {result.programs[n]:8} {result.exports[n]:8} {n}" for n in names]
    return "\n".join(["  graphs  modules  exports", *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modules", type=int, default=1_000_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=500, help="no further modules are begun after that")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, required=True, help="a folder for table and findings")
    options = parser.parse_args()
    torch.set_num_threads(1)
    began = time.monotonic()
    result = examine_all(options)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "torch_fuzz.json").write_text(json.dumps(vars(result), indent=1), encoding="utf-8")
    (options.out / "torch_fuzz.txt").write_text(table(result), encoding="utf-8")
    for name, found in {**result.findings(), "doubtful": result.doubtful}.items():
        for one in found[:3]:
            print(f"{name}: {one['number']}: {one['what']}\n{one.get('graph', '')[:1500]}\n")
    few = sorted((result.operators[name], name) for name in subject.operators())
    enough = sum(count >= 1000 for count, _ in few)
    print(f"torch {torch.__version__}, seed {options.seed}, {time.monotonic() - began:.0f} s")
    print(f"{len(few)} operators, {enough} of them in 1000 proved graphs or more; the fewest: {few[:8]}")
    print(f"never seen in an exported graph: {[name for _, name in few if not result.exports[name]]}")
    print(summary(result))
    sys.exit(any(result.findings().values()))


if __name__ == "__main__":
    main()

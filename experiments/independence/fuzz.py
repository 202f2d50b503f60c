"""Random graphs against the inspector: whatever it proves must treat rows alike and apart when it runs.

    python experiments/independence/fuzz.py --graphs 200000 --seed 1 --processes 2 --out result.json --minimize

Graph number i depends on the seed and on i alone: `--first 4711 --graphs 1` makes one of them again, and
`--show 4711` prints it. Found are

- false proofs: a proved graph whose rows were seen to interact, or to depend on their position;
- contradictions: what a rule says of a value is not what the runtime computes;
- outside: a fault was planted into a proved graph that puts it outside the dialect, and it is proved still;
- last digits: a proved graph in which a row's rounding depends on other rows: the kernel looks at several at once;
- crashes: of the inspector (an exception), and of the runtime (the process died), proved or not.
"""

import argparse
import hashlib
import json
import random
import resource
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import generate
import minimize
import numpy as np
import onnx
import oracle
import outside
import subject
from frame import Graph
from workers import Death, Slate, results

OPERATORS = tuple(subject.table())
#: Of each kind of finding so many are kept in full; the rest is counted.
MOST_KEPT = 400
#: Faults that are planted into each proved graph, each into a copy of its own.
FAULTS = 2


#: Operators that most graphs should have one of: (domain, name).
Focus = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Outcome:
    """What came of one graph."""

    number: int
    valid: bool = False
    mixes: bool = False
    proved: bool = False
    reason: str = ""
    operators: tuple[str, ...] = ()
    proved_operators: tuple[str, ...] = ()
    false_proof: str | None = None
    contradiction: str | None = None
    crash: str | None = None
    planted: int = 0
    outside: str | None = None
    model: bytes = b""
    batch: int = 0


@dataclass
class Result:
    """What came of many graphs."""

    seed: int
    first: int
    graphs: int = 0
    valid: int = 0
    mixing: int = 0
    proved: int = 0
    seconds: float = 0.0
    processor: float = 0.0
    """Seconds of processors, all together."""
    drawn: Counter[str] = field(default_factory=Counter)
    """Valid graphs with an operator."""
    covered: Counter[str] = field(default_factory=Counter)
    """Proved graphs with an operator."""
    reasons: Counter[str] = field(default_factory=Counter)
    numbers: set[int] = field(default_factory=set)
    """The proved graphs."""
    false_proofs: list[Outcome] = field(default_factory=list)
    digits: list[Outcome] = field(default_factory=list)
    """Proved graphs in which the last digits of one row depend on another."""
    contradictions: list[Outcome] = field(default_factory=list)
    crashes: list[Outcome] = field(default_factory=list)
    planted: int = 0
    """Faults that put a graph outside the dialect."""
    outside: list[Outcome] = field(default_factory=list)
    """Graphs that are proved with such a fault."""
    deaths: list[Death] = field(default_factory=list)

    @property
    def found(self) -> int:
        return len(self.false_proofs) + len(self.contradictions) + len(self.outside)

    def add(self, one: "Outcome | Death") -> None:
        self.graphs += 1
        if isinstance(one, Death):
            self.deaths.append(one)
            return
        self.valid += one.valid
        self.mixing += one.mixes
        self.proved += one.proved
        self.planted += one.planted
        self.numbers |= {one.number} if one.proved else set()
        self.drawn.update(set(one.operators))
        self.covered.update(set(one.proved_operators))
        if one.valid and not one.proved:
            self.reasons[_kind_of(one.reason)] += 1
        for kept, wanted in self._kinds(one):
            if wanted:
                kept.append(one)

    def _kinds(self, one: Outcome) -> list[tuple[list[Outcome], bool]]:
        return [
            (self.false_proofs, one.false_proof is not None and not one.false_proof.startswith(oracle.DIGITS)),
            (self.digits, one.false_proof is not None and one.false_proof.startswith(oracle.DIGITS)),
            (self.contradictions, one.contradiction is not None),
            (self.crashes, one.crash is not None),
            (self.outside, one.outside is not None),
        ]

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data for JSON."""
        return {
            "seed": self.seed,
            "first": self.first,
            "graphs": self.graphs,
            "valid": self.valid,
            "mixing": self.mixing,
            "proved": self.proved,
            "verdicts": hashlib.sha256(repr(sorted(self.numbers)).encode()).hexdigest()[:16],
            "seconds": round(self.seconds, 1),
            "processor seconds": round(self.processor, 1),
            "operators": {
                name: {"graphs": self.drawn[name], "proved": self.covered[name]}
                for name in sorted({*self.drawn, *self.covered, *map(title, OPERATORS)})
            },
            "not proved": dict(self.reasons.most_common(60)),
            "false proofs": [{"graph": one.number, "how": one.false_proof} for one in self.false_proofs[:MOST_KEPT]],
            "last digits": [
                {"graph": one.number, "operators": one.proved_operators} for one in self.digits[:MOST_KEPT]
            ],
            "contradictions": [
                {"graph": one.number, "how": one.contradiction} for one in self.contradictions[:MOST_KEPT]
            ],
            "faults planted": self.planted,
            "proved outside the dialect": [{"graph": one.number, "how": one.outside} for one in self.outside],
            "crashes of the inspector": [{"graph": one.number, "how": one.crash} for one in self.crashes],
            "deaths": [{"graph": one.number, "phase": one.phase, "signal": one.signal} for one in self.deaths],
        }


def title(operator: tuple[str, str]) -> str:
    domain, name = operator
    return f"{domain}.{name}" if domain else name


def _kind_of(reason: str) -> str:
    """A reason without the names and numbers in it."""
    operator, _, why = reason.partition(": ")
    return f"{operator.split()[0]}: {why[:60]}" if why else reason[:60]


def tried(seed: int, number: int, focus: Focus = (), slate: Slate | None = None, small: bool = False) -> Outcome:
    """One graph: made, proved, and run if it was proved."""
    slate = slate or Slate()
    graph = generate.generate(seed, number, OPERATORS, focus, lambda model: slate.write(number, "generate", model))
    if graph is None:
        return Outcome(number)
    slate.write(number, "load", graph.model)
    try:
        oracle.session(graph.model)
    except Exception:  # onnxruntime's exceptions share no public base class
        return Outcome(number)
    return judged(number, graph, slate, small)


def judged(number: int, graph: Graph, slate: Slate, small: bool) -> Outcome:
    """What the inspector says of a graph, and whether it is true."""
    common = {"valid": True, "mixes": graph.mixes, "operators": graph.operators, "batch": graph.batch}
    slate.write(number, "prove", graph.model)
    try:
        verdict = subject.prove(graph.model, graph.batch, graph.optimize)
    except Exception:
        return Outcome(number, crash=traceback.format_exc(limit=-3), model=graph.model, **common)
    wrong, planted, admitted = None, 0, None
    if verdict.proved:
        slate.write(number, "proved", verdict.graph)
        wrong = oracle.violation(verdict.graph, graph.batch)
        try:
            planted, admitted = _outside(number, verdict.graph, graph)
        except Exception:
            return Outcome(number, crash=traceback.format_exc(limit=-3), model=graph.model, **common)
    model = b""
    if wrong or verdict.contradiction:
        model = _small(number, graph, slate, wrong) if small else graph.model
    return Outcome(
        number,
        proved=verdict.proved,
        reason=verdict.reason,
        proved_operators=tuple(verdict.operators) if verdict.proved else (),
        false_proof=wrong,
        contradiction=verdict.contradiction,
        planted=planted,
        outside=admitted,
        model=model,
        **common,
    )


def _outside(number: int, ran: bytes, graph: Graph) -> tuple[int, str | None]:
    """Some faults planted into a proved graph: how many, and one with which it is proved still."""
    rows, draw = subject.row(graph.model), random.Random(number)
    (shown,) = subject.watched(onnx.load_model_from_string(ran), [np.full((graph.batch, *rows), 0.5, np.float32)])
    faults = list(outside.several(draw, FAULTS, ran, *shown, graph.batch, graph.optimize)) if shown else []
    for one in faults:
        seen = (one.shapes, one.entries)
        for guard in one.guards:
            if subject.admitted(guard, one.model, seen, one.rows or rows, graph.batch, graph.optimize):
                return len(faults), f"{guard}: {one.what}"
    return len(faults), None


def _small(number: int, graph: Graph, slate: Slate, wrong: str | None) -> bytes:
    """The least graph for which the finding stands: the false proof, or else the contradiction."""
    digits = bool(wrong and wrong.startswith(oracle.DIGITS))

    def stands(model: bytes) -> bool:
        slate.write(number, "minimize", model)
        verdict = subject.prove(model, graph.batch, graph.optimize)
        if wrong is None:
            return verdict.contradiction is not None
        seen = oracle.violation(verdict.graph, graph.batch) if verdict.proved else None
        return seen is not None and seen.startswith(oracle.DIGITS) == digits

    return minimize.smallest(graph.model, stands)


def run(
    first: int, graphs: int, seed: int, focus: Focus = (), processes: int = 1, small: bool = False, until: int = 0
) -> Result:
    """Graphs `first` to `first + graphs`; stops after `until` findings if that is not 0."""
    found = Result(seed, first)
    start, taken = time.monotonic(), sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    work = lambda number, slate: tried(seed, number, focus, slate, small)  # noqa: E731
    for one in results(work, list(range(first, first + graphs)), processes):
        found.add(one)
        if until and found.found >= until:
            break
    found.seconds = time.monotonic() - start
    found.processor = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) - taken
    return found


def table(found: Result) -> str:
    """The result for people."""
    speed, own = found.graphs / max(found.seconds, 1e-9), found.graphs / max(found.processor, 1e-9)
    kinds = {
        "false proofs": len(found.false_proofs),
        "last digits": len(found.digits),
        "contradictions": len(found.contradictions),
        "faults planted": found.planted,
        "proved outside the dialect": len(found.outside),
        "crashes of the inspector": len(found.crashes),
        "deaths of the runtime": dict(Counter(f"{one.phase} {one.signal}" for one in found.deaths)),
    }
    lines = [
        f"{found.graphs} graphs, {found.valid} valid, {found.mixing} mix rows, {found.proved} proved; "
        f"{speed:.0f} graphs/s, {own:.0f} for each second of a processor",
        ", ".join(f"{kind} {count}" for kind, count in kinds.items()),
        "operator: valid graphs with it, proved graphs with it",
    ]
    names = sorted({*found.drawn, *found.covered, *map(title, OPERATORS)}, key=lambda name: found.covered[name])
    lines += [f"  {name:40} {found.drawn[name]:8} {found.covered[name]:8}" for name in names]
    return "\n".join(lines)


def listed(path: Path) -> str:
    """Proved graphs for each operator, of a run that was written down, for the docs."""
    found = json.loads(path.read_text())["operators"]
    counts = {name: one["proved"] for name, one in found.items() if one["proved"] or name in map(title, OPERATORS)}
    few = min(counts, key=lambda name: counts[name])
    names = sorted(counts, key=lambda name: name.lower())
    short = (f"{name.replace('com.microsoft', 'ms')} {counts[name]}" for name in names)
    return f"{len(counts)} operators (the fewest: {few}, {counts[few]}): {', '.join(short)}."


def save(found: Result, folder: Path) -> None:
    """Graphs that say something, as files."""
    folder.mkdir(parents=True, exist_ok=True)
    kinds = {
        "false": found.false_proofs,
        "digits": found.digits,
        "contradiction": found.contradictions,
        "crash": found.crashes,
    }
    for kind, outcomes in kinds.items():
        for one in outcomes[:MOST_KEPT]:
            _save(folder / f"{kind}-{one.number}.onnx", one.model)
    for death in found.deaths[:MOST_KEPT]:
        _save(folder / f"death-{death.phase}-{death.signal}-{death.number}.onnx", death.model)


def _save(path: Path, model: bytes) -> None:
    if model:
        path.write_bytes(model)


def show(seed: int, numbers: Iterable[int], focus: Focus) -> None:
    """Some graphs as text, with what the inspector says of them."""
    for number in numbers:
        graph = generate.generate(seed, number, OPERATORS, focus)
        if graph is None:
            print(number, "came to nothing")
            continue
        print(oracle.text(graph.model))
        print(subject.prove(graph.model, graph.batch, graph.optimize).reason)


def focus_on(names: str) -> Focus:
    """Operators by their names, with the domain in front where it is not the default one."""
    pairs = (name.rpartition(".") for name in names.split(",") if name)
    return tuple((domain, name) for domain, _, name in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument(
        "--focus", default=(), type=focus_on, help="operators, with commas between them: most graphs have one"
    )
    parser.add_argument("--until", type=int, default=0, help="stop after so many findings")
    parser.add_argument("--minimize", action="store_true", help="make graphs with findings smaller")
    parser.add_argument("--out", type=Path, help="a JSON file; graphs with findings go into a folder beside it")
    parser.add_argument("--listed", type=Path, help="print the operators of a JSON file instead")
    parser.add_argument("--show", type=int, nargs="*", help="print these graphs instead")
    asked = parser.parse_args()
    if asked.listed is not None:
        return print(listed(asked.listed))
    if asked.show is not None:
        return show(asked.seed, asked.show, asked.focus)
    found = run(asked.first, asked.graphs, asked.seed, asked.focus, asked.processes, asked.minimize, asked.until)
    print(table(found))
    if asked.out:
        asked.out.write_text(json.dumps(found.to_dict(), indent=1) + "\n")
        save(found, asked.out.with_suffix(".graphs"))
    sys.exit(1 if found.found or found.crashes else 0)


if __name__ == "__main__":
    main()

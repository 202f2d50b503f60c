"""Random graphs with all that the runtime makes of them, kept in a file: the argument can be tried on them many times.

    python experiments/independence/corpus.py --graphs 20000 --seed 1 --out corpus.pickle [--focus Slice,Pad]

What the inspector says of a graph hangs on the graph and on what the runtime was seen to compute. Both are kept here,
so that another inspector (one with a check less, `mutants`) can be asked without the runtime.
"""

import argparse
import pickle
import random
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import fuzz
import generate
import numpy as np
import onnx
import oracle
import outside
import subject
from workers import Death, Slate, results

from soundsmooth.models.onnx_session import NotFrozenError, frozen_session

#: What the runtime dies of; other ends are the fuzzer's own.
SIGNALS = frozenset(("SIGSEGV", "SIGABRT", "SIGFPE", "SIGBUS", "SIGILL"))
#: Faults that are planted into each graph that is proved, each into a copy of its own.
FAULTS = 2


@dataclass(frozen=True)
class Kept:
    """A graph, and what the runtime makes of it for three inputs: all 0.5; integers; integers, one row replaced."""

    number: int
    model: bytes
    batch: int
    optimize: bool
    ran: bytes | None = None
    """What would vote: the graph itself, or what the optimizer made of it; None if it could not be frozen."""
    row: int = 0
    watched: tuple[subject.Shown, ...] = (None, None, None)
    """The runtime's word on each: shapes of all values, entries of those that are no parameters."""
    outside: str = ""
    """How the graph is outside the dialect, if a fault was planted into it; `watched` has the first word alone then."""
    guard: str = ""
    """Who has to refuse it."""
    rows: tuple[int, ...] | None = None
    """The shape of a row that is asked for, if it is not the one that the graph declares."""
    taken: bool = True
    """Whether the runtime takes the graph with the fault; if not, `watched` is what it shows without it."""

    @property
    def deadly(self) -> bool:
        """Not a graph but a node that the runtime died of."""
        return self.batch == 0


def kept(seed: int, number: int, focus: fuzz.Focus, slate: Slate, odd: float) -> list[Kept]:
    """One graph, and what becomes of it when faults are planted; nothing if it came to nothing."""
    graph = generate.generate(
        seed, number, fuzz.OPERATORS, focus, lambda model: slate.write(number, "generate", model), odd
    )
    if graph is None:
        return []
    slate.write(number, "load", graph.model)
    try:
        oracle.session(graph.model)
    except Exception:  # onnxruntime's exceptions share no public base class
        return []
    try:
        frozen = graph.optimize and frozen_session(graph.model, "cpu", "", 1, "all", subject.FOLDER)[1]
    except NotFrozenError:
        return [Kept(number, graph.model, graph.batch, True)]
    ran = frozen or graph.model
    proto = onnx.load_model_from_string(ran)
    slate.write(number, "watch", graph.model)
    base, moved, row = oracle.inputs(proto, graph.batch)
    given = (np.full(base.shape, 0.5, np.float32), base, moved)
    found = Kept(number, graph.model, graph.batch, graph.optimize, ran, row, tuple(subject.watched(proto, given)))
    return [found, *_planted(found, random.Random(f"{seed}/{number}/outside"), slate)]


def _planted(kept: Kept, draw: random.Random, slate: Slate) -> Iterator[Kept]:
    """Some faults in a graph that is proved; one for each who has to refuse it."""
    shown, rows = kept.watched[0], subject.row(kept.model)
    if kept.ran is None or shown is None or subject.refused_as_file(kept.model) is not None:
        return
    if not subject.argued(kept.ran, shown, rows, kept.batch, kept.optimize).proved:
        return
    for one in outside.several(draw, FAULTS, kept.ran, *shown, kept.batch, kept.optimize):
        slate.write(kept.number, "watch", one.model)
        real = None if one.lie else subject.taken(one, kept.batch, rows)
        watched = (real or (one.shapes, one.entries), None, None)
        for guard in one.guards:
            yield replace(
                kept, model=one.model, ran=one.model, watched=watched, outside=one.what, guard=guard, rows=one.rows,
                taken=real is not None,
            )  # fmt: skip


def made(
    first: int, graphs: int, seed: int, focus: fuzz.Focus = (), odd: float = 0.08, processes: int = 1
) -> Iterator[Kept]:
    """Some graphs, and nodes that the runtime died of."""
    work = lambda number, slate: kept(seed, number, focus, slate, odd)  # noqa: E731
    for one in results(work, list(range(first, first + graphs)), processes):
        if isinstance(one, Death) and one.signal in SIGNALS:
            yield Kept(one.number, one.model, 0, False)
        elif not isinstance(one, Death):
            yield from one


def written(path: Path, found: Iterable[Kept]) -> tuple[int, int]:
    """Graphs put behind those of a file: how many, and how many of them are deadly."""
    count, deaths = 0, 0
    with path.open("ab") as file:
        for one in found:
            pickle.dump(one, file)
            count, deaths = count + 1, deaths + one.deadly
    return count, deaths


def read(paths: Iterable[Path]) -> Iterator[Kept]:
    for path in paths:
        with path.open("rb") as file:
            while True:
                try:
                    yield pickle.load(file)
                except (EOFError, pickle.UnpicklingError):  # the last one may be cut off
                    break


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--focus", default=(), type=fuzz.focus_on)
    parser.add_argument("--odd", type=float, default=0.08, help="how often a file holds more than a plain graph")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--processes", type=int, default=1)
    asked = parser.parse_args()
    start = time.monotonic()
    count, deaths = written(
        asked.out, made(asked.first, asked.graphs, asked.seed, asked.focus, asked.odd, asked.processes)
    )
    print(f"{count} kept of {asked.graphs}, {deaths} of them deadly; {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    import corpus  # what is kept must be known by the name that others import it by

    corpus.main()

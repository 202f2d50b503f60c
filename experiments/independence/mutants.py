"""How strong the fuzzer is: every check of the inspector is taken out in turn, and the fuzzer has to notice.

    python experiments/independence/mutants.py --graphs 100000 --processes 16 --log mutants.jsonl
    python experiments/independence/mutants.py --corpus corpus.pickle --log mutants.jsonl [--only TEXT]

The first makes a corpus of its own, beside the log, from a seed that nobody has chosen; the second takes one that is
there (`corpus`). Both end with a summary of the log.

The checks are those of the sources (`cuts`), of the table, and the form of each attribute (`forms`, `tables`). All are
switches in one copy of the package. The argument, without the witness, is made anew for the graphs of a corpus in which
the check refuses something: of the others the mutant says what the inspector says. A mutant is found if there is one of

- a false proof: it proves a graph whose rows were seen to interact;
- a contradiction: what it says of a value is not what the runtime computes;
- a graph outside the dialect that it admits (`outside`), be it that this runtime takes the graph or refuses it;
- a death: it lets a node pass to the runtime, in this process, that the runtime died of;
- a crash: it ends with an exception of its own.

Not found, but told apart, are checks that were never asked while the argument was made for the whole corpus, and the
short list of `equivalent`. The log has one line for each mutant.
"""

import argparse
import json
import secrets
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import cuts
import equivalent
import switches

SOURCE = Path(__file__).resolve().parents[2] / "src"
#: Seconds that one mutant may take.
PATIENCE = 600.0
#: How a mutant may end.
FOUND, MISSED, EQUIVALENT, UNREACHED = "found", "missed", "equivalent", "never asked"
#: A finding about a graph that the runtime refuses, or takes.
OUTSIDE = ("outside the dialect, refused by this runtime", "outside the dialect")
#: Parts of a rule that can be loosened: what they are if nothing is said, what stands in their place, and how the name
#: of the check begins that reads them.
PARTS: dict[str, tuple[object, object, str]] = {
    "outputs": (None, None, "onnx_dialect.check without `rule.outputs"),
    "constants": (range(0), range(0), "onnx_dialect.check without `any((number in rule.constants"),
    "operands": (None, (0, 99), "onnx_dialect.check without `problem"),
}


@dataclass(frozen=True)
class Mutant:
    """One check less: its name, the switch that fires where it matters, and how it is taken out and put back."""

    name: str
    switch: str
    out: Callable[[], None]
    back: Callable[[], None]
    operator: str = ""
    """Only graphs with this operator, if not empty."""
    checks: bool = False
    """A check of the sources, not of the table: if it is never asked of many graphs, the rules have no use for it."""


@dataclass(frozen=True)
class Said:
    """What an inspector says of a graph."""

    proved: bool = False
    contradiction: str | None = None
    crash: str | None = None
    passed: bool = False
    """Of a deadly node: that it may go to the runtime."""


def switched() -> list[str]:
    """From now on the package is a copy with switches in it; their names."""
    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    shutil.copytree(SOURCE / "soundsmooth", folder / "soundsmooth", ignore=shutil.ignore_patterns("__pycache__"))
    names = list(cuts.install(folder))
    sys.path.insert(0, str(folder))
    import soundsmooth

    assert soundsmooth.__file__.startswith(str(folder)), "another copy of the package is in use"
    return names


# The mutants. -----------------------------------------------------------------------------------------------------


def mutants(names: list[str]) -> list[Mutant]:
    return [*(_by_switch(name, True) for name in names), *forms(), *tables(names)]


def _by_switch(name: str, checks: bool = False) -> Mutant:
    out, back = lambda: setattr(switches, "active", name), lambda: setattr(switches, "active", None)
    return Mutant(name, name, out, back, checks=checks)


def forms() -> Iterator[Mutant]:
    """Every form of attributes admits anything: wherever it is used, and for one attribute of one operator."""
    from soundsmooth.independence.proof import onnx_dialect, onnx_graph

    names = {id(form): name for name, form in vars(onnx_dialect).items() if isinstance(form, onnx_dialect.Form)}
    kinds: set[str] = set()
    plain: dict[int, Any] = {}
    for domain, rules in onnx_graph.DOMAINS.items():
        for operator, rule in rules.items():
            attributes = {}
            for attribute, form in rule.attributes.items():
                if form.fits is onnx_dialect.anything:
                    attributes[attribute] = form
                    continue
                kind = f"form {names[id(form)]} admits anything"
                own = f"attribute {_title(domain, operator)}.{attribute} admits anything"
                kinds.add(kind)
                attributes[attribute] = replace(form, fits=_two_switches(kind, own, form.fits))
                yield _by_switch(own)
            rules[operator] = replace(rule, attributes=attributes)
            plain[id(attributes)] = rule
    known = onnx_graph.odd_flag  # it knows forms by their identity
    onnx_graph.odd_flag = lambda node, rule: _flagged(node, rule and plain[id(rule.attributes)], known, names)
    yield from map(_by_switch, sorted(kinds))


def _flagged(node: Any, rule: Any, odd_flag: Callable[..., str | None], names: dict[int, str]) -> str | None:
    """What `odd_flag` says of a node, which is nothing where the form of its flags admits anything."""
    problem = odd_flag(node, rule)
    if problem is None:
        return None
    title = _title(node.domain, node.op_type)
    given = [one.name for one in node.attribute if one.name in rule.attributes]
    out = {f"attribute {title}.{name} admits anything" for name in given}
    out |= {f"form {names[id(rule.attributes[name])]} admits anything" for name in given}
    switches.fired.update(out)
    return None if switches.active in out else problem


def _two_switches(kind: str, own: str, fits: Callable[..., bool]) -> Callable[..., bool]:
    def both(value: object, node: object) -> bool:
        return bool(switches.part(kind, switches.part(own, fits(value, node), True), True))

    return both


def tables(names: list[str]) -> Iterator[Mutant]:
    """Every other entry of every rule made less strict."""
    from soundsmooth.independence.proof.onnx_graph import DOMAINS

    for domain, rules in DOMAINS.items():
        for operator, rule in rules.items():
            for part, (usual, loose, begin) in PARTS.items():
                if getattr(rule, part) != usual:
                    (switch,) = (name for name in names if name.startswith(begin))
                    title = _title(domain, operator)
                    loosened = replace(rule, **{part: loose})
                    yield Mutant(
                        f"table {title} without {part}={getattr(rule, part)}",
                        switch,
                        lambda rules=rules, operator=operator, loosened=loosened: rules.update({operator: loosened}),
                        lambda rules=rules, operator=operator, rule=rule: rules.update({operator: rule}),
                        title,
                    )


def _title(domain: str, operator: str) -> str:
    return f"{domain}.{operator}" if domain else operator


# What an inspector says. ------------------------------------------------------------------------------------------


class Case:
    """A graph of the corpus, and what does not hang on the inspector."""

    def __init__(self, kept: Any) -> None:
        self.kept = kept
        self.fired: frozenset[str] = frozenset()
        self.proved = False
        self.order = (2 - kept.taken) if kept.outside else 0
        """Graphs as they are come first, then those with faults that the runtime takes, then those that it refuses."""

    @cached_property
    def operators(self) -> frozenset[str]:
        import onnx

        proto = onnx.load_model_from_string(self.kept.ran or self.kept.model)
        return frozenset(_title(node.domain, node.op_type) for node in proto.graph.node)

    @cached_property
    def violation(self) -> str | None:
        """How rows were seen to interact; last digits do not count."""
        import oracle

        found = oracle.violation(self.kept.ran, self.kept.batch)
        return None if found is None or found.startswith(oracle.DIGITS) else found

    def said(self) -> Said:
        try:
            if self.kept.deadly:
                return _deadly(self.kept)
            return _admitted(self.kept) if self.kept.outside else _argued(self.kept)
        except Exception:
            return Said(crash=traceback.format_exc(limit=-2))


def _deadly(kept: Any) -> Said:
    import onnx

    from soundsmooth.independence.proof.onnx_schema import malformed, suspicious

    proto = onnx.load_model_from_string(kept.model)
    return Said(passed=malformed(proto) is None and not suspicious(proto))


def _admitted(kept: Any) -> Said:
    """Of a graph with a fault."""
    import subject

    rows = kept.rows or kept.watched[0][0]["x"][1:]
    return Said(subject.admitted(kept.guard, kept.model, kept.watched[0], rows, kept.batch, kept.optimize))


def _argued(kept: Any) -> Said:
    """As `subject.prove`, with what the runtime said before."""
    import subject

    if subject.refused_as_file(kept.model) is not None or kept.ran is None:
        return Said()
    report = subject.argued(kept.ran, kept.watched[0], subject.row(kept.model), kept.batch, kept.optimize)
    return Said(report.proved, report.reason if report.contradiction else _contradiction(kept))


def _contradiction(kept: Any) -> str | None:
    """As `subject.contradiction`."""
    import subject

    from soundsmooth.independence.proof import onnx_graph
    from soundsmooth.independence.proof.values import Contradiction, Unproved, Value

    _, base, moved = kept.watched
    try:
        graph = onnx_graph.OnnxGraph(kept.ran, kept.optimize)
        found = graph.walk(kept.batch, subject.seen(base, graph.constants))
    except (Unproved, ValueError):
        return None
    wrong = next((str(each) for each in found.values() if isinstance(each, Contradiction)), None)
    if wrong is not None or moved is None:
        return wrong
    for name, claim in found.items():
        if isinstance(claim, Value) and name in base[1]:
            how = subject._disagreement(claim, base[1][name], moved[1][name], kept.batch, kept.row)
            if how:
                return f"{name}: {how}"
    return None


# Hunting. ---------------------------------------------------------------------------------------------------------


def loaded(paths: list[Path], processes: int) -> list[Case]:
    """The corpus, with what fires in each graph. The inspector as it is must be right about all of it."""
    import corpus
    import workers

    cases = [Case(kept) for kept in corpus.read(paths)]
    work = lambda number, _: (number, *_unmutated(cases[number]))  # noqa: E731
    right = []
    for one in workers.results(work, list(range(len(cases))), processes, PATIENCE):
        if isinstance(one, workers.Death):
            print(f"ATTENTION: graph {cases[one.number].kept.number}: {one.signal}", flush=True)
            continue
        number, fired, reached, proved, wrong, usable = one
        switches.reached |= reached
        case = cases[number]
        case.fired, case.proved = frozenset(map(sys.intern, fired)), proved
        if wrong:
            print(f"ATTENTION: graph {case.kept.number}, nothing taken out: {wrong}", flush=True)
        elif usable:
            right.append(number)
    return [cases[number] for number in sorted(right)]


def _unmutated(case: Case) -> tuple[frozenset[str], frozenset[str], bool, str | None, bool]:
    """Which checks fire in a graph and which are asked, whether it is proved, what is wrong about that, and whether
    mutants can be tried on it.
    """
    switches.fired.clear()
    switches.reached.clear()
    said = case.said()
    fired = frozenset(switches.fired)
    false = f"admitted by {case.kept.guard}: {case.kept.outside}" if case.kept.outside else None
    wrong = said.contradiction or said.crash or ((false or case.violation) if said.proved else None)
    return fired, frozenset(switches.reached), said.proved, wrong, not (case.kept.deadly and said.passed)


def hunted(mutant: Mutant, cases: list[Case], most: int) -> dict[str, Any]:
    """Whether a mutant is found."""
    fired = [case for case in cases if mutant.switch in case.fired]
    if mutant.operator:
        fired = [case for case in fired if mutant.operator in case.operators]
    groups = [[case for case in fired if case.order == order] for order in range(3)]
    more: list[int] = []
    mutant.out()
    try:
        for tries, case in enumerate(case for group in groups for case in group[:most]):
            said = case.said()
            kind = _finding(case, said)
            if kind is not None:
                return {"mutant": mutant.name, "end": FOUND, **kind, "graph": case.kept.number, "tries": tries + 1}
            more += [case.kept.number] if said.proved and not case.proved else []
    finally:
        mutant.back()
    if mutant.checks and mutant.switch not in switches.reached:
        return {"mutant": mutant.name, "end": UNREACHED}
    known = equivalent.reason(mutant.name)
    end = {"end": MISSED} if known is None else {"end": EQUIVALENT, "kind": known[0], "why": known[1]}
    return {"mutant": mutant.name, **end, "fired": len(fired), "proved more": len(more), "such as": more[:5]}


def _finding(case: Case, said: Said) -> dict[str, str] | None:
    if said.crash:
        return {"kind": "crash", "how": said.crash.strip().splitlines()[-1]}
    if said.passed:
        return {"kind": "death", "how": "the runtime dies of a node that passes"}
    if said.proved and case.kept.outside:
        return {"kind": OUTSIDE[case.kept.taken], "how": f"{case.kept.guard}: {case.kept.outside}"}
    if said.proved and case.violation:
        return {"kind": "false proof", "how": case.violation}
    return {"kind": "contradiction", "how": said.contradiction} if said.contradiction else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, nargs="*", default=[], help="graphs that were made before")
    parser.add_argument("--graphs", type=int, default=0, help="graphs to make first")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 31), help="of these; a new one if not given")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--most", type=int, default=1500, help="graphs for each mutant")
    parser.add_argument("--only", default="", help="mutants whose names hold this text")
    asked = parser.parse_args()
    every = mutants(switched())
    paths = [*asked.corpus, *([_corpus(asked)] if asked.graphs else [])]
    cases = loaded(paths, asked.processes)
    print(f"{len(every)} mutants, {len(cases)} graphs", flush=True)
    with asked.log.open("a") as log:
        for entry in _tried([one for one in every if asked.only in one.name], cases, asked.most, asked.processes):
            print(json.dumps(entry, ensure_ascii=False), file=log, flush=True)
    print(summary(asked.log))


def _corpus(asked: argparse.Namespace) -> Path:
    """A new corpus beside the log."""
    import corpus

    path = asked.log.with_suffix(f".{asked.seed}.pickle")
    count, deaths = corpus.written(path, corpus.made(0, asked.graphs, asked.seed, processes=asked.processes))
    print(f"seed {asked.seed}: {count} kept of {asked.graphs}, {deaths} of them deadly", flush=True)
    return path


def _tried(chosen: list[Mutant], cases: list[Case], most: int, processes: int) -> Iterator[dict[str, Any]]:
    """Each mutant in some process; one that its process died of is a finding."""
    import corpus
    import workers

    work = lambda number, _: hunted(chosen[number], cases, most)  # noqa: E731
    for one in workers.results(work, list(range(len(chosen))), processes, PATIENCE):
        if isinstance(one, workers.Death):
            end = {"end": FOUND, "kind": "death"} if one.signal in corpus.SIGNALS else {"end": MISSED}
            yield {"mutant": chosen[one.number].name, **end, "how": one.signal}
        else:
            yield one


def summary(log: Path) -> str:
    """What a log says of each mutant, found if it ever was."""
    best: dict[str, dict[str, Any]] = {}
    for entry in map(json.loads, log.read_text().splitlines()):
        if entry["end"] == FOUND or best.get(entry["mutant"], {}).get("end") != FOUND:
            best[entry["mutant"]] = entry
    some = list(best.values())
    ends = Counter(entry["end"] for entry in some)
    kinds = Counter(entry["kind"] for entry in some if entry["end"] == FOUND)
    counts = (f"{end} {ends[end]}" for end in (FOUND, UNREACHED, EQUIVALENT, MISSED))
    lines = [f"{len(some)} mutants: {', '.join(counts)}"]
    lines += [f"  found, {kind}: {count}" for kind, count in kinds.most_common()]
    rest = max(ends[FOUND] + ends[MISSED], 1)
    lines += [f"  found of those that are asked and not argued equivalent: {100 * ends[FOUND] / rest:.1f} %"]
    lines += [f"  found of all: {100 * ends[FOUND] / max(len(some), 1):.1f} %"]
    for end in (UNREACHED, EQUIVALENT, MISSED):
        lines += [f"  {end}: {entry['mutant']}" for entry in some if entry["end"] == end]
    return "\n".join(lines)


if __name__ == "__main__":
    main()

"""What votes in a module's place: a graph for each shape of batches, where one is proved, and how it runs."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.errors import first_line
from ..independence.proof import Exported, ProofReport, export_module, prove_torch, with_folded_norms, without_detours
from .artifact import WAY_OUT, Artifact
from .compiled import AUTO, TUNED, Forward, check_way, forward_of
from .snapshot import Snapshot
from .speed import describe_slower, faster_compiled, free_memory
from .torch_devices import machine_text
from .tuning import Tunable, load, tune

if TYPE_CHECKING:
    import torch

#: What `auto` is for a run is decided by timing some passes, if it has so many batches: that costs at most 2 %.
LONG = 200
#: The graph is compared with the module before a run of so many batches, which costs at most 2 % too.
VERY_LONG = 700

BatchOf = Callable[[int], "torch.Tensor"]
#: Graphs, the best one first, and whether each is shorter than the exported one.
Variants = list[tuple[Exported, bool]]
#: The first graph that is proved, whether it is shorter, and the last report.
Proved = tuple[Exported | None, bool, ProofReport | None]


class VotingGraph(NamedTuple):
    """The graph that votes in a module's place."""

    module: Any
    read: Snapshot
    """The numbers that it reads."""
    shortened: bool
    """Whether it does without masks, copies or a convolution of the one that was exported."""
    classes: int | None
    """How many classes it scores, if it tells."""


#: The graph for batches of a shape, if it is proved, and the report on such batches.
Found = tuple[VotingGraph | None, ProofReport | None]


class VotingGraphs:
    """The graphs of one module, and the way in which they run, or the module where there is none.

    Guarantee: a batch of one shape is voted on by one forward pass for good, from the proof of its graph on. With an
    artifact its kernels vote, and no others.
    """

    def __init__(
        self, scoring: "torch.nn.Module", compilation: str, device: "torch.device", artifact: Artifact | None = None
    ) -> None:
        self._module, self._device = scoring, device
        self.compilation, self.artifact = compilation, artifact
        if compilation == AUTO and device.type != "cuda":
            self.compilation = "none"
        check_way(compilation, device.type)
        self.slower: str | None = None
        self.chosen: str | None = None
        self._found: dict[tuple[int, ...], Found] = {}
        """By the shape of batches."""
        self._exported: dict[tuple[int, ...], Variants] = {}
        self._proofs: dict[tuple[tuple[int, ...], bool], Proved] = {}
        """By the shape of batches, and by whether normalisation is folded."""
        self._forwards: dict[tuple[int, ...], Forward] = {}
        self._compared: set[tuple[int, ...]] = set()
        """The shapes for which the graph was compared with the module."""
        self._decided: dict[tuple[int, ...], float] = {}
        """For runs of how many copies, at most, it was decided that they are not compiled for."""

    @property
    def promised(self) -> str:
        """The way, as a promise has it."""
        return "none" if self.compilation == AUTO else self.compilation

    def run_as(self, compilation: str, artifact: Artifact | None) -> None:
        """Run in the way that was promised, with the artifact that was promised."""
        if (compilation, artifact) == (self.promised, self.artifact):
            return
        self._found.clear()
        self._forwards.clear()
        if artifact is None:
            self._forget()
        self.compilation, self.artifact = compilation, artifact

    def _forget(self) -> None:
        """Drop what was proved on the way: folded graphs have weights of their own."""
        self._exported.clear()
        self._proofs.clear()

    def __getitem__(self, shape: tuple[int, ...]) -> VotingGraph | None:
        """The graph for batches of a shape, after it was proved."""
        return self._found.get(shape, (None, None))[0]

    def found(self, shape: tuple[int, ...]) -> Found | None:
        """What `prove` has found for batches of a shape; None if it has not been asked."""
        return self._found.get(shape)

    def prove(self, example: "torch.Tensor") -> Found:
        """The graph for batches like the example, if it is proved, and the report on such batches."""
        shape = tuple(example.shape)
        found = self._found.get(shape)
        if found is None:
            graph, report = self._proved(example)
            forward = self._tuned_forward(graph, example)
            if forward is not None:
                self._forget()
            found = self._found.setdefault(shape, (graph, report))  # another thread's may be in use by now
            self._forwards.pop(shape, None)
            if forward is not None:
                self._forwards[shape] = forward
        return found

    def check_batch(self, batch: int, shape: tuple[int, ...]) -> None:
        """A ValueError if there is an artifact, and its kernels are for other batches."""
        artifact = self.artifact
        if artifact is not None and (batch, *shape) != artifact.batch_shape:
            raise ValueError(
                f"the artifact is for batches of {artifact.way.batch} inputs of shape {list(artifact.shape)}, and "
                f"these are batches of {batch} of shape {list(shape)}: leave out the batch size, take a larger n, or "
                "tune for these in another file"
            )

    def _proof(self, example: "torch.Tensor", folded: bool) -> Proved:
        """The graph for batches like the example, with folded normalisation or as it is. It is looked for once."""
        key = tuple(example.shape), folded
        found = self._proofs.get(key)
        if found is None:
            variants = self._variants(example)
            found = _first_proved(example, _folded(variants, example) if folded else variants)
            self._proofs[key] = found
        return found

    def _variants(self, example: "torch.Tensor") -> Variants:
        """The graphs that may vote as they are, exported once."""
        shape = tuple(example.shape)
        found = self._exported.get(shape)
        if found is None:
            exported = export_module(self._module, example)
            shorter = without_detours(exported, example)
            found = [(exported, False)] if shorter is None else [(shorter, True), (exported, False)]
            self._exported[shape] = found
        return found

    def _proved(self, example: "torch.Tensor") -> Found:
        """What may vote with the artifact. Where its kernels are for a folded graph, it is no other one."""
        from .torch_scores import inferred_classes

        made, shortened, report = self._proof(example, folded=self.artifact is not None and self.artifact.way.folded)
        if made is None and self.artifact is not None and tuple(example.shape) != self.artifact.batch_shape:
            made, shortened, report = self._proof(example, folded=False)
        if made is None or made.graph is None:
            return None, report
        classes = inferred_classes(made.scores, len(example))  # a ValueError before any vote
        return VotingGraph(made.graph, Snapshot(made.graph), shortened, classes), report

    def _tuned_forward(self, graph: VotingGraph | None, example: "torch.Tensor") -> Forward | None:
        """What the artifact has for this graph; None without one, and for batches for which it was not tuned."""
        artifact = self.artifact
        if artifact is None or self.compilation != TUNED or tuple(example.shape) != artifact.batch_shape:
            return None
        if artifact.machine != machine_text(self._device):
            raise ValueError(
                f"the artifact was tuned on {artifact.machine}, and this is {machine_text(self._device)}; {WAY_OUT}"
            )
        if graph is None:
            raise ValueError(f"the graph that was tuned is not proved here; {WAY_OUT}")
        return load(artifact, graph.module, example)

    def forward(self, batch: "torch.Tensor") -> Any:
        """The scores, from what votes on batches of this shape."""
        shape = tuple(batch.shape)
        forward = self._forwards.get(shape)
        if forward is None:
            graph = self[shape]
            module, untuned = self._module if graph is None else graph.module, self.artifact is None
            way = "none" if self.compilation == TUNED and untuned else self.compilation
            forward = self._forwards.setdefault(shape, forward_of(module, way, batch))
        return forward(batch)

    def changes(self) -> Callable[[], bool]:
        """Look now, and say later whether the numbers that graphs read have changed."""
        looks = [graph.read.compare() for graph, _ in self._found.values() if graph is not None]
        return lambda: any(changed() for changed in looks)

    def settle(self, example: "torch.Tensor", copies: int) -> None:
        """Decide what `auto` is for a run of so many copies, and see whether the graph is as fast as the module.

        A run has to be long for that, and on a GPU, where nobody else is at work. What is decided stays; a longer run
        than before may decide anew.
        """
        if self.promised != "none":
            return
        shape = tuple(example.shape)
        graph = self[shape]
        if graph is not None and copies >= VERY_LONG * len(example) and shape not in self._compared:
            self._compared.add(shape)
            self.slower = describe_slower(self._module, graph.module, example)
        if self.compilation == AUTO and copies >= LONG * len(example) and copies > self._decided.get(shape, 0):
            self._decide(self._module if graph is None else graph.module, example, copies)

    def _decide(self, module: Any, example: "torch.Tensor", copies: int) -> None:
        """Compile, where that gains something. What was tried in vain is not tried again."""
        shape, found = tuple(example.shape), faster_compiled(module, example, copies)
        self._decided[shape] = copies if found is None else inf
        if found is not None:
            self.chosen = found.said
        if found is not None and found.compiled is not None:
            self.compilation, self._forwards[shape] = "torch-compile", found.compiled

    def tune(self, batch_of: BatchOf, batches: Sequence[int], model: str) -> Artifact:
        """Choose kernels and a batch size by timing, for a graph that is proved; from now on the artifact votes."""

        @cache
        def candidates(batch: int) -> dict[bool, Exported]:
            return self.candidates(batch_of(batch))

        subject = Tunable(self._module, partial(_fresh_graph, candidates), batch_of)
        try:
            choice, artifact = tune(subject, batches, model, machine_text(self._device))
        except RuntimeError as error:  # there is too little memory for the graph as it is, or no compiler any more
            free_memory()
            raise ValueError(
                f"its kernels cannot be tuned on {self._device}: {first_line(error)}; choose compile none, or a "
                "smaller batch size"
            ) from error
        self.run_as(TUNED, artifact)
        self.chosen = str(choice)
        return artifact

    def candidates(self, example: "torch.Tensor") -> dict[bool, Exported]:
        """The graphs for batches like the example that are proved: as exported or shortened, and folded (True)."""
        proofs = {folded: self._proof(example, folded)[0] for folded in (False, True)}
        return {folded: made for folded, made in proofs.items() if made is not None}


def _folded(variants: Variants, example: "torch.Tensor") -> Variants:
    """The same graphs with folded normalisation, those of them that there are."""
    found = [(with_folded_norms(made, example), shortened) for made, shortened in variants]
    return [(made, shortened) for made, shortened in found if made is not None]


def _first_proved(example: "torch.Tensor", variants: Variants) -> Proved:
    report = None
    for made, shortened in variants:
        report = prove_torch(made, example)
        if report.proved:
            return made, shortened, report
    return None, False, report


def _fresh_graph(candidates: Callable[[int], dict[bool, Exported]], batch: int, folded: bool) -> Any:
    """One of the candidates for batches of a size, each time as an object of its own; None if there is none."""
    from torch import fx

    found = candidates(batch).get(folded)
    return None if found is None or found.graph is None else fx.GraphModule(found.graph, found.graph.graph)

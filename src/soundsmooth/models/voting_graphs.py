"""What votes in a module's place: a graph for each shape of batches, where one is proved, and how it runs."""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..independence.proof import Exported, ProofReport, export_module, prove_torch, with_folded_norms, without_detours
from .artifact import Artifact
from .compiled import AUTO, TUNED, Forward, check_way, forward_of
from .snapshot import Snapshot
from .speed import describe_slower, faster_compiled
from .torch_devices import machine_text
from .tuning import Choice, Tunable, choose, load, pack

if TYPE_CHECKING:
    import torch

#: Passes are timed before a run only if it has so many batches.
LONG = 200

BatchOf = Callable[[int], "torch.Tensor"]


class VotingGraph(NamedTuple):
    """The graph that votes in a module's place."""

    module: Any
    read: Snapshot
    """The numbers that it reads."""
    shortened: bool
    """Whether it has fewer masks and copies than the one that was exported."""
    classes: int | None
    """How many classes it scores, if it tells."""


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
        self._graphs: dict[tuple[int, ...], VotingGraph | None] = {}
        """By the shape of batches."""
        self._reports: dict[tuple[int, ...], ProofReport | None] = {}
        self._forwards: dict[tuple[int, ...], Forward] = {}

    @property
    def promised(self) -> str:
        """The way, as a promise has it."""
        return "none" if self.compilation == AUTO else self.compilation

    def run_as(self, compilation: str, artifact: Artifact | None) -> None:
        """Run in the way that was promised, with the artifact that was promised."""
        if (compilation, artifact) == (self.promised, self.artifact):
            return
        self._graphs.clear()
        self._forwards.clear()
        self.compilation, self.artifact = compilation, artifact

    def __getitem__(self, shape: tuple[int, ...]) -> VotingGraph | None:
        """The graph for batches of a shape, after it was proved."""
        return self._graphs.get(shape)

    def prove(self, example: "torch.Tensor") -> tuple[VotingGraph | None, ProofReport | None]:
        """The graph for batches like the example, if it is proved, and the report on such batches."""
        shape = tuple(example.shape)
        if shape not in self._graphs:
            graph, report = self._proved(example, *self._variants(example))
            forward = None if graph is None else self._tuned_forward(graph, example)
            self._reports[shape] = report
            graph = self._graphs.setdefault(shape, graph)  # another thread's may be in use by now
            self._forwards.pop(shape, None)
            if forward is not None:
                self._forwards[shape] = forward
        return self._graphs[shape], self._reports[shape]

    def _variants(self, example: "torch.Tensor") -> list[tuple[Exported, bool]]:
        """The graphs that may vote, the best one first, and whether each is shorter than the exported one."""
        exported = export_module(self._module, example)
        shorter = without_detours(exported, example)
        found = [(shorter, True), (exported, False)] if shorter is not None else [(exported, False)]
        if self.artifact is None or not self.artifact.way.folded:
            return found
        made, shortened = found[0]
        folded = with_folded_norms(made, example)
        return found if folded is None else [(folded, shortened)]

    def _proved(
        self, example: "torch.Tensor", *variants: tuple[Exported, bool]
    ) -> tuple[VotingGraph | None, ProofReport | None]:
        from .torch_scores import inferred_classes

        report = None
        for made, shortened in variants:
            report = prove_torch(made, example)
            if report.proved and made.graph is not None:
                classes = inferred_classes(made.scores, len(example))  # a ValueError before any vote
                return VotingGraph(made.graph, Snapshot(made.graph), shortened, classes), report
        return None, report

    def _tuned_forward(self, graph: VotingGraph, example: "torch.Tensor") -> Forward | None:
        """What the artifact has for this graph; None without one, and for batches for which it was not tuned."""
        artifact = self.artifact
        if artifact is None or self.compilation != TUNED or tuple(example.shape) != artifact.batch_shape:
            return None
        if artifact.machine != machine_text(self._device):
            raise ValueError(
                f"the artifact was tuned on {artifact.machine}, and this is {machine_text(self._device)}; "
                "begin another run here, or choose compile none"
            )
        return load(artifact, graph.module, example)

    def forward(self, batch: "torch.Tensor") -> Any:
        """The scores, from what votes on batches of this shape."""
        shape = tuple(batch.shape)
        forward = self._forwards.get(shape)
        if forward is None:
            graph = self._graphs.get(shape)
            module, untuned = self._module if graph is None else graph.module, self.artifact is None
            way = "none" if self.compilation == TUNED and untuned else self.compilation
            forward = self._forwards.setdefault(shape, forward_of(module, way, batch))
        return forward(batch)

    def changes(self) -> Callable[[], bool]:
        """Look now, and say later whether the numbers that graphs read have changed."""
        looks = [graph.read.compare() for graph in self._graphs.values() if graph is not None]
        return lambda: any(changed() for changed in looks)

    def settle(self, example: "torch.Tensor", copies: int) -> None:
        """Decide what `auto` is for a run of so many copies, and see whether the graph is as fast as the module.

        A run has to be long for that, and on a GPU, where nobody else is at work. What is decided stays; where nothing
        was gained, the next run may decide anew.
        """
        if self.promised != "none" or copies < LONG * len(example):
            return
        graph = self._graphs.get(tuple(example.shape))
        module = self._module if graph is None else graph.module
        self.slower = None if graph is None else describe_slower(self._module, module, example)
        if self.compilation == AUTO:
            found = faster_compiled(module, example, copies)
            if found is not None:
                self.compilation, (self._forwards[tuple(example.shape)], self.chosen) = "torch-compile", found

    def tune(self, batch_of: BatchOf, batches: Sequence[int], model: str) -> Artifact:
        """Choose kernels and a batch size by timing, for a graph that is proved; from now on the artifact votes."""

        @cache
        def candidates(batch: int) -> dict[bool, Exported]:
            return self.candidates(batch_of(batch))

        subject = Tunable(self._module, partial(_fresh_graph, candidates), batch_of)
        choice: Choice = choose(subject, batches)
        artifact = pack(subject, choice, model, machine_text(self._device))
        self.run_as(TUNED, artifact)
        self.chosen = str(choice)
        return artifact

    def candidates(self, example: "torch.Tensor") -> dict[bool, Exported]:
        """The graphs for batches like the example that are proved: as exported or shortened, and folded (True)."""
        made, _ = self._variants(example)[0]
        folded = with_folded_norms(made, example)
        return {False: made} if folded is None else {False: made, True: folded}


def _fresh_graph(candidates: Callable[[int], dict[bool, Exported]], batch: int, folded: bool) -> Any:
    """One of the candidates for batches of a size, each time as an object of its own; None if there is none."""
    from torch import fx

    found = candidates(batch).get(folded)
    return None if found is None or found.graph is None else fx.GraphModule(found.graph, found.graph.graph)

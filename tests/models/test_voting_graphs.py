"""What votes in a module's place, and how it runs: decided before the promise, and the same in each process."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
import torch

from soundsmooth.models import speed, tuning, voting_graphs
from soundsmooth.models.artifact import Artifact
from soundsmooth.models.speed import Compared
from soundsmooth.models.torch_module import TorchModel
from soundsmooth.models.voting_graphs import LONG, VERY_LONG, VotingGraphs

EXAMPLE = torch.full((5, 4), 0.5)
CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


def net() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3)).eval()


@pytest.fixture
def untimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tuning tries one way only, the graph as it is: nothing is compiled, and nothing timed decides."""
    monkeypatch.setattr(tuning, "own_caches", nullcontext)
    monkeypatch.setattr(tuning, "_changes", lambda batches, on_gpu: [])


def tuned(module: torch.nn.Module) -> tuple[VotingGraphs, Artifact]:
    graphs = VotingGraphs(module, "tuned", CPU)
    return graphs, graphs.tune(lambda rows: torch.full((rows, 4), 0.5), [5, 3], "ab" * 32)


@pytest.mark.usefixtures("untimed")
def test_from_tuning_on_the_artifact_votes() -> None:
    module, rows = net(), torch.rand(5, 4)
    graphs, artifact = tuned(module)
    assert (artifact.way.batch, artifact.shape, artifact.model) == (5, (4,), "ab" * 32)
    graph, report = graphs.prove(EXAMPLE)
    assert graph is not None
    assert report is not None
    assert report.proved
    assert torch.equal(graphs.forward(rows), module(rows))
    assert graphs.chosen is not None
    assert graphs.chosen.startswith("tuned in ")


@pytest.mark.usefixtures("untimed")
def test_another_process_loads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It never tunes again."""
    _, artifact = tuned(net())
    other = VotingGraphs(net(), "auto", CPU)
    monkeypatch.setattr(voting_graphs, "tune", lambda *_: pytest.fail("the choice is in the artifact"))
    loaded = []
    monkeypatch.setattr(voting_graphs, "load", lambda found, graph, rows: loaded.append(found) or graph)
    other.run_as("tuned", artifact)
    other.prove(EXAMPLE)
    other.prove(EXAMPLE)
    assert loaded == [artifact]
    assert other.promised == "tuned"


@pytest.mark.usefixtures("untimed")
@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"machine": "another card"}, "was tuned on another card, and this is "),
        ({"scores": "cd" * 32}, "compute other scores here than where they were tuned"),
    ],
)
def test_an_artifact_that_does_not_fit_is_rejected(change: dict[str, Any], error: str) -> None:
    _, artifact = tuned(net())
    other = VotingGraphs(net(), "tuned", CPU, replace(artifact, **change))
    with pytest.raises(ValueError, match=error):
        other.prove(EXAMPLE)


@pytest.mark.usefixtures("untimed")
@pytest.mark.parametrize(("shape", "batch"), [((1, 4), 5), ((4,), 6)])
def test_other_batches_are_not_promised_with_it(shape: tuple[int, ...], batch: int) -> None:
    """A prediction in a smaller batch may run without its kernels; a run may not."""
    model = TorchModel(net(), independence="proved", compilation="tuned")
    model.settle((4,), [5], 1000)
    with pytest.raises(ValueError, match=r"is for batches of 5 inputs of shape \[4\], and these are batches of"):
        model.settle(shape, [batch], 1000)
    rows = torch.rand(6, 4)
    model.prepare((4,), 6)
    assert torch.equal(model.forward(rows), net()(rows))


@pytest.mark.usefixtures("untimed")
def test_another_models_artifact_is_rejected() -> None:
    model = TorchModel(net(), independence="proved", compilation="tuned")
    model.settle((4,), [5], 1000)
    content = model.artifact
    assert content is not None
    with pytest.raises(ValueError, match="tuned for another model; a new run tunes its own"):
        TorchModel(torch.nn.Linear(4, 3), compilation="tuned", artifact=content)
    same = TorchModel(net(), independence="proved", compilation="tuned", artifact=content)
    same.prepare((4,), 5)
    assert same.identity() == model.identity()
    assert same.flags()["artifact"] == Artifact.of(content).digest


@pytest.mark.usefixtures("untimed")
def test_a_model_that_changes_while_it_is_tuned_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    model = TorchModel(net(), independence="proved", compilation="tuned")

    def changing(*given: Any) -> tuple[tuning.Choice, Artifact]:
        with torch.no_grad():
            next(model._module.parameters()).add_(1)
        return tuning.tune(*given)

    monkeypatch.setattr(voting_graphs, "tune", changing)
    for _ in range(2):  # and it stays rejected: a second call may not take what was tuned for the changed model
        with pytest.raises(ValueError, match="the model changed while its kernels were tuned"):
            model.settle((4,), [5], 1000)
    assert model.artifact is None


@pytest.mark.usefixtures("untimed")
@pytest.mark.parametrize("where", ["choose", "pack"])
def test_too_little_memory_is_one_line(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the graph as it is, which has to run in any case."""

    def full(*_: object) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB.\nmore")

    model = TorchModel(net(), independence="proved", compilation="tuned")
    monkeypatch.setattr(tuning, where, full)
    said = r"cannot be tuned on cpu: CUDA out of memory. Tried to allocate 9 GiB.; choose compile none, or a smaller"
    with pytest.raises(ValueError, match=said):
        model.settle((4,), [5], 1000)
    assert model.artifact is None


def normalised() -> torch.nn.Module:
    torch.manual_seed(0)
    norm = torch.nn.BatchNorm2d(2)
    torch.nn.init.uniform_(norm.running_var)
    return torch.nn.Sequential(torch.nn.Conv2d(1, 2, 1), norm, torch.nn.Flatten(), torch.nn.Linear(8, 3)).eval()


@pytest.mark.usefixtures("untimed")
def test_a_folded_graph_is_proved_and_no_other_has_its_artifact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it cannot be made or proved any more, the run ends: the module would vote, under a promise of kernels."""
    monkeypatch.setattr(tuning, "_changes", lambda batches, on_gpu: [[{"folded": True}]])
    monkeypatch.setattr(tuning, "WORTH", 1e9)
    model = TorchModel(normalised(), independence="auto", compilation="tuned")
    model.settle((1, 2, 2), [5], 1000)
    assert Artifact.of(model.artifact or b"").way.folded
    model.prepare((1, 2, 2), 5)
    assert model.identity().independence.proved
    graph = model._voting[(5, 1, 2, 2)]
    assert graph is not None
    assert "aten.batch_norm.default" not in {str(node.target) for node in graph.module.graph.nodes}
    proving = voting_graphs.prove_torch

    def unproved(made: Any, example: torch.Tensor) -> Any:
        report = proving(made, example)
        return report if "aten.batch_norm.default" in made.operators else replace(report, proved=False, reason="no")

    for name, instead in (("prove_torch", unproved), ("with_folded_norms", lambda *_: None)):
        with monkeypatch.context() as patch:
            patch.setattr(voting_graphs, name, instead)
            other = TorchModel(normalised(), independence="auto", compilation="tuned", artifact=model.artifact)
            with pytest.raises(ValueError, match="the graph that was tuned is not proved here; a new run tunes"):
                other.prepare((1, 2, 2), 5)
            other.prepare((1, 2, 2), 3)  # a prediction in other batches
            assert other.identity().independence.proved


@pytest.mark.usefixtures("untimed")
def test_a_graph_is_exported_and_proved_once_while_it_is_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, with and after tuning: as it is, and with folded normalisation. Folded weights are not kept twice."""
    monkeypatch.setattr(tuning, "_changes", lambda batches, on_gpu: [[{"folded": True}]])
    monkeypatch.setattr(tuning, "WORTH", 1e9)
    calls: list[str] = []

    def counted(name: str) -> Callable[..., Any]:
        usual = getattr(voting_graphs, name)
        return lambda *given: calls.append(name) or usual(*given)

    for name in ("export_module", "prove_torch"):
        monkeypatch.setattr(voting_graphs, name, counted(name))
    model = TorchModel(normalised(), independence="auto", compilation="tuned")
    model.settle((1, 2, 2), [5], 1000)
    model.prepare((1, 2, 2), 5)
    assert sorted(calls) == ["export_module", "prove_torch", "prove_torch"]
    assert not model._voting._proofs
    assert not model._voting._exported


@pytest.mark.usefixtures("untimed")
def test_what_is_not_proved_is_not_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folded graph that is faster and not proved is left out."""
    monkeypatch.setattr(tuning, "_changes", lambda batches, on_gpu: [[{"folded": True}]])
    monkeypatch.setattr(tuning, "WORTH", 1e9)
    proving = voting_graphs.prove_torch

    def unproved(made: Any, example: torch.Tensor) -> Any:
        report = proving(made, example)
        return report if "aten.batch_norm.default" in made.operators else replace(report, proved=False, reason="no")

    monkeypatch.setattr(voting_graphs, "prove_torch", unproved)
    model = TorchModel(normalised(), independence="auto", compilation="tuned")
    model.settle((1, 2, 2), [5], 1000)
    assert not Artifact.of(model.artifact or b"").way.folded


class Mixing(torch.nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input) - input.mean()


def test_it_is_said_why_nothing_is_proved() -> None:
    model = TorchModel(Mixing(4, 3), compilation="tuned")
    with pytest.raises(ValueError, match=r"and these are \w+.* \(.*mean.*\): choose torch-compile"):
        model.settle((4,), [5], 1000)


def test_only_what_is_proved_is_tuned() -> None:
    model = TorchModel(net(), independence="assumed", compilation="tuned")
    with pytest.raises(
        ValueError, match="rows are proved to be independent, and these are assumed: choose torch-compile"
    ):
        model.settle((4,), [5], 1000)


FASTER = Compared(lambda rows: rows[:, :3], "compiled: 2 times as fast")


class Decisions:
    """A module on a pretended GPU: what is measured is said, and nothing runs there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, compiled: Compared | None) -> None:
        self.asked: list[tuple[str, int]] = []
        monkeypatch.setattr(voting_graphs, "describe_slower", self._slower)
        monkeypatch.setattr(voting_graphs, "faster_compiled", self._compiled)
        self.found = compiled

    def _slower(self, *_: object) -> str:
        self.asked.append(("slower", 0))
        return "the graph is slow"

    def _compiled(self, module: object, batch: torch.Tensor, copies: int) -> Compared | None:
        self.asked.append(("compiled", copies))
        return self.found


def settled(compilation: str, batches: int) -> VotingGraphs:
    graphs = VotingGraphs(net(), "none", CPU)
    graphs.prove(EXAMPLE)
    graphs.compilation = compilation
    graphs.settle(EXAMPLE, batches * len(EXAMPLE))
    return graphs


def test_auto_becomes_the_faster_way(monkeypatch: pytest.MonkeyPatch) -> None:
    decisions = Decisions(monkeypatch, FASTER)
    found = settled("auto", VERY_LONG)
    assert (found.promised, found.chosen, found.slower) == (
        "torch-compile",
        "compiled: 2 times as fast",
        "the graph is slow",
    )
    assert torch.equal(found.forward(EXAMPLE), EXAMPLE[:, :3])
    assert decisions.asked == [("slower", 0), ("compiled", VERY_LONG * 5)]


def test_auto_stays_as_it_is_where_that_is_as_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    Decisions(monkeypatch, None)
    found = settled("auto", LONG)
    assert (found.promised, found.chosen) == ("none", None)


def test_a_short_run_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few passes before a lone image would take as long as its votes."""
    decisions = Decisions(monkeypatch, None)
    assert settled("auto", LONG - 1).promised == "none"
    assert decisions.asked == []


def test_after_a_short_run_a_long_one_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same model; to run as was promised, none, decides nothing."""
    Decisions(monkeypatch, FASTER)
    found = settled("auto", LONG - 1)
    found.run_as("none", None)
    found.settle(EXAMPLE, LONG * len(EXAMPLE))
    assert found.promised == "torch-compile"
    found.settle(EXAMPLE, len(EXAMPLE))
    assert found.promised == "torch-compile"


def test_who_says_none_is_not_compiled_for(monkeypatch: pytest.MonkeyPatch) -> None:
    decisions = Decisions(monkeypatch, None)
    assert settled("none", VERY_LONG).promised == "none"
    assert decisions.asked == [("slower", 0)]


def test_a_way_is_prepared_once_for_each_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = []

    def prepare(module: object, how: str, batch: torch.Tensor) -> Callable[[torch.Tensor], int]:
        prepared.append((how, tuple(batch.shape)))
        return len

    monkeypatch.setattr(voting_graphs, "forward_of", prepare)
    graphs = VotingGraphs(net(), "torch-compile", CPU)
    assert [graphs.forward(torch.zeros(rows, 2)) for rows in (3, 4, 3, 4, 3)] == [3, 4, 3, 4, 3]
    assert prepared == [("torch-compile", (3, 2)), ("torch-compile", (4, 2))]


def test_the_measurements_cost_at_most_two_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five rounds of both, one that counts for nothing, and one in which operators are watched; a glance at one."""
    decisions = Decisions(monkeypatch, None)
    settled("auto", VERY_LONG - 1)
    assert decisions.asked == [("compiled", (VERY_LONG - 1) * 5)]
    assert 2 * (speed.ROUNDS + 2) <= 0.02 * VERY_LONG
    assert speed.GLANCE <= 0.02 * LONG


def test_what_was_measured_is_not_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop over images, each long enough to look, would pay for it with each of them."""
    decisions = Decisions(monkeypatch, None)
    found = settled("auto", VERY_LONG)
    for batches in (VERY_LONG, VERY_LONG, LONG):
        found.settle(EXAMPLE, batches * len(EXAMPLE))
    assert decisions.asked == [("slower", 0), ("compiled", VERY_LONG * 5)]
    found.settle(EXAMPLE, 2 * VERY_LONG * len(EXAMPLE))
    assert decisions.asked[2:] == [("compiled", 2 * VERY_LONG * 5)]


def test_what_was_compiled_in_vain_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    decisions = Decisions(monkeypatch, Compared(None, "not compiled"))
    found = settled("auto", LONG)
    assert (found.promised, found.chosen) == ("none", "not compiled")
    found.settle(EXAMPLE, 10**9)
    assert decisions.asked.count(("compiled", LONG * 5)) == 1
    assert ("compiled", 10**9) not in decisions.asked

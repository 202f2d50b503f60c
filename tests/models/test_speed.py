"""A graph that takes longer than its module is reported, with the operators that cost it."""

import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import soundsmooth as ss
from soundsmooth.core.warn import IndependenceWarning
from soundsmooth.models import speed, voting_graphs
from soundsmooth.models.speed import FASTER, PAYS, ROUNDS, describe_slower, faster_compiled, quick_rows
from soundsmooth.models.torch_module import TorchModel

BATCH = torch.rand(64, 32)


class Clock:
    """Time passes only where work is said to be done: no test here depends on how busy the machine is."""

    def __init__(self) -> None:
        self.now, self.passes = 0.0, list[str]()

    def __call__(self) -> float:
        return self.now

    def taking(self, name: str, *seconds: float):
        """A pass that takes so long; the numbers go round."""

        def forward(batch: torch.Tensor) -> torch.Tensor:
            self.now += seconds[self.passes.count(name) % len(seconds)]
            self.passes.append(name)
            return batch.exp().sort(dim=0).values if name == "graph" else batch.exp()

        return forward


@pytest.mark.parametrize(("graph", "said"), [(1.0, False), (1.02, False), (1.05, True), (3.3, True), (0.5, False)])
def test_more_than_three_percent_is_said(graph: float, said: bool) -> None:
    clock = Clock()
    found = describe_slower(clock.taking("module", 1.0), clock.taking("graph", graph), BATCH, clock)
    assert (found is not None) == said
    assert clock.passes[: 2 * (ROUNDS + 1)] == ["module", "graph"] * (ROUNDS + 1)


def test_one_slow_pass_is_not_the_graph() -> None:
    clock = Clock()
    assert describe_slower(clock.taking("module", 1.0), clock.taking("graph", 9, 1, 9, 1, 1, 1), BATCH, clock) is None


def test_the_operators_that_cost_it_are_named() -> None:
    """Sorting is what the graph does and the module does not."""
    clock = Clock()
    found = describe_slower(clock.taking("module", 1.0), clock.taking("graph", 2.0), BATCH, clock)
    assert found is not None
    assert found.startswith("the exported graph, which votes, takes 2.00 times as long as the module itself")
    assert re.search(r"most of that is .*\bsort \([0-9.]+ ms a batch\)", found)


def test_it_is_not_measured_on_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voting_graphs, "describe_slower", lambda *_: pytest.fail("others are at work there"))
    model = TorchModel(torch.nn.Linear(4, 2), independence="proved")
    model.settle((4,), [3], 10**9)
    model.prepare((4,), 3)
    assert model.slower is None


def test_it_is_said_before_the_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, however many images there are."""

    def settle(self: TorchModel, *_: object) -> None:
        self.slower = "the graph is slow"

    monkeypatch.setattr(TorchModel, "settle", settle)
    smooth = ss.Smoother(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2)), "1/4", threads=1)
    image = np.zeros((1, 2, 2), np.uint8)
    with pytest.warns(UserWarning, match="the graph is slow") as found:
        certificates = [smooth.certify(image, n=20, n0=5) for _ in range(2)]
    assert (len(found), len(certificates)) == (1, 2)


def test_it_is_said_also_after_a_run_that_was_warned_of_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short run says that nothing is proved; a long one sees that the graph is slow."""
    smooth = ss.Smoother(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2)), "1/4", threads=1)
    first: Any = SimpleNamespace(notice="nothing is proved", survey=SimpleNamespace(slower=None))
    second: Any = SimpleNamespace(notice="nothing is proved", survey=SimpleNamespace(slower="the graph is slow"))
    with pytest.warns(IndependenceWarning, match="nothing is proved"):
        smooth._tell(first)
    with pytest.warns(UserWarning, match="the graph is slow") as found:
        smooth._tell(second)
    assert len(found) == 1
    smooth._tell(second)  # a warning would be an error


@pytest.mark.parametrize(
    ("before", "after", "batches", "taken"),
    [
        (1.0, 0.5, 301, True),
        (1.0, 0.5, 299, False),  # a run of less than five minutes does not pay for compiling
        (1.0, 0.96, 1000, True),
        (1.0, 0.98, 1000, False),
        (1.0, 2.0, 1000, False),
    ],
)
def test_it_is_compiled_where_that_pays(
    before: float, after: float, batches: int, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of the whole run decides, and then what was measured."""
    assert (PAYS, FASTER) == (300, 0.97)
    clock, compiled = Clock(), list[str]()

    def forward_of(module: object, how: str, batch: torch.Tensor):
        compiled.append(how)
        return clock.taking("compiled", after)

    monkeypatch.setattr(speed, "forward_of", forward_of)
    found = faster_compiled(clock.taking("module", before), BATCH, batches * len(BATCH), clock)
    assert (found is None) == (batches < PAYS)
    assert compiled == ([] if found is None else ["torch-compile"])
    if found is not None:
        assert (found.compiled is not None) == taken
        minutes = (1 - after / before) * batches * before / 60
        gained = f"compiled: {before / after:.2f} times as fast as before, which saves up to {minutes:.0f} min"
        assert found.said == (gained if taken else "not compiled: that would be no faster")


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("no C++ compiler\nand much more"),
        torch.cuda.OutOfMemoryError("no memory"),
        PermissionError(13, "no folder for files"),
        NotImplementedError("no such operator"),
    ],
)
def test_where_nothing_can_be_compiled_it_runs_as_it_is(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asked for nothing gets no error, and is told why it is not faster."""

    def broken(*_: object) -> None:
        raise error

    clock = Clock()
    monkeypatch.setattr(speed, "forward_of", broken)
    found = faster_compiled(clock.taking("module", 1.0), BATCH, 10**6, clock)
    assert found is not None
    assert found.compiled is None
    line = str(error).splitlines()[0]
    assert found.said == f"torch cannot compile it here, so it runs as it is: {line}"


def test_a_short_run_is_told_from_a_long_one_in_three_passes() -> None:
    clock = Clock()
    assert faster_compiled(clock.taking("module", 1.0), BATCH, 299 * len(BATCH), clock) is None
    assert len(clock.passes) == 3


def test_both_ways_are_timed_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a module that gets slower while the card gets hot, the compiled one is not blamed for it."""
    clock = Clock()
    monkeypatch.setattr(speed, "forward_of", lambda *_: clock.taking("compiled", 0.5))
    faster_compiled(clock.taking("module", 1.0), BATCH, 10**6, clock)
    assert clock.passes == ["module"] * 3 + ["module", "compiled"] * (ROUNDS + 1)


def test_a_measurement_that_fails_ends_no_run() -> None:
    def broken(batch: torch.Tensor) -> torch.Tensor:
        raise torch.cuda.OutOfMemoryError("the module needs more memory than its graph")

    assert describe_slower(broken, torch.exp, BATCH) is None


# --- batches on a processor -----------------------------------------------------------------------------------


class Wide(torch.nn.Module):
    """Its second layer gives 16 numbers, 64 bytes, for each row, and the others give less."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.wide, self.last = torch.nn.Linear(4, 2), torch.nn.Linear(2, 16), torch.nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.last(self.wide(self.first(x)))
        return scores


@pytest.mark.parametrize(
    ("small", "threads", "rows"),
    [(64, 100, 100), (64, 99, 50), (64 * 26, 1, 25), (64 * 12, 2, 20), (64, 1, 1), (1, 1, 1)],
)
def test_a_batch_is_so_small_that_each_layers_output_is(
    small: int, threads: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The largest divisor of 100: the copies of a hundred, or of some hundreds, fill such batches."""
    monkeypatch.setattr(speed, "SMALL_OUTPUT", small)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    module = Wide()
    assert quick_rows(module, torch.zeros(1, 4), 100) == rows
    assert not any(layer._forward_hooks for layer in module.modules())


def test_a_module_that_cannot_be_watched_keeps_the_usual_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with it is said when it votes."""
    monkeypatch.setattr(speed, "SMALL_OUTPUT", 64)
    module = Wide()
    assert quick_rows(module, torch.zeros(1, 5), 100) == 100
    assert not any(layer._forward_hooks for layer in module.modules())
    traced = torch.jit.trace(Wide(), torch.zeros(1, 4))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert quick_rows(traced, torch.zeros(1, 4), 100) == 10  # of a traced one only the scores are seen


def test_the_batch_of_a_run_on_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is promised; one that is given stays as it is."""
    monkeypatch.setattr(speed, "SMALL_OUTPUT", 64 * 12)
    module = torch.nn.Sequential(torch.nn.Flatten(), Wide()).eval()
    x = np.full((1, 2, 2), 99, np.uint8)
    found = ss.Smoother(module, "0.25", device="cpu", threads=1).certify(x, n=200)
    assert found.promise.values["batch"] == "10"
    given = ss.Smoother(module, "0.25", device="cpu", threads=1, batch_size=40).certify(x, n=200)
    assert given.promise.values["batch"] == "40"

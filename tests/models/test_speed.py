"""A graph that takes longer than its module is reported, with the operators that cost it."""

import re

import numpy as np
import pytest
import torch

import soundsmooth as ss
from soundsmooth.models import torch_module
from soundsmooth.models.speed import ROUNDS, describe_slower
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
    monkeypatch.setattr(torch_module, "describe_slower", lambda *_: pytest.fail("others are at work there"))
    model = TorchModel(torch.nn.Linear(4, 2), independence="proved")
    model.prepare((4,), 3)
    assert model.slower is None


def test_it_is_said_before_the_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, however many images there are."""
    monkeypatch.setattr(TorchModel, "_slower", lambda *_: "the graph is slow")
    smooth = ss.Smoother(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2)), "1/4", threads=1)
    image = np.zeros((1, 2, 2), np.uint8)
    with pytest.warns(UserWarning, match="the graph is slow") as found:
        certificates = [smooth.certify(image, n=20, n0=5) for _ in range(2)]
    assert (len(found), len(certificates)) == (1, 2)

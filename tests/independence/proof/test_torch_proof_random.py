"""Random torch programs, with views and in-place operators: whatever is proved keeps its rows apart when it runs."""

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from proofs import prove_module
from row_mixing import violation

SHAPE = (2, 4)
Step = Callable[[list[Tensor]], Tensor]


class Program(nn.Module):
    """Steps, each of which makes a value from those before it; the last one of the batch's size is returned."""

    def __init__(self, steps: list[Step]) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, x: Tensor) -> Tensor:
        values = [x, x * 1, torch.ones(2, 4) * 2]
        for step in self.steps:
            values.append(step(values))
        return next(value for value in reversed(values) if value.dim() and value.shape[0] == x.shape[0])


def total(value: Tensor) -> Tensor:
    """The sum of all entries, by an operator that has a rule: only what is computed from it is not proved."""
    return value.sum(tuple(range(value.dim())))


def drawn(draw: random.Random) -> Step:
    """One step: pure, a view, or writing into an old value."""
    one, other = draw.choice([-1, -1, -2, -3, -4]), draw.choice([-1, -2, -3, -4])
    axis, second = draw.choice([-2, -1, 1, 1, 2, 0]), draw.choice([0, 1, -1])
    steps: list[Step] = [
        lambda v: v[one].sin(),
        lambda v: v[one] + v[other],
        lambda v: v[one] * v[other],
        lambda v: v[one].softmax(axis),
        lambda v: v[one].mean(axis, keepdim=True),
        lambda v: v[one].cumsum(axis),
        lambda v: v[one].transpose(axis, second),
        lambda v: v[one].reshape(v[0].shape[0], -1),
        lambda v: v[one].reshape(-1, 4),
        lambda v: v[one].reshape(-1),
        lambda v: v[one].flatten(1),
        lambda v: v[one].unsqueeze(axis),
        lambda v: v[one].squeeze(axis),
        lambda v: v[one].select(axis, 0),
        lambda v: v[one].narrow(axis, 0, 1),
        lambda v: v[one][:, :1],
        lambda v: v[one].expand(v[0].shape[0], *v[one].shape[1:]),
        lambda v: v[one].contiguous(),
        lambda v: torch.cat([v[one], v[one]], axis),
        lambda v: torch.matmul(v[one], v[other].transpose(-1, -2)),
        lambda v: v[one].roll(1, axis),
        lambda v: torch.dropout(v[one], 0.5, False),
        lambda v: torch.zeros(v[0].shape[0], 1, 4),
        lambda v: v[one].add_(v[other]),
        lambda v: v[one].mul_(v[other]),
        lambda v: v[one].relu_(),
        lambda v: v[one].view(-1).add_(total(v[other])),
        lambda v: v[one].contiguous().add_(total(v[other])),
        lambda v: v[one].select(axis, 0).mul_(v[other]),
        lambda v: v[one].fill_(3.0),
    ]
    return draw.choice(steps)


def program(seed: int) -> Program:
    """Steps that run in eager mode for batches of 4 and of 3."""
    draw = random.Random(seed)
    steps: list[Step] = []
    while len(steps) < 6:
        tried = [*steps, drawn(draw)]
        try:
            for rows in (4, 3):
                Program(tried)(torch.rand(rows, *SHAPE))
        except (RuntimeError, IndexError, StopIteration):
            continue
        steps = tried
    return Program(steps)


def outcome(seed: int) -> str:
    module = program(seed)
    graph, report = prove_module(module, torch.rand(4, *SHAPE))

    def run_of(part: nn.Module) -> Callable[[np.ndarray], np.ndarray]:
        def run(batch: np.ndarray) -> np.ndarray:
            with torch.no_grad():
                return part(torch.from_numpy(batch.copy())).numpy().copy()

        return run

    found = violation(run_of(graph), SHAPE, (4,))
    if not report.proved:
        return "mixes" if found else "not proved"
    assert found is None, f"{found}\n{graph.code}"  # type: ignore[str-bytes-safe]
    batch = torch.rand(4, *SHAPE)
    torch.testing.assert_close(graph(batch.clone()), module(batch.clone()))  # the same function as the module
    return "proved"


@pytest.mark.parametrize("start", [0, 1000])
def test_what_is_proved_keeps_rows_apart(start: int) -> None:
    """Of forty programs some are proved, some mix rows, and none does both."""
    found = [outcome(seed) for seed in range(start, start + 40)]
    assert found.count("proved") >= 5
    assert found.count("mixes") >= 5

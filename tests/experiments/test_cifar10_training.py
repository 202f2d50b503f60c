"""The parts of the training that can be wrong without anybody noticing."""

from dataclasses import replace
from pathlib import Path

import networks
import pytest
import torch
import train
from torch import nn

RECIPE = replace(train.RECIPES["0.25"][0], epochs=4, rows=16)


def test_augmented_images_are_cuts_of_the_padded_ones() -> None:
    """Every pixel of a cut lies in its own image; all places and both directions occur."""
    torch.manual_seed(0)
    position = torch.arange(1, 32 * 32 + 1).reshape(32, 32)
    plain = torch.stack([position % 251, position // 251, torch.full((32, 32), 7)], dim=2).to(torch.uint8)
    padded = nn.functional.pad(plain[None], (0, 0, 4, 4, 4, 4))
    found = train.augmented(padded, torch.zeros(2000, dtype=torch.int64))
    assert found.shape == (2000, 3, 32, 32)
    cuts = {
        (top, left, mirrored): (cut.flip(1) if mirrored else cut)
        for top in range(9)
        for left in range(9)
        for mirrored in (False, True)
        for cut in [padded[0, top : top + 32, left : left + 32]]
    }
    known = {cut.numpy().tobytes(): at for at, cut in cuts.items()}
    levels = (found * 255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous()
    seen = {known[cut.numpy().tobytes()] for cut in levels}
    # One of 162 is missing with probability at most 162 · (161/162)²⁰⁰⁰ < 0.001; the seed is fixed.
    assert len(seen) == 162


def test_each_image_comes_once_in_an_epoch() -> None:
    steps = train.Steps(RECIPE, 50)
    assert steps.per_epoch == 6  # 8 images, each twice
    chosen = torch.cat(list(steps.epoch(torch.device("cpu"))))
    assert len(chosen) == len(set(chosen.tolist())) == 48


def test_the_rate_rises_and_falls_once() -> None:
    steps = train.Steps(replace(RECIPE, epochs=40), 50)
    rates = [steps.rate() for _ in range(40) for _ in steps.epoch(torch.device("cpu"))]
    top = rates.index(max(rates))
    assert rates[:top] == sorted(rates[:top])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert max(rates) == pytest.approx(RECIPE.rate, rel=0.05)
    assert 0 < rates[-1] < 0.001 * RECIPE.rate


def test_copies_that_agree_cost_only_their_entropy() -> None:
    labels = torch.tensor([0, 1])
    same = torch.tensor([[2.0, 0.0], [0.0, 1.0]]).repeat(2, 1)
    apart = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 2.0], [1.0, 0.0]])
    plain = replace(RECIPE, consistency=0.0)
    p = same[:2].softmax(1)
    entropy = float(-(p * p.log()).sum(1).mean())
    assert float(train.loss(same, labels, RECIPE)) == pytest.approx(
        float(train.loss(same, labels, plain)) + RECIPE.entropy * entropy, rel=1e-5
    )
    assert float(train.loss(apart, labels, RECIPE) - train.loss(apart, labels, plain)) > 1


def test_noisy_copies_stand_behind_each_other() -> None:
    torch.manual_seed(0)
    x = torch.rand(3, 3, 8, 8)
    found = train.noisy(x, replace(RECIPE, sigma=1e-3))
    assert found.shape == (6, 3, 8, 8)
    torch.testing.assert_close(found, x.repeat(2, 1, 1, 1), atol=0.01, rtol=0)
    assert not torch.equal(found[:3], found[3:])


def test_a_skipped_first_step_leaves_no_trace() -> None:
    """While the scale is too large, gradients are infinite and steps are skipped; then the momentum begins at 0."""
    module = nn.Linear(1000, 1, bias=False)
    nn.init.ones_(module.weight)
    optimizer = train.descent(module, replace(RECIPE, rate=1.0, decay=0.0))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
    for size in (1e3, 1.0):
        scaler.scale(module(torch.full((1, 1000), size)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    # One step with gradient 1: down by 1 + 0.9.
    assert module.weight.detach().flatten().tolist() == pytest.approx([1 - 1.9] * 1000, abs=1e-6)


def test_training_stops_when_the_loss_is_lost() -> None:
    images, labels = torch.zeros(4, 32, 32, 3, dtype=torch.uint8), torch.zeros(4, dtype=torch.int64)
    hopeless = replace(RECIPE, epochs=1, rows=8, copies=2, sigma=float("nan"))
    with pytest.raises(ArithmeticError, match=r"epoch 1: the loss is nan"):
        train.train(hopeless, images, labels, "float32")


def test_an_interrupted_training_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    """Weights, momenta, the running mean, the schedule and the random numbers are those of one long training."""
    torch.manual_seed(0)
    images, labels = torch.randint(0, 256, (8, 32, 32, 3), dtype=torch.uint8), torch.arange(8)
    short = replace(RECIPE, epochs=2, rows=8)
    whole = train.train(short, images, labels, "float32").state_dict()
    kept = tmp_path / "kept.part"

    def stop(said: str) -> None:
        if kept.exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train.train(short, images, labels, "float32", stop, kept)
    torch.manual_seed(1)
    with pytest.raises(ValueError, match="a training was begun as"):
        train.train(replace(short, rate=0.1), images, labels, "float32", kept=kept)
    said: list[str] = []
    found = train.train(short, images, labels, "float32", said.append, kept).state_dict()
    assert len(said) == 1
    assert all(torch.equal(tensor, found[name]) for name, tensor in whole.items())


def test_a_round_begins_from_the_weights_of_the_one_before(tmp_path: Path) -> None:
    """Interrupted in the second round, it does not train the first one again; a step of no size changes no weight."""
    torch.manual_seed(0)
    images, labels = torch.randint(0, 256, (8, 32, 32, 3), dtype=torch.uint8), torch.arange(8)
    short = replace(RECIPE, epochs=1, rows=8)
    rounds = [short, replace(short, rate=0.0, seed=1)]
    said: list[str] = []

    def stop(words: str) -> None:
        said.append(words)
        if len(said) == 2:
            raise KeyboardInterrupt

    kept = tmp_path / "weights.safetensors"
    with pytest.raises(KeyboardInterrupt):
        train.train_all(rounds, images, labels, "float32", stop, kept)
    first, last = train.train_all(rounds, images, labels, "float32", said.append, kept)
    assert len(said) == 3
    before, after = (dict(networks.network(path).named_parameters()) for path in (first, last))
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert not any(path.suffix == ".part" for path in tmp_path.iterdir())


def test_the_running_mean_runs() -> None:
    module = nn.BatchNorm1d(2)
    mean = train.RunningMean(module)
    with torch.no_grad():
        module.weight.fill_(3)
        module.running_mean.fill_(2)
    mean.add(0.25)
    assert mean.module.weight.tolist() == [1.5, 1.5]
    assert mean.module.running_mean.tolist() == [0.5, 0.5]


def test_weights_are_read_as_they_were_written(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = networks.resnet110()
    path = tmp_path / "weights.safetensors"
    with torch.no_grad():
        module[1][1].running_var.fill_(1e6)  # more than a half can be
    networks.write_safetensors(path, module, {"sigma": "0.25"})
    found = networks.network(path).state_dict()
    for name, tensor in module.state_dict().items():
        expected = tensor.half().to(tensor.dtype) if tensor.is_floating_point() and tensor.dim() > 1 else tensor
        assert torch.equal(found[name], expected), name
    safetensors = pytest.importorskip("safetensors.torch")
    assert safetensors.load_file(path).keys() == found.keys()

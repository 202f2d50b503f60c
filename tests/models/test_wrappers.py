"""Modules that only call another one: the module inside is certified, by its own name."""

import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import soundsmooth as ss
from architectures import parallel
from soundsmooth.models import model_of
from soundsmooth.models.load import recipe_of
from soundsmooth.models.torch_module import TorchModel
from soundsmooth.models.wrappers import plain_copy

SHAPE = (1, 2, 2)
BATCH = np.linspace(-1, 2, 20, dtype=np.float32).reshape(5, *SHAPE)


def network() -> torch.nn.Sequential:
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))


def inside(wrap: Callable[[torch.nn.Module], torch.nn.Module]) -> torch.nn.Module:
    """Not the whole is wrapped, but a part."""
    return torch.nn.Sequential(torch.nn.Identity(), wrap(network()))


def averaged(module: torch.nn.Module) -> torch.nn.Module:
    return torch.optim.swa_utils.AveragedModel(module)


def compiled(module: torch.nn.Module) -> torch.nn.Module:
    return torch.compile(module)


def several(module: torch.nn.Module) -> torch.nn.Module:
    return parallel(compiled(parallel(module)))


WRAPS = [parallel, averaged, compiled, several]


@pytest.mark.parametrize("wrap", WRAPS)
def test_a_wrapped_module_is_the_module_inside(wrap: Callable[[torch.nn.Module], torch.nn.Module]) -> None:
    given = wrap(network())
    before = set(map(id, given.modules()))
    model, plain = model_of(given), model_of(network())
    assert model.identity() == plain.identity()
    assert set(map(id, given.modules())) == before  # the caller's module stays wrapped
    assert model.vote(BATCH.copy()).labels.tolist() == plain.vote(BATCH.copy()).labels.tolist()
    assert model_of(inside(wrap)).identity() == model_of(inside(_same)).identity()


def _same(module: torch.nn.Module) -> torch.nn.Module:
    return module


def test_distributed_data_parallel_is_unwrapped(tmp_path: Path) -> None:
    """It needs a group of processes to be made; one process is enough."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    try:
        wrapped = torch.nn.parallel.DistributedDataParallel(network())
        assert model_of(wrapped).identity() == model_of(network()).identity()
    finally:
        torch.distributed.destroy_process_group()


def test_a_wrapped_module_is_proved() -> None:
    model = TorchModel(several(network()))
    model.prepare(SHAPE, 5)
    assert model.identity().independence.proved


def test_workers_get_the_module_inside() -> None:
    assert recipe_of(several(network())).build().identity().digest == model_of(network()).identity().digest


def test_one_remark_says_what_was_unwrapped_and_how_to_compile() -> None:
    wrapped = several(network())  # torch warns of itself when it first compiles
    with pytest.warns(UserWarning, match="the module inside is certified") as said:
        ss.Smoother(wrapped, "0.25")
    assert [str(each.message).partition(":")[0] for each in said] == ["DataParallel", "torch.compile"]
    assert 'compile="torch-compile", or --compile torch-compile' in str(said[1].message)
    assert "several GPUs" in str(said[0].message)
    with pytest.warns(UserWarning, match="^AveragedModel: the module inside is certified$"):
        ss.Smoother(torch.optim.swa_utils.AveragedModel(network()), "0.25")
    assert {each.filename for each in said} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ss.Smoother(network(), "0.25")


def test_a_wrapper_that_computes_something_stays() -> None:
    hooked = parallel(network())
    hooked.register_forward_hook(lambda module, given, scores: -scores)

    class Own(torch.nn.DataParallel):
        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            return -self.module(batch)

    plain = model_of(network()).vote(BATCH.copy()).labels
    for module in (hooked, parallel(network(), Own)):
        copied = plain_copy(module)
        assert isinstance(copied, torch.nn.DataParallel)
        assert (model_of(module, device="cpu").vote(BATCH.copy()).labels == 1 - plain).all()


def test_tensors_that_are_shared_stay_shared() -> None:
    net = network()
    copied = plain_copy(torch.nn.ModuleList([parallel(net), net, compiled(net)]))
    assert len({id(part) for part in copied}) == 1
    assert next(copied.parameters()).data_ptr() != next(net.parameters()).data_ptr()


def test_an_exported_program_is_certified_and_proved() -> None:
    batch = torch.export.Dim("batch")
    program = torch.export.export(network().eval(), (torch.zeros(2, *SHAPE),), dynamic_shapes=({0: batch},))
    model = model_of(program)
    model.prepare(SHAPE, 5)
    assert model.identity().independence.proved
    assert model.identity().digest == model_of(program).identity().digest
    assert model.vote(BATCH.copy()).labels.tolist() == model_of(network()).vote(BATCH.copy()).labels.tolist()


def test_a_program_for_one_batch_size_says_how_to_export_it() -> None:
    model = model_of(torch.export.export(network().eval(), (torch.zeros(1, *SHAPE),)))
    with pytest.raises(ValueError, match=r"exported for one batch size .*: export it with dynamic_shapes="):
        model.vote(BATCH.copy())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torchscript_runs_and_is_told_what_would_give_a_proof() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # torch's own, about gradients of what is copied
        model = model_of(torch.jit.trace(network(), torch.from_numpy(BATCH)))
    assert model.vote(BATCH.copy()).labels.tolist() == model_of(network()).vote(BATCH.copy()).labels.tolist()
    with pytest.raises(ValueError, match=r"give the torch\.nn\.Module that it was made from"):
        model.recipe()


class LightningLike(torch.nn.Module):
    """As Lightning's modules: it holds its trainer, which cannot be copied, and leaves it out of copies."""

    def __init__(self) -> None:
        super().__init__()
        self.model = network()
        self._trainer: object = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_trainer": None}

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.model(batch)


def test_a_module_with_a_trainer_is_certified_without_it() -> None:
    trained = LightningLike()
    trained._trainer = threading.Lock()
    assert model_of(trained).identity() == model_of(LightningLike()).identity()


def test_a_module_that_cannot_be_copied_is_told_why() -> None:
    module = network()
    module.lock = threading.Lock()
    with pytest.raises(ValueError, match=r"cannot be copied .*lock"):
        model_of(module)


def test_a_wrapper_with_a_forward_of_its_own_stays() -> None:
    given = parallel(network())
    plain = model_of(network()).vote(BATCH.copy()).labels
    given.forward = lambda batch: -given.module(batch)
    assert model_of(given).vote(BATCH.copy()).labels.tolist() == (1 - plain).tolist()

"""The second digest: the same wherever the same model is made, and open about what it does not fix."""

import copy
import enum
import multiprocessing
import pickle
import sys
import threading
import types
import warnings
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import soundsmooth as ss
from soundsmooth.certification.certificate import Certificate
from soundsmooth.certification.promise import Promise
from soundsmooth.models import described, model_of
from soundsmooth.models.digest import ModelDigest, callable_digest, module_digest
from soundsmooth.models.protocol import CLOSED, OPEN, OPEN_ENDS
from soundsmooth.verification.promised import check_promise, machine_differences, model_checks


class Color(enum.Enum):
    RED = 1


Point = namedtuple("Point", "x y")


@dataclass
class Options:
    width: int = 3
    names: list[str] = field(default_factory=list)


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


def hook(module: nn.Module, given: Any, made: torch.Tensor, by: float = 1.0) -> torch.Tensor:
    return made * by


class Everything(nn.Module):
    """Of all that can be described, something."""

    shared = ("a", 1)

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)
        nn.init.constant_(self.layer.weight, 0.5)
        nn.init.constant_(self.layer.bias, 0.25)
        self.again = self.layer
        self.register_buffer("steps", torch.arange(3), persistent=False)
        self.register_buffer("nothing", None)
        self.numbers = [1, 2.5, True, None, 1j, float("nan"), 2**80, range(3), slice(1, 2), ...]
        self.words = {"b": "x", "a": b"y", 3: {"set", "of", "words"}, (1, 2): frozenset({1, 2})}
        self.containers = [OrderedDict(a=1), defaultdict(list, b=[2]), Point(1, 2), Slotted(3), Options(4, ["n"])]
        self.of_libraries = [
            torch.float16,
            torch.Size([1, 2]),
            np.float32(1.5),
            np.arange(3),
            np.dtype("i4"),
            Color.RED,
        ]
        self.tensors = {"t": torch.ones(2, 3).t(), "p": [self.layer.weight]}
        self.hidden = [nn.Linear(2, 2, bias=False)]
        nn.init.eye_(self.hidden[0].weight)
        self.functions = [
            hook,
            torch.relu,
            nn.functional.gelu,
            partial(hook, by=2.0),
            np.tanh,
            len,
            Options,
            self.scores,
        ]
        self.parent = [self]
        self.layer.register_forward_hook(partial(hook, by=2.0))

    def scores(self, x: torch.Tensor) -> torch.Tensor:
        return self.hidden[0](self.layer(x.flatten(1)))

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scores(x)


def made() -> Everything:
    return Everything()


def digest_there(pickled: bytes) -> ModelDigest:
    return module_digest(pickle.loads(pickled))


def called(net: nn.Module) -> nn.Module:
    net(torch.ones(3, 4))
    return net


def with_gradients(net: nn.Module) -> nn.Module:
    net(torch.ones(3, 4))
    net.layer.weight.requires_grad_(False)
    net.layer.bias.grad = torch.ones(2)
    return net


def with_names_of_loading(net: nn.Module) -> nn.Module:
    net.register_state_dict_post_hook(lambda *_: None)
    return net


@pytest.mark.parametrize(
    "same",
    [
        copy.deepcopy,
        lambda net: copy.deepcopy(copy.deepcopy(net)),
        lambda net: pickle.loads(pickle.dumps(net)),
        lambda net: made(),
        lambda net: net.eval(),
        lambda net: net.train(),
        lambda net: net.to(memory_format=torch.channels_last),
        lambda net: net.to("cpu", torch.float32),
        called,
        with_gradients,
        with_names_of_loading,
    ],
)
def test_the_same_model_has_the_same_digest(same: Callable[[nn.Module], nn.Module]) -> None:
    before = module_digest(made())
    assert before.open_ends == ()
    assert module_digest(same(made())) == before


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_the_digest_is_the_same_on_a_gpu() -> None:
    assert module_digest(made().cuda()) == module_digest(made())
    assert model_of(made(), device="cuda").identity().digest == model_of(made(), device="cpu").identity().digest


def imports_late(batch: np.ndarray) -> Any:
    import colorsys

    return batch * colorsys.ONE_SIXTH


def test_the_digest_is_the_same_before_and_after_a_late_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    before = callable_digest(imports_late)
    imports_late(np.zeros(1))
    assert "colorsys" in sys.modules
    assert callable_digest(imports_late) == before


def test_the_digest_is_the_same_in_another_process() -> None:
    """Sets have another order there."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(digest_there, (pickle.dumps(made()),)) == module_digest(made())


def test_the_recipe_of_a_model_makes_it_again() -> None:
    model = model_of(made(), independence="assumed")
    again = replace(pickle.loads(model.recipe()), torch_flags={}).build(independence="assumed")
    assert again.identity() == model.identity()
    assert not model.changes()()


# --- what it does not fix -------------------------------------------------------------------------------------


def reads_a_file(batch: np.ndarray) -> np.ndarray:
    with open("weights") as file:
        return batch * float(file.read())


def reads_the_clock(batch: np.ndarray) -> np.ndarray:
    import time

    return batch * time.time()


def asks_the_interpreter(batch: np.ndarray) -> np.ndarray:
    return batch * len(sys.modules)


def uses_another_package(batch: np.ndarray) -> np.ndarray:
    return pytest.approx(batch)  # type: ignore[return-value]


@lru_cache
def remembers(batch: bytes) -> bytes:
    return batch


def draws(batch: np.ndarray) -> np.ndarray:
    return batch + np.random.default_rng().normal()


def imports_what_is_not_there(batch: np.ndarray) -> np.ndarray:
    from soundsmooth_plugins import scale  # type: ignore[import-not-found]

    return scale(batch)  # type: ignore[no-any-return]


def holding(value: object) -> Callable[[np.ndarray], np.ndarray]:
    return lambda batch: (batch, value)[0]


def loads(batch: np.ndarray) -> np.ndarray:
    return batch * np.load("weights.npy")


def calls_an_operator(batch: Any) -> Any:
    return torch.ops.somebody.scale(batch)


def looks_up_a_name(batch: np.ndarray, name: str = "loads") -> Any:
    return getattr(described, name)(batch)


class Hostile:
    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":  # others look at all objects of the process
            return Hostile
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (reads_a_file, "reads_a_file names open"),
        (reads_the_clock, "time, which reads_the_clock imports, can read what lies outside"),
        (asks_the_interpreter, "sys, which asks_the_interpreter reads, can read what lies outside"),
        (uses_another_package, "is of pytest, a package that does not define the model"),
        (remembers, "the model is a functools._lru_cache_wrapper, whose state cannot be read"),
        (draws, "can read what lies outside"),
        (calls_an_operator, "calls_an_operator calls operators of torch.ops.somebody"),
        (holding(Hostile()), "cannot be read (RuntimeError)"),
        (loads, "np, which loads reads, can read what lies outside"),
        (
            imports_what_is_not_there,
            "imports, is of soundsmooth_plugins, a package that does not define the model",
        ),
        (holding(threading.Lock()), "_thread.lock, whose state cannot be read"),
        (holding(iter([1, 2])), "list_iterator, whose state cannot be read"),
        (holding(np.random.default_rng(0)), "numpy.random._generator.Generator, whose state cannot be read"),
        (holding(torch.Generator()), "torch._C.Generator, whose state cannot be read"),
        (holding(np.array([None])), "is an array of numpy.ndarray with object"),
        (holding(torch.ones(2).to_sparse()), "is a tensor whose numbers cannot be read"),
        (holding("cuda:0"), "names a device"),
        (holding(torch.device("cpu")), "names a device"),
        (eval("lambda x: x"), "the source of <lambda> cannot be found, or is not what runs"),
        (types.FunctionType(reads_a_file.__code__, {}), "reads_a_file names open"),
    ],
)
def test_what_is_not_fixed_is_said(function: Any, reason: str) -> None:
    ends = callable_digest(function).open_ends
    assert any(reason in end for end in ends), ends


def test_what_is_too_much_is_not_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(described, "MOST_VALUES", 50)
    assert callable_digest(holding([[]] * 50)).open_ends == ("it holds more than 50 values",)
    monkeypatch.setattr(described, "MOST_HELPERS", 3)
    assert module_digest(made()).open_ends[-1] == "its code reaches more than 3 functions and classes"


def test_names_that_are_computed_are_not_fixed() -> None:
    words = described.Describer()
    words.defines("soundsmooth")
    words.value(looks_up_a_name, "the model")
    list(words.code())
    assert "described, which looks_up_a_name reads, may be read under names that are computed" in words.ends


def test_what_torch_does_with_every_module() -> None:
    net = nn.Flatten()
    before = module_digest(net)
    try:
        torch.set_default_dtype(torch.float64)
        assert module_digest(net).sha256 != before.sha256
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.device("cpu"):
        assert module_digest(net).open_ends == ("a function mode of torch is in force",)
    assert module_digest(net) == before


def test_a_device_is_left_out() -> None:
    assert callable_digest(holding("cuda:0")) == callable_digest(holding("cpu"))
    assert callable_digest(holding(torch.device("cuda"))) == callable_digest(holding(torch.device("cpu")))


def test_scripted_parts_are_not_fixed() -> None:
    with warnings.catch_warnings(action="ignore"):
        scripted = torch.jit.trace(nn.Linear(4, 2), torch.ones(1, 4))
    assert "a scripted part keeps attributes" in module_digest(nn.Sequential(scripted)).open_ends[0]


# --- promise, certificate, audit ------------------------------------------------------------------------------


class Clocked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.device = "cpu"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1)


def certified(model: Any) -> Certificate:
    return ss.Smoother(model, "0.5", independence="assumed").certify(np.zeros((2, 2), np.uint8), n=100, seed="s")


def plain(batch: np.ndarray) -> np.ndarray:
    return batch.reshape(len(batch), -1)


def test_the_certificate_says_what_its_digest_does_not_fix() -> None:
    for model, reason in [(Clocked(), "Clocked.device names a device"), (holding_scores(), "_thread.lock")]:
        record = certified(model)
        assert f"digest={OPEN}" in record.promise.values["flags"].split()
        assert reason in record.environment[OPEN_ENDS]
        assert "not fixed by its digest (" in record.trust
        assert reason in str(record)
        assert Certificate.from_json(record.to_json()) == record
    record = certified(plain)
    assert record.promise.values["flags"] == f"digest={CLOSED}"
    assert "not fixed" not in record.trust
    assert OPEN_ENDS not in record.environment


def holding_scores() -> Callable[[np.ndarray], np.ndarray]:
    lock = threading.Lock()

    def scores(batch: np.ndarray) -> np.ndarray:
        with lock:
            return plain(batch)

    return scores


def without_flag(promise: Promise, **other: str) -> Promise:
    flags = [word for word in promise.values["flags"].split() if not word.startswith("digest=")]
    return Promise({**promise.values, "flags": " ".join(flags) or "none", **other})


def test_an_older_certificate_says_what_it_said() -> None:
    record = certified(plain)
    older = Certificate.from_dict({**record.to_dict(), "promise": without_flag(record.promise).values})
    assert older.trust == "Python code, assumed honest, not fixed by its digest"


@pytest.mark.parametrize("model", [plain, nn.Flatten()], ids=["callable", "torch"])
def test_an_older_promise_is_checked_under_the_first_digest(model: Any) -> None:
    promise = certified(model).promise
    identity = model_of(model, independence="assumed").identity()
    assert identity.first_digest is not None
    older = without_flag(promise, model=identity.first_digest)
    for each, which in ((promise, "second"), (older, "first")):
        check_promise(each)
        check = model_checks(identity, each)[0]
        assert check.passed
        assert f"by its {which} digest" in check.text
        assert not machine_differences(identity, each)
    for crossed in (without_flag(promise), Promise({**promise.values, "model": identity.first_digest})):
        assert model_checks(identity, crossed)[0].passed is False


def test_what_is_open_is_not_promised_as_closed() -> None:
    record = certified(Clocked())
    flags = record.promise.values["flags"].replace(OPEN, CLOSED)
    forged = Promise({**record.promise.values, "flags": flags})
    check = model_checks(model_of(Clocked(), independence="assumed").identity(), forged)[0]
    assert check.passed is False
    assert "promised as digest=2, but it is digest=2-open" in check.text


def test_a_graph_has_one_digest_and_no_flag_for_it() -> None:
    values = {**certified(plain).promise.values, "model kind": "onnx"}
    flags = "digest=2 optimization=all provider=CPUExecutionProvider threads=1"
    with pytest.raises(ValueError, match="a flag that this version does not know: 'digest=2'"):
        check_promise(Promise({**values, "flags": flags}))

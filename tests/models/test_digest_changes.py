"""Changes of behaviour that keep weights, layers and the source of the module's class: the digest sees each of them.

The first digest (`first_digest`) sees none of those in `UNSEEN`; a test says so.
"""

import importlib
import sys
import types
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from soundsmooth.models import Identity, model_of
from soundsmooth.models.digest import callable_digest, module_digest

PACKAGE = {
    "__init__": "",
    "constants": "FACTOR = 2.0\nTABLE = {'a': 1.0}\nSTAGES = [1, 2]\n",
    "helpers": """
        from .constants import FACTOR, STAGES, TABLE
        from . import constants

        def deeper(x):
            return x * FACTOR + TABLE["a"] + len(STAGES)

        def scaled(x, by=1.0):
            return deeper(x) * by

        def through(x):
            return x * constants.FACTOR

        class Tool:
            power = 1

            def __call__(self, x):
                return x ** self.power

        tool = Tool()
    """,
    "base": """
        from torch import nn

        class Grandparent(nn.Module):
            gain = 1.0

            def head(self, x):
                return self.layer(x) * self.gain

        class Base(Grandparent):
            pass
    """,
    "net": """
        import torch
        from torch import nn
        from torch.nn.functional import relu

        from . import helpers
        from .base import Base
        from .helpers import scaled, tool

        def made(factor):
            def inner(x):
                return x * factor
            return inner

        class Net(Base):
            kinds = ("a", "b")

            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 2)
                nn.init.constant_(self.layer.weight, 0.5)
                nn.init.constant_(self.layer.bias, 0.25)
                self.act = nn.LeakyReLU(0.1)
                self.scale, self.mode, self.table, self.shift = 1.0, "plain", {"k": [1, (2, 3)]}, None
                self.extra = torch.ones(2)
                self.experts = [nn.Linear(2, 2, bias=False).requires_grad_(False)]
                nn.init.eye_(self.experts[0].weight)
                self.inner = made(1.0)

            def forward(self, x):
                from .helpers import through
                x = relu(self.head(x.flatten(1)) * self.scale)
                x = self.experts[0](x) + self.extra
                return tool(through(scaled(self.act(self.inner(x)))))

            @property
            def kind(self):
                return self.kinds[0]
    """,
}
Where = Callable[[], ModuleType]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Where]:
    """Imports the package anew, as another process would find it."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    folder = tmp_path / "small_net"
    folder.mkdir()
    for name, text in PACKAGE.items():
        (folder / f"{name}.py").write_text("\n".join(line.removeprefix("        ") for line in text.splitlines()))

    def forget() -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == "small_net"]:
            del sys.modules[name]

    def anew() -> ModuleType:
        forget()
        importlib.invalidate_caches()
        return importlib.import_module("small_net.net")

    yield anew
    forget()


def identity(module: nn.Module) -> Identity:
    return model_of(module, independence="assumed").identity()


def digest(module: nn.Module) -> str:
    return identity(module).digest


def edited(file: str, before: str, after: str) -> Callable[[nn.Module, ModuleType], None]:
    """The source is another one; the module is made from it."""

    def edit(net: nn.Module, where: ModuleType) -> None:
        assert where.__file__ is not None
        path = Path(where.__file__).with_name(f"{file}.py")
        assert before in path.read_text()
        path.write_text(path.read_text().replace(before, after))

    return edit


def double(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


class Offset(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def hidden_weight(net: Any, _: object) -> None:
    with torch.no_grad():
        net.experts[0].weight.mul_(2)


def set_on(name: str, value: Any) -> Callable[[Any, ModuleType], None]:
    return lambda net, _: setattr(net, name, value)


#: What is done to the module, or to the files that it is made from.
UNSEEN: dict[str, Callable[[Any, ModuleType], object]] = {
    "a number": set_on("scale", 2.0),
    "a word": set_on("mode", "other"),
    "None": set_on("shift", 0.0),
    "deep in a dictionary": lambda net, _: net.table["k"].__setitem__(1, (2, 4)),
    "a tensor as attribute": lambda net, _: net.extra.add_(1),
    "a module in a list": hidden_weight,
    "a module in training mode in a list": lambda net, _: net.experts.append(nn.Dropout().train()),
    "a forward hook": lambda net, _: net.register_forward_hook(lambda module, given, made: 2 * made),
    "a forward pre-hook": lambda net, _: net.act.register_forward_pre_hook(lambda module, given: (given[0] + 1,)),
    "a hook with keywords": lambda net, _: net.register_forward_hook(lambda m, a, k, out: -out, with_kwargs=True),
    "a backward hook": lambda net, _: net.register_full_backward_hook(lambda module, given, made: None),
    "a forward of its own": lambda net, _: setattr(net, "forward", double),
    "a forward of its own in a layer": lambda net, _: setattr(net.act, "forward", double),
    "what a closure holds": lambda net, where: setattr(net, "inner", where.made(3.0)),
    "a class attribute": lambda net, where: setattr(where.Net, "kinds", ("b", "a")),
    "a base's attribute": lambda net, where: setattr(where.Base.__mro__[1], "gain", 3.0),
    "a method from elsewhere": lambda net, where: setattr(where.Net, "head", double),
    "a global function": lambda net, where: setattr(where, "scaled", double),
    "a global of a helper": lambda net, where: setattr(where.helpers, "FACTOR", 3.0),
    "a global dictionary": lambda net, where: where.helpers.TABLE.update(a=5.0),
    "a function of torch in another's place": lambda net, where: setattr(where, "relu", torch.tanh),
    "a default argument": lambda net, where: setattr(where.scaled, "__defaults__", (4.0,)),
    "the source of a helper": edited("helpers", "deeper(x) * by", "deeper(x) / by"),
    "the source of a helper's helper": edited("helpers", "x * FACTOR + TABLE", "x * FACTOR - TABLE"),
    "a constant of a helper's module": edited("constants", "FACTOR = 2.0", "FACTOR = 2.5"),
    "the source of a base class": edited("base", "* self.gain", "/ self.gain"),
    "the source of a helper that is imported when it is called": edited("helpers", "x * constants", "x + constants"),
    "an object's class": edited("helpers", "x ** self.power", "x + self.power"),
    "an object's attribute": lambda net, where: setattr(where.tool, "power", 2),
    "a private attribute of a layer": lambda net, _: setattr(net.layer, "_secret", 1),
    "a list's length": lambda net, where: where.helpers.STAGES.append(3),
}
SEEN_BY_BOTH: dict[str, Callable[[Any, ModuleType], object]] = {
    "a weight": lambda net, _: net.layer.weight.data.add_(1),
    "a layer's option": lambda net, _: setattr(net.act, "negative_slope", 0.2),
    "a parametrization": lambda net, _: parametrize.register_parametrization(net.layer, "weight", Offset()),
    "a buffer that is not kept": lambda net, _: net.register_buffer("b", torch.ones(1), persistent=False),
    "the source of the class": edited("net", "* self.scale", "/ self.scale"),
}


def changed(change: Callable[[Any, ModuleType], object], package: Where) -> tuple[Identity, Identity]:
    """Before the change, and after it; files that were edited are imported again."""
    where = package()
    net = where.Net()
    before = identity(net)
    change(net, where)
    if change.__qualname__.startswith("edited"):
        net = package().Net()
    return before, identity(net)


@pytest.mark.parametrize("name", [*UNSEEN, *SEEN_BY_BOTH])
def test_a_change_of_behaviour_is_another_digest(name: str, package: Where) -> None:
    """The first digest does not see those that are unseen: an older promise, which is checked under it, says less."""
    before, after = changed({**UNSEEN, **SEEN_BY_BOTH}[name], package)
    assert before.digest != after.digest
    assert (before.first_digest == after.first_digest) == (name in UNSEEN)


def test_an_edited_file_does_not_pass_for_what_was_imported(package: Where) -> None:
    """The file says one thing, and another one runs: that is said."""
    where = package()
    net = where.Net()
    assert module_digest(net).open_ends == ()
    edited("helpers", "deeper(x) * by", "deeper(x) / by")(net, where)
    assert "the source of scaled cannot be found, or is not what runs" in module_digest(net).open_ends


def test_a_hook_for_all_modules(package: Where) -> None:
    net = package().Net()
    before = digest(net)
    handle = nn.modules.module.register_module_forward_hook(lambda module, given, made: None)
    try:
        assert digest(net) != before
    finally:
        handle.remove()
    assert digest(net) == before


@pytest.mark.parametrize(
    ("place", "name"), [(nn.Linear, "forward"), (nn.functional, "leaky_relu"), (nn.Module, "__call__"), (torch, "relu")]
)
def test_another_function_within_torch(place: Any, name: str, package: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    net = package().Net()
    before = digest(net)
    monkeypatch.setattr(place, name, double)
    assert digest(net) != before


# --- functions ------------------------------------------------------------------------------------------------

FACTOR = 2.0


def helper(batch: np.ndarray) -> np.ndarray:
    return batch * FACTOR


def scores(batch: np.ndarray) -> np.ndarray:
    return helper(batch)


class Scores:
    def __init__(self, weight: object) -> None:
        self.weight = weight

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        return batch * self.weight


def scaled(batch: np.ndarray, by: float) -> np.ndarray:
    return batch * by


def closing_over(value: object) -> Callable[[np.ndarray], np.ndarray]:
    return lambda batch: batch * value


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (closing_over(1), closing_over(2)),
        (closing_over(np.zeros(3)), closing_over(np.ones(3))),
        (closing_over(nn.Linear(1, 1)), closing_over(nn.Linear(1, 1))),
        (Scores(1), Scores(1.0)),
        (Scores(0.0), Scores(-0.0)),
        (Scores([1, 2]), Scores((1, 2))),
        (Scores({"a": 1, "b": 2}), Scores({"b": 2, "a": 1})),
        (Scores(True), Scores(1)),
        (Scores(b"1"), Scores("1")),
        (Scores(2**70), Scores(2**71)),
        (Scores(torch.zeros(2)), Scores(torch.zeros(2, dtype=torch.float64))),
        (partial(scaled, by=1.0), partial(scaled, by=2.0)),
        (Scores(1).__call__, Scores(2).__call__),
        (Scores(scores), Scores(helper)),
        (lambda batch: batch + 1, lambda batch: batch + 2),  # on one line
        (eval("lambda x: x.min()"), eval("lambda x: x.max()")),  # without source
    ],
)
def test_functions_and_what_they_hold(one: Any, other: Any) -> None:
    assert callable_digest(one).sha256 == callable_digest(one).sha256
    assert callable_digest(one).sha256 != callable_digest(other).sha256


def test_a_function_s_helpers_and_their_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    before = callable_digest(scores)
    assert before.open_ends == ()
    for name, value in {"FACTOR": 3.0, "helper": scaled}.items():
        with monkeypatch.context() as patch:
            patch.setattr(sys.modules[__name__], name, value)
            assert callable_digest(scores).sha256 != before.sha256
    assert callable_digest(scores) == before


def test_code_in_another_s_place() -> None:
    def one(batch: np.ndarray) -> np.ndarray:
        return batch + 1

    before = callable_digest(one)
    one.__code__ = types.FunctionType((lambda batch: batch + 2).__code__, {}).__code__
    after = callable_digest(one)
    assert after.sha256 != before.sha256

"""The second digests of Python models: the first ones, and what the model holds and what its code is (docs/audit.md).

They are promised as `digest=2`, or as `digest=2-open` if something escapes them; what does is recorded.
A promise without the flag was made under the first digests (`first_digest`), and is checked under them.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from . import first_digest
from .described import Describer
from .object_state import attributes_of, state_of
from .ownership import strangers

if TYPE_CHECKING:
    import torch

TITLE = "soundsmooth model digest 2"
#: Hooks that a call runs, and how. Those of saving and loading are not run.
HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
MANNERS = ("_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs", "_forward_hooks_always_called")
GLOBAL_HOOKS = tuple(f"_global{name}" for name in HOOKS)
#: Weak references to weights that are hashed anyway.
OF_RECURRENT_LAYERS = frozenset({"_flat_weight_refs"})


class ModelDigest(NamedTuple):
    """What identifies a Python model, and what it does not fix."""

    sha256: str
    first: str
    """The first digest, by which older promises name the same model."""
    open_ends: tuple[str, ...]
    """What may change without a change of the digest, each in a few words."""


def module_digest(module: "torch.nn.Module") -> ModelDigest:
    """Of a torch module: weights, buffers, layers, attributes, hooks, and the code that is not torch's."""
    words, first = _ModuleDescriber(), first_digest.module_digest(module)
    return _digest(first, [*words.tree(module, ""), words.for_all(), *words.patches()], words)


def callable_digest(function: object) -> ModelDigest:
    """Of a Python function or a callable object: its code, and what it holds."""
    words = _ModuleDescriber()
    return _digest(first_digest.code_digest(function), [json.dumps(words.value(function, "the model"))], words)


def _digest(first: str, lines: list[str], words: Describer) -> ModelDigest:
    lines += words.code()
    ends = tuple(sorted(words.ends))
    text = "\n".join([TITLE, first, *lines, *map(json.dumps, ends)])
    return ModelDigest(hashlib.sha256(text.encode()).hexdigest(), first, ends)


class _ModuleDescriber(Describer):
    """Describes torch modules part by part."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: dict[int, str] = {}
        self._kinds: set[type] = set()
        self._hidden: list[Any] = []
        torch = sys.modules.get("torch")
        self._usual = frozenset() if torch is None else frozenset(vars(torch.nn.Module()))
        self._tensors: tuple[type, ...] = () if torch is None else (torch.nn.Parameter, torch.Tensor)

    def tree(self, module: "torch.nn.Module", title: str) -> Iterator[str]:
        """A line for each part that has more to say than the first digest."""
        parts = [(name, part) for name, part in module.named_modules() if id(part) not in self._parts]
        self._parts |= {id(part): title + name for name, part in parts}
        first: dict[int, tuple[str, str]] = {}
        for name, part in parts:
            words = [*self._registered(part, name, first), *self._hooks(vars(part), HOOKS), *self._part(part)]
            if words:
                yield json.dumps([title + name, words])

    def _other(self, value: Any, kind: type, where: str) -> Any:
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(value, torch.nn.Module):
            return super()._other(value, kind, where)
        if id(value) in self._parts:
            return ["part", self._parts[id(value)]]
        self._hidden.append(value)  # in a list or a dictionary, where torch does not find it
        training = [part.training for part in value.modules()]
        title = f"hidden {len(self._hidden)}:"
        return [title, first_digest.module_digest(value), training, *self.tree(value, title)]

    def _registered(self, part: "torch.nn.Module", name: str, first: dict[int, tuple[str, str]]) -> Iterator[Any]:
        """What is None, which tensors have two names, and what they are beside numbers."""
        for kept in (part._parameters, part._buffers):
            for key, tensor in kept.items():
                if tensor is None:
                    yield ["none", key]
                    continue
                if (known := first.setdefault(id(tensor), (name, key))) != (name, key):
                    yield ["same", key, known]
                if (tensor.__dict__ and attributes_of(tensor)) or type(tensor) not in self._tensors:
                    yield ["tensor", key, self._tensor(tensor, f"{type(part).__qualname__}.{key}")]
        yield from (["none", key] for key, each in part._modules.items() if each is None)

    def _hooks(self, held: dict[str, Any], kinds: tuple[str, ...]) -> Iterator[Any]:
        """Hooks in the order in which they run; under what number they are kept is not the same everywhere."""
        for kind in kinds:
            if not held.get(kind):
                continue
            for number, hook in held[kind].items():
                manner = [name for name in MANNERS if number in (held.get(name) or ())]
                yield [kind, manner, self.value(hook, "a hook")]

    def for_all(self) -> str:
        """What torch does with every module of the process: hooks, the type of new numbers, modes."""
        torch = sys.modules["torch"]
        for kind in ("function", "dispatch"):
            if getattr(torch._C, f"_len_torch_{kind}_stack", lambda: 0)():
                self.open(f"a {kind} mode of torch is in force")
        held = vars(sys.modules["torch.nn.modules.module"])
        return json.dumps([str(torch.get_default_dtype()), *self._hooks(held, GLOBAL_HOOKS)])

    def _part(self, part: "torch.nn.Module") -> Iterator[Any]:
        """Its class, if that is not torch's, and the attributes that the first digest does not have."""
        import torch

        kind = type(part)
        if kind not in self._kinds:
            self._kinds.add(kind)
            for base in kind.__mro__:
                self.defines(base.__module__.partition(".")[0])
        own = not first_digest.of_torch(kind)
        if isinstance(part, torch.jit.ScriptModule):
            self.open("a scripted part keeps attributes and methods where they cannot be read")
            return
        graph = isinstance(part, torch.fx.GraphModule)
        if own:
            yield self.value(kind, kind.__qualname__)
        if graph:
            yield self._generated(kind)
        yield from self._held(part, own, graph)

    def _held(self, part: "torch.nn.Module", own: bool, graph: bool) -> Iterator[Any]:
        """Attributes that the first digest does not have."""
        held = state_of(part)
        for name in sorted([name for name in held if name not in self._usual]):
            value = held[name]
            if not own and not graph and first_digest.is_plain(value):
                if name[0] == "_":  # the first digest has the others; a tuple may be a list in another version of torch
                    yield [name, value]
                continue
            if graph and (name[0] == "_" or name in ("meta", "shape_env")) and not _is_content(value):
                continue
            if name not in OF_RECURRENT_LAYERS:
                yield [name, self.value(value, f"{type(part).__qualname__}.{name}")]

    def _generated(self, kind: type) -> Any:
        """A graph's program is in the first digest; here is what it calls, or what took its place."""
        forward: Any = kind.forward  # type: ignore[attr-defined]
        if not forward.__code__.co_filename.startswith("<eval_with_key>"):
            return self.value(forward, "forward of a graph")
        held = forward.__globals__
        named = sorted(held.keys() & set(forward.__code__.co_names))
        return [[name, self._global(name, held, frozenset(forward.__code__.co_names), "a graph")] for name in named]

    def patches(self) -> Iterator[str]:
        """Functions within torch that are not torch's."""
        torch = sys.modules["torch"]
        classes = sorted({base for kind in self._kinds for base in kind.__mro__}, key=first_digest.full_name)
        places: dict[str, Any] = {first_digest.full_name(kind): kind for kind in classes if first_digest.of_torch(kind)}
        modules = {kind.__module__ for kind in classes if first_digest.of_torch(kind)}
        places |= {name: sys.modules[name] for name in sorted(modules) if name in sys.modules}
        places |= {"torch": torch, "torch.nn.functional": torch.nn.functional, "torch.Tensor": torch.Tensor}
        places["torch._C._nn"] = torch._C._nn
        for place, namespace in places.items():
            if place.endswith(".GraphModuleImpl"):  # its program is no function of anybody's
                continue
            for name, function in strangers(vars(namespace)).items():
                yield json.dumps([place, name, self.value(function, f"{place}.{name}")])


def _is_content(value: Any) -> bool:
    """Of what a graph keeps under private names, what its program can read."""
    import torch

    return isinstance(value, torch.Tensor | torch.nn.Module)

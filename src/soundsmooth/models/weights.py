"""Weights from a file into a torch module: safetensors, or a checkpoint as `torch.save` writes it.

A checkpoint is a pickle. torch reads it here with `weights_only=True`, which makes tensors, numbers, texts and lists of
them, and calls nobody's code. A file that needs more than that is rejected.
"""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.errors import describe_error
from ..core.plain_files import read_plain

if TYPE_CHECKING:
    import torch

SAFETENSORS = ".safetensors"
#: The last of them for `.pth.tar`.
CHECKPOINTS = (".pt", ".pth", ".ckpt", ".bin", ".tar")
#: What DataParallel and torch.compile put into the names of the weights of what they hold.
ADDED = frozenset({"module", "_orig_mod"})
#: The first torch that runs nothing with `weights_only=True`: earlier ones did (CVE-2025-32434).
SAFE = (2, 6)
#: How deep in a checkpoint weights are looked for.
DEEPEST = 3
#: A counter that old checkpoints do not have. It has no part in evaluation, and torch fills it in.
COUNTER = "num_batches_tracked"
MOST_NAMES = 5

Tensors = Mapping[str, Any]


class Weights(NamedTuple):
    """A file of weights: its name, and the bytes that were read, once."""

    name: str
    content: bytes

    def load_into(self, module: "torch.nn.Module") -> None:
        """Fill the module; a ValueError unless each of its weights is there once, in its shape, and nothing else is."""
        wanted, found = list(module.state_dict()), self._read()
        fitting = {where: fit for where, each in found.items() if (fit := fitted(each, wanted)) is not None}
        if len(fitting) != 1:
            raise ValueError(self._why_not(found, fitting, wanted))
        (tensors,) = fitting.values()
        try:
            module.load_state_dict(tensors)
        except RuntimeError as error:
            raise ValueError(f"{self.name!r} does not fit the model: {error}") from error

    def _read(self) -> dict[str, Tensors]:
        """All dictionaries of tensors in the file, by where they are in it."""
        if self.name.endswith(SAFETENSORS):
            return {"": self._safetensors()}
        loaded = self._checkpoint()
        found = dict(_dictionaries(loaded))
        if not found:
            raise ValueError(f"{self.name!r} holds no weights: no dictionary of tensors is in it")
        return found

    def _safetensors(self) -> Tensors:
        try:
            from safetensors import SafetensorError
            from safetensors.torch import load
        except ImportError:
            raise ValueError("weights need safetensors: pip install 'soundsmooth[torch]'") from None
        try:
            return load(self.content)
        except SafetensorError as error:
            raise ValueError(f"{self.name!r} does not fit the model: {error}") from error

    def _checkpoint(self) -> object:
        import torch

        if tuple(map(int, re.findall("[0-9]+", torch.__version__)[:2])) < SAFE:
            raise ValueError(
                f"torch {torch.__version__} may run code of a checkpoint, weights_only or not (CVE-2025-32434): "
                f"install torch {'.'.join(map(str, SAFE))} or later, or save the weights as {SAFETENSORS}"
            )
        try:
            return torch.load(io.BytesIO(self.content), map_location="cpu", weights_only=True)
        except Exception as error:  # it is their file: anything can be in it
            raise ValueError(self._unreadable(error)) from error

    def _unreadable(self, error: Exception) -> str:
        """What is wrong with a file that torch does not read without running code."""
        why = str(error)
        if "TorchScript" in why:
            line = _saving("model.state_dict()")
            return (
                f"{self.name!r} is a TorchScript program: save the weights of the module that it was made from, {line}"
            )
        if "weights_only" not in why.lower():
            return f"{self.name!r} cannot be read as a checkpoint: {describe_error(error)}"
        kind = re.search(r"GLOBAL ([\w.]+)", why)
        line = _saving(f"torch.load({self.name!r}, weights_only=False)['state_dict']")
        return (
            f"{self.name!r} holds more than weights{f' ({kind[1]})' if kind else ''}: loading it would run code chosen "
            f"by whoever made it, so it is never loaded. If you trust the file, save its weights alone: {line} "
            "(for a whole module .state_dict() instead of ['state_dict'])"
        )

    def _why_not(self, found: Mapping[str, Tensors], fitting: Mapping[str, Tensors], wanted: Sequence[str]) -> str:
        """None fits, or several do."""
        if not fitting:
            where, tensors = max(found.items(), key=_size)
            return f"{self.name!r} does not fit the model{where and f', by {where}'}: {_difference(tensors, wanted)}"
        line = _saving(f"torch.load({self.name!r}, weights_only=True){next(iter(fitting))}")
        return (
            f"{self.name!r} holds several sets of weights that fit the model: {', '.join(fitting)}. "
            f"Save the one that you mean: {line}"
        )


def _size(found: tuple[str, Tensors]) -> int:
    return len(found[1])


def read_weights(path: Path) -> Weights:
    """The file; a ValueError if it cannot hold weights."""
    if path.suffix.lower() not in (SAFETENSORS, *CHECKPOINTS):
        raise ValueError(
            f"weights must be a {SAFETENSORS} file or a checkpoint ({', '.join(CHECKPOINTS)}), not {str(path)!r}"
        )
    return Weights(path.name, read_plain(path, "weights file"))


def fitted(tensors: Tensors, wanted: Sequence[str]) -> Tensors | None:
    """The tensors under the names that the module has for them; None unless each name has exactly one.

    Names are compared as they are; then without what wrappers add to them; then also without a first part that all
    names of the file share, as in Lightning's `model.layer.weight`.
    """
    if _same_names(tensors.keys(), wanted):
        return tensors
    for short in (_bare, _inner):
        named = {short(name): tensor for name, tensor in tensors.items()}
        whole = {_bare(name): name for name in wanted}
        shared = short is _bare or len({name.partition(".")[0] for name in map(_bare, tensors)}) == 1
        if shared and (len(named), len(whole)) == (len(tensors), len(wanted)) and _same_names(named.keys(), whole):
            return {name: named[each] for each, name in whole.items() if each in named}
    return None


def _same_names(found: Any, wanted: Any) -> bool:
    """Whether they are the same, but for counters that are missing."""
    missing, more = set(wanted) - set(found), set(found) - set(wanted)
    return not more and all(name.endswith(COUNTER) for name in missing)


def _bare(name: str) -> str:
    """The name without the parts that wrappers add."""
    return ".".join(part for part in name.split(".") if part not in ADDED)


def _inner(name: str) -> str:
    """The bare name without its first part."""
    return _bare(name).partition(".")[2]


def _dictionaries(found: object, where: tuple[str, ...] = ()) -> Iterator[tuple[str, Tensors]]:
    """Dictionaries of tensors under names, and how they are reached: `['state_dict']`."""
    if not isinstance(found, Mapping) or not all(isinstance(name, str) for name in found):
        return
    if found and all(_is_weight(name, each) for name, each in found.items()):
        yield "".join(f"[{name!r}]" for name in where), found
    elif len(where) < DEEPEST:
        for name, each in found.items():
            yield from _dictionaries(each, (*where, name))


def _is_weight(name: str, value: object) -> bool:
    import torch

    return isinstance(value, torch.Tensor) or name.endswith("_extra_state")


def _difference(tensors: Tensors, wanted: Sequence[str]) -> str:
    """Which names are missing, and which are unexpected; without what wrappers add."""
    named, whole = set(map(_bare, tensors)), set(map(_bare, wanted))
    parts = [("missing", whole - named), ("unexpected", named - whole)]
    said = [f"{word} {_some(sorted(names))}" for word, names in parts if names]
    return "; ".join(said) or "two of its names stand for one weight"


def _some(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _saving(what: str) -> str:
    """The line to write."""
    return f"torch.save({what}, 'weights.pth')"

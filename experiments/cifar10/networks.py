"""The CIFAR-10 networks: ResNet-110, one for each σ, their weights beside this file.

In Python, `network(weights_file("0.25"))` is the module, in float32 and ready to vote. On the command line:

    soundsmooth certify soundsmooth.lab.bench.networks:resnet110 test.npz --layout nhwc-to-nchw --sigma 0.25 \
        --weights experiments/cifar10/weights/resnet110_sigma0.25.safetensors

Both have the same digest. The reader of safetensors is written out, so that torch is all that is needed.
"""

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch

from soundsmooth.lab.bench.networks import resnet110

WEIGHTS = Path(__file__).parent / "weights"
SIGMAS = ("0.12", "0.25", "0.50", "1.00")
DTYPES = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "I64": torch.int64}


def weights_file(sigma: str | Fraction, folder: Path = WEIGHTS) -> Path:
    """The weights that were trained under noise of this σ."""
    return folder / f"resnet110_sigma{float(Fraction(sigma)):.2f}.safetensors"


def network(weights: Path) -> torch.nn.Sequential:
    """ResNet-110 with these weights, in float32 and in evaluation mode."""
    return filled(resnet110(10), weights)


def filled(module: torch.nn.Sequential, weights: Path) -> torch.nn.Sequential:
    """The module with these weights, cast to its own precision, in evaluation mode; every name and shape must fit."""
    held = read_safetensors(weights)
    wrong = [name for name, tensor in held.items() if not bool(tensor.isfinite().all())]
    if wrong:
        raise ValueError(f"{weights.name}: {wrong[0]!r} holds numbers that are not finite")
    try:
        module.load_state_dict(held)
    except RuntimeError as error:
        raise ValueError(f"{weights.name} does not fit the network: {error}") from None
    return module.eval()


def read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a file: eight bytes with the length of a JSON header, the header, then the numbers."""
    raw = path.read_bytes()
    begin = 8 + int.from_bytes(raw[:8], "little")
    try:
        header: dict[str, Any] = json.loads(raw[8:begin])
        header.pop("__metadata__", None)
        return {name: _tensor(raw[begin:], **entry) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path.name} is no safetensors file that can be read here: {error}") from None


def _tensor(raw: bytes, dtype: str, shape: list[int], data_offsets: list[int]) -> torch.Tensor:
    first, last = data_offsets
    kind = DTYPES[dtype]
    if last > len(raw) or last - first != math.prod(shape) * kind.itemsize:
        raise ValueError(f"{last - first} bytes are not a {dtype} of shape {shape}")
    return torch.frombuffer(bytearray(raw[first:last]), dtype=kind).reshape(shape)


def write_safetensors(path: Path, module: torch.nn.Module, notes: dict[str, str]) -> None:
    """The module's tensors and notes in the header. Matrices and filters in half precision; what belongs to a channel
    is little, and a variance may be larger than a half can be.
    """
    header: dict[str, Any] = {"__metadata__": notes}
    parts: list[bytes] = []
    for name, tensor in module.state_dict().items():
        small = tensor.half() if tensor.is_floating_point() and tensor.dim() > 1 else tensor
        raw = small.cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
        begin = sum(map(len, parts))
        kind = next(word for word, dtype in DTYPES.items() if dtype == small.dtype)
        header[name] = {"dtype": kind, "shape": list(small.shape), "data_offsets": [begin, begin + len(raw)]}
        parts.append(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))

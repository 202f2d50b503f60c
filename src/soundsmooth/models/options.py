"""What a user may say of a model beside the model itself."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

from ..core.independence import Independence
from .outputs import Output, check_output_name

#: As people write them.
Precision = Literal["float32", "fp32", "bf16", "bfloat16", "fp16", "float16"]
PRECISIONS: dict[str, str] = {
    "float32": "float32",
    "fp32": "float32",
    "bf16": "bfloat16",
    "bfloat16": "bfloat16",
    "fp16": "float16",
    "float16": "float16",
}


@dataclass(frozen=True)
class ModelOptions:
    """Options of `model_of`, each written once. An adapter rejects those that mean nothing to it."""

    device: str | None = None
    dtype: str | None = None
    """float32, bfloat16 or float16; or as people write them."""
    channels_last: bool = False
    compile: str = "auto"
    artifact: bytes | None = field(default=None, repr=False)
    """Kernels that were tuned before."""
    threads: int | None = None
    independence: str | Independence = "auto"
    weights: str | Path | None = None
    output: Output = None
    """Which of several outputs votes."""
    untrusted: bool = False
    timeout: float | None = None

    def __post_init__(self) -> None:
        precision = precision_name(self.dtype)
        object.__setattr__(self, "dtype", None if precision == "float32" else precision)
        if self.output is not None:
            check_output_name(self.output)
        if self.timeout is not None and not self.untrusted:
            raise ValueError("timeout is for untrusted models, which run in a process of their own")

    def reject(self, names: Iterable[str], why: str) -> None:
        """A ValueError if one of these options was given. The device "cpu" and compile "none" ask for nothing."""
        usual: dict[str, tuple[object, ...]] = {each.name: (each.default,) for each in fields(self)}
        usual |= {"device": (None, "cpu"), "compile": ("auto", "none")}
        if any(getattr(self, name) not in usual[name] for name in names):
            raise ValueError(why)


def precision_name(dtype: str | None) -> str:
    """float32, bfloat16 or float16, from the names people use."""
    try:
        return PRECISIONS[dtype or "float32"]
    except KeyError:
        raise ValueError(f"dtype must be float32, bf16 or fp16, not {dtype!r}") from None

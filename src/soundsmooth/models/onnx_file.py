"""An ONNX file through onnxruntime, as a model.

The file is untrusted input. It is data, not code: what it names outside its own folder is refused, and what
was hashed is what runs, because the sessions are made from the very bytes that went into the digest.
"""

import hashlib
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from ..core.grid import Floats
from ..core.independence import CHECKED, PROVED, Independence, measured, parse_demand, unproved_independence
from ..core.limits import seconds
from ..core.machine import check_batch_memory, cores
from ..core.plain_files import read_plain
from ..independence.proof import ProofReport
from .model_source import ModelSource, OnnxBytes, is_path
from .onnx_facts import read_facts, reduced
from .onnx_session import LEVELS, PROVIDERS
from .options import ModelOptions
from .outputs import Output, flagged_output, is_output_flag, output_flag
from .protocol import Identity, Model, ModelKind, Votes, votes
from .proved_session import Frozen, Runtime, freeze, proved_session
from .recipe import ModelRecipe
from .sandbox.client import TIMEOUT, try_out

if TYPE_CHECKING:
    import onnx

#: protobuf cannot hold more; larger models keep their weights in separate files, which we put inside.
MOST_BYTES = (1 << 31) - 1
#: What is said of a graph with a batch axis of size 1.
ONE_ROW = (
    "the graph takes one row at a time, because its batch axis is fixed at 1: each noisy copy is a call of its own, "
    "which is many times slower. Export it again with a batch axis: torch.onnx.export(model.eval(), (example,), "
    '"model.onnx", dynamic_shapes=[{0: torch.export.Dim("batch")}], external_data=False)'
)


def _promised_options(promised: Mapping[str, str], flags: Mapping[str, str]) -> dict[str, Any]:
    """A promise that names no output means the first."""
    output: Output = flagged_output(flags["output"]) if "output" in flags else 0
    return {"output": output, **({"untrusted": True} if flags.get("isolated") == "yes" else {})}


class OnnxModel(Model):
    """A graph with one float input [batch, …] and scores [batch, classes] as its output, or as the one that was chosen.

    `report` says whether rows are proved to be independent, for the very graph that runs, at the batch size that it was
    prepared for.
    """

    kind = ModelKind(
        "onnx",
        flags={
            "isolated": ("yes",),
            "optimization": LEVELS,
            "output": is_output_flag,
            "provider": tuple(PROVIDERS.values()),
            "threads": None,
        },
        optional=("isolated", "output"),
        binding=True,
        devices=tuple(PROVIDERS),
        software=("onnx", "onnxruntime"),
        elsewhere=("onnxruntime",),
        options=_promised_options,
    )

    def __init__(
        self,
        path: str | Path | OnnxBytes,
        device: str | None = None,
        threads: int | None = None,
        independence: str | Independence = "auto",
        timeout: float | None = None,
        output: Output = None,
    ) -> None:
        """`timeout` is the number of seconds that another process, which runs or tries the graph, takes at most."""
        self.demand = parse_demand(independence)
        self._timeout = TIMEOUT if timeout is None else seconds(timeout)
        self._device, _, self._number = (device or "cpu").partition(":")
        self._threads = threads or cores()
        self._graph = path if isinstance(path, OnnxBytes) else read_model(Path(path))
        self._facts = read_facts(self._graph.content, output)
        self._content = reduced(self._graph.content, self._facts)
        self.batch, *sizes = self._facts.shape
        self.shape = None if None in sizes else tuple(size for size in sizes if size)
        self.classes = self._facts.classes
        if unproved_independence(self.demand).measured and self._facts.draws:
            raise ValueError("the graph draws at random, so what it says of a row alone is not one vote")
        self.remarks = (ONE_ROW,) if self.batch == 1 else ()
        self._runtime = self._start()
        self._made = self._best = freeze(self._runtime)
        self._proofs: dict[tuple[int, ...], tuple[Frozen, ProofReport]] = {}

    @classmethod
    def accepts(cls, source: object, options: ModelOptions) -> bool:
        return isinstance(source, OnnxBytes) or (is_path(source) and Path(source).suffix.lower() == ".onnx")

    @classmethod
    def of(cls, source: ModelSource, options: ModelOptions) -> "OnnxModel":
        options.reject(
            ("weights", "channels_last", "dtype", "compile", "artifact"),
            "an ONNX file holds its weights, layout and precision: leave weights, channels-last, dtype and compile out",
        )
        return cls(source.model, options.device, options.threads, options.independence, options.timeout, options.output)

    @classmethod
    def sendable(cls, source: Any, options: dict[str, Any]) -> OnnxBytes:
        options.setdefault("threads", cores())
        return source if isinstance(source, OnnxBytes) else read_model(Path(source))

    def _start(self) -> Runtime:
        """Where sessions are made. A file on which the runtime might die is tried out in another process first."""
        if self._facts.suspicious:
            try_out(self._content, self._facts, (self.batch or 1, *(self.shape or ())), self._timeout)
        return Runtime(self._content, self._facts, self._threads, self._device, self._number)

    @property
    def _without_proof(self) -> Independence:
        """Measured, if rows can be voted alone."""
        can_be = self.batch is None and hasattr(os, "fork") and not self._facts.draws
        return measured() if can_be else CHECKED

    def identity(self) -> Identity:
        proved = self.report is not None and self.report.proved
        independence = PROVED if proved else unproved_independence(self.demand, self._without_proof)
        flags = self.flags()
        return Identity(self.kind.name, self._graph.digest, device=self._device, flags=flags, independence=independence)

    def prepare(self, shape: tuple[int, ...], batch: int) -> None:
        """Prove, if it is asked for, that rows are independent in batches of this size; the session of the proof votes
        from now on. Other demands than "auto" and "proved" leave everything as it is.
        """
        if self.demand not in ("auto", PROVED):
            return
        if (batch, *shape) not in self._proofs:
            self._proofs[batch, *shape] = self._proof(shape, batch)
        self._made, self.report = self._proofs[batch, *shape]
        if self.demand == PROVED and not self.report.proved:
            raise ValueError(f"independence cannot be proved for this graph: {self.report.reason}")

    def _proof(self, shape: tuple[int, ...], batch: int) -> tuple[Frozen, ProofReport]:
        check_batch_memory(batch, shape)
        return proved_session(self._runtime, self._best, shape, batch)

    def replica(self, number: int) -> "OnnxModel":
        return self  # a session may run in several threads at once

    def flags(self) -> dict[str, str]:
        """How far the graph was optimized and where it runs; which output votes, if it is not the first."""
        return {
            "optimization": self._made.level,
            "provider": self._runtime.provider(self._made.session),
            "threads": str(self._threads),
            **({} if self._facts.first else {"output": output_flag(self._facts.output)}),
        }

    def recipe(self) -> bytes:
        options = {"output": self._facts.output}
        return ModelRecipe(OnnxModel.of, self._graph, options, digest=self._graph.digest).frozen()

    def vote(self, values: Floats) -> Votes:
        return votes(self.scores(values), len(values))

    def scores(self, values: Floats) -> npt.NDArray[Any]:
        """The graph's output for a batch, or the one that was chosen."""
        return self._runtime.scores(self._made.session, values)


def read_model(path: Path) -> OnnxBytes:
    """The model as one piece of bytes, and the SHA-256 of its file and of every file of weights it names."""
    content, model, files = _read(path)
    digest = hashlib.sha256(content)
    if not files:
        return OnnxBytes(content, digest.hexdigest())
    for name, weights in files.items():
        digest.update(name.encode() + b"\0" + hashlib.sha256(weights).digest())
    for tensor in _outside(model):  # from the bytes that were hashed, not from the disk again
        _put_inside(tensor, files[_entry(tensor, "location")])
    if model.ByteSize() > MOST_BYTES:
        raise ValueError(f"{str(path)!r} with its weights exceeds the 2 GiB that one ONNX message can hold")
    return OnnxBytes(model.SerializeToString(), digest.hexdigest())


def _read(path: Path) -> tuple[bytes, "onnx.ModelProto", dict[str, bytes]]:
    import onnx
    from google.protobuf.message import DecodeError

    content = read_plain(path, "model file")
    try:
        model = onnx.load_model_from_string(content)
    except DecodeError:
        raise ValueError(f"{str(path)!r} is not an ONNX file, or a broken one") from None
    if not model.graph.node:
        raise ValueError(f"{str(path)!r} is not an ONNX file, or it holds no graph")
    files: dict[str, bytes] = {}
    for tensor in _outside(model):
        try:
            name = _entry(tensor, "location")
            if name not in files:
                files[name] = read_plain(_file_inside(path.parent, name))
            _piece(tensor, len(files[name]))
        except (ValueError, OSError, RuntimeError) as error:  # the latter for links that lead in a circle
            raise ValueError(f"{str(path)!r}, weights of the tensor {tensor.name!r:.200}: {error}") from None
    return content, model, dict(sorted(files.items()))


def _outside(model: "onnx.ModelProto") -> "list[onnx.TensorProto]":
    import onnx

    return [tensor for tensor in _tensors(model) if tensor.data_location == onnx.TensorProto.EXTERNAL]


def _entry(tensor: "onnx.TensorProto", key: str) -> str:
    """What the tensor says of its file; "" if nothing. A ValueError if it says it twice."""
    found = [entry.value for entry in tensor.external_data if entry.key == key]
    if len(found) > 1:
        raise ValueError(f"{key} is given {len(found)} times, as {found[0]!r:.80} and {found[1]!r:.80}")
    return found[0] if found else ""


#: As many as NumPy knows.
MOST_AXES = 64
#: How many bits a value takes. (Those of six bits are left out: how they lie in a file is not settled.)
BITS = {
    **dict.fromkeys(("INT2", "UINT2"), 2),
    **dict.fromkeys(("INT4", "UINT4", "FLOAT4E2M1"), 4),
    **dict.fromkeys(("BOOL", "INT8", "UINT8", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ"), 8),
    **dict.fromkeys(("FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT8E8M0"), 8),
    **dict.fromkeys(("INT16", "UINT16", "FLOAT16", "BFLOAT16"), 16),
    **dict.fromkeys(("INT32", "UINT32", "FLOAT"), 32),
    **dict.fromkeys(("INT64", "UINT64", "DOUBLE", "COMPLEX64"), 64),
    "COMPLEX128": 128,
}


def _put_inside(tensor: "onnx.TensorProto", weights: bytes) -> None:
    """Turn a tensor that points into a file of weights into one that holds its own."""
    tensor.raw_data = weights[_piece(tensor, len(weights))]
    del tensor.external_data[:]
    tensor.ClearField("data_location")


def _piece(tensor: "onnx.TensorProto", available: int) -> slice:
    """Where in its file the tensor lies; a ValueError names the field that cannot be true."""
    needed = _needed(tensor)
    start = _number(tensor, "offset", 0)
    size = _number(tensor, "length", available - start if needed is None else needed)
    if needed is not None and size != needed:
        raise ValueError(f"length is {size} bytes, but its shape {list(tensor.dims)} needs {needed}")
    if start + size > available:
        raise ValueError(
            f"offset {start} and length {size} reach beyond the end of {_entry(tensor, 'location')!r}, "
            f"which has {available} bytes"
        )
    return slice(start, start + size)


def _number(tensor: "onnx.TensorProto", key: str, default: int) -> int:
    text = _entry(tensor, key)
    if text and not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ValueError(f"{key} must be a number of bytes, not {text!r:.80}")
    return int(text or default)


def _needed(tensor: "onnx.TensorProto") -> int | None:
    """How many bytes its values take; None for types of which we do not know it."""
    import onnx

    if len(tensor.dims) > MOST_AXES or any(size < 0 for size in tensor.dims):
        raise ValueError(f"its shape {list(tensor.dims)!s:.80} has a negative size, or more than {MOST_AXES} axes")
    kind = {number: name for name, number in onnx.TensorProto.DataType.items()}.get(tensor.data_type, "UNDEFINED")
    if kind in ("UNDEFINED", "STRING"):
        raise ValueError(f"data_type is {tensor.data_type} ({kind}), which cannot lie in another file")
    bits = BITS.get(kind)
    return None if bits is None else -(-math.prod(tensor.dims) * bits // 8)


def _file_inside(folder: Path, name: str) -> Path:
    """The file of weights, if it is a plain file below the model's own folder, and no link; else a ValueError."""
    if not name:
        raise ValueError("location is missing, the name of the file that holds them")
    root, target = folder.resolve(), (folder / name).resolve()
    if Path(name).is_absolute() or not target.is_relative_to(root):
        raise ValueError(f"location is {name!r:.200}, outside its own folder; this is refused")
    if not target.exists():
        raise ValueError(f"location is {name!r:.200}, which is missing beside the model")
    if not target.is_file():
        raise ValueError(f"location is {name!r:.200}, which is {'a folder' if target.is_dir() else 'no plain file'}")
    if os.path.normpath(root / name) != str(target):
        raise ValueError(f"location is {name!r:.200}, which is a link; this is refused")
    return target


def _tensors(message: Any) -> "list[onnx.TensorProto]":
    """Every tensor anywhere in a protobuf message: initializers, constants, subgraphs, functions."""
    import onnx

    if isinstance(message, onnx.TensorProto):
        return [message]
    found = []
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            parts = [value] if hasattr(value, "ListFields") else value
            found += [tensor for part in parts for tensor in _tensors(part)]
    return found

"""onnxruntime sessions: make one, freeze one, run one.

The process of an untrusted model runs this file too. So it imports Python's library and onnxruntime, and nothing of
this package but `errors`, which does the same.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..core.errors import first_line

#: How far the optimizer may go, best first.
LEVELS = ("all", "extended", "basic")
PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


class NotFrozenError(Exception):
    """The runtime cannot read again what its optimizer wrote."""


def session(graph: bytes, device: str, number: str, threads: int, level: str, written: Path | None = None) -> Any:
    """A session, which may write the graph that it runs to a file."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    known = onnxruntime.GraphOptimizationLevel
    levels = {
        "all": known.ORT_ENABLE_ALL,
        "extended": known.ORT_ENABLE_EXTENDED,
        "basic": known.ORT_ENABLE_BASIC,
        "none": known.ORT_DISABLE_ALL,
    }
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    options.graph_optimization_level = levels[level]
    if written is not None:
        options.optimized_model_filepath = str(written)
    wanted = PROVIDERS.get(device)
    if wanted not in onnxruntime.get_available_providers():
        there = ", ".join(onnxruntime.get_available_providers())
        raise ValueError(
            f"this onnxruntime cannot run on {device!r}, it has {there}; for cuda: pip install onnxruntime-gpu"
        )
    try:
        return onnxruntime.InferenceSession(
            graph, options, providers=[(wanted, {"device_id": number} if number else {})]
        )
    except Exception as error:  # onnxruntime's exceptions share no public base class
        raise ValueError(f"onnxruntime cannot load the model: {first_line(error)}") from error


def frozen_session(
    graph: bytes, device: str, number: str, threads: int, level: str, folder: str | None = None
) -> tuple[Any, bytes]:
    """A session for what the optimizer makes of a graph, with rewriting turned off, and the graph that it runs."""
    with TemporaryDirectory(prefix="soundsmooth-", dir=folder) as inside:
        _check_room(Path(inside), len(graph))
        optimized, running = Path(inside, "optimized.onnx"), Path(inside, "running.onnx")
        try:
            session(graph, device, number, threads, level, optimized)
            frozen = session(optimized.read_bytes(), device, number, threads, "none", running)
            return frozen, running.read_bytes()
        except (OSError, ValueError) as error:
            raise NotFrozenError(
                f"the optimized graph could not be written or read again: {first_line(error)}"
            ) from None


def run(model: Any, output: str, name: str, values: Any) -> Any:
    """One output of a session, for one input."""
    (scores,) = run_all(model, [output], name, values)
    return scores


def run_all(model: Any, outputs: Sequence[str], name: str, values: Any) -> Sequence[Any]:
    """Several outputs of a session, for one input."""
    try:
        return model.run(list(outputs), {name: values})  # type: ignore[no-any-return]
    except Exception as error:  # onnxruntime's exceptions share no public base class
        raise ValueError(f"onnxruntime could not run the model: {first_line(error)}") from error


def _check_room(folder: Path, size: int) -> None:
    """What is proved must not depend on how full a disk is: a ValueError instead."""
    try:
        Path(folder, "room").write_bytes(bytes(size))
    except OSError as error:
        raise ValueError(
            f"there is no room for a copy of the model in {str(folder.parent)!r} ({error.strerror}), which is needed "
            "to see the graph that runs: make room, or set TMPDIR to another folder"
        ) from None

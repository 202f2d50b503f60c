"""onnxruntime sessions whose graph is known: what was inspected is what runs.

onnxruntime rewrites a graph before it runs it, so a proof about the file would be a proof about another graph. Here the
optimizer works once and writes down what it made of the graph; a second session runs exactly those bytes with
rewriting turned off, and writes down the graph that it runs. This last graph is the one that is inspected.
"""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .independence import Report, inspect_onnx
from .independence.onnx_graph import draws_or_hides
from .independence.report import not_proved
from .protocol import first_line

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


#: How far the optimizer may go, best first.
LEVELS = ("all", "extended", "basic")


@dataclass(frozen=True)
class Inspected:
    """A session, what is proved of the very graph that it runs, and how far that graph was optimized."""

    session: Any
    report: Report
    level: str


def inspected_session(graph: bytes, device: str, number: str, threads: int) -> Inspected:
    """A session for the fully optimized graph; for a less optimized one if only that can be proved.

    If the runtime cannot read again what its optimizer wrote, the session is the optimizer's own and nothing is proved.
    """
    best = _inspected(graph, device, number, threads, LEVELS[0])
    fused = best.report.reason.startswith("com.microsoft")  # an operator that the optimizer has put in
    if best.report.proved or not (fused or inspect_onnx(graph).proved):
        return best
    lower = (_inspected(graph, device, number, threads, level) for level in LEVELS[1:])
    return next((found for found in lower if found.report.proved), best)


def _inspected(graph: bytes, device: str, number: str, threads: int, level: str) -> Inspected:
    hidden = draws_or_hides(graph)
    if hidden is not None:
        return Inspected(_session(graph, device, number, threads, level), not_proved(hidden), level)
    with TemporaryDirectory(prefix="soundsmooth-") as folder:
        _check_room(Path(folder), len(graph))
        optimized, running = Path(folder, "optimized.onnx"), Path(folder, "running.onnx")
        try:
            _session(graph, device, number, threads, level, optimized)
            frozen = _session(optimized.read_bytes(), device, number, threads, "none", running)
            ran = running.read_bytes()
        except (OSError, ValueError) as error:
            reason = f"the optimized graph could not be written or read again: {first_line(error)}"
            return Inspected(_session(graph, device, number, threads, level), not_proved(reason), level)
    return Inspected(frozen, inspect_onnx(ran, internal=True), level)


def _check_room(folder: Path, size: int) -> None:
    """What is proved must not depend on how full a disk is: a ValueError instead."""
    try:
        Path(folder, "room").write_bytes(bytes(size))
    except OSError as error:
        raise ValueError(
            f"there is no room for a copy of the model in {str(folder.parent)!r} ({error.strerror}), which is needed "
            "to see the graph that runs: make room, or set TMPDIR to another folder"
        ) from None


def _session(graph: bytes, device: str, number: str, threads: int, level: str, written: Path | None = None) -> Any:
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

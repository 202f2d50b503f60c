"""Whether a function of batches treats its rows alike and apart, tried out."""

from collections.abc import Callable

import numpy as np
import onnxruntime
from onnx import ModelProto

Run = Callable[[np.ndarray], np.ndarray]


def runner(model: ModelProto | bytes, optimize: bool = True) -> Run:
    """The graph's first output, through onnxruntime."""
    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimize else levels.ORT_DISABLE_ALL
    content = model if isinstance(model, bytes) else model.SerializeToString()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    name, output = session.get_inputs()[0].name, session.get_outputs()[0].name
    return lambda batch: np.asarray(session.run([output], {name: batch})[0])


def violation(run: Run, shape: tuple[int, ...], sizes: tuple[int, ...] = (1, 2, 3, 5), seed: int = 0) -> str | None:
    """How the output of a row was seen to depend on more than the row; None if it was not.

    The same rows at other positions, in other company and in batches of other sizes; every row is perturbed in turn,
    by a little and by a lot.
    """
    rng = np.random.default_rng(seed)
    rows = max(sizes)
    batch = (rng.standard_normal((rows, *shape)) * 2).astype(np.float32)
    whole = run(batch)
    if len(whole.shape) == 0 or len(whole) != rows:
        return f"{rows} rows went in, the output has shape {whole.shape}"
    if not same(run(batch), whole):
        return "the same batch gives another output the second time"
    if not same(run(batch[::-1].copy()), whole[::-1]):
        return "the order of rows matters"
    for size in sizes:
        for start in range(0, rows - size + 1):
            part = run(batch[start : start + size])
            if part.shape != (size, *whole.shape[1:]) or not same(part, whole[start : start + size]):
                return f"rows {start} to {start + size} alone give another output"
    for row in range(rows):
        for factor in (0.1, 100.0):
            other = batch.copy()
            other[row] += factor * rng.standard_normal(shape).astype(np.float32)
            if not same(np.delete(run(other), row, 0), np.delete(whole, row, 0)):
                return f"row {row} is seen by others"
    return None


def same(one: np.ndarray, other: np.ndarray) -> bool:
    """Equal up to rounding, which may depend on position and batch size."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype.kind != "f":
        return np.array_equal(one, other)
    with np.errstate(all="ignore"):
        return bool(np.allclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True))

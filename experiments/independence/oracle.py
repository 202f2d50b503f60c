"""Whether rows see each other, asked of onnxruntime itself: the graph runs; rows are replaced, moved and left alone.

Optimization is off and there is one thread: what runs is the graph that is given. Inputs are small integers, so that
sums and products are exact in any order; a graph that leaves the integers is compared with a tolerance where rounding
may depend on the position, and bit by bit where it may not.
"""

from collections.abc import Callable, Iterator

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto

Run = Callable[[np.ndarray], np.ndarray]
#: What other rows are replaced by, beside other integers.
EXTREMES = (np.nan, np.inf, -np.inf, 1e30, -1e30, 1e-42, 0.0)
#: The types of inputs that can be fed.
TYPES = {TensorProto.FLOAT: np.float32, TensorProto.DOUBLE: np.float64, TensorProto.INT64: np.int64}
#: How a finding begins that is a matter of rounding: the kernel takes another path for all when one number is extreme.
DIGITS = "last digits: "
#: Operators that make much of a last digit, or of what is not a number: after these rounding may decide.
DECIDING = frozenset(
    (
        "ArgMax", "ArgMin", "TopK", "Hardmax", "Floor", "Ceil", "Round", "Sign", "Mod", "Cast", "Not", "And", "Or",
        "Xor", "Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "IsNaN", "IsInf", "Max", "Min",
        "ReduceMax", "ReduceMin", "MaxPool", "GlobalMaxPool", "Clip", "Where", "Reciprocal", "Div", "Shrink",
        "ThresholdedRelu", "Log", "Sqrt", "Pow", "ReduceLogSum", "LpNormalization",
    )
)  # fmt: skip
#: Floats beyond this are not exact integers any more, or may not stay so.
LARGEST = 2**22

_options = onnxruntime.SessionOptions()
_options.log_severity_level = 4
_options.intra_op_num_threads = 1
_options.inter_op_num_threads = 1
_options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
_options.enable_cpu_mem_arena = False
onnxruntime.set_default_logger_severity(4)


def session(model: bytes) -> onnxruntime.InferenceSession:
    """A session that runs the graph as it is."""
    return onnxruntime.InferenceSession(model, _options, providers=["CPUExecutionProvider"])


def runner(model: bytes) -> Run:
    """The graph's first output."""
    made = session(model)
    name, output = made.get_inputs()[0].name, made.get_outputs()[0].name
    return lambda batch: np.asarray(made.run([output], {name: batch})[0])


def all_values(proto: onnx.ModelProto, names: list[str]) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    """The graph with these values as its outputs."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    del copy.graph.output[:]
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    made = session(copy.SerializeToString())
    entry = made.get_inputs()[0].name
    return lambda batch: dict(zip(names, made.run(names, {entry: batch}), strict=True))


def inputs(proto: onnx.ModelProto, batch: int) -> tuple[np.ndarray, np.ndarray, int]:
    """A batch, the same with one row replaced, and the number of that row."""
    kind = proto.graph.input[0].type.tensor_type
    sizes = [dim.dim_value or 2 for dim in kind.shape.dim][1:]
    rows, others = integers(batch, sizes, kind.elem_type, 0), integers(batch, sizes, kind.elem_type, 1)
    row = batch - 1
    moved = rows.copy()
    moved[row] = others[row]
    return rows, moved, row


def integers(batch: int, sizes: list[int], elem_type: int, seed: int) -> np.ndarray:
    """Small integers, different in all rows."""
    rng = np.random.default_rng((seed, batch))
    return rng.integers(-3, 5, (batch, *sizes)).astype(TYPES[elem_type])


def violation(model: bytes, batch: int) -> str | None:
    """How the output of a row was seen to depend on more than the row; None if it was not.

    A graph that fails, or gives something else than rows, is no violation: it cannot vote.
    """
    proto = onnx.load_model_from_string(model)
    run = runner(model)
    try:
        base, _, _ = inputs(proto, batch)
        whole = run(base)
    except Exception:  # onnxruntime's exceptions share no public base class
        return None
    if whole.ndim == 0 or len(whole) != batch:
        return f"{batch} rows went in, the output has shape {whole.shape}"
    exact = _exact(proto, base)
    here = [found for check in (_repeated, _replaced) for found in check(run, base, whole, exact)]
    moved = [found for check in (_permuted, _copies) for found in check(run, base, whole, exact)]
    moved += _extreme(proto, run, base)
    if not exact and DECIDING & {node.op_type for node in proto.graph.node}:
        moved = [f"{DIGITS}{one}" for one in moved]
    found = sorted([*here, *moved], key=lambda one: one.startswith(DIGITS))
    return found[0] if found else None


def _exact(proto: onnx.ModelProto, base: np.ndarray) -> bool:
    """Whether all values of the graph are integers that floats hold."""
    names = [name for node in proto.graph.node for name in node.output if name]
    try:
        values = all_values(proto, names)(base).values()
    except Exception:  # values that are no tensors
        return False
    return all(is_exact(value) for value in values if isinstance(value, np.ndarray))


def is_exact(value: np.ndarray) -> bool:
    """Integers that floats hold."""
    if value.dtype.kind != "f":
        return True
    with np.errstate(all="ignore"):
        return bool((np.abs(value) < LARGEST).all() and (np.trunc(value) == value).all())


def _try(run: Run, batch: np.ndarray) -> np.ndarray | None:
    """None where the graph fails: it claims nothing then."""
    try:
        return run(batch)
    except Exception:  # onnxruntime's exceptions share no public base class
        return None


def _repeated(run: Run, base: np.ndarray, whole: np.ndarray, exact: bool) -> Iterator[str]:
    if not equal(run(base), whole, True):
        yield "the same batch gives another output the second time"


def _replaced(run: Run, base: np.ndarray, whole: np.ndarray, exact: bool) -> Iterator[str]:
    """Every row in turn, by other integers and by extreme numbers; the others must not notice, not in one bit."""
    others = integers(len(base), list(base.shape[1:]), _elem_type(base), 2)
    extremes = EXTREMES if base.dtype.kind == "f" else (2**31, -(2**62), 0)
    for row in range(len(base)):
        for number in range(3):
            other = base.copy()
            other[row] = others[row] if number == 0 else extremes[(2 * row + number) % len(extremes)]
            found = _try(run, other)
            if found is None or equal(_without(found, row), _without(whole, row), True):
                continue
            digits = close(_without(found, row), _without(whole, row))
            yield f"{DIGITS if digits else ''}row {row} is seen by others when it becomes {other[row].ravel()[0]}"


def _without(value: np.ndarray, row: int) -> np.ndarray:
    return np.delete(value, row, 0) if value.ndim and row < len(value) else value


def _elem_type(base: np.ndarray) -> int:
    return next(number for number, kind in TYPES.items() if kind == base.dtype)


def _permuted(run: Run, base: np.ndarray, whole: np.ndarray, exact: bool) -> Iterator[str]:
    """Rows in another order give the outputs in that order."""
    for shift in range(1, len(base)):
        order = np.roll(np.arange(len(base)), shift)
        found = _try(run, np.ascontiguousarray(base[order]))
        if found is not None and not equal(found, whole[order], exact):
            return (yield "the order of rows matters")


def _extreme(proto: onnx.ModelProto, run: Run, base: np.ndarray) -> Iterator[str]:
    """A row of one large number gives the same at another place, up to rounding, unless NaN comes up."""
    names = [name for node in proto.graph.node for name in node.output if name]
    for large in (-3.0 * 2**30, 300.0) if base.dtype.kind == "f" else ():
        there = base.copy()
        there[0] = large
        turned = np.ascontiguousarray(there[::-1])
        found, moved = _try(run, there), _try(run, turned)
        if found is None or moved is None or equal(moved, found[::-1], False):
            continue
        values = [value for batch in (there, turned) for value in all_values(proto, names)(batch).values()]
        if not any(value.dtype.kind == "f" and np.isnan(value).any() for value in values):
            yield f"the order of rows matters if one is {large}"


def _copies(run: Run, base: np.ndarray, whole: np.ndarray, exact: bool) -> Iterator[str]:
    """A batch of copies of one row."""
    for row in range(len(base)):
        rows = np.full(len(base), row)
        found = _try(run, np.ascontiguousarray(base[rows]))
        if found is not None and not equal(found, whole[rows], exact):
            return (yield f"row {row} in a batch of its copies gives another output")


def equal(one: np.ndarray, other: np.ndarray, exact: bool) -> bool:
    """Equal entries; up to rounding if not `exact`. What is not a number anywhere is not compared then."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype.kind != "f":
        return bool(np.array_equal(one, other))
    if exact:
        return bool(np.array_equal(one, other, equal_nan=True))
    with np.errstate(all="ignore"):
        close = np.isclose(one, other, rtol=1e-3, atol=1e-4, equal_nan=True)
    return bool((close | np.isnan(one) | np.isnan(other)).all())


def close(one: np.ndarray, other: np.ndarray) -> bool:
    """Floats that differ in their last digits."""
    if one.shape != other.shape or one.dtype != other.dtype or one.dtype.kind != "f":
        return False
    with np.errstate(all="ignore"):
        return bool(np.allclose(one, other, rtol=1e-4, atol=1e-5, equal_nan=True))


def text(model: bytes) -> str:
    """A graph for people."""
    return onnx.printer.to_text(onnx.load_model_from_string(model))

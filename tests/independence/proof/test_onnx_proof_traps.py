"""Every known way to fool an analysis of rows, as a small graph: none is proved, and running it shows why.

`Trap.shows` is False where onnxruntime refuses the graph or where the danger is in what could be done with it.
"""

import platform
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from proofs import BATCH, prove_graph
from row_mixing import runner, violation
from soundsmooth.independence.proof.onnx_graph import draws_at_random
from soundsmooth.models.onnx_file import OnnxModel

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
node = helper.make_node


def model(
    nodes: Sequence[NodeProto],
    constants: dict[str, object] | None = None,
    shape: tuple[int, ...] = (4,),
    batch: int | str = "batch",
    opset: int = 18,
    kind: int = FLOAT,
    functions: Sequence[FunctionProto] = (),
    domains: Sequence[str] = (),
    rank: int | None = None,
) -> ModelProto:
    """A graph from `x` to `y`."""
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()]
    output = helper.make_tensor_value_info("y", kind, None if rank is None else [None] * rank)
    graph = helper.make_graph(
        list(nodes), "trap", [helper.make_tensor_value_info("x", FLOAT, [batch, *shape])], [output], tensors
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, functions=list(functions))


def subgraph(nodes: Sequence[NodeProto], inputs: Sequence[str], outputs: Sequence[str]) -> GraphProto:
    def info(name: str) -> onnx.ValueInfoProto:
        kinds = {"i": (INT64, []), "c": (TensorProto.BOOL, []), "c2": (TensorProto.BOOL, [])}
        return helper.make_tensor_value_info(name, *kinds.get(name, (FLOAT, None)))

    return helper.make_graph(list(nodes), "inner", [info(n) for n in inputs], [info(n) for n in outputs])


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def number(value: int) -> np.ndarray:
    return np.array(value, np.int64)


def floats(*shape: int) -> np.ndarray:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)


TRAPS: dict[str, tuple[Callable[[], ModelProto], tuple[int, ...], int | None, bool]] = {}


def trap(
    shape: tuple[int, ...] = (4,), batch: int | None = None, shows: bool = True
) -> Callable[[Callable[[], ModelProto]], Callable[[], ModelProto]]:
    def register(build: Callable[[], ModelProto]) -> Callable[[], ModelProto]:
        TRAPS[build.__name__] = (build, shape, batch, shows)
        return build

    return register


def simple(name: str, *args: object, shape: tuple[int, ...] = (4,), shows: bool = True, **options: object) -> None:
    """A trap that is one call of `model`."""
    build = lambda: model(*args, shape=shape, **options)  # type: ignore[arg-type]  # noqa: E731
    fixed = options.get("batch")
    TRAPS[name] = (build, shape, fixed if isinstance(fixed, int) else None, shows)


# Position and batch size, with no data flow between rows.


@trap()
def range_where() -> ModelProto:
    """Row 0 is another class."""
    nodes = [
        node("Shape", ["x"], ["s"], start=0, end=1),
        node("Squeeze", ["s", "zero1"], ["n"]),
        node("Range", ["zero", "n", "one"], ["r"]),
        node("Equal", ["r", "zero"], ["first"]),
        node("Unsqueeze", ["first", "one1"], ["column"]),
        node("Neg", ["x"], ["minus"]),
        node("Where", ["column", "minus", "x"], ["y"]),
    ]
    return model(nodes, {"zero": number(0), "one": number(1), "zero1": integers(0), "one1": integers(1)})


@trap()
def batch_size_is_one() -> ModelProto:
    nodes = [
        node("Shape", ["x"], ["s"], start=0, end=1),
        node("Equal", ["s", "one"], ["alone"]),
        node("Neg", ["x"], ["minus"]),
        node("Where", ["alone", "minus", "x"], ["y"]),
    ]
    return model(nodes, {"one": integers(1)})


@trap()
def batch_size_as_float() -> ModelProto:
    nodes = [
        node("Shape", ["x"], ["s"], start=0, end=1),
        node("Cast", ["s"], ["f"], to=FLOAT),
        node("Div", ["x", "f"], ["y"]),
    ]
    return model(nodes)


@trap()
def position_added() -> ModelProto:
    nodes = [
        node("Shape", ["x"], ["s"], start=0, end=1),
        node("Squeeze", ["s"], ["n"]),
        node("Range", ["zero", "n", "one"], ["r"]),
        node("Cast", ["r"], ["f"], to=FLOAT),
        node("Unsqueeze", ["f", "axis"], ["column"]),
        node("Add", ["x", "column"], ["y"]),
    ]
    return model(nodes, {"zero": number(0), "one": number(1), "axis": integers(1)})


def _gather_by_position(scale: int, offset: int) -> ModelProto:
    """x, flat, at scale · b + offset + (0, 1, 2, 3)."""
    nodes = [
        node("Shape", ["x"], ["s"], start=0, end=1),
        node("Squeeze", ["s"], ["n"]),
        node("Range", ["zero", "n", "one"], ["r"]),
        node("Mul", ["r", "scale"], ["starts"]),
        node("Unsqueeze", ["starts", "axis"], ["column"]),
        node("Add", ["column", "offsets"], ["indices"]),
        node("Reshape", ["x", "flat"], ["all"]),
        node("Gather", ["all", "indices"], ["y"], axis=0),
    ]
    constants = {"zero": number(0), "one": number(1), "scale": number(scale), "axis": integers(1)}
    return model(nodes, constants | {"offsets": np.arange(4)[None] + offset, "flat": integers(-1)})


@trap()
def gather_row_zero_by_position() -> ModelProto:
    return _gather_by_position(0, 0)


@trap()
def gather_neighbour_by_position() -> ModelProto:
    return _gather_by_position(4, -1)


@trap()
def gather_half_rows_by_position() -> ModelProto:
    return _gather_by_position(2, 0)


simple("constant_along_batch", [node("Add", ["x", "c"], ["y"])], {"c": floats(5, 4)}, batch=5)
simple("constant_column", [node("Add", ["x", "c"], ["y"])], {"c": floats(5, 1)}, batch=5)
simple("constant_slope", [node("PRelu", ["x", "c"], ["y"])], {"c": floats(5, 1)}, batch=5)
simple("constant_rows_concatenated", [node("Concat", ["x", "c"], ["y"], axis=1)], {"c": floats(5, 1)}, batch=5)
simple(
    "maxpool_indices",
    [node("MaxPool", ["x"], ["v", "i"], kernel_shape=[2, 2]), node("Cast", ["i"], ["y"], to=FLOAT)],
    shape=(1, 2, 2),
)

# Defaults that hit axis 0.

simple(
    "argmax_default",
    [node("ArgMax", ["x"], ["i"]), node("Cast", ["i"], ["f"], to=FLOAT), node("Add", ["x", "f"], ["y"])],
)
simple(
    "argmin_default",
    [node("ArgMin", ["x"], ["i"]), node("Cast", ["i"], ["f"], to=FLOAT), node("Add", ["x", "f"], ["y"])],
)
simple("gather_default", [node("Gather", ["x", "i"], ["g"]), node("Sub", ["x", "g"], ["y"])], {"i": number(0)})
simple(
    "scatter_elements_default",
    [node("ScatterElements", ["x", "i", "v"], ["y"])],
    {"i": np.zeros((1, 4), np.int64), "v": floats(1, 4)},
)
simple(
    "split_to_sequence_default",
    [
        node("SplitToSequence", ["x"], ["s"], keepdims=0),
        node("SequenceAt", ["s", "i"], ["g"]),
        node("Sub", ["x", "g"], ["y"]),
    ],
    {"i": number(0)},
)
for _name in ("Mean", "Sum", "Max", "Min", "Prod", "L1", "L2", "LogSumExp", "SumSquare"):
    simple(f"reduce_{_name}_default", [node(f"Reduce{_name}", ["x"], ["m"]), node("Sub", ["x", "m"], ["y"])])
simple("mean_variance_default", [node("MeanVarianceNormalization", ["x"], ["y"])], shape=(2, 2, 2))
simple(
    "reverse_sequence",
    [
        node("Shape", ["x"], ["s"], start=0, end=1),
        node("Expand", ["s", "four"], ["lengths"]),
        node("ReverseSequence", ["x", "lengths"], ["y"], time_axis=0, batch_axis=1),
    ],
    {"four": integers(4)},
)
simple("compress_flat", [node("Compress", ["x", "c"], ["g"]), node("Add", ["x", "g"], ["y"])], {"c": np.array([True])})
simple("unique_flat", [node("Unique", ["x"], ["u"]), node("ReduceMax", ["u"], ["m"]), node("Add", ["x", "m"], ["y"])])
simple(
    "transpose_default",
    [node("Transpose", ["x"], ["t"]), node("Softmax", ["t"], ["p"], axis=1), node("Transpose", ["p"], ["y"])],
)
simple(
    "flatten_zero",
    [
        node("Flatten", ["x"], ["f"], axis=0),
        node("Softmax", ["f"], ["p"], axis=1),
        node("ReduceMax", ["p"], ["m"]),
        node("Add", ["x", "m"], ["y"]),
    ],
)
for _name, _gates in (("RNN", 1), ("LSTM", 4), ("GRU", 3)):
    simple(
        f"{_name}_layout_zero",
        [node(_name, ["x", "w", "r"], ["h"], hidden_size=2), node("Squeeze", ["h", "one"], ["y"])],
        {"w": floats(1, 2 * _gates, 3) / 9, "r": floats(1, 2 * _gates, 2) / 9, "one": integers(1)},
        shape=(2, 3),
    )

# What is undefined for numbers out of range: the last rows of a batch meet another kernel.

for _name, _type, _shows in (("uint32", 12, True), ("int32", 6, False), ("int64", 7, False), ("uint8", 2, False)):
    simple(
        f"cast_out_of_range_{_name}",
        [
            node("Mul", ["x", "large"], ["l"]),
            node("Cast", ["l"], ["i"], to=_type),
            node("Cast", ["i"], ["y"], to=1),
        ],
        {"large": np.array(-1e10, np.float32)},
        shape=(3,),
        shows=_shows and platform.machine() in ("x86_64", "AMD64"),
    )

# Statistics of the whole tensor.

simple(
    "dynamic_quantization",
    [node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]), node("DequantizeLinear", ["q", "s", "z"], ["y"])],
)
simple(
    "dynamic_quantized_product",
    [node("DynamicQuantizeMatMul", ["x", "w", "s"], ["y"], domain="com.microsoft")],
    {"w": np.arange(8, dtype=np.uint8).reshape(4, 2), "s": np.array(0.1, np.float32)},
    domains=("com.microsoft",),
)

# Depends on the version.

_BN = {"s": floats(4), "b": floats(4), "m": floats(4), "v": floats(4)}
_BN_INPUTS = ["x", "s", "b", "m", "v"]
simple("batch_norm_five_outputs", [node("BatchNormalization", _BN_INPUTS, ["y", "a", "c", "d", "e"])], _BN, opset=9)
simple("batch_norm_training", [node("BatchNormalization", _BN_INPUTS, ["y", "a", "c"], training_mode=1)], _BN, opset=15)
simple("softmax_flattens", [node("Softmax", ["x"], ["y"], axis=0)], opset=11)
simple("softmax_axis_zero", [node("Softmax", ["x"], ["y"], axis=0)])
simple("log_softmax_negative_axis", [node("LogSoftmax", ["x"], ["y"], axis=-2)])
simple("hardmax_axis_zero", [node("Hardmax", ["x"], ["y"], axis=0)])
simple(
    "dropout_training",
    [node("Dropout", ["x", "ratio", "training"], ["y"])],
    {"ratio": np.array(0.5, np.float32), "training": np.array(True)},
)
simple(
    "axes_computed",
    [
        node("Shape", ["x"], ["s"], start=0, end=1),
        node("Equal", ["s", "five"], ["t"]),
        node("Cast", ["t"], ["axes"], to=INT64),
        node("ReduceMean", ["x", "axes"], ["m"]),
        node("Sub", ["x", "m"], ["y"]),
    ],
    {"five": integers(5)},
)


@trap(shows=False)
def overridable_initializer() -> ModelProto:
    """The caller may hand in other weights with every batch."""
    built = model([node("Mul", ["x", "c"], ["y"])], {"c": floats(1, 4)})
    built.graph.input.append(helper.make_tensor_value_info("c", FLOAT, [1, 4]))
    return built


# The batch contracted or moved.

simple("gemm_trans_a", [node("Gemm", ["x", "x"], ["c"], transA=1), node("MatMul", ["x", "c"], ["y"])])
simple(
    "matmul_batch_right",
    [node("Transpose", ["x"], ["t"]), node("MatMul", ["x", "t"], ["g"]), node("MatMul", ["g", "x"], ["y"])],
)
simple("matmul_meets_all", [node("Transpose", ["x"], ["t"]), node("MatMul", ["x", "t"], ["y"])])
simple("einsum_sums_rows", [node("Einsum", ["x", "x"], ["g"], equation="bi,bj->ij"), node("MatMul", ["x", "g"], ["y"])])
simple("einsum_meets_all", [node("Einsum", ["x", "x"], ["y"], equation="bi,ci->bc")])
simple("einsum_implicit", [node("Einsum", ["x", "x"], ["g"], equation="zi,zj"), node("MatMul", ["x", "g"], ["y"])])
simple(
    "conv_after_transpose",
    [
        node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
        node("Conv", ["t", "w"], ["c"], pads=[1, 1]),
        node("Transpose", ["c"], ["y"], perm=[1, 0, 2]),
    ],
    {"w": floats(5, 5, 3)},
    shape=(2, 4),
    batch=5,
)
simple(
    "attention_over_rows",
    [
        node("Unsqueeze", ["x", "zero"], ["q"]),
        node("Transpose", ["q"], ["k"], perm=[0, 2, 1]),
        node("MatMul", ["q", "k"], ["s"]),
        node("Softmax", ["s"], ["p"], axis=-1),
        node("MatMul", ["p", "q"], ["o"]),
        node("Squeeze", ["o", "zero"], ["y"]),
    ],
    {"zero": integers(0)},
)
simple(
    "attention_operator",
    [
        node("Unsqueeze", ["x", "zero"], ["q"]),
        node("Attention", ["q", "q", "q"], ["o"], q_num_heads=1, kv_num_heads=1),
        node("Squeeze", ["o", "zero"], ["y"]),
    ],
    {"zero": integers(0)},
    opset=23,
)
simple("layer_norm_axis_zero", [node("LayerNormalization", ["x", "s"], ["y"], axis=0)], {"s": np.float32(2).reshape(1)})
simple(
    "layer_norm_negative_axis",
    [node("LayerNormalization", ["x", "s"], ["y"], axis=-2)],
    {"s": np.float32(2).reshape(1)},
)
simple("lp_norm_axis_zero", [node("LpNormalization", ["x"], ["y"], axis=0)])
simple("mean_variance_axis_zero", [node("MeanVarianceNormalization", ["x"], ["y"], axes=[0])])
simple(
    "local_norm_of_rows",
    [
        node("Transpose", ["x"], ["t"], perm=[1, 0, 2, 3]),
        node("LRN", ["t"], ["n"], size=3, alpha=9.0),
        node("Transpose", ["n"], ["y"], perm=[1, 0, 2, 3]),
    ],
    shape=(2, 2, 2),
)
simple(
    "instance_norm_of_rows",
    [
        node("Transpose", ["x"], ["t"], perm=[1, 2, 0]),
        node("InstanceNormalization", ["t", "s", "s"], ["n"]),
        node("Transpose", ["n"], ["y"], perm=[2, 0, 1]),
    ],
    {"s": floats(3)},
    shape=(2, 3),
)
simple(
    "group_norm_of_rows",
    [
        node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
        node("GroupNormalization", ["t", "s", "s"], ["n"], num_groups=1),
        node("Transpose", ["n"], ["y"], perm=[1, 0, 2]),
    ],
    {"s": np.ones(5, np.float32)},
    shape=(2, 3),
    batch=5,
    opset=21,
)
simple(
    "batch_norm_of_rows",
    [
        node("Transpose", ["x"], ["t"]),
        node("BatchNormalization", ["t", "s", "b", "m", "v"], ["n"]),
        node("Transpose", ["n"], ["y"]),
    ],
    {name: floats(5) for name in "sbmv"},
    batch=5,
)
simple(
    "global_pool_of_rows",
    [
        node("Transpose", ["x"], ["t"], perm=[1, 2, 0]),
        node("GlobalAveragePool", ["t"], ["g"]),
        node("Transpose", ["g"], ["m"], perm=[2, 0, 1]),
        node("Sub", ["x", "m"], ["y"]),
    ],
    shape=(2, 3),
)
simple(
    "pool_of_rows",
    [
        node("Transpose", ["x"], ["t"], perm=[1, 2, 0]),
        node("MaxPool", ["t"], ["g"], kernel_shape=[3], pads=[1, 1]),
        node("Transpose", ["g"], ["y"], perm=[2, 0, 1]),
    ],
    shape=(2, 3),
)
simple(
    "weights_from_batch",
    [node("ReduceMean", ["x", "zero"], ["w"], keepdims=0), node("MatMul", ["x", "w"], ["y"])],
    {"zero": integers(0)},
)
simple("conv_weights_from_batch", [node("Conv", ["x", "x"], ["y"], pads=[1, 1])], shape=(5, 3), batch=5)

# Reshape.

simple(
    "reshape_folds_first",
    [node("Reshape", ["x", "t"], ["f"]), node("Softmax", ["f"], ["p"], axis=1), node("Reshape", ["p", "u"], ["y"])],
    {"t": integers(4, -1), "u": integers(-1, 4)},
)
simple(
    "reshape_folds_last",
    [node("Reshape", ["x", "t"], ["f"]), node("Softmax", ["f"], ["p"], axis=1), node("Reshape", ["p", "u"], ["y"])],
    {"t": integers(-1, 8), "u": integers(-1, 4)},
    batch=4,
)
simple("reshape_allowzero", [node("Reshape", ["x", "t"], ["y"], allowzero=1)], {"t": integers(0, 4)}, shows=False)
simple(
    "reshape_moves_rows", [node("Reshape", ["x", "t"], ["f"]), node("Transpose", ["f"], ["y"])], {"t": integers(4, -1)}
)
simple(
    "reshape_fixed_batch_crossed",
    [node("Reshape", ["x", "t"], ["f"]), node("Softmax", ["f"], ["p"], axis=1), node("Reshape", ["p", "u"], ["y"])],
    {"t": integers(2, 8), "u": integers(4, 4)},
    batch=4,
)
simple(
    "reshape_after_transpose",
    [node("Transpose", ["x"], ["t"]), node("Reshape", ["t", "u"], ["y"])],
    {"u": integers(-1, 4)},
)
simple(
    "reshape_batch_into_axis",
    [
        node("Shape", ["x"], ["s"], start=0, end=1),
        node("Concat", ["four", "s"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["f"]),
        node("Softmax", ["f"], ["p"], axis=1),
        node("Reshape", ["p", "u"], ["y"]),
    ],
    {"four": integers(4), "u": integers(-1, 4)},
)
simple(
    "reshape_target_wraps_round",
    [
        node("Mul", ["five", "big"], ["product"]),
        node("Div", ["product", "big"], ["rows"]),  # 5 in mathematics, 1 in 64 bits
        node("Concat", ["rows", "minus"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["f"]),
        node("Softmax", ["f"], ["p"], axis=1),
        node("Reshape", ["p", "u"], ["y"]),
    ],
    {"five": integers(5), "big": integers(2**62), "minus": integers(-1), "u": integers(5, 4)},
    batch=5,
)
simple(
    "rows_in_two_orders",
    [
        node("Transpose", ["x"], ["t"]),
        node("Reshape", ["t", "flat"], ["slow"]),
        node("Reshape", ["x", "flat"], ["fast"]),
        node("Add", ["slow", "fast"], ["sum"]),  # both have 4 · B entries
        node("Reshape", ["sum", "u"], ["y"]),
    ],
    {"flat": integers(-1), "u": integers(-1, 4)},
)
simple(
    "rows_in_two_orders_read_the_other_way",
    [
        node("Transpose", ["x"], ["t"]),
        node("Reshape", ["t", "flat"], ["slow"]),
        node("Reshape", ["x", "flat"], ["fast"]),
        node("Add", ["slow", "fast"], ["sum"]),
        node("Reshape", ["sum", "u"], ["turned"]),
        node("Transpose", ["turned"], ["y"]),
    ],
    {"flat": integers(-1), "u": integers(4, -1)},
)
simple(
    "rows_in_two_orders_concatenated",
    [
        node("Transpose", ["x"], ["t"]),
        node("Reshape", ["t", "column"], ["slow"]),
        node("Reshape", ["x", "column"], ["fast"]),
        node("Concat", ["fast", "slow"], ["both"], axis=1),
        node("Reshape", ["both", "u"], ["y"]),
    ],
    {"column": integers(-1, 1), "u": integers(-1, 8)},
)

# Geometry on axis 0.

simple(
    "pad_rows",
    [node("Pad", ["x", "p"], ["f"]), node("Slice", ["f", "zero", "minus"], ["y"])],
    {"p": integers(1, 0, 0, 0), "zero": integers(0), "minus": integers(-1)},
)
simple(
    "slice_rows",
    [node("Slice", ["x", "a", "b", "axis"], ["f"]), node("Sub", ["x", "f"], ["y"])],
    {"a": integers(0), "b": integers(1), "axis": integers(0)},
)
simple(
    "slice_reverses_rows",
    [node("Slice", ["x", "a", "b", "axis", "step"], ["y"])],
    {"a": integers(-1), "b": integers(-(2**31)), "axis": integers(-2), "step": integers(-1)},
)
simple(
    "slice_by_batch_size",
    [
        node("Shape", ["x"], ["s"], start=0, end=1),
        node("Slice", ["x", "zero", "s", "one"], ["f"]),
        node("ReduceMax", ["f", "one"], ["y"]),
    ],
    {"zero": integers(0), "one": integers(1)},
)
simple(
    "concat_rows",
    [
        node("Concat", ["x", "x"], ["f"], axis=0),
        node("CumSum", ["f", "z"], ["c"]),
        node("ReduceMax", ["c"], ["m"]),
        node("Add", ["x", "m"], ["y"]),
    ],
    {"z": number(0)},
)
simple(
    "split_rows",
    [node("Split", ["x"], ["a", "b"], axis=0, num_outputs=2), node("Concat", ["b", "a"], ["y"], axis=0)],
    batch=4,
)
simple(
    "tile_rows",
    [node("Tile", ["x", "r"], ["f"]), node("Slice", ["f", "a", "b", "z"], ["g"]), node("Sub", ["x", "g"], ["y"])],
    {"r": integers(2, 1), "a": integers(-1), "b": integers(2**31), "z": integers(0)},
)
simple(
    "roll_rows",
    [
        node("Slice", ["x", "m", "e", "z"], ["a"]),
        node("Slice", ["x", "z", "m", "z"], ["b"]),
        node("Concat", ["a", "b"], ["y"], axis=0),
    ],
    {"m": integers(-1), "e": integers(2**31), "z": integers(0)},
)
simple(
    "resize_rows",
    [node("Resize", ["x", "", "s"], ["f"], mode="linear"), node("Resize", ["f", "", "h"], ["y"], mode="linear")],
    {"s": np.array([2, 1], np.float32), "h": np.array([0.5, 1], np.float32)},
)
simple("cumsum_rows", [node("CumSum", ["x", "z"], ["y"])], {"z": number(0)})
simple("cumsum_negative_axis", [node("CumSum", ["x", "z"], ["y"])], {"z": number(-2)})
simple("topk_rows", [node("TopK", ["x", "k"], ["f", "i"], axis=0), node("Sub", ["x", "f"], ["y"])], {"k": integers(1)})
simple("trilu_of_rows", [node("Trilu", ["x"], ["y"])])
simple(
    "depth_to_space",
    [
        node("Transpose", ["x"], ["t"], perm=[1, 0, 2, 3]),
        node("DepthToSpace", ["t"], ["d"], blocksize=2),
        node("ReduceMax", ["d"], ["m"]),
        node("Add", ["x", "m"], ["y"]),
    ],
    shape=(1, 2, 2),
    batch=4,
)

# Depends on indices or on data.

simple(
    "nonzero",
    [
        node("NonZero", ["x"], ["i"]),
        node("Cast", ["i"], ["f"], to=FLOAT),
        node("ReduceSum", ["f"], ["m"]),
        node("Add", ["x", "m"], ["y"]),
    ],
)
simple(
    "where_broadcasts_rows",
    [
        node("Greater", ["x", "zero"], ["c"]),
        node("Cast", ["c"], ["f"], to=FLOAT),
        node("ReduceMax", ["f", "axis"], ["g"], keepdims=0),
        node("Cast", ["g"], ["b"], to=TensorProto.BOOL),
        node("Neg", ["x"], ["m"]),
        node("Where", ["b", "m", "x"], ["y"]),
    ],
    {"zero": np.float32(0), "axis": integers(0)},
)
simple("gather_nd", [node("GatherND", ["x", "i"], ["g"]), node("Sub", ["x", "g"], ["y"])], {"i": integers(0)})
simple("scatter_nd", [node("ScatterND", ["x", "i", "v"], ["y"])], {"i": integers(0).reshape(1, 1), "v": floats(1, 4)})
simple(
    "roi_align",
    [node("RoiAlign", ["x", "rois", "which"], ["r"], output_height=1, output_width=1), node("Sub", ["x", "r"], ["y"])],
    {"rois": np.array([[0, 0, 1, 1]], np.float32), "which": integers(0)},
    shape=(1, 2, 2),
)
simple(
    "max_unpool",
    [
        node("MaxPool", ["x"], ["v", "i"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Neg", ["i"], ["n"]),
        node("Abs", ["n"], ["j"]),
        node("MaxUnpool", ["v", "j"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ],
    shape=(1, 2, 2),
    shows=False,
)
simple(
    "one_hot",
    [
        node("Shape", ["x"], ["s"], start=0, end=1),
        node("OneHot", ["i", "s", "v"], ["h"], axis=0),
        node("ReduceSum", ["h", "one"], ["c"]),
        node("Add", ["x", "c"], ["y"]),
    ],
    {"i": integers(0), "v": np.array([0, 1], np.float32), "one": integers(1)},
)
simple(
    "non_max_suppression",
    [
        node("NonMaxSuppression", ["x", "s", "k"], ["i"]),
        node("Cast", ["i"], ["f"], to=FLOAT),
        node("ReduceSum", ["f"], ["m"]),
        node("Add", ["x", "m"], ["y"]),
    ],
    {"s": floats(5, 1, 2), "k": integers(9)},
    shape=(2, 4),
    batch=5,
)
simple(
    "eye_like",
    [node("MatMul", ["x", "w"], ["f"]), node("EyeLike", ["f"], ["e"]), node("Add", ["f", "e"], ["y"])],
    {"w": floats(4, 3)},
)
simple("size", [node("Size", ["x"], ["n"]), node("Cast", ["n"], ["f"], to=FLOAT), node("Div", ["x", "f"], ["y"])])
simple(
    "gather_by_batch_size",
    [
        node("Shape", ["x"], ["s"], start=0, end=1),
        node("Gather", ["table", "s"], ["g"]),
        node("Add", ["x", "g"], ["y"]),
    ],
    {"table": floats(9, 4)},
)
simple(
    "gather_elements", [node("GatherElements", ["x", "i"], ["y"], axis=0)], {"i": np.array([[1, 1, 0, 0]] * 5)}, batch=5
)

# Refused outright.

simple("random_normal", [node("RandomNormal", [], ["r"], shape=[1, 4]), node("Add", ["x", "r"], ["y"])])
simple("random_uniform", [node("RandomUniform", [], ["r"], shape=[1, 4]), node("Add", ["x", "r"], ["y"])])
simple("random_normal_like", [node("RandomNormalLike", ["x"], ["r"]), node("Add", ["x", "r"], ["y"])])
simple("random_uniform_like", [node("RandomUniformLike", ["x"], ["r"]), node("Add", ["x", "r"], ["y"])])
simple("bernoulli", [node("Sigmoid", ["x"], ["p"]), node("Bernoulli", ["p"], ["y"])])
simple("multinomial", [node("Multinomial", ["x"], ["i"], sample_size=9), node("Cast", ["i"], ["y"], to=FLOAT)])
simple("random_but_dead", [node("RandomNormalLike", ["x"], ["r"]), node("Neg", ["x"], ["y"])], shows=False)


@trap()
def if_() -> ModelProto:
    """Which branch is taken depends on the largest entry of all."""
    branches = {
        f"{which}_branch": subgraph([node(op, ["x"], [which])], [], [which])
        for which, op in (("then", "Neg"), ("else", "Abs"))
    }
    nodes = [
        node("ReduceMax", ["x"], ["m"], keepdims=0),
        node("Greater", ["m", "three"], ["c"]),
        node("If", ["c"], ["y"], **branches),
    ]
    return model(nodes, {"three": np.float32(3)})


@trap()
def loop() -> ModelProto:
    """As many turns as there are rows."""
    body = subgraph([node("Identity", ["c"], ["c2"]), node("Add", ["v", "v"], ["w"])], ["i", "c", "v"], ["c2", "w"])
    nodes = [
        node("Shape", ["x"], ["s"], start=0, end=1),
        node("Squeeze", ["s"], ["n"]),
        node("Loop", ["n", "", "x"], ["y"], body=body),
    ]
    return model(nodes)


@trap()
def scan() -> ModelProto:
    """A running sum over axis 0, the default."""
    body = subgraph([node("Add", ["a", "r"], ["b"]), node("Identity", ["b"], ["o"])], ["a", "r"], ["b", "o"])
    return model(
        [node("Scan", ["start", "x"], ["last", "y"], body=body, num_scan_inputs=1)], {"start": np.zeros(4, np.float32)}
    )


simple(
    "sequence",
    [
        node("SequenceConstruct", ["x", "x"], ["s"]),
        node("ConcatFromSequence", ["s"], ["f"], axis=0),
        node("ReduceMax", ["f"], ["m"]),
        node("Add", ["x", "m"], ["y"]),
    ],
)
simple("optional", [node("Optional", ["x"], ["o"]), node("OptionalGetElement", ["o"], ["y"])], shows=False)
simple("unknown_domain", [node("Relu", ["x"], ["y"], domain="com.example")], domains=("com.example",), shows=False)
simple("unknown_attribute", [node("Relu", ["x"], ["y"], axis=0)], shows=False)
simple("string_normalizer", [node("StringNormalizer", ["x"], ["y"])], shows=False)


@trap(shows=False)
def sparse_initializer() -> ModelProto:
    built = model([node("Add", ["x", "c"], ["y"])])
    values, indices = numpy_helper.from_array(np.ones(1, np.float32), "c"), numpy_helper.from_array(integers(0))
    built.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
    return built


def hiding_mean(domain: str, name: str) -> ModelProto:
    """A function with the name of a harmless operator subtracts the mean of all rows."""
    body = [node("ReduceMean", ["a"], ["m"]), node("Sub", ["a", "m"], ["b"])]
    function = helper.make_function(domain, name, ["a"], ["b"], body, [helper.make_opsetid("", 18)])
    return model([node(name, ["x"], ["y"], domain=domain)], functions=[function], domains=[domain] if domain else [])


@trap()
def function_of_its_own() -> ModelProto:
    return hiding_mean("com.example", "Relu")


@trap(shows=False)
def function_named_relu() -> ModelProto:
    """onnxruntime ignores the body or refuses the file; whoever inlines it proves another graph."""
    return hiding_mean("", "Relu")


@trap()
def function_with_overload() -> ModelProto:
    built = hiding_mean("com.example", "Relu")
    built.functions[0].overload = built.graph.node[0].overload = "second"
    return built


# More that we thought of.

simple(
    "rank_changing_broadcast",
    [node("ReduceMax", ["x", "one"], ["c"]), node("Squeeze", ["c", "one"], ["r"]), node("Add", ["c", "r"], ["y"])],
    {"one": integers(1)},
)
simple(
    "vector_of_rows_added",
    [node("ReduceMax", ["x", "one"], ["r"], keepdims=0), node("Add", ["x", "r"], ["y"])],
    {"one": integers(1)},
    shape=(5,),
    batch=5,
)
simple(
    "squeeze_without_axes",
    [node("ReduceMax", ["x", "one"], ["c"]), node("Squeeze", ["c"], ["y"])],
    {"one": integers(1)},
)
simple(
    "expand_along_second_axis",
    [
        node("Shape", ["x"], ["s"], start=0, end=1),
        node("Concat", ["s", "s", "four"], ["t"], axis=0),
        node("Expand", ["x", "t"], ["y"]),
    ],
    {"four": integers(4)},
)
simple(
    "constant_of_shape_positions",
    [
        node("Shape", ["x"], ["s"], start=0, end=1),
        node("ConstantOfShape", ["s"], ["z"]),
        node("CumSum", ["z", "zero"], ["c"], exclusive=0),
        node("Cast", ["c"], ["f"], to=FLOAT),
        node("Unsqueeze", ["f", "one"], ["g"]),
        node("Cos", ["g"], ["h"]),
        node("CumSum", ["h", "zero"], ["k"]),
        node("Add", ["x", "k"], ["y"]),
    ],
    {"zero": number(0), "one": integers(1)},
)
simple("output_is_constant", [node("Abs", ["x"], ["unused"]), node("Identity", ["c"], ["y"])], {"c": floats(1, 4)})
simple("output_is_turned", [node("Transpose", ["x"], ["y"])])
simple("output_counts_rows", [node("Shape", ["x"], ["y"])], kind=INT64)
simple("two_rows_in_one", [node("Reshape", ["x", "t"], ["y"])], {"t": integers(-1, 2)})
simple(
    "interleaved_rows",
    [
        node("Reshape", ["x", "t"], ["a"]),
        node("Transpose", ["a"], ["b"], perm=[1, 0, 2]),
        node("Reshape", ["b", "u"], ["y"]),
    ],
    {"t": integers(-1, 2, 2), "u": integers(-1, 4)},
)
simple(
    "skip_layer_norm_of_rows",
    [
        node("Transpose", ["x"], ["t"], perm=[1, 2, 0]),
        node("SkipLayerNormalization", ["t", "t", "s"], ["n"], domain="com.microsoft"),
        node("Transpose", ["n"], ["y"], perm=[2, 0, 1]),
    ],
    {"s": np.ones(5, np.float32)},
    shape=(2, 3),
    batch=5,
    domains=("com.microsoft",),
)
simple(
    "fused_product_batch_moved",
    [node("FusedMatMul", ["x", "w"], ["y"], domain="com.microsoft", transBatchA=1)],
    {"w": floats(2, 3, 2)},
    shape=(2, 3),
    batch=5,
    domains=("com.microsoft",),
)
simple(
    "fused_product_turned",
    [node("FusedMatMul", ["x", "x"], ["g"], domain="com.microsoft", transA=1), node("MatMul", ["x", "g"], ["y"])],
    domains=("com.microsoft",),
)
simple(
    "bias_gelu_of_rows",
    [
        node("Transpose", ["x"], ["t"]),
        node("BiasGelu", ["t", "b"], ["g"], domain="com.microsoft"),
        node("Transpose", ["g"], ["y"]),
    ],
    {"b": floats(5)},
    batch=5,
    domains=("com.microsoft",),
)
simple(
    "internal_operator",
    [
        node("ReorderInput", ["x"], ["r"], domain="com.microsoft.nchwc"),
        node("ReorderOutput", ["r"], ["y"], domain="com.microsoft.nchwc", channels=8),
    ],
    shape=(8, 2, 2),
    domains=("com.microsoft.nchwc",),
    shows=False,
)
simple("old_opset", [node("Add", ["x", "x"], ["y"])], opset=6, shows=False)
simple("future_opset", [node("Add", ["x", "x"], ["y"])], opset=99, shows=False)
simple("external_weights", [node("Add", ["x", "c"], ["y"])], {"c": floats(1, 4)}, shows=False)


@trap(shows=False)
def name_given_twice() -> ModelProto:
    return model([node("Relu", ["x"], ["a"]), node("ReduceMax", ["x"], ["a"]), node("Add", ["x", "a"], ["y"])])


@trap(shows=False)
def name_of_a_constant_given_again() -> ModelProto:
    return model([node("ReduceMax", ["x"], ["c"]), node("Add", ["x", "c"], ["y"])], {"c": floats(1)})


@trap(shows=False)
def two_inputs() -> ModelProto:
    built = model([node("Add", ["x", "z"], ["y"])])
    built.graph.input.append(helper.make_tensor_value_info("z", FLOAT, ["batch", 4]))
    return built


@trap(shows=False)
def used_before_it_is_computed() -> ModelProto:
    return model([node("Relu", ["a"], ["y"]), node("Abs", ["x"], ["a"])])


TRAPS["external_weights"] = (lambda: _external(), (4,), None, False)


def _external() -> ModelProto:
    built = model([node("Add", ["x", "c"], ["y"])], {"c": floats(1, 4)})
    built.graph.initializer[0].data_location = TensorProto.EXTERNAL
    return built


#: Rows are the same function at every position of one batch size, and another one at another batch size.
OF_THE_BATCH_SIZE = (
    *("batch_size_is_one", "batch_size_as_float", "size", "gather_by_batch_size", "slice_by_batch_size"),
    *("reshape_batch_into_axis", "squeeze_without_axes", "reshape_folds_first"),
)


@pytest.mark.parametrize("name", TRAPS)
def test_no_trap_is_proved(name: str) -> None:
    """By the argument alone; where rows differ with the batch size only, by the witness."""
    report = prove_graph(TRAPS[name][0](), witness=name in OF_THE_BATCH_SIZE)
    assert not report.proved
    assert report.reason
    assert "\n" not in report.reason
    assert not report.contradiction


@pytest.mark.parametrize("name", OF_THE_BATCH_SIZE)
def test_at_one_batch_size_rows_are_alike(name: str) -> None:
    """The argument is about one batch size, at which these graphs are harmless; only other sizes tell them apart."""
    build, shape, _, _ = TRAPS[name]
    assert prove_graph(build()).proved
    assert violation(runner(build()), shape, (BATCH,)) is None


@pytest.mark.parametrize("name", [name for name, (_, _, _, shows) in TRAPS.items() if shows])
@pytest.mark.slow("starts a process for each of many traps")
def test_the_trap_is_real(name: str, tmp_path: Path) -> None:
    """Run by onnxruntime, rows do depend on more than themselves; and the model is not proved after optimisation."""
    build, shape, batch, _ = TRAPS[name]
    built = build()
    assert violation(runner(built), shape, (1, 2, 3, 4, 6) if batch is None else (batch,)) is not None
    path = tmp_path / "trap.onnx"
    path.write_bytes(built.SerializeToString())
    try:
        loaded, strict = OnnxModel(path, threads=1), OnnxModel(path, threads=1, independence="proved")
    except ValueError:
        return  # refused altogether
    loaded.prepare(shape, batch or BATCH)
    measurable = loaded.batch is None and not draws_at_random(built)
    assert loaded.identity().independence.text == ("measured m=1000" if measurable else "checked")
    with pytest.raises(ValueError, match="cannot be proved"):
        strict.prepare(shape, batch or BATCH)

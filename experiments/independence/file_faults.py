"""Faults of a file, and nodes that no graph should have.

Each function plants one and says which; or None, if it does not fit.
"""

from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper, numpy_helper
from planting import HOPELESS, MALFORMED, Site

INTERNAL = "com.microsoft.nchwc"
#: A field that no version of the format has: number 99, a varint.
UNKNOWN = b"\x98\x06\x01"


def _function(site: Site) -> str:
    inside = [helper.make_node("Relu", ["a"], ["b"])]
    site.proto.functions.append(
        helper.make_function("local", "F", ["a"], ["b"], inside, [helper.make_opsetid("", site.opset)])
    )
    return "the file defines a function"


def _training(site: Site) -> str:
    site.proto.training_info.add().algorithm.CopyFrom(site.graph)
    return "the file holds a graph for training"


def _sparse(site: Site) -> str:
    places = numpy_helper.from_array(np.arange(2), "planted places")
    entries = numpy_helper.from_array(np.ones(2, np.float32), "planted sparse")
    site.graph.sparse_initializer.append(helper.make_sparse_tensor(entries, places, [3]))
    return "the file holds a sparse tensor"


def _opset(site: Site) -> str:
    """Another opset, two, or the same twice."""
    one = next(one for one in site.proto.opset_import if one.domain in ("", "ai.onnx"))
    way = site.draw.randrange(3)
    if way == 0:
        one.version = site.draw.choice([1, 5, 6, 26, 27])
        return f"opset {one.version}"
    site.proto.opset_import.append(helper.make_opsetid("ai.onnx", site.opset if way == 1 else site.opset - 1))
    if way == 2:
        site.guards.append(MALFORMED)
    return "the default operators are imported twice"


def _unknown_field(site: Site) -> str:
    site.draw.choice([site.proto, site.graph, *site.graph.node]).MergeFromString(UNKNOWN)
    return "the file holds an unknown field"


def _overload(site: Site) -> str:
    site.draw.choice(site.graph.node).overload = "other"
    return "a node is overloaded"


def _second_input(site: Site) -> str:
    site.graph.input.append(helper.make_tensor_value_info("second", 1, ["batch", 1]))
    return "the graph has two inputs"


def _odd_constant(site: Site) -> str:
    """A constant outside the file, of strings, without a name, or with a name that is taken."""
    way = site.draw.randrange(4)
    if way == 3:
        site.constant(np.ones(1, np.float32), site.draw.choice([site.graph.input[0].name, site.constant(np.ones(1))]))
        return "two values have one name"
    name = site.constant(np.ones(1, np.float32))
    tensor = site.graph.initializer[-1]
    if way == 0:
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="elsewhere")
    elif way == 1:
        tensor.CopyFrom(helper.make_tensor(name, onnx.TensorProto.STRING, [1], [b"text"]))
    else:
        tensor.name = ""
    return ("a constant lies outside the file", "a constant is made of text", "a constant has no name")[way]


def _names(site: Site) -> str:
    """A value is computed twice, or from nothing."""
    x = site.graph.input[0].name
    if site.draw.random() < 0.5:
        site.add("Identity", ["nowhere"], site.shapes[x])
        return "an operand is never computed"
    name = site.draw.choice([x, *(name for node in site.graph.node for name in node.output if name)])
    again = site.add("Identity", [site._fixed(name)], site.shapes[name])
    site.graph.node[-1].output[0] = name
    return f"{again} is {name}, which was computed before"


def _outputs(site: Site) -> str:
    if site.draw.random() < 0.5:
        del site.graph.output[:]
        return "the graph has no output"
    site.output("nothing")
    return "the output is never computed"


def _strangers(site: Site) -> str | None:
    """A node without a rule: unknown, of another domain, drawing at random, or one for the optimizer alone."""
    x = site.graph.input[0].name
    fixed, shape = site.constant(np.ones((2, 16, 2, 2), np.float32)), site.shapes[x]
    way = site.draw.randrange(4)
    if way == 0:
        site.add(site.draw.choice(["Sin", "Bernoulli", "NonZero", "Compress", "Resize"]), [x], shape)
        return f"there is no rule for {site.graph.node[-1].op_type}"
    if way == 1:
        site.add("Relu", [x], shape, domain="ai.onnx.ml")
        return "an operator of another domain"
    if way == 2:
        name = site.draw.choice(["RandomNormalLike", "RandomUniformLike", "Multinomial"])
        site.add(name, [x], shape)
        site.guards.append(HOPELESS)
        return f"{name} draws at random"
    if site.internal:
        return None
    site.add("GlobalMaxPool", [fixed], (2, 16, 1, 1), domain=INTERNAL)
    site.guards.append(HOPELESS)
    return "an operator that the optimizer alone may write"


def _too_new(site: Site) -> str | None:
    """An operator that the opset does not have yet."""
    since = {"Mish": 18, "GreaterOrEqual": 12, "Celu": 12, "HardSwish": 14, "Gelu": 20, "Swish": 24, "Mod": 10}
    names = [name for name, first in since.items() if site.opset < first]
    if not names:
        return None
    fixed = site.constant(np.ones(2, np.float32))
    name = site.draw.choice(names)
    site.add(name, [fixed] * (2 if name in ("GreaterOrEqual", "Mod") else 1), (2,))
    return f"opset {site.opset} does not have {name}"


def _input(site: Site) -> str:
    """An input without a shape, of strings, or of another shape than the rows that are asked for."""
    kind = site.graph.input[0].type.tensor_type
    rows = site.shapes[site.graph.input[0].name][1:]
    way = site.draw.randrange(4)
    if way == 0:
        kind.ClearField("shape")
        return "the input's shape is not declared"
    if way == 1:
        kind.elem_type = onnx.TensorProto.STRING
        return "the input is made of text"
    if way == 2:
        site.rows = (*rows, 1)
        return "rows have an axis more than declared"
    for axis, size in enumerate(rows):
        kind.shape.dim[axis + 1].dim_value = size
    site.rows = (rows[0] + 1, *rows[1:])
    return "rows are longer than declared"


def _no_entries(site: Site) -> str | None:
    """The output is cut until nothing is left; or something without entries is put behind it."""
    name = site.graph.output[0].name
    shape = site.shapes[name]
    if len(shape) < 2 or site.opset < 13 or name not in site.entries:  # the input may be the output
        return None
    if site.draw.random() < 0.5:
        lists = [site.constant(np.array([number])) for number in (0, 0, 1)]
        site.output(site.add("Slice", [name, *lists], (shape[0], 0, *shape[2:])))
    else:
        sizes = (shape[0], 0, *shape[2:])
        value = numpy_helper.from_array(np.zeros(1, site.entries[name].dtype))
        empty = site.add("ConstantOfShape", [site.constant(np.array(sizes))], sizes, value=value)
        site.entries[empty] = np.zeros(sizes, site.entries[name].dtype)
        site.output(site.add("Concat", [name, empty], shape, axis=1))
    return "a tensor has no entries"


def _double(site: Site) -> str:
    """A constant in double precision meets the output."""
    name = site.graph.output[0].name
    site.output(site.add("Mul", [name, site.constant(np.ones((), np.float64))], site.shapes[name]))
    return "a constant is in double precision"


def _crossed(site: Site) -> str | None:
    """Rows are put beside rows that lie on another axis."""
    name = site.graph.output[0].name
    if len(site.shapes[name]) != 2:
        return None
    square = (site.batch, site.batch)
    wide = site.add("Gather", [name, site.constant(np.zeros(site.batch, np.int64))], square, axis=1)
    turned = site.add("Transpose", [wide], square, perm=[1, 0])
    site.output(site.add("Concat", [wide, turned], (site.batch, 2 * site.batch), axis=1))
    return "rows are put beside columns"


def _positions(site: Site) -> str | None:
    """Each position of the batch gets a number of its own, through an operator that counts as no constant."""
    name = site.graph.output[0].name
    shape = (site.batch, *[1] * (len(site.shapes[name]) - 1))
    if name not in site.entries or site.entries[name].dtype != np.float32:
        return None
    numbers = np.arange(site.batch, dtype=np.float32).reshape(shape)
    dropped = site.add("Dropout", [site.constant(numbers)], shape)
    picked = site.add("Gather", [dropped, site.constant(np.arange(site.batch))], shape, axis=0)
    site.output(site.add("Add", [name, picked], site.shapes[name]))
    return "rows are told their position"


def _folded(site: Site) -> str | None:
    """Rows that lie folded, one entry of each after the other, pick as if each lay in one piece."""
    name = site.graph.output[0].name
    if len(site.shapes[name]) != 2 or site.shapes[name][1] < 2:
        return None
    width = site.shapes[name][1]
    turned = site.add("Transpose", [name], (width, site.batch), perm=[1, 0])
    flat = site.add("Reshape", [turned, site.constant(np.array([-1]))], (width * site.batch,))
    site.output(site.add("Gather", [flat, site.constant(width * np.arange(site.batch))], (site.batch,), axis=0))
    return "rows pick entries of other rows"


def _parts(site: Site) -> str | None:
    """A Split with more parts than it says, or that does not say."""
    shape = (4,)
    fixed = site.constant(np.ones(shape, np.float32))
    site.add("Split", [fixed], (2,))
    node = site.graph.node[-1]
    way = site.draw.randrange(3)
    if way == 0 and site.opset >= 18:
        node.output.append("planted part")
    elif way == 1 and site.opset >= 18:
        node.attribute.append(helper.make_attribute("num_outputs", 2))
    elif site.opset < 13:
        node.attribute.append(helper.make_attribute("split", [2, 2]))
    else:
        node.input.append(site.constant(np.array([2, 2])))
    site.guards = [MALFORMED]
    return "Split: its parts are not as many as it says"


def _copies(site: Site) -> str:
    """A copy between devices of more than one value, or of none, or to more than one."""
    name, fixed = site.draw.choice(["MemcpyFromHost", "MemcpyToHost"]), site.constant(np.ones(2, np.float32))
    site.add(name, site.draw.choice([[fixed], [fixed, fixed], []]), (2,))
    node = site.graph.node[-1]
    if len(node.input) == 1:
        node.output.append("planted copy")
        site.shapes["planted copy"] = (2,)
    return f"{name}: {len(node.input)} operands, {len(node.output)} outputs"


FILES: tuple[Callable[[Site], str | None], ...] = (
    _function, _training, _sparse, *[_opset] * 2, _unknown_field, _overload, _second_input, *[_odd_constant] * 2,
    *[_names] * 2, _outputs, *[_strangers] * 2, _too_new, *[_input] * 2, *[_no_entries] * 2, _double, *[_parts] * 2,
    _crossed, _positions, _folded, *[_copies] * 2,
)  # fmt: skip

"""What an ONNX file says of itself: it is parsed once, before any runtime reads it."""

from typing import TYPE_CHECKING, NamedTuple

from ..independence.proof.onnx_graph import draws_at_random, hopeless
from ..independence.proof.onnx_schema import malformed, suspicious
from .outputs import Output, choose_output
from .protocol import declared_classes, is_one_logit

if TYPE_CHECKING:
    import onnx


class OnnxFacts(NamedTuple):
    """The ends of a graph, and how far it can be relied on."""

    input: str
    shape: tuple[int | None, ...]
    """The input's, [batch, …]; None stands for an axis without a fixed size."""
    output: str
    """The output that votes."""
    first: bool
    """Whether it is the first."""
    classes: int | None
    """How many classes it has scores for, if the file says so."""
    draws: bool
    """Whether an operator draws at random, or would if its flag for training said so."""
    suspicious: bool
    """Whether the runtime was seen to die on such graphs."""
    hopeless: str | None
    """Why it may not count as proved, whatever the optimizer makes of it."""


def read_facts(graph: bytes, output: Output = None) -> OnnxFacts:
    """The facts; a ValueError for a file on which the runtime might die, or that is no classifier."""
    import onnx

    model = onnx.load_model_from_string(graph)
    problem = malformed(model)
    if problem is not None:
        raise ValueError(f"the model is malformed: {problem}")
    name, shape = _only_input(model.graph)
    if not model.graph.output:
        raise ValueError("the model has no output")
    outputs = {each.name: each for each in reversed(model.graph.output)}
    chosen = choose_output([each.name for each in model.graph.output], output)
    classes = _classes(outputs[chosen].type.tensor_type)
    judged = draws_at_random(model), suspicious(model), hopeless(model)
    return OnnxFacts(name, shape, chosen, chosen == model.graph.output[0].name, classes, *judged)


def reduced(graph: bytes, facts: OnnxFacts) -> bytes:
    """The graph with no other output than the one that votes. If that is the first, the graph stays as it is, as it
    did when no other could be chosen.
    """
    if facts.first:
        return graph
    import onnx

    model = onnx.load_model_from_string(graph)
    kept = [each for each in model.graph.output if each.name == facts.output]
    del model.graph.output[:]
    model.graph.output.extend(kept[:1])
    return bytes(model.SerializeToString())


def _classes(declared: "onnx.TypeProto.Tensor") -> int | None:
    """How many classes an output has scores for, as it is declared; None for what is left open, and for labels."""
    import onnx

    floats = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16, onnx.TensorProto.DOUBLE)
    sizes = _sizes(declared)
    return None if is_one_logit(tuple(sizes)) and declared.elem_type not in floats else declared_classes(sizes)


def _only_input(graph: "onnx.GraphProto") -> tuple[str, tuple[int | None, ...]]:
    """Name and shape of the one input that the file does not hold itself."""
    from onnx import TensorProto

    held = {tensor.name for tensor in graph.initializer} | {tensor.values.name for tensor in graph.sparse_initializer}
    inputs = [each for each in graph.input if each.name not in held]
    if len(inputs) != 1:
        raise ValueError(f"the model must have one input, not {len(inputs)}: {[each.name for each in inputs]}")
    kind = inputs[0].type.tensor_type
    if kind.elem_type != TensorProto.FLOAT:
        written = TensorProto.DataType.Name(kind.elem_type).lower() if kind.elem_type else "no tensor"
        raise ValueError(f"the model's input must be float32, not {written}")
    sizes = _sizes(kind)
    if len(sizes) < 2:
        raise ValueError(f"the model's input must be [batch, …], not {sizes}")
    return inputs[0].name, tuple(size if isinstance(size, int) and size > 0 else None for size in sizes)


def _sizes(kind: "onnx.TypeProto.Tensor") -> list[int | str | None]:
    """The size of each axis, its name, or None."""
    return [axis.dim_value if axis.HasField("dim_value") else axis.dim_param or None for axis in kind.shape.dim]

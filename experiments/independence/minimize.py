"""The least graph that still shows something: nodes, operands and attributes are left out as long as it stands."""

from collections.abc import Callable, Iterator

import onnx


def smallest(model: bytes, stands: Callable[[bytes], bool], tries: int = 400) -> bytes:
    """A graph in which nothing can be left out; `stands` says whether a graph still shows it."""
    best = onnx.load_model_from_string(model)
    going = True
    while going and tries > 0:
        going = False
        for smaller in _smaller(best):
            tries -= 1
            if _stands(smaller.SerializeToString(), stands):
                best, going = smaller, True
                break
            if tries <= 0:
                break
    return bytes(best.SerializeToString())


def _stands(model: bytes, stands: Callable[[bytes], bool]) -> bool:
    try:
        return stands(model)
    except Exception:  # the runtime refuses it, or the inspector stumbles
        return False


def _smaller(model: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """All graphs with one thing less."""
    for place in reversed(range(len(model.graph.node))):
        yield from _without_node(model, place)
    for place, node in enumerate(model.graph.node):
        for number in range(len(node.attribute)):
            copy = _copy(model)
            del copy.graph.node[place].attribute[number]
            yield copy


def _without_node(model: onnx.ModelProto, place: int) -> Iterator[onnx.ModelProto]:
    """An earlier value in the place of a node's outputs."""
    node = model.graph.node[place]
    for name in dict.fromkeys([*(name for name in node.input if name), "x"]):
        copy = _copy(model)
        del copy.graph.node[place]
        gone = set(node.output)
        for other in copy.graph.node:
            other.input[:] = [name if entry in gone else entry for entry in other.input]
        if copy.graph.output[0].name in gone:
            copy.graph.output[0].CopyFrom(onnx.ValueInfoProto(name=name))
        _prune(copy)
        if copy.graph.node:
            yield copy


def _prune(model: onnx.ModelProto) -> None:
    """Without nodes and constants that nothing needs."""
    wanted = {one.name for one in model.graph.output}
    kept = []
    for node in reversed(model.graph.node):
        if wanted & set(node.output):
            kept.append(node)
            wanted |= set(node.input)
    nodes, tensors = kept[::-1], [tensor for tensor in model.graph.initializer if tensor.name in wanted]
    copies = [_copied(node) for node in nodes], [_copied(tensor) for tensor in tensors]
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(copies[0])
    model.graph.initializer.extend(copies[1])


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    return _copied(model)


def _copied(message):
    copy = type(message)()
    copy.CopyFrom(message)
    return copy

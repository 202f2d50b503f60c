"""Small convolutional stacks, from which the optimizer makes its own operators with channels in blocks.

It does so for convolutions of images whose channels fill whole blocks (of 8 or 16, by processor), and for the pools,
sums and joins behind them.
"""

from typing import TYPE_CHECKING

import numpy as np
from draws import numbers
from known import Known

if TYPE_CHECKING:
    from growth import Growth

FLOAT = "tensor(float)"
#: Channels: whole blocks on every processor; and too few for one, or for whole ones.
BLOCKS, OTHERS = (16, 16, 32), (3, 4, 8, 24)
#: What may follow a convolution, and how often.
LAYERS = {"Conv": 2, "Relu": 1, "MaxPool": 3, "AveragePool": 3, "Add": 1, "Concat": 1, "Transpose": 0.5, "Clip": 0.3}
LAST = ("GlobalMaxPool", "GlobalAveragePool", "GlobalMaxPool", "GlobalAveragePool", "Conv", "Relu", "MaxPool")


def sizes(g: "Growth") -> list[int]:
    """The extents of an image."""
    side = g.draw.choice([2, 3, 3, 4]) if g.batch < BLOCKS[0] else 2
    return [g.draw.choice([*BLOCKS[:2], *OTHERS]), side, side]


def stacked(g: "Growth") -> Known:
    """A convolution, a few layers and a last one; the result of that."""
    known = g.pool[-1]
    if g.batch >= BLOCKS[0]:
        known = g.add("", "Transpose", [known], {"perm": [1, 0, 2, 3]})[0]
    known = _convolution(g, known)
    for _ in range(g.draw.choice([0, 1, 2, 3])):
        known = _layer(g, g.draw.choices(list(LAYERS), list(LAYERS.values()))[0], known)
    return _layer(g, g.draw.choice(LAST), known)


def _layer(g: "Growth", name: str, known: Known) -> Known:
    if known.rank != 4:
        return known
    if name == "Conv":
        return _convolution(g, known)
    if name in ("MaxPool", "AveragePool"):
        return g.add("", name, [known], _window(g, known, shown=True))[0]
    if name in ("Add", "Concat"):
        same = [one for one in g.pool if one.type == FLOAT and one.rank == 4 and one.shape == known.shape]
        other = g.draw.choice(same)
        return g.add("", name, [known, other], {"axis": 1} if name == "Concat" else {})[0]
    if name == "Transpose":
        return g.add("", name, [known], {"perm": g.draw.choice([[0, 2, 3, 1], [0, 2, 3, 1], [1, 0, 2, 3]])})[0]
    if name == "Clip" and g.opset >= 11:
        return g.add("", name, [known, *(g.constant(np.array(one, np.float32)) for one in (0, 6))])[0]
    return g.add("", "Relu" if name == "Clip" else name, [known])[0]


def _convolution(g: "Growth", known: Known) -> Known:
    channels = known.shape[1]
    features = g.draw.choice([*BLOCKS, *BLOCKS, *OTHERS[-2:]])
    group = channels if features == channels and g.draw.random() < 0.2 else 1
    attributes = _window(g, known, shown=False) | ({"group": group} if group > 1 else {})
    kernel = attributes.get("kernel_shape", [1, 1])
    weights = g.constant(numbers(g, [features, channels // group, *kernel], FLOAT))
    bias = [g.constant(numbers(g, [features], FLOAT))] if g.draw.random() < 0.5 else []
    return g.add("", "Conv", [known, weights, *bias], attributes)[0]


def _window(g: "Growth", known: Known, shown: bool) -> dict[str, list[int]]:
    """A small window; of extent 1 unless it is `shown` or drawn, and then mostly as large with its padding."""
    kernel = [min(g.draw.choice([1, 2, 3]), size) for size in known.shape[2:]]
    if not shown and g.draw.random() < 0.4:
        return {}
    pads = [(size - 1) // 2 for size in kernel] if g.draw.random() < 0.7 else [0, 0]
    strides = [g.draw.choice([1, 1, 1, 2]) for _ in kernel]
    return {"kernel_shape": kernel, "pads": pads * 2, "strides": strides}

"""What an attribute may not be, and what a list among the operands may not be: the dialect, stated by hand.

Nothing here looks at the inspector's table. The names are those of ONNX's schemas and of onnxruntime's own.
"""

import random
from collections.abc import Callable, Sequence

INT32_MAX, INT64_MAX, INT64_MIN = 2**31 - 1, 2**63 - 1, -(2**63)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FLAGS = _words("""
    keepdims noop_with_empty_axes select_last_index exclusive reverse largest sorted upper ceil_mode count_include_pad
    storage_order transA transB transBatchA transBatchB allowzero saturate fmod detect_negative detect_positive
    training_mode stash_type channels_last
""")
COUNTS = _words("p size group num_groups num_outputs channels")
WINDOWS = _words("kernel_shape strides dilations")
WORDS = _words("auto_pad mode approximate activation")
#: Types of tensors that rows may not be cast to: none, strings, double, complex numbers, eight bits, and one too many.
TYPES = (0, 8, 11, 14, 15, 17, 99)
NO_NUMBERS = (float("nan"), float("inf"), float("-inf"))

#: Operands that must be constants: parameters, and what decides a shape.
PARAMETERS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(_words("ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum"), (1,)),
    **dict.fromkeys(_words("ReduceLogSumExp ReduceSumSquare CumSum TopK Trilu SimplifiedLayerNormalization"), (1,)),
    **dict.fromkeys(_words("RMSNormalization Reshape Squeeze Unsqueeze Split Expand Tile"), (1,)),
    **dict.fromkeys(_words("com.microsoft.BiasGelu com.microsoft.FastGelu"), (1,)),
    **dict.fromkeys(_words("Clip Dropout LayerNormalization InstanceNormalization GroupNormalization Conv"), (1, 2)),
    **dict.fromkeys(_words("com.microsoft.FusedConv com.microsoft.nchwc.Conv"), (1, 2)),
    **dict.fromkeys(("Gemm", "com.microsoft.FusedGemm"), (2,)),
    **dict.fromkeys(("BatchNormalization", "Slice"), (1, 2, 3, 4)),
    "Pad": (1, 2, 3),
    "com.microsoft.SkipLayerNormalization": (2, 3, 4),
    "ConstantOfShape": (0,),
    "Range": (0, 1, 2),
}


def value(draw: random.Random, operator: str, name: str, kind: str, rank: int, outputs: int) -> object:
    """A value of the attribute's own type that it may not have; None if there is none."""
    if kind == "FLOAT":
        return draw.choice(NO_NUMBERS)
    if kind == "FLOATS":
        return None if name == "value_floats" else [1.0, draw.choice(NO_NUMBERS)]
    if name in FLAGS:
        return draw.choice([2, -1, 3, -2, INT32_MAX, INT64_MAX, INT64_MIN])
    if name in COUNTS:
        return draw.choice([0, -1, INT64_MIN, INT64_MAX])
    if name in WORDS:
        return draw.choice(["other", "SAME", "Softmax"])
    if name == "to":
        return draw.choice(TYPES)
    if name == "axis":
        most = rank + (operator == "Flatten")
        return draw.choice([most, most + 1, -rank - 1, INT64_MAX, INT64_MIN])
    return _list(draw, operator, name, rank, outputs) if kind == "INTS" else None


def _list(draw: random.Random, operator: str, name: str, rank: int, outputs: int) -> list[int] | None:
    if name == "axes":
        return draw.choice(new_axes(draw, rank) if operator == "Unsqueeze" else axes(draw, rank))
    if name == "perm" and rank:
        order = list(range(rank))
        twice = [*order[1:], order[-1] if rank > 1 else 1]
        return draw.choice([[*order, rank], order[1:], twice, [*order[1:], rank]])
    if name in WINDOWS:
        return draw.choice(entries(draw, rank - 2, [0, -1, INT64_MAX]))
    if name == "pads":
        length = 2 * rank if operator == "Pad" else 2 * rank - 4
        return draw.choice(entries(draw, length, [INT64_MAX, INT64_MIN] if operator == "Pad" else [-1, INT64_MAX]))
    return draw.choice(entries(draw, outputs, [-1, INT64_MIN])) if name == "split" else None


def axes(draw: random.Random, rank: int) -> list[list[int]]:
    """Out of range on either side, one twice (also by its negative number), or none at all. Of one axis each."""
    found: list[list[int]] = [[], [rank], [-rank - 1], [INT64_MAX]]
    if rank:
        one = draw.randrange(rank)
        found += [[one, one], [one, one - rank]]
    return found


def new_axes(draw: random.Random, rank: int) -> list[list[int]]:
    """The same of axes that are put to others."""
    one = draw.randrange(rank + 1)
    return [[], [rank + 1], [-rank - 2], [INT64_MAX], [one, one], [one, one - rank - 2]]


def entries(draw: random.Random, length: int, bad: Sequence[int]) -> list[list[int]]:
    """Lists with an entry too many or too few, or with one that may not be."""
    ones = [1] * max(length, 0)
    found = [[*ones, 1], ones[1:]] if ones else [[1]]
    return found + ([[draw.choice(list(bad)), *ones[1:]]] * 2 if ones else [])


# Lists among the operands: by operator, which operand becomes which other list. -----------------------------------

Lists = list[tuple[int, list[int]]]


def operand(
    draw: random.Random, operator: str, there: Callable[[int], list[int] | None], rank: int
) -> tuple[int, list[int]] | None:
    """Another list for one of the operands; `there` tells the entries of a list that is there."""
    way = OPERANDS.get(operator) or (_reduced if operator.startswith("Reduce") else None)
    found = way(draw, there, rank) if way else []
    return draw.choice(found) if found else None


def _reduced(draw: random.Random, there: Callable[[int], list[int] | None], rank: int) -> Lists:
    return [(1, one) for one in axes(draw, rank)] if there(1) is not None else []


def _unsqueezed(draw: random.Random, there: Callable[[int], list[int] | None], rank: int) -> Lists:
    return [(1, one) for one in new_axes(draw, rank)] if there(1) is not None else []


def _repeated(draw: random.Random, there: Callable[[int], list[int] | None], rank: int) -> Lists:
    old = there(1)
    return [(1, [*old, 1]), (1, old[:-1])] if old else []


def _padded(draw: random.Random, there: Callable[[int], list[int] | None], rank: int) -> Lists:
    pads, named = there(1), there(3)
    found: Lists = [] if pads is None else [(1, [*pads, 0]), (1, [*pads, 0, 0]), (1, pads[1:])]
    return found + [(3, one) for one in _like(draw, named, rank)]


def _sliced(draw: random.Random, there: Callable[[int], list[int] | None], rank: int) -> Lists:
    found: Lists = []
    for place in (1, 2, 4):
        old = there(place)
        found += [] if old is None else [(place, [*old, 1])]
    return found + [(3, one) for one in _like(draw, there(3), rank)]


def _like(draw: random.Random, named: list[int] | None, rank: int) -> list[list[int]]:
    """Axes as many as before, one of which is out of range or there twice."""
    if not named:
        return []
    found = [[draw.choice([rank, -rank - 1, INT64_MAX]), *named[1:]]]
    return [*found, [*named[:-1], named[0] % rank]] if len(named) > 1 else [*found, [*named, named[0]]]


OPERANDS: dict[str, Callable[[random.Random, Callable[[int], list[int] | None], int], Lists]] = {
    "CumSum": _reduced,
    "Squeeze": _reduced,
    "Unsqueeze": _unsqueezed,
    "Tile": _repeated,
    "Pad": _padded,
    "Slice": _sliced,
}

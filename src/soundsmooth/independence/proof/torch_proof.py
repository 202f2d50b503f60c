"""From a torch module's graph to a report: the argument at the promised batch size, then the witness."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.errors import first_line
from .report import ProofReport, not_proved, proved
from .torch_export import Exported
from .torch_graph import Walk, constants, output
from .torch_seen import Array, as_array, named, watch, watched
from .values import Contradiction, Unproved, Value
from .witness import Part, Subject, disagreement

if TYPE_CHECKING:
    import torch
    from torch import fx


def prove_torch(made: Exported, example: "torch.Tensor", witness: bool = True) -> ProofReport:
    """Whether every output row of the graph is the same function of its own input row, in batches like the example.

    Guarantee: see `ProofReport`.
    """
    batch = len(example)
    try:
        if made.graph is None:
            raise Unproved(made.why_not)
        if made.batch not in (None, batch):
            raise Unproved(f"the graph is fixed to a batch of {made.batch}")
        walk = _argue(made.graph, example)
        if witness:
            disagreement(_subject(made.graph, example, walk), tuple(example.shape[1:]), batch, made.batch is not None)
    except Unproved as reason:
        return not_proved(str(reason), batch, made.operators, isinstance(reason, Contradiction))
    except (IndexError, RuntimeError) as error:  # of torch, on a batch that the graph does not take
        return not_proved(f"the graph could not be watched: {first_line(error)}", batch, made.operators)
    return proved(batch, made.operators)


def _argue(graph: "fx.GraphModule", example: "torch.Tensor") -> Walk:
    """The argument for batches like the example; Unproved if there is a gap in it."""
    walk = Walk(graph.graph, watched(graph, example, constants(graph.graph)), len(example))
    walk.check_output(output(graph.graph))
    return walk


def _subject(graph: "fx.GraphModule", example: "torch.Tensor", walk: Walk) -> Subject:
    """The graph with every value in sight; the argument is made anew at each other batch size."""
    import torch

    def grey(batch: int) -> "torch.Tensor":
        return _like(np.full((batch, *example.shape[1:]), 0.5, np.float32), example)

    def claims(batch: int) -> Mapping[str, Value]:
        argued = walk if batch == len(example) else _argue(graph, grey(batch))
        known = [(node.name, value) for node, value in argued.found.items() if node.op != "get_attr"]
        every = {name: one for whole, value in known for name, one in named(whole, value)}
        return {name: one for name, one in every.items() if isinstance(one, Value)}

    def values(batch: Array, parts: Mapping[str, Part]) -> Mapping[str, Array]:
        seen: dict[str, Array] = {}

        def note(node: "fx.Node", result: Any) -> None:
            several = tuple(result) if isinstance(result, list) else result
            seen.update({name: as_array(parts[name](one)) for name, one in named(node.name, several) if name in parts})

        with torch.inference_mode():
            watch(graph, _like(batch, example), note)
        return seen

    def votes(batch: Array) -> Array:
        with torch.inference_mode():
            return as_array(graph(_like(batch, example)))

    return Subject(claims, values, votes, str(output(graph.graph)), _epsilon(example))


def _epsilon(example: "torch.Tensor") -> float:
    """The unit of rounding of products; on a GPU torch may compute those of float32 with ten bits."""
    import torch

    own = float(torch.finfo(example.dtype).eps)
    return max(own, 2.0**-10) if example.is_cuda else own


def _like(batch: Array, example: "torch.Tensor") -> "torch.Tensor":
    """A batch where the example lies, in its type and layout."""
    import torch

    made = torch.from_numpy(batch).to(example.device, example.dtype)
    channels_last = example.dim() == 4 and example.is_contiguous(memory_format=torch.channels_last)
    return made.contiguous(memory_format=torch.channels_last) if channels_last else made

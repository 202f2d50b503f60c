"""From a torch module's graph to a report: the argument at the promised batch size, then the witness."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ...core.errors import first_line
from .report import ProofReport, not_proved, proved
from .torch_export import Exported
from .torch_graph import Walk, constants, output
from .torch_seen import Array, Seen, Sight, as_array, named, watched
from .values import Contradiction, Unproved, Value
from .witness import Subject, disagreement

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
        _argue(made.graph, example)
        if witness:
            disagreement(_subject(made.graph, example), tuple(example.shape[1:]), batch, made.batch is not None)
    except Unproved as reason:
        return not_proved(str(reason), batch, made.operators, isinstance(reason, Contradiction))
    except (IndexError, RuntimeError) as error:  # of torch, on a batch that the graph does not take
        return not_proved(f"the graph could not be watched: {first_line(error)}", batch, made.operators)
    return proved(batch, made.operators)


def _argue(graph: "fx.GraphModule", example: "torch.Tensor") -> None:
    """The argument for batches like the example; Unproved if there is a gap in it."""
    seen = watched(graph, example, constants(graph.graph))
    Walk(graph.graph, seen, len(example)).check_output(output(graph.graph))


def _subject(graph: "fx.GraphModule", example: "torch.Tensor") -> Subject:
    """The graph with every value in sight; the argument is made anew at each batch size."""
    import torch

    last: list[Seen] = []

    def values(batch: Array) -> Mapping[str, Array]:
        last[:] = [watched(graph, _like(batch, example))]
        seen = {name: one for whole, value in last[0].items() for name, one in named(whole, value)}
        return {name: one.entries for name, one in seen.items() if isinstance(one, Sight) and one.entries is not None}

    def votes(batch: Array) -> Array:
        with torch.inference_mode():
            return as_array(graph(_like(batch, example)))

    def claims(batch: int, found: Mapping[str, Array]) -> Mapping[str, Value]:
        walk = Walk(graph.graph, last.pop(), batch)
        walk.check_output(output(graph.graph))
        known = {name: one for node, value in walk.found.items() for name, one in named(node.name, value)}
        return {name: value for name, value in known.items() if name in found and isinstance(value, Value)}

    return Subject(values, votes, claims, str(output(graph.graph)), _epsilon(example))


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

"""From what a torch module returns to scores, and from scores to votes. It imports torch: import it only for torch."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import torch

from .outputs import Output, choose_output
from .protocol import NOBODY, check_scores, is_one_logit


class Scoring(torch.nn.Module):
    """A module that returns one output of another: the scores."""

    def __init__(self, module: torch.nn.Module, output: Output) -> None:
        super().__init__()
        self.module, self.output = module, output

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return chosen_scores(self.module(batch), self.output)


def chosen_scores(result: Any, output: Output) -> torch.Tensor:
    """The scores among what a module returns: a tensor, or a tuple, dictionary or record of them."""
    if isinstance(result, torch.Tensor):
        if output is not None:
            raise ValueError("the model returns one tensor, which votes: leave output out")
        return result
    entries = _named(result)
    tensors = [name for name, each in entries.items() if isinstance(each, torch.Tensor)]
    if not tensors:
        raise ValueError(f"the model's output must be scores, [batch, classes], not {type(result).__name__}")
    scores = entries[choose_output(tensors if output is None else list(entries), output)]
    if not isinstance(scores, torch.Tensor):
        raise ValueError(f"the model's output {output!r} is no tensor of scores, but {type(scores).__name__}")
    return scores


def _named(result: Any) -> dict[str, Any]:
    """What a module returns, by name; entries of lists and tuples by their number."""
    if isinstance(result, Mapping):
        return {str(name): each for name, each in result.items()}
    if hasattr(result, "_fields"):
        return dict(zip(result._fields, result, strict=True))
    if is_dataclass(result):
        return {field.name: getattr(result, field.name) for field in fields(result)}
    return {str(number): each for number, each in enumerate(result)} if isinstance(result, tuple | list) else {}


def count_classes(scores: torch.Tensor, rows: int) -> int:
    """How many classes there are; a ValueError for what is no scores."""
    return check_scores(tuple(scores.shape), _kind(scores), rows)


def inferred_classes(scores: torch.Tensor | None, rows: int) -> int | None:
    """How many classes scores of an exported graph have, by their shape; None if the export left that open."""
    if scores is None or not all(isinstance(size, int) for size in scores.shape[1:]):
        return None
    return check_scores((rows, *scores.shape[1:]), _kind(scores), rows)


def _kind(scores: torch.Tensor) -> str:
    return "c" if scores.is_complex() or scores.dtype == torch.bool else "f" if scores.is_floating_point() else "i"


def first_maximum(scores: torch.Tensor) -> torch.Tensor:
    """The rule of `protocol.votes`: of several maxima the first (as torch promises for `max`), NOBODY for a NaN."""
    if is_one_logit(tuple(scores.shape)):
        logits = scores.reshape(-1)
        return torch.where(logits.isnan(), NOBODY, (logits > 0).long())
    best, labels = scores.max(dim=1)
    return torch.where(best.isnan(), NOBODY, labels)

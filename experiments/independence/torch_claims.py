"""torch as the judge of everything that is claimed of a graph's values, and not of its output alone.

Other rows are replaced, and the entries of the rows that stay must stay, in every value that is claimed to be made of
rows. Constants must not change at all. What is read must be what was computed, and what is written in place must be
what a call on copies would have computed.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch_subject as subject
from torch import Tensor, fx
from torch_cuts import above
from torch_oracle import EXACT, STRANGE, WITHOUT_ROUNDING, Finding, _name, close, same

#: Beside it no other number is compared; what is larger may have lost its last digits.
LARGEST = 1e12


def false_claim(graph: fx.GraphModule, shape: tuple[int, ...], batch: int, seed: int) -> tuple[Finding, fx.Node] | None:
    """A claim that does not hold, and the value that it is about."""
    with torch.no_grad():
        return next(_findings(graph, shape, batch, seed), None)


def _findings(
    graph: fx.GraphModule, shape: tuple[int, ...], batch: int, seed: int
) -> Iterator[tuple[Finding, fx.Node]]:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(-3, 4, (2, batch, *shape), generator=generator).float()
    claimed = subject.claims(graph, rows[0])
    base = Recording(graph, claimed)
    base.play(rows[0])
    yield from base.findings
    yield from _shapes(base)
    for number, kept in enumerate(_halves(batch)):
        other = rows[0].clone()
        other[~kept] = rows[1][~kept] if number < 2 else STRANGE[(number + seed) % len(STRANGE)]
        yield from _compared(base, base.again(other), kept.nonzero().ravel(), kept.nonzero().ravel(), exact=True)
    turned = torch.arange(batch).roll(1)
    yield from _compared(base, base.again(rows[0][turned]), turned, torch.arange(batch), exact=False)


def _halves(batch: int) -> Iterator[Tensor]:
    """Which rows stay: of any two, each stays once while the other goes."""
    for bit in range((batch - 1).bit_length()):
        chosen = (torch.arange(batch) >> bit & 1).bool()
        yield from (chosen, ~chosen)


class Recording(fx.Interpreter):
    """A run of a graph in which every value is kept as it was when it was computed."""

    def __init__(self, graph: fx.GraphModule, claimed: "subject.Claims") -> None:
        super().__init__(graph, garbage_collect_values=False)
        self.claimed = claimed
        self.kept: dict[fx.Node, Any] = {}
        self.findings: list[tuple[Finding, fx.Node]] = []

    def again(self, x: Tensor) -> "Recording":
        other = Recording(self.module, self.claimed)  # type: ignore[arg-type]
        other.play(x)
        return other

    def play(self, x: Tensor) -> None:
        self.run(x.clone())

    def run_node(self, n: fx.Node) -> Any:
        claimed = n in self.claimed.values
        if claimed:
            self._read(n)
        rows = claimed and n not in self.claimed.constants  # of constants nothing is claimed but what was seen
        expected = self._on_copies(n) if rows and _writes(n) else None
        result = super().run_node(n)
        self.kept[n] = _copied(result)
        if isinstance(expected, Tensor) and not _alike(result, expected):
            self._note(n, "what it writes is not what a call on copies computes")
        return result

    def _read(self, node: fx.Node) -> None:
        for each in node.all_input_nodes:
            value, before = self.env[each], self.kept[each]
            if each in self.claimed.values and each not in self.claimed.constants and not same(value, before):
                self._note(node, f"it reads {each.name}, which was overwritten")
            entries = self.claimed.values[each].entries if each in self.claimed.values else None
            if entries is not None and not same(value.to(torch.from_numpy(entries).dtype), torch.from_numpy(entries)):
                self._note(node, f"the entries of {each.name} are claimed, and not these")

    def _on_copies(self, node: fx.Node) -> Any:
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        copies = {id(self.env[each]): _copied(self.env[each]) for each in node.all_input_nodes}
        args, kwargs = fx.node.map_aggregate((args, kwargs), lambda one: copies.get(id(one), one))
        try:
            return node.target(*args, **kwargs)  # type: ignore[operator]
        except RuntimeError:
            return None

    def _note(self, node: fx.Node, text: str) -> None:
        self.findings.append((Finding(f"{node.name} ({node.target}): {text}", True), node))


def _alike(one: Tensor, other: Tensor) -> bool:
    """Close, where both are finite: kernels for other strides treat infinities in other ways."""
    fine = one.isfinite() & other.isfinite()
    return close(one[fine], other[fine])


def _writes(node: fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.is_mutable


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return torch.empty(value.shape, dtype=value.dtype).copy_(value)
    return value


def _shapes(run: Recording) -> Iterator[tuple[Finding, fx.Node]]:
    for node, value in run.claimed.values.items():
        real = tuple(run.kept[node].shape) if isinstance(run.kept[node], Tensor) else None
        if real != value.shape:
            yield Finding(f"{node.name} ({node.target}) has the shape {real}, claimed is {value.shape}", True), node
        elif value.axis is not None and _by_row(run.kept[node], value, len(_image(run))) is None:
            yield Finding(f"{node.name} ({node.target}): rows cannot lie on axis {value.axis} of {real}", True), node


def _image(run: Recording) -> Tensor:
    return next(value for node, value in run.kept.items() if node.op == "placeholder")


def _compared(
    base: Recording, other: Recording, here: Tensor, there: Tensor, exact: bool
) -> Iterator[tuple[Finding, fx.Node]]:
    """The rows `here` of one run are the rows `there` of the other."""
    yield from other.findings
    for node, number in base.claimed.numbers.items():
        if base.kept[node] != number or other.kept[node] != number:
            yield Finding(f"{node.name} ({node.target}) is {other.kept[node]}, claimed is {number}", True), node
    for node, value in base.claimed.values.items():
        one, two = base.kept[node], other.kept[node]
        if node.op == "placeholder":
            continue
        if value.axis is None:
            if not same(one, two):
                yield Finding(f"{node.name} ({node.target}) is claimed to be a constant and changed", True), node
            continue
        mine, theirs = (_by_row(each, value, len(_image(base))) for each in (one, two))
        if mine is None or theirs is None:
            continue
        mine, theirs = mine[here], theirs[there]
        if exact and not same(mine, theirs):
            yield Finding(f"{node.name} ({node.target}): rows {here.tolist()} changed with others", True), node
        elif not exact and not _close(mine, theirs):
            yield Finding(f"{node.name} ({node.target}): rows depend on their position", _certain(base, node)), node


def _by_row(value: Tensor, claim: Any, rows: int) -> Tensor | None:
    """The entries of each row; None if the shape has no room for rows."""
    if claim.axis >= value.dim() or value.shape[claim.axis] % (claim.outer * rows):
        return None
    inner = value.shape[claim.axis] // (claim.outer * rows)
    shape = [*value.shape[: claim.axis], claim.outer, rows, inner, *value.shape[claim.axis + 1 :]]
    return value.reshape(shape).movedim(claim.axis + 1, 0).reshape(rows, -1)


def _close(one: Tensor, other: Tensor) -> bool:
    """Equal up to rounding, relative to the largest number."""
    if not one.is_floating_point():
        return torch.equal(one, other)
    one, other = one.double(), other.double()
    if not torch.equal(one.isfinite(), other.isfinite()):
        return False
    fine = one.isfinite()
    scale = float(one[fine].abs().max()) if bool(fine.any()) else 0.0
    return scale > LARGEST or bool(((one - other)[fine].abs() <= 1e-3 * scale).all())


def _certain(run: Recording, node: fx.Node) -> bool:
    """Rounding cannot be the cause: all was computed in integers that floats hold."""
    needed: Sequence[fx.Node] = [each for each in above(node) if each.op == "call_function"]
    values = [run.kept[each] for each in needed if isinstance(run.kept[each], Tensor) and run.kept[each].numel()]
    small = all(float(value.double().abs().max().nan_to_num(float("inf"))) < EXACT for value in values)
    return small and {_name(each) for each in needed} <= WITHOUT_ROUNDING

"""The state of a random program while it grows: which values there are, and chances to take from them.

Every step is tried out at two batch sizes as it is drawn; the axis on which the two results differ is where the rows
lie. Most choices spare that axis, for a program that mixes rows at once is never proved and tests nothing; some do not.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_program import SIZES, Const, Program, Ref, Step, Sym, Weight, performed

#: The second batch size equals no other extent.
OTHER = 7
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
LARGEST, DEEPEST, HIGHEST = 1024, 6, 1e6
#: How often a choice does not care for the rows, in programs of three kinds.
ODD = (0.02, 0.15, 0.5)


class NoChoice(Exception):  # noqa: N818
    """Nothing fits; something else is drawn."""


class Draw:
    def __init__(self, seed: str, shape: tuple[int, ...], batch: int, outside: dict[str, Callable[..., Any]]) -> None:
        self.rng, self.outside = random.Random(seed), outside
        self.shape, self.batch = shape, batch
        self.program = Program()
        self.oddness = self.one(*ODD)
        self.fixed = self.chance(0.4)
        """The program need only run at one batch size."""
        self.risky = self.chance(0.3)
        """It may write where others read."""
        self.runs: list[list[Any]] = [[numbers((size, *shape), self.rng)] for size in self._batches()]
        self.scratch: list[Tensor] = []
        self.constants: set[int] = set()
        """The values that are computed from weights and sizes alone."""

    def _batches(self) -> list[int]:
        return [self.batch] if self.fixed else [self.batch, OTHER]

    # Chances.

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def odd(self, share: float | None = None) -> bool:
        return self.chance(self.oddness if share is None else share)

    def one(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def integer(self, low: int = -2, high: int = 3) -> int:
        return self.rng.randint(low, high)

    def number(self) -> Any:
        """A scalar, of either type."""
        return self.one(-2, -1, 0, 1, 2, 3, -1.0, 0.5, 2.0)

    # Values.

    def now(self, ref: Ref | Const) -> Tensor:
        return self.scratch[ref.number] if isinstance(ref, Const) else self.runs[0][ref.number]

    def rows(self, ref: Ref | Const) -> int | None:
        """The axis of the rows, as far as can be seen."""
        if isinstance(ref, Const):
            return None
        if self.fixed:
            shape = self.now(ref).shape
            return next((axis for axis, size in enumerate(shape) if size == self.batch), None)
        one, other = (run[ref.number].shape for run in self.runs)
        differ = [axis for axis, (a, b) in enumerate(zip(one, other, strict=False)) if a != b]  # squeeze_ may part them
        return differ[0] if differ else None

    def value(self, fits: Callable[[Tensor], bool] = lambda value: True, rows: bool = True) -> Ref:
        """A value that fits, rather a late one, and rather one with rows."""
        found = [Ref(n) for n, value in enumerate(self.runs[0]) if isinstance(value, Tensor) and fits(value)]
        if rows and not self.odd(0.1):
            found = [ref for ref in found if self.rows(ref) is not None] or found
        if not found:
            raise NoChoice
        return found[-1] if self.chance(0.4) else self.rng.choice(found[-8:] if self.chance(0.7) else found)

    def floats(self, least: int = 0, most: int = DEEPEST) -> Ref:
        types = (torch.float32,) if self.chance(0.8) else FLOATS
        return self.value(lambda value: value.dtype in types and least <= value.dim() <= most)

    def of_rank(self, rank: int) -> Ref:
        """Floats of so many axes; made by reshaping, if there are none or by chance."""
        if self.chance(0.5):
            try:
                return self.floats(rank, rank)
            except NoChoice:
                pass
        ref = self.value(lambda value: value.is_floating_point() and value.dim() > 0)
        if self.rows(ref) != 0 or self.now(ref).shape[0] != self.batch:
            ref = Ref(0)
        each = self.now(ref)[0].numel()
        return self.emit("aten.reshape.default", ref, [Sym("B"), *self.factors(each, rank - 1)])

    def factors(self, count: int, parts: int) -> list[int]:
        """So many numbers whose product is `count`."""
        found = [1] * parts
        if not parts:
            if count != 1:
                raise NoChoice
            return found
        for prime in (2, 2, 2, 2, 2, 2, 3, 3, 5, 7):
            if count % prime == 0:
                found[self.rng.randrange(parts)] *= prime
                count //= prime
        found[-1] *= count
        return found

    def mask(self, like: Ref | None = None) -> Ref:
        """Truth values."""
        ref = like or self.floats()
        if self.chance(0.3):
            try:
                return self.value(lambda value: value.dtype == torch.bool and fits_into(value, self.now(ref)))
            except NoChoice:
                pass
        return self.emit(f"aten.{self.one('gt', 'lt', 'eq', 'ge', 'ne')}.Scalar", ref, self.integer(-1, 1))

    def index(self) -> Ref:
        """Integers that belong to rows."""
        if self.chance(0.3):
            try:
                return self.value(lambda value: value.dtype == torch.int64)
            except NoChoice:
                pass
        ref = self.floats(1)
        return self.emit(f"aten.{self.one('argmax', 'argmin')}.default", ref, self.axis(ref), self.chance(0.5))

    def sharers(self, ref: Ref) -> list[Ref]:
        """Other values that lie in the same memory."""
        values, here = self.runs[0], place(self.now(ref))
        return [Ref(n) for n, value in enumerate(values) if n != ref.number and place(value) == here]

    def lying(self, ref: Ref, axis: int) -> Ref:
        """The value with its rows on another axis."""
        rank, row = self.now(ref).dim(), self.rows(ref)
        if row is None or not -rank <= axis < rank or axis % rank == row:
            return ref
        return self.emit("aten.transpose.int", ref, row, axis)

    def target(self, fits: Callable[[Tensor], bool] = lambda value: True) -> Ref:
        """A value to write into: rather not the input, a weight, or anything that is seen under another name."""
        if self.risky and self.odd(0.3):
            return self.value(fits)
        kept = {place(one) for one in [self.runs[0][0], *self.scratch]}
        try:
            if self.chance(0.5):
                raise NoChoice
            return self.value(lambda value: fits(value) and place(value) not in kept)
        except NoChoice:
            ref = self.value(fits)
            return self.emit("aten.clone.default", ref) if self.chance(0.5) else self.emit("aten.mul.Scalar", ref, 1)

    # Parts of calls.

    def axis(self, ref: Ref, share: float | None = None) -> int:
        """An axis, rather not that of the rows, counted from either end."""
        rank, row = self.now(ref).dim(), self.rows(ref)
        if rank == 0:
            raise NoChoice
        free = [axis for axis in range(rank) if axis != row]
        axis = self.rng.choice(free) if free and not self.odd(share) else row or 0
        return axis - rank if self.chance(0.4) else axis

    def axes(self, ref: Ref) -> list[int] | None:
        """One or more axes; sometimes none, or one of them twice."""
        if self.odd(0.3 * self.oddness):
            return self.one(None, [], [0, 0], [-1, -1])
        rank = self.now(ref).dim()
        found = {self.axis(ref) % rank for _ in range(self.one(1, 1, 2, 3))}
        return [axis - rank if self.chance(0.3) else axis for axis in found]

    def mate(self, ref: Ref, smaller: bool = False) -> Ref | Const:
        """Something that can be broadcast to a value (with `smaller` it makes the result no larger)."""
        if self.chance(0.15):
            return self.numbered(ref)
        if self.chance(0.5):
            return self.weight(self.beside(ref))
        shapes = [run[ref.number].shape for run in self.runs]

        def fits(value: Tensor) -> bool:
            return value.is_floating_point() and (fits_into if smaller else broadcasts)(value, torch.empty(shapes[0]))

        return self.value(fits, rows=self.chance(0.7))

    def numbered(self, ref: Ref, wide: bool = True) -> Ref:
        """A constant with an entry for each row of a value, along its rows: the same for all, or not."""
        row = self.rows(ref)
        if row is None:
            raise NoChoice
        rows = self.size(self.now(ref).shape[row], True)
        kind = self.one("aten.arange.default", "aten.zeros.default", "aten.ones.default")
        made = self.emit(kind, rows if "arange" in kind else [rows], dtype=torch.float32)
        after = self.now(ref).dim() - row - 1
        return self.emit("aten.reshape.default", made, [rows, *[1] * after]) if after and wide else made

    def beside(self, ref: Ref) -> list[int]:
        """The shape of a weight that meets a value: 1 along the rows, or no such axis."""
        row, shape = self.rows(ref), list(self.now(ref).shape)
        sizes = [1 if (axis == row and not self.odd()) or self.chance(0.3) else n for axis, n in enumerate(shape)]
        return sizes[self.rng.randrange(len(sizes) + 1) if row is None or self.odd() else row + self.one(0, 1) :]

    def weight(self, shape: Sequence[int], low: int = -2, high: int = 2, integers: bool = False) -> Const:
        """A constant of small integers; NoChoice if there are none between these."""
        if high < low:
            raise NoChoice
        tensor = numbers(shape, self.rng, low, high)
        return self.constant(tensor.long() if integers else tensor)

    def constant(self, tensor: Tensor) -> Const:
        self.program.weights.append(Weight(self.one("parameter", "buffer", "constant"), tensor))
        self.scratch.append(tensor.clone())
        return Const(len(self.scratch) - 1)

    def size(self, count: int, rows: bool) -> Any:
        """An extent as it is written: in terms of the batch size where the rows lie."""
        if not rows:
            return count
        texts = [text for text, make in SIZES.items() if make(self.batch) == count]
        if self.fixed or not texts or self.odd(0.02):
            return count
        return Sym(texts[0])

    def sizes(self, ref: Ref) -> list[Any]:
        return [self.size(count, axis == self.rows(ref)) for axis, count in enumerate(self.now(ref).shape)]

    def shape_of_rows(self, least: int = 1) -> list[Any]:
        """A new shape, with the batch size in it: rather first."""
        shape: list[Any] = [self.one(1, 2, 3, 4) for _ in range(self.one(1, 2, 3))]
        place = 0 if not self.odd() else self.rng.randrange(len(shape))
        if not self.odd(0.2):
            shape.insert(place, Sym("B") if not self.odd() else Sym(self.one("2*B", "B+1", "B-1", "B//2")))
        return shape

    # Steps.

    def emit(self, target: str, *args: Any, pick: int | None = None, **kwargs: Any) -> Ref:
        """A step more; NoChoice if it does not run, or runs away."""
        step = Step(target, args, kwargs, pick)
        results = []
        for run in self.runs:
            try:
                results.append(performed(step, self._filler(run), self.outside))
            except Exception:
                raise NoChoice from None
            self._sane(results[-1])
        if len({result.dim() for result in results}) > 1:
            raise NoChoice
        for run, result in zip(self.runs, results, strict=True):
            run.append(result)
        self.program.steps.append(step)
        number = len(self.program.steps)
        if all(one in self.constants for one in _entries(step)):
            self.constants.add(number)
        return Ref(number)

    def _filler(self, run: list[Any]) -> Callable[[Any], Any]:
        def fill(one: Any) -> Any:
            if isinstance(one, Ref):
                return run[one.number]
            return SIZES[one.text](len(run[0])) if isinstance(one, Sym) else self.scratch[one.number]

        return fill

    def _sane(self, result: Any) -> None:
        """Small, and of numbers that floats hold exactly, so that comparisons can be exact."""
        if not isinstance(result, Tensor) or result.dim() > DEEPEST or result.numel() > LARGEST:
            raise NoChoice
        if result.numel() == 0 and self.chance(0.3):
            raise NoChoice
        if result.is_floating_point() and result.numel() and not self.odd(0.2):
            exact = result.detach().double()
            if float(exact.nan_to_num(0, 0, 0).abs().max()) > HIGHEST or not bool(exact.isfinite().any()):
                raise NoChoice


def _entries(step: Step) -> list[int]:
    """The values whose entries a step reads."""
    args = [*step.args, *step.kwargs.values()]
    if ".new_" in step.target:
        args = args[1:]
    if step.target.endswith("_as.default"):
        args = args[:1]
    flat = [each for one in args for each in (one if isinstance(one, list | tuple) else [one])]
    return [one.number for one in flat if isinstance(one, Ref)]


def numbers(shape: Sequence[int], rng: random.Random, low: int = -3, high: int = 3) -> Tensor:
    """Small integers as floats."""
    generator = torch.Generator().manual_seed(rng.getrandbits(32))
    return torch.randint(low, high + 1, tuple(shape), generator=generator).float()


def place(value: Any) -> int:
    """Where a tensor's memory begins."""
    return value.untyped_storage().data_ptr() if isinstance(value, Tensor) else 0


def broadcasts(value: Tensor, other: Tensor) -> bool:
    try:
        torch.broadcast_shapes(value.shape, other.shape)
    except RuntimeError:
        return False
    return True


def fits_into(value: Tensor, other: Tensor) -> bool:
    return broadcasts(value, other) and torch.broadcast_shapes(value.shape, other.shape) == other.shape

"""Random programs, each determined by a seed and a number."""

import torch_outside
import torch_table
from torch_draw import Draw, NoChoice
from torch_outside import FUNCTIONS
from torch_program import Program

#: Shapes of rows: powers of two can be reshaped in many ways; extents that equal the batch size are traps.
SHAPES = ((8,), (2, 4), (4, 4), (4, 2, 2), (2, 2, 3), (1, 4, 4), (3, 4), (4, 1, 3), (2, 2, 2, 2))
BATCHES = (2, 3, 4, 5, 6, 8)
#: How often a step is something without a rule, and how long programs are.
OUTSIDE, STEPS = 0.06, 10


def generated(seed: int, number: int) -> tuple[Program, tuple[int, ...], int]:
    """A program, the shape of its rows, and the batch size that it is made for."""
    first = Draw(f"torch {seed} {number}", (), 1, {})
    draw = Draw(f"program {seed} {number}", first.one(*SHAPES), first.one(*BATCHES), FUNCTIONS)
    names = list(torch_table.TABLE)
    for _ in range(5 * STEPS):
        if len(draw.program.steps) >= STEPS:
            break
        try:
            if draw.chance(OUTSIDE):
                torch_outside.drawn(draw)
            else:
                torch_table.drawn(draw, draw.rng.choice(names))
        except NoChoice:
            pass
    draw.program.output = output(draw)
    return draw.program, draw.shape, draw.batch


def output(draw: Draw) -> int:
    """The last value with a row for each row of the input; else the last one."""
    values = draw.runs[0]
    last = [n for n, value in enumerate(values) if n and value.dim() and value.shape[0] == draw.batch]
    return (last or [len(values) - 1])[-1]

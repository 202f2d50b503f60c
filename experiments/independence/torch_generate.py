"""Random programs, each determined by a seed and a number."""

from contextlib import suppress

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
#: How often there is a tensor without entries.
EMPTY = 0.02
#: The goal comes before so many steps are made, if it can be drawn in so many tries.
BEFORE, TRIES = 4, 10
#: What a draw raises if nothing fits: of an empty tensor there is nothing to choose from.
MISFITS = (NoChoice, ValueError, IndexError, ZeroDivisionError)
#: How often it is drawn with care.
TAME = 0.7
#: How often an operator of the focus is drawn, and how often a new value is written to.
FOCUSED, WRITTEN = 0.6, 0.2


def generated(seed: int, number: int, focus: tuple[str, ...] = ()) -> tuple[Program, tuple[int, ...], int]:
    """A program, the shape of its rows, and the batch size that it is made for.

    It is drawn around one operator: of `focus`, or of the whole table, by the number in turn.
    """
    title = f"{seed} {number} {' '.join(focus)}".strip()
    first = Draw(f"torch {title}", (), 1, {})
    draw = Draw(f"program {title}", first.one(*SHAPES), first.one(*BATCHES), FUNCTIONS)
    goals = focus or tuple(torch_table.TABLE)
    draw.program.goal = goals[number % len(goals)]
    before = draw.rng.randrange(BEFORE)
    for _ in range(5 * STEPS):
        if len(draw.program.steps) >= STEPS:
            break
        if len(draw.program.steps) >= before:
            before = STEPS
            reach(draw)
        with suppress(*MISFITS):
            step(draw, focus)
    draw.program.output = output(draw)
    return draw.program, draw.shape, draw.batch


def reach(draw: Draw) -> None:
    """The goal is drawn: rather as it is proved, and so that its rows come first."""
    oddness = draw.oddness
    draw.oddness = 0.0 if draw.chance(TAME) else oddness
    for _ in range(TRIES):
        with suppress(*MISFITS):
            torch_table.home(draw, torch_table.drawn(draw, draw.program.goal))
            break
    draw.oddness = oddness


def step(draw: Draw, focus: tuple[str, ...]) -> None:
    """A call more, or something without a rule; sometimes what it gave is written to, and read under another name."""
    if draw.chance(OUTSIDE):
        torch_outside.drawn(draw)
        return
    if draw.chance(EMPTY):
        torch_table.nothing(draw)
    chosen = focus if focus and draw.chance(FOCUSED) else tuple(torch_table.TABLE)
    ref = torch_table.drawn(draw, draw.rng.choice(chosen))
    if draw.chance(WRITTEN):
        torch_table.entangled(draw, ref)


def output(draw: Draw) -> int:
    """The last value with a row for each row of the input; else the last one."""
    values = draw.runs[0]
    last = [n for n, value in enumerate(values) if n and value.dim() and value.shape[0] == draw.batch]
    return (last or [len(values) - 1])[-1]

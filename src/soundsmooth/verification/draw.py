"""Which blocks are voted again: how many is fixed first, which ones is drawn by the operating system."""

import secrets
from collections.abc import Callable, Sequence
from fractions import Fraction

#: s of B numbers, in order, uniform among all such sets. Tests may give another one.
Draw = Callable[[int, int], Sequence[int]]


def number_to_draw(asked: str, blocks: int) -> int:
    """s from what the auditor asked for: "5%" (rounded up), "all", or a number of blocks."""
    try:
        if asked == "all":
            return blocks
        if asked.endswith("%"):
            share = Fraction(asked[:-1]) / 100
            if not 0 < share <= 1:
                raise ValueError
            return -(-share * blocks // 1)
        if int(asked) < 1:
            raise ValueError
        return min(int(asked), blocks)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f'replay must be a share such as 5%, "all", or a number of blocks, not {asked!r}') from None


def share_that_confirms(spare: int, beta: Fraction) -> int | None:
    """So many percent of the blocks, drawn without a finding, leave at most `spare` bad ones; None if only all do.

    More than that many bad blocks escape a draw of s among B with probability C(B − spare − 1, s)/C(B, s), which is at
    most (1 − s/B)^(spare + 1).

    Guarantee: with that share `audit.escaping` is at most `spare`, whatever the number of blocks.
    """
    shares = (percent for percent in range(1, 100) if Fraction(100 - percent, 100) ** (spare + 1) < beta)
    return next(shares, None)


def fresh_draw(blocks: int, drawn: int) -> list[int]:
    """Guarantee: uniform among all sets of `drawn` of the blocks, from the operating system's randomness."""
    return sorted(secrets.SystemRandom().sample(range(blocks), drawn))

"""The breakpoints of the discretized normal distribution, as exact integers.

For noise with standard deviation σ on a grid of q levels per unit, B_j = Φ((j + ½) / (σ q)) is the
probability of a noise of at most j levels. A sampler compares uniform bits with the binary digits of B_j,
so what it needs is ⌊2^m · B_j⌋, exactly.
"""

from fractions import Fraction

from flint import arb, fmpz

from .balls import ball, refine


def breakpoint_floors(sigma: Fraction, q: int, reach: int, bits: int) -> list[int]:
    """⌊2^bits · B_j⌋ for j = −reach, …, reach − 1, in this order.

    Guarantee: every entry is proved. A ball that holds 2^bits · B_j and no integer has one floor; a ball
    that holds an integer is refined. The upper half mirrors the lower one, B_{−j−1} = 1 − B_j, and
    ⌊2^bits − y⌋ = 2^bits − 1 − ⌊y⌋ because y was proved to be no integer.
    """
    lower: list[int] = []  # j = −1, −2, …, −reach: each entry at most the one before
    for j in range(-1, -reach - 1, -1):
        lower.append(breakpoint_floor(sigma, q, j, bits))
        if lower[-1] == 0:  # 0 < B_i < B_j < 2^−bits for all i < j
            lower += [0] * (reach - len(lower))
            break
    upper = [(1 << bits) - 1 - entry for entry in lower]
    return lower[::-1] + upper


def breakpoint_floor(sigma: Fraction, q: int, j: int, bits: int) -> int:
    """⌊2^bits · Φ((j + ½) / (σ q))⌋ for one integer j.

    Guarantee: proved, by a ball around 2^bits · B_j that holds no integer.
    """
    if j >= 0:
        return (1 << bits) - 1 - breakpoint_floor(sigma, q, -j - 1, bits)
    distance = Fraction(-2 * j - 1, 2 * q) / sigma  # > 0: j + ½ is never 0

    def attempt() -> int | None:
        # erfc keeps its relative accuracy in the tail, where 1 + erf would lose everything.
        scaled = (ball(distance) / arb(2).sqrt()).erfc() * arb(fmpz(1) << (bits - 1))
        if scaled < 1:
            return 0  # B_j > 0, so the scaled value lies strictly between 0 and 1
        floor = None if scaled.contains_integer() else scaled.floor().unique_fmpz()
        return None if floor is None else int(floor)

    return refine(attempt, bits + 32)

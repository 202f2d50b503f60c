"""Binomial tails and confidence bounds, as proved numbers.

X is the number of hits among n independent votes, each a hit with probability p. All tails below are sums
of positive terms whose ratios fall, so a truncated sum in integers plus a geometric series encloses them.
"""

from fractions import Fraction

from flint import arb, ctx, fmpz

from .balls import ball, float_above, float_below, lower_end, precision, refine, upper_end
from .radius import quantile

MOST_VOTES = 10**9
BITS = 256  # lgamma(10⁹) needs 35 bits before the point; this leaves more than 200 behind it
ROOT_BITS = 120  # a root is enclosed to 2⁻¹²⁰, relative: far inside an ulp, also of 1 − root
LONGEST_STEP = 64  # downwards, in log p, on the way to a root
TAIL_BITS = 72  # fixed-point terms are summed until they fall below 2^TAIL_BITS units


def clopper_pearson_below(hits: int, n: int, alpha: Fraction) -> float:
    """The one-sided Clopper–Pearson lower bound: the p with P(X ≥ hits) = α, or 0 for no hits.

    Whatever the true p is, the bound exceeds it with probability at most α.

    Guarantee: at most the true bound, and for α ≤ 1 − 10⁻⁶ within 1 ulp of the largest double that is.
    """
    _check(hits, n, alpha)
    if hits == 0:
        return 0.0
    with precision(BITS):
        return max(0.0, float_below(lower_end(_lower_root(hits, n, alpha))))


def clopper_pearson_above(hits: int, n: int, alpha: Fraction) -> float:
    """The one-sided Clopper–Pearson upper bound: the p with P(X ≤ hits) = α, or 1 when all hit.

    Guarantee: at least the true bound, and for α ≤ 1 − 10⁻⁶ within 1 ulp of the smallest double that is.
    """
    _check(hits, n, alpha)
    if hits == n:
        return 1.0
    with precision(BITS):
        return min(1.0, float_above(upper_end(1 - _lower_root(n - hits, n, alpha))))


def randomized_below(hits: int, n: int, alpha: Fraction, coin: Fraction) -> float:
    """The randomized Clopper–Pearson lower bound: the p with P(X > hits) + u · P(X = hits) = α, or 0 for no hits.

    u is the coin, but at least 2α, and at most 1. So n hits of n say no more than p = (½)^(1/n), whatever the coin is.
    If the coin is at least a uniform number that is independent of the votes, the bound exceeds the true p with
    probability at most α, whatever p is (docs/noise.md, 3.15).

    Guarantee: at most the true bound, and for α ≤ 1 − 10⁻⁶ within 1 ulp of the largest double that is.
    """
    _check(hits, n, alpha)
    if not 0 < coin <= 1:
        raise ValueError(f"a coin must lie above 0 and be at most 1, not {coin}")
    if hits == 0:
        return 0.0
    with precision(BITS):
        return max(0.0, float_below(lower_end(_lower_root(hits, n, alpha, min(Fraction(1), max(coin, 2 * alpha))))))


def hoeffding_below(hits: int, n: int, alpha: Fraction) -> float:
    """The Hoeffding lower bound hits/n − √(ln(1/α) / 2n), or 0 if that is negative.

    Guarantee: at most the true value, and within 1 ulp of the largest double that is.
    """
    _check(hits, n, alpha)
    with precision(BITS):
        return max(0.0, float_below(lower_end(ball(Fraction(hits, n)) - _hoeffding_margin(n, alpha))))


def fair_coin_rejected(first: int, second: int, alpha: Fraction) -> bool:
    """Whether the two-sided exact binomial test rejects "both are equally likely" at level α.

    The P-value is 2 · P(Y ≥ max(first, second)) for Y ~ Bin(first + second, ½), at most 1.

    Guarantee: the answer is exact; a P-value equal to α rejects.
    """
    flips, top = first + second, max(first, second)
    _check(top, max(flips, 1), alpha)
    if first == second:
        return False  # the P-value is 1

    def attempt() -> bool | None:
        p_value = 2 * tail(top, flips, Fraction(1, 2))
        if p_value < ball(alpha):
            return True
        return False if p_value > ball(alpha) else None

    try:
        return refine(attempt, BITS, most=16 * BITS)
    except ArithmeticError:  # so near to α that it may be equal: count all outcomes
        return 2 * _subsets(flips, top) <= alpha * (1 << flips)


def _subsets(flips: int, top: int) -> int:
    """How many of the 2^flips outcomes have at least `top` heads."""
    term = total = 1  # C(flips, flips)
    for heads in range(flips - 1, top - 1, -1):
        term = term * (heads + 1) // (flips - heads)
        total += term
    return total


def tail(hits: int, n: int, p: Fraction) -> arb:
    """A ball around P(X ≥ hits) for X ~ Bin(n, p), 0 < p < 1, at the current precision.

    Guarantee: the ball holds the true tail. The side of the distribution that is summed is the one where
    each term is smaller than the one before, so nothing cancels.
    """
    if hits <= 0:
        return arb(1)
    if hits > n:
        return arb(0)
    if p * (n + 1) <= hits:
        return mass(hits, n, p) * _falling_sum(n - hits, hits + 1, p)
    return 1 - mass(hits - 1, n, p) * _falling_sum(hits - 1, n - hits + 2, 1 - p)


def mass(hits: int, n: int, p: Fraction) -> arb:
    """A ball around P(X = hits) for X ~ Bin(n, p), 0 < p < 1, at the current precision.

    Guarantee: the ball holds the true mass.
    """
    log_choose = arb(n + 1).lgamma() - arb(hits + 1).lgamma() - arb(n - hits + 1).lgamma()
    return (log_choose + hits * ball(p).log() + (n - hits) * ball(1 - p).log()).exp()


def _falling_sum(left: int, start: int, p: Fraction) -> arb:
    """A ball around t_0 + t_1 + … with t_0 = 1 and t_{i+1} = t_i · (left − i)/(start + i) · p/(1 − p).

    It is the tail from a point on, divided by the mass at that point. The caller sees to it that the first
    ratio is below 1; the ratios fall. In fixed point each product is rounded down by less than one unit, so
    t_i is too small by at most i units, and all that follows the last term is below a geometric series.
    """
    one = 1 << ctx.prec
    hit, miss = p.numerator, p.denominator - p.numerator
    top, bottom = left * hit, start * miss  # the next ratio is top / bottom
    term = total = one
    i = 0
    while top > 0 and term >> TAIL_BITS:
        term = term * top // bottom
        total += term
        i += 1
        top -= hit
        bottom += miss
    rounding = i * (i + 1) // 2
    rest = -(-(term + i) * top // (bottom - top)) if top > 0 else 0
    low, high = total, total + rounding + rest
    return arb(fmpz(low + high), fmpz(high - low)) / arb(fmpz(2 * one))


def shared_tail(hits: int, n: int, p: Fraction, share: Fraction) -> arb:
    """A ball around P(X > hits) + share · P(X = hits), at the current precision; for a share of 1 this is `tail`.

    Guarantee: the ball holds the true value.
    """
    return tail(hits, n, p) if share == 1 else tail(hits + 1, n, p) + ball(share) * mass(hits, n, p)


def _lower_root(hits: int, n: int, alpha: Fraction, share: Fraction = Fraction(1)) -> arb:
    """A ball around the p with P(X > hits) + share · P(X = hits) = α, for 1 ≤ hits ≤ n and α < share ≤ 1, or share = 1.

    Guarantee: the tail is proved below α at the ball's lower end and above α at its upper end, and it
    rises with p; so the root lies between. How the guess was found does not matter.
    """
    with precision(BITS):
        level = ball(alpha)
        if hits == n:
            return (ball(alpha / share).log() / n).exp()
        guess = _newton(hits, n, alpha, share)
        width = Fraction(1, 1 << ROOT_BITS)
        while True:
            low, high = guess * (1 - width), guess * (1 + width)
            below = low <= 0 or shared_tail(hits, n, low, share) < level
            above = high >= 1 or shared_tail(hits, n, high, share) > level
            if below and above:
                return ball(max(low, Fraction(0))).union(ball(min(high, Fraction(1))))
            width *= 16


def _newton(hits: int, n: int, alpha: Fraction, share: Fraction) -> Fraction:
    """A good guess of the root, and no more than that.

    log P(X ≥ hits) is an increasing concave function of log p, so Newton's method in these coordinates
    climbs to the root from any point to the left of it, and lands to the left from any point to the right: not
    farther than by a factor e^−64, since for α near 1 it would be so far that the number fills the memory.
    """
    goal = ball(alpha).log()
    p = _start(hits, n, alpha)
    for _ in range(100):
        upper_tail = shared_tail(hits, n, p, share)
        next_share = (1 - share) * (n - hits) * p / (1 - p)  # (1 − share) · (hits + 1) · P(X = hits + 1)/P(X = hits)
        slope = ball(share * hits + next_share) * mass(hits, n, p) / upper_tail  # d log tail / d log p
        step = ((goal - upper_tail.log()) / slope).mid()
        p = _short(ball(p) * (step if step > -LONGEST_STEP else arb(-LONGEST_STEP)).exp())
        if abs(step) < ball(Fraction(1, 1 << 70)):  # the next error is about the square of this one
            break
    return p


def _start(hits: int, n: int, alpha: Fraction) -> Fraction:
    """Near the root: the normal approximation, or where that fails a point to the left of the root.

    P(X ≥ h) ≤ C(n, h) p^h ≤ (e n p / h)^h, so the tail is below α at p = h/(e n) · α^(1/h).
    """
    share = ball(Fraction(hits, n))
    z = -quantile(alpha)
    spread = (share * (1 - share) / n + z**2 / (4 * n * n)).sqrt()
    wilson = (share + z**2 / (2 * n) - z * spread) / (1 + z**2 / n)
    left = share / arb(1).exp() * (ball(alpha).log() / hits).exp()
    return _short(wilson if wilson > left else left)


def _short(x: arb) -> Fraction:
    """A fraction strictly between 0 and 1 with few digits, near the middle of the ball."""
    middle = lower_end(x.mid())
    shift = middle.denominator.bit_length() - middle.numerator.bit_length() + ROOT_BITS + 10
    scaled = Fraction(int(middle * (1 << shift)), 1 << shift)
    return min(scaled, 1 - Fraction(1, 1 << (ROOT_BITS + 10)))


def _hoeffding_margin(n: int, alpha: Fraction) -> arb:
    return (-ball(alpha).log() / (2 * n)).sqrt()


def _check(hits: int, n: int, alpha: Fraction) -> None:
    if not 1 <= n <= MOST_VOTES:
        raise ValueError(f"the number of votes must be between 1 and 10⁹, not {n}")
    if not 0 <= hits <= n:
        raise ValueError(f"the number of hits must be between 0 and {n}, not {hits}")
    if not 0 < alpha < 1:
        raise ValueError(f"α must lie strictly between 0 and 1, not {alpha}")

"""Proved numbers: every result is an exact integer, or a double with a stated direction.

The only room that imports flint. Each function's docstring has a `Guarantee:`; the arguments are in
docs/noise.md.
"""

from .balls import float_above, float_below
from .binomial import clopper_pearson_above, clopper_pearson_below, fair_coin_rejected, hoeffding_below
from .bounds import BOUNDS, Bound, BoundName, Look, Schedule
from .breakpoints import breakpoint_floor, breakpoint_floors
from .distance import distance_above, price_above, radius_after
from .radius import radius_below, radius_two_below
from .rationals import Rational, positive, probability, rational

__all__ = [
    "BOUNDS",
    "Bound",
    "BoundName",
    "Look",
    "Rational",
    "Schedule",
    "breakpoint_floor",
    "breakpoint_floors",
    "clopper_pearson_above",
    "clopper_pearson_below",
    "distance_above",
    "fair_coin_rejected",
    "float_above",
    "float_below",
    "hoeffding_below",
    "positive",
    "price_above",
    "probability",
    "radius_after",
    "radius_below",
    "radius_two_below",
    "rational",
]

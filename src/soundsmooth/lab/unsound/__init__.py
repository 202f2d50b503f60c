"""UNSOUND, for comparison only: what the field does, and the paper's Algorithm 2 to the letter.

Nothing in this room is ever in the path of a certificate; it is imported by counter-examples and benchmarks alone. What
comes out of it is an `UnsoundResult`: a label and a number called a radius, with no proof behind them.

- `standard`: the paper's Algorithm 1 (Cohen et al.), noise added in floats. It is simply wrong: see Listing 1.
- `paper64`: the paper's Algorithm 2, mended. Its noise is right but for a failure event; its coins are those of a
  general-purpose generator, which nobody has proved anything about.
- `failures`: how likely that failure event is, exactly.
"""

from .certify import UnsoundResult, UnsoundSmooth, batches, count_votes
from .failures import FailureOdds, failure_anywhere, failure_odds, failure_table
from .paper64 import UnsoundPaper64, breaking_points, discretized_normal, discretized_normal_literally
from .standard import UnsoundStandard

__all__ = [
    "FailureOdds",
    "UnsoundPaper64",
    "UnsoundResult",
    "UnsoundSmooth",
    "UnsoundStandard",
    "batches",
    "breaking_points",
    "count_votes",
    "discretized_normal",
    "discretized_normal_literally",
    "failure_anywhere",
    "failure_odds",
    "failure_table",
]

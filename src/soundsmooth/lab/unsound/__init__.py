"""UNSOUND, for comparison only: the field's procedure, and the paper's Algorithm 2 to the letter.

No certificate depends on this room: only counter-examples, benchmarks and experiments import it. It returns an
`UnsoundResult`: a label and a number called a radius, with no proof behind them.

- `standard`: the paper's Algorithm 1 (Cohen et al.), noise added in floats. It is simply wrong: see Listing 1.
- `paper64`: the paper's Algorithm 2, mended. Its noise is right but for a failure event; its coins come from a
  general-purpose generator, about which nothing is proved.
- `failures`: the exact probability of that failure event.

`UnsoundPaper64`, `discretized_normal_literally` and `failure_table` serve tests alone: these check the paper's errata,
which docs/noise.md lists.
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

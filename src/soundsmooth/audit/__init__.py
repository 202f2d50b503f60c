"""The auditor's arithmetic: a second implementation that shares nothing with the one that issued a certificate.

`soundsmooth.exact` finds bounds and radii in ball arithmetic (Arb). Here they are checked, in Python's own integers,
by other formulas: Stirling's series, sums of ratios, and one logarithm. Nothing is imported but the standard library,
so that a person can read all of it. Proofs: docs/audit.md.
"""

from .check import Report, check_claim, check_record, verdict
from .claim import Claim, Terms, Votes, read_claim, terms
from .laws import Gaussian
from .replay import (
    Block,
    Confirmed,
    all_but_escaped,
    detection,
    escaped_and_excess,
    escaping,
    from_replayed,
    struck_out_together,
    with_mismatches,
)

__all__ = [
    "Block",
    "Claim",
    "Confirmed",
    "Gaussian",
    "Report",
    "Terms",
    "Votes",
    "all_but_escaped",
    "check_claim",
    "check_record",
    "detection",
    "escaped_and_excess",
    "escaping",
    "from_replayed",
    "read_claim",
    "struck_out_together",
    "terms",
    "verdict",
    "with_mismatches",
]

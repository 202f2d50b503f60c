"""The auditor's arithmetic: a second implementation that shares nothing with the one that issued a certificate.

`soundsmooth.exact` finds bounds and radii in ball arithmetic (Arb). Here they are checked, in Python's own integers,
by other formulas: Stirling's series, sums of ratios, and one logarithm. Nothing is imported but the standard library,
so that a person can read all of it. Proofs: docs/audit.md.
"""

from .check import ClaimReport, check_claim, check_record, verdict
from .claim import AuditTerms, Claim, VoteCounts, read_claim, read_terms
from .distance import pays
from .laws import Gaussian
from .replay import (
    Confirmed,
    ReplayBlock,
    Urn,
    all_but_escaped,
    detection,
    escaped_and_excess,
    escaping,
    from_replayed,
    refutation_level,
    struck_out_together,
    with_mismatches,
)

__all__ = [
    "AuditTerms",
    "Claim",
    "ClaimReport",
    "Confirmed",
    "Gaussian",
    "ReplayBlock",
    "Urn",
    "VoteCounts",
    "all_but_escaped",
    "check_claim",
    "check_record",
    "detection",
    "escaped_and_excess",
    "escaping",
    "from_replayed",
    "pays",
    "read_claim",
    "read_terms",
    "refutation_level",
    "struck_out_together",
    "verdict",
    "with_mismatches",
]

"""Audits of runs and certificates: arithmetic, commitment and key, replay (docs/audit.md)."""

from .audits import Given, audit_file
from .content import content_hash
from .key import Noted
from .result import Check, Conclusion, Findings, Verification
from .statements import Replay, Statement

__all__ = [
    "Check",
    "Conclusion",
    "Findings",
    "Given",
    "Noted",
    "Replay",
    "Statement",
    "Verification",
    "audit_file",
    "content_hash",
]

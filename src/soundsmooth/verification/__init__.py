"""Audits of runs and certificates: arithmetic, commitment and key, replay (docs/audit.md)."""

from .audits import audit_file
from .content import content_hash
from .inputs import AuditInputs
from .result import Check, Conclusion, Findings, Verification
from .statements import Replay, Statement

__all__ = [
    "AuditInputs",
    "Check",
    "Conclusion",
    "Findings",
    "Replay",
    "Statement",
    "Verification",
    "audit_file",
    "content_hash",
]

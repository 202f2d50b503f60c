"""Interfaces that other code has: `Smooth` and `ABSTAIN`, as the field copies them, and an estimator of ART (`art`)."""

from .smooth import ABSTAIN, Smooth

__all__ = ["ABSTAIN", "Smooth"]

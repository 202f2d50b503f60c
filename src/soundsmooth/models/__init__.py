"""Base classifiers: a base class, and adapters for callables, torch modules and ONNX files."""

from .load import model_of
from .protocol import NOBODY, Identity, Model, Votes

__all__ = ["NOBODY", "Identity", "Model", "Votes", "model_of"]

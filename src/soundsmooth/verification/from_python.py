"""`ss.verify`: an audit from Python, with the words of the command line."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ..certification.promise import Inputs, Promise
from ..core.grid import Grid
from ..core.layouts import Layout
from ..data.load import load
from ..exact import Rational, probability
from ..smoothing.classifier import Smoothing
from .audits import audit_file
from .inputs import AuditInputs
from .promised import promised_smoothing
from .result import Verification


def verify(
    target: str | Path,
    *,
    model: object = None,
    data: Any = None,
    replay: str | None = None,
    commitment: str | None = None,
    nonce: str | None = None,
    promise: Promise | None = None,
    content: str | None = None,
    beta: Rational = "0.001",
    other_machine: bool = False,
    layout: Layout = "as-is",
    **options: Any,
) -> Verification:
    """Check somebody else's run (.db) or certificates (.json, .jsonl): arithmetic, commitment and key, and votes.

    `commitment`, `nonce`, `promise` and `content` are what you noted. `model` and `data` are your own copies: a model
    as for `Smoother` (with its `options`), and whatever `soundsmooth.load` takes or returned, or images and labels.
    `replay` votes again on "5%" of the blocks, on "all", or on a number of them. What is not given is as promised.

    Guarantee: `ok` is False if something was refuted, or votes differ. What was and was not shown is in `shown` and
    `not_shown`. A file that cannot be read at all is a ValueError or an OSError.
    """
    make: Callable[[Promise], Smoothing] | None = None
    if model is not None:
        make = partial(promised_smoothing, model, options=options)
    read = None if data is None else partial(_inputs, data, layout)
    level = probability(beta, "beta")
    given = AuditInputs(make, read, replay, level, other_machine, commitment, nonce, promise, content)
    return audit_file(Path(target), given)


def _inputs(data: Any, layout: Layout, grid: Grid) -> Inputs:
    """All of the auditor's data, numbered from 0."""
    images, labels = data if isinstance(data, tuple) else (data, None)
    found = load(images, labels=labels, grid=grid, layout=layout)
    if found.indices != tuple(range(len(found))):
        raise ValueError("the auditor's data is all of it: load it without every and limit")
    return found

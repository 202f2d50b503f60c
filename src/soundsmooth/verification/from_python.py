"""`ss.verify`: an audit from Python, with the words of the command line."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..certification.promise import Promise
from ..core.grid import Grid
from ..core.layouts import Layout
from ..data.load import AllImages, open_all
from ..exact import Rational, probability
from ..runs.artifact_file import artifact_path, promised_artifact
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
    trust_artifact: bool = False,
    artifact: str | Path | None = None,
    layout: Layout = "as-is",
    **options: Any,
) -> Verification:
    """Check somebody else's run (.db) or certificates (.json, .jsonl): arithmetic, commitment and key, and votes.

    `commitment`, `nonce`, `promise` and `content` are what you noted. `model` and `data` are your own copies: a model
    as for `Smoother` (with its `options`), and whatever `soundsmooth.load` takes or returned, or images and labels.
    `replay` votes again on "5%" of the blocks, on "all", or on a number of them. What is not given is as promised.

    Votes of tuned kernels are repeated with kernels of this machine, and near-ties may break differently. If you
    `trust_artifact`, the run's own kernels vote: they are code, in the `artifact`'s file or beside the run.

    Guarantee: `ok` is False if something was refuted, or votes differ. What was and was not shown is in `shown` and
    `not_shown`. A file that cannot be read at all is a ValueError or an OSError.
    """
    make: Callable[[Promise], Smoothing] | None = None
    if model is not None:
        kept = trusted_artifact(Path(target), artifact) if trust_artifact else None
        make = partial(smoothing_of, model, options=options, artifact=kept)
    read = None if data is None else partial(_images, data, layout)
    level = probability(beta, "beta")
    given = AuditInputs(make, read, replay, level, other_machine, commitment, nonce, promise, content)
    return audit_file(Path(target), given)


def trusted_artifact(target: Path, named: str | Path | None) -> Path:
    """The file whose kernels are trusted: the one that was named, or the one beside the run."""
    return artifact_path(target) if named is None else Path(named)


def smoothing_of(model: Any, promise: Promise, options: Mapping[str, Any], artifact: Path | None) -> Smoothing:
    """The promised classifier, with the kernels in the file if one is trusted and they are promised."""
    content = None if artifact is None else promised_artifact(artifact, promise)
    return promised_smoothing(model, promise, options, content)


def _images(data: Any, layout: Layout, grid: Grid) -> AllImages:
    """All of the auditor's data, numbered from 0."""
    images, labels = data if isinstance(data, tuple) else (data, None)
    return open_all(images, labels=labels, grid=grid, layout=layout)

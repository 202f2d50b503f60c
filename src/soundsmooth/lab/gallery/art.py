"""An independent peer: PyTorchRandomizedSmoothing of the adversarial-robustness-toolbox (ART), run as it is.

ART repeats the image n times, adds NumPy's normals (drawn in float64 from the *global* generator, cast to float32) to
float32 images, and takes the bound from statsmodels and the radius from scipy. Its float32 sum tells images apart.
Nothing of it is imported before it is used. (Importing it makes a folder ~/.art.)
"""

import importlib
import importlib.metadata
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.machine import check_memory
from .certifiers import Answer, Array, CertifierTask, MakeScores, Refused, Scores, values

PACKAGE = "adversarial-robustness-toolbox"
#: A noisy copy exists as the image, the normals in both precisions, the sum and its copy for the model.
BYTES_PER_ELEMENT = 4 + 8 + 4 + 4 + 4


@dataclass(frozen=True)
class Art:
    """ART's certifier: the label and the radius are ART's own answer, the votes are counted in the model."""

    name: str = "art"
    batch: int = 10_000

    def certify(self, make: MakeScores, classes: int, x: Array, task: CertifierTask) -> Answer:
        if task.bound != "clopper-pearson":
            raise Refused(f"ART knows no bound but Clopper–Pearson, and {task.bound} was asked for")
        try:
            check_memory(BYTES_PER_ELEMENT * task.n * x.size, "ART, which makes all n copies at once", "lower n")
        except ValueError as error:
            raise Refused(str(error)) from error
        n0 = min(task.n0, task.n)
        votes: list[Array] = []
        smooth = smoothed(make(np.dtype("float32")), classes, x.shape, task, n0, votes)
        labels, radii = smooth.certify(values(x, np.dtype("float32"))[None], n=task.n, batch_size=self.batch)
        selection, estimation = np.split(np.concatenate(votes), [n0])
        counts = np.bincount(estimation, minlength=classes).tolist()
        guess = int(np.bincount(selection, minlength=classes).argmax())
        p_lower = float(smooth._lower_confidence_bound(counts[guess], task.n))
        label = None if labels[0] < 0 else int(labels[0])
        return Answer(label, float(radii[0]), p_lower, tuple(counts))


def installed() -> bool:
    """Whether ART is here; asks for the package's record, since importing it takes seconds (and `art` is also the name
    of another package)."""
    try:
        return bool(importlib.metadata.version(PACKAGE))
    except importlib.metadata.PackageNotFoundError:
        return False


def smoothed(
    scores: Scores, classes: int, shape: tuple[int, ...], task: CertifierTask, n0: int, votes: list[Array]
) -> Any:
    """ART's smoothed classifier around ours; every batch's votes are appended to `votes`, in order."""
    smoothing = _import("art.estimators.certification.randomized_smoothing")
    torch = _import("torch")

    def forward(batch: Any) -> Any:
        found = np.asarray(scores(batch.numpy()), np.float32)
        votes.append(found.argmax(axis=1))
        return torch.from_numpy(found)

    model = torch.nn.Module()
    model.forward = forward
    return smoothing.PyTorchRandomizedSmoothing(
        model,
        torch.nn.CrossEntropyLoss(),  # for training, which never happens
        shape,
        classes,
        device_type="cpu",
        sample_size=n0,
        scale=float(task.sigma),
        alpha=float(task.alpha),
    )


def _import(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ValueError(
            f"the certifier art needs {PACKAGE}, and with it torch, packaging and statsmodels "
            f"(pip install torch {PACKAGE} packaging statsmodels): {error}"
        ) from error

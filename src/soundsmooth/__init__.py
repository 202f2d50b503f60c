"""Certified robustness by randomized smoothing whose certificates hold on the computer that issues them.

    import soundsmooth as ss

    smooth = ss.Smoother(model, sigma="0.25")
    certificate = smooth.certify(image)
    certificate.label, certificate.radius

Importing this package is cheap: everything is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .certification.certificate import Certificate
    from .certification.prediction import Prediction
    from .certification.promise import Promise
    from .core.grid import Grid, levels
    from .core.warn import IndependenceWarning
    from .data.load import load
    from .noise import Gaussian
    from .runs.run import Run, conclude_run, open_run
    from .smoother import Smoother
    from .verification.from_python import verify

__version__ = "0.1.0"
__all__ = [
    "Certificate",
    "Gaussian",
    "Grid",
    "IndependenceWarning",
    "Prediction",
    "Promise",
    "Run",
    "Smoother",
    "__version__",
    "conclude_run",
    "levels",
    "load",
    "open_run",
    "verify",
]

_HOMES = {
    "Certificate": ".certification.certificate",
    "Gaussian": ".noise",
    "Grid": ".core.grid",
    "IndependenceWarning": ".core.warn",
    "Prediction": ".certification.prediction",
    "Promise": ".certification.promise",
    "Run": ".runs.run",
    "Smoother": ".smoother",
    "conclude_run": ".runs.run",
    "levels": ".core.grid",
    "load": ".data.load",
    "open_run": ".runs.run",
    "verify": ".verification.from_python",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return __all__

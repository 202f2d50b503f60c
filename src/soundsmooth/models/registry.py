"""The adapters, and what follows from them: which kinds of models there are, and what is known of each."""

from .callables import CallableModel
from .estimators import EstimatorModel
from .isolated import IsolatedOnnxModel
from .keras_model import KerasModel
from .onnx_file import OnnxModel
from .protocol import Model, ModelKind
from .torch_module import TorchModel

#: The first that accepts a source makes the model.
ADAPTERS: tuple[type[Model], ...] = (
    IsolatedOnnxModel,
    OnnxModel,
    KerasModel,
    TorchModel,
    EstimatorModel,
    CallableModel,
)
#: By the names that promises have for them.
KINDS: dict[str, ModelKind] = {adapter.kind.name: adapter.kind for adapter in ADAPTERS}


def digest_binds(kind: str) -> bool:
    """Whether the digest of such a model fixes it: it is data. Python code is assumed honest."""
    return kind in KINDS and KINDS[kind].binding

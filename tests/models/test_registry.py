"""Adapters: what the rest of the program knows of a kind of model comes from its adapter."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import classifiers
import soundsmooth as ss
from soundsmooth import embedded
from soundsmooth.models import load, registry
from soundsmooth.models.callables import CallableModel
from soundsmooth.models.load import model_of
from soundsmooth.models.model_source import ModelSource
from soundsmooth.models.options import ModelOptions
from soundsmooth.models.protocol import Identity, Model, ModelKind, Votes, votes
from soundsmooth.models.registry import ADAPTERS, KINDS, digest_binds
from soundsmooth.verification.promised import check_promise

IMAGE = np.full((1, 2, 2), 100, np.uint8)


def models() -> Iterator[Model]:
    yield model_of(classifiers.brightness)
    yield model_of(embedded.model_for(1), threads=1)
    yield model_of(embedded.model_for(1), threads=1, untrusted=True)


def torch_model() -> Model:
    torch = pytest.importorskip("torch")
    return model_of(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2)))


def test_an_auditor_knows_the_kinds_without_the_libraries_that_run_them() -> None:
    program = (
        "import sys; from soundsmooth.models.registry import KINDS; import soundsmooth.verification.promised; "
        "print(*KINDS, *({'torch', 'onnx', 'onnxruntime', 'triton'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split()) == ["callable", "onnx", "torch"]


def check_promised(model: Model) -> None:
    identity, kind = model.identity(), model.kind
    assert identity.kind == kind.name
    assert KINDS[kind.name] is kind
    flags = {
        name: value for name, _, value in (word.partition("=") for word in identity.flags_text.split(" ")) if value
    }
    assert flags.keys() <= kind.flags.keys()
    assert kind.flags.keys() - set(kind.optional) <= flags.keys()
    for name, value in flags.items():
        allowed = kind.flags[name]
        assert value.isdigit() if allowed is None else value in allowed


def test_a_model_promises_what_its_kind_allows() -> None:
    for model in models():
        check_promised(model)
        assert digest_binds(model.kind.name) == (model.identity().first_digest is None)


def test_a_torch_module_promises_what_its_kind_allows() -> None:
    check_promised(torch_model())


def test_what_no_adapter_accepts_is_an_error(tmp_path: Path) -> None:
    for source, message in (
        (3, "a model is a torch.nn.Module, a path to an .onnx file or a callable, not int"),
        ({}, "a callable, not dict; weights go into a network"),
        (tmp_path / "model.pt", r"is a pickle.* \(ss\.Smoother\(network, …, weights='model\.pt'\) in Python\)"),
        (tmp_path / "images.npz", "the model comes first, then the data"),
    ):
        with pytest.raises(ValueError, match=message):
            model_of(source)


class Classifier:
    """As scikit-learn has them."""

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        return np.stack([1 - rows.mean(axis=1), rows.mean(axis=1)], axis=1)


class ClassifierModel(Model):
    """A new adapter, with what is its own."""

    kind = ModelKind("classifier", flags={}, software=("sklearn",))

    def __init__(self, classifier: Classifier) -> None:
        self._classifier = classifier

    @classmethod
    def accepts(cls, source: object, options: ModelOptions) -> bool:
        return hasattr(source, "predict_proba")

    @classmethod
    def of(cls, source: ModelSource, options: ModelOptions) -> "ClassifierModel":
        options.reject(("device", "dtype", "channels_last", "compile"), "a classifier runs as it is")
        return cls(source.model)

    def identity(self) -> Identity:
        return Identity(self.kind.name, "0" * 64)

    def vote(self, values: np.ndarray) -> Votes:
        return votes(self._classifier.predict_proba(values.reshape(len(values), -1)), len(values))


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "ADAPTERS", (ClassifierModel, *ADAPTERS))
    monkeypatch.setitem(registry.KINDS, "classifier", ClassifierModel.kind)


@pytest.mark.usefixtures("registered")
def test_a_new_adapter_is_one_class_and_one_line() -> None:
    smooth = ss.Smoother(Classifier(), "0.25", batch_size=20)
    certificate = smooth.certify(IMAGE, n0=20, n=60, seed="s")
    assert certificate.promise.values["model kind"] == "classifier"
    assert "assumed honest" in certificate.trust
    assert ss.Certificate.from_json(certificate.to_json()) == certificate
    check_promise(certificate.promise)
    with pytest.raises(ValueError, match="a classifier runs as it is"):
        model_of(Classifier(), dtype="bf16")
    assert isinstance(model_of(Classifier(), device="cpu", dtype="fp32"), ClassifierModel)


def test_the_defaults_are_those_of_a_model_that_is_made_once_on_the_cpu() -> None:
    model = ClassifierModel(Classifier())
    model.prepare((1, 2, 2), 5)
    assert (model.batch, model.shape, model.demand, model.placement, model.flags()) == (None, None, "auto", None, {})
    assert model.largest_batch((1, 2, 2), 7) == 7
    assert not model.changes()()
    with pytest.raises(ValueError, match="leave out workers"):
        model.replica(1)
    with pytest.raises(ValueError, match="cannot be made again"):
        model.recipe()


def test_an_option_that_means_nothing_to_a_callable_is_rejected() -> None:
    for options in ({"device": "cuda"}, {"dtype": "bf16"}, {"channels_last": True}, {"compile": "cuda-graph"}):
        with pytest.raises(ValueError, match="are its own affair"):
            model_of(classifiers.brightness, **options)
    assert isinstance(model_of(classifiers.brightness, device="cpu", dtype="fp32", threads=2), CallableModel)

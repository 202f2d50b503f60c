"""Keras models, by a stand-in with the methods of Keras's; the real ones are in tests/integrations."""

import json
from typing import Any

import numpy as np
import pytest

import soundsmooth as ss
from soundsmooth.models import model_of
from soundsmooth.models.keras_model import KerasModel

BATCH = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 2, 2, 3)


class Dense:
    """One layer; Keras names layers by how many there were in the process, and counts calls."""

    made = 0
    __module__ = "keras.src.models.sequential"

    def __init__(self, weights: np.ndarray, activation: str = "linear") -> None:
        Dense.made += 1
        self.name, self.activation = f"dense_{Dense.made}", activation
        self._weights, self.calls = weights, 0
        self.input_shape = (None, 2, 2, 3)

    def get_weights(self) -> list[np.ndarray]:
        return [self._weights]

    def to_json(self) -> str:
        layer = {"class_name": "Dense", "config": {"name": self.name, "activation": self.activation}}
        config = {"name": f"sequential_{Dense.made}", "layers": [layer], "inbound": [[self.name, 0]]}
        return json.dumps({"config": config, "shared_object_id": id(self)})

    def __call__(self, batch: np.ndarray, training: bool | None = None) -> Any:
        assert training is False
        self.calls += 1
        return batch.reshape(len(batch), -1) @ self._weights


def dense(seed: int = 0, **options: Any) -> Dense:
    return Dense(np.random.default_rng(seed).standard_normal((12, 3)).astype(np.float32), **options)


def test_it_runs_in_inference_mode() -> None:
    model = model_of(dense())
    assert isinstance(model, KerasModel)
    expected = (BATCH.reshape(2, 12) @ dense().get_weights()[0]).argmax(axis=1)
    assert model.vote(BATCH.copy()).labels.tolist() == expected.tolist()


def test_its_digest_is_of_configuration_and_weights() -> None:
    """Not of names that count, and not of what a call changes."""
    one = dense()
    first = model_of(one).identity()
    one(BATCH, training=False)
    assert model_of(one).identity() == model_of(dense()).identity() == first
    assert model_of(dense(seed=1)).identity().digest != first.digest
    assert model_of(dense(activation="relu")).identity().digest != first.digest
    assert "code of its layers" in first.recorded["not in the digest"]


def test_a_model_of_a_class_of_ones_own_is_named_by_the_class_and_the_weights() -> None:
    class Own(Dense):
        __module__ = "keras.own"

        def to_json(self) -> str:
            raise NotImplementedError

    class Other(Own):
        pass

    weights, others = np.ones((12, 3)), np.zeros((12, 3))
    digests = [model_of(each).identity().digest for each in (Own(weights), Own(weights), Own(others), Other(weights))]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_channels_first_data_gets_the_hint() -> None:
    model = dense()
    model.input_shape = (None, 4, 4, 3)
    with pytest.raises(
        ValueError, match="channels-first: try layout='nchw-to-nhwc' in Python, or --layout nchw-to-nhwc"
    ):
        ss.Smoother(model, "0.25").certify(np.zeros((3, 4, 4), np.uint8), n0=10, n=10)


def test_a_model_that_is_not_built_has_no_weights() -> None:
    model = dense()
    model.built = False
    with pytest.raises(ValueError, match="has no weights yet"):
        model_of(model)


def test_several_outputs_are_told_what_to_write() -> None:
    class Two(Dense):
        __module__ = "keras.src.models.functional"

        def __call__(self, batch: np.ndarray, training: bool | None = None) -> Any:
            return [batch, batch]

    with pytest.raises(ValueError, match=r"keras\.Model\(inputs, scores\)"):
        model_of(Two(np.zeros((12, 3)))).vote(BATCH.copy())


def test_a_word_that_is_also_a_name_keeps_its_meaning() -> None:
    """A layer may be called as another one's activation is: other functions would have one digest."""
    digests = []
    for word in ("relu", "tanh"):
        model = dense(activation=word)
        model.name = word
        digests.append(model_of(model).identity().digest)
    assert digests[0] != digests[1]


def test_a_model_that_was_trained_since_has_another_digest() -> None:
    source = dense()
    smoother = ss.Smoother(source, "0.25")
    image = np.zeros((2, 2, 3), np.uint8)
    before = smoother.certify(image, n0=10, n=10).promise.values["model"]
    source._weights = -source._weights
    after = smoother.certify(image, n0=10, n=10).promise.values["model"]
    assert before != after == model_of(source).identity().digest


def test_the_precision_of_a_layer_is_in_the_digest() -> None:
    """Keras writes it with a name, as it writes a layer."""

    class Precise(Dense):
        __module__ = "keras.src.models.sequential"
        policy = "float32"

        def to_json(self) -> str:
            said = json.loads(super().to_json())
            said["config"]["layers"][0]["config"]["dtype"] = {
                "class_name": "DTypePolicy",
                "config": {"name": self.policy},
            }
            return json.dumps(said)

    class Coarse(Precise):
        __module__ = "keras.src.models.sequential"
        policy = "mixed_bfloat16"

    weights = np.ones((12, 3))
    digests = [model_of(each).identity().digest for each in (Precise(weights), Precise(weights), Coarse(weights))]
    assert digests[0] == digests[1] != digests[2]

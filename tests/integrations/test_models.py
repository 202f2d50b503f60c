"""Models as other libraries make them go in: Lightning, transformers, timm, scikit-learn, Keras and JAX.

Not part of the ordinary tests, which have stand-ins: `make test-integrations` runs it.
"""

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import soundsmooth as ss
from soundsmooth.models import Model, model_of
from soundsmooth.torch import Normalize

IMAGE = np.random.default_rng(0).integers(0, 256, (3, 8, 8), np.uint8)
BATCH = np.random.default_rng(1).random((6, 3, 8, 8), np.float32)
os.environ.setdefault("KERAS_BACKEND", "jax")


def certified(source: Any, image: np.ndarray = IMAGE, **options: Any) -> ss.Certificate:
    certificate = ss.Smoother(source, "0.25", batch_size=20, threads=1, **options).certify(image, n0=20, n=60, seed="s")
    assert ss.Certificate.from_json(certificate.to_json()) == certificate
    return certificate


def proved(model: Model, shape: tuple[int, ...] = IMAGE.shape) -> bool:
    model.prepare(shape, 4)
    return model.identity().independence.proved


def small_network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 3))


def lightning_module() -> Any:
    lightning = pytest.importorskip("lightning")

    class Lit(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.model = small_network()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.model(x)

        def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
            return self(batch[0]).sum()

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), 0.1)

    return Lit()


def trained() -> tuple[Any, Any]:
    """A module after training, which still holds its trainer."""
    import lightning

    module, data = lightning_module(), torch.utils.data.TensorDataset(torch.from_numpy(BATCH))
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", logger=False, **quiet)
    trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=3))
    return module, trainer


def test_lightning_module_with_its_trainer() -> None:
    pytest.importorskip("lightning")
    module, _ = trained()
    assert proved(model_of(module))
    certified(module)


def test_lightning_module_has_the_same_digest_before_and_after_training() -> None:
    """With the same weights: what a trainer leaves in a module is no part of the model."""
    pytest.importorskip("lightning")
    fresh, (module, _) = lightning_module(), trained()
    assert model_of(module).identity() != model_of(fresh).identity()
    fresh.load_state_dict(module.state_dict())
    assert model_of(module).identity() == model_of(fresh).identity()


def test_lightning_checkpoint_goes_into_the_network(tmp_path: Path) -> None:
    pytest.importorskip("lightning")
    module, trainer = trained()
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    loaded = model_of(small_network(), weights=tmp_path / "last.ckpt")
    assert loaded.identity() == model_of(module.model).identity()


def vit(**options: Any) -> torch.nn.Module:
    transformers = pytest.importorskip("transformers")
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    torch.manual_seed(0)
    config = transformers.ViTConfig(image_size=8, patch_size=4, num_labels=3, **small, **options)
    return transformers.ViTForImageClassification(config).eval()


def test_transformers_model_output_votes() -> None:
    network = torch.nn.Sequential(Normalize.imagenet(), vit())
    assert proved(model_of(network))
    assert (model_of(network, independence="assumed").vote(BATCH.copy()).labels >= 0).all()
    certified(network)


def test_transformers_logits_are_chosen_among_outputs() -> None:
    model = model_of(
        vit(output_hidden_states=True, output_attentions=True, attn_implementation="eager"), output="logits"
    )
    assert proved(model)
    assert model.vote(BATCH.copy()[:4]).classes == 3


def test_timm_checkpoint_with_names_of_data_parallel(tmp_path: Path) -> None:
    timm = pytest.importorskip("timm")
    network, other = (timm.create_model("resnet18", num_classes=3) for _ in range(2))
    state = torch.nn.DataParallel(network).state_dict()
    torch.save({"epoch": 3, "state_dict": state}, tmp_path / "w.pth.tar")
    assert model_of(other, weights=tmp_path / "w.pth.tar").identity() == model_of(network).identity()


def estimators() -> dict[str, Any]:
    pytest.importorskip("sklearn")
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression, RidgeClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    return {
        "logistic": LogisticRegression(),
        "ridge": RidgeClassifier(),
        "forest": RandomForestClassifier(5),
        "boosting": HistGradientBoostingClassifier(max_iter=2),
        "perceptron": MLPClassifier((4,), max_iter=5),
        "pipeline": make_pipeline(StandardScaler(), LogisticRegression()),
        "vectors": SVC(),
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", ["logistic", "ridge", "forest", "boosting", "perceptron", "pipeline", "vectors"])
def test_scikit_learn_votes_as_it_predicts(name: str, classes: int) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(90) % classes
    rows = (rng.random((90, 12)) + np.eye(12)[labels]).astype(np.float32)
    estimator = estimators()[name].fit(rows, labels)
    model = model_of(estimator)
    found = model.vote(rows.reshape(90, 3, 2, 2).copy())
    assert found.classes == classes
    assert (found.labels == estimator.predict(rows)).mean() > 0.97  # a support vector machine breaks ties otherwise
    assert model_of(estimator).identity() == model.identity()  # predicting has changed nothing
    assert model_of(pickle.loads(pickle.dumps(estimator))).identity() == model.identity()
    certified(estimator, IMAGE[:, :2, :2])


def test_keras_model() -> None:
    keras = pytest.importorskip("keras")

    def made() -> Any:
        keras.utils.set_random_seed(0)
        layers = keras.layers
        body = [
            layers.Conv2D(4, 3),
            layers.BatchNormalization(),
            layers.Dropout(0.5),
            layers.Flatten(),
            layers.Dense(3),
        ]
        return keras.Sequential([layers.Input((8, 8, 3)), *body])

    one, two, batch = made(), made(), np.moveaxis(BATCH, 1, -1).copy()
    assert model_of(one).vote(batch.copy()).labels.tolist() == one.predict(batch, verbose=0).argmax(axis=1).tolist()
    assert model_of(one).identity() == model_of(two).identity()  # whatever its layers are called in this process
    certified(one, np.moveaxis(IMAGE, 0, -1).copy())
    with pytest.raises(ValueError, match="nchw-to-nhwc"):
        certified(one)


def test_jax_functions() -> None:
    jax = pytest.importorskip("jax")
    weights = jax.numpy.asarray(np.random.default_rng(0).standard_normal((192, 3)), "float32")
    scores = jax.jit(lambda batch: batch.reshape(len(batch), -1) @ weights)
    expected = np.asarray(scores(BATCH)).argmax(axis=1).tolist()
    assert model_of(scores).vote(BATCH.copy()).labels.tolist() == expected
    low = model_of(lambda batch: scores(batch).astype("bfloat16")).vote(BATCH.copy())
    assert low.classes == 3
    certified(scores)

"""A model's recipe: what is made from it elsewhere is the same model."""

import pickle
from dataclasses import replace
from pathlib import Path

import pytest

import classifiers
from soundsmooth import embedded
from soundsmooth.models.load import model_of, recipe_of
from soundsmooth.models.model_source import Factory, OnnxBytes
from soundsmooth.models.recipe import ModelRecipe


def sent(recipe: ModelRecipe) -> ModelRecipe:
    return pickle.loads(pickle.dumps(recipe))


def network() -> object:
    """A factory: torch draws other weights each time."""
    torch = pytest.importorskip("torch")
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3))


@pytest.mark.parametrize("untrusted", [False, True])
def test_a_graph_travels_as_its_bytes(untrusted: bool) -> None:
    path = embedded.model_for(1)
    recipe = recipe_of(path, threads=1, untrusted=untrusted)
    assert isinstance(recipe.source, OnnxBytes)
    near = model_of(path, threads=1, untrusted=untrusted)
    assert sent(recipe).build().identity() == near.identity()


def test_a_factorys_weights_travel_with_its_name(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    weights = {"1.weight": torch.eye(3, 4), "1.bias": torch.zeros(3)}
    save_file(weights, tmp_path / "w.safetensors")
    name = f"{__name__}:network"
    near = model_of(name, weights=tmp_path / "w.safetensors")
    recipe = sent(recipe_of(name, weights=tmp_path / "w.safetensors"))
    (tmp_path / "w.safetensors").unlink()
    assert recipe.build().identity() == near.identity()


def test_a_loaded_model_gives_the_recipe_that_makes_it_again() -> None:
    torch = pytest.importorskip("torch")
    for source in (classifiers.brightness, "classifiers:make_brightness", network(), embedded.model_for(1)):
        model = model_of(source)
        made = pickle.loads(model.recipe()).build(device="cpu", threads=torch.get_num_threads(), independence="assumed")
        assert made.identity().digest == model.identity().digest


def test_another_model_is_refused() -> None:
    recipe = replace(pickle.loads(model_of(classifiers.brightness).recipe()), source=classifiers.first_row)
    with pytest.raises(ValueError, match=r"another model was made here .* its digest differs$"):
        recipe.build()
    with pytest.raises(ValueError, match=r"another model was made here .*; a factory must make the same weights"):
        replace(recipe, source=Factory("classifiers:make_brightness"), digest="00").build()

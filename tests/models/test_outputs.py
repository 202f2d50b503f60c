"""Models with several outputs: one is chosen, by name or number; the promise says which; an error lists them."""

import hashlib
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import soundsmooth as ss
from command import error_of, run_command
from soundsmooth.certification.promise import Promise
from soundsmooth.models import Model, model_of
from soundsmooth.models.outputs import choose_output, is_output_flag, output_flag
from soundsmooth.verification.promised import check_promise, check_words, machine_differences, promised_smoothing

SHAPE = (1, 2, 2)
IMAGE = np.full(SHAPE, 200, np.uint8)
BATCH = np.array([[[[1, 0], [0, 0]]], [[[0, 1], [0, 0]]], [[[0, 0], [2, 1]]]], np.float32)
#: The two outputs disagree on each of the three rows.
ONE, OTHER = [0, 1, 2], [2, 0, 1]


def two_heads(folder: Path, *names: str) -> Path:
    """`flat @ W` and the same with its columns turned; a third output holds the first one's labels."""
    weights = np.array([[3, 0, 0], [0, 3, 0], [0, 0, 3], [0, 0, 0]], np.float32)
    heads = [numpy_helper.from_array(weights, "W"), numpy_helper.from_array(np.roll(weights, -1, axis=1), "V")]
    nodes = [
        helper.make_node("Flatten", ["image"], ["flat"]),
        helper.make_node("MatMul", ["flat", "W"], [names[0]]),
        helper.make_node("MatMul", ["flat", "V"], [names[1]]),
        helper.make_node("ArgMax", [names[0]], [names[2]], axis=1, keepdims=0),
    ]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 3]) for name in names[:2]]
    outputs.append(helper.make_tensor_value_info(names[2], TensorProto.INT64, ["batch"]))
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", *SHAPE])
    graph = helper.make_graph(nodes, "heads", [image], outputs, heads)
    path = folder / "heads.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.fixture
def heads(tmp_path: Path) -> Path:
    return two_heads(tmp_path, "first", "the other/½", "label")


def labels(model: Model) -> list[int]:
    return model.vote(BATCH.copy()).labels.tolist()


def test_an_error_lists_the_outputs(heads: Path) -> None:
    for isolated in (False, True):
        with pytest.raises(ValueError, match=r"has 3 outputs: first, the other/½, label.*output='first'"):
            model_of(heads, untrusted=isolated)
    with pytest.raises(ValueError, match="no output 'fist'; it has first"):
        model_of(heads, output="fist")
    with pytest.raises(ValueError, match="these are labels"):
        labels(model_of(heads, output="label"))


@pytest.mark.parametrize("untrusted", [False, True])
def test_the_chosen_output_votes_is_proved_and_promised(heads: Path, untrusted: bool) -> None:
    for output, expected, flag in (("first", ONE, None), ("the other/½", OTHER, "the%20other%2F%C2%BD")):
        model = model_of(heads, output=output, untrusted=untrusted, threads=1)
        model.prepare(SHAPE, 3)
        assert model.identity().independence.proved
        assert labels(model) == expected
        assert model.flags().get("output") == flag
        assert model.identity().digest == hashlib.sha256(heads.read_bytes()).hexdigest()


def test_a_model_in_a_fresh_process_has_the_same_output(heads: Path) -> None:
    model = model_of(heads, output=1, threads=1)
    assert labels(pickle.loads(model.recipe()).build(threads=1)) == OTHER


def promise_of(heads: Path, output: str) -> Promise:
    smooth = ss.Smoother(heads, "0.25", output=output, threads=1, batch_size=10)
    return smooth.certify(IMAGE, n0=10, n=10, seed="s").promise


def test_an_auditor_makes_the_model_from_the_promise(heads: Path) -> None:
    for output, expected in (("first", ONE), ("the other/½", OTHER)):
        promise = promise_of(heads, output)
        check_promise(promise)
        model = promised_smoothing(heads, promise, {}).model
        assert labels(model) == expected
        assert machine_differences(model.identity(), promise) == []


def test_a_promise_without_the_flag_is_one_of_the_first_output(heads: Path) -> None:
    """As promises were before an output could be chosen: their bytes stay."""
    assert promise_of(heads, "first").values["flags"] == (
        "optimization=all provider=CPUExecutionProvider threads=1"  # nothing of an output
    )


def test_no_word_of_an_output_excuses_other_votes(heads: Path) -> None:
    """A name is written in one way; the first output's name, which we never write, is no difference of machines."""
    values = dict(promise_of(heads, "the other/½").values)
    for word in ("output=%66irst", "output=", "output=a%2fb", "output=%FF", "output=ü"):
        with pytest.raises(ValueError, match="does not know"):
            check_words({**values, "flags": values["flags"].replace("output=the%20other%2F%C2%BD", word)})
    named = Promise({**values, "flags": values["flags"].replace("the%20other%2F%C2%BD", "first")})
    check_promise(named)
    model = promised_smoothing(heads, named, {}).model
    assert (labels(model), machine_differences(model.identity(), named)) == (ONE, [])


def test_names_count_before_numbers(tmp_path: Path) -> None:
    """Exporters name values by numbers. A number of Python's is always a place."""
    path = two_heads(tmp_path, "1", "0", "2")
    assert labels(model_of(path, output="0")) == OTHER
    assert labels(model_of(path, output=0)) == ONE
    assert model_of(path, output=1).flags()["output"] == "0"
    assert labels(promised_smoothing(path, promise_of(path, "0"), {}).model) == OTHER
    assert labels(promised_smoothing(path, promise_of(path, "1"), {}).model) == ONE


def test_choices_that_are_none() -> None:
    assert choose_output(["scores"], None) == "scores"
    with pytest.raises(ValueError, match="--output Logits"):  # only the words follow the names
        choose_output(["hidden", "Logits"], None)
    for wrong in (3, -1, "3", "scores ", "²"):
        with pytest.raises(ValueError, match="has no output"):
            choose_output(["scores", "b"], wrong)
    for nothing in (True, "", 1.5):
        with pytest.raises(ValueError, match="output is the name"):
            model_of(len, output=nothing)
    with pytest.raises(ValueError, match="its own affair"):
        model_of(len, output="scores")


@pytest.mark.parametrize("name", ["logits", "a b", "x=y", "%", "½", "a/b:0", "0"])
def test_flags_are_one_word_that_can_be_read(name: str) -> None:
    flag = output_flag(name)
    assert flag.isascii()
    assert not {" ", "="} & set(flag)
    assert is_output_flag(flag)


def test_the_command_line(heads: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=IMAGE[None], y=[0])
    words = (heads, tmp_path / "d.npz", "--n", 20, "--n0", 10, "--batch-size", 10, "--threads", 1)
    assert "first, the other/½, label" in error_of("certify", *words)
    assert "output=label" in run_command("commit", *words, "--seed", "s", "--output", "label").stdout
    assert "the other/½" in error_of("inspect", heads)
    assert "proved" in run_command("inspect", heads, "--output", 1, "--trusted").stdout


class Record(NamedTuple):
    hidden: Any
    scores: Any


@dataclass
class Fields:
    scores: Any
    hidden: Any = None


class Returning(torch.nn.Module):
    """Scores, and beside them what `shape` makes of them and of hidden values."""

    def __init__(self, shape: str) -> None:
        super().__init__()
        self.shape = shape

    def forward(self, x: torch.Tensor) -> Any:
        scores, hidden = x.flatten(1)[:, :3], -x.flatten(1)[:, :3]
        return {
            "dict": lambda: {"hidden": hidden, "scores": scores},
            "tuple": lambda: (hidden, scores),
            "record": lambda: Record(hidden, scores),
            "fields": lambda: Fields(scores, hidden),
            "only": lambda: {"scores": scores, "loss": None},
            "one": lambda: [scores],
            "none": lambda: {"loss": None},
            "gap": lambda: (None, scores, hidden, [hidden]),
            "tensor": lambda: scores,
        }[self.shape]()


@pytest.mark.parametrize(("shape", "output"), [("dict", "scores"), ("gap", 1), ("only", None)])
def test_the_output_of_a_torch_module_is_proved(shape: str, output: Any) -> None:
    model = model_of(Returning(shape), output=output)
    model.prepare(SHAPE, 3)
    assert model.identity().independence.proved
    assert labels(model) == ONE


@pytest.mark.parametrize(
    ("shape", "output", "expected"),
    [
        ("dict", "scores", ONE),
        ("dict", "hidden", [1, 0, 0]),
        ("tuple", 1, ONE),
        ("tuple", "1", ONE),
        ("record", "scores", ONE),
        ("fields", "scores", ONE),
        ("gap", 1, ONE),
        ("only", None, ONE),
        ("one", None, ONE),
    ],
)
def test_outputs_of_a_torch_module(shape: str, output: Any, expected: list[int]) -> None:
    model = model_of(Returning(shape), output=output)
    assert labels(model) == labels(model.replica(1)) == expected
    assert model.flags().get("output") == (None if output is None else str(output))
    assert model.identity().digest == model_of(Returning(shape)).identity().digest


@pytest.mark.parametrize(
    ("shape", "output", "message"),
    [
        ("dict", None, "has 2 outputs: hidden, scores"),
        ("tuple", None, "has 2 outputs: 0, 1"),
        ("tuple", 2, "has no output 2"),
        ("gap", None, "has 2 outputs: 1, 2"),
        ("gap", 0, "output 0 is no tensor of scores, but NoneType"),
        ("gap", 3, "output 3 is no tensor of scores, but list"),
        ("dict", "logits", "has no output 'logits'"),
        ("tensor", 0, "returns one tensor, which votes: leave output out"),
        ("none", None, r"must be scores, \[batch, classes\], not dict"),
    ],
)
def test_wrong_choices_of_a_torch_module(shape: str, output: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        labels(model_of(Returning(shape), output=output))


def test_an_auditor_makes_the_torch_model_from_the_promise() -> None:
    smooth = ss.Smoother(Returning("tuple"), "0.25", output=1, threads=1, batch_size=10)
    promise = smooth.certify(IMAGE, n0=10, n=10, seed="s").promise
    assert promise.flags["output"] == "1"
    check_promise(promise)
    assert labels(promised_smoothing(Returning("tuple"), promise, {}).model) == ONE

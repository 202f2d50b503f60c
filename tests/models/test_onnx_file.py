"""ONNX files as models: untrusted data, run at fixed sizes, hashed as they run."""

import hashlib
import os
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import soundsmooth as ss
from soundsmooth import embedded
from soundsmooth.models import model_of
from soundsmooth.models.onnx_file import OnnxModel, read_model


def linear_graph(batch: int | str = "batch", dtype: int = TensorProto.FLOAT, classes: int = 3) -> onnx.ModelProto:
    """scores = flatten(image) @ W, with W inside."""
    weights = np.arange(4 * classes, dtype=np.float32).reshape(4, classes) - 5
    return helper.make_model(
        helper.make_graph(
            [helper.make_node("Flatten", ["image"], ["flat"]), helper.make_node("MatMul", ["flat", "W"], ["scores"])],
            "linear",
            [helper.make_tensor_value_info("image", dtype, [batch, 1, 2, 2])],
            [helper.make_tensor_value_info("scores", dtype, [batch, classes])],
            [numpy_helper.from_array(weights, "W")],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    )


def saved(model: onnx.ModelProto, folder: Path, name: str = "model.onnx") -> Path:
    path = folder / name
    path.write_bytes(model.SerializeToString())
    return path


def with_external_weights(folder: Path, location: str) -> Path:
    """The same model whose weights are said to lie in another file."""
    model = linear_graph()
    weights = model.graph.initializer[0]
    weights.data_location = TensorProto.EXTERNAL
    weights.external_data.add(key="location", value=location)
    weights.external_data.add(key="offset", value="8")
    weights.external_data.add(key="length", value=str(len(weights.raw_data)))
    content = b"\0" * 8 + weights.raw_data
    weights.ClearField("raw_data")
    path = saved(model, folder)
    (folder / "weights.bin").write_bytes(content)
    return path


@pytest.mark.parametrize("path", embedded.MODELS.values(), ids=lambda path: path.stem)
def test_embedded_model_is_one_file_that_runs_any_batch(path: Path, tmp_path: Path) -> None:
    """The file alone, copied elsewhere, gives the same scores for batches of 1, 7 and 1000."""
    alone = tmp_path / "alone.onnx"
    shutil.copy(path, alone)
    session = onnxruntime.InferenceSession(alone, providers=["CPUExecutionProvider"])
    with np.load(embedded.IMAGES) as data:
        images = data["x"].astype(np.float32) / np.float32(255)
    scores = {size: session.run(None, {"image": images[:size]})[0] for size in (1, 7, 1000)}
    assert all(scores[size].shape == (size, 10) for size in scores)
    np.testing.assert_allclose(scores[1000][:7], scores[7], rtol=1e-4, atol=1e-4)
    assert model_of(alone).shape == (1, 28, 28)
    assert model_of(alone).batch is None


def test_votes_and_identity(tmp_path: Path) -> None:
    path = saved(linear_graph(), tmp_path)
    model = OnnxModel(path)
    batch = np.array([[1, 0, 0, 0], [0, 0, 0, -1]], np.float32).reshape(2, 1, 2, 2)
    assert model.vote(batch).labels.tolist() == [2, 0]
    assert model.identity().kind == "onnx"
    assert model.identity().digest == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_fixed_batch_axis_is_known(tmp_path: Path) -> None:
    assert OnnxModel(saved(linear_graph(batch=8), tmp_path)).batch == 8


def test_a_batch_axis_of_1_gets_a_remark_with_the_line_to_write(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="one row at a time") as said:
        ss.Smoother(saved(linear_graph(1), tmp_path), "0.25")
    (only,) = said
    assert 'dynamic_shapes=[{0: torch.export.Dim("batch")}]' in str(only.message)
    assert only.filename == __file__
    for batch in (7, "batch"):
        assert OnnxModel(saved(linear_graph(batch), tmp_path)).remarks == ()


def test_one_logit_per_row_votes_and_is_proved(tmp_path: Path) -> None:
    for untrusted in (False, True):
        model = model_of(
            saved(linear_graph(classes=1), tmp_path), untrusted=untrusted
        )  # the weights are -5, -4, -3, -2
        model.prepare((1, 2, 2), 3)
        batch = np.array([[1, 1, 1, 1], [-1, 0, 0, 0], [0, 0, 0, 0]], np.float32).reshape(3, 1, 2, 2)
        assert model.identity().independence.proved
        assert (model.vote(batch).labels.tolist(), model.vote(batch).classes) == ([0, 1, 0], 2)


def test_a_graph_that_returns_labels_is_told_so(tmp_path: Path) -> None:
    """It has one number per row, as a graph with one logit has; but its classes are not two."""
    graph = linear_graph()
    graph.graph.node.append(helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0))
    del graph.graph.output[:]
    graph.graph.output.append(helper.make_tensor_value_info("label", TensorProto.INT64, ["batch"]))
    smooth = ss.Smoother(saved(graph, tmp_path), "1/4")
    with pytest.raises(ValueError, match="these are labels"):
        smooth.certify_all(np.zeros((2, 1, 2, 2), np.uint8), [2, 2], n=10)


def test_external_weights_beside_the_model_are_read_once_and_hashed(tmp_path: Path) -> None:
    path = with_external_weights(tmp_path, "weights.bin")
    batch = np.ones((2, 1, 2, 2), np.float32)
    inside = OnnxModel(saved(linear_graph(), tmp_path, "inside.onnx"))
    outside = OnnxModel(path)
    assert outside.vote(batch).labels.tolist() == inside.vote(batch).labels.tolist()
    before = outside.identity().digest
    changed = bytearray((tmp_path / "weights.bin").read_bytes())
    changed[20] ^= 1
    (tmp_path / "weights.bin").write_bytes(changed)
    assert OnnxModel(path).identity().digest != before
    content, _ = read_model(path)
    onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])  # needs no other file


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/hostname", "sub/../../weights.bin"])
def test_external_weights_elsewhere_are_refused(location: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "weights.bin").write_bytes(b"\0" * 100)
    with pytest.raises(ValueError, match="outside its own folder"):
        OnnxModel(with_external_weights(folder, location))


@pytest.mark.skipif(not hasattr(os, "symlink") or os.name == "nt", reason="links need rights on Windows")
def test_a_link_that_leads_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(b"\0" * 100)
    (folder / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(ValueError, match="outside its own folder"):
        OnnxModel(with_external_weights(folder, "link"))


def test_external_weights_in_a_subgraph_are_found(tmp_path: Path) -> None:
    """A constant inside an If branch is a tensor like any other."""
    hidden = numpy_helper.from_array(np.ones((1, 3), np.float32), "hidden")
    hidden.data_location = TensorProto.EXTERNAL
    hidden.external_data.add(key="location", value="../weights.bin")
    hidden.ClearField("raw_data")
    branch = helper.make_graph(
        [helper.make_node("Constant", [], ["c"], value=hidden)],
        "b",
        [],
        [helper.make_tensor_value_info("c", 1, [1, 3])],
    )
    model = linear_graph()
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "yes"))
    model.graph.node.append(helper.make_node("If", ["yes"], ["extra"], then_branch=branch, else_branch=branch))
    with pytest.raises(ValueError, match="outside its own folder"):
        OnnxModel(saved(model, tmp_path))


def test_weights_that_reach_beyond_their_file_are_refused(tmp_path: Path) -> None:
    path = with_external_weights(tmp_path, "weights.bin")
    (tmp_path / "weights.bin").write_bytes(b"\0" * 10)
    with pytest.raises(ValueError, match="beyond the end"):
        OnnxModel(path)


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x80\x04pickle", os.urandom(0) + b"\x08\x07" * 100])
def test_broken_files_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="ONNX file"):
        OnnxModel(path)


def test_graph_that_onnxruntime_rejects(tmp_path: Path) -> None:
    model = linear_graph()
    model.graph.node[1].op_type = "NoSuchOperator"
    with pytest.raises(ValueError, match="cannot load the model"):
        OnnxModel(saved(model, tmp_path))


def test_missing_file() -> None:
    with pytest.raises(ValueError, match="there is no model file"):
        model_of("nowhere/model.onnx")


@pytest.mark.parametrize("name", ["model.pt", "model.pth", "model.pt2", "model.pkl", "MODEL.PT", "last.ckpt"])
def test_pickles_are_never_loaded(name: str, tmp_path: Path) -> None:
    """The file would create a witness if it were unpickled; the error shows what to do instead."""
    import pickle

    witness = tmp_path / "witness"

    class Evil:
        def __reduce__(self) -> tuple:
            return os.mkdir, (str(witness),)

    path = tmp_path / name
    path.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(ValueError, match=r"torch\.onnx\.export"):
        model_of(path)
    assert not witness.exists()


def test_other_files_are_refused() -> None:
    with pytest.raises(ValueError, match=r"neither an \.onnx file nor"):
        model_of("model.h5")


def test_two_inputs_or_another_type_are_refused(tmp_path: Path) -> None:
    model = linear_graph()
    model.graph.input.append(helper.make_tensor_value_info("more", TensorProto.FLOAT, [1]))
    with pytest.raises(ValueError, match="one input"):
        OnnxModel(saved(model, tmp_path, "two.onnx"))
    half = linear_graph(dtype=TensorProto.FLOAT16)
    half.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.zeros((4, 3), np.float16), "W"))
    with pytest.raises(ValueError, match="must be float32"):
        OnnxModel(saved(half, tmp_path, "half.onnx"))


def test_options_that_a_file_fixes_are_refused(tmp_path: Path) -> None:
    path = saved(linear_graph(), tmp_path)
    for options in ({"dtype": "bf16"}, {"channels_last": True}, {"weights": "w.safetensors"}):
        with pytest.raises(ValueError, match="leave weights"):
            model_of(path, **options)
    with pytest.raises(ValueError, match="cannot run on"):
        model_of(path, device="tpu")


def independence(path: Path, demand: str = "auto") -> str:
    model = model_of(path, independence=demand)
    model.prepare((1, 2, 2), 5)
    return model.identity().independence.text


def test_a_graph_is_proved_or_refused(tmp_path: Path) -> None:
    """A graph whose rows are independent is proved without being asked; one with a softmax over rows is refused."""
    path = saved(linear_graph(), tmp_path)
    assert independence(path) == "proved"
    assert independence(path, "proved") == "proved"
    mixing = linear_graph()
    mixing.graph.node[1].output[0] = "product"
    mixing.graph.node.append(helper.make_node("Softmax", ["product"], ["scores"], axis=0))
    path = saved(mixing, tmp_path, "mixing.onnx")
    assert independence(path) == "measured m=1000"
    assert independence(path, "checked") == "checked"
    assert independence(path, "assumed") == "assumed"
    with pytest.raises(ValueError, match="cannot be proved for this graph: Softmax 'scores'"):
        independence(path, "proved")

"""Weights in files beside an ONNX file: whatever cannot be true names the model, the tensor and the field."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from soundsmooth.models.onnx_file import read_model

WEIGHTS = np.arange(12, dtype=np.float32).reshape(4, 3)
GOOD = {"location": "weights.bin", "offset": "8", "length": "48"}


def model(
    folder: Path, *entries: tuple[str, str], kind: int = TensorProto.FLOAT, dims: tuple[int, ...] = (4, 3)
) -> Path:
    """A linear model, whose tensor `w` says this of the place of its weights; they are there, after eight zeros."""
    (folder / "weights.bin").write_bytes(b"\0" * 8 + WEIGHTS.tobytes())
    tensor = TensorProto(name="w", data_type=kind, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in entries:
        tensor.external_data.add(key=key, value=value)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
        [tensor],
    )
    path = folder / "model.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    return path


def said(path: Path) -> str:
    """What is wrong, after the names of the model and of the tensor."""
    with pytest.raises(ValueError, match=f"^'{path}', weights of the tensor 'w': .*$") as error:
        read_model(path)
    return str(error.value).partition("'w': ")[2]


@pytest.mark.parametrize("missing", [None, "offset", "length"])
def test_what_is_left_out_follows_from_the_shape(missing: str | None, tmp_path: Path) -> None:
    path = model(tmp_path, *((key, value) for key, value in GOOD.items() if key != missing))
    inside = onnx.load_model_from_string(read_model(path)[0]).graph.initializer[0]
    start = 0 if missing == "offset" else 8
    assert inside.raw_data == (b"\0" * 8 + WEIGHTS.tobytes())[start : start + 48]
    if missing != "offset":
        assert np.array_equal(numpy_helper.to_array(inside), WEIGHTS)


@pytest.mark.parametrize("key", ["offset", "length"])
@pytest.mark.parametrize("text", ["abc", "-1", "8.0", "1e1", " 8", "0x8", "1_0", "٨", "9" * 5000, "9" * 20])
def test_a_number_that_is_none(key: str, text: str, tmp_path: Path) -> None:
    assert said(model(tmp_path, *{**GOOD, key: text}.items())).startswith(f"{key} must be a number of bytes, not '")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"offset": "9"}, "offset 9 and length 48 reach beyond the end of 'weights.bin', which has 56 bytes"),
        ({"offset": "9" * 19}, "reach beyond the end of 'weights.bin'"),
        ({"length": "47"}, "length is 47 bytes, but its shape [4, 3] needs 48"),
        ({"length": "0"}, "length is 0 bytes, but its shape [4, 3] needs 48"),
        ({"length": "9" * 19}, "but its shape [4, 3] needs 48"),
        ({"location": ""}, "location is missing"),
        ({"location": "none.bin"}, "location is 'none.bin', which is missing beside the model"),
        ({"location": "."}, "location is '.', which is a folder"),
        ({"location": "sub"}, "location is 'sub', which is a folder"),
        ({"location": "../weights.bin"}, "location is '../weights.bin', outside its own folder"),
        ({"location": "/etc/hostname"}, "location is '/etc/hostname', outside its own folder"),
        ({"location": "empty.bin"}, "reach beyond the end of 'empty.bin', which has 0 bytes"),
        ({"location": "a\0b"}, "null"),
        ({"location": "a" * 5000}, "name too long"),
    ],
)
def test_fields_that_cannot_be_true(change: dict[str, str], text: str, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "empty.bin").touch()
    assert text in said(model(tmp_path, *{**GOOD, **change}.items()))


@pytest.mark.parametrize("key", GOOD)
def test_a_field_that_is_given_twice(key: str, tmp_path: Path) -> None:
    """Which of the two counts depends on who reads the file."""
    assert said(model(tmp_path, *GOOD.items(), (key, "7"))).startswith(f"{key} is given 2 times, as '{GOOD[key]}' and ")


@pytest.mark.skipif(os.name == "nt", reason="pipes and links of another kind")
def test_pipes_and_links(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "nowhere").symlink_to("none.bin")
    (tmp_path / "out").symlink_to("/etc/hostname")
    (tmp_path / "link").symlink_to("weights.bin")
    (tmp_path / "way").symlink_to(".")
    for name, text in {
        "pipe": "location is 'pipe', which is no plain file",
        "round": "round",
        "nowhere": "missing",
        "out": "location is 'out', outside its own folder",
        "link": "location is 'link', which is a link",
        "way/weights.bin": "location is 'way/weights.bin', which is a link",
    }.items():
        assert text in said(model(tmp_path, *{**GOOD, "location": name}.items()))
    os.link(tmp_path / "weights.bin", tmp_path / "hard")
    read_model(model(tmp_path, *{**GOOD, "location": "hard"}.items()))


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = model(tmp_path, *GOOD.items())
    (tmp_path / "weights.bin").chmod(0)
    assert "weights.bin" in said(path)


@pytest.mark.parametrize(
    ("kind", "dims", "text"),
    [
        (TensorProto.STRING, (4, 3), "data_type is 8 (STRING), which cannot lie in another file"),
        (TensorProto.UNDEFINED, (4, 3), "data_type is 0 (UNDEFINED)"),
        (999, (4, 3), "data_type is 999"),
        (TensorProto.FLOAT, (-4, -3), "its shape [-4, -3] has a negative size"),
        (TensorProto.FLOAT, (1 << 62,) * 1_000_000, "or more than 64 axes"),
        (TensorProto.DOUBLE, (4, 3), "length is 48 bytes, but its shape [4, 3] needs 96"),
        (TensorProto.FLOAT, (1 << 62, 1 << 62), "length is 48 bytes, but its shape"),
        (TensorProto.INT4, (97,), "length is 48 bytes, but its shape [97] needs 49"),
    ],
)
def test_types_and_shapes_that_do_not_fit(kind: int, dims: tuple[int, ...], text: str, tmp_path: Path) -> None:
    assert text in said(model(tmp_path, *GOOD.items(), kind=kind, dims=dims))


@pytest.mark.parametrize(
    ("kind", "dims"), [(TensorProto.INT4, (95,)), (TensorProto.INT4, (96,)), (TensorProto.FLOAT16, (24,)), (22, (96,))]
)
def test_types_of_other_widths(kind: int, dims: tuple[int, ...], tmp_path: Path) -> None:
    read_model(model(tmp_path, *GOOD.items(), kind=kind, dims=dims))

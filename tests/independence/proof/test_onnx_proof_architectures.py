"""The architectures that people certify, as torch exports them: proved. Their real depth is in the long form."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from architectures import ARCHITECTURES, each_architecture
from proofs import prove_graph, prove_module
from row_mixing import violation
from soundsmooth import embedded
from soundsmooth.independence.proof import ProofReport
from soundsmooth.models import model_of
from soundsmooth.models.onnx_facts import read_facts
from soundsmooth.models.onnx_file import OnnxModel
from soundsmooth.models.proved_session import Frozen, Runtime, freeze, proved_session

Exported = Callable[[str], Path]


@each_architecture
@pytest.mark.slow("exports networks, and proves them")
def test_architecture_is_proved_as_an_onnx_file(name: str, architecture_file: Exported) -> None:
    """The file itself, and what onnxruntime's full optimisation makes of it, which is what runs."""
    path = architecture_file(name)
    as_written = prove_graph(path.read_bytes(), witness=True)
    assert as_written.proved, as_written.reason
    model = OnnxModel(path, threads=1, independence="proved")
    model.prepare(ARCHITECTURES[name][1], 6)
    assert model.identity().independence.text == "proved"
    assert model.flags()["optimization"] == "all"
    assert model.report.batch == 6
    assert model.report.operators != as_written.operators  # the optimizer has been at work
    assert violation(model.scores, ARCHITECTURES[name][1], (1, 3)) is None


@each_architecture
@pytest.mark.slow("exports networks, and proves them")
def test_architecture_is_proved_as_a_torch_module(name: str) -> None:
    make, shape = ARCHITECTURES[name]
    module = make().eval()
    graph, report = prove_module(module, torch.rand(4, *shape))
    assert report.proved, report.reason
    batch = torch.rand(3, *shape)
    with torch.no_grad():
        torch.testing.assert_close(graph(batch), module(batch), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("path", embedded.MODELS.values(), ids=lambda path: path.stem)
def test_the_embedded_models_are_proved(path: Path) -> None:
    assert prove_graph(path.read_bytes(), witness=True).proved
    model = model_of(path)
    model.prepare((1, 28, 28), 100)
    assert model.identity().independence.text == "proved"


def linear(function: bool = False, mixes: bool = False, **field: object) -> onnx.ModelProto:
    """scores = flatten(image) @ W, perhaps by way of a function in a domain of its own."""
    nodes = [helper.make_node("Flatten", ["image"], ["flat"]), helper.make_node("MatMul", ["flat", "W"], ["scores"])]
    functions = []
    if function:
        body = (
            [helper.make_node("Tanh", ["a"], ["b"])] if not mixes else [helper.make_node("CumSum", ["a", "z"], ["b"])]
        )
        zero = helper.make_node("Constant", [], ["z"], value_int=0)
        functions = [helper.make_function("mine", "Tanh", ["a"], ["b"], [zero, *body], [helper.make_opsetid("", 17)])]
        nodes[0] = helper.make_node("Flatten", ["image"], ["first"])
        nodes.insert(1, helper.make_node("Tanh", ["first"], ["flat"], domain="mine"))
    weights = numpy_helper.from_array(np.cos(np.arange(12)).reshape(4, 3).astype(np.float32), "W")
    graph = helper.make_graph(
        nodes,
        "linear",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 2, 2])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 3])],
        [weights],
    )
    imports = [helper.make_opsetid("", 17), *([helper.make_opsetid("mine", 1)] if function else [])]
    return helper.make_model(graph, opset_imports=imports, ir_version=9, functions=functions, **field)


def inspected(graph: bytes, shape: tuple[int, ...]) -> tuple[Frozen, ProofReport]:
    """What votes, after the optimizer, and what is proved of it."""
    here = Runtime(graph, read_facts(graph), threads=1)
    return proved_session(here, freeze(here), shape, 5)


def saved(model: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_functions_are_judged_by_what_the_runtime_makes_of_them(tmp_path: Path) -> None:
    """onnxruntime inlines a function of a domain of its own; a harmless one is proved then, a mixing one is not."""
    harmless, mixing = linear(function=True), linear(function=True, mixes=True)
    assert not prove_graph(harmless).proved
    assert inspected(saved(harmless, tmp_path).read_bytes(), (1, 2, 2))[1].proved
    assert not inspected(saved(mixing, tmp_path).read_bytes(), (1, 2, 2))[1].proved


def test_the_graph_that_runs_is_the_one_that_the_optimizer_wrote(tmp_path: Path, architecture_file: Exported) -> None:
    """With rewriting turned off a session runs the nodes it was given: two rounds make the same graph."""
    import onnxruntime

    path = architecture_file("vit-multihead")
    levels = onnxruntime.GraphOptimizationLevel
    written = []
    content = path.read_bytes()
    for level in (levels.ORT_ENABLE_ALL, levels.ORT_DISABLE_ALL):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = level
        options.optimized_model_filepath = str(tmp_path / f"{len(written)}.onnx")
        onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        content = Path(options.optimized_model_filepath).read_bytes()
        written.append([node.SerializeToString() for node in onnx.load_model_from_string(content).graph.node])
    assert written[0] == written[1]
    assert written[0] != [node.SerializeToString() for node in onnx.load(path).graph.node]


def test_scores_are_those_of_a_plain_session(architecture_file: Exported) -> None:
    """Bit for bit: the same kernels run."""
    import onnxruntime

    path = architecture_file("cnn")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    plain = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    batch = np.random.default_rng(0).random((5, 1, 28, 28), np.float32)
    np.testing.assert_array_equal(OnnxModel(path, threads=1).scores(batch), plain.run(None, {"image": batch})[0])


def test_a_less_optimized_graph_runs_if_only_that_is_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a rule for what full optimisation writes were missing, the next level would be taken, and said."""
    from soundsmooth.independence.proof import onnx_graph

    path = next(iter(embedded.MODELS.values()))
    full, report = inspected(path.read_bytes(), (1, 28, 28))
    assert full.level == "all"
    used = {name.rpartition(".")[0] for name in report.operators}
    if not used & {"com.microsoft.nchwc", "com.microsoft"}:
        pytest.skip("on this machine full optimisation writes standard operators only")
    for domain in used - {""}:
        monkeypatch.setitem(onnx_graph.DOMAINS, domain, {})
    less, report = inspected(path.read_bytes(), (1, 28, 28))
    assert report.proved
    assert less.level in ("extended", "basic")


def test_a_graph_that_cannot_be_written_still_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk, a graph too large for one message: the model runs as before, and nothing is proved."""
    from soundsmooth.models import onnx_session

    monkeypatch.setattr(onnx_session.Path, "read_bytes", lambda _: (_ for _ in ()).throw(OSError("no space left")))
    with open(next(iter(embedded.MODELS.values())), "rb") as file:
        found, report = inspected(file.read(), (1, 28, 28))
    assert not report.proved
    assert "no space left" in report.reason
    assert found.session.run(None, {"image": np.zeros((2, 1, 28, 28), np.float32)})[0].shape == (2, 10)

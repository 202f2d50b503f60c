"""A slice of the fuzzer of ONNX graphs, with a fixed seed: nothing false is proved, and enough is.

The whole run, and how many checks of the inspector it would miss, is recorded in docs/independence.md.
"""

from pathlib import Path

import cuts
import dialect
import fuzz
import numpy as np
import onnx
import pytest
import subject
from onnx import helper, numpy_helper

from soundsmooth.independence.proof import onnx_graph

GRAPHS = 500


@pytest.fixture(scope="module")
def found() -> fuzz.Result:
    return fuzz.run(0, GRAPHS, seed=7)


@pytest.mark.slow("proves and runs many random graphs")
def test_nothing_false_is_proved(found: fuzz.Result) -> None:
    assert [(one.number, one.false_proof) for one in found.false_proofs] == []
    assert [(one.number, one.contradiction) for one in found.contradictions] == []
    assert [(one.number, one.crash) for one in found.crashes] == []


def test_nothing_is_proved_outside_the_dialect(found: fuzz.Result) -> None:
    assert [(one.number, one.outside) for one in found.outside] == []
    assert found.planted > 0.3 * GRAPHS


def test_faults_are_seen_by_nobody_but_the_dialect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no node is held to the dialect, most of the faults go through: they are there, and they matter."""
    monkeypatch.setattr(onnx_graph, "check", lambda *_: None)
    few = fuzz.run(0, 60, seed=7)
    assert len(few.outside) > 0.3 * few.proved


def test_the_slice_is_worth_running(found: fuzz.Result) -> None:
    """A third is proved, of most operators; and rows are mixed in every tenth graph."""
    assert found.valid > 0.8 * GRAPHS
    assert found.proved > 0.3 * GRAPHS
    assert found.mixing > 0.1 * GRAPHS
    assert len(found.covered) > 60
    assert found.covered["com.microsoft.nchwc.Conv"] > 0.02 * GRAPHS


def test_the_dialect_in_the_docs_is_that_of_the_code() -> None:
    page = Path(__file__).parents[2] / "docs" / "independence.md"
    assert dialect.put(page.read_text()) == page.read_text(), "python experiments/independence/dialect.py docs/…"


def argued(node: onnx.NodeProto, **lists: list[int]) -> bool:
    """Whether [3, 4] → Relu is proved with one more node, of a runtime that takes it and shows what is lawful."""
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"]), node],
        "one",
        [helper.make_tensor_value_info("x", 1, [3, 4])],
        [onnx.ValueInfoProto(name=node.output[0] if "y" in node.input else "y")],
        [numpy_helper.from_array(np.array(entries), name) for name, entries in lists.items()],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()
    entries = {name: np.array(one) for name, one in lists.items()}
    shapes = {"x": (3, 4), "y": (3, 4), "z": (3, 4), "w": (3, 4), "wide": (3, 1, 4)}
    shapes |= {name: one.shape for name, one in entries.items()}
    return subject.argued(model, (shapes, entries), (4,), 3, False).proved


def test_what_only_planted_faults_have_found() -> None:
    """Once proved, if only the runtime did not mind: the last of each group is lawful."""
    gelu = [helper.make_node("Gelu", ["a"], outputs, domain="com.microsoft") for outputs in ([""], ["z", "w"], ["z"])]
    assert [argued(node, a=[1]) for node in gelu] == [False, False, True]
    unsqueeze = helper.make_node("Unsqueeze", ["y", "a"], ["wide"])
    assert [argued(unsqueeze, a=axes) for axes in ([9], [1, 1], [1])] == [False, False, True]
    slice_ = helper.make_node("Slice", ["y", "s", "e", "a"], ["z"])
    assert [argued(slice_, s=[0], e=ends, a=[1]) for ends in ([4, 4], [4])] == [False, True]


def test_mutants_find_the_checks_of_the_argument() -> None:
    package = Path(onnx_graph.__file__).parents[3]
    found = [cuts.rewritten(module, (package / path).read_text())[1] for module, path in cuts.MODULES.items()]
    assert sum(map(len, found)) > 100

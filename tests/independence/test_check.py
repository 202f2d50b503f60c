"""Independence, checked: honest mistakes are caught before the run, and nothing else is claimed."""

import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

import classifiers
import soundsmooth as ss
from soundsmooth.lab.gallery.entries.counter import Counter

GREY = np.full((1, 8, 8), 130, np.uint8)


def certify(scores: object, **choices: object) -> ss.Certificate:
    return ss.Smoother(scores, "1/2", **choices).certify(GREY, n=1000)


@pytest.mark.parametrize("batch", [1, 2, 7, 100, 1000])
def test_an_honest_function_passes_at_every_batch_size(batch: int) -> None:
    """A false alarm needs two rows whose mean is within rounding of one half: below 1e-6 for all sizes together."""
    assert certify(classifiers.brightness, batch_size=batch).independence == "checked"


@pytest.mark.parametrize(
    ("scores", "text"),
    [
        (classifiers.batch_mean, "depends on its batch: .* in other company"),
        (classifiers.softmax_over_batch, "depends on its batch"),
        (classifiers.first_row, "row's position"),
        (classifiers.Calls(), "depends on its batch: .* when voted again"),
    ],
)
def test_honest_mistakes_are_refused(scores: object, text: str) -> None:
    """The batch's mean is moved by 0.25 with half of the rows black or white, 16 standard deviations from one half.

    With the softmax 57 of 400 votes change in the mean, with a deviation of 5, where three are enough: 11 deviations.
    The other two leave nothing to chance.
    """
    with pytest.raises(ValueError, match=text):
        certify(scores)


def test_the_check_can_be_left_out_and_the_certificate_says_so() -> None:
    assert certify(classifiers.first_row, independence="assumed").independence == "assumed"


def test_the_check_can_be_evaded() -> None:
    """A model that is honest for its first million rows passes, and so does one that counts further than the check."""
    assert certify(classifiers.Evader()).independence == "checked"
    assert certify(Counter(10**6)).independence == "checked"


class Data(torch.nn.Module):
    """Control flow that depends on data: torch.export cannot follow it. The rows are independent."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.flatten(1).mean(1)
        if bool(x.sum() > 1e9):
            raise AssertionError
        return torch.stack([0.5 - mean, mean - 0.5], 1)


class Company(Data):
    """The same, but a row is compared with the others of its batch."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x - x.mean() + 0.5)


@pytest.mark.slow("starts processes that vote on rows alone")
def test_a_module_that_cannot_be_exported_is_measured() -> None:
    """Row 7 of the ledger: measured where it cannot be proved. (A copy is dark in 3 of 10⁶ cases.)"""
    smooth, image = ss.Smoother(Data(), "1/2"), np.full((1, 8, 8), 200, np.uint8)
    with pytest.warns(
        ss.IndependenceWarning, match=r"not proved \(torch.export cannot .*, about .* s an image; .* 0.0076"
    ):
        found = smooth.certify(image, n=200)  # rows are drawn again and again
    with warnings.catch_warnings(action="error"):
        assert smooth.certify(image, n=20).independence == found.independence  # it is said once
    assert found.independence == "measured m=1000"
    assert found.measured is not None
    assert found.measured.lost == 0
    assert found.radius > 0


def test_one_that_cannot_be_made_elsewhere_either_is_checked() -> None:
    """As in a notebook: a fresh process does not know the class."""

    class Local(Data):
        pass

    with pytest.warns(
        ss.IndependenceWarning, match=r"only checked, not proved \(.*\) and not measured \(.*Local.*\)"
    ) as said:
        assert certify(Local()).independence == "checked"
    assert said[0].filename == __file__
    assert certify(Data(), independence="checked").independence == "checked"


MODULE = """
import torch

class Branch(torch.nn.Module):
    def forward(self, x):
        mean = x.flatten(1).mean(1)
        return torch.stack([0.5 - mean, mean - 0.5], 1) if bool(x.sum() < 1e9) else None
"""
SCRIPT = """
import numpy as np
import soundsmooth as ss
from soundsmooth.core import independence

independence.AGAIN = 30  # instead of 1000 rows

print("the script runs")
print(ss.Smoother(Branch(), "1/2").certify(np.full((1, 8, 8), 200, np.uint8), n=50).independence)
"""


@pytest.mark.parametrize(
    ("beginning", "known_by"), [("from branch import Branch", "measured m=30"), (MODULE, "checked")]
)
@pytest.mark.slow("starts processes that vote on rows alone")
def test_a_plain_script_is_never_run_twice(beginning: str, known_by: str, tmp_path: Path) -> None:
    """It may have trained the model. A class that only the script defines is not worth that, unless it is asked for."""
    (tmp_path / "branch.py").write_text(MODULE)
    (tmp_path / "script.py").write_text(beginning + SCRIPT)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert f"script.py:{(beginning + SCRIPT).count(chr(10))}: IndependenceWarning: independence is " in done.stderr
    warned = (
        "not measured (only the script or notebook that is running defines the model; move it into a file of its own)"
    )
    assert (warned in done.stderr) == (known_by == "checked")
    assert done.stdout.splitlines() == ["the script runs", known_by]


@pytest.mark.slow("starts processes that vote on rows alone")
def test_before_it_is_measured_it_is_checked() -> None:
    """Nobody asked for a measurement, so an honest mistake is an error and not a low radius."""
    with pytest.raises(ValueError, match="depends on its batch"):
        certify(Company())
    # Votes against the mean of their batch have a deviation of 9.5 in 1000, and 563 are needed: 6.6 σ, or 2e-11.
    assert certify(Company(), independence="measured", again=100).radius == 0


@pytest.mark.parametrize("choice", [{"bound": "runner-up"}, {"noise": "batchwise"}])
def test_what_cannot_be_measured_says_what_to_do(choice: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="measures nothing"):
        list(ss.Smoother(Data(), "1/2").certify_all(GREY[None], n=100, **choice))


def test_a_graph_that_cannot_be_proved_is_checked(tmp_path: object) -> None:
    """A fixed batch cannot be split; other company shows that a row is compared with the mean of its batch.

    So change 25 of 150 votes in the mean, with a deviation of 2.5, where two are enough: 9 deviations.
    """
    nodes = [
        helper.make_node("Flatten", ["image"], ["flat"]),
        helper.make_node("ReduceMean", ["flat"], ["mean"], axes=[1], keepdims=1),
        helper.make_node("ReduceMean", ["flat"], ["all"], axes=[0, 1], keepdims=1),
        helper.make_node("Sub", ["mean", "all"], ["up"]),
        helper.make_node("Neg", ["up"], ["down"]),
        helper.make_node("Concat", ["down", "up"], ["scores"], axis=1),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [50, 1, 8, 8])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [50, 2])
    graph = helper.make_graph(nodes, "g", [image], [scores])
    path = tmp_path / "fixed.onnx"  # type: ignore[operator]
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    with pytest.raises(ValueError, match="in other company"):
        certify(path)


def broken(batch: np.ndarray) -> np.ndarray:
    raise RuntimeError("no memory\nat all")


def test_a_model_that_always_fails_is_one_clear_line() -> None:
    with pytest.raises(ValueError, match=r"failed while its rows were checked: RuntimeError: no memory$"):
        certify(broken)


def test_batches_that_the_run_does_not_have_may_fail() -> None:
    assert certify(classifiers.NotAlone()).independence == "checked"


def test_the_check_costs_a_few_batches() -> None:
    rows = 0

    def counted(batch: np.ndarray) -> np.ndarray:
        nonlocal rows
        rows += len(batch)
        return classifiers.brightness(batch)

    start = time.perf_counter()
    certify(counted)
    assert rows - 1100 <= 10 * 100
    assert time.perf_counter() - start < 20

"""Models that work against a measurement: none of them gets a certificate.

In batches every row is a hit: without a measurement p_lower would be 0.98. Of rows alone none is a hit; of coins, 0.6.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, save

import measured_attacks
import measured_attacks_torch
import soundsmooth as ss
from soundsmooth.runs.pipeline import certify_into, open_store
from soundsmooth.runs.stored import Failure
from soundsmooth.verification import audit_file
from verification.issuer import given, issue, measured_run
from verification.test_audits_measured import forge_rows

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="rows are voted alone in forked processes")

M = 60
IMAGE = np.full((1, 4, 4), 130, np.uint8)


def smoother(scores: object, again: int = M) -> ss.Smoother:
    return ss.Smoother(scores, "1/2", independence="measured", again=again, batch_size=100)


def certify(smooth: ss.Smoother) -> ss.Certificate:
    return smooth.certify(IMAGE, n0=20, n=500, seed="measured")


@pytest.mark.parametrize("model", [measured_attacks.Remembering, measured_attacks_torch.RememberingModule])
@pytest.mark.slow("starts processes that vote on rows alone")
def test_memory_does_not_travel(model: type) -> None:
    """Also if the same smoother, or another one for the same object, is asked for the same noise again."""
    live = model()
    smooth = smoother(live)
    certify(smooth)
    for each in (smooth, smoother(live)):
        found = certify(each)
        assert found.measured.lost == M
        assert found.abstained


def test_memory_does_not_travel_after_a_murder(tmp_path: Path) -> None:
    """The process that forks dies with the first row; so does every other one that is made in its place. (Where a row
    may not kill, it votes for nobody.)
    """
    run = measured_run((0, 7), measured_attacks.Murderous(str(tmp_path / "mark")))
    with open_store(tmp_path / "run.db", run) as store:
        assert all(isinstance(each, Failure) or each.abstained for each in certify_into(store, run))


def test_memory_does_not_travel_to_the_auditors_rows(tmp_path: Path) -> None:
    """A store that hides lost rows: the auditor's model has seen the drawn blocks before their rows are voted alone."""
    run = measured_run((0, 7), measured_attacks.Remembering(), again=60)
    path = issue(tmp_path / "run.db", run)
    assert forge_rows(path, 0, run) > 50
    assert not audit_file(path).refuted
    result = audit_file(path, given=given("all", measured_attacks.Remembering()))
    assert result.refuted
    assert not result.full
    assert result.replay.statements[0].alone.radius == 0


COINS = [
    *map(measured_attacks.Coin, ["python", "numpy", *measured_attacks.HELD]),
    measured_attacks_torch.TorchCoin(),
]


@pytest.mark.parametrize("model", COINS, ids=lambda model: getattr(model, "kind", "torch"))
@pytest.mark.slow("starts processes that vote on rows alone")
def test_every_row_tosses_a_coin_of_its_own(model: object) -> None:
    """d ~ Bin(60, 0.4): outside of 5 … 43 with probability 5e-7. One coin for all rows would give 0 or 60.

    The coins are functions of the rows, so an auditor tosses the same. (Of every kind two processes toss alike before
    a measurement; other coins differ there with probability 1 − 2⁻¹⁶. One kind is measured twice.)
    """
    found = certify(smoother(model))
    assert 5 <= found.measured.lost <= 43
    if model is COINS[0]:
        assert certify(smoother(model)).measured == found.measured


def test_a_coin_that_was_tossed_when_the_model_was_made_is_recognised() -> None:
    """Two makings differ with probability ½, then on all rows. Forty never do with probability 1e-12."""
    with pytest.raises(ValueError, match="16 of 16 rows got another vote"):
        list(map(certify, map(smoother, ["measured_attacks:make_secret"] * 40)))


@pytest.fixture
def process_as_before() -> Iterator[None]:
    """These models are made in the process of the tests too: what they open and limit there ends with the test."""
    import resource

    limits, opened = resource.getrlimit(resource.RLIMIT_NOFILE), set(descriptors())
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    for each in set(descriptors()) - opened:
        with suppress(OSError):
            os.close(each)


def descriptors() -> range | list[int]:
    """Those that a model may have duplicated."""
    listed = Path("/proc/self/fd")
    return [int(each.name) for each in listed.iterdir() if int(each.name) >= 100] if listed.exists() else range(0)


@pytest.mark.parametrize("name", ["make_counting", "make_listening", "make_listening_beyond"])
@pytest.mark.usefixtures("process_as_before")
def test_a_row_learns_nothing_of_others(name: str) -> None:
    """Neither how many there were before, nor what they are."""
    found = certify(smoother(f"measured_attacks:{name}"))
    assert found.measured.lost == M
    assert found.abstained


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("make_sharing", "keeps memory that processes share"),
        ("make_threaded", "leaves threads running"),
        ("make_helped", "leaves processes running"),
        ("make_orphaned", "leaves processes running"),
    ],
)
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not tell")
def test_what_goes_on_beside_the_rows_is_refused(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        certify(smoother(f"measured_attacks:{name}"))


@pytest.mark.parametrize("operator", ["RandomNormalLike", "Dropout"])
def test_graphs_that_draw_are_refused(operator: str, tmp_path: Path) -> None:
    """onnxruntime's own generators cannot be seeded: forked processes would share them."""
    operands = {"RandomNormalLike": ["flat"], "Dropout": ["flat", "half", "yes"]}[operator]
    nodes = [
        helper.make_node("Flatten", ["image"], ["flat"]),
        helper.make_node(operator, operands, ["noise"]),
        helper.make_node("Slice", ["noise", "first", "last", "axis"], ["scores"]),
    ]
    numbers = {"first": [0], "last": [2], "axis": [1]}
    constants = [helper.make_tensor(name, TensorProto.INT64, [1], value) for name, value in numbers.items()]
    constants += [helper.make_tensor("half", TensorProto.FLOAT, [], [0.5])]
    constants += [helper.make_tensor("yes", TensorProto.BOOL, [], [True])]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 4, 4])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 2])
    graph = helper.make_graph(nodes, "g", [image], [scores], constants)
    path = tmp_path / "model.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    with pytest.raises(ValueError, match="the graph draws at random"):
        smoother(path)
    by_default = ss.Smoother(path, "1/2").smoothing.prepared((1, 4, 4), 10).independence.text
    assert by_default == {"RandomNormalLike": "checked", "Dropout": "proved"}[operator]  # the optimizer drops Dropout


@pytest.mark.skipif(sys.platform != "linux", reason="what is tried is Linux's")
def test_no_path_leads_to_what_batches_have_left(tmp_path: Path) -> None:
    found = certify(smoother(measured_attacks.Marking(str(tmp_path))))
    assert found.measured.lost == M


@pytest.mark.skipif(sys.platform != "linux", reason="what is tried is Linux's")
def test_memory_with_a_number_is_shared_by_nobody() -> None:
    found = certify(smoother(measured_attacks.Attaching()))
    assert found.measured.lost == M


def test_a_row_that_changes_the_process_it_comes_from_is_the_last() -> None:
    """Where it may not, it fails."""
    with suppress(ValueError):
        assert certify(smoother(measured_attacks.Nudging())).measured.lost == M


def test_files_cannot_be_opened_by_a_row(tmp_path: Path) -> None:
    """A model that asks a file fails on every row, and is lost there."""
    found = certify(smoother(measured_attacks.Writing(str(tmp_path / "rows"))))
    assert found.measured.lost == M

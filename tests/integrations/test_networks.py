"""Networks of torchvision, transformers and timm are proved, as torch modules and as ONNX files.

Not part of the ordinary tests, which need none of these packages: `make test-integrations` runs it.
"""

from pathlib import Path

import pytest
import torch

from architectures import exported_module
from integrations.networks import MIXING, NETWORKS, REWRITTEN, Network, scores_of
from integrations.proving import Proof, proved_file, proved_module

BATCH = 8
FORMS = ("torch", "onnx")


def made(network: Network) -> torch.nn.Module:
    pytest.importorskip(network.library)
    return network.module()


def proof_of(module: torch.nn.Module, shape: tuple[int, ...], form: str, folder: Path) -> Proof:
    if form == "torch":
        return proved_module(module, shape, BATCH)
    return proved_file(exported_module(module, shape, folder / "model.onnx"), shape, BATCH)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NETWORKS)
def test_network_is_proved(name: str, form: str, tmp_path: Path) -> None:
    """And what votes in its place computes what the network computes, but for known faults of the optimizer."""
    network = NETWORKS[name]
    module = made(network)
    proof = proof_of(module, network.shape, form, tmp_path)
    assert proof.report.proved, proof.report.reason
    images = torch.rand(BATCH, *network.shape)
    with torch.no_grad():
        expected, found = scores_of(module(images)), proof.scores(images)
    same = torch.allclose(found, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))
    assert same == ((name, form) not in REWRITTEN), float((found - expected).abs().max())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", MIXING)
def test_network_that_mixes_rows_is_refused(name: str, form: str, tmp_path: Path) -> None:
    """Its first row changes when another row is replaced, which is seen here too: the refusal is right."""
    network = MIXING[name]
    module = made(network)
    images = torch.rand(3, *network.shape)
    others = torch.cat([images[:2], 3 * images[:1]])
    with torch.no_grad():
        assert not torch.allclose(module(images)[0], module(others)[0], rtol=1e-3, atol=1e-4)
    assert not proof_of(module, network.shape, form, tmp_path).report.proved

"""A Smoother certifies as the golden files say: promises, counts, bounds, labels and radii, bit for bit."""

from typing import Any

import pytest

from golden.surface import certificates, golden, needs_golden_torch, promise_of, record
from soundsmooth.runs import lone_image, plan


@pytest.mark.parametrize("case", golden("certificates.json"), ids=lambda case: case["name"])
def test_certificates_are_the_golden_ones(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    needs_golden_torch(case["model"])
    if case["name"] == "some NaN votes":  # its label is no class of its model, which was allowed then
        for module in (lone_image, plan):
            monkeypatch.setattr(module, "check_labels", lambda labels, classes: None)
    issued = certificates(case)
    assert [promise_of(each).splitlines() for each in issued] == [case["promise"]] * len(issued)
    found = [record(each) for each in issued]
    assert found == case["records"]
    assert [list(each) for each in found] == [list(each) for each in case["records"]]  # in the same order


def test_the_golden_certificates_are_of_every_kind() -> None:
    records = [each for case in golden("certificates.json") for each in case["records"]]
    assert any(each["label"] is None for each in records)
    assert any(each["label"] is not None and each["estimation"]["nobody"] for each in records)
    assert any(each["estimation"]["nobody"] > max(each["estimation"]["classes"]) for each in records)
    assert any(each["p_upper"] for each in records)
    assert any(each["nonce"] for each in records)
    measured = [each["measured"] for each in records if "measured" in each]
    assert {bool(each["lost"]) for each in measured} == {True, False}

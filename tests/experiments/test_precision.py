"""What a network sees in three precisions: the same noise, other casts."""

from fractions import Fraction

import precision as precisions
import pytest
import torch
from precision import differences


class Threshold(torch.nn.Module):
    """Class 1 where the first value is above a bound."""

    def __init__(self, bound: float) -> None:
        super().__init__()
        self.bound = bound

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        above = x[:, 0, 0, 0].float() - self.bound
        return torch.stack([-above, above], dim=1)


def test_levels_are_moved_by_their_cast() -> None:
    """Against the definition: to nearest, with 11 and with 8 bits."""
    found = precisions.level_errors()
    for name, bits in (("float16", 11), ("bfloat16", 8)):
        units = {level: Fraction(1, 2 ** (_leading(Fraction(level, 255)) + bits - 1)) for level in range(1, 256)}
        moved = [round(Fraction(t, 255) / unit) * unit - Fraction(t, 255) for t, unit in units.items()]
        assert found[name]["mean"] == float(sum(moved) / 256)
        assert found[name]["largest"] == float(max(map(abs, moved)))
    assert found["bfloat16"]["mean"] > 1000 * abs(found["float16"]["mean"])


def _leading(value: Fraction) -> int:
    """How many doublings bring it to 1 or more."""
    doublings = 0
    while value < 1:
        value, doublings = value * 2, doublings + 1
    return doublings


@pytest.mark.parametrize(
    ("bound", "precision", "share"),
    [
        (229.5 / 255, "float32", 0.0),  # just where levels are rounded
        (229.75 / 255, "float32", 0.1),  # what lies between 229.5 and 229.75 becomes 230
        (230.1 / 255, "float32", -0.16),  # what lies between 230.1 and 230.5 becomes 230
        (230.1 / 255, "bfloat16", 0.04),  # a level is above it from 230.5 on, a sum from 231.5 · 255/256 = 230.6 on
    ],
)
def test_votes_under_the_same_noise(bound: float, precision: str, share: float) -> None:
    """σ is a level: a density of about 0.4 per level around 230. The seed is fixed."""
    image = torch.full((32, 32, 3), 230, dtype=torch.uint8)
    dtype, noise = getattr(torch, precision), torch.Generator().manual_seed(0)
    module, copies = Threshold(bound), 2000
    differ, more = differences(module, dtype, image, 1, 1 / 255, copies, noise)
    assert abs(more) == differ  # here all go the same way
    assert more / copies == pytest.approx(share, abs=0.03)
    noise.manual_seed(0)
    assert differences(module, dtype, image, 0, 1 / 255, copies, noise) == (differ, -more)


def test_the_table() -> None:
    counts = {"differ": [1, 3], "more": [1, -3]}
    row = {"sigma": "0.25", "images": 2, **dict.fromkeys(precisions.PRECISIONS, counts)}
    text = precisions.tables({"copies": 500, "levels": precisions.level_errors(), "networks": [row]})
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1
    assert lines[-1] == "| 0.25 |" + " 4.00 (-2.000, -6) |" * 3

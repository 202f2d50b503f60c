"""What a network sees in three precisions: the same noise, other casts."""

from fractions import Fraction

import numpy as np
import precision
import torch


class Threshold(torch.nn.Module):
    """Class 1 where the first value is above 0.9: 0.9 = 229.5/255 lies between two levels."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        above = x[:, 0, 0, 0] - 0.9
        return torch.stack([-above, above], dim=1)


def test_levels_are_moved_by_their_cast() -> None:
    """Against the definition: to nearest, with 11 and with 8 bits."""
    found = precision.level_errors()
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


def test_votes_under_the_same_noise() -> None:
    """Without noise a pixel of level 230 is above 0.9 whatever the cast; a tiny one moves sums, but no level."""
    image = np.full((32, 32, 3), 230, np.uint8)
    generator = torch.Generator().manual_seed(0)
    assert not precision.votes(Threshold(), image, 1, 0.0, generator).any()
    found = precision.votes(Threshold(), image, 1, 0.1, generator)
    changed, more = found.T
    assert (more.abs() <= changed).all()
    assert changed[0] == 0  # 229.5 is where levels are rounded


def test_the_table() -> None:
    kinds = [" ".join(kind) for kind in precision.INPUTS]
    row = {
        "sigma": "0.25",
        "images": 2,
        "changed": {kind: [1, 3] for kind in kinds},
        "moved": {kind: [1, -3] for kind in kinds},
    }
    text = precision.tables({"copies": 500, "levels": precision.level_errors(), "networks": [row]})
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1
    assert lines[-1] == "| 0.25 |" + " 4.00 (-2.00, -6) |" * 5

"""Write the tables on section 4 of the paper into docs/paper.md: Proposition 4.1 and the alternatives of 4.3.

    python experiments/cifar10/section4.py docs/data/proposition.json docs/data/alternatives.json docs/paper.md

No number there is typed by hand.
"""

import json
from pathlib import Path
from typing import Any

from soundsmooth.lab.scripts.arguments import paths
from soundsmooth.lab.scripts.pages import fill, table


def main(proposition: Path, alternatives: Path, page: Path) -> None:
    """Fill in what was measured so far."""
    for source, name, tables in (
        (proposition, "proposition", of_proposition),
        (alternatives, "alternatives", of_alternatives),
    ):
        if source.exists():
            fill(page, name, tables(json.loads(source.read_text(encoding="utf-8"))))


COUNTS = {
    "right": "certified",
    "large": "radius ≥ 3",
    "flipped": "x + p is the other class",
    "contradicted": "contradicted",
}


def of_proposition(found: dict[str, Any]) -> str:
    rows = [(part["n"], name, row) for part in found["parts"] for name, row in part.items() if isinstance(row, dict)]
    body = [
        [
            str(n),
            str(row["images"]),
            name,
            *(str(row[each]) for each in COUNTS),
            f"{row['wrong votes']} of {row['votes']}",
        ]
        for n, name, row in rows
    ]
    distances = [end for _, _, row in rows for end in row["distances"]]
    note = (
        f"‖p‖₂ lies between {min(distances):.3f} and {max(distances):.3f}. *Certified* counts certificates of the "
        "image's own class, at α = 0.001, as does *radius ≥ 3*. *x + p is the other class* means: established at α "
        "divided by the number of images; *contradicted* counts images whose certified ball contains such an x + p, "
        "with a certificate at that α as well."
    )
    return f"{table(['n', 'images', 'certifier', *COUNTS.values(), 'wrong votes'], body)}\n\n{note}"


NORMS = {"linf": "ℓ∞", "l2 below": "ℓ2, at least", "l2 above": "ℓ2, at most"}


def of_alternatives(found: dict[str, Any]) -> str:
    rows = found["networks"]
    kinds = ("plain", "residual")
    head = ["σ", *(f"{norm}, {kind}" for norm in NORMS.values() for kind in kinds), "margin", "slope"]
    products = [
        [f"{row['sigma']}", *(power(row, norm, kind) for norm in NORMS for kind in kinds),
         f"{row['margin'][1]:.3g}", f"{row['slope'][1]:.3g}"]
        for row in rows
    ]  # fmt: skip
    boxes = [each["box"] for each in rows[0]["intervals"]]
    widths = [
        [f"{row['sigma']}", *(f"{each['width / margin'][1]:.1e} ({each['decided']})" for each in row["intervals"])]
        for row in rows
    ]
    copies = rows[0]["copies"]
    return (
        "Decimal logarithms of the products of the layers' operator norms (*plain*: the trunk alone, without "
        "shortcuts; *residual*: a bound of the network's Lipschitz constant), and medians over "
        f"{copies} noisy copies of the vote's margin and of its slope, ‖∇ margin‖₁:\n\n{table(head, products)}\n\n"
        "One pass of interval arithmetic for a box around a noisy copy: the width of the logits' intervals over the "
        f"margin (median), and in brackets how many of the {copies} copies are decided:\n\n"
        f"{table(['σ', *boxes], widths)}"
    )


def power(row: dict[str, Any], norm: str, kind: str) -> str:
    """None is the logarithm of 0."""
    found = row["log10 of the product"][norm][kind]
    return "−∞" if found is None else f"{found:.1f}"


if __name__ == "__main__":
    main(*paths(__doc__, "proposition", "alternatives", "page"))

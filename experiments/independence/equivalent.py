"""Checks that can go without anything being proved wrongly, and why: the short list.

The first entry whose text a mutant's name begins with counts, and only for a mutant that was not found. Beside these
there are mutants whose check was never asked while the argument was made for the whole corpus (`mutants`): they serve
torch's rules, and `torch_mutants` takes them out.
"""

#: Another check, or the next line, refuses the same graphs; this one is there for its text, or for types.
IMPLIED = "implied"

REASONS: tuple[tuple[str, str, str], ...] = (
    ("values.integers without `value.entries is None`", IMPLIED, "None has no entries: the next line fails"),
    ("flow.transposed without `sorted", IMPLIED, "the form of `perm` says so, and the other orders are our own"),
    ("flow.product_of_matrices without `left.rank < 2`", IMPLIED, "a vector has no axis −2: a later line fails"),
    ("onnx_rules._each_its_own without `indices.entries is None`", IMPLIED, "None has no axis: the next line fails"),
)


def reason(mutant: str) -> tuple[str, str] | None:
    """Why a mutant cannot be found: kind and text; None if nothing is known that says so."""
    return next(((kind, why) for text, kind, why in REASONS if mutant.startswith(text)), None)

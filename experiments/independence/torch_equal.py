"""Checks of the torch inspector that no graph can miss, and why: such mutants are counted apart if they are not found.

All but three are in `flow` and `values`, which rules for ONNX graphs share. Shapes come from a run, so what torch
refuses never comes to a rule.
"""

REFUSED = "torch refuses such a call"
FAILS = "without it the next lines raise another error, which is no proof either"

#: By the name of the mutant.
EQUAL: dict[str, str] = {
    "values.axis_of without `not -rank <= axis < rank`": REFUSED,
    "values.alike without `value.entries is None`": FAILS,
    "flow.elementwise without its statement": REFUSED,
    "flow.tiled without `len(repeats) != value.rank`": REFUSED,
    "flow.concatenated without `len({(*value.shape[:axis], *value.shape[axis + 1 :]) for value in values}) > 1`": (
        REFUSED
    ),
    "flow.product_of_matrices without `left.rank < 2`": FAILS,
    'flow.summed without `not "".join([*terms, right]).isalpha()`': "dots stand three times in a term",
    "flow.summed without `len(term) != value.rank`": REFUSED,
    "flow.summed without `any(sizes.setdefault(*one) != one[1] for one in zip(term, value.shape, strict=False))`": (
        FAILS
    ),
    "table instance_norm.default takes any running_mean": "torch refuses one of the statistics without the other",
    "table instance_norm.default takes any running_var": "torch refuses one of the statistics without the other",
    "table pixel_shuffle.default is fresh": "on the CPU it always copies; elsewhere it may not",
}

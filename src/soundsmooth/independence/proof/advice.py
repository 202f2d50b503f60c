"""What would give a proof, where there is none."""

EVAL = "export the model in evaluation mode: model.eval()"
ANY_BATCH = 'export it for any batch size: dynamic_shapes=[{0: torch.export.Dim("batch")}]'
APART = "keep the first axis out of it: flatten(1), mean(dim=(1, 2, 3)), softmax(dim=1)"
NO_DRAWS = "nothing may be drawn at random: no rand, and no dropout outside of evaluation mode"
#: Operators of torch that reduce the whole batch to one number, and those that draw, there and in ONNX.
WHOLE = [f"aten.{name}.default" for name in ("mean", "sum", "max", "min", "prod", "median")]
RANDOM = ("Random", "Bernoulli", "Multinomial", "aten.rand", "aten.bernoulli", "aten.multinomial", "dropout.default")
#: By words of the reason why there is no proof; the first that fits is taken.
ADVICE = {
    "training_mode is set": EVAL,
    "by the batch's own mean": EVAL,
    "fixed to a batch of": ANY_BATCH,
    "does not take batches of": ANY_BATCH,
    "batch axis": APART,
    "rows see each other": APART,
    "cuts rows up": "flatten(1) keeps rows apart",
    "data-dependent": "no branch may depend on values: torch.where(condition, a, b) instead of if",
    "keeps state": "return one tensor, and leave input, buffers and attributes as they are",
    **dict.fromkeys(WHOLE, APART),
    **dict.fromkeys(RANDOM, NO_DRAWS),
    "no rule for this operator": "another operator in its place may have a rule",
}


def advice_for(reason: str) -> str | None:
    """What to change in a model that is not proved for this reason; None if nothing is known to help."""
    return next((advice for words, advice in ADVICE.items() if words in reason), None)

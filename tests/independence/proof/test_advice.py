"""Advice that fits the reason, and none where nothing is known to help."""

import pytest

from soundsmooth.independence.proof.advice import ANY_BATCH, APART, EVAL, NO_DRAWS, advice_for


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("BatchNormalization 'bn': it normalises by the batch's own mean and variance", EVAL),
        ("Dropout 'drop': it drops entries at random: training_mode is set", EVAL),
        ("the graph is fixed to a batch of 8", ANY_BATCH),
        ("the graph does not take batches of [100, 3, 32, 32]", ANY_BATCH),
        ("Softmax 'mixed': it works along the batch axis, so rows see each other", APART),
        ("aten.mean.default 'mean': there is no rule for this operator", APART),
        ("aten.randn_like.default 'noise': there is no rule for this operator", NO_DRAWS),
        ("aten.feature_dropout.default 'drop': the rule is for train False", NO_DRAWS),
        ("RandomNormalLike 'noise': there is no rule for this operator", NO_DRAWS),
        ("Sort 'mixed': it works along the batch axis, so rows of RandomBlock see each other", APART),
        ("the witness disagrees: row 3 of 'scores' differs", None),
    ],
)
def test_advice_fits_the_reason(reason: str, advice: str | None) -> None:
    assert advice_for(reason) == advice

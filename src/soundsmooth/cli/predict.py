"""`soundsmooth predict`: the smoothed classifier's answers, or abstentions."""

from rich.console import Console

from ..certification.goal import named_looks
from ..certification.prediction import Prediction
from ..certification.settings import copies
from ..core.progress import Meter
from ..exact import probability
from ..runs.output import PREDICT_HEADER, Output
from ..smoothing.prediction import predict
from .options import ALPHA, PREDICT_COPIES, Choices
from .plain import say, screen
from .prepare import inputs, smoother
from .screens import judge

ROW = "{:>6}  {:>5}  {:>7}  {:<8}  {:>7}"


def run_predict(choices: Choices) -> None:
    """Predict, show, write."""
    console = screen(choices.get("quiet", False))
    n = copies(choices.get("n", PREDICT_COPIES), "n")
    alpha = probability(choices.get("alpha", ALPHA), "alpha")
    looks = choices.get("looks")
    named_looks(looks, n, alpha)  # what is wrong is said before the model is loaded
    with Output(choices.path("out"), PREDICT_HEADER) as output:
        smooth = smoother(choices)
        images = inputs(choices, smooth.smoothing.law.grid)
        count, correct, voted = len(images.levels), 0, 0
        labelled = all(truth is not None for truth in images.labels)
        with Meter("predicting", count, count, right=0 if labelled else None, console=console) as meter:
            console.print(f"[bold]{ROW.format('idx', 'label', 'predict', 'correct', 'time')}[/]", highlight=False)
            for place, (index, x, truth) in enumerate(zip(images.indices, images.levels, images.labels, strict=True)):
                rounded = images.rounded[place] if images.rounded else None
                record = predict(smooth.smoothing, index, x, n, alpha, rounded, looks)
                voted += record.votes
                output.prediction(record, truth)
                right = record.label is not None and record.label == truth
                correct += right
                _show_row(console, record, truth)
                meter.finish_items(right=right)
                meter.advance(1)
    if labelled:
        console.print(f"\n{correct} of {count} correct; an abstention is a wrong answer", highlight=False)
    if looks is not None:
        console.print(f"{voted} of at most {n * count} noisy copies voted", highlight=False)
    if choices.path("out"):
        say(console, f"written to {choices.path('out')}")


def _show_row(console: Console, record: Prediction, truth: int | None) -> None:
    answer = "abstain" if record.label is None else record.label
    correct, colour = judge(record.label, truth)
    row = ROW.format(record.index, "?" if truth is None else truth, answer, correct, f"{record.seconds:.2f} s")
    console.print(f"[{colour}]{row}[/]", highlight=False)

"""The clean pass: what the model itself says to the promised images, without noise, once, after the last vote."""

from .plan import RunPlan
from .scheduler import Scheduler
from .store import Store

#: Images that are sent to a worker together.
TOGETHER = 100


def note_clean_accuracy(store: Store, plan: RunPlan, scheduler: Scheduler) -> None:
    """Count once how many images the model gets right without noise, if they have labels, and note it in the run.

    Where an image has failed, or the model fails at this, nothing is noted, and nothing else happens.

    Guarantee: no vote of the run comes after it. So nothing that a model sees here can reach a certificate.
    """
    done = store.progress()
    if done.finished < done.images or not store.labelled() or store.information.clean is not None:
        return
    correct, images = 0, plan.inputs.levels
    for first in range(0, len(images), TOGETHER):
        truths = plan.inputs.labels[first : first + TOGETHER]
        found = scheduler.ask("clean", list(images[first : first + TOGETHER]))
        if not isinstance(found, tuple) or len(found) != len(truths):
            return
        correct += sum(label == truth for label, truth in zip(found, truths, strict=True))
    store.add_clean(correct)

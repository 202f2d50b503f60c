"""How often a measured certificate is false, for models that do their worst in batches.

    python experiments/measured/coverage.py [--runs 4000]

An image is one pixel. Alone, a row is class 1 if its value is above one half, which has a known probability. In batches
the models below vote as they like. Every run goes through the engine that certifies. Only the processes in which rows
are voted alone are stood in for, by a copy of the model that is made anew from its recipe for each row.

Power: of 4000 runs more than 0.1 are false with probability 0.99997, if each is with probability 0.12.
"""

import argparse
import pickle
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

import soundsmooth as ss
from soundsmooth.certification.promise import Inputs, secret
from soundsmooth.certification.settings import settings
from soundsmooth.independence import measure as measured
from soundsmooth.models.recipe import ModelRecipe
from soundsmooth.runs.pipeline import open_store
from soundsmooth.runs.plan import RunPlan, plan_run
from soundsmooth.runs.pools import LocalPool
from soundsmooth.runs.run import finish_run
from soundsmooth.smoothing.classifier import Replica

ALPHA, N0, N, AGAIN, BATCH = "0.1", 20, 100, 100, 50
SIGMA = "0.05"
#: Classes 0 and 1 have nearly the same probability here.
LEVEL = 127


def true_p(label: int, level: int = LEVEL) -> float:
    """The probability that a row alone is in a class: of class 1, that level + T ≥ 128."""
    above = 1 - NormalDist().cdf((127.5 - level) / (float(SIGMA) * 255))
    return above if label == 1 else 1 - above


def is_bright(batch: np.ndarray) -> np.ndarray:
    return batch.reshape(len(batch), -1)[:, 0] > 0.5


def one_hot(hit: np.ndarray) -> np.ndarray:
    return np.stack([~hit, hit], axis=1).astype(np.float32)


class Honest:
    """As alone."""

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        return one_hot(is_bright(batch))


class Mean(Honest):
    """The majority of a batch votes for all of it."""

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        bright = is_bright(batch)
        return one_hot(bright if len(batch) == 1 else np.full(len(batch), bright.mean() > 0.5))


class Turning(Honest):
    """In every batch some misses of a class become hits: as many as it was told to turn."""

    def __init__(self, turned: int, label: int = 1) -> None:
        self.turned, self.label = turned, label

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        bright = is_bright(batch)
        if len(batch) > 1:
            misses = np.flatnonzero(bright != self.label)
            bright[self.among(misses)[: self.turned]] = self.label
        return one_hot(bright)

    def among(self, misses: np.ndarray) -> np.ndarray:
        return misses


class Selecting(Turning):
    """At selection, which is its first call, all rows are for its class."""

    calls = 0

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        self.calls += 1
        if self.calls == 1 < len(batch):
            return one_hot(np.ones(len(batch), bool))
        return super().__call__(batch)


class Remembering(Turning):
    """It has voted on the same noise before, for the image before. It selects the class that was luckier there."""

    calls, bright = 0, 0

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        self.calls += 1
        hits = is_bright(batch)
        if self.calls <= 3:  # selection and two batches for estimation, of the image before
            self.bright += int(hits.sum()) if self.calls > 1 else 0
            return one_hot(hits)
        if self.calls == 4:
            self.label = int(self.bright > N / 2)
            return one_hot(np.full(len(batch), self.label == 1))
        return super().__call__(batch)


class Informed(Turning):
    """It knows some rows for estimation, and leaves them as they are."""

    known: frozenset[int] = frozenset()
    first = -N0
    """The next copy for estimation."""

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        scores = super().__call__(batch)
        self.first += len(batch)
        return scores

    def among(self, misses: np.ndarray) -> np.ndarray:
        return np.array([row for row in misses if self.first + row not in type(self).known], int)


class RowsHere:
    """In the place of processes: every row gets a model of its own, made from the frozen recipe."""

    idle, seconds, classes = False, 0.0, 2

    def __init__(self, replica: Replica, shape: tuple[int, ...]) -> None:
        self._recipe = replica.model.recipe()

    def close(self) -> None:
        pass

    def votes(self, rows: Iterator[np.ndarray]) -> Iterator[int]:
        for row in rows:
            recipe: ModelRecipe = pickle.loads(self._recipe)
            yield int(np.argmax(recipe.source(row[np.newaxis])))


@dataclass(frozen=True)
class Found:
    """Of so many runs, how many gave a certificate, and how many a false one."""

    runs: int
    certified: int
    false: int


def planned(model: object, images: int, noise: str, hidden: str) -> RunPlan:
    levels = [np.full((1, 1, 1), LEVEL, np.int16)] * images
    inputs = Inputs(tuple(range(images)), levels, [None] * images)
    smooth = ss.Smoother(model, SIGMA, batch_size=BATCH, threads=1, independence="measured", again=AGAIN)
    return plan_run(LocalPool(smooth.smoothing), inputs, settings(n0=N0, n=N, alpha=ALPHA, noise=noise), secret(hidden))


def certified(model: object, images: int = 1, noise: str = "fresh", tell: int | None = None) -> ss.Certificate:
    """The last image's certificate. The model may be told, before it votes, the rows drawn for an image."""
    plan = planned(model, images, noise, secrets.token_hex(32))
    if tell is not None:
        drawn = measured.sample_rows(plan.secret, plan.promise, tell, N)
        assert drawn is not None
        Informed.known = frozenset(drawn.rows)
    with finish_run(plan, open_store(None, plan)) as run:
        return run[images - 1]


#: A name, and how one run of it goes. The last one knows what nobody may know: it shows what the seed is worth.
MODELS = {
    "honest": lambda: certified(Honest()),
    "mean over the batch": lambda: certified(Mean()),
    **{f"turns {2 * k} misses": (lambda k=k: certified(Turning(k))) for k in (1, 3, 5, 10)},
    "other votes at selection, turns 6": lambda: certified(Selecting(3)),
    **{
        f"remembers the image before, turns {2 * k}": (lambda k=k: certified(Remembering(k), 2, "shared"))
        for k in (0, 1, 3)
    },
    "knows the rows of another image, turns 40": lambda: certified(Informed(20), tell=7),
    "CONTROL knows its own rows, turns 40": lambda: certified(Informed(20), tell=0),
}
CONTROL = "CONTROL"


def tried(name: str, runs: int) -> Found:
    """So many runs of a model, with processes stood in for."""
    alone, measured.tried_voter = measured.tried_voter, RowsHere
    try:
        found = [MODELS[name]() for _ in range(runs)]
    finally:
        measured.tried_voter = alone
    labelled = [each for each in found if each.label is not None]
    false = sum(each.p_lower > true_p(each.label) for each in labelled)
    return Found(runs, len(labelled), false)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4000)
    asked = parser.parse_args()
    print(f"alpha = {ALPHA}, n0 = {N0}, n = {N}, m = {AGAIN}, p = {true_p(1):.4f} for class 1")
    print("| model | runs | certificates | false | share of runs |\n|---|---|---|---|---|")
    for name in MODELS:
        found = tried(name, asked.runs)
        share = found.false / found.runs
        print(f"| {name} | {found.runs} | {found.certified} | {found.false} | {share:.4f} |", flush=True)


if __name__ == "__main__":
    main()

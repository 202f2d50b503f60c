"""Proposition 4.1 as the paper has it: the fake classifier M on 1000 test images of CIFAR-10, standard against sound.

    python experiments/cifar10/proposition.py DATA.npz docs/data/proposition.json

DATA.npz holds CIFAR-10's test set in its usual order: the images as "x" (uint8, [10000, 32, 32, 3]) and the labels as
"y". M remembers the first 500 images of the labels 0 to 4 (class 0) and the first 500 of the labels 5 to 9 (class 1).

Every answer is a line of the .jsonl beside the result, written as soon as it is there: a run that was interrupted goes
on where it stopped. It takes about an hour of one core. What is run:

- all 1000 images at n = 6000, where radius 3 allows no wrong vote at all: standard in single and in double precision,
  which the paper tried, and ours;
- every 10th of each class at n = 6000: standard in half precision, where the paper expects the same, its published code
  and its guard band;
- every 50th of each class at the paper's n = 100 000, where radius 3 allows 100 wrong votes: as for all.
"""

import hashlib
import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from soundsmooth.core.grid import IMAGES
from soundsmooth.lab.gallery.certifiers import Answer, Certifier, CertifierTask, FloatSum, GuardBand, Ours, Standard
from soundsmooth.lab.gallery.images import load_images
from soundsmooth.lab.gallery.proposition_4_1 import RADIUS, SIGMA, Case, ImageAnswers, ask, cases, tally
from soundsmooth.lab.scripts.arguments import paths
from soundsmooth.models.environment import environment


@dataclass(frozen=True)
class Part:
    """Some certifiers at every `step`-th remembered image of each class, with n copies."""

    name: str
    n: int
    step: int
    certifiers: tuple[Certifier, ...]

    @property
    def task(self) -> CertifierTask:
        return CertifierTask(SIGMA, self.n, n0=500)


MAIN: tuple[Certifier, ...] = (Standard("float32"), Standard("float64"), Ours())
PARTS = (
    Part("all", 6000, 1, MAIN),
    Part("others", 6000, 10, (Standard("float16"), FloatSum(), GuardBand())),
    Part("sample", 100_000, 50, MAIN),
)
PAPER = {"certified accuracy at radius 3": 1, "images with another class within 1": 1, "images": 1000, "n": 100_000}

#: A part, a certifier, an image: one line of the journal.
Key = tuple[str, str, int]


def main(data: Path, out: Path, parts: Sequence[Part] = PARTS) -> None:
    """Answer what is not answered yet, then sum up."""
    both = cases(*load_images(data))
    journal = Journal(out.with_suffix(".jsonl"), fingerprint(both))
    for number, (part, certifier, case, tried) in enumerate(plan(parts, both)):
        if (part.name, certifier.name, case.image) not in journal.rows:
            start = time.process_time()
            outcome = ask(certifier, case, part.task, tried)
            journal.add(part, certifier, outcome, time.process_time() - start)
            print(number, part.name, certifier.name, case.image, outcome.first.counts, flush=True)
    write(
        out, {"paper": PAPER, "parts": [summary(part, both, journal) for part in parts], "environment": environment()}
    )


def chosen(part: Part, both: tuple[list[Case], list[Case]]) -> list[Case]:
    """The images of a part: of class 0, then of class 1."""
    return [*both[0][:: part.step], *both[1][:: part.step]]


def plan(parts: Sequence[Part], both: tuple[list[Case], list[Case]]) -> Iterator[tuple[Part, Certifier, Case, int]]:
    """Everything that is to be asked, with the number of images of its part; the certifiers take turns."""
    for part in parts:
        of_part = chosen(part, both)
        for case in of_part:
            for certifier in part.certifiers:
                yield part, certifier, case, len(of_part)


def fingerprint(both: tuple[list[Case], list[Case]]) -> str:
    """What M remembers, in order: a journal is for this and nothing else."""
    found = hashlib.sha256()
    for case in (*both[0], *both[1]):
        found.update(f"{case.image} {case.label} {case.pair.a.shape} ".encode() + case.pair.a.tobytes())
    return found.hexdigest()


class Journal:
    """One line of JSON for each answer, after a first one that says what is remembered. A torn last line is dropped."""

    def __init__(self, path: Path, remembered: str) -> None:
        self.path = path
        self.rows: dict[Key, dict[str, Any]] = {}
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            path.write_text(whole, encoding="utf-8")
        lines = [json.loads(line) for line in whole.splitlines()] or [{"remembered": remembered}]
        if lines[0] != {"remembered": remembered}:
            raise ValueError(f"{path} was written for other images: move it away")
        if not whole:
            self._append(lines[0])
        for row in lines[1:]:
            self.rows[row["part"], row["certifier"], row["image"]] = row

    def add(self, part: Part, certifier: Certifier, outcome: ImageAnswers, seconds: float) -> None:
        steps = int(outcome.squared * IMAGES.q**2)
        row = {"part": part.name, "n": part.n, "certifier": certifier.name, "image": outcome.image}
        row |= {"label": outcome.label, "steps": steps, "seconds": round(seconds, 3)}
        row |= {"first": asdict(outcome.first), "second": asdict(outcome.second)}
        self._append(row)
        self.rows[part.name, certifier.name, outcome.image] = row

    def _append(self, row: dict[str, Any]) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def outcome_of(row: dict[str, Any]) -> ImageAnswers:
    """An answer, read back."""
    first, second = (Answer(**(row[name] | {"counts": tuple(row[name]["counts"])})) for name in ("first", "second"))
    return ImageAnswers(row["image"], row["label"], Fraction(row["steps"], IMAGES.q**2), first, second)


def summary(part: Part, both: tuple[list[Case], list[Case]], journal: Journal) -> dict[str, Any]:
    """What the certifiers of a part found."""
    images = [case.image for case in chosen(part, both)]
    found: dict[str, Any] = {"name": part.name, "n": part.n, "every": part.step, "images": images}
    for certifier in part.certifiers:
        rows = [journal.rows[part.name, certifier.name, image] for image in images]
        found[certifier.name] = of_certifier(part, rows)
    return found


def of_certifier(part: Part, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts, certified accuracies (exact, as shares of all images), and the votes that they rest on.

    The certified accuracy within 1 is impossible for a classifier that x + p flips at every image.
    """
    outcomes = [outcome_of(row) for row in rows]
    count = tally(outcomes, part.task)
    right = [outcome.first.radius for outcome in outcomes if outcome.right]
    wrong_votes = [part.n - outcome.first.counts[outcome.label] for outcome in outcomes]
    return {
        **asdict(count),
        "accuracy": count.right / count.images,
        "certified accuracy": {r: sum(radius >= r for radius in right) / count.images for r in (1, RADIUS)},
        "radii": [min(right, default=None), max(right, default=None)],
        "distances": [math.sqrt(each(outcome.squared for outcome in outcomes)) for each in (min, max)],
        "wrong votes": sum(wrong_votes),
        "votes": part.n * count.images,
        "seconds": round(sum(row["seconds"] for row in rows)),
        "labels": [outcome.first.label for outcome in outcomes],
        "wrong votes at x": wrong_votes,
        "votes for the other class at x + p": [outcome.second.counts[1 - outcome.label] for outcome in outcomes],
    }


def write(out: Path, found: Any) -> None:
    """JSON with one line for each list of numbers."""
    out.write_text(lines_of(found) + "\n", encoding="utf-8")


def lines_of(found: Any, depth: int = 1) -> str:
    if isinstance(found, dict):
        inside = [f"{json.dumps(str(key))}: {lines_of(value, depth + 1)}" for key, value in found.items()]
    elif isinstance(found, list) and any(isinstance(value, dict) for value in found):
        inside = [lines_of(value, depth + 1) for value in found]
    else:
        return json.dumps(found)
    opening, closing = "{}" if isinstance(found, dict) else "[]"
    newline = "\n" + " " * depth
    return f"{opening}{newline}" + f",{newline}".join(inside) + f"\n{' ' * (depth - 1)}{closing}"


if __name__ == "__main__":
    main(*paths(__doc__, "data", "out"))

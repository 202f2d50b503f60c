"""Two checkouts of the project side by side: do they say the same, on random configurations?

    python experiments/house/side_by_side.py OLD NEW [--configurations 200] [--seed S] [--words]

Each checkout has a child process of its own, which is given the same configurations (`configurations.py`) and answers
with everything that must not change: promises, commitments, certificates, stored blocks with their votes and hits,
exports, audits, exit codes and kinds of errors, but no times and no machines (`one_side.py`). A run that is handed over
is begun by OLD, interrupted, and continued by both. Texts for people may be rewritten: `--words` compares those of
verify's JSON as well.

Ends with a table and exit code 0 if all are equal, 1 otherwise. A seed repeats a run; `--only` repeats one
configuration of it.
"""

import argparse
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import toy_models
from configurations import Configuration, draw

HERE = Path(__file__).resolve().parent
#: Seconds for one configuration on one side.
PATIENCE = 180.0
#: Differences of one configuration that are printed.
SHOWN = 6
#: Texts for people in what verify says in JSON.
WORDS = {"text", "notes", "first", "conclusion", "what counts"}
#: What an error says: its kind and the exit code are compared, its words are not.
ERRORS = {"error text"}
#: That blocks of one image were voted by two releases is rightly a finding on one side only.
CHANGED_HANDS = {"findings kept", "notes"}
FAILED, INTERRUPTED = 2, 130
EQUAL, ALIKE, DIFFERENT = "equal", "errors alike", "different"


class Side:
    """The child process of one checkout; a new one after it hung or died."""

    def __init__(self, name: str, checkout: Path, folder: Path) -> None:
        self.name, self._checkout, self._folder = name, checkout.resolve(), folder / name
        self._folder.mkdir()
        self._child: subprocess.Popen[str] | None = None

    def folder(self, asked: Configuration) -> Path:
        return self._folder / str(asked["number"])

    def ask(self, asked: Configuration) -> Any:
        """What came of the configuration on this side."""
        if self._child is None:
            self._child = self._start()
        child = self._child
        assert child.stdin is not None
        assert child.stdout is not None
        alarm = threading.Timer(PATIENCE, child.kill)
        alarm.start()
        try:
            child.stdin.write(json.dumps({**asked, "folder": str(self.folder(asked))}) + "\n")
            child.stdin.flush()
            line = child.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            alarm.cancel()
        if not line:
            self.close()
            return {"died": f"the child of {self.name} gave no answer"}
        return json.loads(line)

    def _start(self) -> "subprocess.Popen[str]":
        path = os.pathsep.join((str(self._checkout / "src"), str(HERE), os.environ.get("PYTHONPATH", "")))
        environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "200", "PYTHONDONTWRITEBYTECODE": "1"}
        environment |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        words = [sys.executable, str(HERE / "one_side.py"), str(self._checkout)]
        log = (self._folder / "stderr.txt").open("a")
        with log:
            return subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
            )

    def close(self) -> None:
        if self._child is not None:
            assert self._child.stdin is not None
            self._child.stdin.close()
            self._child.kill()
            self._child.wait()
            self._child = None


def both(sides: tuple[Side, Side], asked: Configuration) -> tuple[Any, Any]:
    """The answers of both sides, which work at the same time."""
    if "first" in asked:
        sides[0].ask({**asked, "commands": [asked["first"]]})
        sides[1].folder(asked).mkdir()
        for file in sides[0].folder(asked).iterdir():
            shutil.copy(file, sides[1].folder(asked))
    with ThreadPoolExecutor(2) as pool:
        old, new = pool.map(lambda side: side.ask(asked), sides)
    return old, new


def differences(old: Any, new: Any, at: str = "") -> Iterator[str]:
    """Where two answers differ, with both values."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**old, **new}:
            yield from differences(old.get(name), new.get(name), f"{at}.{name}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, pair in enumerate(zip(old, new, strict=True)):
            yield from differences(*pair, f"{at}[{place}]")
    elif old != new:
        yield f"{at}: {_short(old)} | {_short(new)}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 150 else f"{text[:150]}…"


def without(answer: Any, names: set[str]) -> Any:
    """An answer without the fields of these names, at any depth."""
    if isinstance(answer, dict):
        return {name: without(value, names) for name, value in answer.items() if name not in names}
    return [without(each, names) for each in answer] if isinstance(answer, list) else answer


def judged(asked: Configuration, old: Any, new: Any, words: bool) -> tuple[str, list[str]]:
    """Equal, alike in how they fail, or different and where."""
    left_out = ERRORS | (set() if words else WORDS) | (CHANGED_HANDS if "first" in asked else set())
    found = list(differences(without(old, left_out), without(new, left_out)))
    if found or "died" in old:
        return DIFFERENT, found or [old["died"]]
    failed = old.get("kind") or any(each["exit"] not in (0, INTERRUPTED) for each in old.get("commands", ()))
    return (ALIKE if failed else EQUAL), []


def way_of(asked: Configuration) -> str:
    return "bad options" if asked.get("bad") else str(asked["way"])


def met(answer: Any) -> Counter[str]:
    """What was met on the way, as a measure of how much the comparison covers."""
    files = answer.get("files", {}).values()
    records = [*answer.get("certificates", ()), *(each for file in files if isinstance(file, list) for each in file)]
    found = Counter(_kind(each) for each in records if isinstance(each, dict) and "format" in each)
    found["votes for nobody"] += sum(_nobody(each) for each in records if isinstance(each, dict) and "format" in each)
    found["rows lost"] += sum(each.get("measured", {}).get("lost", 0) for each in records if isinstance(each, dict))
    for run in (file for file in files if isinstance(file, dict)):
        found["blocks"] += len(run["blocks"])
        found["failed images"] += sum(image[3] == FAILED for image in run["images"])
    found["interruptions"] += sum(each["exit"] == INTERRUPTED for each in answer.get("commands", ()))
    return found


def _kind(record: dict[str, Any]) -> str:
    return "abstentions" if record["label"] is None else "certificates"


def _nobody(record: dict[str, Any]) -> int:
    return int(record["selection"]["nobody"] + record["estimation"]["nobody"])


def compare(sides: tuple[Side, Side], each: Iterator[Configuration], words: bool, verbose: bool) -> list[Counter[Any]]:
    """Run configurations on both sides; prints what differs as it comes.

    Returns counts by way and judgement, and counts of what was met.
    """
    found: Counter[Any] = Counter()
    seen: Counter[Any] = Counter()
    for asked in each:
        start, (old, new) = time.perf_counter(), both(sides, asked)
        judgement, where = judged(asked, old, new, words)
        found[way_of(asked), judgement] += 1
        seen += met(old)
        if where or verbose:
            took = time.perf_counter() - start
            print(f"{asked['number']} ({way_of(asked)}, {asked['name']}): {judgement}, {took:.1f} s", flush=True)
        for line in (*where[:SHOWN], *(errors(old) if verbose else ())):
            print(f"    {line}", flush=True)
        for side in sides:
            shutil.rmtree(side.folder(asked), ignore_errors=True)
    return [found, seen]


def errors(answer: Any) -> list[str]:
    """What the errors of an answer say, for people."""
    said = [f"{each['command']}: {each['error text']}" for each in answer.get("commands", ()) if each["exit"]]
    return said + ([f"{answer['kind']}: {answer['error text']}"] if answer.get("kind") else [])


def table(found: Counter[tuple[str, str]]) -> str:
    ways = list(dict.fromkeys(way for way, _ in sorted(found)))
    judgements = (EQUAL, ALIKE, DIFFERENT)
    rows = [[way, *(str(found[way, each]) for each in judgements)] for way in ways]
    rows.append(["all", *(str(sum(found[way, each] for way in ways)) for each in judgements)])
    return "\n".join("  ".join(f"{cell:>13}" for cell in row) for row in [["way", *judgements], *rows])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--configurations", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--only", type=int, default=None, metavar="NUMBER")
    parser.add_argument("--words", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="a line for each configuration, and what errors say")
    asked = parser.parse_args()
    seed, start = secrets.randbits(32) if asked.seed is None else asked.seed, time.perf_counter()
    numbers = range(asked.configurations) if asked.only is None else [asked.only]
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        graphs, sides = (
            toy_models.write_graphs(folder),
            (Side("old", asked.old, folder), Side("new", asked.new, folder)),
        )
        try:
            drawn = (draw(number, seed, graphs) for number in numbers)
            found, seen = compare(sides, drawn, asked.words, asked.verbose or asked.only is not None)
        finally:
            for side in sides:
                side.close()
    print(f"{table(found)}\nmet: {', '.join(f'{count} {what}' for what, count in seen.items())}")
    print(f"{len(numbers)} configurations in {time.perf_counter() - start:.0f} s")
    return int(any(judgement == DIFFERENT for _, judgement in found))


if __name__ == "__main__":
    raise SystemExit(main())

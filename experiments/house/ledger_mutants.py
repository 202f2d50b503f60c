"""Do the tests hold the soundness ledger? Each mutant of it must make one of its tests fail.

    python experiments/house/ledger_mutants.py [--only NAME …] [--list] [--processes 2]

The mutants are those of `mutants_of_the_ledger.py`. Each is applied to a copy of the repository, in which its tests are
run. A mutant is killed, survives, or does not apply, because its text is not in its file exactly once. At the end every
test that killed one must pass without any mutant: otherwise its failure says nothing. Ends with 0 if all are killed.
"""

import argparse
import compileall
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from mutants_of_the_ledger import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]
#: Seconds that the tests of one mutant may take: a mutant that hangs is noticed.
PATIENCE = 300
KILLED, SURVIVED, NOT_APPLICABLE = "killed", "SURVIVED", "DOES NOT APPLY"
#: pytest's exit code if a test failed. Any other but 0 means that the tests could not be run at all.
TESTS_FAILED = 1
#: Tests run in forks of a process that has these: to import them takes longer than most tests.
FORKS = multiprocessing.get_context("forkserver")
PRELOADED = (
    "pytest",
    "hypothesis",
    "numpy",
    "torch",
    "onnx",
    "onnxruntime",
    "flint",
    "cryptography",
    "typer",
    "rich",
    "scipy.stats",
    "mpmath",
)


class Outcome(NamedTuple):
    mutant: Mutant
    word: str
    by: str
    """The test that failed, or why there is none."""
    seconds: float


def copy_of_the_repository(folder: Path) -> Path:
    """The files that git knows of, or would take, as they are now."""
    words = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(words, check=True, capture_output=True).stdout.decode().split("\0")
    for name in names:
        source = ROOT / name
        if name and source.is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / name)
    compileall.compile_dir(folder / "src", quiet=2)  # while mutants are tried, no compiled file is written
    return folder


def run_tests(copy: Path, tests: tuple[str, ...]) -> tuple[int | None, str]:
    """pytest's exit code, None if it hung; and what it said."""
    log = copy / "pytest.log"
    process = FORKS.Process(target=_pytest, args=(copy, tests, log))
    process.start()
    process.join(PATIENCE)
    if process.exitcode is None:
        process.kill()
        process.join()
        return None, "the tests hung"
    return process.exitcode, log.read_text(encoding="utf-8", errors="replace")


def _pytest(copy: Path, tests: tuple[str, ...], log: Path) -> None:
    """In a fork that has imported what tests need, but nothing of the package. It reads no other mutant's bytecode."""
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(copy)
    path = os.pathsep.join((str(copy / "src"), os.environ.get("PYTHONPATH", "")))
    os.environ |= {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "CI": "1"}
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(copy / "src"))
    import pytest

    sys.exit(pytest.main(["-x", "-q", "--tb=line", "-p", "no:cacheprovider", *tests]))


def tried(mutant: Mutant, copy: Path) -> Outcome:
    """Apply the mutant, run its tests, and take it back."""
    start, path = time.perf_counter(), copy / mutant.file
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if text.count(mutant.old) != 1:
        return Outcome(mutant, NOT_APPLICABLE, f"its text is in {mutant.file} {text.count(mutant.old)} times", 0.0)
    path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        code, said = run_tests(copy, mutant.tests)
    finally:
        path.write_text(text, encoding="utf-8")
    word, by = judged(code, said)
    return Outcome(mutant, word, by, time.perf_counter() - start)


def judged(code: int | None, said: str) -> tuple[str, str]:
    """Killed by which test; tests that do not exist, or cannot be collected, kill nothing."""
    if code is None:
        return KILLED, said
    if code == 0:
        return SURVIVED, ""
    if code != TESTS_FAILED:
        return NOT_APPLICABLE, f"pytest ended with {code}: {said.strip().splitlines()[-1]}"
    failed = re.search(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", said, re.MULTILINE)
    return KILLED, failed[1] if failed else "a test"


def check_without_mutants(copy: Path, outcomes: list[Outcome]) -> None:
    """Every test that killed a mutant passes on the code as it is; otherwise this ends here."""
    tests = tuple(sorted({each.by for each in outcomes if each.word == KILLED and each.by.startswith("tests/")}))
    code, said = run_tests(copy, tests) if tests else (0, "")
    if code != 0:
        print(said)
        raise SystemExit("without a mutant these tests must pass")


def run_all(mutants: list[Mutant], processes: int) -> list[Outcome]:
    """Every mutant, each in a copy that no other uses at the time."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(processes) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(processes):
            copies.put(copy_of_the_repository(Path(folder) / str(number)))

        def one(mutant: Mutant) -> Outcome:
            copy = copies.get()
            try:
                found = tried(mutant, copy)
            finally:
                copies.put(copy)
            print(f"{found.word:<14}  {mutant.name:<34}  {found.seconds:5.1f} s  {found.by}", flush=True)
            return found

        outcomes = list(pool.map(one, mutants))
        check_without_mutants(copies.get(), outcomes)
        return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="names of mutants, or parts of them")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    chosen = [each for each in MUTANTS if not asked.only or any(part in each.name for part in asked.only)]
    if asked.list:
        for mutant in chosen:
            print(f"row {mutant.row:>2}  {mutant.name:<34}  {mutant.lie}  ({mutant.file})")
        return 0
    FORKS.set_forkserver_preload(list(PRELOADED))
    start, outcomes = time.perf_counter(), run_all(chosen, asked.processes)
    killed = sum(each.word == KILLED for each in outcomes)
    print(f"{killed} of {len(outcomes)} mutants killed in {time.perf_counter() - start:.0f} s")
    return int(killed < len(outcomes))


if __name__ == "__main__":
    raise SystemExit(main())

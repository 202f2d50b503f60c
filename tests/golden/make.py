"""Made the golden files of `data/`, once, with the program as it was at the commit that added them.

They say what must never change: promises and their bytes, certificates, runs and their exports, audits, exit codes,
options. They are never regenerated. A golden test that fails has found a change of behaviour, and the program is wrong.
(What is new gets golden files of its own.) This script stays as the record of how they were made; it reached into the
program as it was then, and need not run any more:

    PYTHONPATH=src:tests python tests/golden/make.py
"""

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from golden import scene, surface
from golden.surface import DATA, audit, command, exported, filled
from soundsmooth.runs.database import Database
from soundsmooth.runs.store import Store

SEED, NONCE = "golden", "5e" * 32
LINEAR, ROOTS, CROWD, IMAGES = "{data}/linear.onnx", "{data}/roots.onnx", "{data}/crowd.onnx", "{data}/images.npz"
PLAIN, TORCH = "golden.models:make_differences", "golden.torch_models:make_differences"
MOODY, REFUSING, NEIGHBOURS = (f"golden.models:make_{name}" for name in ("moody", "refusing", "neighbours"))
FEW = ["--n", "200", "--n0", "20", "--batch-size", "10", "--threads", "1", "--sigma", "0.5"]
SEEDED = [*FEW, "--seed", SEED]
ONE = [*SEEDED, "--limit", "1"]
FOUR = [*SEEDED, "--limit", "4"]
ASSUMED = ["--independence", "assumed"]
MEASURED = ["--independence", "measured", "--again", "24"]

# --- models and images ------------------------------------------------------------------------------------------------


def make_models() -> None:
    weights = np.array([[1, 0, 0, -1], [0, 1, 0, 0], [-1, 0, 1, 0]], np.float32).T
    gemm = [helper.make_node("Flatten", ["image"], ["flat"]), helper.make_node("Gemm", ["flat", "W"], ["scores"])]
    _save("linear.onnx", gemm, weights, 3)
    only_two = np.array([[1, 0, 0, 0], [0, 1, 0, 0]], np.float32).T
    _save("roots.onnx", [gemm[0], helper.make_node("Gemm", ["flat", "W"], ["two"]),
                         helper.make_node("Sqrt", ["two"], ["scores"])], only_two, 2)  # fmt: skip
    mean = helper.make_node("ReduceMean", ["flat"], ["mean"], axes=[0], keepdims=1)
    _save("crowd.onnx", [gemm[0], mean, helper.make_node("Sub", ["flat", "mean"], ["apart"]),
                         helper.make_node("Gemm", ["apart", "W"], ["scores"])], weights, 3)  # fmt: skip


def _save(name: str, nodes: list[onnx.NodeProto], weights: np.ndarray, classes: int) -> None:
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 2, 2])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", classes])
    graph = helper.make_graph(nodes, "golden", [image], [scores], [numpy_helper.from_array(weights, "W")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    (DATA / name).write_bytes(model.SerializeToString())


def make_images() -> None:
    """Clear ones, a doubtful one (1), a bright one (3), a wrong label (4)."""
    pixels = [[10, 220, 30, 40], [120, 120, 120, 120], [10, 20, 250, 30], [255, 255, 255, 255], [250, 40, 30, 20],
              [60, 150, 70, 80]]  # fmt: skip
    np.savez(DATA / "images.npz", x=np.array(pixels, np.uint8).reshape(-1, 1, 2, 2), y=np.array([1, 0, 2, 1, 2, 1]))


# --- promises ---------------------------------------------------------------------------------------------------------

COMMITS = {
    "onnx, fresh, clopper-pearson": [LINEAR, IMAGES, *SEEDED],
    "onnx, shared, runner-up": [LINEAR, IMAGES, *SEEDED, "--noise", "shared", "--bound", "runner-up"],
    "onnx, batchwise, hoeffding": [LINEAR, IMAGES, *SEEDED, "--noise", "batchwise", "--bound", "hoeffding"],
    "onnx, all defaults": [LINEAR, IMAGES, "--seed", "ab" * 32, "--threads", "1"],
    "onnx, measured": [LINEAR, IMAGES, *SEEDED, *MEASURED],
    "onnx, measured because it cannot be proved": [CROWD, IMAGES, *SEEDED],
    "onnx, untrusted": [LINEAR, IMAGES, *SEEDED, "--untrusted"],
    "onnx, another k": [LINEAR, IMAGES, *SEEDED, "--k", "3"],
    "onnx, fractions": [LINEAR, IMAGES, *SEEDED[2:], "--n", "1000", "--sigma", "1/3", "--alpha", "1e-5"],
    "onnx, every second image": [LINEAR, IMAGES, *SEEDED, "--skip", "2", "--limit", "2"],
    "onnx, threads": [LINEAR, IMAGES, *SEEDED, "--threads", "2", *ASSUMED],
    "callable, fresh, clopper-pearson": [PLAIN, IMAGES, *SEEDED],
    "callable, shared, hoeffding": [PLAIN, IMAGES, *SEEDED, "--noise", "shared", "--bound", "hoeffding"],
    "callable, not fixed by its digest": [MOODY, IMAGES, *SEEDED, *ASSUMED],
    "callable, measured": [NEIGHBOURS, IMAGES, *SEEDED, *MEASURED],
    "torch, fresh, runner-up": [TORCH, IMAGES, *SEEDED, "--bound", "runner-up"],
    "torch, batchwise, assumed": [TORCH, IMAGES, *SEEDED, "--noise", "batchwise", *ASSUMED],
    "torch, bf16, channels last": [TORCH, IMAGES, *SEEDED, "--dtype", "bf16", "--channels-last", *ASSUMED],
    "the embedded classifier": ["--seed", SEED, "--threads", "1"],
}


def make_promises() -> None:
    made = []
    for name, arguments in COMMITS.items():
        done = command("commit", *filled(arguments))
        assert done.code == 0, (name, done)
        made.append({"name": name, "arguments": arguments, "promise": done.stdout.splitlines(),
                     "commitment": done.stderr.split()[-1]})  # fmt: skip
    _write("promises.json", {"torch": surface.torch_version(), "promises": made})


# --- certificates -----------------------------------------------------------------------------------------------------

HOW = {"sigma": "0.5", "batch_size": 10, "threads": 1}
WHAT = {"n": 200, "n0": 20, "seed": SEED}
#: Name, model, images, what else the Smoother is told, what else `certify` is told.
CERTIFIED: list[tuple[str, str, list[int], dict[str, Any], dict[str, Any]]] = [
    ("a clear image", "linear.onnx", [0], {}, {}),
    ("an abstention", "linear.onnx", [1], {}, {}),
    ("some NaN votes", "roots.onnx", [4], {"sigma": "0.2"}, {"alpha": "1/20"}),
    ("NaN in most rows: nobody", "models roots", [0], {"independence": "assumed"}, {}),
    ("runner-up", "linear.onnx", [5], {"sigma": "0.25"}, {"bound": "runner-up"}),
    ("hoeffding", "linear.onnx", [2], {}, {"bound": "hoeffding", "alpha": "1/50"}),
    ("a nonce", "linear.onnx", [0], {}, {"nonce": NONCE}),
    ("another grid", "models differences", [2], {"grid": [256, 51], "k": 4, "independence": "assumed"}, {}),
    ("a torch module", "golden.torch_models:make_differences", [2], {"independence": "assumed"}, {}),
    ("untrusted", "linear.onnx", [0], {"untrusted": True}, {}),
    ("measured, none lost", "linear.onnx", [0], {"independence": "measured", "again": 30}, {"alpha": "1/4"}),
    ("measured, some lost", "models neighbours", [2], {"independence": "measured", "again": 30}, {"alpha": "1/4"}),
    ("fresh noise", "linear.onnx", [0, 1, 2], {}, {}),
    ("shared noise", "linear.onnx", [0, 1, 2], {}, {"noise": "shared"}),
    ("batchwise noise", "linear.onnx", [0, 1, 2], {}, {"noise": "batchwise", "bound": "runner-up"}),
    ("a last batch that is not full", "linear.onnx", [0], {"batch_size": 64}, {"n": 150, "n0": 33}),
]  # fmt: skip


def make_certificates() -> None:
    made = []
    for name, model, images, how, what in CERTIFIED:
        case = {"name": name, "model": model, "images": images, "smoother": {**HOW, **how}, "certify": {**WHAT, **what}}
        issued = surface.certificates(case)
        promise = surface.promise_of(issued[0])
        made.append({**case, "promise": promise.splitlines(), "records": [surface.record(each) for each in issued]})
    _write("certificates.json", made)


# --- runs -------------------------------------------------------------------------------------------------------------

#: Whole runs: the command, and audits of it.
WHOLE: dict[str, tuple[list[str], list[list[str]]]] = {
    "plain": ([LINEAR, IMAGES, *SEEDED], [[], ["--model", LINEAR, "--data", IMAGES, "--replay", "all"]]),
    "failed": (
        [REFUSING, IMAGES, *SEEDED, *ASSUMED],
        [[], ["--model", REFUSING, "--data", IMAGES, "--replay", "all"]],
    ),
    "lost": (
        [NEIGHBOURS, IMAGES, *SEEDED, *MEASURED, "--limit", "3", "--alpha", "1/4"],
        [[], ["--model", NEIGHBOURS, "--data", IMAGES]],
    ),
    "bound": (
        [LINEAR, IMAGES, *SEEDED, "--nonce", NONCE, "--bound", "runner-up", "--no-votes"],
        [["--nonce", NONCE], ["--nonce", NONCE, "--model", LINEAR, "--data", IMAGES, "--replay", "all"]],
    ),
    "moody": ([MOODY, IMAGES, *SEEDED, *ASSUMED, "--limit", "2"], [[]]),
}
#: Half-finished runs: the command, after how many stored blocks (or blocks of rows alone) it was stopped, and the
#: environment in which it began.
HALF: dict[str, tuple[list[str], int, dict[str, str]]] = {
    "half-onnx": ([LINEAR, IMAGES, *FOUR], 50, {}),
    "half-without-votes": ([LINEAR, IMAGES, *FOUR, "--no-votes"], 30, {}),
    "half-shared": ([LINEAR, IMAGES, *FOUR, "--noise", "shared"], 60, {}),
    "half-batchwise": ([LINEAR, IMAGES, *FOUR, "--noise", "batchwise"], 40, {}),
    "half-measured": ([LINEAR, IMAGES, *SEEDED, *MEASURED, "--limit", "3"], 60, {}),
    "half-runner-up": ([LINEAR, IMAGES, *FOUR, "--bound", "runner-up"], 27, {}),
    "half-callable": ([PLAIN, IMAGES, *FOUR], 24, {}),
    "half-torch": ([TORCH, IMAGES, *FOUR], 35, {}),
    "half-attempt": ([MOODY, IMAGES, *FOUR, *ASSUMED], 30, {"GOLDEN_FAIL": "28"}),
    "half-failed": ([MOODY, IMAGES, *SEEDED, *ASSUMED, "--limit", "5"], 80, {"GOLDEN_REFUSE": "1"}),
    "half-nonce": ([LINEAR, IMAGES, *FOUR, "--nonce", NONCE], 49, {}),
    "half-seedless": ([LINEAR, IMAGES, *FEW, "--limit", "4"], 33, {}),
}
#: Of these every vote is cast again when they are audited.
REPLAYED = ("half-onnx", "half-without-votes", "half-batchwise", "half-torch", "half-attempt")


def make_runs(folder: Path) -> None:
    _write("whole.json", [_whole(name, arguments, audits, folder) for name, (arguments, audits) in WHOLE.items()])
    _write("half.json", [_half(name, *case, folder) for name, case in HALF.items()])


def _whole(name: str, arguments: list[str], audits: list[list[str]], folder: Path) -> dict[str, Any]:
    run = DATA / f"{name}.db"
    code = command("certify", *filled(arguments), "--out", run).code
    found = []
    for options in audits:
        ended, result = audit(run, *filled(options))
        found.append({"arguments": options, "code": ended, "result": result})
    parquet = folder / f"{name}.parquet"
    for suffix in ("tsv", "csv", "jsonl"):
        assert command("runs", "export", run, "--to", DATA / f"{name}.{suffix}").code == 0
    assert command("runs", "export", run, "--to", parquet).code == 0
    return {
        "run": run.name,
        "command": ["certify", *arguments],
        "code": code,
        "shown": surface.numbers_shown(command("runs", "show", run, "--verbose").stdout),
        "parquet": surface.parquet_rows(parquet),
        "certificates": exported(run, folder / f"{name}.jsonl"),
        "audits": found,
    }


def _half(name: str, arguments: list[str], stop: int, env: dict[str, str], folder: Path) -> dict[str, Any]:
    run, whole = DATA / f"{name}.db", folder / f"{name}.db"
    with patch.object(Store, "add_block", _stopping(Store.add_block, stop)):
        if "measured" in arguments:  # stopped among the rows that are voted alone
            with patch.object(Store, "add_alone", _stopping(Store.add_alone, 13)):
                code = command("certify", *filled(arguments), "--out", run, env=env).code
        else:
            code = command("certify", *filled(arguments), "--out", run, env=env).code
    assert code == 130, (name, code)
    print(name, _state(run))
    if "--seed" in arguments:
        assert command("certify", *filled(arguments), "--out", whole).code == 0
    else:  # the seed is in the file
        shutil.copyfile(run, whole)
        with closing(sqlite3.connect(whole)) as db, db:
            seed = db.execute("SELECT value FROM run WHERE name = 'seed'").fetchone()[0]
        whole.unlink()
        assert command("certify", *filled(arguments), "--seed", seed, "--out", whole).code == 0
    again = ["--replay", "all"] if name in REPLAYED else []
    options = ["--model", arguments[0], "--data", arguments[1], *again]
    ended, result = audit(whole, *filled(options))
    assert ended == 0, result
    result.pop("content")  # the times of blocks are in it
    certificates = exported(whole, folder / f"{name}.jsonl")
    return {
        "run": run.name,
        "command": ["certify", *arguments],
        "certificates": certificates,
        "audit": {"arguments": options, "result": result},
    }


def _stopping(write: Any, after: int) -> Any:
    """Writes until it is called once too often, and is then interrupted as by Ctrl-C."""
    left = [after]

    def writes(*arguments: Any) -> Any:
        if left[0] == 0:
            raise KeyboardInterrupt
        left[0] -= 1
        return write(*arguments)

    return writes


def _state(run: Path) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(run)) as db:
        blocks = "(SELECT COUNT(*) FROM blocks WHERE blocks.place = images.place)"
        alone = "(SELECT COUNT(*) FROM alone WHERE alone.place = images.place)"
        assert not db.execute("SELECT COUNT(*) FROM owners").fetchone()[0]
        return db.execute(f"SELECT place, state, attempts, error, {blocks}, {alone} FROM images").fetchall()


def _small_pages() -> Any:
    """Pages of 512 bytes make a small run a small file."""
    durable = Database._make_durable

    def small(db: Database) -> None:
        db._connection.execute("PRAGMA page_size = 512")
        durable(db)

    return patch.object(Database, "_make_durable", small)


# --- commands ---------------------------------------------------------------------------------------------------------

WRONG = "00" * 32
#: In the order in which they are run, in a folder as `scene` makes it; some need what earlier ones wrote.
COMMANDS: list[tuple[list[str], dict[str, str]]] = [
    (["--version"], {}),
    ([], {}),
    (["devour"], {}),
    (["certify", "--colour", "red"], {}),
    (["certify", LINEAR, IMAGES, "--n", "many"], {}),
    (["certify", LINEAR], {}),
    (["certify", "missing.onnx", IMAGES], {}),
    (["certify", LINEAR, "missing.npz"], {}),
    (["certify", IMAGES, LINEAR], {}),
    (["certify", "model.pt", IMAGES], {}),
    (["certify", LINEAR, IMAGES, *FEW, "--sigma", "0"], {}),
    (["certify", LINEAR, IMAGES, *FEW, "--alpha", "2"], {}),
    (["certify", LINEAR, IMAGES, *FEW, "--bound", "guess"], {}),
    (["certify", LINEAR, IMAGES, *FEW, "--threads", "0"], {}),
    (["certify", LINEAR, IMAGES, *FEW, "--device", "abacus"], {}),
    (["certify", LINEAR, IMAGES, *FEW, "--engine", "steam"], {}),
    (["certify", LINEAR, IMAGES, *FEW, "--engine", "local", "--address", "auto", "--out", "far.db"], {}),
    (["certify", LINEAR, IMAGES, *FEW, "--nonce", NONCE], {}),
    (["certify", LINEAR, IMAGES, *FEW, "--commitment", WRONG], {}),
    (["certify", LINEAR, IMAGES, *ONE, "--commitment", WRONG], {}),
    (["certify", LINEAR, IMAGES, *ONE, "--commitment", "{commitment}"], {}),
    (["certify", CROWD, IMAGES, *FEW, "--require-proof"], {}),
    (["certify", PLAIN, IMAGES, *FEW, "--untrusted"], {}),
    (["certify", LINEAR, IMAGES, "--config", "odd.toml"], {}),
    (["certify", LINEAR, IMAGES, "--config", "good.toml", "--out", "from-file.jsonl"], {}),
    (["certify", LINEAR, IMAGES, *ONE, "--out", "a.txt"], {}),
    (["certify", LINEAR, IMAGES, *ONE, "--out", "a.jsonl"], {}),
    (["certify", LINEAR, IMAGES, *ONE, "--out", "a.jsonl"], {}),
    (["certify", REFUSING, IMAGES, *FOUR, *ASSUMED, "--out", "b.jsonl"], {}),
    (["certify", LINEAR, IMAGES, *ONE, "--out", "a.db"], {}),
    (["certify", LINEAR, IMAGES, *ONE, "--out", "a.db"], {}),
    (["certify", LINEAR, IMAGES, *FEW, "--limit", "1", "--out", "a.db"], {}),
    (["certify", LINEAR, IMAGES, *ONE, "--n", "300", "--out", "a.db"], {}),
    (["certify", LINEAR, IMAGES, *ONE, "--no-votes", "--out", "a.db"], {}),
    (["certify", ROOTS, IMAGES, *ONE, "--out", "a.db"], {}),
    (["certify", LINEAR, IMAGES, *ONE, "--seed", "other", "--out", "a.db"], {}),
    (["certify", LINEAR, IMAGES, *ONE, *MEASURED, "--no-votes", "--out", "c.db"], {}),
    (["certify", REFUSING, IMAGES, *FOUR, *ASSUMED, "--out", "d.db"], {}),
    (["certify", LINEAR, IMAGES, *ONE, "--out", "garbage.db"], {}),
    (["commit", LINEAR, IMAGES, *FEW], {}),
    (["commit", LINEAR, IMAGES, *ONE, "--out", "promise.txt"], {}),
    (["commit", LINEAR, IMAGES, *ONE, "--out", "promise.txt"], {}),
    (["predict", LINEAR, IMAGES, "--n", "50", "--threads", "1", "--out", "answers.tsv"], {}),
    (["inspect", LINEAR, "--trusted"], {}),
    (["inspect", CROWD, "--trusted", "--json"], {}),
    (["noise", "--key", WRONG, "--sigma", "0.5", "--shape", "2,3", "--out", "noise.npy"], {}),
    (["noise", "--key", "short", "--sigma", "0.5", "--shape", "2,3", "--out", "other.npy"], {}),
    (["verify", "a.db"], {}),
    (["verify", "a.db", "--promise", "promise.txt"], {}),
    (["verify", "a.db", "--commitment", "{commitment}"], {}),
    (["verify", "a.db", "--commitment", WRONG], {}),
    (["verify", "a.db", "--commitment", "{commitment}", "--nonce", NONCE], {}),
    (["verify", "bound.db", "--nonce", NONCE], {}),
    (["verify", "bound.db", "--nonce", WRONG], {}),
    (["verify", "plain.db", "--hash", WRONG], {}),
    (["verify", "plain.db", "--model", LINEAR, "--data", IMAGES, "--replay", "all"], {}),
    (["verify", "plain.db", "--model", LINEAR, "--data", IMAGES, "--replay", "50%"], {}),
    (["verify", "plain.db", "--model", ROOTS, "--data", IMAGES], {}),
    (["verify", "moody.db", "--model", MOODY, "--data", IMAGES, "--replay", "all"], {"GOLDEN_FLIP": "1"}),
    (["verify", "moody.db", "--model", MOODY, "--data", IMAGES, "--replay", "all", "--other-machine"],
     {"GOLDEN_FLIP": "1"}),
    (["verify", "moody.db", "--model", MOODY, "--data", IMAGES, "--replay", "all", "--other-machine"],
     {"GOLDEN_ROUND": "1"}),
    (["verify", "failed.db"], {}),
    (["verify", "half-onnx.db"], {}),
    (["verify", "forged.db"], {}),
    (["verify", "garbage.db"], {}),
    (["verify", "missing.db"], {}),
    (["verify", "a.jsonl"], {}),
    (["verify", "forged.jsonl"], {}),
    (["verify", "answers.tsv"], {}),
    (["runs"], {}),
    (["runs", "show", "plain.db"], {}),
    (["runs", "show", "half-failed.db"], {}),
    (["runs", "show", "missing.db"], {}),
    (["runs", "export", "plain.db", "--to", "plain.csv"], {}),
    (["runs", "export", "plain.db", "--to", "plain.csv"], {}),
    (["runs", "export", "plain.db", "--to", "plain.xlsx"], {}),
    (["break", "--list"], {}),
    (["break", "nothing"], {}),
]  # fmt: skip


def make_commands(folder: Path) -> None:
    os.chdir(scene.set_up(folder))
    commitment = command("commit", *filled([LINEAR, IMAGES, *ONE])).stderr.split()[-1]
    made = []
    for arguments, env in COMMANDS:
        written = [argument.replace("{commitment}", commitment) for argument in arguments]
        done = command(*filled(written), env=env)
        print(done.code, *arguments, "|", (done.stderr or done.stdout).strip().splitlines()[:1])
        made.append({"arguments": written, "env": env, "code": done.code})
    _write("commands.json", made)


def _write(name: str, content: Any) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False)
    (DATA / name).write_text(f"{text}\n", encoding="utf-8")


def main() -> None:
    DATA.mkdir()
    make_models()
    make_images()
    make_promises()
    make_certificates()
    _write("options.json", surface.options())
    with TemporaryDirectory() as folder, _small_pages():
        make_runs(Path(folder))
    with TemporaryDirectory() as folder:
        make_commands(Path(folder))


if __name__ == "__main__":
    main()

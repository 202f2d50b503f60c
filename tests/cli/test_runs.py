"""`certify --out run.db`, `runs show` and `runs export`, as a person meets them."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import soundsmooth as ss
from command import PROCESS, error_of, heed_interrupts, run_command
from runs.damaged import Column, damage
from runs.interrupted import interrupt, looked_run
from soundsmooth import embedded
from soundsmooth.certification.promise import Promise, secret
from soundsmooth.certification.settings import settings
from soundsmooth.core.grid import Grid
from soundsmooth.data.load import load
from soundsmooth.runs.pipeline import certify_into, open_store
from soundsmooth.runs.plan import plan_run
from soundsmooth.runs.pools import LocalPool
from soundsmooth.runs.store import Store

SMALL = ("--n", "300", "--limit", "3")
MODEL = embedded.MODELS[Fraction(1, 4)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return some_images(tmp_path_factory.mktemp("data") / "some.npz", slice(0, 10))


def some_images(path: Path, chosen: slice) -> Path:
    with np.load(embedded.IMAGES) as held:
        np.savez(path, x=held["x"][chosen], y=held["y"][chosen])
    return path


def words(text: str) -> str:
    return " ".join(text.split())


def test_a_run_is_shown_continued_and_exported(data: Path, tmp_path: Path) -> None:
    options = ("certify", MODEL, data, *SMALL, "--seed", "hello")
    out = run_command(*options, "--out", tmp_path / "run.db").stdout
    assert "certified accuracy" in out
    assert "3 images: 3 certified" in out
    again = run_command(*options, "--out", tmp_path / "run.db").stdout
    assert "continued: 3 of 3 images are finished" in again

    run_command(*options, "--out", tmp_path / "plain.jsonl")
    run_command("runs", "export", tmp_path / "run.db", "--to", tmp_path / "run.jsonl")
    plain, stored = ((tmp_path / name).read_text().splitlines() for name in ("plain.jsonl", "run.jsonl"))
    pairs = [(ss.Certificate.from_json(a), ss.Certificate.from_json(b)) for a, b in zip(plain, stored, strict=True)]
    assert all((a.estimation, a.radius, a.commitment) == (b.estimation, b.radius, b.commitment) for a, b in pairs)

    shown = words(run_command("runs", "show", tmp_path / "run.db").stdout)
    for text in (
        f"run {tmp_path / 'run.db'} model {MODEL} data {data} begun 20",
        "finished 20",
        f"Whether it is so: soundsmooth verify {tmp_path / 'run.db'}",
        "3 images: 3 certified",
        "accuracy 1.000 of 3 are right and certified",
        "clean 1.000 of 3, by the model itself without noise",
        "radii bound ‖δ‖₂, in units of the [0, 1] range",
        "for any of these 3 with at most 0.003",
        "Self-chosen key (docs/audit.md).",
    ):
        assert text in shown
    assert "sigma: 1/4" not in shown  # results first, and the promise on request
    assert pairs[0][0].commitment not in shown + out
    details = words(run_command("runs", "show", tmp_path / "run.db", "--verbose").stdout)
    assert "sigma: 1/4" in details
    assert f"Commitment {pairs[0][0].commitment}" in details
    assert error_of("runs", "export", tmp_path / "run.db", "--to", tmp_path / "run.jsonl").endswith("remove it")
    assert list(tmp_path.glob("run.db*")) == [tmp_path / "run.db"]  # one file, and nothing beside it


def test_a_seed_that_was_not_given_is_the_stored_one(data: Path, tmp_path: Path) -> None:
    options = ("certify", MODEL, data, *SMALL, "--out", tmp_path / "run.sqlite")
    run_command(*options)
    run_command(*options)
    error = error_of(*options, "--seed", "x")
    assert "the seed's SHA-256: " in error


def test_changes_are_refused_with_the_difference(data: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "run.db")
    run_command("certify", MODEL, data, *SMALL, *out)
    before = (tmp_path / "run.db").read_bytes()
    error = error_of("certify", MODEL, data, "--n", 400, "--alpha", "0.01", "--limit", 3, *out)
    assert "begun -> asked: n: 300 -> 400; alpha: 1/1000 -> 1/100" in error
    assert "votes: kept -> left out" in error_of("certify", MODEL, data, *SMALL, *out, "--no-votes")
    other = some_images(tmp_path / "other.npz", slice(9, None, -1))
    assert "the data changed (images, labels or their order)" in error_of("certify", MODEL, other, *SMALL, *out)
    graph = tmp_path / "model.onnx"
    graph.write_bytes(MODEL.read_bytes() + b"\x0a\x00")  # an empty name at the end: the same graph, another file
    assert "the model changed" in error_of("certify", graph, data, *SMALL, *out)
    assert (tmp_path / "run.db").read_bytes() == before


def test_the_committed_promise_is_kept_in_a_run_too(data: Path, tmp_path: Path) -> None:
    options = (MODEL, data, *SMALL, "--seed", "hello")
    commitment = run_command("commit", *options).stderr.split()[-1]
    nonce = ("--nonce", "ab" * 32, "--out", tmp_path / "run.db")
    assert "not the one committed to" in error_of("certify", *options, "--commitment", "00" * 32, *nonce)
    assert not (tmp_path / "run.db").exists()
    run_command("certify", *options, "--commitment", commitment, *nonce)
    error = error_of("certify", *options, "--nonce", "cd" * 32, "--out", tmp_path / "run.db")
    assert "nonce: abababababab… -> cdcdcdcdcdcd…" in error
    run_command("certify", MODEL, data, *SMALL, "--out", tmp_path / "run.db")  # neither was given: the stored ones


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"x" * 5000, "is not a run of soundsmooth"), (b"SQLite format 3\0" + b"\0" * 50, "was cut short")],
)
def test_other_files_are_refused_before_anything_is_done(content: bytes, text: str, tmp_path: Path) -> None:
    (tmp_path / "run.db").write_bytes(content)
    assert text in error_of("certify", "--out", tmp_path / "run.db")
    assert text in error_of("runs", "show", tmp_path / "run.db")
    assert text in error_of("runs", "export", tmp_path / "run.db", "--to", tmp_path / "a.tsv")
    assert (tmp_path / "run.db").read_bytes() == content


def test_a_run_that_is_not_there(tmp_path: Path) -> None:
    assert "there is no run" in error_of("runs", "show", tmp_path / "run.db")
    assert "there is no folder" in error_of("certify", *SMALL, "--out", tmp_path / "no" / "run.db")


FAULTY = """
import os

def make():
    def scores(b):
        if os.environ.get("FAIL") and b[:, 0, :, :].mean() < 0.25:
            raise RuntimeError("no memory")
        return b.reshape(len(b), -1)[:, :10]
    return scores
"""


def test_failed_images_are_said_and_the_exit_code_too(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not checked before: in 3 % of all runs the check would draw dark images only, ten times, and end the command."""
    (tmp_path / "mine.py").write_text(FAULTY)
    options = ("certify", "mine:make", data, "--n", 200, "--out", "run.db", "--independence", "assumed")
    monkeypatch.setenv("FAIL", "1")
    out = words(run_command(*options, folder=tmp_path, code=1).stdout)
    assert "failed 0.0000 no RuntimeError: no memory" in out
    assert "A failed image is a wrong answer; the same command tries again, on the same noise" in out
    monkeypatch.delenv("FAIL")
    assert "failed" not in run_command(*options, folder=tmp_path).stdout
    with Store.read(tmp_path / "run.db") as store:
        assert store.progress().finished == 10


def test_without_a_run_a_failing_model_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bright image, which is certified and written, and a dark one, on which the model fails."""
    (tmp_path / "mine.py").write_text(FAULTY)
    monkeypatch.setenv("FAIL", "1")
    np.savez(tmp_path / "two.npz", x=np.stack([np.full((1, 8, 8), level, np.uint8) for level in (200, 10)]))
    options = ("certify", "mine:make", "two.npz", "--n", 200, "--out", "run.jsonl", "--independence", "assumed")
    error = error_of(*options, folder=tmp_path, quiet=False)
    assert "the model failed: RuntimeError: no memory; 1 of 2 images are certified, written to run.jsonl" in error
    assert len((tmp_path / "run.jsonl").read_text().splitlines()) == 1


def test_a_finding_about_no_image_is_damage(data: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    options = ("certify", MODEL, data, *SMALL, "--out", path)
    run_command(*options)
    with closing(sqlite3.connect(path)) as db:
        db.execute("INSERT INTO findings (at, place, text) VALUES ('now', 99, 'odd')")
        db.commit()
    for command in (("runs", "show", path), options):
        error = error_of(*command, quiet=False)
        assert "is damaged: it has a finding for place 99, where there is no image" in error


def test_a_promise_is_no_markup(data: Path, tmp_path: Path) -> None:
    """A file from elsewhere may promise anything, also what would be a closing tag."""
    made = plan_run(
        LocalPool(ss.Smoother(MODEL, "0.25").smoothing), load(data, grid=Grid(), limit=1), settings(n=100), secret("s")
    )
    odd = replace(made, promise=Promise({**made.promise.values, "device": "[/x]"}))
    with open_store(tmp_path / "run.db", odd) as store:
        assert len(list(certify_into(store, odd))) == 1
    assert "device:        [/x]\n" in run_command("runs", "show", tmp_path / "run.db", "--verbose").stdout


STALLS = """
import itertools, os, time

calls = itertools.count()

def make():
    def scores(b):
        while next(calls) >= 40 and not os.path.exists("go on"):
            time.sleep(0.01)
        return b.reshape(len(b), -1)[:, :10]
    return scores
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_command_continues(how: signal.Signals, data: Path, tmp_path: Path) -> None:
    """The model stops by itself after three images and a part of the fourth, until the signal has come."""
    (tmp_path / "mine.py").write_text(STALLS)
    options = ["certify", "mine:make", str(data), "--n", "1000", "--batch-size", "100", "--independence", "assumed"]
    options += ["--seed", "s", "--out"]
    command = [*PROCESS, *options, "run.db"]
    path = tmp_path / "run.db"
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, encoding="utf-8", cwd=tmp_path, preexec_fn=heed_interrupts
    ) as running:
        for _ in range(12_000):
            if finished(path) == 3:
                break
            time.sleep(0.01)
        running.send_signal(how)
        try:
            shown, _ = running.communicate(timeout=120)
        finally:
            running.kill()
    assert finished(path) == 3
    if how != signal.SIGKILL:
        assert running.returncode == 130
        assert "stopped: 3 of 10 images are finished; the same command continues" in words(shown)
    (tmp_path / "go on").touch()
    assert "continued: 3 of 10 images are finished" in run_command(*options, "run.db", folder=tmp_path).stdout
    run_command(*options, "quiet.db", folder=tmp_path)
    assert counts(path) == counts(tmp_path / "quiet.db")


def finished(path: Path) -> int:
    try:
        with Store.read(path) as store:
            return store.progress().finished
    except ValueError:  # not there yet
        return 0


def counts(path: Path) -> list:
    with Store.read(path) as store:
        return [(c.index, c.label, c.radius, c.selection, c.estimation) for c in store.certificates()]


@pytest.mark.skipif(sys.platform == "win32", reason="limits differ")
def test_a_full_disk_is_one_line_and_the_same_command_continues(data: Path, tmp_path: Path) -> None:
    """The model is small enough to be inspected, which writes a copy of it."""
    import resource

    model = linear_model(tmp_path / "linear.onnx")
    run_command("certify", model, data, "--n", "1000", "--seed", "s", "--out", tmp_path / "quiet.db")

    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

    options = ["certify", str(model), str(data), "--n", "1000", "--seed", "s", "--out", str(tmp_path / "run.db")]
    command = [*PROCESS, *options]
    done = subprocess.run(
        command, capture_output=True, encoding="utf-8", preexec_fn=small_files, env=os.environ, check=False
    )
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "what was finished is kept, and the same command continues" in done.stderr
    assert finished(tmp_path / "run.db") < 10
    run_command(*options)
    assert counts(tmp_path / "run.db") == counts(tmp_path / "quiet.db")


def linear_model(path: Path) -> Path:
    weights = np.random.default_rng(0).normal(size=(784, 10)).astype(np.float32)
    nodes = [
        helper.make_node("Flatten", ["image"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weights"], ["scores"]),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 28, 28])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 10])
    graph = helper.make_graph(nodes, "linear", [image], [scores], [numpy_helper.from_array(weights, "weights")])
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )
    return path


@pytest.mark.skipif(sys.platform == "win32", reason="processes are found otherwise")
def test_two_commands_on_one_new_file_share_a_seed_and_the_work(data: Path, tmp_path: Path) -> None:
    command = [*PROCESS, "certify", str(MODEL), str(data), "--n", "1000", "--out"]
    both = [
        subprocess.Popen([*command, str(tmp_path / "run.db")], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    for running in both:
        _, errors = running.communicate(timeout=300)
        assert running.returncode == 0, errors
    with Store.read(tmp_path / "run.db") as store:
        assert store.progress().finished == 10
        assert store.copies_voted() == store.db.one("SELECT SUM(count) FROM blocks") == 10 * 1100
        assert not list(store.findings())


@pytest.mark.parametrize(("table", "name"), [("blocks", "votes"), ("environments", "text")])
def test_a_damaged_run_is_said_to_be_damaged(table: str, name: str, data: Path, tmp_path: Path) -> None:
    path, options = tmp_path / "run.db", ("certify", MODEL, data, *SMALL, "--seed", "hello")
    run_command(*options, "--out", path)
    assert damage(path, Column(table, name, "TEXT", False), None)
    content, said = path.read_bytes(), f"'{path}' is damaged: {table}.{name} holds NULL where a text belongs"
    assert said in error_of(*options, "--out", path, quiet=False)
    if table == "environments":
        assert said in error_of("runs", "show", path)
        assert said in error_of("runs", "export", path, "--to", tmp_path / "run.csv")
    assert "damaged" in error_of("verify", path)
    assert path.read_bytes() == content


def test_an_interrupted_run_is_concluded(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    interrupt(looked_run(), path, 420 + 20 + 250)
    shown = words(run_command("runs", "show", path).stdout)
    assert "2 to do" in shown
    assert "aborted" not in shown
    shown = words(run_command("runs", "conclude", path).stdout)
    assert "aborted: ended from outside" in shown
    assert "1 images were certified at their last full look" in shown
    for command in (("runs", "show"), ("runs", "conclude")):
        shown = words(run_command(*command, path).stdout)
        assert "1 never finished" in shown
        assert "The run was concluded: 1 of these 2 images were aborted" in shown
    shown = words(run_command("verify", path).stdout)
    assert "1 of 2 images were ended from outside" in shown

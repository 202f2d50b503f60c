"""The command line as a person meets it: rows, tables, files, and one-line errors with exit code 2."""

import hashlib
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import soundsmooth as ss
from command import PROCESS, error_of, heed_interrupts, left_as_it_was, run_command
from soundsmooth import embedded
from soundsmooth.noise import Gaussian, Keystream, Purpose, Sampler

SMALL = ("--n", "300", "--limit", "3")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "some.npz"
    with np.load(embedded.IMAGES) as held:
        np.savez(path, x=held["x"][:10], y=held["y"][:10])
    return path


def model() -> Path:
    return embedded.MODELS[Fraction(1, 4)]


def test_the_demo_shows_rows_a_table_and_the_next_command() -> None:
    out = run_command("certify", "--n", 200, "--limit", 2).stdout
    assert "idx" in out
    assert "certified accuracy" in out
    assert "average certified radius" in out
    assert "soundsmooth certify --limit 1000 --n 100000 --out" in out
    assert "Self-chosen key (docs/audit.md)" in out
    assert not {"issuer", "seed", "commitment", "nonce"} & set(re.findall("[a-z]+", out.lower()))


def test_json_lines_round_trip_and_follow_the_seed(data: Path, tmp_path: Path) -> None:
    options = ("certify", model(), data, *SMALL, "--seed", "hello", "--nonce", "ab" * 32)
    run_command(*options, "--out", tmp_path / "a.jsonl")
    run_command(*options, "--out", tmp_path / "b.jsonl")
    first, second = ((tmp_path / name).read_text().splitlines() for name in ("a.jsonl", "b.jsonl"))
    records = [ss.Certificate.from_json(line) for line in first]
    assert [record.to_json() for record in records] == first
    again = [ss.Certificate.from_json(line) for line in second]
    assert [(r.estimation, r.radius, r.commitment) for r in records] == [
        (r.estimation, r.radius, r.commitment) for r in again
    ]
    assert [record.index for record in records] == [0, 1, 2]
    assert records[0].key == "verifier's nonce"


def test_the_commitment_is_known_before_the_nonce(data: Path, tmp_path: Path) -> None:
    """Ledger, row 10: commit, then a nonce, then certify: the same C, and a key that needs both."""
    options = (model(), data, *SMALL, "--seed", "hello")
    promised = run_command("commit", *options)
    commitment = hashlib.sha256(promised.stdout.encode()).hexdigest()
    assert promised.stderr == f"commitment {commitment}\n"
    run_command("certify", *options, "--nonce", "cd" * 32, "--out", tmp_path / "a.jsonl")
    record = ss.Certificate.from_json((tmp_path / "a.jsonl").read_text().splitlines()[0])
    assert record.commitment == commitment
    assert record.promise.text == promised.stdout


def test_the_claim_is_stated_for_one_image_and_for_all() -> None:
    """Ledger, row 20."""
    out = " ".join(run_command("certify", "--n", 100, "--limit", 3, "--alpha", "1/3000").stdout.split())
    assert "for one image with probability at most 0.000334, for any of these 3 with at most 0.001." in out


def test_tsv_is_what_the_fields_tools_read_and_truncates(data: Path, tmp_path: Path) -> None:
    options = ("certify", model(), data, *SMALL, "--seed", "hello")
    run_command(*options, "--out", tmp_path / "a.tsv")
    run_command(*options, "--out", tmp_path / "a.jsonl")
    header, *rows = (tmp_path / "a.tsv").read_text().splitlines()
    assert header.split("\t") == ["idx", "label", "predict", "radius", "correct", "time"]
    records = [ss.Certificate.from_json(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    for row, record in zip(rows, records, strict=True):
        index, label, predict, radius, correct, _ = row.split("\t")
        assert (int(index), int(label), int(correct)) == (record.index, record.truth, int(record.correct))
        assert int(predict) == (-1 if record.label is None else record.label)
        assert 0 <= Fraction(record.radius) - Fraction(Decimal(radius)) < Fraction(1, 10**6)


def test_every_and_limit_keep_the_indices(data: Path, tmp_path: Path) -> None:
    run_command("certify", model(), data, "--n", 100, "--every", 4, "--limit", 2, "--out", tmp_path / "a.tsv")
    assert [row.split("\t")[0] for row in (tmp_path / "a.tsv").read_text().splitlines()[1:]] == ["0", "4"]


def test_aliases_people_are_used_to(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    run_command("certify", model(), data, "--N", 150, "--N0", 50, "--batch", 30, "--max", 2, "--skip", 2, "--out", out)
    records = [ss.Certificate.from_json(line) for line in out.read_text().splitlines()]
    promise = records[0].promise.values
    assert (promise["n"], promise["n0"], promise["batch"]) == ("150", "50", "30")
    assert [record.index for record in records] == [0, 2]


@pytest.mark.parametrize("mode", ["shared", "batchwise"])
def test_noise_modes(mode: str, data: Path, tmp_path: Path) -> None:
    run_command("certify", model(), data, *SMALL, "--noise", mode, "--out", tmp_path / "a.jsonl")
    records = [ss.Certificate.from_json(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert {record.promise.values["noise"] for record in records} == {mode}


def test_configuration_file_and_command_line(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text(
        f'model = "{model()}"\ndata = "{data}"\nsigma = "0.5"\nn = 120\nlimit = 2\nbatch-size = 40\nk = 3\n'
    )
    run_command("certify", "--config", config, "--n", 80, "--out", tmp_path / "a.jsonl")
    promise = ss.Certificate.from_json((tmp_path / "a.jsonl").read_text().splitlines()[0]).promise.values
    assert (promise["sigma"], promise["n"], promise["batch"], promise["margin"]) == ("1/2", "80", "40", "765")


def test_layout(tmp_path: Path) -> None:
    with np.load(embedded.IMAGES) as held:
        np.savez(tmp_path / "nhwc.npz", x=held["x"][:2].transpose(0, 2, 3, 1), y=held["y"][:2])
        np.savez(tmp_path / "nchw.npz", x=held["x"][:2], y=held["y"][:2])
    options = (*SMALL, "--seed", "s")
    run_command("certify", model(), tmp_path / "nchw.npz", *options, "--out", tmp_path / "a.jsonl")
    run_command(
        "certify", model(), tmp_path / "nhwc.npz", *options, "--layout", "nhwc-to-nchw", "--out", tmp_path / "b.jsonl"
    )
    pairs = zip(
        (tmp_path / "a.jsonl").read_text().splitlines(), (tmp_path / "b.jsonl").read_text().splitlines(), strict=True
    )
    for one, two in pairs:
        assert ss.Certificate.from_json(one).estimation == ss.Certificate.from_json(two).estimation
    assert "takes inputs of shape" in error_of("certify", model(), tmp_path / "nhwc.npz", *options)


def test_data_without_labels(tmp_path: Path) -> None:
    with np.load(embedded.IMAGES) as held:
        np.savez(tmp_path / "x.npz", x=held["x"][:2])
    out = run_command("certify", model(), tmp_path / "x.npz", *SMALL, "--out", tmp_path / "a.tsv").stdout
    assert "certified accuracy" not in out
    assert (tmp_path / "a.tsv").read_text().splitlines()[1].split("\t")[1] == "-1"


def test_predict(data: Path, tmp_path: Path) -> None:
    out = run_command("predict", model(), data, "--limit", 3, "--n", 200, "--out", tmp_path / "p.jsonl").stdout
    assert "correct" in out
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert [line["index"] for line in lines] == [0, 1, 2]
    assert len({line["key"] for line in lines}) == 3
    out = run_command("predict", "--limit", 2, "--n", 300, "--looks", "auto", "--out", tmp_path / "p.tsv").stdout
    assert "00 of at most 600 noisy copies voted" in out
    assert (tmp_path / "p.tsv").read_text().splitlines()[0] == "idx\tlabel\tpredict\tcorrect\ttime"


def test_noise_is_the_specified_one(tmp_path: Path) -> None:
    key = "".join(f"{i:02x}" for i in range(32))
    command = ["noise", "--key", key, "--sigma", "1/4", "--k", 6, "--shape", "8,3,4,4", "--stream", 7]
    run_command(*command, "--purpose", "estimation", "--first", 5, "--out", tmp_path / "noise.npy")
    written = np.load(tmp_path / "noise.npy")
    bits = Keystream(bytes(range(32)), Purpose.ESTIMATION, 7)
    assert written.dtype == np.int16
    assert np.array_equal(written.reshape(8, 48), Sampler(Gaussian("1/4"), 1).noise(bits, 5, 8, 48).levels)


def test_factory_models_run(data: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def make():\n    return lambda b: b.reshape(len(b), -1)[:, :10]\n")
    run_command("certify", "mine:make", data, *SMALL, folder=tmp_path)


HEX = "00" * 32
TOO_MANY = "threads must be between 1 and 1024"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("certify", "--sigma", "0"), "sigma must be greater than 0"),
        (("certify", "--alpha", "1"), "alpha must lie strictly between 0 and 1"),
        (("certify", "--n", "0"), "n must be an integer between 1 and"),
        (("certify", "--bound", "none"), "bound must be one of"),
        (("certify", "--noise", "pink"), "noise must be one of"),
        (("certify", "--seed", "s", "--nonce", "12"), "nonce"),
        (("certify", "--seed", "s", "--nonce", ""), "the nonce is empty"),
        (("certify", "--commitment", "12" * 32), "needs the --seed that was committed to"),
        (("certify", "data.npz", "model.onnx"), "the model comes first"),
        (("certify", "builtins:len", "data.npz"), "a factory takes no arguments"),
        (("verify", "run.csv"), "a table, which has no counts"),
        (("certify", "--seed", "s", "--commitment", ""), "the commitment must be 64 hexadecimal digits"),
        (("certify", "--out", "run.xml"), "must end in .jsonl or .tsv or .db, not 'run.xml'"),
        (("certify", "--out", "."), "must end in .jsonl or .tsv or .db, not '.'"),
        (("predict", "--out", "run.db"), "must end in .jsonl or .tsv, not"),
        (("certify", "--timeout", "5"), "--timeout"),
        (("certify", "--out", "no/such/folder/run.tsv"), "there is no folder"),
        (("certify", "--limit", "0"), "limit must be at least 1"),
        (("certify", "--every", "0"), "every must be at least 1"),
        (("certify", "--layout", "hw"), "layout must be one of"),
        (("certify", "--independence", "hoped"), "independence must be"),
        (("inspect", "missing.onnx"), "there is no model file"),
        (("inspect", "torch.nn:Flatten"), "--shape 3,32,32"),
        (("inspect", "torch.nn:Flatten", "--shape", "3,x"), "the shape is integers"),
        (("inspect", "builtins:dict"), "no torch.nn.Module"),
        (("inspect", str(model()), "--shape", "1,28,28"), "leave --shape"),
        (("certify", "--config", "none.toml"), "there is no configuration file"),
        (("certify", "model.pt", "data.npz"), "never loaded"),
        (("certify", "missing.onnx", "data.npz"), "there is no model file"),
        (("certify", "mine.py:net", "data.npz"), "write mine:net"),
        (
            ("certify", "builtins:dict", "data.npz", "--weights", "."),
            "must be a .safetensors file or a checkpoint (.pt, .pth, .ckpt, .bin, .tar), not '.'",
        ),
        (("certify", str(model())), "name the data as well"),
        (("certify", str(model()), "none.npz"), "there is no data file"),
        (("noise", "--key", "12", "--sigma", 1, "--shape", "2,2", "--out", "n.npy"), "32 bytes"),
        (("noise", "--key", "xy", "--sigma", 1, "--shape", "2,2", "--out", "n.npy"), "hexadecimal"),
        (("noise", "--key", HEX, "--sigma", 1, "--shape", "2", "--out", "n.npy"), "shape is"),
        (("noise", "--key", HEX, "--sigma", 1, "--shape", "2,2", "--purpose", "fun", "--out", "n.npy"), "purpose must"),
        (("noise", "--key", HEX, "--sigma", 1, "--shape", "2,2", "--first", 2**51, "--out", "n.npy"), "2⁵¹ elements"),
        (("noise", "--key", HEX, "--sigma", 1, "--shape", "2,2", "--stream", 2**64, "--out", "n.npy"), "stream"),
        (("noise", "--key", HEX, "--sigma", 1, "--shape", "2,2", "--out", "n.txt"), "must end in .npy"),
        (("noise", "--key", HEX, "--sigma", 1, "--shape", "2,2", "--out", "no/n.npy"), "there is no folder"),
        (("noise", "--key", HEX, "--sigma", 1, "--shape", "2,0", "--out", "n.npy"), "shape is"),
        (("certify", "--seed", ""), "the seed is empty"),
        (("certify", "--n", "1.5"), "--n"),
        (("certify", "--nosuch"), "No such option"),
        (("certify", "--nonce", "12" * 32), "give the seed as well"),
        (("noise", "--key", HEX, "--sigma", 1, "--shape", "2,2", "--threads", -2, "--out", "n.npy"), "threads must"),
        (("certify", "missing.onnx", "data.npz", "--threads", 0), TOO_MANY),
        (("certify", "missing.onnx", "data.npz", "--threads", 10**20), TOO_MANY),
        (("predict", "mine:make", "data.npz", "--threads", -1), TOO_MANY),
        (("commit", "mine:make", "data.npz", "--seed", "s", "--threads", 100_000), TOO_MANY),
        (("verify", "run.db", "--model", "mine:make", "--threads", 0), TOO_MANY),
        (("certify", "--timeout", "nan", "--out", "run.db"), "timeout must be a positive number of seconds"),
        (("inspect", "torch.nn:Flatten", "--shape", "1000000,1000000"), "GiB are free; is --shape that of one input?"),
        (("certify", "", "data.npz"), "neither an .onnx file"),
        (("certify", "https://example.org/model.h5", "data.npz"), "neither an .onnx file"),
        (("commit",), "commit needs a --seed"),
        (("predict", "--n", "0"), "n must be an integer"),
        (("predict", "--looks", "500,100,1000"), "looks must rise"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: tuple, text: str, tmp_path: Path) -> None:
    assert text in error_of(*arguments, folder=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        (
            {"first": np.zeros((2, 1, 28, 28), np.uint8), "second": np.zeros((2, 1, 28, 28), np.uint8)},
            """images as "x" (and the labels as "y"), not as 'first', 'second'; or name them: x_key=""",
        ),
        ({"x": np.full((2, 1, 28, 28), 0.3)}, "bad.npz, image 0: pixel (0, 0, 0) is 0.3, which is not on the grid"),
        ({"x": np.full((2, 1, 28, 28), 1.3)}, "soundsmooth.torch.Normalize(mean, std), model)"),
        ({"x": np.zeros((2, 28, 28, 1), np.uint8)}, "try layout='nhwc-to-nchw' in Python, or --layout nhwc-to-nchw"),
        ({"x": np.full((2, 1, 28, 28), 300)}, "bad.npz, image 0: pixel (0, 0, 0) is 300, outside the levels"),
        ({"x": np.zeros((2, 1, 28, 28), np.uint8), "y": np.zeros(3, int)}, "one integer label"),
        ({"x": np.zeros((2, 28, 28), np.uint8)}, "the channel's axis is missing: x[:, None]"),
        ({"x": np.full((2, 1, 28, 28), 200.0)}, "look like levels 0 … 255, kept as floats: give x / 255"),
        ({"x": np.zeros(0, np.uint8)}, "must be [images"),
    ],
)
def test_bad_data(arrays: dict, text: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "bad.npz", **arrays)
    assert text in error_of("certify", model(), tmp_path / "bad.npz", "--out", tmp_path / "run.tsv")
    assert not (tmp_path / "run.tsv").exists()


def test_a_layout_that_is_wrong_is_not_advised_once_more(data: Path) -> None:
    said = error_of("certify", model(), data, "--layout", "nhwc-to-nchw")
    assert "the axes are in another order: is the layout right (--layout)?" in said


def test_a_folder_is_not_called_missing(tmp_path: Path) -> None:
    assert "holds no image" in error_of("certify", model(), tmp_path)


def test_pickled_or_broken_data_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "pickled.npz", x=np.array([{"a": 1}, None], dtype=object))
    (tmp_path / "broken.npz").write_bytes(b"PK not really")
    assert "without pickled objects" in error_of("certify", model(), tmp_path / "pickled.npz")
    assert "cannot be read" in error_of("certify", model(), tmp_path / "broken.npz")


def test_a_model_with_a_wrong_output_leaves_no_file(data: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def make():\n    return lambda b: b.sum()\n")
    options = ("mine:make", data, *SMALL, "--out", "run.tsv")
    assert "[batch, classes]" in error_of("certify", *options, folder=tmp_path, quiet=False)
    assert not (tmp_path / "run.tsv").exists()


def test_a_model_that_returns_nothing(data: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def make():\n    return lambda b: None\n")
    assert "the model returned None" in error_of("certify", "mine:make", data, *SMALL, folder=tmp_path, quiet=False)


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "run.tsv").write_text("precious")
    assert "exists" in error_of("certify", "--out", tmp_path / "run.tsv")
    assert (tmp_path / "run.tsv").read_text() == "precious"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("colour = 1", "unknown option 'colour'"),
        ("n = [1]", "n must be an integer"),
        ("n = 1.5", "n must be an integer"),
        ('limit = "3"', "limit must be an integer"),
        ("threads = true", "threads must be an integer"),
        ("threads = 0", TOO_MANY),
        ("out = 3", "out must be a plain value in quotes"),
        ('channels-last = "yes"', "channels_last must be true or false"),
        ("n = ", "not a TOML file"),
    ],
)
def test_bad_configuration(content: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(content)
    assert text in error_of("certify", "--config", tmp_path / "run.toml")


def test_a_promise_that_changed_since_the_commitment_is_not_run(data: Path, tmp_path: Path) -> None:
    options = (model(), data, *SMALL, "--seed", "hello")
    commitment = run_command("commit", *options).stderr.split()[-1]
    run_command("certify", *options, "--commitment", commitment.upper(), "--nonce", "ab" * 32)
    error = error_of("certify", *options, "--alpha", "0.01", "--commitment", commitment, "--out", tmp_path / "a.tsv")
    assert "not the one committed to" in error
    assert not (tmp_path / "a.tsv").exists()


def test_one_configuration_serves_commit_and_certify(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    config.write_text(
        f'model = "{model()}"\ndata = "{data}"\nn = 100\nlimit = 1\nseed = "s"\nout = "{tmp_path / "a.jsonl"}"\n'
    )
    commitment = run_command("commit", "--config", config).stderr.split()[-1]
    run_command("certify", "--config", config, "--commitment", commitment)
    assert (tmp_path / "a.jsonl").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
def test_ctrl_c_says_what_is_finished(tmp_path: Path) -> None:
    """A run that would take very long on any machine is stopped after its first rows; they are in the file."""
    out = tmp_path / "a.tsv"
    asked = ["certify", str(model()), str(embedded.IMAGES), "--n", "3000", "--out", str(out)]
    with subprocess.Popen(
        [*PROCESS, *asked], stdout=subprocess.PIPE, encoding="utf-8", preexec_fn=heed_interrupts
    ) as running:
        for _ in range(1200):
            if out.exists() and len(out.read_text().splitlines()) > 2:
                break
            time.sleep(0.1)
        running.send_signal(signal.SIGINT)
        shown, _ = running.communicate(timeout=120)
    assert running.returncode == 130
    rows = len(out.read_text().splitlines()) - 1
    assert rows > 1
    assert f"stopped: {rows} of 1000 images are certified" in " ".join(shown.split())
    assert "this cannot be continued, a run with --out run.db can" in " ".join(shown.split())


def test_a_terminal_without_our_letters_is_no_reason_to_crash() -> None:
    command = [*PROCESS, "certify", "--n", "100", "--limit", "1"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr


def test_large_sigma_warns(data: Path) -> None:
    done = run_command("certify", model(), data, "--n", 100, "--limit", 1, "--sigma", 5)
    assert "warning: sigma = 5 is very large" in done.stderr


WARNS = """
import numpy as np, warnings

def make():
    warnings.warn("a batch of [8] rows [bold] by [/usr/lib/fast.so] :cat: \\x1b[2J\\nand more")
    def scores(b):
        warnings.warn("slow path [/opt/x]")
        return b.reshape(len(b), -1)[:, :10]
    return scores
"""


def test_a_models_warning_is_neither_markup_nor_obeyed(data: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(WARNS)
    for out in ((), ("--out", "run.db")):
        said = run_command("certify", "mine:make", data, *SMALL, *out, folder=tmp_path)
        assert "warning: a batch of [8] rows [bold] by [/usr/lib/fast.so] :cat: \\x1b[2J and more\n" in said.stderr
        assert "warning: slow path [/opt/x]\n" in said.stderr
        assert "failed" not in said.stdout


def test_the_name_of_a_file_is_shown_as_it_is(data: Path, tmp_path: Path) -> None:
    for command in ("predict", "certify"):
        out = tmp_path / f"{command} [bold] :cat:.jsonl"
        assert (
            f"written to {out}\n" in run_command(command, model(), data, "--n", 20, "--limit", 1, "--out", out).stdout
        )


def test_too_few_copies_are_said_beforehand(data: Path) -> None:
    """α = 0.001 needs 2⁻ⁿ < α."""
    assert "n = 9 is too small" in run_command("certify", model(), data, "--n", 9, "--limit", 1).stdout
    assert "too small" not in run_command("certify", model(), data, "--n", 10, "--limit", 1).stdout


def test_scores_that_are_not_numbers_are_said(data: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import numpy as np\ndef make():\n    return lambda b: np.full((len(b), 10), np.nan)\n"
    )
    options = ("certify", "mine:make", data, "--n", 50, "--limit", 1)
    assert "150 votes for nobody: the scores are NaN" in run_command(*options, folder=tmp_path).stdout
    assert (
        "150 votes for nobody: the scores are NaN" in run_command(*options, "--out", "run.db", folder=tmp_path).stdout
    )


def test_labels_that_are_no_classes_are_said(data: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import numpy as np\ndef make():\n    return lambda b: np.eye(2)[np.zeros(len(b), int)]\n"
    )
    with np.load(data) as held:
        np.savez(tmp_path / "two.npz", x=held["x"][:2], y=np.array([1, 2]))
    said = error_of("certify", "mine:make", tmp_path / "two.npz", "--n", 50, folder=tmp_path, quiet=False)
    assert "label 2 is no class of the model: its classes are 0 to 1" in said


@pytest.mark.parametrize("command", [(), ("runs",)])
def test_without_a_command_there_is_help_and_no_error(command: tuple[str, ...]) -> None:
    done = run_command(*command, code=2)
    assert "Usage:" in done.stdout
    assert done.stderr == ""


def test_one_image_is_not_any_of_one(data: Path) -> None:
    assert "with probability at most 0.001.\n" in run_command("certify", model(), data, "--n", 50, "--limit", 1).stdout


def mixing_model(folder: Path) -> Path:
    """The embedded model with a softmax over the rows of a batch behind it."""
    import onnx

    mixing = onnx.load(model())
    name = mixing.graph.output[0].name
    mixing.graph.node.append(onnx.helper.make_node("Softmax", [name], ["mixed"], axis=0))
    mixing.graph.output[0].name = "mixed"
    onnx.save(mixing, folder / "mixing.onnx")
    return folder / "mixing.onnx"


def test_inspect_says_what_is_proved_and_what_breaks_it(tmp_path: Path) -> None:
    assert "at every position of a batch of 100" in run_command("inspect", model()).stdout
    assert "at every position of a batch of 7" in run_command("inspect", model(), "--batch-size", 7, "--trusted").stdout
    found = json.loads(run_command("inspect", model(), "--json").stdout)
    assert found["proved"] is True
    assert found["nodes"] == sum(found["operators"].values()) > 0
    mixing = mixing_model(tmp_path)
    text = run_command("inspect", mixing, code=1).stdout
    assert "not proved" in text
    assert "Softmax 'mixed'" in text
    assert "measured" in text
    assert "For a proof: keep the first axis out of it" in text
    assert "evaluation mode" not in text
    assert json.loads(run_command("inspect", mixing, "--json", code=1).stdout)["proved"] is False
    assert "proved" in run_command("inspect", "torch.nn:Flatten", "--shape", "3,8,8").stdout


def killing_model(folder: Path) -> Path:
    """It divides the smallest integer by −1, of which onnxruntime dies."""
    import onnx

    killing = onnx.load(model())
    numbers = {"smallest": np.iinfo(np.int64).min, "minus": -1}
    killing.graph.initializer.extend(onnx.numpy_helper.from_array(np.array([n]), name) for name, n in numbers.items())
    name = killing.graph.output[0].name
    killing.graph.node.extend(
        [
            onnx.helper.make_node("Div", ["smallest", "minus"], ["quotient"]),
            onnx.helper.make_node("Cast", ["quotient"], ["factor"], to=onnx.TensorProto.FLOAT),
            onnx.helper.make_node("Mul", [name, "factor"], ["scaled"]),
        ]
    )
    killing.graph.output[0].name = "scaled"
    onnx.save(killing, folder / "killing.onnx")
    return folder / "killing.onnx"


def test_a_model_on_which_the_runtime_dies_is_one_line(data: Path, tmp_path: Path) -> None:
    killing = killing_model(tmp_path)
    assert "the runtime died on the model" in run_command("inspect", killing, code=1).stdout
    out = tmp_path / "run.db"
    assert "the runtime died on the model" in error_of("certify", killing, data, *SMALL, "--out", out)
    assert not out.exists()


def test_certificates_say_proved_and_a_proof_can_be_required(data: Path, tmp_path: Path) -> None:
    assert (
        "Independence of rows and calls: proved"
        in run_command("certify", model(), data, *SMALL, "--require-proof").stdout
    )
    mixing = mixing_model(tmp_path)
    assert "the vote of a row depends on its batch" in error_of("certify", mixing, data, *SMALL)
    told = run_command("certify", mixing, data, *SMALL, "--independence", "assumed").stdout
    assert "Independence of rows and calls: assumed" in told
    assert "cannot be proved for this graph: Softmax" in error_of("certify", mixing, data, *SMALL, "--require-proof")
    (tmp_path / "c.toml").write_text("require-proof = true")
    assert "cannot be proved" in error_of("certify", mixing, data, *SMALL, "--config", tmp_path / "c.toml")


def test_independence_can_be_measured(data: Path, tmp_path: Path) -> None:
    asked = ("certify", model(), data, *SMALL, "--independence", "measured", "--again", "5")
    said = run_command(*asked).stdout
    assert "5 rows of each image are voted again" in said.splitlines()[1]
    assert "Independence of rows and calls: measured m=5" in said
    kept = tmp_path / "run.db"
    assert "leave out --no-votes" in error_of(*asked, "--out", kept, "--no-votes")
    run_command(*asked, "--out", kept)
    assert "Independence of rows and calls: measured m=5" in run_command("runs", "show", kept).stdout
    audit = run_command("verify", kept, "--model", model(), "--data", data, "--replay", "all").stdout
    assert "rows of drawn blocks are voted again, alone" in audit
    assert "goes with measured independence" in error_of("certify", model(), data, *SMALL, "--again", "5")


def test_quiet_shows_nothing_but_errors(data: Path, tmp_path: Path) -> None:
    """Also no warning: that σ is large is one."""
    run = tmp_path / "run.db"
    done = run_command("certify", model(), data, *SMALL, "--sigma", "5", "--out", run, "--quiet")
    assert (done.stdout, done.stderr) == ("", "")
    assert run.exists()
    assert run_command("verify", run, "--quiet") == (0, "", "")
    assert run_command("predict", model(), data, "--n", 50, "--limit", 1, "--quiet") == (0, "", "")
    assert "n must be" in error_of("certify", model(), data, "--n", "0", "--quiet")


@pytest.mark.parametrize("command", [(), ("certify",), ("runs",), ("runs", "show"), ("lab", "break"), ("bench", "cpu")])
def test_help_has_a_short_name_everywhere(command: tuple[str, ...]) -> None:
    assert run_command(*command, "-h").stdout == run_command(*command, "--help").stdout != ""


def test_python_runs_the_package(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["soundsmooth", "--version"])
    with left_as_it_was(), pytest.raises(SystemExit) as ended:
        runpy.run_module("soundsmooth", run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("soundsmooth ")


def test_numbers_as_people_write_them(data: Path, tmp_path: Path) -> None:
    run_command(
        "certify", model(), data, "--n", "1.2e2", "--n0", "1_0", "--limit", "1e0", "--out", tmp_path / "a.jsonl"
    )
    promise = ss.Certificate.from_json((tmp_path / "a.jsonl").read_text()).promise.values
    assert (promise["n"], promise["n0"], promise["input count"]) == ("120", "10", "1")
    assert "'1.5' is not an integer" in error_of("certify", model(), data, "--n", "1.5")


def test_another_number_of_threads_says_what_to_add(data: Path, tmp_path: Path) -> None:
    options = ("certify", model(), data, *SMALL, "--out", tmp_path / "run.db")
    run_command(*options, "--threads", "1")
    error = error_of(*options, "--threads", "2", "--batch-size", "50", "--no-votes")
    assert error.endswith("To continue it: add --batch-size 100 --threads 1 and leave out --no-votes")


@pytest.mark.parametrize("command", ["certify", "predict", "verify", "commit"])
def test_help_has_no_pictures(command: str) -> None:
    """Words between colons become some."""
    assert max(map(ord, run_command(command, "--help").stdout)) < 0x10000

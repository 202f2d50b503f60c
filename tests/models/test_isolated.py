"""Untrusted ONNX files: the same votes, from a process that has nothing to give away and is not believed."""

import ctypes
import importlib.metadata
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import soundsmooth as ss
from command import run_command
from key_scanner import can_open, can_read_memory, target
from models.test_onnx_file import linear_graph, saved, with_external_weights
from soundsmooth import embedded
from soundsmooth.certification.promise import secret
from soundsmooth.models import model_of
from soundsmooth.models.isolated import IsolatedOnnxModel
from soundsmooth.models.onnx_file import OnnxModel
from soundsmooth.models.sandbox import process

linux = pytest.mark.skipif(sys.platform != "linux", reason="what is tried is Linux's")
PROGRAM = process.PROGRAM
SCANNER = Path(__file__).parents[1] / "key_scanner.py"
MODEL = embedded.MODELS[next(iter(embedded.MODELS))]
IMAGE = np.zeros((1, 2, 2), np.uint8)
BATCH = np.random.default_rng(1).normal(size=(5, 1, 2, 2)).astype(np.float32)

Hook = Callable[[str], None]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return saved(linear_graph(), tmp_path)


@pytest.fixture
def hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hook:
    """The same program in the same kind of process, with a few lines that run before it starts."""

    def put_in(lines: str) -> None:
        program = tmp_path / "hooked.py"
        program.write_text(
            textwrap.dedent("""
                import importlib.util, os, struct, sys, time
                def load(name, path):
                    spec = importlib.util.spec_from_file_location(name, path)
                    sys.modules[name] = module = importlib.util.module_from_spec(spec)
                    spec.loader.exec_module(module)
                    return module
            """)
            + f"child = load('program', {str(PROGRAM)!r}).server()\n"
            + "from soundsmooth.models.sandbox import confine, frames\n"
            + f"scanner = load('scanner', {str(SCANNER)!r})\n"
            + textwrap.dedent(lines)
            + "\nchild.main(sys.argv[1:])\n"
        )
        monkeypatch.setattr(process, "PROGRAM", program)

    return put_in


@pytest.fixture
def visible() -> Iterator[None]:
    """Undo what hides this process's memory, for the tests that come after."""
    yield
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)


def prepared(model: IsolatedOnnxModel) -> IsolatedOnnxModel:
    model.prepare(model.shape, 5)
    return model


def test_the_votes_are_those_of_the_same_process(path: Path, tmp_path: Path) -> None:
    for each in (path, with_external_weights(tmp_path, "weights.bin"), MODEL):
        here, there = OnnxModel(each, threads=1), IsolatedOnnxModel(each, threads=1)
        assert (there.batch, there.shape) == (here.batch, here.shape)
        batch = np.random.default_rng(0).normal(size=(7, *here.shape)).astype(np.float32)
        for rows in (7, 3, 7):
            np.testing.assert_array_equal(there.scores(batch[:rows]), here.scores(batch[:rows]))
            np.testing.assert_array_equal(there.vote(batch[:rows]).labels, here.vote(batch[:rows]).labels)
        for each in (here, there):
            each.prepare(each.shape, 7)
        assert there.identity() == replace(here.identity(), flags={**here.flags(), "isolated": "yes"})
        assert there.report == here.report


def trusted_flags(model: IsolatedOnnxModel) -> dict[str, str]:
    return {name: value for name, value in IsolatedOnnxModel.flags(model).items() if name != "isolated"}


@pytest.mark.parametrize("workers", [1, 2])
def test_the_certificates_are_those_of_the_same_process(workers: int) -> None:
    """Under the same promise, which they have when the flag is taken away."""
    images, settings = np.load(embedded.IMAGES)["x"][:3], {"n0": 20, "n": 60, "seed": "s"}
    here = ss.Smoother(MODEL, "0.25", threads=1, batch_size=20)
    there = ss.Smoother(MODEL, "0.25", threads=1, batch_size=20, workers=workers, untrusted=True)
    first = next(iter(there.certify_all(images, **settings)))
    assert first.promise.values["flags"].startswith("isolated=yes ")
    assert first.isolated
    assert "run by a process without the key" in str(first)
    for worker in there.smoothing.replicas:
        worker.model.flags = partial(trusted_flags, worker.model)
    expected = [replace(each, seconds=0) for each in here.certify_all(images, **settings)]
    assert [replace(each, seconds=0) for each in there.certify_all(images, **settings)] == expected
    assert not expected[0].isolated


TRUSTED = f"""
import json, sys
sys.path.insert(0, {str(SCANNER.parent)!r})
import numpy as np
import soundsmooth as ss
from key_scanner import Scanner, target
from soundsmooth.certification.promise import secret

scanner, found = Scanner([]), {{}}

def scan(batch):
    if scanner.targets:
        for place, there in scanner.everywhere().items():
            found[place] = found.get(place, False) or there
    return np.tile(np.float32([1, 0]), (len(batch), 1))

smooth, image = ss.Smoother(scan, "0.25", batch_size=20, independence="assumed"), np.zeros((1, 2, 2), np.uint8)
first = smooth.certify(image, n0=20, n=20, seed="s")
scanner.targets = [target(secret("s").key(first.promise))]
smooth.certify(image, n0=20, n=20, seed="s")
print(json.dumps(found))
"""


@linux
def test_a_scanner_finds_the_key_in_the_same_process() -> None:
    """So that finding nothing elsewhere means something. (Not in the tests' own process, which holds gigabytes.)"""
    done = subprocess.run([sys.executable, "-c", TRUSTED], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["frames"]
    assert found["objects"]
    assert found["memory"]


SCAN = """
    eye = scanner.Scanner({targets!r})
    def scan(model, output, name, values):
        import numpy as np
        found = any(eye.everywhere().values())
        return np.tile(np.float32([not found, found, 0]), (len(values), 1))
    child.run = scan
"""


@linux
def test_a_scanner_finds_nothing_in_the_process_of_an_untrusted_model(
    path: Path, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed, nonce = os.urandom(32), os.urandom(32)
    monkeypatch.setenv("SOUNDSMOOTH_SEED", seed.hex())
    given = {"n0": 20, "n": 20, "seed": seed, "nonce": nonce}
    promise = ss.Smoother(path, "0.25", threads=1, batch_size=20, untrusted=True).certify(IMAGE, **given).promise
    key = secret(seed, nonce).key(promise)
    wanted = [target(each) for each in (key, seed, nonce, key.hex().encode(), seed.hex().encode())]
    hook(SCAN.format(targets=wanted))
    scanned = ss.Smoother(path, "0.25", threads=1, batch_size=20, untrusted=True).certify(IMAGE, **given)
    assert scanned.promise == promise  # so it was the same key
    assert scanned.selection.classes == scanned.estimation.classes == (20, 0, 0)


@linux
def test_the_scanner_finds_what_is_there(path: Path, hook: Hook) -> None:
    """The same scan in the same process, with a secret put there."""
    hook(SCAN.format(targets=[target(b"0123456789abcdef" * 2)]) + "\n    planted = bytes([*b'0123456789abcdef'] * 2)\n")
    assert IsolatedOnnxModel(path).vote(BATCH).labels.tolist() == [1] * 5


ATTACK = """
    pid, address, store, ours, inode = {pid}, {address}, {store!r}, {ours!r}, {inode}
    def attack():
        return [
            scanner.can_open(store), scanner.can_open(ours),
            *(scanner.can_open(f"/proc/{{pid}}/{{name}}") for name in ("mem", "environ", "cmdline", "fd/0")),
            scanner.can_read_memory(pid, address),
        ]
    before = []
    def watched(*given, folder):
        before[:] = attack()
        return frozen(*given, folder=folder)
    frozen, child.frozen_session = child.frozen_session, watched
    def run(model, output, name, values):
        import numpy as np
        files = [os.fstat(number).st_ino for number in scanner.descriptors()]
        return np.float32([[*before, *attack(), len(os.environ), len(files), inode in files]] * len(values))
    child.run = run
"""


@linux
@pytest.mark.usefixtures("visible")
@pytest.mark.parametrize("landlock", [True, False])
def test_what_a_process_that_was_taken_over_can_reach(
    landlock: bool, path: Path, tmp_path: Path, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing while it votes. While it loads, nothing with Landlock, and without it files, but not our memory."""
    monkeypatch.setenv("SECRET_OF_OURS", "yes")
    store = tmp_path / "run.db"
    store.write_bytes(b"seed")
    word = ctypes.create_string_buffer(b"12345678")
    pid, address = os.getpid(), ctypes.addressof(word)
    assert can_read_memory(pid, address)
    assert can_open(str(store))
    attack = ATTACK.format(pid=pid, address=address, store=str(store), ours=__file__, inode=store.stat().st_ino)
    hook(attack + ("" if landlock else "    confine._landlock = lambda *_: None\n"))
    with open(store, "rb") as held:
        os.set_inheritable(held.fileno(), True)  # and is not inherited for all that
        model = IsolatedOnnxModel(path, threads=1)
    if landlock and not model._runtime.process.confined:
        pytest.skip("this kernel has no Landlock")
    assert model._runtime.process.confined == landlock
    *reached, variables, files, inherited = model.scores(BATCH)[0].tolist()
    loading, voting = reached[:7], reached[7:]
    assert voting == [0] * 7
    if landlock:
        assert loading == [0] * 7
    else:
        assert loading[:2] == [1, 1]
        assert loading[2:4] == [0, 0]  # neither our memory nor our environment
        assert loading[6] == 0
    assert variables <= len(process.KEPT) + len(process.ADDED)
    assert not inherited
    assert files == 5  # three that lead nowhere, and two pipes


def bad_answer(kind: str) -> str:
    """A model's process that answers a batch like this."""
    return f"""
    def answer(self, sizes):
        pipe = self._answers
        header = lambda *fields: pipe.write(frames.HEADER.pack(*fields))
        {kind}
    child.Server._vote = answer
    """


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("pipe.write(b'x' * 200)", "malformed"),
        ("header(b'sms1', frames.SCORES, 0, 2, 1 << 60, 5, 1 << 55, *[0] * 6)", "too large"),
        ("header(b'sms1', frames.SCORES, 0, 2, 60, 5, 4, *[0] * 6)", "malformed"),
        ("header(b'sms1', frames.SCORES, 99, 2, 60, 5, 3, *[0] * 6)", "malformed"),
        ("header(b'sms1', frames.SCORES, 0, 200, 60, 5, 3, *[0] * 6)", "malformed"),
        ("header(b'sms1', frames.SCORES, 0, 2, 48, 4, 3, *[0] * 6)", r"shape \[4, 3\] for a batch of 5"),
        ("header(b'sms1', frames.SCORES, 0, 1, 16, 4, *[0] * 7)", r"shape \[4\] for a batch of 5"),
        ("header(b'sms1', frames.LOADED, 0, 0, 0, *[0] * 8)", "malformed"),
        ("header(b'sms1', frames.ERROR, 0, 0, 1 << 40, *[0] * 8)", "too large"),
        ("header(b'sms1', frames.SCORES, 0, 2, 60, 5, 3, *[0] * 6); os._exit(3)", "ended with status 3"),
        ("os._exit(3)", "ended with status 3"),
        ("os.kill(os.getpid(), 9)", "killed by signal 9"),
        ("time.sleep(60)", "no answer within 1 s"),
        ("header(b'sms1', frames.SCORES, 0, 2, 60, 5, 3, *[0] * 6); time.sleep(60)", "no answer within 1 s"),
    ],
)
def test_bad_answers_are_clear_errors(kind: str, message: str, path: Path, hook: Hook) -> None:
    hook(bad_answer(kind))
    model = IsolatedOnnxModel(path)
    model._runtime.process._timeout = 1 if "no answer" in message else 120
    with pytest.raises(ValueError, match=message) as caught:
        model.vote(BATCH)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="the model's process was ended"):  # and it is not asked again
        model.vote(BATCH)
    assert model._runtime.process._popen.returncode is not None


def test_nan_and_errors_are_judged_here(path: Path, hook: Hook) -> None:
    """A NaN votes for nobody; an error of the runtime is one line without control characters, and not the end."""
    hook("""
    def run(model, output, name, values):
        import numpy as np
        if len(values) == 1:
            raise ValueError("\\x1b[31mno\\x07 such\\nthing")
        return np.float16([[np.nan, 1, 2]] + [[0, 1, 1]] * (len(values) - 1))
    child.run = run
    """)
    model = IsolatedOnnxModel(path)
    assert model.vote(BATCH).labels.tolist() == [-1, 1, 1, 1, 1]
    with pytest.raises(ValueError, match=r"^\[31mno  such$"):
        model.vote(BATCH[:1])
    assert model.vote(BATCH).classes == 3


def test_a_graph_that_is_not_proved(tmp_path: Path) -> None:
    mixing = linear_graph()
    mixing.graph.node[1].output[0] = "product"
    mixing.graph.node.append(helper.make_node("Softmax", ["product"], ["scores"], axis=0))
    path = saved(mixing, tmp_path, "mixing.onnx")
    assert prepared(IsolatedOnnxModel(path)).identity().independence.text == "checked"
    with pytest.raises(ValueError, match="cannot be proved for this graph: Softmax 'scores'"):
        prepared(model_of(path, untrusted=True, independence="proved"))
    noisy = linear_graph()
    noisy.graph.node[1].output[0] = "product"
    noisy.graph.node.append(helper.make_node("RandomNormalLike", ["product"], ["random"]))
    noisy.graph.node.append(helper.make_node("Add", ["product", "random"], ["scores"]))
    model = prepared(IsolatedOnnxModel(saved(noisy, tmp_path, "noisy.onnx")))
    assert not model.report.proved
    assert model.scores(BATCH).shape == (5, 3)


def test_broken_files_are_clear_errors(tmp_path: Path) -> None:
    for change, message in (
        (lambda graph: graph.node[0].__setattr__("op_type", "Nothing"), "onnxruntime cannot load the model"),
        (lambda graph: graph.input.add(name="more"), "must have one input"),
        (lambda graph: graph.input[0].type.tensor_type.__setattr__("elem_type", onnx.TensorProto.DOUBLE), "float32"),
    ):
        model = linear_graph()
        change(model.graph)
        with pytest.raises(ValueError, match=message):
            IsolatedOnnxModel(saved(model, tmp_path))


def test_only_onnx_files_on_the_processor(path: Path) -> None:
    for source in (lambda batch: batch, "nowhere.at_all:factory"):
        with pytest.raises(ValueError, match=r"must be an \.onnx file"):
            model_of(source, untrusted=True)
    with pytest.raises(ValueError, match="is a pickle"):
        model_of("model.pth", untrusted=True)
    with pytest.raises(ValueError, match="on the cpu only"):
        model_of(path, untrusted=True, device="cuda")
    with pytest.raises(ValueError, match="timeout is for untrusted"):
        model_of(path, timeout=3)
    with pytest.raises(ValueError, match="positive number of seconds"):
        model_of(path, untrusted=True, timeout=0)


def test_it_ends_with_its_model(path: Path) -> None:
    model = IsolatedOnnxModel(path)
    process = model._runtime.process._popen
    assert process.poll() is None
    del model
    assert process.poll() is not None


def test_the_runtime_is_not_loaded_here(path: Path) -> None:
    """Where the key is, onnxruntime is not even imported; its version is recorded nevertheless."""
    program = f"""
import sys
import numpy as np
import soundsmooth as ss
smooth = ss.Smoother({str(path)!r}, "0.25", untrusted=True)
record = smooth.certify(np.zeros((1, 2, 2), np.uint8), n0=10, n=10)
print("onnxruntime" in sys.modules, record.environment["onnxruntime"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", importlib.metadata.version("onnxruntime")]


@linux
def test_it_ends_with_us(path: Path, hook: Hook, tmp_path: Path) -> None:
    """Even in the middle of a batch, and when we are killed."""
    hook(bad_answer("time.sleep(600)"))
    program = f"""
import numpy as np
from soundsmooth.models.isolated import IsolatedOnnxModel
from soundsmooth.models.sandbox import process
process.PROGRAM = {str(process.PROGRAM)!r}
model = IsolatedOnnxModel({str(path)!r})
print(model._runtime.process.pid, flush=True)
model.vote(np.zeros((5, 1, 2, 2), np.float32))
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    for _ in range(100):
        if _gone(pid):
            return
        time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    pytest.fail("the model's process outlived us")


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_the_command_line(tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    run_command("certify", "--untrusted", "--limit", "1", "--n", "200", "--out", out)
    assert "isolated=yes" in json.loads(out.read_text().splitlines()[0])["promise"]["flags"]
    assert "isolated=yes" in run_command("commit", "--untrusted", "--limit", "1", "--seed", "s").stdout
    refused = run_command("predict", "package.module:factory", embedded.IMAGES, "--untrusted", code=2)
    assert "must be an .onnx file" in refused.stderr

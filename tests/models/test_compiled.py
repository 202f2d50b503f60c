"""Ways to run a module (as it is, as a CUDA graph, compiled), and the largest batch that fits."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from threading import Event, Lock
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import soundsmooth as ss
from soundsmooth.core.cuda_streams import HIGH
from soundsmooth.models import compiled as ways
from soundsmooth.models import model_of
from soundsmooth.models.compiled import PROMISED, Compiled, CudaGraph, forward_of
from soundsmooth.models.torch_module import TorchModel
from soundsmooth.models.tuning import scores_digest

GPU = torch.cuda.is_available()
DEVICE = "cuda:0" if GPU else "cpu"
needs_gpu = pytest.mark.skipif(not GPU, reason="CUDA graphs need a GPU")
needs_compiler = pytest.mark.skipif(
    not GPU and shutil.which("c++") is None, reason="torch.compile on a CPU needs a C++ compiler"
)


class Net(torch.nn.Module):
    """A convolution, a normalisation with buffers, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(1, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.act = torch.nn.LeakyReLU(0.1)
        self.head = torch.nn.Linear(16, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.act(self.norm(self.conv(x))).flatten(1))


def batch(rows: int = 8, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, 1, 2, 2)).astype(np.float32)


def labels(model: TorchModel, rows: int = 8, seed: int = 1) -> list[int]:
    return torch.as_tensor(model.vote(batch(rows, seed)).labels).tolist()


# --- ways to run -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["inductor", "cuda_graph", "", "None"])
def test_a_way_that_there_is_not(name: str) -> None:
    with pytest.raises(ValueError, match="compile must be one of auto, none, cuda-graph, torch-compile, tuned, not"):
        model_of(Net(), compile=name)


def test_a_cuda_graph_needs_a_gpu() -> None:
    with pytest.raises(ValueError, match='compile="cuda-graph" needs a model on a GPU, and this one is on cpu'):
        ss.Smoother(Net(), "1/4", device="cpu", compile="cuda-graph")


@needs_compiler
@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("known", [None, ["triton.autotune_pointwise", "max_autotune"]])
@pytest.mark.slow("compiles networks")
def test_the_compiler_chooses_nothing_by_timing(known: list[str] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever repeats a run compiles once more, and must get the same sums; older compilers know another option."""
    from torch._inductor import config

    if known is not None:
        monkeypatch.setattr("torch._inductor.list_options", lambda: known)
    seen = []

    class Spy(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.flatten(1).mean(1, keepdim=True) * torch.arange(3.0, device=x.device)

    def settings(graph: torch.fx.Graph) -> None:
        seen.append((config.deterministic, config.triton.autotune_pointwise))

    with config.patch(post_grad_custom_post_pass=settings):
        forward_of(Spy(), "torch-compile", torch.ones(4, 1, 2, 2))
    assert seen == [(True, True) if known is None else (False, False)]


@pytest.mark.parametrize("off", ["config", "environment"])
def test_a_compiler_that_is_switched_off_is_an_error(off: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch would run the module as it is, under a promise that says it is compiled."""
    from torch._dynamo import config

    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1" if off == "environment" else "0")
    with (
        config.patch(disable=off == "config"),
        pytest.raises(
            RuntimeError, match=r"torch's compiler is switched off \(.*; compile none leaves the compiler out"
        ),
    ):
        forward_of(torch.nn.Linear(4, 2), "torch-compile", torch.ones(4, 4))


@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("suppressed", [False, True])
def test_without_a_compiler_the_error_says_what_to_do(suppressed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where torch is told to suppress errors: it would run the module as it is."""
    from torch._dynamo import config

    def broken(*_: object, **__: object) -> None:
        raise OSError("No working C++ compiler found")

    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", broken)
    model = TorchModel(Net(), "cpu", compilation="torch-compile", independence="assumed")
    said = (
        r"the model failed on a batch of shape \[8, 1, 2, 2\]: .*No working C\+\+ compiler found; compile none leaves"
    )
    with config.patch(suppress_errors=suppressed), pytest.raises(ValueError, match=said):
        model.vote(batch())


WITHOUT_COMPILER = """
import numpy, torch
import soundsmooth as ss
layers = [torch.nn.Flatten(), torch.nn.Linear(12, 8), torch.nn.GELU(), torch.nn.Linear(8, 3), torch.nn.Softmax(1)]
network = torch.nn.Sequential(*layers).eval()
for way in ("torch-compile", "tuned"):
    smooth = ss.Smoother(network, "0.25", compile=way, batch_size=20, threads=1, device="cpu")
    try:
        smooth.certify(numpy.full((3, 2, 2), 99, numpy.uint8), n=100)
        print(way, smooth.smoothing.model.chosen)
    except ValueError as error:
        print(way, error)
"""


@pytest.mark.slow("a process that imports torch")
def test_a_machine_without_a_compiler(tmp_path: Path) -> None:
    """For real: nothing is on the path. Tuning leaves the compiler out, and says so."""
    environment = {name: value for name, value in os.environ.items() if name not in ("CC", "CXX")}
    environment |= {"PATH": str(tmp_path), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    words = [sys.executable, "-c", WITHOUT_COMPILER]
    ran = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    compiled, tuned = ran.stdout.splitlines()
    assert "No working C++ compiler found" in compiled
    assert compiled.endswith("; compile none leaves the compiler out")
    assert re.match(r"tuned tuned in .*; torch cannot compile it here: No working C\+\+ compiler found", tuned)


def test_too_little_memory_is_not_taken_for_a_missing_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who looks for the largest batch asks for it."""

    def full(*_: object, **__: object) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch.compiler, "compile", full)
    monkeypatch.setattr(torch, "compile", full)
    with pytest.raises(torch.cuda.OutOfMemoryError):
        forward_of(Net(), "torch-compile", torch.as_tensor(batch()))


@pytest.mark.parametrize("compile", ["cuda-graph", "torch-compile"])
def test_only_torch_modules_are_compiled(compile: str) -> None:
    with pytest.raises(ValueError, match="float32 batches in NumPy"):
        model_of(lambda x: x, compile=compile)
    with pytest.raises(ValueError, match="compile out"):
        model_of("model.onnx", compile=compile)


def test_as_it_is_unless_a_run_is_long_enough_to_compile() -> None:
    """auto is decided before the promise, which has one of the others."""
    assert TorchModel(Net(), DEVICE, compilation="auto").flags()["compile"] == "none"
    assert model_of(Net(), device=DEVICE).identity() == TorchModel(Net(), DEVICE).identity()


@pytest.mark.parametrize("way", [way for way in PROMISED if GPU or way != "cuda-graph"])
def test_the_way_is_a_flag_and_in_the_promise(way: str) -> None:
    model = TorchModel(Net(), DEVICE, compilation=way)
    assert model.flags()["compile"] == model.identity().flags["compile"] == way
    assert (model.identity() == TorchModel(Net(), DEVICE).identity()) == (way == "none")
    assert model.replica(0).flags()["compile"] == way


def test_plain_is_the_module_itself() -> None:
    module = Net()
    assert forward_of(module, "none", torch.zeros(1, 1, 2, 2)) is module


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


class Switch(torch.nn.Module):
    """Reads a number that the compiled code depends on."""

    factor = 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1) * Switch.factor


def test_a_missing_compiler_is_an_error_before_any_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    """An issuer would have promised by then, and an auditor would take each block for one that fails."""

    def missing(*_: object) -> None:
        raise RuntimeError("there is no C++ compiler")

    monkeypatch.setattr(ways, "Compiled", missing)
    model = TorchModel(Net(), "cpu", compilation="torch-compile")
    with pytest.raises(ValueError, match="there is no C\\+\\+ compiler"):
        model.prepare((1, 2, 2), 8)
    TorchModel(Net(), "cpu").prepare((1, 2, 2), 8)


OTHER_SETTINGS = r"not as it was when torch compiled the model \(GLOBAL_STATE changed: autocast.*\): set it back"


@needs_compiler
@pytest.mark.usefixtures("fresh_compiler")
def test_torch_compile_votes_alike_and_compiles_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same votes on these rows; what would need another compilation is an error, or not seen, but not another F."""
    plain, compiled = TorchModel(Switch(), DEVICE), TorchModel(Switch(), DEVICE, compilation="torch-compile")
    for seed in range(5):
        assert labels(compiled, seed=seed) == labels(plain, seed=seed)
    before = labels(plain)
    assert len({*before, *labels(plain, seed=2)}) > 1
    with torch.inference_mode():  # as whoever certifies may have set it
        assert labels(compiled) == before
    with torch.autocast(DEVICE.partition(":")[0], torch.bfloat16), pytest.raises(ValueError, match=OTHER_SETTINGS):
        labels(compiled)
    monkeypatch.setattr(Switch, "factor", -1)
    assert labels(plain) != before
    try:
        found = labels(compiled)
    except ValueError:
        found = before
    assert found == before


@needs_compiler
@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.slow("compiles a module four times")
def test_a_module_is_compiled_for_each_shape_however_many_there_are() -> None:
    """torch's own limit is eight: from then on it would run the module as it is, and say nothing."""
    from torch._dynamo import config

    seen = []

    class Spy(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not torch.compiler.is_compiling():
                seen.append(len(x))
            return x * 2

    with config.patch(recompile_limit=2):
        for rows in range(2, 6):
            ones = torch.ones(rows, 2)
            forward = forward_of(Spy(), "torch-compile", ones)
            with torch.inference_mode():
                assert torch.equal(forward(ones), 2 * ones)
    assert not seen


def stance() -> str:
    from torch._dynamo import eval_frame

    return eval_frame._stance.stance


def compiled_to(run: object) -> Compiled:
    found = Compiled.__new__(Compiled)
    found._run = run
    return found


def test_two_threads_that_vote_leave_the_compiler_as_it_was() -> None:
    """Its setting is one for all threads, and nothing could be compiled any more."""
    begun, ended = [Event(), Event()], [Event(), Event()]

    def waiting(number: int) -> str:
        begun[number].set()
        assert ended[number].wait(10)
        return stance()

    with ThreadPoolExecutor(2) as threads:
        votes = []
        for number in (0, 1):  # the second begins while the first is at work, and ends after it
            votes.append(threads.submit(compiled_to(waiting), number))
            assert begun[number].wait(10)
        ended[0].set()
        first = votes[0].result()
        ended[1].set()
        assert [first, votes[1].result()] == ["fail_on_recompile"] * 2
    assert stance() == "default"


def test_nothing_is_compiled_while_others_vote(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, ended, seen = Event(), Event(), []

    def voting(_: object) -> None:
        begun.set()
        assert ended.wait(10)
        seen.append("voted")

    monkeypatch.setattr(torch, "compile", lambda *_, **__: lambda _: seen.append(stance()))
    with ThreadPoolExecutor(2) as threads:
        vote = threads.submit(compiled_to(voting), None)
        assert begun.wait(10)
        made = threads.submit(Compiled, None, None, {})
        with pytest.raises(TimeoutError):
            made.result(timeout=0.2)
        ended.set()
        vote.result()
        made.result()
    assert seen == ["voted", "default"]


class Queue:
    """A stream that writes down what is certainly finished when something begins."""

    def __init__(self) -> None:
        self.after: set[str] = set()

    def wait_event(self, event: set[str]) -> None:
        self.after |= event

    def record_event(self) -> set[str]:
        return set(self.after)


def test_a_cuda_graph_waits_for_the_scores_before_in_whatever_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its input is one place: a batch of another thread may not go there before the scores are copied out."""
    streams, before = [Queue(), Queue()], {}

    def queue(what: str) -> None:
        stream = torch.cuda.current_stream(None)
        before[what] = set(stream.after)
        stream.after.add(what)

    def run(name: str, stream: Queue) -> None:
        monkeypatch.setattr(torch.cuda, "current_stream", lambda _: stream)
        graph._input = SimpleNamespace(copy_=lambda _: queue(f"{name} in"))
        graph._graph = SimpleNamespace(replay=lambda: queue(f"{name} run"))
        graph._scores = SimpleNamespace(clone=lambda: queue(f"{name} out"))
        graph(torch.zeros(1))

    graph = CudaGraph.__new__(CudaGraph)
    graph._turn, graph._copied = Lock(), set()
    run("first", streams[0])
    run("second", streams[1])
    assert before["second in"] >= {"first in", "first run", "first out"}


class Recorder:
    """Of torch.cuda, what records a graph. Kernels run on the CPU, and nothing is recorded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.streams, self.recorded = list[tuple[torch.device, int]](), list[dict[str, object]]()
        usual = SimpleNamespace(wait_stream=lambda _: None, record_event=lambda: None)
        monkeypatch.setattr(torch.cuda, "current_stream", lambda _: usual)
        monkeypatch.setattr(torch.cuda, "Stream", self.stream)
        monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
        monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: None)
        monkeypatch.setattr(torch.cuda, "graph", self.graph)

    def stream(self, device: torch.device, priority: int = 0) -> SimpleNamespace:
        self.streams.append((device, priority))
        return SimpleNamespace(device=device, wait_stream=lambda _: None)

    def graph(self, graph: object, **how: object) -> nullcontext[None]:
        self.recorded.append(how)
        return nullcontext()


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    ways._aside.cache_clear()
    yield Recorder(monkeypatch)
    ways._aside.cache_clear()


def test_a_graph_is_recorded_on_the_gpu_of_its_batch(recorder: Recorder) -> None:
    """torch's own stream for that is on the first GPU: what runs on another would not be recorded, and never again.
    Nor is it of high priority, which what is recorded keeps: noise would not stand back.
    """
    device = torch.device("cpu")
    for _ in range(2):
        CudaGraph(torch.nn.Linear(2, 2), torch.zeros(3, 2, device=device))
    assert recorder.streams == [(device, HIGH)]  # one for all: torch has few
    assert [how["stream"].device for how in recorder.recorded] == [device] * 2
    assert {how["capture_error_mode"] for how in recorder.recorded} == {"thread_local"}


def test_what_is_recorded_takes_the_kind_of_tensor_that_batches_are(recorder: Recorder) -> None:
    """Compiled code would have to be compiled again for another kind, so it could not be recorded."""
    seen = []
    with torch.inference_mode():
        CudaGraph(lambda x: seen.append(x.is_inference()), torch.zeros(3, 2))
    assert seen == [False] * 4


@needs_compiler
@needs_gpu
@pytest.mark.usefixtures("fresh_compiler")
def test_compiled_code_is_recorded() -> None:
    rows = torch.as_tensor(batch()).to(DEVICE)
    forward = forward_of(Net().eval().to(DEVICE), "torch-compile", rows)
    with torch.inference_mode():
        assert torch.equal(CudaGraph(forward, torch.zeros_like(rows))(rows), forward(rows))


@needs_gpu
def test_a_cuda_graph_votes_alike() -> None:
    """Recorded once for each shape; earlier votes stay as they were when later batches are run."""
    plain, graph = TorchModel(Net(), DEVICE), TorchModel(Net(), DEVICE, compilation="cuda-graph")
    kept = [(rows, seed, graph.vote(batch(rows, seed)).labels) for rows in (8, 5) for seed in range(5)]
    assert [found.tolist() for *_, found in kept] == [labels(plain, rows, seed) for rows, seed, _ in kept]
    assert not graph.changes()()


@needs_gpu
@pytest.mark.parametrize("compile", PROMISED)
def test_certificates_on_a_gpu(compile: str) -> None:
    """Noise is made on the GPU of the model, which is said beside the certificate."""
    smooth = ss.Smoother(Net(), "1/4", device=DEVICE, compile=compile)
    assert smooth.smoothing.made == "gpu"
    found = smooth.certify(np.full((1, 2, 2), 200, np.uint8), n=1000)
    assert "gpu" in found.environment.values()
    assert found.estimation.total == 1000


# --- the largest batch -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [1, 7, 10_000])
def test_on_a_cpu_the_wanted_batch_is_the_largest(wanted: int) -> None:
    assert TorchModel(Net(), "cpu").largest_batch((1, 2, 2), wanted) == wanted


@pytest.mark.parametrize(
    ("room", "wanted", "largest"), [(300, 1000, 250), (1000, 1000, 1000), (1, 1000, 1), (3, 7, 2), (6, 7, 4)]
)
def test_the_wanted_batch_is_halved_until_it_fits(room: int, wanted: int, largest: int) -> None:
    model = TorchModel(Net(), "cpu")
    model._device = torch.device("cuda", 0)
    model._fits = lambda shape: shape[0] <= room
    assert model.largest_batch((1, 2, 2), wanted) == largest


def test_an_input_that_never_fits() -> None:
    model = TorchModel(Net(), "cpu")
    model._device = torch.device("cuda", 0)
    model._fits = lambda shape: False
    with pytest.raises(ValueError, match=r"not even one input of shape \[1, 2, 2\] fits into the memory of cuda:0"):
        model.largest_batch((1, 2, 2), 1000)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("given", ["numpy", "tensor", "trial", "example", "digest"])
def test_all_batches_are_tensors_of_one_kind(given: str, inside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors made in inference mode are another kind, for which a compiler would compile again. Whoever certifies may
    be inside it.
    """
    seen = []
    model = TorchModel(Net(), "cpu")
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)
    model.forward = lambda x: seen.append(x.is_inference()) or torch.zeros(len(x), 3)
    with torch.inference_mode(inside):
        if given == "trial":
            assert model._fits((8, 1, 2, 2))
        elif given == "example":
            model.forward(model._example((1, 2, 2), 8))
        elif given == "digest":
            scores_digest(model.forward, torch.zeros(8, 1, 2, 2))
        else:
            model.vote(batch() if given == "numpy" else torch.from_numpy(batch()).clone())
    assert seen == [False]


@needs_gpu
@pytest.mark.usefixtures("fresh_compiler")
def test_the_batch_that_was_tried_is_voted_on() -> None:
    model = TorchModel(Net(), DEVICE, compilation="torch-compile")
    assert model.largest_batch((1, 2, 2), 8) == 8
    assert labels(model) == labels(TorchModel(Net(), DEVICE))


@needs_gpu
def test_the_largest_batch_on_a_gpu() -> None:
    """As wanted if it fits; a batch beyond all memory is cut, and what was found fits."""
    model = TorchModel(Net(), DEVICE)
    assert model.largest_batch((1, 2, 2), 1000) == 1000
    small = torch.nn.Sequential(torch.nn.Conv2d(1, 8, 1), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    wide = TorchModel(small, DEVICE)
    found = wide.largest_batch((1, 4096, 4096), 100_000)
    assert 1 <= found < 100_000
    wide.vote(torch.zeros((found, 1, 4096, 4096), device=DEVICE))

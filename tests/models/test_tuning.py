"""How a way to run is chosen by timing, and how others get the same kernels."""

import hashlib
import logging
import math
import os
import shutil
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch

import soundsmooth as ss
from soundsmooth.independence.proof import export_module
from soundsmooth.models import compiler_caches, tuning
from soundsmooth.models.artifact import Artifact, Way, compress
from soundsmooth.models.tuning import Tunable, choose, launched, load, pack, scores_digest

needs_compiler = pytest.mark.skipif(
    not torch.cuda.is_available() and shutil.which("c++") is None, reason="torch.compile on a CPU needs a C++ compiler"
)
GPU = torch.cuda.is_available()
DEVICE = "cuda:0" if GPU else "cpu"
Cost = Callable[[Way], float]


class Timed:
    """A subject whose passes take as long as they are said to take: no test here depends on the machine."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cost: Cost, module: float = 1.0) -> None:
        self.now, self.cost, self.seen = 0.0, cost, list[Way]()
        self.subject = Tunable(self.taking(module), lambda batch, folded: object(), lambda batch: torch.zeros(batch, 2))
        monkeypatch.setattr(tuning, "launched", self.launched)

    def clock(self) -> float:
        return self.now

    def taking(self, seconds: float):
        """A pass that takes so long for each row."""

        def forward(batch: torch.Tensor) -> torch.Tensor:
            self.now += seconds * len(batch)
            return batch

        return forward

    def launched(self, graph: object, way: Way, rows: torch.Tensor):
        self.seen.append(way)
        return self.taking(self.cost(way))

    def choose(self, *batches: int) -> tuning.Choice:
        return choose(self.subject, batches, self.clock)


def test_each_change_that_saves_time_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def cost(way: Way) -> float:
        best = Way(4, compiled=True, folded=True, layouts=False, timed=True)
        return 1.0 + sum(1.0 for one, other in zip(way, best, strict=True) if one != other)

    timed = Timed(monkeypatch, cost, module=8.0)
    found = timed.choose(8, 4, 2)
    assert found.way == Way(4, compiled=True, folded=True, layouts=False, timed=True)
    assert found.gain == pytest.approx(8)
    assert timed.seen[0] == Way(8)
    assert "8.00 times as fast as the module itself" in str(found)


def test_nothing_is_taken_that_saves_less_than_one_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Timed(monkeypatch, lambda way: 1.0 if way == Way(8) else 0.995).choose(8, 4)
    assert found.way == Way(8)
    assert found.gain == pytest.approx(1)


@pytest.mark.parametrize("folds", [True, False])
def test_what_was_faster_only_for_a_while_is_not_kept(folds: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if another program had been at work while the compiled graph was compared.

    The compiler has not failed, nor has it where there is no folded graph.
    """
    timed = Timed(monkeypatch, lambda way: 0.5 if way.compiled and not (way.folded or way.timed) else 1.0)
    graph_of = timed.subject.graph_of
    timed.subject = replace(
        timed.subject, graph_of=lambda batch, folded: graph_of(batch, folded) if folds or not folded else None
    )
    usual, last = timed.launched, [Way(0)]

    def launched(graph: object, way: Way, rows: torch.Tensor):
        quick, slow = usual(graph, way, rows), timed.taking(2.0)
        last[0] = way
        return lambda batch: (slow if way.compiled and last[0].timed else quick)(batch)

    monkeypatch.setattr(tuning, "launched", launched)
    found = timed.choose(8)
    assert Way(8, compiled=True) in timed.seen
    assert (found.way, found.failed) == (Way(8), None)
    assert found.gain == pytest.approx(1)


def test_other_programs_change_no_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """They slow most passes down, of some ways more than of others; the quickest passes tell."""
    timed = Timed(monkeypatch, lambda way: 0.5 if way.compiled else 1.0, module=1.0)
    usual, passes = timed.launched, [0]

    def launched(graph: object, way: Way, rows: torch.Tensor):
        forward, waiting = usual(graph, way, rows), timed.taking(3.0 if way.compiled else 0.3)

        def disturbed(batch: torch.Tensor) -> torch.Tensor:
            passes[0] += 1
            if passes[0] % 7 > 2:
                waiting(batch)
            return forward(batch)

        return disturbed

    monkeypatch.setattr(tuning, "launched", launched)
    found = timed.choose(8)
    assert found.way.compiled
    assert found.gain == pytest.approx(2)


@pytest.mark.parametrize(("quiet_after", "found"), [(0.1, 2.0), (1.2, 2.0), (60.0, 1.0)])
def test_there_are_more_rounds_while_others_are_at_work(
    quiet_after: float, found: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They slow the compiled graph down, more each time, until there is quiet. Nobody waits a minute for that."""
    timed = Timed(monkeypatch, lambda way: 0.001 if way.compiled else 0.002, module=0.002)
    usual, slowed = timed.launched, [1.0]

    def launched(graph: object, way: Way, rows: torch.Tensor):
        forward, start = usual(graph, way, rows), timed.now

        def disturbed(batch: torch.Tensor) -> torch.Tensor:
            if way.compiled and timed.now < start + quiet_after:
                slowed[0] *= 1.03
                timed.taking(0.001 * slowed[0])(batch)
            return forward(batch)

        return disturbed

    monkeypatch.setattr(tuning, "launched", launched)
    assert timed.choose(8).gain == pytest.approx(found)


def test_short_passes_are_timed_together_and_count_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """One pass of the graph takes longer than the least time, and two of the compiled graph do."""
    least = tuning.LEAST_SECONDS
    timed = Timed(monkeypatch, lambda way: (0.9 if way.compiled else 1.5) * least / 8, module=1.5 * least / 8)
    found = timed.choose(8)
    assert found.way.compiled
    assert found.gain == pytest.approx(1.5 / 0.9)


def test_smaller_batches_are_tried_as_long_as_they_save_time(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = Timed(monkeypatch, lambda way: {8: 1.0, 6: 0.8, 4: 0.9, 2: 0.1}[way.batch])
    assert timed.choose(8, 6, 4, 2).way == Way(6)
    assert {way.batch for way in timed.seen} == {8, 6, 4}


def test_what_is_slower_than_the_module_is_never_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph as it is comes first, so a compiler that makes it slower is left out."""
    found = Timed(monkeypatch, lambda way: 3.0 if way.compiled else 1.0).choose(8, 4)
    assert not found.way.compiled
    assert found.gain == pytest.approx(1)


def test_a_way_that_fails_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def cost(way: Way) -> float:
        if way.compiled:
            raise RuntimeError("no C++ compiler\nand much more")
        return 0.5 if way.folded else 1.0

    found = Timed(monkeypatch, cost).choose(8)
    assert found.way == Way(8, folded=True)
    assert found.failed == "no C++ compiler"
    assert str(found).endswith("torch cannot compile it here: no C++ compiler")


def test_only_kernels_without_memory_fail_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that does not fit says nothing of the compiler."""

    def cost(way: Way) -> float:
        if way.batch == 4:
            raise RuntimeError("out of memory")
        return 0.5 if way.compiled else 1.0

    found = Timed(monkeypatch, cost).choose(8, 4)
    assert (found.way.batch, found.failed) == (8, None)


def test_what_fails_while_it_is_timed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ways that are ready need more memory than one."""
    timed = Timed(monkeypatch, lambda way: 1.0)
    usual = timed.launched

    def launched(graph: object, way: Way, rows: torch.Tensor):
        forward, passes = usual(graph, way, rows), list[int]()

        def full(batch: torch.Tensor) -> torch.Tensor:
            passes.append(1)
            if len(passes) > 2:  # its scores were compared
                raise torch.cuda.OutOfMemoryError("CUDA out of memory")
            return forward(batch)

        return full if way.folded else forward

    monkeypatch.setattr(tuning, "launched", launched)
    assert timed.choose(8).way == Way(8)


def test_scores_that_change_from_pass_to_pass_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    timed = Timed(monkeypatch, lambda way: 1.0)
    usual, passes = timed.launched, []

    def launched(graph: object, way: Way, rows: torch.Tensor):
        forward = usual(graph, way, rows)

        def varying(batch: torch.Tensor) -> torch.Tensor:
            passes.append(way)
            timed.now -= 0.5 * len(batch)  # it would be the fastest
            return forward(batch) + (len(passes) if way.timed else 0)

        return varying if way.compiled else forward

    monkeypatch.setattr(tuning, "launched", launched)
    found = timed.choose(8)
    assert found.way.compiled
    assert not found.way.timed
    assert any(way.timed for way in passes)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.head = torch.nn.Linear(12, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x.flatten(1).sin())


def zeros(batch: int) -> torch.Tensor:
    return torch.zeros(batch, 3, 2, 2, device=DEVICE)


def fresh_graph(batch: int, folded: bool) -> torch.nn.Module | None:
    graph = export_module(Net().eval().to(DEVICE), zeros(batch)).graph
    assert graph is not None
    return None if folded else torch.fx.GraphModule(graph, graph.graph)


def subject() -> Tunable:
    return Tunable(Net().eval().to(DEVICE), fresh_graph, zeros)


def packed(way: Way, monkeypatch: pytest.MonkeyPatch | None = None) -> Artifact:
    if monkeypatch is not None:
        monkeypatch.setattr(tuning, "own_caches", nullcontext)
        monkeypatch.setattr(torch.compiler, "save_cache_artifacts", lambda: None)
    with tuning.own_caches():
        return pack(subject(), tuning.Choice(way, 1.0, 0.0), "ab" * 32, "here")


def test_what_is_not_compiled_is_loaded_without_code(monkeypatch: pytest.MonkeyPatch) -> None:
    artifact = packed(Way(5), monkeypatch)
    assert (artifact.compressed, artifact.shape, artifact.machine) == (b"", (3, 2, 2), "here")
    rows = torch.rand(5, 3, 2, 2).to(DEVICE)
    assert torch.equal(load(artifact, fresh_graph(5, False), rows)(rows), Net().eval().to(DEVICE)(rows))


def test_other_scores_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a model with other weights, or of a machine that rounds otherwise."""
    artifact, graph = packed(Way(5), monkeypatch), fresh_graph(5, False)
    with torch.no_grad():
        next(graph.parameters(), next(graph.buffers())).mul_(1 + 2**-20)
    with pytest.raises(ValueError, match="other scores here than where they were tuned"):
        load(artifact, graph, zeros(5))


def test_a_compiler_that_keeps_nothing_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "launched", lambda graph, way, rows: graph)
    with pytest.raises(ValueError, match="keeps no kernels here"):
        packed(Way(5, compiled=True), monkeypatch)


@pytest.mark.parametrize("rows", [1, 7])
def test_the_batch_for_scores_is_always_the_same(rows: int) -> None:
    seen = []
    for _ in range(2):
        scores_digest(lambda batch: seen.append(batch.clone()) or batch, torch.zeros(rows, 3, 2, 2))
    assert torch.equal(*seen)
    assert seen[0].min() < 0
    assert seen[0].max() > 1
    exact, zeros = hashlib.sha256(seen[0].double().numpy().tobytes()).hexdigest(), torch.zeros(rows, 3, 2, 2)
    assert scores_digest(lambda batch: batch, zeros) == exact
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"):
            assert scores_digest(lambda batch: batch, zeros) == exact
    finally:
        torch.set_default_dtype(torch.float32)


OTHER_PROCESS = """
import sys
from pathlib import Path
import torch
sys.path[:0] = [{tests!r}, {models!r}]
from soundsmooth.models.artifact import Artifact
from soundsmooth.models.tuning import load, scores_digest
from test_tuning import fresh_graph, zeros

torch.set_num_threads({threads})  # as a promise says
artifact = Artifact.of(Path(sys.argv[1]).read_bytes())
rows = zeros(5)
print(scores_digest(load(artifact, fresh_graph(5, False), rows), rows))
"""


@needs_compiler
@pytest.mark.slow("compiles a network")
def test_the_chosen_kernels_are_not_compiled_again() -> None:
    """What was timed is kept: others that are chosen anew might be slower."""
    way = Way(5, compiled=True, timed=GPU)
    with tuning.own_caches():
        tuning._made(subject(), way)
        before = tuning._graphs_seen()
        artifact = pack(subject(), tuning.Choice(way, 1.0, 0.0), "ab" * 32, "here")
        after = tuning._graphs_seen()
    assert artifact.kernels
    assert (after.compiled, after.chosen) == (before.compiled, before.chosen)
    assert after.found > before.found


@needs_compiler
@pytest.mark.slow("compiles a network, here and in a second process")
def test_another_process_gets_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With kernels that come from the artifact: what it had to compile anew would be an error."""
    monkeypatch.setattr(tuning, "WORTH", math.inf)  # whatever the times are
    choice, artifact = tuning.tune(subject(), [5], "ab" * 32, "here")
    assert choice.way == Way(5, compiled=True, layouts=False, timed=True, recorded=GPU)
    assert artifact.kernels
    file = tmp_path / "net.artifact"
    file.write_bytes(artifact.content)
    here = Path(__file__).parent
    script = OTHER_PROCESS.format(tests=str(here.parent), models=str(here), threads=torch.get_num_threads())
    done = subprocess.run([sys.executable, "-c", script, str(file)], capture_output=True, text=True)
    assert done.stdout.split() == [artifact.scores], done.stderr


@pytest.mark.skipif(not GPU, reason="kernels of processors have one form")
@pytest.mark.slow("compiles a network")
def test_what_was_chosen_for_each_kernel_is_kept(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of kernels that have several forms, of which the fastest was chosen: loading chooses none."""
    monkeypatch.setattr(tuning, "WORTH", math.inf)
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.Softmax(1)]
    layers += [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(16, 10)]
    network, before = torch.nn.Sequential(*layers).eval(), tuning._graphs_seen().chosen
    options = {"device": DEVICE, "dtype": "fp16", "batch_size": 2048, "compile": "tuned"}
    smooth = ss.Smoother(network, "0.25", **options)
    smooth.certify(np.full((3, 32, 32), 99, np.uint8), n=4096)
    assert smooth.smoothing.model.artifact is not None
    assert tuning._graphs_seen().chosen > before, "there was nothing to choose"
    assert "AUTOTUNE" not in capfd.readouterr().err


def test_kernels_are_compiled_with_one_assembler() -> None:
    """Triton keeps the version for which it has asked. Torch's compiler has processes that ask for another one's."""
    triton = pytest.importorskip("triton.backends.nvidia.compiler")
    before = triton.get_ptxas_version(90)
    assert triton.get_ptxas_version.cache_info().currsize > 0
    with tuning.own_caches():
        assert triton.get_ptxas_version.cache_info().currsize == 0
    assert before


def test_torchs_own_assembler_stays_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch names it once in a process. Older versions give the whole environment back where their caches end."""
    from torch._inductor import utils
    from torch._inductor.runtime import compile_tasks

    @cache
    def name_it() -> None:
        os.environ["TRITON_PTXAS_PATH"] = "torch's own"

    @contextmanager
    def older() -> Iterator[None]:
        with mock.patch.dict(os.environ):
            yield

    monkeypatch.delenv("TRITON_PTXAS_PATH", raising=False)
    monkeypatch.setattr(compile_tasks, compiler_caches.ASSEMBLER, name_it)
    monkeypatch.setattr(utils, "fresh_cache", older)
    try:
        for _ in range(2):
            with tuning.own_caches():
                assert os.environ["TRITON_PTXAS_PATH"] == "torch's own"
    finally:
        os.environ.pop("TRITON_PTXAS_PATH", None)


def test_two_threads_do_not_share_their_caches() -> None:
    """Each would find the other's kernels, under the same name, and leave them behind."""
    seen = list[tuple[str, str]]()

    def compiling(seconds: float) -> None:
        with tuning.own_caches():
            first = os.environ["TORCHINDUCTOR_CACHE_DIR"]
            time.sleep(seconds)
            seen.append((first, os.environ["TORCHINDUCTOR_CACHE_DIR"]))

    compiling(0)
    threads = [threading.Thread(target=compiling, args=(seconds,)) for seconds in (0.2, 0.4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 3
    assert all(first == last for first, last in seen)
    assert len({first for first, _ in seen}) == 3
    assert os.environ.get("TORCHINDUCTOR_CACHE_DIR") not in {first for first, _ in seen}


def counting(*names: str):
    """A compiler that counts this in torch's, and computes what the graph does."""

    def compiler(graph: object, rows: torch.Tensor, options: object) -> object:
        from torch._dynamo.utils import counters

        for name in names:
            counters[name.partition(".")[0]][name.partition(".")[2]] += 1
        return graph

    return compiler


def loaded(compiler: object, monkeypatch: pytest.MonkeyPatch, found: bool = True, **changes: object):
    monkeypatch.setattr(tuning, "own_caches", nullcontext)
    monkeypatch.setattr(torch.compiler, "load_cache_artifacts", lambda kernels: "some" if found else None)
    monkeypatch.setattr(tuning, "Compiled", compiler)
    graph = fresh_graph(5, False)
    artifact = Artifact(
        "ab" * 32, "here", (3, 2, 2), Way(5, compiled=True), scores_digest(graph, zeros(5)), compress(b"kernels")
    )
    return load(artifact, graph, zeros(5))


HIT, AUTOGRAD_HIT = "inductor.fxgraph_cache_hit", "aot_autograd.autograd_cache_hit"


@pytest.mark.parametrize("hits", [(HIT,), (AUTOGRAD_HIT,), (AUTOGRAD_HIT, HIT)])
def test_kernels_that_were_found_in_the_artifact_vote(hits: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    assert loaded(counting(*hits), monkeypatch) is not None


@pytest.mark.parametrize(
    "seen",
    [
        ("inductor.fxgraph_cache_miss",),
        ("inductor.fxgraph_cache_bypass",),
        (HIT, "inductor.fxgraph_cache_miss"),
        (),  # caches are disabled, and torch compiles anew without counting; or its compiler is switched off
        None,  # bytes that are none
    ],
)
def test_what_would_have_to_be_compiled_anew_is_rejected(
    seen: tuple[str, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels of another graph: a second choice by timing would be another F, even if a batch gets these scores."""
    compiler = counting(*seen) if seen is not None else lambda *_: pytest.fail("nothing was loaded")
    with pytest.raises(ValueError, match="has no kernels for this model on this machine; a new run tunes"):
        loaded(compiler, monkeypatch, found=seen is not None)


@pytest.mark.parametrize("what", ["benchmark_all_configs", "coordinate_descent_tuning"])
def test_kernels_that_are_chosen_once_more_are_rejected(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come from the artifact, but which of them votes is left to a clock; torch chooses with the first pass."""

    def compiler(graph: object, rows: torch.Tensor, options: object):
        def choosing(batch: torch.Tensor) -> torch.Tensor:
            from torch._dynamo.utils import dynamo_timed

            with dynamo_timed(f"CachingAutotuner.{what}"):
                return graph(batch)

        return counting(HIT)(choosing, rows, options)

    with pytest.raises(ValueError, match="torch chose kernels by timing here, although the artifact has them; a new"):
        loaded(compiler, monkeypatch)


def test_nothing_is_left_to_choose_where_kernels_are_loaded() -> None:
    """By torch's launcher of its own, which does not find what was chosen, and by blocks that are added later."""
    from torch._inductor import config

    with tuning.own_caches():
        assert not config.use_static_cuda_launcher
        assert not config.dynamic_scale_rblock


def test_torch_prints_no_tables_while_it_chooses() -> None:
    """A page for each layer would hide what the user asked for."""
    from torch._inductor import config

    with tuning.own_caches():
        assert config.autotune_num_choices_displayed == 0
        assert not config.max_autotune_report_choices_stats
    assert config.autotune_num_choices_displayed != 0


@contextmanager
def told_by(log: logging.Logger) -> Iterator[list[str]]:
    """The lines of a log, as they come."""
    told = list[str]()
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    log.addHandler(handler)
    try:
        yield told
    finally:
        log.removeHandler(handler)


def test_torch_does_not_tell_of_kernels_that_cannot_be_read() -> None:
    """Ours is the error then: what torch says of it is a traceback."""
    log = logging.getLogger("torch.compiler._cache")
    with told_by(log) as told:
        assert torch.compiler.load_cache_artifacts(b"no kernels") is None
        with tuning.own_caches():
            assert torch.compiler.load_cache_artifacts(b"no kernels") is None
            log.warning("another line")
    assert told == ["Failed to un-pickle cache artifacts", "another line"]


def test_torch_tells_of_no_kernel_that_it_leaves_out() -> None:
    """A line for each, as of an error, on the screen of somebody who can do nothing about it. Other errors are told."""
    from torch._inductor.select_algorithm import log

    no_room = (
        "Runtime error during autotuning: \n%s. \nIgnoring this choice.",
        "No valid triton configs. OutOfResources",
    )
    with told_by(log) as told:
        with tuning.own_caches():
            log.error(*no_room)
            log.error("another error")
        log.error(*no_room)
    assert told == ["another error", no_room[0] % no_room[1]]


def test_what_others_do_with_warnings_stays() -> None:
    """Filters are one list for all threads. One that is changed while another thread tunes is not put back."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with tuning.own_caches():
            warnings.filterwarnings("ignore", message="not wanted")
            warnings.warn("TypedStorage is deprecated. It will be removed", stacklevel=1)
        warnings.warn("not wanted", stacklevel=1)
        warnings.warn("3 images failed", stacklevel=1)
    assert [str(each.message) for each in warned] == ["3 images failed"]


def test_an_error_of_the_first_pass_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where torch is told to compile nothing more."""

    def compiler(graph: object, rows: torch.Tensor, options: object):
        def broken(batch: torch.Tensor) -> None:
            raise RuntimeError("Detected recompile\nand much more")

        return broken

    with pytest.raises(ValueError, match=r"the artifact's kernels cannot be loaded: Detected recompile; a new run"):
        loaded(compiler, monkeypatch)


def test_an_error_of_the_kernels_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(kernels: bytes) -> None:
        raise EOFError("Ran out of input")

    monkeypatch.setattr(tuning, "own_caches", nullcontext)
    monkeypatch.setattr(torch.compiler, "load_cache_artifacts", broken)
    artifact = Artifact("ab" * 32, "here", (3, 2, 2), Way(5, compiled=True), "cd" * 32, compress(b"kernels"))
    with pytest.raises(ValueError, match=r"the artifact's kernels cannot be loaded: .*Ran out of input"):
        load(artifact, fresh_graph(5, False), zeros(5))


@needs_compiler
@pytest.mark.parametrize("timed", [False, True])
def test_kernels_are_timed_where_that_was_chosen_only(timed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(tuning, "Compiled", lambda graph, rows, options: asked.append(options) or graph)
    launched(Net().eval(), Way(5, compiled=True, timed=timed, layouts=False), torch.zeros(5, 3, 2, 2))
    (options,) = asked
    assert options.get("max_autotune", False) == timed
    assert options["layout_optimization"] is False
    assert ("deterministic" in options or "triton.autotune_pointwise" in options) != timed

"""The ledger cites code that exists, and mechanisms that run: docs/soundness.md against the source and the program."""

import ast
import inspect
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import CodeType, FrameType
from unittest.mock import patch

import numpy as np
import onnx
import pytest

import soundsmooth as ss
from classifiers import brightness
from soundsmooth import embedded
from soundsmooth.cli.main import app

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "soundsmooth"
LEDGER = (ROOT / "docs" / "soundness.md").read_text()
MODEL = embedded.MODELS[Fraction(1, 4)]

#: Mechanisms that no certification on a plain machine runs in its own process, and why.
ELSEWHERE = {
    "noise/reference.py (reference_noise)": "the specification in slow integers; tests compare the sampler with it",
    "noise/gpu.py (GpuSampler)": "needs a GPU",
    "core/cuda_streams.py (TwoStreams)": "needs a GPU",
    "models/compiled.py (CudaGraph)": "needs a GPU",
    "models/compiled.py (Compiled)": "needs a compiler, and minutes",
    "models/sandbox/confine.py": "runs in the process of the untrusted model",
    "runs/scheduler.py (Scheduler._on_death)": "runs when a worker in another process dies",
}


@dataclass(frozen=True)
class Citation:
    """A file, and a name in it or (empty) the whole file."""

    file: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.file} ({self.name})" if self.name else self.file


def citations(page: str) -> list[Citation]:
    """All citations of a page: `path.py`, or `path.py` (`name`, `Class.method`)."""
    found = []
    for file, names in re.findall(r"`([\w/.]+\.py)`(?:\s*\(((?:`[\w.]+`(?:,\s*)?)+)\))?", page):
        found += [Citation(file, name) for name in re.findall(r"`([^`]+)`", names)] or [Citation(file)]
    return list(dict.fromkeys(found))


def path_of(cited: Citation) -> Path:
    return (ROOT if cited.file.startswith(("tests/", "experiments/")) else PACKAGE) / cited.file


def definitions(tree: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, ast.stmt]]:
    """Functions, classes, methods and fields of a file, by qualified name."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield prefix + node.name, node
        if isinstance(node, ast.ClassDef):
            yield from definitions(node, f"{prefix}{node.name}.")
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield prefix + node.target.id, node


def definition(cited: Citation) -> ast.AST | None:
    """What the citation names; None if there is no such thing."""
    if not path_of(cited).is_file():
        return None
    tree = ast.parse(path_of(cited).read_text())
    return dict(definitions(tree)).get(cited.name) if cited.name else tree


def runs(cited: Citation) -> bool:
    """Whether there is code in what is cited: fields and enumerations without methods have none."""
    found = definition(cited)
    return found is not None and any(isinstance(node, ast.FunctionDef) for node in ast.walk(found))


CITED = citations(LEDGER)
MECHANISMS = [each for each in CITED if path_of(each).is_relative_to(PACKAGE) and runs(each)]


@pytest.mark.parametrize("cited", CITED, ids=str)
def test_a_citation_resolves(cited: Citation) -> None:
    assert definition(cited) is not None


def test_the_citations_are_found() -> None:
    assert len(CITED) > 150
    assert len(MECHANISMS) > 80
    assert {name.partition("/")[0] for name in (each.file for each in CITED)} >= {"exact", "noise", "runs", "tests"}
    assert citations("`a/b.py`\n(`C.d`,\n`e`), `f.py`: `g`, `a/b.py` (a word)") == [
        Citation("a/b.py", "C.d"),
        Citation("a/b.py", "e"),
        Citation("f.py"),
        Citation("a/b.py"),
    ]


def test_a_wrong_citation_is_noticed() -> None:
    for wrong in ("certify.py (certify)", "noise/law.py (Sampler)", "noise/sampler.py (Sampler.nosy)"):
        file, _, name = wrong.rstrip(")").partition(" (")
        assert definition(Citation(file, name)) is None


@contextmanager
def collecting(seen: set[CodeType]) -> Iterator[None]:
    """Collect the functions that are called, in this thread and in new ones; importing a class does not run it."""

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_flags & inspect.CO_NEWLOCALS:
            seen.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def command(*words: object) -> None:
    app([str(word) for word in words], standalone_mode=False)


def the_command_line(folder: Path) -> None:
    """A kept run: committed, certified, shown, exported and replayed by an auditor."""
    images, run = folder / "images.npz", folder / "run.db"
    with np.load(embedded.IMAGES) as data:
        np.savez(images, x=data["x"][:2], y=data["y"][:2])
    terms = (MODEL, images, "--sigma", "0.25", "--n", 200, "--threads", 1)
    command("commit", *terms, "--seed", "s")
    command("certify", *terms, "--seed", "s", "--out", run, "--require-proof")
    command("runs", "show", run)
    command("runs", "export", run, "--to", folder / "run.tsv")
    command("verify", run, "--replay", "all", "--model", MODEL, "--data", images)
    looks = ("--radii", "0.25", "--looks", "100=1/2000,200=1/2000")
    command("certify", *terms, *looks, "--out", folder / "looks.db")
    command("verify", folder / "looks.db", "--replay", "50%", "--model", MODEL, "--data", images)


def stops(_: object) -> None:
    raise InterruptedError


def fails_on_bright(batch: np.ndarray) -> np.ndarray:
    if batch.mean() > 0.8:
        raise RuntimeError("too bright")
    return brightness(batch)


def a_function(folder: Path) -> None:
    """A run that is interrupted, continued, and has an image on which the model fails; then a prediction."""
    images = ss.levels(np.float32([[[0.2, 0.2], [0.2, 0.2]], [[1, 1], [1, 1]], [[0.6, 0.6], [0.6, 0.6]]]))
    smooth = ss.Smoother(fails_on_bright, "0.01", threads=1)
    smooth.commit(images, [0, 1, 1], n=200, seed="s")
    with pytest.raises(InterruptedError):
        smooth.certify_all(images, [0, 1, 1], n=200, out=folder / "f.db", on_result=stops)
    with pytest.warns(UserWarning, match="the model failed on 1 images"):
        smooth.certify_all(images, [0, 1, 1], n=200, out=folder / "f.db").accuracy([0])
    smooth.certify_all(images[:1], n=200, noise="shared")
    smooth.predict(images[0], n=200)


def floats_near_the_grid(folder: Path) -> None:
    """A run that pays for rounding, read back and audited."""
    images, run = np.full((1, 2, 2), 200, np.float32) * np.float32(1 / 255), folder / "near.db"
    found = ss.Smoother(brightness, "0.25", threads=1).certify_all(images, [1], n=200, out=run)
    ss.Certificate.from_json(found[0].to_json())
    ss.verify(run, data=(images, [1]))


def a_fine_grid() -> None:
    """32 bits leave 57,000 of 2³² words open: about 16 of 1.2 million draws, and none with a probability below 1e-6."""
    grid = ss.Grid(256, 4095)
    ss.Smoother(brightness, 2, k=7, grid=grid, threads=1).certify(np.zeros((64, 64), np.uint8), n=200)


def torch_modules(folder: Path) -> None:
    """One that is proved, with the weights of a checkpoint, and one whose rows are measured."""
    torch = pytest.importorskip("torch")

    layers = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))

    class Normalised(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.full((1, 2, 2), 0.5))
            self.layers = layers

        def forward(self, batch: "torch.Tensor") -> "torch.Tensor":
            return self.layers(batch - self.mean)

    image = np.full((2, 2), 9, np.uint8)
    torch.save({"state_dict": Normalised().state_dict()}, folder / "c.pth.tar")
    options = {"weights": folder / "c.pth.tar", "device": "cpu", "threads": 1, "independence": "proved"}
    proved = ss.Smoother(Normalised(), "0.25", **options)
    proved.certify(image, n=200, bound="runner-up")
    with (
        patch("soundsmooth.models.tuning.own_caches", nullcontext),
        patch("soundsmooth.models.tuning._changes", lambda *_: []),
    ):  # the graph as it is: nothing is compiled
        ss.Smoother(Normalised(), "0.25", compile="tuned", threads=1).certify_all([image], n=200, out=folder / "t.db")
    measured = ss.Smoother(layers, "0.25", device="cpu", threads=1, independence="measured", again=4)
    measured.certify(image, n=200)


def files_of_others(folder: Path) -> None:
    """A graph that is not trusted, whose weights lie beside it, and a pickle."""
    graph = folder / "graph.onnx"
    onnx.save_model(onnx.load(MODEL), graph, save_as_external_data=True, location="weights", size_threshold=0)
    with np.load(embedded.IMAGES) as data:
        ss.Smoother(graph, "0.25", threads=1, untrusted=True).certify(data["x"][0], n=200)
    with pytest.raises(ValueError, match="is a pickle"):
        ss.Smoother(folder / "model.pt", "0.25")


def forget_results() -> None:
    """Tests that ran before in this process have filled caches, and a function whose result is known is not called."""
    for name, module in list(sys.modules.items()):
        for value in list(vars(module).values()) if name.startswith("soundsmooth") else ():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


@pytest.fixture(scope="module")
def called(tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, str]]:
    """The functions that certifications, a prediction and an audit have called: file and qualified name."""
    folder, seen = tmp_path_factory.mktemp("ledger"), set[CodeType]()
    forget_results()
    with collecting(seen):
        the_command_line(folder)
        a_function(folder)
        floats_near_the_grid(folder)
        a_fine_grid()
        torch_modules(folder)
        files_of_others(folder)
    home = Path(ss.__file__).parent
    ours = [code for code in tuple(seen) if Path(code.co_filename).is_relative_to(home)]
    return {(Path(code.co_filename).relative_to(home).as_posix(), code.co_qualname) for code in ours}


def ran(cited: Citation, called: set[tuple[str, str]]) -> bool:
    """Whether the function was called; or a method of the class; or a function of the file."""
    names = {name for file, name in called if file == cited.file and not name.startswith("<")}
    return any(not cited.name or f"{name}.".startswith(f"{cited.name}.") for name in names)


@pytest.mark.parametrize("cited", MECHANISMS, ids=str)
@pytest.mark.slow("certifies in every way, under a tracer")
def test_a_mechanism_runs_in_a_certification(cited: Citation, called: set[tuple[str, str]]) -> None:
    if str(cited) in ELSEWHERE:
        assert not ran(cited, called), "it runs here after all: take it off the list"
    else:
        assert ran(cited, called)


def test_the_list_of_exceptions_is_cited() -> None:
    assert set(ELSEWHERE) <= {str(each) for each in MECHANISMS}


def test_code_that_does_not_run_is_noticed(called: set[tuple[str, str]]) -> None:
    """Names that exist, and that no certification calls: what an unused copy of the algorithm would look like."""
    for unused in (Citation("lab/unsound/certify.py"), Citation("noise/reference.py", "reference_noise")):
        assert runs(unused)
        assert not ran(unused, called)

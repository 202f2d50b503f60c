"""The file of tuned kernels: kept before the promise, read again by all who continue the run, rejected otherwise."""

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch

import soundsmooth as ss
from command import error_of, run_command
from soundsmooth.certification.promise import Promise
from soundsmooth.models import tuning
from soundsmooth.models.artifact import Artifact
from soundsmooth.models.torch_module import TorchModel
from soundsmooth.runs import artifact_file
from soundsmooth.runs.artifact_file import artifact_path, keep_artifact
from soundsmooth.runs.reader import terms_at
from soundsmooth.verification.promised import promised_smoothing

IMAGES = np.random.default_rng(3).integers(0, 256, (3, 1, 2, 2), dtype=np.uint8)
SMALL = {"n": 60, "n0": 10, "seed": "artifact"}


def net() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3)).eval()


@pytest.fixture(autouse=True)
def untimed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Tuning tries one way only, the graph as it is: nothing is compiled, and nothing timed decides."""
    tuned: list[int] = []
    monkeypatch.setattr(tuning, "own_caches", nullcontext)
    monkeypatch.setattr(tuning, "_changes", lambda batches, on_gpu: tuned.append(batches[0]) or [])
    return tuned


def smoother(**options: object) -> ss.Smoother:
    return ss.Smoother(net(), "1/4", threads=1, **{"compile": "tuned", **options})


def counts(run: ss.Run) -> list[tuple[int, ...]]:
    return [each.estimation.classes for each in run]


def test_a_run_keeps_its_kernels_beside_it(tmp_path: Path, untimed: list[int]) -> None:
    out = tmp_path / "run.db"
    with smoother().certify_all(IMAGES, out=out, limit=3, **SMALL) as run:
        first, flags = counts(run), run.promise.flags
    kept = Artifact.of((tmp_path / "run.db.artifact").read_bytes())
    assert (flags["compile"], flags["artifact"]) == ("tuned", kept.digest)
    assert terms_at(out).batch == kept.way.batch == untimed[0] == 60
    with smoother().certify_all(IMAGES, out=out, limit=3, **SMALL) as run:
        assert counts(run) == first
    with smoother(compile="auto").certify_all(IMAGES, out=out, limit=3, **SMALL) as run:
        assert counts(run) == first
    assert len(untimed) == 1, "it was tuned once"


@pytest.mark.parametrize("damage", ["missing", "other", "none"])
def test_a_run_without_its_kernels_is_not_continued(damage: str, tmp_path: Path) -> None:
    out = tmp_path / "run.db"
    smoother().certify_all(IMAGES[:1], out=out, **SMALL).close()
    file = artifact_path(out)
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes() + b"more" if damage == "other" else b"nothing")
    said = {
        "missing": "run.db.artifact' is missing: it holds the tuned kernels that the run has promised",
        "other": "does not hold the tuned kernels that the run has promised. Put the right file back",
        "none": "run.db.artifact': this is no artifact of soundsmooth",
    }
    before = out.read_bytes()
    with pytest.raises(ValueError, match=said[damage]):
        smoother().certify_all(IMAGES[:1], out=out, **SMALL)
    assert out.read_bytes() == before


def test_a_run_is_not_continued_in_another_way(tmp_path: Path, untimed: list[int]) -> None:
    """It is said at once, before anything is tuned."""
    out = tmp_path / "run.db"
    smoother(compile="none").certify_all(IMAGES[:1], out=out, **SMALL).close()
    with pytest.raises(ValueError, match="the run was begun with compile none, and a run that has begun cannot change"):
        smoother().certify_all(IMAGES[:1], out=out, **SMALL)
    assert untimed == []


def test_commit_and_certify_share_a_file(tmp_path: Path, untimed: list[int]) -> None:
    file = tmp_path / "net.artifact"
    promise = smoother(artifact=file).commit(IMAGES, **SMALL)
    run = smoother(artifact=file).certify_all(IMAGES, **SMALL)
    assert run.commitment == promise.commitment
    assert len(untimed) == 1


def test_a_lone_image_has_kernels_too(tmp_path: Path, untimed: list[int]) -> None:
    file = tmp_path / "net.artifact"
    smooth = smoother(artifact=file)
    found = [smooth.certify(image, **SMALL) for image in IMAGES]
    assert len(untimed) == 1
    assert {each.promise.flags["artifact"] for each in found} == {Artifact.of(file.read_bytes()).digest}
    again = smoother(artifact=file).certify(IMAGES[0], **SMALL)
    assert (again.promise, again.estimation) == (found[0].promise, found[0].estimation)
    assert smooth.predict(IMAGES[0], n=30).votes == 30


def test_another_process_votes_with_the_same_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first worker tuned is sent with the job; a worker that comes later does not tune."""
    out, here = tmp_path / "run.db", tmp_path / "here.db"
    smoother().certify_all(IMAGES, out=here, **SMALL).close()
    artifact_path(out).write_bytes(artifact_path(here).read_bytes())
    with smoother(workers=2).certify_all(IMAGES, out=out, engine="processes", **SMALL) as run:
        found = counts(run)
    with ss.open_run(here) as run:
        assert counts(run) == found


def test_a_file_is_written_once_and_whole(tmp_path: Path) -> None:
    file = tmp_path / "net.artifact"
    smoother(artifact=file).certify(IMAGES[0], **SMALL)
    content = file.read_bytes()
    keep_artifact(file, content)
    with pytest.raises(ValueError, match="holds other tuned kernels: name another file, or delete this one if no run"):
        keep_artifact(file, content + b"more")
    assert file.read_bytes() == content
    assert [each.name for each in tmp_path.iterdir()] == ["net.artifact"]


@pytest.mark.parametrize("links", [True, False])
def test_of_two_processes_the_first_one_keeps_its_file(
    links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have seen that there is none. The second one may not take away what the first has promised."""
    smoother(artifact=tmp_path / "a").certify(IMAGES[0], **SMALL)
    file, content = tmp_path / "net.artifact", (tmp_path / "a").read_bytes()
    reading = artifact_file._read_artifact

    def none_yet(path: Path) -> bytes | None:
        found = reading(path)
        if not path.exists():
            path.write_bytes(content)  # the other process, just now
        return found

    if links:
        monkeypatch.setattr(artifact_file, "_read_artifact", none_yet)
        with pytest.raises(ValueError, match="holds other tuned kernels"):
            keep_artifact(file, content + b"more")
    else:
        monkeypatch.setattr("os.link", lambda *_: (_ for _ in ()).throw(PermissionError("no hard links here")))
        keep_artifact(file, content)
    assert file.read_bytes() == content
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "net.artifact"]


@pytest.mark.parametrize("out", [None, "run.db"])
def test_a_file_that_cannot_be_written_is_said_before_tuning(
    out: str | None, tmp_path: Path, untimed: list[int]
) -> None:
    smooth = smoother(artifact=tmp_path / "missing" / "net.artifact")
    with pytest.raises(ValueError, match=r"there is no folder .*missing' to write to"):
        smooth.certify_all(IMAGES, out=out and tmp_path / out, **SMALL)
    assert untimed == []


def test_a_folder_that_cannot_be_written_is_said_before_tuning(
    tmp_path: Path, untimed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != tmp_path)
    with pytest.raises(ValueError, match="cannot be written to"):
        smoother(artifact=tmp_path / "net.artifact").certify_all(IMAGES, **SMALL)
    assert untimed == []


def test_a_prediction_tunes_nothing(untimed: list[int]) -> None:
    """And says so: without kernels the model would run as it is."""
    with pytest.raises(ValueError, match="a prediction tunes no kernels: choose compile none"):
        smoother().predict(IMAGES[0], n=100)
    assert untimed == []


@pytest.mark.parametrize("compile", ["auto", "none", "torch-compile"])
def test_a_named_file_is_not_left_out_in_silence(compile: str, tmp_path: Path) -> None:
    """Who names one wants its kernels to vote."""
    smooth = smoother(compile=compile, artifact=tmp_path / "net.artifact")
    with pytest.raises(
        ValueError, match=f"an artifact goes with compile tuned, and this is {compile}: choose that, or"
    ):
        smooth.certify(IMAGES[0], **SMALL)


def test_one_smoother_continues_a_tuned_run_and_begins_another(tmp_path: Path, untimed: list[int]) -> None:
    """With the kernels that it has, in other processes too: what it promises is what an audit can read."""
    out = tmp_path / "run.db"
    smoother().certify_all(IMAGES, out=out, **SMALL).close()
    same = smoother(compile="auto", workers=1)
    same.certify_all(IMAGES, out=out, **SMALL).close()
    with same.certify_all(IMAGES, out=tmp_path / "two.db", engine="processes", **SMALL) as run:
        assert run.promise.flags["compile"] == "tuned"
        assert run.promise.flags["artifact"] == Artifact.of(artifact_path(out).read_bytes()).digest
    assert ss.verify(tmp_path / "two.db").ok
    assert len(untimed) == 1


def test_a_run_that_is_continued_measures_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU it might be timed otherwise than when it began: how it runs is read from its promise."""
    out, expected = tmp_path / "run.db", []

    def settle(self: TorchModel, shape: tuple[int, ...], batches: list[int], copies: int) -> None:
        expected.append(copies)
        if copies >= 200:
            pytest.fail("it is measured")

    smoother(compile="auto").certify_all(IMAGES, out=out, **SMALL).close()
    monkeypatch.setattr(TorchModel, "settle", settle)
    smoother(compile="auto").certify_all(IMAGES, out=out, **SMALL).close()
    assert expected == [0]


def test_each_worker_gets_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a run is long is about each worker's part."""
    expected = []
    monkeypatch.setattr(TorchModel, "settle", lambda self, shape, batches, copies: expected.append(copies))
    for workers in (1, 2):
        smoother(compile="auto", workers=workers).certify_all(IMAGES, **SMALL).close()
    assert expected == [3 * 70, 2 * 70]


def test_an_auditor_is_told_of_kernels_for_other_batches(tmp_path: Path) -> None:
    """A promise of our own never has them. They would not vote, and the audit would say that they did."""
    out, batches = tmp_path / "run.db", {"n": 60, "n0": 10, "seed": "artifact"}
    smoother().certify_all(IMAGES, out=out, **batches).close()
    promise, content = ss.open_run(out).promise, artifact_path(out).read_bytes()
    forged = Promise({**promise.values, "batch": "30"})
    with pytest.raises(
        ValueError, match=r"the artifact is for batches of 60 inputs of shape .*, and these are batches of"
    ):
        promised_smoothing(net(), forged, {}, content)
    assert promised_smoothing(net(), promise, {}, content).model.artifact == content


def test_verify_loads_kernels_only_if_they_are_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "run.db"
    smoother().certify_all(IMAGES, out=out, **SMALL).close()
    loaded = []
    monkeypatch.setattr("soundsmooth.models.voting_graphs.load", lambda *given: loaded.append(given[0]) or given[1])
    asked = {"model": net(), "data": IMAGES, "replay": "all"}
    plain = ss.verify(out, **asked)
    assert plain.ok
    assert loaded == []
    assert any("tuned kernels -> none, as --trust-artifact was not given" in text for text in plain.not_shown)
    trusted = ss.verify(out, trust_artifact=True, **asked)
    assert trusted.ok
    assert len(loaded) == 1
    assert not any("tuned kernels" in text for text in trusted.not_shown)
    artifact_path(out).unlink()
    assert ss.verify(out, **asked).ok
    with pytest.raises(ValueError, match="is missing: it holds the tuned kernels"):
        ss.verify(out, trust_artifact=True, **asked)


MODULE = """
import torch

def make():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3))
"""


def test_the_command_line_takes_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, untimed: list[int]
) -> None:
    """commit, certify, the same command again, verify with and without trust."""
    (tmp_path / "tuned_net.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    np.savez(tmp_path / "d.npz", x=IMAGES, y=np.zeros(3, int))
    words = ["tuned_net:make", "d.npz", "--n", 60, "--n0", 10, "--seed", "a", "--threads", 1, "--compile", "tuned"]
    said = error_of("commit", *words, folder=tmp_path)
    assert "commit needs --artifact with --compile tuned: certify has to vote with the same kernels" in said
    promise = run_command("commit", *words, "--artifact", "a.artifact", folder=tmp_path).stdout
    more = ["--artifact", "a.artifact", "--out", "r.db"]
    first = run_command("certify", *words, *more, folder=tmp_path)
    assert ss.open_run(tmp_path / "r.db").promise.text == promise
    assert not (tmp_path / "r.db.artifact").exists()
    run_command("certify", *words, *more, folder=tmp_path)
    assert len(untimed) == 1, "the commit that failed had tuned nothing"
    assert first.code == 0
    audit = ["verify", "r.db", "--model", "tuned_net:make", "--data", "d.npz", "--replay", "all"]
    plain = run_command(*audit, code=None, folder=tmp_path)
    assert "tuned kernels -> none" in plain.stdout
    trusted = run_command(*audit, "--trust-artifact", "--artifact", "a.artifact", code=None, folder=tmp_path)
    assert "tuned kernels" not in trusted.stdout
    assert plain.code == trusted.code == 0

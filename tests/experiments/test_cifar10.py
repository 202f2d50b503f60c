"""The CIFAR-10 experiment: networks from files, both procedures resumed, and what they are compared by."""

import argparse
import io
import json
import math
import os
import pickle
import shutil
import subprocess
import sys
import tarfile
import textwrap
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import certify
import compare
import networks
import numpy as np
import pytest
import replay
import table
import torch
from compare import Hits, Pair, Results
from safetensors.torch import load_file, save_file

import data
from soundsmooth.core.grid import IMAGES
from soundsmooth.data.load import load
from soundsmooth.exact import clopper_pearson_below, radius_below
from soundsmooth.lab.bench.networks import resnet110
from soundsmooth.models import model_of
from soundsmooth.models.torch_module import TorchModel
from soundsmooth.runs.pipeline import certify_into, open_store
from soundsmooth.runs.plan import plan_run
from soundsmooth.runs.pools import LocalPool
from soundsmooth.runs.reader import terms_at
from soundsmooth.runs.store import Store
from soundsmooth.verification import AuditInputs, Verification, audit_file
from soundsmooth.verification.promised import model_checks

FOLDER = Path(certify.__file__).parent
ALPHA = Fraction(1, 1000)
each_stored_run = pytest.mark.parametrize("path", sorted((FOLDER / "runs").glob("*.db")), ids=lambda path: path.stem)


# Data


def test_the_data_come_from_the_archive_of_its_authors(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    records = rng.integers(0, 256, (12, data.RECORD), np.uint8)
    records[:, 0] %= 10
    files = [*data.FILES["train"], *data.FILES["test"]]
    with tarfile.open(tmp_path / "archive.tar.gz", "w:gz") as tar:
        for place, file in enumerate(files):
            raw = records[2 * place : 2 * place + 2].tobytes()
            entry = tarfile.TarInfo(f"{data.FOLDER}/{file}")
            entry.size = len(raw)
            tar.addfile(entry, io.BytesIO(raw))
    data.main(tmp_path / "archive.tar.gz", tmp_path / "DATA")
    held = {name: np.load(tmp_path / "DATA" / f"{name}.npz") for name in data.FILES}
    assert held["train"]["x"].shape == (10, 32, 32, 3)
    assert held["test"]["y"].tolist() == records[10:, 0].tolist()
    green = 1 + 1024 + 5 * 32 + 7  # row 5, column 7
    assert held["test"]["x"][1, 5, 7, 1] == records[11, green]
    assert len(load(tmp_path / "DATA" / "test.npz", grid=IMAGES, layout="nhwc-to-nchw").levels) == 2


# Networks


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weights")
    state = {k: v.half() if v.is_floating_point() else v for k, v in resnet110().state_dict().items()}
    save_file(state, networks.weights_file("1/4", folder), {"note": "anything"})
    return folder


def test_the_file_is_read_as_the_library_reads_it(weights: Path) -> None:
    path = networks.weights_file("0.25", weights)
    ours, theirs = networks.read_safetensors(path), load_file(path)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) and ours[name].dtype == theirs[name].dtype for name in ours)


def test_python_and_command_line_name_the_same_model(weights: Path) -> None:
    path = networks.weights_file("0.25", weights)
    named = model_of("soundsmooth.lab.bench.networks:resnet110", weights=path)
    assert model_of(networks.network(path)).identity() == named.identity()


@pytest.mark.parametrize("sigma", networks.SIGMAS)
def test_the_stored_networks_are_there(sigma: str) -> None:
    """Each was trained under its own noise, and no two are the same; half precision holds all their numbers."""
    path = networks.weights_file(sigma)
    raw = path.read_bytes()
    notes = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])["__metadata__"]
    assert float(notes["sigma"]) == float(sigma)
    module = networks.network(path).half()
    assert all(bool(tensor.isfinite().all()) for tensor in module.state_dict().values())
    others = [networks.weights_file(other) for other in networks.SIGMAS if other != sigma]
    assert all(other.read_bytes() != raw for other in others)


def test_files_that_are_not_whole_are_refused(weights: Path, tmp_path: Path) -> None:
    raw = networks.weights_file("0.25", weights).read_bytes()
    for name, content in (("short", raw[:-1]), ("empty", b""), ("text", b"no weights at all, in no format")):
        path = tmp_path / f"{name}.safetensors"
        path.write_bytes(content)
        with pytest.raises((ValueError, RuntimeError)):
            networks.network(path)
    infinite = {name: tensor / 0 for name, tensor in load_file(networks.weights_file("0.25", weights)).items()}
    save_file(infinite, tmp_path / "infinite.safetensors")
    with pytest.raises(ValueError, match="not finite"):
        networks.network(tmp_path / "infinite.safetensors")


# Both procedures, on a network that is small and undecided


def small_network(path: Path | None = None) -> torch.nn.Module:
    torch.manual_seed(0)
    layers = torch.nn.Conv2d(3, 4, 5, stride=4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(196, 10)
    return torch.nn.Sequential(*layers)


def save_data(path: Path) -> None:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (12, 32, 32, 3), np.uint8)
    with torch.inference_mode():  # labels that the network mostly finds
        labels = small_network()(torch.tensor(pixels).permute(0, 3, 1, 2) / 255).argmax(1)
    np.savez(path, x=pixels, y=labels.numpy())


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    monkeypatch.setattr(networks, "network", small_network)
    save_data(tmp_path / "data.npz")
    line = f"{tmp_path / 'data.npz'} {tmp_path / 'out'} --n 200 --every 2 --sigma 0.25 --device cpu --batch 50"
    found = certify._arguments().parse_args([*line.split(), "--threads", "1"])
    found.out.mkdir()
    return found


def ticking(laps: int) -> certify.Clock:
    """A clock that is over after so many images: nothing takes time but images, one second each."""
    counted = iter(range(1, 1000))
    clock = certify.Clock(seconds=float(laps), now=lambda: 0.0)

    def lap() -> None:
        now = float(next(counted))
        clock.now = lambda: now

    clock.lap = lap  # type: ignore[method-assign]
    return clock


def rows_of(path: Path) -> list[dict[str, Any]]:
    return certify.read_standard(path)[1]


def test_stopped_and_continued(asked: argparse.Namespace) -> None:
    images = certify.images_of(asked)
    assert certify.certify(asked, "0.25", images, ticking(2)) == 4 + 6 - 1  # the last of the two begins one more
    left = certify.certify(asked, "0.25", images, certify.Clock())
    assert left == 0
    with Store.read(asked.out / "sound_sigma0.25_n200.db") as store:
        first = [(c.index, c.truth, c.selection, c.estimation, c.radius) for c in store.certificates()]
        assert not list(store.findings())
        assert [block.hits for place in range(6) for block in store.blocks(place)] == [None] * 6 * 6
    rows = rows_of(asked.out / "standard_sigma0.25_n200.jsonl")
    assert [index for index, *_ in first] == [row["index"] for row in rows] == [0, 2, 4, 6, 8, 10]
    assert len({row["seed"] for row in rows}) == 6
    assert certify.certify(asked, "0.25", images, certify.Clock()) == 0  # nothing is left, nothing is made again


def test_a_part_of_the_images_is_spread_over_them(asked: argparse.Namespace) -> None:
    """The first ones in this order are every third one; the same run goes on to all of them."""
    asked.spread, asked.first = 3, 2
    images = certify.images_of(asked)
    assert images.indices == (0, 6, 2, 8, 4, 10)
    whole = load(asked.data, grid=IMAGES, layout=asked.layout)
    for index, levels, label in zip(images.indices, images.levels, images.labels, strict=True):
        assert np.array_equal(levels, whole.levels[index])
        assert label == whole.labels[index]
    sound, standard = asked.out / "sound_sigma0.25_n200.db", asked.out / "standard_sigma0.25_n200.jsonl"
    for first, indices in ((2, [0, 6]), (2, [0, 6]), (3, [0, 6, 2]), (None, list(images.indices))):
        asked.first = first
        assert certify.certify(asked, "0.25", images, certify.Clock()) == 0
        with Store.read(sound) as store:
            assert sorted(c.index for c in store.certificates()) == sorted(indices)
        assert [row["index"] for row in rows_of(standard)] == indices
    found = audit_file(sound, given=AuditInputs(data=lambda grid: load(asked.data, grid=grid, layout=asked.layout)))
    assert not found.refuted
    assert any(check.name == "data" and check.passed for check in found.checks)


def test_a_stored_run_made_again_from_its_commitment_has_the_same_votes(asked: argparse.Namespace) -> None:
    images, smoothing = certify.images_of(asked), certify.smoothing_of(asked, "0.25")
    chosen = certify.settings(n0=100, n=asked.n)
    path, wanted = asked.out / "sound.db", frozenset(images.indices)
    certify.sound(path, smoothing, images, chosen, ticking(1), wanted)
    certify.sound(path, smoothing, images, chosen, certify.Clock(), wanted)
    terms = terms_at(path)
    assert terms is not None
    again = plan_run(LocalPool(certify.smoothing_of(asked, "0.25")), images, chosen, terms.secret)
    assert again.promise.commitment == terms.promise.commitment
    with open_store(asked.out / "again.db", again) as store, Store.read(path) as stored:
        fresh = [(c.index, c.selection, c.estimation) for c in certify_into(store, again)]  # type: ignore[union-attr]
        assert fresh == [(c.index, c.selection, c.estimation) for c in stored.certificates()]


def test_a_standard_row_follows_from_its_seed(asked: argparse.Namespace) -> None:
    images, smoothing = certify.images_of(asked), certify.smoothing_of(asked, "0.25")
    smoothing.prepared(images.shape, 50)
    (row, *_) = certify.standard_rows(smoothing, images, certify.settings(n0=100, n=asked.n), set())
    smooth = certify.UnsoundStandard(smoothing.model.forward, 10, "0.25", backend="torch", seed=row["seed"])  # type: ignore[attr-defined]
    found = smooth.certify(IMAGES.values(images.levels[0]), n=asked.n, batch_size=50)
    assert (found.label, found.radius, found.counts, found.selection) == tuple(
        row[name] for name in ("label", "radius", "estimation", "selection")
    )


@pytest.mark.skipif(shutil.which("c++") is None, reason="torch.compile on a CPU needs a C++ compiler")
def test_both_procedures_run_what_was_compiled_once() -> None:
    torch.manual_seed(0)
    model = TorchModel(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3)), compilation="torch-compile")
    values = torch.randn(8, 1, 2, 2)
    voted = torch.as_tensor(model.vote(values.numpy()).labels)
    with torch.no_grad():  # as the standard procedure calls it
        assert torch.equal(certify._scores(model)(values).argmax(1), voted)


def test_a_line_that_was_cut_short_is_made_again(asked: argparse.Namespace) -> None:
    asked.only = "standard"
    images, path = certify.images_of(asked), asked.out / "standard_sigma0.25_n200.jsonl"
    certify.certify(asked, "0.25", images, certify.Clock())
    whole = path.read_text()
    path.write_text(whole[:-30])
    assert certify.certify(asked, "0.25", images, certify.Clock()) == 0
    assert path.read_text().splitlines()[:-1] == whole.splitlines()[:-1]
    assert rows_of(path)[-1]["index"] == 10
    path.write_text(whole[:100])  # not even what it ran with
    assert certify.certify(asked, "0.25", images, certify.Clock()) == 0
    assert len(rows_of(path)) == 6


def test_other_terms_are_refused(asked: argparse.Namespace) -> None:
    images = certify.images_of(asked)
    certify.certify(asked, "0.25", images, ticking(1))
    asked.batch, asked.only = 100, "standard"
    with pytest.raises(ValueError, match="begun with other terms: batch"):
        certify.certify(asked, "0.25", images, certify.Clock())


def test_the_clock_stops_before_an_image_that_would_not_fit() -> None:
    times = iter([0.0, 15.0, 15.0, 16.0, 16.0, 18.0, 18.0])
    clock = certify.Clock(seconds=20.0, now=lambda: next(times))
    clock.begin()
    clock.lap()  # at 15: the first image had to wait, and says nothing
    assert not clock.over
    clock.lap()  # at 16: an image took 1
    assert not clock.over  # 16 + 1.5 < 20
    clock.lap()  # at 18: an image took 2
    assert clock.over  # 18 + 3 > 20


@pytest.mark.slow("certifies and audits in a fresh process")
def test_nothing_but_torch_numpy_flint_and_cryptography_is_needed(asked: argparse.Namespace, tmp_path: Path) -> None:
    """Certify, audit with a replay, and compare, in a Python that lacks the rest."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        import sys
        for name in ("typer", "rich", "onnx", "onnxruntime", "safetensors", "pydantic", "scipy", "ray", "click"):
            sys.modules[name] = None
        sys.path.insert(0, {str(FOLDER)!r})
        import certify, networks, replay, table, torch

        def small_network(path):
            torch.manual_seed(0)
            n = torch.nn
            return n.Sequential(n.Conv2d(3, 4, 5, stride=4), n.ReLU(), n.Flatten(), n.Linear(196, 10))

        networks.network = small_network
        data, out = {str(asked.data)!r}, {str(asked.out)!r}
        calls = (
            (certify.main, [data, out, "--n", "200", "--every", "2", "--sigma", "0.25", "--device", "cpu"]),
            (replay.main, [data, out, "--replay", "2", "--device", "cpu"]),
        )
        for main, arguments in calls:
            sys.argv = ["script", *arguments]
            try:
                main()
            except SystemExit as end:
                assert end.code == 0, (main, end.code)
        """)
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    audit = json.loads(done.stdout.splitlines()[-1])
    assert not audit["refuted"]
    assert "2 of" in audit["replay"]


# The tables


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A folder with a page and no replays."""
    (tmp_path / "docs" / "data").mkdir(parents=True)
    (tmp_path / "docs" / "data" / "replay.json").write_text("[]\n")
    (tmp_path / "docs" / "paper.md").write_text("before\n<!-- cifar10 begin -->\nold\n<!-- cifar10 end -->\nafter\n")
    return tmp_path / "docs"


def tables_of(runs: Path, docs: Path) -> tuple[dict[str, Any], str, int | str | None]:
    """What was found, the page, and the code that the program ends with."""
    with pytest.raises(SystemExit) as end:
        table.main(runs, docs)
    return json.loads((docs / "data" / "cifar10.json").read_text()), (docs / "paper.md").read_text(), end.value.code


def test_tables_are_made_from_the_runs(asked: argparse.Namespace, docs: Path) -> None:
    certify.certify(asked, "0.25", certify.images_of(asked), certify.Clock())
    found, text, code = tables_of(asked.out, docs)
    assert code == (0 if all(f["explained"] for f in found["families"].values()) else 1)
    assert text.startswith("before\n<!-- cifar10 begin -->\n")
    assert text.endswith("<!-- cifar10 end -->\nafter\n")
    assert "old" not in text
    (run,) = found["runs"]
    rows = rows_of(asked.out / "standard_sigma0.25_n200.jsonl")
    hits = sum(row["label"] == row["truth"] and row["radius"] > 0.1 for row in rows)
    assert run["cells"][1]["standard"] == hits
    assert f"| {hits / 6:.3f}"[:-1] in text
    (audit,) = found["audits"]
    assert audit["commitment"] in text
    assert "accepted: 6 of 6 certificates follow from their counts" in text
    assert "(a second implementation) | none |" in text
    (row,) = found["networks"]
    assert row["certified"] == [each["sound"] for each in run["cells"]]
    assert f"| 0.25 | 0.748, 0.429 | {table._network(row)} |" in text


def test_what_is_not_finished_is_not_compared(asked: argparse.Namespace) -> None:
    """Nothing but a header, a line that was cut short, an empty file, or none."""
    certify.certify(asked, "0.25", certify.images_of(asked), certify.Clock())
    path, sound = asked.out / "standard_sigma0.25_n200.jsonl", asked.out / "sound_sigma0.25_n200.db"
    head, *lines = path.read_text().splitlines(keepends=True)
    for text, count in (("".join([head, *lines[:2], lines[2][:20]]), 2), (head, 0), (head[:10], 0), ("", 0)):
        path.write_text(text)
        assert len(table.both(sound).indices) == count
    path.unlink()
    assert not table.both(sound).indices


def test_an_empty_file_is_a_run_that_has_not_begun(asked: argparse.Namespace) -> None:
    path = asked.out / "sound_sigma0.25_n200.db"
    path.touch()
    assert certify.finished(path) == certify.finished(asked.out / "standard_sigma0.25_n200.jsonl") == set()
    asked.first = 1
    assert certify.certify(asked, "0.25", certify.images_of(asked), certify.Clock()) == 0
    assert certify.finished(path) == {0}


def test_a_sound_run_alone_is_counted_but_not_compared(asked: argparse.Namespace, docs: Path) -> None:
    certify.certify(asked, "0.25", certify.images_of(asked), certify.Clock())
    asked.only = "sound"
    certify.certify(asked, "0.5", certify.images_of(asked), certify.Clock())
    found, _, _ = tables_of(asked.out, docs)
    assert [row["sigma"] for row in found["runs"]] == ["0.25"]
    assert [(row["sigma"], row["images"]) for row in found["networks"]] == [("0.25", 6), ("0.50", 6)]


def test_shorter_runs_are_compared_with_a_longer_one(asked: argparse.Namespace, docs: Path) -> None:
    """The standard run is as short as it began; the order of the images does not matter, their numbers do."""
    images = certify.images_of(asked)
    certify.certify(asked, "0.25", images, certify.Clock())
    asked.n, asked.spread, asked.only = 600, 2, "sound"
    spread = certify.images_of(asked)
    assert spread.indices != images.indices
    certify.certify(asked, "0.25", spread, certify.Clock())
    asked.first, asked.only = 1, "standard"
    certify.certify(asked, "0.25", spread, certify.Clock())
    found, text, _ = tables_of(asked.out, docs)
    (row,) = found["longer"]
    assert (row["n"], row["more"], row["images"]) == (200, 600, 6)
    few, many = (table.both(asked.out / f"sound_sigma0.25_n{n}.db") for n in (200, 600))
    assert len(many.indices) == 1
    hits = sum(each.hits for each in many.alone.values())
    for kind in table.BOTH:
        assert row[kind]["difference"] == 3 * int(getattr(few.pair, kind).hits.sum()) - hits
    assert f"| {table._votes_against(row['sound'])} | {table._votes_against(row['standard'])} |" in text
    assert found["families"]["longer runs"]["tests"] == 2
    other = replace(many, terms=many.terms | {"model": "another"})
    with pytest.raises(ValueError, match="differ in model"):
        table.longer([few, other])


def test_an_offset_in_the_standard_run_is_reported(asked: argparse.Namespace) -> None:
    """Every vote of the standard run moved to the true class, which in the sound run gets about half of them."""
    certify.certify(asked, "0.25", certify.images_of(asked), certify.Clock())
    path = asked.out / "standard_sigma0.25_n200.jsonl"
    head, rows = certify.read_standard(path)
    for row in rows:
        row["estimation"] = [200 if label == row["truth"] else 0 for label in range(10)]
        row["selection"] = [100 if label == row["truth"] else 0 for label in range(10)]
        row["label"], row["p_lower"] = row["truth"], clopper_pearson_below(200, 200, ALPHA)
        row["radius"] = radius_below(row["p_lower"], Fraction(1, 4))
    sound = asked.out / "sound_sigma0.25_n200.db"
    with Store.read(sound) as store:
        missed = 1200 - sum(c.estimation.classes[c.truth] for c in store.certificates() if c.truth is not None)
    assert missed > 400  # of 1200; 618 in the mean with a deviation of 16, so 13 deviations away
    path.write_text("".join(json.dumps(each) + "\n" for each in (head, *rows)))
    both = table.both(sound)
    found = table.summary([both])
    assert not found["families"]["votes"]["explained"]
    assert "beyond noise" in table.tables({**found, "networks": [table.network(both)], "audits": []})


def test_runs_of_different_tasks_are_not_compared(asked: argparse.Namespace) -> None:
    certify.certify(asked, "0.25", certify.images_of(asked), certify.Clock())
    path, sound = asked.out / "standard_sigma0.25_n200.jsonl", asked.out / "sound_sigma0.25_n200.db"
    head, rows = certify.read_standard(path)

    def write(head: dict[str, Any], rows: list[dict[str, Any]]) -> None:
        path.write_text("".join(json.dumps(each) + "\n" for each in (head, *rows)))

    for name in ("model", "flags"):
        write({**head, name: "other"}, rows)
        with pytest.raises(ValueError, match=f"differ in {name}"):
            table.both(sound)
    write(head, [*rows[:-1], {**rows[-1], "radius": 9.0, "label": rows[-1]["truth"]}])
    with pytest.raises(ValueError, match="do not follow from the counts"):
        table.both(sound)


def test_a_difference_that_noise_never_makes_is_shown() -> None:
    """Its deviation is below what a float can be."""
    n = 10_000
    pair = Pair(n, results([n, n]), results([0, 0], [False, False]))
    found = table._cell(table.Both({"sigma": "1", "alpha": "1/1000"}, 2, [0, 1], pair, {}), Fraction(2), 0.01)
    assert found["p"] == compare.SMALLEST
    assert table._difference(found) == "+2 ± 0.0 (1e-12)"
    assert table._difference({**found, "difference": 0}) == "0"


def test_the_average_certified_radius_is_rounded_down() -> None:
    for radii in ([0.1] * 10, [0.1, 0.2, 0.3, 0.0], [0.7, 0.1, 0.3]):
        exact = sum(map(Fraction, radii), Fraction(0)) / len(radii)
        assert Fraction(table.average(np.array(radii))) <= exact < Fraction(table.average(np.array(radii)) + 1e-15)


# The tests of the comparison


def results(hits: list[int], chosen: list[bool] | None = None) -> Results:
    return Results(np.array(chosen or [True] * len(hits)), np.array(hits, np.int64), np.zeros(len(hits)))


def test_the_least_count_that_certifies() -> None:
    n, sigma = 60, Fraction(1, 2)
    for radius in map(Fraction, ("0", "0.1", "0.25", "0.5", "2")):
        bounds = [clopper_pearson_below(h, n, ALPHA) for h in range(n + 1)]
        enough = [h for h in range(n + 1) if bounds[h] > 0.5 and Fraction(radius_below(bounds[h], sigma)) > radius]
        assert compare.least_hits(radius, n, sigma, ALPHA) == min(enough, default=n + 1)


def hypergeometric(first: int, total: int, n: int, m: int) -> Fraction:
    return Fraction(math.comb(n, first) * math.comb(m, total - first), math.comb(n + m, total))


@pytest.mark.parametrize(("n", "m"), [(20, 20), (8, 32), (32, 8)])
@pytest.mark.parametrize("total", [0, 1, 13, 20, 33, 39, 40])
def test_the_law_of_the_first_count(total: int, n: int, m: int) -> None:
    exact = [float(hypergeometric(h, total, n, m)) if 0 <= total - h <= m else 0.0 for h in range(n + 1)]
    np.testing.assert_allclose(compare.first_count(total, n, m), exact, rtol=1e-9)


@pytest.mark.parametrize("chosen", [(True, True), (True, False), (False, False)])
@pytest.mark.parametrize("total", [5, 14, 19, 24, 40])
def test_how_often_only_one_of_two_certifies(chosen: tuple[bool, bool], total: int) -> None:
    n, least = 20, 10
    exact = Fraction(0)
    for first in range(max(0, total - n), min(n, total) + 1):
        for u, v in (chosen, chosen[::-1]):  # either selection with probability ½
            only = u and first >= least and not (v and total - first >= least)
            exact += hypergeometric(first, total, n, n) * Fraction(only) / 2
    pair = Pair(n, results([min(total, n)], [chosen[0]]), results([total - min(total, n)], [chosen[1]]))
    np.testing.assert_allclose(compare.swings(pair, least), [float(exact)], rtol=1e-9)


@pytest.mark.parametrize(
    ("first", "n", "second", "m", "up", "down"),
    [
        ([3, 9, 15, 0, 7], 15, [5, 8, 14, 0, 12], 15, 1, 1),
        ([3, 4, 0, 1, 5], 5, [5, 8, 3, 0, 15], 15, 3, 1),
        ([3, 5, 9, 0, 1], 9, [1, 4, 5, 2, 0], 6, 2, 3),
    ],
)
def test_the_sum_of_votes_is_what_convolution_says(
    first: list[int], n: int, second: list[int], m: int, up: int, down: int
) -> None:
    law = {0: Fraction(1)}
    for total in map(sum, zip(first, second, strict=True)):
        ways = range(max(0, total - m), min(n, total) + 1)
        steps = {up * h - down * (total - h): hypergeometric(h, total, n, m) for h in ways}
        law = {d: sum((law.get(d - s, Fraction(0)) * w for s, w in steps.items()), Fraction(0))
               for d in {a + b for a, b in product(law, steps)}}  # fmt: skip
    difference = up * sum(first) - down * sum(second)
    exact = float(sum(w for d, w in law.items() if abs(d) >= abs(difference)))
    found = compare.votes(Hits(np.array(first), n, np.array(second), m))
    assert (found.difference, found.p) == (difference, pytest.approx(exact, rel=1e-9))
    assert found.deviation == pytest.approx(math.sqrt(float(sum(d * d * w for d, w in law.items()))))


def test_the_sum_of_many_odd_totals() -> None:
    """500 images with one vote missing in one of the runs: 275 of them in the first. Each is ±1 with probability ½."""
    n, missing = 1000, np.arange(500) < 275
    pair = Pair(n, results((n - missing).tolist()), results((n - 1 + missing).tolist()))
    found = compare.votes(pair.hits)
    assert found.difference == -50
    assert found.p == pytest.approx(2 * sum(math.comb(500, k) for k in range(275, 501)) / 2**500, rel=1e-6)


def binomial(hits: int, n: int, p: Fraction) -> Fraction:
    return math.comb(n, hits) * p**hits * (1 - p) ** (n - hits)


TESTS: dict[str, Callable[[Pair], compare.Test]] = {
    "cell": lambda pair: compare.cell(pair, 3),
    "votes": lambda pair: compare.votes(pair.hits),
    "image": lambda pair: compare.image(pair, 0),
}


@pytest.mark.parametrize("name", TESTS)
def test_false_alarms_are_as_rare_as_stated(name: str) -> None:
    """Exactly, over all outcomes of two images with p = 0.7 and 0.45, whose selections find the class with 0.8, 0.4."""
    n = 4
    seen: dict[float, float] = {}
    for hits in product(range(n + 1), repeat=4):
        for chosen in product((True, False), repeat=4) if name == "cell" else [(True,) * 4]:
            pair = Pair(n, results(list(hits[:2]), list(chosen[:2])), results(list(hits[2:]), list(chosen[2:])))
            test = TESTS[name](pair)
            weight = Fraction(1)
            for h, p in zip(hits, (Fraction(7, 10), Fraction(9, 20)) * 2, strict=True):
                weight *= binomial(h, n, p)
            if name == "cell":
                for u, q in zip(chosen, (Fraction(4, 5), Fraction(2, 5)) * 2, strict=True):
                    weight *= q if u else 1 - q
            seen[round(test.p, 9)] = seen.get(round(test.p, 9), 0.0) + float(weight)
    assert sum(seen.values()) == pytest.approx(1)
    assert len(seen) > 3
    for p in seen:
        assert sum(w for q, w in seen.items() if q <= p) <= p + 1e-6


@pytest.mark.parametrize(("hits", "least", "level"), [([3, 3, 3, 3], 5, 0.2), ([2, 3, 3, 3], 5, 0.15)])
def test_the_power_of_a_cell_is_about_what_enumeration_says(hits: list[int], least: int, level: float) -> None:
    """Of two images with 6 copies; on larger tasks, by simulation, a power that is stated is rather too small."""
    n, shift = 6, 0.3
    pair = Pair(n, results(hits[:2]), results(hits[2:]))
    p = [*pair.hits.estimates, *(pair.hits.estimates + shift)]
    exact = 0.0
    for outcome in product(range(n + 1), repeat=4):
        found = compare.cell(Pair(n, results(list(outcome[:2])), results(list(outcome[2:]))), least).p <= level
        weights = (math.comb(n, h) * q**h * (1 - q) ** (n - h) for h, q in zip(outcome, p, strict=True))
        exact += found * math.prod(weights)
    assert compare.cell(pair, least, shift, level).power == pytest.approx(exact, abs=0.15)


def test_an_offset_of_two_hundredths_is_seen_and_no_offset_is_not() -> None:
    """500 images, n = 10 000, drawn from the operating system's entropy. False alarms: 10⁻⁹. Power: 1 − 10⁻⁹."""
    rng, n, level = np.random.default_rng(), 10_000, 1e-9
    p = np.linspace(0.3, 0.9999, 500)
    first = results(rng.binomial(n, p).tolist())
    same, other = (Pair(n, first, results(rng.binomial(n, q).tolist())) for q in (p, compare.shifted(p, 0.02)))
    assert compare.votes(same.hits, 0.02, level).power == pytest.approx(1, abs=1e-9)
    assert compare.votes(same.hits).p > level
    assert compare.votes(other.hits).p <= level
    least = compare.detectable(same.hits, level)
    assert least is not None
    assert 0.001 < least < 0.01


def test_an_offset_is_seen_beside_a_run_with_more_copies() -> None:
    """As above, with ten times as many copies in the second run: a smaller shift is found with the same power."""
    rng, n, level = np.random.default_rng(), 10_000, 1e-9
    p = np.linspace(0.3, 0.9999, 500)
    first = rng.binomial(n, p)
    same, other = (Hits(first, n, rng.binomial(10 * n, q), 10 * n) for q in (p, compare.shifted(p, 0.02)))
    assert compare.votes(same, 0.02, level).power == pytest.approx(1, abs=1e-9)
    assert compare.votes(same).p > level
    assert compare.votes(other).p <= level
    least = [compare.detectable(hits, level) for hits in (same, Hits(first, n, first, n))]
    assert 0.001 < (least[0] or 1) < (least[1] or 0) < 0.01


def test_the_scatter_is_what_enumeration_says() -> None:
    """Of two images with 4 copies: over all first counts, given the totals. The draws have a fixed seed."""
    n = 4
    for hits in ((3, 1, 2, 4), (4, 0, 0, 4), (2, 2, 3, 1), (4, 1, 4, 3)):
        totals = [hits[0] + hits[2], hits[1] + hits[3]]
        laws = [compare.first_count(total, n, n) for total in totals]
        variances = compare._variances(np.array(totals), n, n)

        def squares(first: tuple[int, ...], totals: list[int] = totals, variances: Any = variances) -> float:
            terms = zip(first, totals, variances, strict=True)
            return sum((h - total / 2) ** 2 / variance for h, total, variance in terms if variance > 0)

        seen = squares(hits[:2])
        p = sum(laws[0][a] * laws[1][b] for a, b in product(range(n + 1), repeat=2) if squares((a, b)) >= seen - 1e-9)
        found = compare.scatter(Pair(n, results(list(hits[:2])), results(list(hits[2:]))))
        assert found.p == pytest.approx(p, abs=5 * math.sqrt(p / compare.DRAWS) + 1 / compare.DRAWS)


@pytest.mark.slow("draws tables for 500 images")
def test_shifts_to_either_side_are_seen_by_their_scatter() -> None:
    """500 images, n = 10 000, from the operating system's entropy. False alarms: about χ² with 500 degrees of freedom
    beyond 8 deviations, below 10⁻⁹. Power: 1 − 10⁻⁹, since the mean moves by more than 100 deviations.
    """
    rng, n = np.random.default_rng(), 10_000
    p = np.linspace(0.3, 0.9999, 500)
    sides = np.where(np.arange(500) % 2, 0.02, -0.02) * compare.borderline(p)
    first = results(rng.binomial(n, p).tolist())
    same, other = (Pair(n, first, results(rng.binomial(n, q).tolist())) for q in (p, p + sides))
    kept, seen = compare.scatter(same, 0.02, 1e-3), compare.scatter(other)
    assert kept.difference < 8 * kept.deviation
    assert seen.difference > 8 * seen.deviation
    assert kept.power == pytest.approx(1, abs=1e-9)
    assert (compare.scatter(same, 0.001, 1e-3).power or 0) < 0.5


def test_the_mean_radius_is_compared_by_signs() -> None:
    n = 10
    radius = np.array([0.3, 0.2, 0.1, 0.4])
    first, second = (Results(np.ones(4, bool), np.zeros(4, np.int64), r) for r in (radius, np.zeros(4)))
    found = compare.mean_radius(Pair(n, first, second))
    assert found.difference == pytest.approx(0.25)
    assert found.p == pytest.approx(2 / 16, abs=0.006)  # 5.7 deviations of the fixed 100 000 draws
    assert compare.mean_radius(Pair(n, first, first)).p == 1


def test_holm() -> None:
    assert compare.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert compare.holm([0.5, 0.9]) == [1.0, 1.0]


def test_audits_of_stored_runs(asked: argparse.Namespace, capsys: pytest.CaptureFixture[str]) -> None:
    asked.only = "sound"
    certify.certify(asked, "0.25", certify.images_of(asked), certify.Clock())
    path = asked.out / "sound_sigma0.25_n200.db"
    asked.replay, asked.artifact, asked.record = "all", None, asked.out / "replay.json"
    assert not replay.audit(path, asked, {})
    assert not replay.audit(path, asked, {})
    (kept,) = json.loads(asked.record.read_text())
    assert "no difference" in table._repeated(table.audit(path, [kept]))
    assert table.audit(path, [kept | {"refuted": True}])["refuted"]
    asked.replay = asked.record = None
    asked.every, other = 1, asked.data.with_name("other.npz")
    with np.load(asked.data) as held:
        np.savez(other, x=held["x"] ^ 1, y=held["y"])
    asked.data = other
    assert replay.audit(path, asked, {})
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["refuted"]


@pytest.fixture(scope="module")
def audited(shared_folder: Path) -> Callable[[Path], Verification]:
    """An audit of a stored run, once for all tests and all their processes."""

    def audit(path: Path) -> Verification:
        kept = shared_folder / f"{path.stem}.audit"
        if not kept.exists():
            own = kept.with_suffix(f".{os.getpid()}")
            own.write_bytes(pickle.dumps(audit_file(path)))
            own.rename(kept)
        return pickle.loads(kept.read_bytes())

    return audit


@each_stored_run
def test_every_stored_certificate_is_accepted(path: Path, audited: Callable[[Path], Verification]) -> None:
    """A second implementation follows each of them from its counts, and nothing in the store contradicts another."""
    with Store.read(path) as store:
        count = store.progress().finished
    result = audited(path)
    assert not result.refuted
    assert f"{count} of {count} certificates follow" in replay.summary(path, result)["arithmetic"]


@each_stored_run
def test_stored_runs_name_the_stored_networks(path: Path) -> None:
    """A change of the weights, of the network's code or of the digest's form leaves runs that nobody can repeat."""
    terms = terms_at(path)
    assert terms is not None
    module = networks.network(networks.weights_file(terms.promise.values["sigma"]))
    same_model = model_checks(model_of(module, dtype="fp16").identity(), terms.promise)[0]
    assert same_model.passed, same_model.text


@pytest.mark.slow("reads every certificate of the stored runs")
def test_the_tables_in_the_page_are_those_of_the_stored_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, audited: Callable[[Path], Verification]
) -> None:
    monkeypatch.setattr(table, "audit_file", audited)
    held = FOLDER.parents[1] / "docs"
    for name in ("paper.md", "data/replay.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(held / name, tmp_path / name)
    found, text, code = tables_of(FOLDER / "runs", tmp_path)
    assert code == 0
    assert found == json.loads((held / "data" / "cifar10.json").read_text())
    assert text == (held / "paper.md").read_text()


def test_the_page_has_a_place_for_everything_that_is_written_into_it() -> None:
    page = (FOLDER.parents[1] / "docs" / "paper.md").read_text(encoding="utf-8")
    for name in ("cifar10", "timing", "precision", "proposition", "alternatives", "positions", "misses"):
        begin, end = f"<!-- {name} begin -->", f"<!-- {name} end -->"
        assert page.count(begin) == page.count(end) == 1
        assert page.index(begin) < page.index(end)

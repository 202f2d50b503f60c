"""Pictures: for the entries that have one, a small PNG; for the others none; a clear error without matplotlib."""

import importlib.util

import numpy as np
import pytest

from soundsmooth.cli.overlap import run_overlap
from soundsmooth.lab.gallery import pictures
from soundsmooth.lab.gallery.certifiers import values
from soundsmooth.lab.gallery.pictures import consecutive, float_sums, picture, share_reachable

SINGLE = np.dtype("float32")


@pytest.mark.parametrize("entry", ["listing1", "pixel", "float-sum"])
def test_a_picture(entry, tmp_path):
    path = picture(entry, tmp_path / "new")
    assert path == tmp_path / "new" / f"{entry}.png"
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert 5_000 < len(data) < 100_000


def test_the_plot_of_the_overlap(tmp_path):
    run_overlap(["single", "double"], 1000, tmp_path / "overlap.png", True)
    assert (tmp_path / "overlap.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match=r"must end in \.png"):
        run_overlap(["half"], 1000, tmp_path / "overlap.pdf", False)


def test_no_picture(tmp_path):
    assert picture("reseed", tmp_path / "none") is None
    assert not (tmp_path / "none").exists()


def test_without_matplotlib(monkeypatch, tmp_path):
    """The error comes before any work, and says what to install."""
    monkeypatch.setattr(pictures, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"soundsmooth\[plots\]"):
        picture("listing1", tmp_path)
    with pytest.raises(ValueError, match="matplotlib"):
        run_overlap(["half"], 1000, tmp_path / "overlap.png", False)


def test_matplotlib_is_not_imported_with_the_module():
    name = "soundsmooth.lab.gallery.pictures"
    source = importlib.util.find_spec(name).loader.get_source(name)
    assert not any(line.startswith(("import matplotlib", "from matplotlib")) for line in source.splitlines())


def test_what_is_drawn():
    assert consecutive(np.float32(1), 3).tolist() == [1, 1 + 2**-23, 1 + 2**-22]
    a, zero = values(np.array([210, 0]), SINGLE)
    assert share_reachable(zero, -0.3) == share_reachable(a, 1.0) == 1
    assert share_reachable(a, 0.11) == share_reachable(a, -0.2) == 1 / 8
    noisy = np.arange(0, 256)
    assert (float_sums(209, noisy, 6) != float_sums(210, noisy, 6)).all()

"""`certify --radii`: what a person sees of runs that stop when it is decided."""

import csv
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import soundsmooth as ss
from command import error_of, run_command
from soundsmooth.cli.certify import _left
from soundsmooth.core.progress import Meter

#: Image 17's selected class is not its label; image 0 is easy. Seed and threads fix the votes.
TWO = ("certify", "--every", 17, "--limit", 2, "--n", 1000, "--threads", 1, "--seed", "two")
SKIPPING = (*TWO, "--radii", "0,0.5", "--skip-wrong")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("looks") / "run.db"
    run_command(*SKIPPING, "--out", path)
    return path


def test_the_screen_says_what_was_asked_spent_and_skipped(tmp_path: Path) -> None:
    text = run_command(*SKIPPING).stdout
    assert "n₀ = 100, n ≤ 1000, " in text
    told = (
        "when the radii 0, 0.5 are decided, or after selection if the selected class is not its label; "
        "the certified radius is one of these"
    )
    assert f"\nan image stops {told}\n" in text
    assert re.search(r"\n     0      9        9     0.5000  yes       +\d+\.\d\d s        \d\d\d\n", text)
    assert re.search(r"\n    17      4  skipped     0.0000  no        +\d+\.\d\d s        100\n", text)
    assert "\n2 images: 1 certified, 0 abstained, 1 skipped\n" in text
    assert re.search(r"\nspent      \d\d\d of 2 200 votes, \d\.\d times fewer; one image may spend 1 100\n", text)
    assert "\nskipped    1 image: the selected class is not the label, a wrong answer\n" in text
    assert [line.split()[1] for line in text.splitlines() if line.startswith("│")] == ["0.00", "0.50"]
    assert "with up to 100000 copies each (at most" in text
    assert "certify --limit 1000 --n 100000 --radii 0,0.5 --skip-wrong --out fashion.db\n" in text


def test_runs_show_says_the_same_of_the_file(run: Path) -> None:
    text = run_command("runs", "show", run).stdout
    votes = sum(certificate.votes for certificate in ss.open_run(run))
    assert "\nstops      when the radii 0, 0.5 are decided, or after selection" in text
    assert f"\nspent      {votes} of 2 200 votes, " in text
    assert "\n2 images: 1 certified, 0 abstained, 1 skipped\n" in text


def test_tables_have_the_votes_and_the_status(run: Path, tmp_path: Path) -> None:
    run_command("runs", "export", run, "--to", tmp_path / "run.csv")
    with (tmp_path / "run.csv").open() as file:
        easy, wrong = csv.DictReader(file)
    assert (easy["status"], wrong["status"]) == ("certified", "skipped")
    assert (wrong["votes"], wrong["predict"], wrong["aborted"]) == ("100", "", "")
    assert 100 < int(easy["votes"]) < 1100


def test_the_record_has_the_hits_of_each_look(run: Path) -> None:
    first = ss.open_run(run)[0].to_dict()
    assert [n for n, _, _ in first["looks"]][:2] == [100, 126]
    assert all(hits + others <= n for n, hits, others in first["looks"])


@pytest.mark.parametrize(
    ("options", "said", "cure"),
    [
        (("--radii", "0.5", "--skip-wrong"), "radii: 0,0.5 -> 0.5", "add --radii 0,0.5"),
        (
            ("--width", "5%", "--skip-wrong"),
            "radii: 0,0.5 -> none; width: none -> 0.05",
            "add --radii 0,0.5 and leave out --width",
        ),
        (("--radii", "0,0.5", "--patience", 7, "--skip-wrong"), "patience: 100000 -> 7", "leave out --patience"),
        (("--radii", "0,0.5"), "images with a wrong selected class: skipped -> voted on", "add --skip-wrong"),
        ((), "radii: 0,0.5 -> none; images with a wrong selected class: skipped -> voted on",
         "add --radii 0,0.5 --skip-wrong"),
    ],
)  # fmt: skip
def test_a_run_is_not_continued_otherwise_and_one_short_line_says_why(
    options: tuple[object, ...], said: str, cure: str, run: Path
) -> None:
    before = run.read_bytes()
    error = error_of(*TWO, *options, "--out", run)
    assert error.endswith(f"begun -> asked: {said}. To continue it: {cure}")
    assert len(error) < 350 + len(str(run))
    assert run.read_bytes() == before


def test_with_the_options_that_are_advised_it_is_continued(run: Path) -> None:
    assert "continued: 2 of 2 images are finished" in run_command(*SKIPPING, "--out", run).stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--radii", "0.5", "--looks", "100,50,1000"), "looks must rise"),
        (("--radii", "0.5", "--looks", "100=0.0009,1000=0.0009"), "more than alpha = 1/1000"),
        (("--radii", "0.5,3"), "cannot reach the radius 3"),
        (("--radii", "0.5,0.25"), "radii must rise"),
        (("--radii", "0.5", "--width", "1%"), "ask for radii or for a width, not for both"),
    ],
)
def test_what_cannot_be_leaves_no_file(options: tuple[object, ...], said: str, tmp_path: Path) -> None:
    assert said in error_of(*TWO, *options, "--out", tmp_path / "run.db")
    assert list(tmp_path.iterdir()) == []


def test_a_log_has_a_line_with_votes_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if each call of the clock came a minute later; what is left is at most what may be spent."""
    minutes = iter(range(0, 10**6, 60))
    monkeypatch.setitem(Meter.__init__.__kwdefaults__, "clock", lambda: float(next(minutes)))
    text = run_command(*TWO, "--radii", "0.5").stdout
    lines = [line for line in text.splitlines() if line.startswith("certifying: ")]
    assert re.fullmatch(r"certifying: 0 of 2 images, \d+ votes, at most [\d:]+ left", lines[0])
    assert re.fullmatch(r"certifying: 2 of 2 images in [\d:]+, [\d.]+/\w+, [\d ]+ votes", lines[-1])
    assert len(lines) > 2


@pytest.mark.parametrize("measured", [False, True])
def test_conclude_is_offered_where_it_works(measured: bool) -> None:
    """Measured rows have still to vote alone, and only certify does that."""
    promise = SimpleNamespace(independence=SimpleNamespace(measured=measured))
    terms = SimpleNamespace(settings=SimpleNamespace(looks=object()), promise=promise)
    said = _left(SimpleNamespace(path="run.db", terms=terms), None)
    assert "the same command continues" in said
    assert ("runs conclude" in said) == (not measured)

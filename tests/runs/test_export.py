"""Runs as tables, and what they say as a whole: streamed, exact, and nothing rounded up."""

import csv
import json
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

import soundsmooth as ss
from runs.interrupted import small_run
from runs.test_pipeline import Faulty
from soundsmooth.certification import report
from soundsmooth.runs import summary
from soundsmooth.runs.export import columns_of, export
from soundsmooth.runs.output import CERTIFY_HEADER, certificate_row
from soundsmooth.runs.pipeline import certify_into, open_store
from soundsmooth.runs.store import Store

MILLION = Path(__file__).parents[2] / "experiments" / "runs" / "million.py"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight images: some certified, some abstained, some failed."""
    path = tmp_path_factory.mktemp("export") / "run.db"
    run = small_run(count=8, scores=Faulty(below=0.05))
    with open_store(path, run) as store:
        list(certify_into(store, run))
    return path


@pytest.fixture
def store(path: Path) -> Store:
    with Store.read(path) as opened:
        progress = opened.progress()
        assert min(progress.certified, progress.abstained, progress.failed) > 0
        yield opened


def test_json_lines_are_whole_certificates(store: Store, tmp_path: Path) -> None:
    assert export(store, tmp_path / "a.jsonl") == store.progress().finished
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    assert [ss.Certificate.from_json(line) for line in lines] == list(store.certificates())


def test_tsv_is_what_certify_writes_and_failures_are_wrong_answers(store: Store, tmp_path: Path) -> None:
    assert export(store, tmp_path / "a.tsv") == 8
    header, *rows = (tmp_path / "a.tsv").read_text().splitlines()
    assert header == CERTIFY_HEADER
    certified = {str(c.index): certificate_row(c) for c in store.certificates()}
    failed = {str(failure.index): failure for failure in store.failures()}
    assert [row.split("\t")[0] for row in rows] == [str(5 + 3 * i) for i in range(8)]
    for row in rows:
        index, _, predict, radius, correct, _ = row.split("\t")
        if index in failed:
            assert (predict, radius, correct) == ("-1", "0.000000", "0")
        else:
            assert row == certified[index]


def test_csv_truncates_lower_bounds(store: Store, tmp_path: Path) -> None:
    assert export(store, tmp_path / "a.csv") == 8
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(columns_of(store))
    certificates = {str(c.index): c for c in store.certificates()}
    assert {row["status"] for row in rows} == {"certified", "abstained", "failed"}
    for row in rows:
        if row["status"] == "failed":
            unlabelled = row["index"] == "11"  # the third image, whose true label nobody gave
            assert (row["predict"], row["correct"]) == ("", "" if unlabelled else "False")
            continue
        certificate = certificates[row["index"]]
        for name in ("radius", "p_lower"):
            gap = Fraction(getattr(certificate, name)) - Fraction(Decimal(row[name]))
            assert 0 <= gap < Fraction(1, 10**9)
        assert row["predict"] == ("" if certificate.label is None else str(certificate.label))
        assert row["label"] == ("" if certificate.truth is None else str(certificate.truth))
        assert row["correct"] == ("" if certificate.truth is None else str(certificate.correct))


def test_parquet_is_exact(store: Store, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    assert export(store, tmp_path / "a.parquet") == 8
    rows = parquet.read_table(tmp_path / "a.parquet").to_pylist()
    certificates = {c.index: c for c in store.certificates()}
    assert list(rows[0]) == list(columns_of(store))
    for row in rows:
        if row["status"] != "failed":
            certificate = certificates[row["index"]]
            assert (row["radius"], row["p_lower"]) == (certificate.radius, certificate.p_lower)
            assert (row["label"], row["predict"]) == (certificate.truth, certificate.label)


def test_without_pyarrow_there_is_one_line_and_no_file(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r'pip install "soundsmooth\[parquet\]"'):
        export(store, tmp_path / "a.parquet")
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten_and_half_a_table_is_not_left(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_text("precious")
    with pytest.raises(ValueError, match="exists"):
        export(store, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == "precious"
    with pytest.raises(ValueError, match=r"must end in \.tsv or \.jsonl or \.csv or \.parquet"):
        export(store, tmp_path / "a.xlsx")
    monkeypatch.setattr("soundsmooth.runs.export.certificate_row", lambda record: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export(store, tmp_path / "a.tsv")
    assert not (tmp_path / "a.tsv").exists()


def test_the_summary_follows_from_the_certificates(tmp_path: Path) -> None:
    """Counted in the store or one by one: the same shares, exactly, at radii that occur too."""
    run = small_run(count=8)
    with open_store(tmp_path / "run.db", run) as store:
        list(certify_into(store, run))
        certificates = list(store.certificates())
        radii = [*report.RADII, *(Fraction(c.radius) for c in certificates), Fraction(1, 3)]
        radii += [Fraction(c.radius) - Fraction(1, 10**40) for c in certificates]
        correct = [Fraction(c.radius) for c in certificates if c.correct]
        shares = [Fraction(sum(each > r for each in correct), 8) for r in radii]
        assert summary.certified_accuracies(store, radii) == shares
        assert summary.average_certified_radius(store) == sum(correct) / 8
        assert not store.labelled()


def test_failed_images_stay_in_the_denominator(store: Store) -> None:
    """Ledger, row 15."""
    certificates = list(store.certificates())
    (share,) = summary.certified_accuracies(store, [Fraction(0)])
    assert share == Fraction(sum(c.correct for c in certificates), 8)


@pytest.mark.skipif(sys.platform == "win32", reason="memory is measured otherwise")
@pytest.mark.slow("fills a store with 15 000 certificates")
def test_a_large_store_is_shown_and_exported_without_loading_it(tmp_path: Path) -> None:
    """15 000 certificates, whose lines are 23 MB; with a million: experiments/runs/million.py."""
    command = [sys.executable, str(MILLION), "--count", "15000", "--folder", str(tmp_path), "--formats", "tsv", "jsonl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    steps = {line["step"]: line for line in map(json.loads, done.stdout.splitlines())}
    assert steps["jsonl"]["file_mb"] > 20
    assert all(steps[step]["grown_mb"] < 12 for step in ("open", "show", "tsv", "jsonl"))
    assert len((tmp_path / "15000.tsv").read_text().splitlines()) == 15_001

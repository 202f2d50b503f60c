"""What an audit says of honest runs and of wrong models, data, keys and files; the command line; the set statement."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from math import comb
from pathlib import Path

import numpy as np
import pytest

import soundsmooth as ss
from classifiers import brightness_of_three
from command import run_command
from soundsmooth import embedded
from soundsmooth.audit import AuditTerms, Gaussian, ReplayBlock, all_but_escaped
from soundsmooth.audit.replay import escaped_and_excess, least_hits
from soundsmooth.certification.fields import checksum
from soundsmooth.certification.promise import Inputs, Promise, secret
from soundsmooth.certification.settings import settings
from soundsmooth.core.grid import Grid
from soundsmooth.data.load import load
from soundsmooth.runs.pipeline import certify_into, terms_of
from soundsmooth.runs.plan import plan_run
from soundsmooth.runs.pools import LocalPool
from soundsmooth.runs.store import Store
from soundsmooth.verification import AuditInputs, Verification, audit_file
from soundsmooth.verification.content import content_hash
from soundsmooth.verification.promised import grid_of, promised_smoothing, shape_of, threads_of, unit_check
from soundsmooth.verification.snapshot import open_snapshot
from verification.issuer import NONCE, data, given, issue, looked_run, small_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return issue(tmp_path_factory.mktemp("verify") / "run.db", small_run())


def the_finding(result: Verification) -> str:
    assert result.refuted
    assert result.replay is None  # nothing is voted with the wrong thing
    (text,) = result.findings.texts
    assert "\n" not in text
    return text


# --- one clear line each -------------------------------------------------------------------------------------


def test_wrong_model(run: Path) -> None:
    assert "this is not the promised model" in the_finding(audit_file(run, given=given("5%", lambda batch: batch)))


def test_wrong_order_of_the_data(run: Path) -> None:
    def swapped(_: object) -> Inputs:
        right = data(8)
        return Inputs(right.indices, right.levels[::-1], right.labels[::-1])

    found = audit_file(run, given=AuditInputs(given("5%").model, swapped, "5%"))
    assert "not the promised images and labels in the promised order" in the_finding(found)


def test_other_labels_than_those_of_the_data(run: Path) -> None:
    def relabelled(_: object) -> Inputs:
        right = data(8)
        return Inputs(right.indices, right.levels, [1 - label for label in right.labels])

    found = audit_file(run, given=AuditInputs(None, relabelled))
    assert "the promised labels are not those of this data" in the_finding(found)


def test_too_little_data(run: Path) -> None:
    with pytest.raises(ValueError, match="the data has 3 images, but the run has image 7"):
        audit_file(run, given=given("5%", images=3))


def test_wrong_nonce(run: Path) -> None:
    assert "not the noted cdcd" in the_finding(audit_file(run, AuditInputs(nonce="cd" * 32)))


def test_a_nonce_binds_only_for_a_commitment_that_was_noted(run: Path) -> None:
    """Who knows the nonce can still try promises (seeds, say) until a key is lucky: the nonce alone proves nothing."""
    alone = audit_file(run, AuditInputs(nonce=NONCE))
    assert not alone.refuted
    assert not alone.key_bound
    assert any("for which commitment?" in text for text in alone.not_shown)
    promise = small_run().promise
    assert audit_file(run, AuditInputs(commitment=promise.commitment, nonce=NONCE)).key_bound
    assert audit_file(run, AuditInputs(promise=promise, nonce=NONCE)).key_bound


def test_other_commitment(run: Path) -> None:
    assert "not as the noted 0000" in the_finding(audit_file(run, AuditInputs(commitment="00" * 32)))


def test_other_promise(run: Path) -> None:
    other = small_run(n=500).promise
    text = the_finding(audit_file(run, AuditInputs(promise=other)))
    assert "n: 500 noted, 400 here" in text
    assert not audit_file(run, AuditInputs(promise=small_run().promise)).refuted


@pytest.mark.parametrize(
    "grid", ["levels=256 q=255 offset=0 q=1", "levels=0256 q=255 offset=0", "q=255 levels=256 offset=0", "levels=256"]
)
def test_a_grid_can_be_read_in_one_way_only(grid: str) -> None:
    values = small_run().promise.values
    assert grid_of(Promise(values)) == Grid()
    with pytest.raises(ValueError, match="the promised grid cannot be read"):
        grid_of(Promise({**values, "grid": grid}))


def promised(**changed: str) -> Promise:
    """The promise of a small run, with fields changed: input_shape for "input shape"."""
    return Promise({**small_run().promise.values, **{name.replace("_", " "): text for name, text in changed.items()}})


@pytest.mark.parametrize("shape", ["-1 5", "0 5", "2  2", "02 2", "1_0 2", "+2 2", "x", "2.0", "9" * 5000])
def test_a_shape_can_be_read_in_one_way_only(shape: str) -> None:
    assert shape_of(promised()) == (2, 2)
    with pytest.raises(ValueError, match="the promised shape cannot be read"):
        shape_of(promised(input_shape=shape))


@pytest.mark.parametrize("threads", ["0", "-1", "1025", "100000", "9" * 5000, "x", ""])
def test_a_promise_starts_no_thousand_threads(threads: str) -> None:
    """It is the issuer's text, and onnxruntime starts as many as it is told to: refused before any model is made."""
    asked = promised(flags=f"threads={threads}")
    with pytest.raises(ValueError, match=r"the promised threads=.* cannot be used .*--threads 1"):
        promised_smoothing("nowhere.onnx", asked, {})
    with pytest.raises(ValueError, match="there is no model file"):
        promised_smoothing("nowhere.onnx", asked, {"threads": 1})
    assert threads_of(promised(flags="threads=1024")) == 1024
    assert threads_of(promised(flags="none")) is None


def test_an_unusable_promise_is_not_refuted_but_could_not_be_checked(tmp_path: Path) -> None:
    """Exit code 2, and one line."""
    model, images = embedded.MODELS[Fraction(1, 4)], embedded.IMAGES
    smoothing = ss.Smoother(model, "0.25", threads=1).smoothing
    made = plan_run(LocalPool(smoothing), load(images, grid=Grid(), limit=1), settings(n=100), secret("issuer 1"))
    flags = made.promise.values["flags"].replace("threads=1", "threads=100000")
    odd = replace(made, promise=Promise({**made.promise.values, "flags": flags}))
    path = issue(tmp_path / "run.db", odd)
    asked = ("verify", path, "--model", model, "--data", images, "--replay", "all")
    said = run_command(*asked, code=2).stderr
    assert said.startswith("error: the promised threads=100000 cannot be used (threads must be between 1 and 1024")
    assert "threads 100000 -> 1" in run_command(*asked, "--threads", 1).stdout


def test_the_unit_of_radii_is_said(run: Path, tmp_path: Path) -> None:
    """On a grid whose levels are 1 apart a radius of 0.5 is less than a level: only the task can say what is meant."""
    usual = next(check for check in audit_file(run).checks if check.name == "unit")
    assert usual.passed
    assert "values in [0, 1]: 256 levels, 1/255 apart" in usual.text
    smoothing = ss.Smoother(brightness_of_three, "0.5", grid=Grid(256, 1), threads=1, independence="assumed").smoothing
    made = plan_run(LocalPool(smoothing), data(2), settings(n0=20, n=400), secret("issuer 1", NONCE))
    with Store.begin(tmp_path / "run.db", terms_of(made), made.inputs) as store:
        certificates = list(certify_into(store, made))
    result = audit_file(tmp_path / "run.db")
    assert not result.refuted
    assert any("values in [0, 255]: 256 levels, 1 apart" in text and "by 255" in text for text in result.not_shown)
    assert "on the grid levels=256 q=1 offset=0 (p" in str(certificates[0])
    record = tmp_path / "one.json"
    record.write_text(certificates[0].to_json())  # type: ignore[union-attr]
    assert any("values in [0, 255]" in text for text in audit_file(record).not_shown)
    assert "divide radii by 255" in " ".join(run_command("verify", record).stdout.split())


def test_a_promise_with_an_unreadable_grid_is_refuted() -> None:
    values = {**small_run().promise.values, "grid": "levels=0256 q=255 offset=0"}
    check = unit_check(Promise(values))
    assert check.passed is False
    assert "cannot be read" in check.text


NONSENSE = [
    ("noise", "x"), ("margin", "-1"), ("margin", "x"), ("batch", "-5"), ("input shape", "0"), ("input shape", "-1 -28"),
    ("input count", "06"), ("input count", "6_0"), ("input count", "-1"), ("model", "x"), ("inputs", "x"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), NONSENSE)
def test_under_a_promise_that_is_none_nothing_is_claimed(name: str, value: str, tmp_path: Path) -> None:
    """Also if commitment and checksum are made to fit."""
    record = json.loads(ss.Smoother(brightness_of_three, "0.5").certify(np.full((2, 2), 40, np.uint8), n=200).to_json())
    record["promise"][name] = value
    record["commitment"] = Promise(record["promise"]).commitment
    record["checksum"] = checksum(record)
    path = tmp_path / "one.json"
    path.write_text(json.dumps(record))
    result = audit_file(path)
    assert result.refuted
    assert all(0 <= share <= 1 for share in result.tally.accuracies().values())


def test_what_is_written_to_the_file_during_an_audit_is_not_read(run: Path, tmp_path: Path) -> None:
    """Past SQLite, and with a cache of one page: everything is read again from where it lies."""
    path = tmp_path / "run.db"
    path.write_bytes(run.read_bytes())
    before = audit_file(run).content
    with open_snapshot(path) as db:
        db.execute("PRAGMA cache_size = 1")
        db.execute("PRAGMA shrink_memory")
        path.write_bytes(bytes(path.stat().st_size))
        assert content_hash(db) == before
    with pytest.raises(ValueError, match="is not a run"):
        audit_file(path)


def first_rows_only(batch: np.ndarray) -> np.ndarray:
    """Class 0 in the first four rows of a batch, class 1 in all others."""
    return np.stack([np.full(len(batch), 0.5), np.arange(len(batch)) >= 4], axis=1)


@pytest.mark.parametrize(("block", "promised"), [(20, True), (40, True), (3, False), (15, False)])
def test_the_size_of_a_block_does_not_choose_the_batches(block: int, promised: bool, tmp_path: Path) -> None:
    """It is not promised: with blocks of three copies this model would be certified for class 0, and fully verified."""
    smoothing = ss.Smoother(first_rows_only, "0.5", batch_size=10, threads=1, independence="assumed").smoothing
    made = plan_run(LocalPool(smoothing), data(1), settings(n0=20, n=400), secret("issuer 1", NONCE))
    with Store.begin(tmp_path / "run.db", replace(terms_of(made), block=block), made.inputs) as store:
        (certificate,) = certify_into(store, made)
    assert (certificate.label == 1) == promised  # type: ignore[union-attr]
    result = audit_file(tmp_path / "run.db", given=given("all", first_rows_only, 1))
    if promised:
        assert result.full
        assert not result.refuted
    else:
        assert "not made of the promised batches" in the_finding(result)


def test_a_self_chosen_key_claims_nothing(tmp_path: Path) -> None:
    smoother = ss.Smoother(brightness_of_three, "0.5")
    path = tmp_path / "one.json"
    path.write_text(smoother.certify(np.full((2, 2), 40, np.uint8), n=200).to_json())
    found = audit_file(path)
    assert not found.refuted
    assert any("key: self-chosen" in text for text in found.not_shown)
    assert "used no nonce" in the_finding(audit_file(path, AuditInputs(nonce=NONCE)))


def test_truncated_files(run: Path, tmp_path: Path) -> None:
    whole = run.read_bytes()
    for size in (50, 4096, len(whole) // 2, len(whole) - 1):
        (tmp_path / "run.db").write_bytes(whole[:size])
        with pytest.raises(ValueError, match="cut short"):
            audit_file(tmp_path / "run.db")


def test_other_files(tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    with pytest.raises(ValueError, match="holds no run yet"):
        audit_file(tmp_path / "empty.db")
    (tmp_path / "text.db").write_text("this is not a database, but it is long enough to be taken for one " * 9)
    with pytest.raises(ValueError, match="not a run of soundsmooth"):
        audit_file(tmp_path / "text.db")
    with pytest.raises(ValueError, match="there is no run"):
        audit_file(tmp_path / "missing.db")
    with pytest.raises(ValueError, match="there is no file"):
        audit_file(tmp_path / "missing.jsonl")
    (tmp_path / "none.jsonl").write_text("\n\n")
    with pytest.raises(ValueError, match="holds no certificate"):
        audit_file(tmp_path / "none.jsonl")
    with pytest.raises(ValueError, match=r"a table, which has no counts: ask for the run's \.db"):
        audit_file(tmp_path / "run.tsv")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="not a text file"):
        audit_file(tmp_path / "bytes.json")


def test_a_replay_needs_model_data_and_blocks(run: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs the model and the data"):
        audit_file(run, given=AuditInputs(replay="5%"))
    (tmp_path / "a.jsonl").write_text("{}")
    with pytest.raises(ValueError, match=r"need the run's \.db file"):
        audit_file(tmp_path / "a.jsonl", given=given("5%"))


# --- what is counted -----------------------------------------------------------------------------------------


def test_images_without_a_certificate_are_wrong_answers(tmp_path: Path) -> None:
    path = issue(tmp_path / "run.db", small_run(), only=2)
    found = audit_file(path, given=given("all"))
    assert not found.refuted
    assert found.tally.accuracies()[Fraction(0)] == Fraction(2, 7)
    assert found.confirmed_accuracies()[Fraction(0)] == Fraction(2, 7)
    assert any("5 of 7 promised images have no certificate" in note for note in found.notes)


def test_accuracy_is_said_at_the_radii_that_were_asked_for(run: Path, tmp_path: Path) -> None:
    """Of a run and of its records; without any, at the usual ones, which include 0.1."""
    path = issue(tmp_path / "run.db", looked_run())
    with Store.read(path) as store:
        (tmp_path / "run.jsonl").write_text("\n".join(each.to_json() for each in store.certificates()))
    for found in (audit_file(path), audit_file(tmp_path / "run.jsonl")):
        assert set(found.tally.accuracies()) == {Fraction(0), Fraction(1, 4)}
        assert set(found.to_dict()["certificates"]["accuracy"]) == {"0", "1/4"}
    assert Fraction(1, 10) in audit_file(run).tally.accuracies()


def test_files_of_records(run: Path, tmp_path: Path) -> None:
    with Store.read(run) as store:
        lines = [certificate.to_json() for certificate in store.certificates()]
    path = tmp_path / "run.jsonl"

    def of(*lines: str) -> Verification:
        path.write_text("\n".join(lines), encoding="utf-8")
        return audit_file(path)

    whole, half = of(*lines), of(*lines[:2], "")
    assert not whole.refuted
    assert whole.tally.accuracies() == audit_file(run).tally.accuracies()
    assert half.tally.accuracies()[Fraction(0)] == Fraction(2, 7)
    assert "line 3: a second certificate for image 0" in of(*lines[:2], lines[0]).findings.texts
    some = of(lines[0], lines[1][:-9], lines[2], lines[0])
    assert some.checks[0].text.startswith("2 of 4 certificates follow")
    assert any(note.startswith("5 of 7 promised images have no certificate (refused, or not") for note in some.notes)
    other = ss.Smoother(brightness_of_three, "0.5").certify(np.full((2, 2), 40, np.uint8), n=100).to_json()
    assert "line 2: this certificate is of another run than the first one" in of(lines[0], other).findings.texts
    assert "line 2: this is not JSON" in of(lines[0], lines[1][:-9]).findings.texts[0]
    twice = lines[1].replace('"label": ', '"label": 2, "label": ', 1)
    assert "line 2: this is not JSON: it says something twice" in of(lines[0], twice).findings.texts[0]


# --- the set statement (Theorem 5) ---------------------------------------------------------------------------


def test_all_but_b_certificates_have_the_hits_that_are_counted() -> None:
    """All true votes, all stores and all draws for two certificates of two blocks of one copy: an exact enumeration.

    Over the draw, more than b certificates have fewer true hits than are counted with probability below β. With one b
    less this fails, so the test can fail.
    """
    worst = {0: Fraction(0), 1: Fraction(0)}
    beta, s = Fraction(2, 5), 2
    draws = list(combinations(range(4), s))
    for true, stored in product(product((0, 1), repeat=4), repeat=2):
        wrong = dict.fromkeys(worst, 0)
        for draw in draws:
            urn = [
                [ReplayBlock(1, stored[j], true[j] if j in draw else None) for j in (2 * c, 2 * c + 1)]
                for c in range(2)
            ]
            b, t = escaped_and_excess(urn, beta)
            false = sum(least_hits(urn[c], 0, t) > true[2 * c] + true[2 * c + 1] for c in range(2))
            for less in worst:
                wrong[less] += false > b - less
        worst = {less: max(worst[less], Fraction(wrong[less], len(draws))) for less in worst}
    assert worst[0] < beta <= worst[1]


def test_the_set_statement_of_a_large_store() -> None:
    """1000 certificates of 20 blocks, 5 % drawn and nothing found: all but 134 stand as they are."""
    terms = AuditTerms(1, 200, Fraction(1, 1000), Gaussian(Fraction(1, 4)), "clopper-pearson")
    urn = [[ReplayBlock(10, 10, 10 if j == c % 20 else None) for j in range(20)] for c in range(1000)]
    escaped, claims = all_but_escaped(urn, terms, Fraction(1, 1000))
    odds = [Fraction(comb(20_000 - b, 1000), comb(20_000, 1000)) for b in (escaped, escaped + 1)]
    assert odds[0] >= Fraction(1, 1000) > odds[1]
    assert escaped == 134
    assert {claim.error for claim in claims} == {Fraction(1, 1000)}
    assert len({claim.radius for claim in claims}) == 1


# --- the command ---------------------------------------------------------------------------------------------


def test_the_protocol_from_commit_to_verify(tmp_path: Path) -> None:
    """The agency's commands, as docs/audit.md has them."""
    model, images = embedded.MODELS[Fraction(1, 4)], tmp_path / "data.npz"
    with np.load(embedded.IMAGES) as held:
        np.savez(images, x=held["x"][:9], y=held["y"][:9])
    options = (model, images, "--n", 300, "--skip", 4, "--seed", "hello")
    promise, run = tmp_path / "promise.txt", tmp_path / "run.db"
    said = run_command("commit", *options, "--out", promise)
    commitment = said.stderr.split()[-1]
    assert said.stdout == ""
    assert run_command("commit", *options).stdout == promise.read_text()
    run_command("certify", *options, "--nonce", NONCE, "--commitment", commitment, "--out", run)
    noted = ("--commitment", commitment, "--nonce", NONCE, "--promise", promise)
    seen = run_command("verify", run, *noted).stdout
    content = seen.split()[2]
    assert seen.startswith("content hash ")
    assert "not checked replay" in seen
    assert "The independence of rows is the issuer's word (proved)" in " ".join(seen.split())
    noted = (*noted, "--hash", content, "--model", model, "--data", images)
    part = run_command("verify", run, *noted, "--replay", "20%").stdout
    assert "(i) radius from the replayed blocks alone" in part
    assert "Only --replay all verifies fully" in " ".join(part.split())
    assert "independent by an argument about the graph" in " ".join(part.split())
    full = run_command("verify", run, *noted, "--replay", "all", "--json")
    assert full.stderr == f"content hash {content}\n"
    report = json.loads(full.stdout)
    assert report["full"]
    assert not report["refuted"]
    assert report["independence by"] == ["argument", "witness"]
    assert [each["index"] for each in report["replay"]["certificates"]] == [0, 4, 8]
    wrong = run_command("verify", run, "--model", embedded.MODELS[Fraction(1, 2)], code=1).stdout
    assert "this is not the promised model" in wrong
    assert "REJECTED" in wrong


@pytest.mark.parametrize(("issuer", "auditor"), [(["--untrusted"], []), ([], ["--untrusted"])])
def test_another_process_is_no_other_machine(issuer: list[str], auditor: list[str], tmp_path: Path) -> None:
    """A graph votes the same in a process without the key: who promised to run it there has no excuse for others."""
    run = tmp_path / "run.db"
    run_command("certify", "--limit", 1, "--n", 200, "--out", run, *issuer)
    report = json.loads(run_command("verify", run, "--replay", "all", "--json", *auditor).stdout)
    assert report["replay"]["same kind of machine"]
    assert report["full"]
    assert not report["refuted"]
    assert ("isolated=yes" in report["promise"]["flags"]) == bool(issuer)


def test_a_file_does_not_write_its_own_verdict_on_the_screen(run: Path, tmp_path: Path) -> None:
    """Control characters in it would clear the screen, say another thing and hide what follows."""
    forged = tmp_path / "run.db"
    forged.write_bytes(run.read_bytes())
    with closing(sqlite3.connect(forged)) as db, db:
        db.execute(
            "UPDATE run SET value = char(27) || '[2JFULL VERIFICATION' || char(10, 27) WHERE name = 'commitment'"
        )
    said = run_command("verify", forged, code=1).stdout
    assert "\x1b" not in said
    assert "not the stated \\x1b[2JFULL VERIFICATION\\n\\x1b" in said


def test_the_commands_exit_codes(run: Path, tmp_path: Path) -> None:
    (tmp_path / "short.db").write_bytes(run.read_bytes()[:5000])
    cut = run_command("verify", tmp_path / "short.db", code=2)
    assert cut.stderr.startswith("error: ")
    assert "cut short" in cut.stderr
    assert len(cut.stderr.splitlines()) == 1
    assert "64 hexadecimal digits" in run_command("verify", run, "--nonce", "abc", code=2).stderr
    assert "beta" in run_command("verify", run, "--beta", "2", code=2).stderr
    assert "not as the noted" in run_command("verify", run, "--commitment", "00" * 32, code=1).stdout


def test_an_option_that_was_forgotten_refutes_nothing(run: Path) -> None:
    """Who names neither model nor data means the embedded ones: for the run of another model that is a mistake."""
    forgotten = run_command("verify", run, "--replay", "1", code=2)
    assert "a replay needs the model and the data: --model M --data D" in forgotten.stderr
    assert "REJECTED" not in forgotten.stdout


def test_json_is_one_line(run: Path) -> None:
    said = run_command("verify", run, "--json").stdout
    assert said.startswith("{")
    assert len(said.splitlines()) == 1


def test_a_promise_that_is_not_there(run: Path, tmp_path: Path) -> None:
    assert "there is no promise" in run_command("verify", run, "--promise", tmp_path / "no.txt", code=2).stderr
    (tmp_path / "picture").write_bytes(bytes(range(256)))
    assert "holds no promise" in run_command("verify", run, "--promise", tmp_path / "picture", code=2).stderr
    assert "is a folder" in run_command("verify", run, "--promise", tmp_path, code=2).stderr

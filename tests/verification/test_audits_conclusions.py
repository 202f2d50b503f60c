"""An audit concludes only what it saw: exit code, JSON and prose agree, and what nobody knows is a finding."""

import json
import math
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import soundsmooth as ss
from classifiers import brightness_of_three
from soundsmooth.audit import Confirmed
from soundsmooth.certification.fields import checksum
from soundsmooth.certification.promise import Promise
from soundsmooth.cli.meaning import meaning
from soundsmooth.cli.options import Choices
from soundsmooth.cli.verify import run_verify
from soundsmooth.models.onnx_file import OnnxModel
from soundsmooth.runs.store import Store
from soundsmooth.verification import AuditInputs, Conclusion, Replay, Statement, Verification, audit_file
from soundsmooth.verification.audits import _add_replay
from soundsmooth.verification.promised import check_promise
from soundsmooth.verification.statements import Claimed
from verification.forgeries import opened, reissue
from verification.issuer import data, forge, given, issue, small_run

QUARTER = range(5)
REFUTED, DIFFERS = Conclusion.REFUTED.code, Conclusion.UNCONFIRMED.code
TORCH = (
    "autocast=False compile=none cudnn.benchmark=False cudnn.deterministic=False cudnn.tf32=True deterministic=False "
    "layout=contiguous matmul=highest reduced.bf16=True reduced.fp16=True runs=module threads=1"
)


def said(result: Verification, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What the command says of this result: its JSON, its prose and its exit code, which must agree."""
    monkeypatch.setattr("soundsmooth.cli.verify.audit_file", lambda *_: result)
    codes, texts = [], []
    for as_json in (True, False):
        code = 0
        try:
            run_verify(Choices({"target": Path("run.db"), "json": as_json}))
        except typer.Exit as end:
            code = end.exit_code
        codes.append(code)
        texts.append(capsys.readouterr().out)
    report: dict[str, Any] = json.loads(texts[0])
    prose = " ".join(texts[1].split())
    assert codes[0] == codes[1]
    assert report["refuted"] == (codes[0] == REFUTED) == ("REJECTED" in prose)
    assert report["full"] == ("FULL VERIFICATION" in prose) == ("a full verification" in prose)
    assert not report["full"] or codes[0] == 0
    if report["votes differ"]:
        assert codes[0] in (REFUTED, DIFFERS)
        assert "Nothing wrong" not in prose
    return {**report, "code": codes[0], "prose": prose}


Said = Callable[[Verification], dict[str, Any]]


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    return lambda result: said(result, monkeypatch, capsys)


# --- flags and words that nobody knows -----------------------------------------------------------------------


@pytest.mark.parametrize("flags", ["kernels=v7", "v7", "threads=1", "none=", "layout=contiguous"])
def test_a_flag_of_the_issuer_excuses_no_vote(flags: str, tmp_path: Path, say: Said) -> None:
    """Under it every machine is another one. A quarter of the blocks is forged, and all are voted again."""
    run = small_run([2])
    odd = replace(run, promise=Promise({**run.promise.values, "flags": flags}))
    path = issue(tmp_path / "run.db", odd)
    forge(path, 0, QUARTER)
    report = say(audit_file(path, given=given("all")))
    assert report["code"] == REFUTED
    assert not report["full"]
    assert any("a flag that this version does not know" in text for text in report["findings"]["first"])


def promised(**changed: str) -> Promise:
    return Promise({**small_run().promise.values, **{name.replace("_", " "): text for name, text in changed.items()}})


ONNX = "optimization=all provider=CPUExecutionProvider threads=1"


@pytest.mark.parametrize(
    ("kind", "flags", "text"),
    [
        ("onnx", f"kernels=v7 {ONNX}", "does not know: 'kernels=v7'"),
        ("onnx", ONNX.replace("all", "most"), "does not know: 'optimization=most'"),
        ("onnx", "none", "optimization, provider, threads missing"),
        ("onnx", "optimization=all threads=1", "provider missing"),
        ("onnx", f"{ONNX} threads=1", "each there once"),
        ("onnx", "threads=1 optimization=all provider=CPUExecutionProvider", "in the order of their names"),
        ("onnx", f"{ONNX} ", "plain text"),
        ("torch", TORCH.replace("highest", "v7"), "does not know: 'matmul=v7'"),
        ("torch", TORCH.replace("cudnn.tf32=True ", ""), "cudnn.tf32 missing"),
        ("onnx", ONNX.replace("threads=1", "threads=x"), "threads is no positive whole number"),
        ("callable", ONNX, "does not know: 'optimization=all'"),
        ("callable", "digest=3", "does not know: 'digest=3'"),
        ("onnx", f"digest=2 {ONNX}", "does not know: 'digest=2'"),
    ],
)
def test_flags_are_those_of_the_kind_of_model(kind: str, flags: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        check_promise(promised(model_kind=kind, flags=flags))


@pytest.mark.parametrize(
    ("kind", "flags"),
    [
        ("onnx", ONNX),
        ("onnx", f"isolated=yes {ONNX}"),
        ("torch", TORCH),
        ("torch", TORCH.replace("runs=module ", "").replace("compile=none ", "")),  # of an older version
        ("callable", "none"),
        ("callable", "digest=2-open"),
    ],
)
def test_flags_that_were_ever_promised_are_known(kind: str, flags: str) -> None:
    check_promise(promised(model_kind=kind, flags=flags))


def test_the_flags_of_today_s_models_are_known() -> None:
    torch = pytest.importorskip("torch")
    from soundsmooth import embedded
    from soundsmooth.models.torch_module import TorchModel

    for path in embedded.MODELS.values():
        check_promise(promised(model_kind="onnx", flags=OnnxModel(path, threads=1).identity().flags_text))
    flags = TorchModel(torch.nn.Linear(2, 2)).identity().flags_text
    check_promise(promised(model_kind="torch", flags=flags))


@pytest.mark.parametrize(("name", "value"), [("independence", "certain"), ("precision", "float7"), ("device", "v7")])
def test_words_that_nobody_knows(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"the promised {name} is none "):
        check_promise(promised(**{name: value}))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return issue(tmp_path_factory.mktemp("whole") / "run.db", small_run([0, 1, 2])).read_bytes()


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("INSERT INTO run VALUES ('kernels', 'v7')", "says something that this version does not know: 'kernels'"),
        (
            "UPDATE run SET value = value || 'kernels: v7' || char(10) WHERE name = 'promise'",
            "a promise has the fields",
        ),
        ("UPDATE environments SET text = '[1, 2]'", "environment 1 is not made of names and texts"),
        ("UPDATE environments SET text = '{\"a\": 1}'", "environment 1 is not made of names and texts"),
        ('UPDATE environments SET text = \'{"a": "1", "a": "2"}\'', "environment 1 is not JSON"),
    ],
)
def test_lines_that_nobody_knows(statement: str, text: str, whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    path.write_bytes(whole)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(statement)
    assert any(text in finding for finding in audit_file(path).findings.texts)


# --- votes that differ ---------------------------------------------------------------------------------------


class Machine:
    """A model whose digest does not tell which machine it runs on: there, near-ties break differently."""

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        return (
            brightness_of_three(batch + np.float32(0.005))
            if os.environ.get("OTHER_MACHINE")
            else brightness_of_three(batch)
        )


@pytest.mark.parametrize("replay", ["all", "90%"])
def test_a_differing_vote_is_never_nothing_wrong(
    replay: str, tmp_path: Path, say: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Machine()
    path = issue(tmp_path / "run.db", small_run([0, 1, 2], scores=model))
    before = say(audit_file(path, given=given(replay, model)))
    assert (before["code"], before["full"]) == (0, replay == "all")
    monkeypatch.setenv("OTHER_MACHINE", "yes")
    here = say(audit_file(path, given=given(replay, model)))
    assert (here["code"], here["full"]) == (REFUTED, False)
    other = say(audit_file(path, given=given(replay, model, other_machine=True)))
    assert other["votes differ"]
    assert not other["replay"]["full"]
    assert (other["code"], other["full"], other["refuted"]) == (DIFFERS, False, False)
    assert "NOT CONFIRMED" in other["prose"]
    assert "which another machine explains, and a forgery too" in other["prose"]


def test_forged_blocks_are_not_confirmed_on_another_machine(tmp_path: Path, say: Said) -> None:
    path = issue(tmp_path / "run.db", small_run([2]))
    forge(path, 0, QUARTER)
    report = say(audit_file(path, given=given("all", other_machine=True)))
    assert report["code"] in (REFUTED, DIFFERS)
    assert not report["full"]


def test_a_partial_replay_is_no_full_one(whole: bytes, tmp_path: Path, say: Said) -> None:
    path = tmp_path / "run.db"
    path.write_bytes(whole)
    report = say(audit_file(path, given=given("50%")))
    assert (report["code"], report["full"]) == (0, False)
    assert say(audit_file(path))["code"] == 0


# --- code, JSON and prose come from one place ----------------------------------------------------------------


def replayed(drawn: int, differ: int, failed: int, radius: float) -> Replay:
    """What a replay of one certificate with radius 0.5 may have come to."""
    half = Confirmed(0.9, radius, Fraction(1, 1000))
    statement = Statement(Claimed(0, 0, 1, 1, 0.5, 0.9, 100), drawn, differ, failed, True, half, half, None, False)
    return Replay(20, drawn, Fraction(1, 1000), 20 - drawn, 0, differ, failed, None, True, (statement,), (radius,))


REPLAYS = [None, *(replayed(*each) for each in product((5, 20), (0, 2), (0, 1), (0.5, 0.25)))]


@pytest.mark.parametrize("findings", [0, 1])
@pytest.mark.parametrize("replay", REPLAYS)
def test_code_json_and_prose_agree_in_every_case(replay: Replay | None, findings: int, say: Said) -> None:
    """Whatever is found: `said` compares them. Also for what no audit comes to, such as a failure without a finding."""
    result = Verification("run.db", True, promise=small_run().promise)
    result.findings.add_all(["something"] * findings)
    _add_replay(result, replay)
    report = say(result)
    assert report["exit code"] == report["code"] == result.conclusion.code
    assert report["conclusion"] == result.conclusion.value
    clean = replay is None or not (replay.differ or (replay.whole and (replay.failed or replay.smaller)))
    assert (report["code"] == 0) == (clean and not findings)


def test_every_code_has_one_meaning(say: Said) -> None:
    results = [Verification("run.db", True, promise=small_run().promise, replay=replay) for replay in REPLAYS]
    assert {result.conclusion for result in results} == set(Conclusion) - {Conclusion.REFUTED}
    assert {each.code for each in Conclusion} == {0, 1, 3}


def test_a_text_that_no_screen_holds(whole: bytes, tmp_path: Path, say: Said) -> None:
    path = tmp_path / "run.db"
    path.write_bytes(whole)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE run SET value = ? WHERE name = 'commitment'", ("x" * 1_000_000,))
    report = say(audit_file(path))
    assert report["code"] == REFUTED
    assert len(report["prose"]) < 50_000


# --- what the run leaves out ---------------------------------------------------------------------------------


def test_images_that_the_run_leaves_out_are_named(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    path.write_bytes(whole)
    more = audit_file(path, given=AuditInputs(None, lambda _: data(8)))
    assert not more.refuted
    assert "the run has 3 of the 8 images of the data, and says nothing of the others: 3, 4, 5, 6, 7" in more.notes
    many = audit_file(path, given=AuditInputs(None, lambda _: data(16)))
    assert any(note.endswith("the others: 3, 4, 5, 6, 7, …") for note in many.notes)
    exact = audit_file(path, given=AuditInputs(None, lambda _: data(3)))
    assert not any("of the data" in note for note in exact.notes)
    assert meaning(exact)


# --- certificates as JSON ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    found = ss.Smoother(brightness_of_three, "0.5").certify(np.full((2, 2), 40, np.uint8), n=200)
    return json.loads(found.to_json())  # type: ignore[no-any-return]


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_what_comes_after_many_characters_is_not_ignored(suffix: str, record: dict[str, Any], tmp_path: Path) -> None:
    path, text = tmp_path / f"one{suffix}", json.dumps(record)
    path.write_text(text)
    assert not audit_file(path).refuted
    path.write_text(text.ljust(1 << 24) + '{"and": "more"}')
    with pytest.raises(ValueError, match="line 1: no certificate has 16777216 characters"):
        audit_file(path)
    path.write_text(text + " " * 1000 + '{"and": "more"}')
    assert audit_file(path).refuted


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf, -1.0, -1, True, False, "1", None, [1]])
def test_seconds_are_a_time(seconds: object, record: dict[str, Any], tmp_path: Path) -> None:
    """Also if the checksum is made to fit."""
    path, changed = tmp_path / "one.json", {**record, "seconds": seconds}
    path.write_text(json.dumps({**changed, "checksum": checksum(changed)}))
    assert audit_file(path).refuted


@pytest.mark.parametrize("seconds", [0, 0.0, 1, 2.5])
def test_any_time_will_do(seconds: float, record: dict[str, Any], tmp_path: Path) -> None:
    path, changed = tmp_path / "one.json", {**record, "seconds": seconds}
    path.write_text(json.dumps({**changed, "checksum": checksum(changed)}))
    assert not audit_file(path).refuted


@pytest.mark.parametrize("table", ["blocks", "certificates"])
@pytest.mark.parametrize("seconds", [math.inf, -1.0])
def test_seconds_of_a_run_are_times(table: str, seconds: float, whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    path.write_bytes(whole)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"UPDATE {table} SET seconds = ? WHERE place = 1", (seconds,))
    said = audit_file(path).findings.texts
    assert any("malformed" in text or "no number of seconds" in text for text in said)


@pytest.mark.parametrize(
    "environment", [None, [], {"a": 1}, {"a": math.nan}, {"a": True}, {"a": ["b"]}, {"a": "\ud800"}]
)
def test_an_environment_is_made_of_texts(environment: object, record: dict[str, Any], tmp_path: Path) -> None:
    path, changed = tmp_path / "one.json", {**record, "environment": environment}
    text = json.dumps({**changed, "checksum": checksum(changed)})
    path.write_text(text)
    assert audit_file(path).refuted
    with pytest.raises(ValueError, match=r"environment|not a soundsmooth certificate"):
        ss.Certificate.from_json(text)


@pytest.mark.parametrize("name", ["index", "label", "truth", "seconds"])
@pytest.mark.parametrize("value", [True, math.nan, math.inf, -1, 10**400, [1], "1"])
def test_numbers_are_numbers_wherever_a_certificate_is_read(
    name: str, value: object, record: dict[str, Any], tmp_path: Path
) -> None:
    path, changed = tmp_path / "one.json", {**record, name: value}
    text = json.dumps({**changed, "checksum": checksum(changed)})
    path.write_text(text)
    unknowable = name == "truth" and value == 10**400  # a label that no class has: the answer is wrong
    assert audit_file(path).refuted != unknowable
    if not unknowable:
        with pytest.raises(ValueError, match="certificate"):
            ss.Certificate.from_json(text)


def test_counts_are_numbers_wherever_a_certificate_is_read(record: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    for counts in ({"classes": [True, 199, 0], "nobody": 0}, {"classes": [200.0, 0, 0], "nobody": 0}):
        changed = {**record, "estimation": counts}
        text = json.dumps({**changed, "checksum": checksum(changed)})
        path.write_text(text)
        assert audit_file(path).refuted
        with pytest.raises(ValueError, match="must be integers"):
            ss.Certificate.from_json(text)


def test_certificates_alone_do_not_tell_whose_labels_these_are(record: dict[str, Any], tmp_path: Path) -> None:
    """A forged true label changes the accuracy, and no certificate can tell: so that is said."""
    path, changed = tmp_path / "one.json", {**record, "truth": 1}
    path.write_text(json.dumps({**changed, "checksum": checksum(changed)}))
    assert any(text.startswith("data: not compared") for text in audit_file(path).not_shown)


def test_times_of_a_run_are_times_for_who_exports_it(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    path.write_bytes(whole)
    with opened(path) as db:
        db.execute("UPDATE certificates SET seconds = 9e999 WHERE place = 1")
        reissue(db, fixed=True)
    with Store.read(path) as store, pytest.raises(ValueError, match="the time of image 1 is no number of seconds"):
        list(store.lines())


def test_more_classes_than_memory_holds(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    path.write_bytes(whole)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE certificates SET selection = replace(selection, '\"classes\":3', '\"classes\":9000000000')")
    with Store.read(path) as store, pytest.raises(ValueError, match="so many classes no model has"):
        list(store.lines())


def test_a_promised_batch_that_memory_does_not_hold() -> None:
    """Size and shape are the issuer's word: nothing is allocated before they are looked at."""
    from soundsmooth import embedded

    model = OnnxModel(next(iter(embedded.MODELS.values())), threads=1)
    with pytest.raises(ValueError, match="a batch of 1000000000 inputs"):
        model.prepare((1, 28, 28), 1_000_000_000)

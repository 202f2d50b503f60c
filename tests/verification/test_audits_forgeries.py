"""A slice of the structured forgeries, with a fixed seed; experiments/verify/forgeries.py tries thousands."""

import random
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from soundsmooth.audit.check import ClaimReport
from soundsmooth.verification import Check
from verification.forgeries import CONSISTENT, GROUPS, NAIVE, Forgery, InapplicableError
from verification.outcomes import ALONE, NOTED, REPLAYED, SAME, WEAKER, HoleError, Judge, Table, honest_files, judged

SEED = 3
EACH, MEASURED = 20, 8
#: All that is only said where votes are counted at looks, or where images have coins; and so many forgeries of each.
LOOKED = (
    "promise: looks", "promise: radii", "promise: go on", "promise: wrong labels", "promise: group",
    "certificates.looks", "certificates.aborted", "certificates.coin", "row of blocks gone",
    "record: looks", "record: aborted", "record: coin", "record: promise.looks", "record: promise.radii",
    "record: promise.go on", "record: promise.wrong labels", "record: promise.group",
)  # fmt: skip
FEW = 12


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """Some of each file; of the one that takes long to replay, rows alone only."""
    folder = tmp_path_factory.mktemp("forgeries")
    found = judged(honest_files(folder, ("fresh", "batchwise", "motley")), folder / "forged", EACH, SEED)
    measured = [each for each in honest_files(folder, ("measured",)) if not each.records]
    found.add(judged(measured, folder / "measured", MEASURED, SEED, only="rows alone"))
    return found


@pytest.mark.slow("audits many forgeries")
def test_every_forgery_is_found_or_does_no_harm_for_a_reason(table: Table) -> None:
    assert not table.holes, "\n".join(table.holes)
    assert table.total == 6 * EACH + MEASURED


def test_the_slice_has_all_groups_and_most_outcomes(table: Table) -> None:
    assert table.outcomes.keys() == {*GROUPS, "votes"}
    assert {outcome for counts in table.outcomes.values() for outcome in counts} >= {ALONE, REPLAYED, SAME, WEAKER}
    assert min(table.levels[level] for level in (NAIVE, CONSISTENT)) > 30


@pytest.mark.slow("audits many forgeries")
def test_forged_looks_and_coins_are_found_or_do_no_harm(tmp_path: Path) -> None:
    """Runs that stop by themselves, one that was ended from outside, images that share batches, and coins."""
    seen: Counter[str] = Counter()
    for honest in honest_files(tmp_path, ("looks, ended", "looks, together", "coins")):
        (folder := tmp_path / f"forged {honest.path.name}").mkdir()
        judge, tried = Judge(honest, folder), Counter[str]()
        for forgery in honest.forgeries(random.Random(SEED)):
            if forgery.kind in LOOKED and tried[forgery.kind] < FEW:
                with suppress(InapplicableError):
                    judge(forgery)
                    tried[forgery.kind] += 1
        seen += tried
    assert seen.keys() == {*LOOKED}


def test_another_nonce_is_found_by_who_has_noted_it(tmp_path: Path) -> None:
    """The slice need not hold a forgery that only notes find; these are all of another nonce, and of none."""
    honest = next(each for each in honest_files(tmp_path, ("batchwise",)) if each.path.suffix == ".json")
    (tmp_path / "forged").mkdir()
    judge = Judge(honest, tmp_path / "forged")
    forgeries = [each for each in honest.forgeries(random.Random(SEED)) if each.kind == "record: nonce"]
    assert NOTED in {judge(forgery)[0] for forgery in forgeries}


#: An audit without one of its checks, and a forgery that only this check finds.
SABOTAGE = {
    "larger radius": ("soundsmooth.verification.images.check_record", lambda _: ClaimReport((), True)),
    "block's votes": ("soundsmooth.verification.replay._differences", lambda _: ()),
    "images.truth": ("soundsmooth.verification.audits.data_check", lambda *_: Check("data", True, "")),
    "record: truth": ("verification.outcomes.UNCHECKED", {}),
    "record: aborted": ("soundsmooth.audit.check._broken_rule", lambda *_: ()),
}


@pytest.mark.parametrize("kind", SABOTAGE)
def test_a_judge_sees_what_an_audit_does_not_find(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suffix = ".json" if kind.startswith("record") else ".db"
    name = "looks, together" if kind in LOOKED else "batchwise"
    honest = next(each for each in honest_files(tmp_path, (name,)) if each.path.suffix == suffix)
    (tmp_path / "forged").mkdir()
    judge = Judge(honest, tmp_path / "forged")
    forgeries = [each for each in honest.forgeries(random.Random(SEED)) if each.kind == kind]
    monkeypatch.setattr(*SABOTAGE[kind])
    with pytest.raises(HoleError):
        judge_all(judge, forgeries)


def judge_all(judge: Judge, forgeries: list[Forgery]) -> None:
    for forgery in forgeries:
        with suppress(InapplicableError):
            judge(forgery)

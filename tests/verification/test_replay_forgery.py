"""Forgeries that contradict nothing: arithmetic accepts them, a replay refuses them as often as the formula says."""

import os
from fractions import Fraction
from math import comb
from pathlib import Path

import numpy as np
import pytest

from classifiers import brightness_of_three
from soundsmooth.audit import detection
from soundsmooth.verification import AuditInputs, Verification, audit_file
from soundsmooth.verification.draw import fresh_draw, number_to_draw
from verification.issuer import NONCE, forge, given, issue, small_run

BLOCKS = 20
#: (forged blocks b, drawn blocks s, how many forgeries)
TRIALS = [(1, 5, 150), (3, 5, 150), (10, 2, 150)]
#: A false alarm of each trial below has at most this probability.
FALSE_ALARM = Fraction(1, 10**6)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One image that is certified at about p = 0.76, so that every block of 20 copies has some misses."""
    return issue(tmp_path_factory.mktemp("forgery") / "run.db", small_run([2]))


def at_most(k: int, n: int, q: Fraction) -> Fraction:
    return sum((comb(n, i) * q**i * (1 - q) ** (n - i) for i in range(k + 1)), Fraction(0))


def accepted(n: int, q: Fraction) -> range:
    """The numbers of detections for which the test passes: each tail beyond has probability ≤ FALSE_ALARM / 2."""
    low = next(k for k in range(n + 1) if at_most(k, n, q) > FALSE_ALARM / 2)
    high = next(k for k in range(n, -1, -1) if 1 - at_most(k - 1, n, q) > FALSE_ALARM / 2)
    return range(low, high + 1)


@pytest.mark.parametrize(("bad", "drawn", "times"), TRIALS)
@pytest.mark.slow("replays many forgeries")
def test_a_replay_refuses_consistent_forgeries_as_often_as_stated(
    honest: Path, bad: int, drawn: int, times: int, tmp_path: Path
) -> None:
    """450 forgeries in all. Each is accepted by arithmetic, and its votes are found false exactly if one is drawn.

    How often that happens is compared with 1 − C(B−b, s)/C(B, s). False alarm: at most 1e−6 for each trial; power: an
    audit whose probability of detection is lower by 0.3 passes with probability below 0.01 (computed below).
    """
    chance, caught = detection(BLOCKS, bad, drawn), 0
    assert chance == 1 - Fraction(comb(BLOCKS - bad, drawn), comb(BLOCKS, drawn))
    passes, worse = accepted(times, chance), max(Fraction(0), chance - Fraction(3, 10))
    assert at_most(passes[-1], times, worse) - at_most(passes[0] - 1, times, worse) < Fraction(1, 100)
    for _ in range(times):
        forged, draws = set(fresh_draw(BLOCKS, bad)), []
        path = tmp_path / "run.db"
        path.write_bytes(honest.read_bytes())
        forge(path, 0, forged)

        def draw(blocks: int, s: int, draws: list[int] = draws) -> list[int]:
            draws.extend(fresh_draw(blocks, s))
            return draws

        result = audit_file(path, given=given(str(drawn)), draw=draw)
        assert all(check.passed for check in result.checks if check.name in ("arithmetic", "store"))
        assert len(draws) == drawn
        assert result.replay is not None
        met = bool(forged & set(draws))
        assert (result.replay.differ > 0) == met
        assert result.refuted >= met  # and now and then by the drawn votes alone, which speak against so high a p
        caught += met
    assert caught in passes, f"{caught} of {times}, expected {float(chance * times):.1f}"


def test_arithmetic_alone_accepts_a_forgery(honest: Path, tmp_path: Path) -> None:
    """As the docs say: without a replay there is nothing to see."""
    path = tmp_path / "run.db"
    path.write_bytes(honest.read_bytes())
    before = audit_file(path)
    forge(path, 0, range(BLOCKS))
    after = audit_file(path, AuditInputs(commitment=before.promise.commitment, nonce=NONCE))
    assert not after.refuted
    assert after.tally.above[Fraction(1, 2)] == 1
    assert before.tally.above[Fraction(1, 2)] == 0
    assert audit_file(path, AuditInputs(content=before.content)).refuted  # unless the hash was handed over before


def test_a_forged_abstention_is_in_the_urn(tmp_path: Path) -> None:
    """Image 4 abstains, with so few copies. Made into a certificate, it is replayed like any other."""
    path = issue(tmp_path / "run.db", small_run([1, 4], n=200))
    assert audit_file(path, given=given("all")).replay.blocks == BLOCKS
    forge(path, 1, range(BLOCKS))
    result = audit_file(path, given=given("all"))
    assert result.replay.blocks == 2 * BLOCKS
    assert result.refuted


def test_an_honest_run_is_never_refused(tmp_path: Path) -> None:
    """On the same machine, in every noise mode and for every bound: no false alarm, and a full replay confirms all."""
    for number, (noise, bound) in enumerate(
        [("fresh", "clopper-pearson"), ("shared", "hoeffding"), ("batchwise", "runner-up")]
    ):
        path = issue(tmp_path / f"{number}.db", small_run(noise=noise, bound=bound, n=390))
        assert not audit_file(path, given=given("30%")).refuted
        result = audit_file(path, given("all", nonce=NONCE))
        assert not result.refuted
        assert result.full
        assert result.replay.smaller == 0
        assert result.replay.escaped == result.replay.excess == result.replay.differ == 0
        for each in result.replay.statements:
            assert (each.alone.p_lower, each.alone.radius) == (each.claimed.p_lower, each.claimed.radius)
        assert_confirmed_for_the_set(result, bound)


def assert_confirmed_for_the_set(result: Verification, bound: str) -> None:
    """For the set, p is bounded by Clopper and Pearson at α, whatever bound was promised.

    Hoeffding's inequality gives less. So does the bound on the runner-up, which is at α/2: of the three classes here
    two have votes, and the runner-up has what the label has not.
    """
    stated, confirmed = result.tally.accuracies(), result.confirmed_accuracies()
    gained = [each.struck.radius - each.claimed.radius for each in result.replay.statements]
    assert gained
    if bound == "clopper-pearson":
        assert confirmed == stated
        assert not any(gained)
    else:
        assert list(confirmed) == list(stated)
        assert all(confirmed[radius] >= stated[radius] for radius in stated)
        assert min(gained) > 0


def shifted(batch: np.ndarray) -> np.ndarray:
    """Nearly the same classifier, as another machine might compute it: some near-ties break differently."""
    mean = batch.reshape(len(batch), -1).mean(axis=1) + np.float32(0.005)
    return np.stack([0.5 - mean, mean - 0.5, np.full(len(mean), -0.1)], axis=1)


class Machine:
    """A model whose digest does not tell which machine it runs on."""

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        return shifted(batch) if os.environ.get("OTHER_MACHINE") else brightness_of_three(batch)


def test_honest_differences_of_another_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are findings, unless the auditor knows the machine to be another one; (ii) and (iii) pay for them."""
    model = Machine()
    path = issue(tmp_path / "run.db", small_run([0, 1, 2], scores=model))
    monkeypatch.setenv("OTHER_MACHINE", "yes")
    assert audit_file(path, given=given("all", model)).refuted
    result = audit_file(path, given=given("all", model, other_machine=True))
    assert not result.refuted
    assert result.replay.differ > 0
    assert result.replay.excess > 0
    assert any("votes differ" in text for text in result.not_shown)  # which is not the same as in order
    doubtful = result.replay.statements[2]
    assert doubtful.alone.radius == doubtful.struck.radius < doubtful.claimed.radius
    assert 0 < doubtful.honest.radius < doubtful.claimed.radius


def test_another_machine_is_no_excuse_for_a_gross_forgery(tmp_path: Path) -> None:
    """If the replayed votes refute the claimed probability, that is said on any machine."""
    path = issue(tmp_path / "run.db", small_run([3]))
    forge(path, 0, range(BLOCKS))
    result = audit_file(path, given=given("all", other_machine=True))
    assert any("refute p_lower" in text for text in result.findings.texts)


def test_without_bitmaps_only_sums_are_compared(tmp_path: Path) -> None:
    path = issue(tmp_path / "run.db", small_run([2]), votes=False)
    result = audit_file(path, given=given("all"))
    assert not result.refuted
    assert result.replay.statements[0].honest is None
    assert any("sums only" in note for note in result.notes)
    forge(path, 0, [4])
    assert audit_file(path, given=given("all")).refuted


class Broken:
    """A model that fails on the auditor's machine."""

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        if os.environ.get("OTHER_MACHINE"):
            raise RuntimeError("out of order")
        return brightness_of_three(batch)


def test_a_block_that_cannot_be_voted_again_counts_as_no_hits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Broken()
    path = issue(tmp_path / "run.db", small_run([2], scores=model))
    monkeypatch.setenv("OTHER_MACHINE", "yes")
    result = audit_file(path, given=given("5", model))
    assert result.replay.failed == 6  # five blocks, and selection
    assert result.replay.excess > 0
    assert result.replay.statements[0].alone.radius == result.replay.statements[0].struck.radius == 0
    assert any("could not be voted again: RuntimeError: out of order" in text for text in result.findings.texts)


# --- the draw ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "drawn"), [("5%", 2), ("all", 21), ("100%", 21), ("7", 7), ("99", 21), ("0.1%", 1)])
def test_how_many_blocks(asked: str, drawn: int) -> None:
    assert number_to_draw(asked, 21) == drawn


@pytest.mark.parametrize("asked", ["0", "-3", "0%", "101%", "some", "5 percent", "1/0%", ""])
def test_impossible_amounts(asked: str) -> None:
    with pytest.raises(ValueError, match="replay must be a share"):
        number_to_draw(asked, 21)


def test_draws_are_uniform_sets() -> None:
    """All 10 sets of 2 of 5 blocks in 2000 draws: each comes 200 ± 85 times. False alarm below 1e−6 (computed)."""
    times, counts = 2000, {}
    for _ in range(times):
        draw = tuple(fresh_draw(5, 2))
        counts[draw] = counts.get(draw, 0) + 1
    q = Fraction(1, 10)
    alarm = 10 * (at_most(200 - 86, times, q) + 1 - at_most(200 + 85, times, q))
    assert alarm < Fraction(1, 10**6)
    assert len(counts) == 10
    assert all(abs(count - 200) <= 85 for count in counts.values())

"""Independence, measured: rows voted again, alone, and what is left of p."""

import json
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from math import floor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, save
from scipy.stats import binom

import classifiers
import soundsmooth as ss
from issuing import issue
from soundsmooth import audit
from soundsmooth.certification.certify import Measurement
from soundsmooth.certification.fields import checksum
from soundsmooth.certification.promise import Inputs, Promise, Secret, secret
from soundsmooth.certification.settings import settings
from soundsmooth.exact import BOUNDS, Look, Schedule, clopper_pearson_above, clopper_pearson_below
from soundsmooth.independence import measure
from soundsmooth.independence.measure import typical_seconds
from soundsmooth.noise import Gaussian, Sampler
from soundsmooth.runs.plan import plan_run
from soundsmooth.runs.pools import LocalPool

M = 100
GREY, BRIGHT = np.full((1, 8, 8), 130, np.uint8), np.full((1, 8, 8), 160, np.uint8)


def certify(scores: object, x: np.ndarray = BRIGHT, n: int = 2000, again: int = M, **choices: object) -> ss.Certificate:
    smooth = ss.Smoother(scores, "1/2", independence="measured", again=again, **choices)
    return smooth.certify(x, n=n, seed="measured")


@pytest.fixture(scope="module")
def honest() -> ss.Certificate:
    return certify(classifiers.brightness)


# --- how long it takes -----------------------------------------------------------------------------------------


def test_a_row_takes_what_most_rows_took_once_the_process_had_settled() -> None:
    """First rows are slow, then each takes 2 s but for one hiccup; the last are answered at once."""
    waits = [9.0] * 40 + [2.0] * 30 + [500.0] + [2.0] * 26 + [0.0] * 3
    assert typical_seconds([*accumulate(waits, initial=7.0)]) == 2.0


def test_of_few_rows_all_count() -> None:
    assert typical_seconds([1.0, 4.0]) == 3.0
    assert typical_seconds([*accumulate([3.0] * 8, initial=0.0)]) == 3.0
    assert typical_seconds([*accumulate([3.0] * 20 + [4.0] * 8, initial=0.0)]) == 3.0


@pytest.mark.parametrize(("each", "rows"), [(0.001, 160), (0.02, 101), (0.1, 21), (1.0, 8)])
def test_rows_are_tried_for_two_seconds_but_a_few_at_least(
    each: float, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(measure, "time", SimpleNamespace(perf_counter=lambda: clock[0]))

    class Voter:
        def votes(self, rows: Iterator[np.ndarray]) -> Iterator[int]:
            for row in rows:
                assert row.shape == GREY.shape
                clock[0] += each
                yield 0

    times = measure._answer_times(Voter(), Sampler(Gaussian("1/2"), 1), GREY.shape)
    assert len(times) - 1 == pytest.approx(rows, abs=1)  # sums of floats may pass the limit a row later
    assert typical_seconds(times) == pytest.approx(each)


# --- the formula ------------------------------------------------------------------------------------------------


def measured_below(hits: int, n: int, measured: Measurement, alpha: Fraction) -> float:
    """The bound of a certificate whose independence is measured."""
    looks = [Look(n, hits, n - hits)]
    return BOUNDS["clopper-pearson"].prove_alone(looks, measured.rows, measured.lost, Schedule.fixed(n, alpha))[0]


def failures(n: int, m: int, p: float, turned: int, bound: np.ndarray) -> float:
    """How often a bound on p (by hits and lost rows) is too large, exactly: each copy is a hit alone with probability
    p; in batches up to `turned` misses become hits, whichever the model likes; m rows are drawn with repetition.
    """
    total = 0.0
    for alone, weight in enumerate(binom.pmf(np.arange(n + 1), n, p)):
        lost = min(turned, n - alone)
        total += weight * binom.pmf(np.arange(m + 1), m, lost / n)[bound[alone + lost] > p].sum()
    return total


@pytest.mark.parametrize(("n", "m"), [(100, 100), (100, 400)])
def test_the_bound_holds_whatever_the_batches_do(n: int, m: int) -> None:
    """At α = 1/20, over models that turn any number of misses into hits. The difference of the two bounds does not."""
    alpha = Fraction(1, 20)
    lows = [clopper_pearson_below(hits, n, alpha / 2) for hits in range(n + 1)]
    ups = [clopper_pearson_above(lost, m, alpha / 2) for lost in range(m + 1)]
    ours = bounds(n, m, alpha, alpha / 4)
    assert ours[90][7] == measured_below(90, n, Measurement(m, 7), alpha)
    cases = [(p, turned) for p in (0.3, 0.5, 0.6) for turned in range(0, n, 5)]
    assert max(failures(n, m, p, turned, ours) for p, turned in cases) < alpha
    if m == 400:
        difference = np.array([[low - up for up in ups] for low in lows])
        assert failures(n, m, 0.6, 40, difference) > alpha


def bounds(n: int, m: int, alpha: Fraction, level: Fraction) -> np.ndarray:
    """The bound by hits and lost rows, with the lower bound at some level."""
    lows = [clopper_pearson_below(hits, n, level) for hits in range(n + 1)]
    ups = [floor(n * Fraction(clopper_pearson_above(lost, m, alpha / 2))) for lost in range(m + 1)]
    return np.array([[lows[max(0, hits - up)] for up in ups] for hits in range(n + 1)])


def failures_of_the_luckier(n: int, m: int, bound: np.ndarray) -> float:
    """How often a bound is above ½, exactly, if each copy alone is a hit for either of two classes with probability ½,
    and the model knows which: it selects the class, and turns as many misses into hits, as suits it best.
    """

    def best(alone: int) -> float:
        wrong = (bound[alone + lost] > 0.5 for lost in range(n - alone + 1))
        odds = (binom.pmf(np.arange(m + 1), m, lost / n) for lost in range(n - alone + 1))
        return float(max(odd[is_wrong].sum() for odd, is_wrong in zip(odds, wrong, strict=True)))

    chances = binom.pmf(np.arange(n + 1), n, 0.5)
    return float(sum(chance * max(best(hits), best(n - hits)) for hits, chance in enumerate(chances)))


def test_a_model_may_select_the_label_with_all_copies_in_view() -> None:
    """It has a memory, and may have seen them before: the bound pays for two classes, which is enough for all."""
    n, m, alpha = 21, 400, Fraction(1, 5)
    assert bounds(n, m, alpha, alpha / 4)[20][3] == measured_below(20, n, Measurement(m, 3), alpha)
    assert failures_of_the_luckier(n, m, bounds(n, m, alpha, alpha / 4)) < alpha
    assert failures_of_the_luckier(n, m, bounds(n, m, alpha, alpha / 2)) > alpha


def test_the_price_of_a_measurement() -> None:
    """With m = 1000 and nothing lost p falls by 0.0076 and a little."""
    alpha, n = Fraction(1, 1000), 100_000
    for hits in (60_000, 80_000, 99_000):
        plain, less = clopper_pearson_below(hits, n, alpha), measured_below(hits, n, Measurement(1000, 0), alpha)
        assert 0.0076 < plain - less < 0.0090


def test_all_lost_leaves_nothing() -> None:
    assert measured_below(1000, 1000, Measurement(50, 50), Fraction(1, 1000)) == 0.0


# --- models ------------------------------------------------------------------------------------------------------


def test_an_honest_model_loses_little(honest: ss.Certificate) -> None:
    plain = ss.Smoother(classifiers.brightness, "1/2").certify(BRIGHT, n=2000, seed="measured")
    assert honest.measured == Measurement(M, 0)
    assert honest.independence == f"measured m={M}"
    assert honest.label == plain.label == 1
    assert 0.06 < plain.p_lower - honest.p_lower < 0.12  # CP_upper(0, 100, 0.0005) = 0.073, and what α/4 costs


def test_a_model_that_evades_the_check_is_found_out() -> None:
    """In a batch of 1000 all rows are hits, except with probability 4e-7; alone 0.56 of them. So 44 of 100 are lost
    in the mean, and 27 or fewer, which would leave a label, with probability 3e-4.
    """
    passed = ss.Smoother(classifiers.Evader(100_000), "1/2", batch_size=1000).certify(GREY, n=2000)
    assert passed.independence == "checked"
    assumed = ss.Smoother(classifiers.Evader(0), "1/2", independence="assumed", batch_size=1000)
    assert assumed.certify(GREY, n0=1000, n=2000).radius > 1  # in a batch of 100, selection would err once in 15 times
    found = certify(classifiers.Evader(0), GREY, batch_size=1000)
    assert found.measured is not None
    assert found.measured.lost > 27
    assert found.abstained


def test_a_lost_row_counts_as_often_as_it_was_drawn() -> None:
    """60 rows of 20 copies are drawn, so some are drawn again and again; each vote of each of them is lost."""
    found = certify(classifiers.only_in_company, n=20, again=60, batch_size=10)
    assert found.measured == Measurement(60, 60)


def test_a_memory_is_found_out_because_every_row_has_a_process_of_its_own() -> None:
    """A running mean is the same at batch size 1: in one process for all rows it would agree with itself.

    Alone 0.64 of the rows are hits. The seeds are given; other ones would fail with probability 0.02.
    """
    x = np.full((1, 8, 8), 133, np.uint8)
    smooth = ss.Smoother(classifiers.RunningMean(), "1/2", independence="assumed")
    assert smooth.certify(x, n=2000, seed="measured").radius > 0.6
    assert certify(classifiers.RunningMean(), x).radius < 0.1


def test_other_rows_are_nowhere_in_the_process_of_a_row() -> None:
    """Alone 0.78 of the rows are hits: 22 of 100 are lost in the mean, and 5 or fewer with probability 4e-6. With 30
    others in sight all rows would be hits.
    """
    found = certify(classifiers.Peeping(), np.full((1, 8, 8), 140, np.uint8), batch_size=1000)
    assert found.measured is not None
    assert found.measured.lost > 5


def test_a_function_of_the_position_is_certified_for_what_it_says_alone() -> None:
    """In batches class 0, alone always class 1: every hit is lost."""
    found = certify(classifiers.first_row, GREY)
    assert found.measured is not None
    assert found.measured.lost > 90
    assert found.p_lower == 0.0


@pytest.mark.slow("starts processes that vote on rows alone")
def test_torch_modules_are_measured_as_they_are() -> None:
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2))
    with torch.no_grad():
        module[1].weight[:] = torch.stack([-torch.ones(64), torch.ones(64)]) / 64
        module[1].bias[:] = torch.tensor([0.5, -0.5])
    found = certify(module, again=20)
    assert found.measured == Measurement(20, 0)
    assert "runs=module" in found.promise.values["flags"]


def test_a_function_that_starts_threads_votes_alone() -> None:
    """A forked process has none of them, and must not wait for them."""
    assert certify(classifiers.threaded_brightness, n=100, again=10).measured == Measurement(10, 0)


def test_a_graph_with_a_fixed_batch_is_filled_with_copies_of_the_row(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Flatten", ["image"], ["flat"]),
        helper.make_node("ReduceMean", ["flat"], ["mean"], axes=[1], keepdims=1),
        helper.make_node("Sub", ["mean", "half"], ["up"]),
        helper.make_node("Neg", ["up"], ["down"]),
        helper.make_node("Concat", ["down", "up"], ["scores"], axis=1),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [50, 1, 8, 8])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, [50, 2])
    half = helper.make_tensor("half", TensorProto.FLOAT, [1], [0.5])
    graph = helper.make_graph(nodes, "g", [image], [scores], [half])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "m.onnx")
    assert certify(tmp_path / "m.onnx", again=20).measured == Measurement(20, 0)


def test_a_factory_makes_what_cannot_be_pickled() -> None:
    assert certify("classifiers:make_brightness", again=10).measured == Measurement(10, 0)


# --- the run -------------------------------------------------------------------------------------------------------


def test_which_rows_follows_from_promise_seed_and_nonce(honest: ss.Certificate) -> None:
    hidden = Secret(bytes.fromhex(honest.seed))
    rows = hidden.rows(honest.promise, 0, 1000, 2000)
    assert rows[:M] == hidden.rows(honest.promise, 0, M, 2000)
    assert 0 <= min(rows) < max(rows) < 2000
    assert abs(np.mean(rows) - 1000) < 110  # six standard deviations
    assert rows != hidden.rows(honest.promise, 1, 1000, 2000)
    assert rows != replace(hidden, nonce=b"n" * 32).rows(honest.promise, 0, 1000, 2000)


def test_rows_of_the_documentation() -> None:
    text = (Path(__file__).parents[2] / "docs" / "noise.md").read_text(encoding="utf-8")
    promise = Promise.of_text(text.split("```promise-text\n")[1].split("```")[0])
    rows = Secret(bytes(range(32)), bytes(range(32, 64))).rows(promise, 5, 4, 10_000)
    assert f"the first four are\n{', '.join(map(str, rows))}." in text


def test_the_same_seed_gives_the_same_measurement() -> None:
    images = Inputs((3, 4), (GREY.astype(np.int16), BRIGHT.astype(np.int16)), (None, None))
    smooth = ss.Smoother(classifiers.Evader(0), "1/2", independence="measured", again=30)
    for noise in ("fresh", "shared"):
        chosen = settings(n=500, noise=noise)
        one, two = ([*issue(smooth.smoothing, images, chosen, secret("s"))] for _ in range(2))
        assert [c.measured for c in one] == [c.measured for c in two]
        assert [c.index for c in one] == [3, 4]


@pytest.mark.parametrize(
    ("choices", "asked", "text"),
    [
        ({"again": 0}, {}, "again must be an integer between 1"),
        ({"again": 10, "independence": "auto"}, {}, "goes with measured independence"),
        ({}, {"bound": "hoeffding"}, "goes with the bound clopper-pearson, not with hoeffding"),
        ({}, {"bound": "runner-up"}, "goes with the bound clopper-pearson, not with runner-up"),
    ],
)
def test_what_does_not_go_together(choices: dict[str, object], asked: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        ss.Smoother(classifiers.brightness, "1/2", **{"independence": "measured", **choices}).certify(
            GREY, n=100, **asked
        )


def test_batchwise_noise_is_refused() -> None:
    smooth = ss.Smoother(classifiers.brightness, "1/2", independence="measured").smoothing
    images = Inputs((0,), (GREY.astype(np.int16),), (None,))
    with pytest.raises(ValueError, match="not with batchwise"):
        plan_run(LocalPool(smooth), images, settings(n=100, noise="batchwise"), secret("s"))


@pytest.mark.parametrize(
    ("scores", "text"),
    [
        (lambda batch: classifiers.brightness(batch), "cannot be made again in a fresh process"),
        (
            classifiers.NotAlone(),
            "cannot vote on one row alone, in a fresh process: RuntimeError: one row is not enough",
        ),
    ],
)
def test_models_that_cannot_be_measured(scores: object, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        certify(scores, n=100)


# --- records -------------------------------------------------------------------------------------------------------


def test_issuer_and_auditor_agree(honest: ss.Certificate) -> None:
    assert ss.Certificate.from_json(honest.to_json()) == honest
    assert audit.check_record(json.loads(honest.to_json())) == audit.ClaimReport((), True)


@pytest.mark.parametrize(("hits", "n", "m", "lost"), [(9_000, 10_000, 1000, 3), (700, 1000, 100, 0), (90, 100, 7, 7)])
def test_the_auditors_bound_is_the_issuers(hits: int, n: int, m: int, lost: int) -> None:
    promised = audit.AuditTerms(100, n, Fraction(1, 1000), audit.Gaussian(Fraction(1, 4)), "clopper-pearson", m)
    found = audit.verdict(audit.VoteCounts((0, 100)), audit.VoteCounts((n - hits, hits)), promised, lost)
    issued = measured_below(hits, n, Measurement(m, lost), Fraction(1, 1000))
    assert found.p_lower == pytest.approx(issued, rel=1e-15)
    assert audit.check_claim(found, promised).accepted


def changed(record: ss.Certificate, rows: object = M, lost: object = 0, word: str | None = None) -> str:
    data = json.loads(record.to_json())
    data["measured"] = {"rows": rows, "lost": lost}
    if word is not None:
        promise = replace(record.promise, values={**record.promise.values, "independence": word})
        data |= {"promise": dict(promise.values), "independence": word, "commitment": promise.commitment}
    return json.dumps({**data, "checksum": checksum(data)})


@pytest.mark.parametrize(
    "how",
    [
        {"rows": M + 1},
        {"rows": M - 1},
        {"lost": 1},
        {"lost": -1},
        {"lost": M + 1},
        {"lost": False},
        {"lost": 0.0},
        {"rows": M - 1, "word": f"measured m={M - 1}"},
        {"word": "checked"},
        {"word": "measured"},
        {"word": f"measured m=0{M}"},
    ],
)
def test_a_changed_measurement_is_noticed(honest: ss.Certificate, how: dict[str, object]) -> None:
    text = changed(honest, **how)  # type: ignore[arg-type]
    with pytest.raises(ValueError):  # noqa: PT011 (whatever it says, it is refused)
        ss.Certificate.from_json(text)
    assert not audit.check_record(json.loads(text)).accepted


def test_a_measurement_cannot_be_left_out_or_added(honest: ss.Certificate) -> None:
    data = json.loads(honest.to_json())
    del data["measured"]
    assert not audit.check_record(data).accepted
    with pytest.raises(ValueError, match="KeyError\\('measured'\\)"):
        ss.Certificate.from_json(json.dumps({**data, "checksum": checksum(data)}))
    plain = json.loads(ss.Smoother(classifiers.brightness, "1/2").certify(BRIGHT, n=200).to_json())
    plain["measured"] = {"rows": 10, "lost": 0}
    assert not audit.check_record(plain).accepted
    with pytest.raises(ValueError, match="a measurement of independence that was not promised"):
        ss.Certificate.from_json(json.dumps({**plain, "checksum": checksum(plain)}))

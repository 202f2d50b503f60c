"""What a user is told, before the first vote, of a model without a proof."""

import warnings
from itertools import product

import numpy as np
import pytest
import torch

import soundsmooth as ss
from soundsmooth.certification.settings import settings
from soundsmooth.core.independence import CHECKED, PROVED, DemandName, measured
from soundsmooth.independence.notice import INSPECT, MissingProof, describe_unproved, expected_different, unproved
from soundsmooth.independence.proof.advice import ADVICE
from soundsmooth.models import row_voter
from soundsmooth.models.load import model_of


def test_it_says_why_how_long_what_it_costs_and_the_way_out() -> None:
    why = MissingProof("aten.grid_sampler.default 'grid': there is no rule for this operator")
    assert describe_unproved(why, measured(), settings(n=100_000), 0.0031) == (
        "independence is measured, not proved (aten.grid_sampler.default 'grid': there is no rule for this "
        "operator): 1000 rows of each image are voted again, each alone, about 3.1 s an image; it lowers p by about "
        "0.0076. For a proof: another operator in its place may have a rule; "
        "soundsmooth inspect tells more (docs/independence.md)"
    )


def test_no_more_rows_are_voted_than_there_are() -> None:
    assert "about 20 s an image" in describe_unproved(None, measured(1000), settings(n=200), 0.1)


@pytest.mark.parametrize(("drawn", "copies"), [(1, 1), (5, 1), (1, 7), (3, 2), (4, 3), (5, 4)])
def test_a_copy_that_is_drawn_twice_is_counted_once(drawn: int, copies: int) -> None:
    draws = [len(set(each)) for each in product(range(copies), repeat=drawn)]
    assert expected_different(drawn, copies) == pytest.approx(sum(draws) / len(draws))


def test_nearly_all_draws_are_different_where_there_are_many_copies() -> None:
    assert 995 < expected_different(1000, 100_000) < 996
    assert 786 < expected_different(1000, 2000) < 788


def test_the_price_depends_on_alpha_and_is_rounded_up() -> None:
    """CP_upper(0, 100, α/2) is 1 − (α/2)^(1/100): 0.07318… and 0.03622…"""
    assert "it lowers p by about 0.0732" in describe_unproved(None, measured(100), settings(n=200, alpha="0.001"), None)
    assert "it lowers p by about 0.0363" in describe_unproved(None, measured(100), settings(n=200, alpha="0.05"), None)


def test_a_measurement_that_was_asked_for_needs_no_excuse() -> None:
    said = describe_unproved(None, measured(50), settings(n=200), None)
    assert "proved" not in said
    assert "an image" not in said.replace("each image", "")


def test_what_is_only_checked_says_why_it_is_not_measured() -> None:
    said = describe_unproved(MissingProof("its reason", "nobody can"), CHECKED, settings(n=200), None)
    why = "not proved (its reason) and not measured (nobody can)"
    assert said == f"independence is only checked, {why}. For a proof: {INSPECT}"


@pytest.mark.parametrize("known", [PROVED, CHECKED])
def test_where_no_proof_was_looked_for_there_is_nothing_to_say(known: object) -> None:
    assert describe_unproved(None, known, settings(n=200), None) is None


class OneStep(torch.nn.Module):
    """A step that is not proved, of a few kinds."""

    def __init__(self, step: str) -> None:
        super().__init__()
        self.step = step

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = x.flatten(1)
        if self.step == "empty":
            flat = flat + torch.empty_like(flat).fill_(0)
        if self.step == "softmax":
            flat = flat.softmax(0)
        if self.step == "reshape":
            flat = x.reshape(4, -1).reshape(-1, 16)
        if self.step == "mean":
            flat = flat - flat.mean()
        if self.step == "draw":
            flat = torch.nn.functional.dropout(flat)
        if self.step == "branch" and bool(x.sum() > 0):
            flat = flat + 1
        return flat[:, :2]


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("empty", "no rule for this operator"),
        ("softmax", "batch axis"),
        ("reshape", "cuts rows up"),
        ("branch", "data-dependent"),
        ("mean", "aten.mean.default"),
        ("draw", "dropout.default"),
    ],
)
def test_reasons_of_the_inspector_have_an_advice(step: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soundsmooth.models.torch_module.why_not_alone", lambda *_: "no need")
    model = model_of(OneStep(step).eval())
    model.prepare((1, 4, 4), 10)
    found = unproved(model)
    assert words in found.reason
    assert ADVICE[words] in describe_unproved(found, CHECKED, settings(n=200), None)


def test_advice_about_branches_is_not_given_where_there_is_none() -> None:
    reason = "torch.export cannot turn the module into a graph: State dict entry is not an instance of Parameter."
    assert "torch.where" not in describe_unproved(
        MissingProof(reason, "it is a script"), CHECKED, settings(n=200), None
    )


@pytest.mark.parametrize("independence", ["auto", "measured", "checked"])
def test_a_wrong_shape_after_a_right_one_is_said_first_too(
    independence: DemandName, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2))
    model = ss.Smoother(module, "1/2", independence=independence).smoothing.model
    monkeypatch.setattr("soundsmooth.models.torch_module.why_not_alone", lambda *_: pytest.fail("a process is started"))
    model.prepare((1, 8, 8), 10)
    with pytest.raises(ValueError, match="failed on a batch of shape"):
        model.prepare((1, 4, 4), 10)


def test_what_is_said_is_about_inputs_of_this_shape() -> None:
    """A shape that the module cannot take, tried before, leaves no word behind."""
    smooth = ss.Smoother(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2)), "1/2")
    certified = [smooth.certify(np.zeros((1, 8, 8), np.uint8), n=10)]
    with pytest.raises(ValueError, match="failed on a batch of shape"):
        smooth.certify(np.zeros((1, 4, 4), np.uint8), n=10)
    with warnings.catch_warnings(action="error"):
        certified.append(smooth.certify(np.zeros((1, 8, 8), np.uint8), n=10))
    assert [each.independence for each in certified] == ["proved", "proved"]


class Means(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([x.mean((1, 2, 3, 4)), x.mean((1, 2, 3, 4))], 1)


@pytest.mark.parametrize("independence", ["auto", "measured", "checked", "assumed"])
@pytest.mark.parametrize("module", [torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2)), Means()], ids=type)
def test_a_wrong_shape_is_said_first_and_alone(
    module: torch.nn.Module, independence: DemandName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a fresh process is started, which takes seconds."""

    def start(*_: object) -> None:
        raise AssertionError("a process is started")

    monkeypatch.setattr(row_voter.RowVoter, "__init__", start)
    with warnings.catch_warnings(action="error"), pytest.raises(ValueError, match="failed on a batch of shape"):
        ss.Smoother(module, "1/2", independence=independence).certify(np.zeros((1, 4, 4), np.uint8), n=10)

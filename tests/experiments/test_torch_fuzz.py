"""The fuzzer of torch modules: it can see what it looks for, and a small part of it runs here."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from scripts import script

fuzz = script("independence/torch_fuzz.py")
mutants = script("independence/torch_mutants.py")

import torch_claims  # noqa: E402 (the script has put its folder on the path)
import torch_equal  # noqa: E402
import torch_faults  # noqa: E402
import torch_generate  # noqa: E402
import torch_oracle  # noqa: E402
import torch_subject  # noqa: E402
import torch_table  # noqa: E402
from torch_program import Program, Ref, Step, built  # noqa: E402

X = Ref(0)
MIXED = {
    "softmax": [Step("aten.softmax.int", (X, 0))],
    "cumsum": [Step("aten.cumsum.default", (X, -2))],
    "dropout": [Step("aten.dropout.default", (X, 0.5, True))],
    "flipped": [Step("aten.flip.default", (X, [0]))],
    "input written": [Step("aten.add_.Scalar", (X, 1))],
}


@pytest.mark.parametrize("name", MIXED)
def test_the_oracle_sees_rows_that_mix(name: str) -> None:
    graph = built(Program(MIXED[name], [], 1), (4,), 4, {})
    found = torch_oracle.violation(graph, (4,), 4, 0)
    assert found is not None
    assert found.certain


def test_the_oracle_is_content_with_rows_that_do_not() -> None:
    graph = built(
        Program([Step("aten.softmax.int", (X, 1)), Step("aten.add_.Scalar", (Ref(1), 1))], [], 2), (4,), 4, {}
    )
    assert torch_oracle.violation(graph, (4,), 4, 0) is None
    assert torch_claims.false_claim(graph, (4,), 4, 0) is None


@pytest.mark.parametrize(
    ("change", "text"),
    [({"axis": 1}, "rows"), ({"axis": None}, "constant"), ({"shape": (4, 5)}, "shape"), ({"outer": 2}, "rows")],
)
def test_a_false_claim_about_a_value_on_the_way_is_seen(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, object], text: str
) -> None:
    graph = built(Program([Step("aten.relu.default", (X,)), Step("aten.neg.default", (Ref(1),))], [], 2), (4,), 4, {})
    claims = torch_subject.claims(graph, torch.ones(4, 4))
    node = next(node for node in claims.values if node.name.startswith("relu"))
    claims.values[node] = replace(claims.values[node], **change)
    monkeypatch.setattr(torch_subject, "claims", lambda graph, example: claims)
    found = torch_claims.false_claim(graph, (4,), 4, 0)
    assert found is not None
    assert found[1] is node
    assert text in found[0].text


def test_reading_what_was_overwritten_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [
        Step("aten.mul.Scalar", (X, 2)),
        Step("aten.add_.Scalar", (Ref(1), 1)),
        Step("aten.neg.default", (Ref(1),)),
    ]
    graph = built(Program(steps, [], 3), (4,), 4, {})
    value = torch_subject.Value((4, 4), 0)
    claims = torch_subject.Claims({node: value for node in graph.graph.nodes if node.op != "output"}, {}, set(), [])
    monkeypatch.setattr(torch_subject, "claims", lambda graph, example: claims)
    found = torch_claims.false_claim(graph, (4,), 4, 0)
    assert found is not None
    assert "overwritten" in found[0].text


def test_every_operator_with_a_rule_is_drawn() -> None:
    assert set(torch_subject.operators()) <= set(torch_table.TABLE)


def test_a_module_follows_from_seed_and_number() -> None:
    assert str(torch_generate.generated(3, 5)) == str(torch_generate.generated(3, 5))
    assert str(torch_generate.generated(3, 5)) != str(torch_generate.generated(3, 6))


FAULTY = {
    "it draws at random": [Step("aten.dropout.default", (X, 0.0, True))],
    "it normalises by the batch": [
        Step("aten.batch_norm.default", (X, None, None, None, None, True, 0.1, 1e-5, False))
    ],
    "torch.complex64": [Step("aten.to.dtype", (X, torch.complex64))],
    "it writes into the input": [Step("aten.add_.Scalar", (X, 0))],
    "no operator of torch": [Step("custom", (X,))],
    "it casts floats to integers": [Step("aten.to.dtype", (X, torch.int64))],
    "it has no entries": [
        Step("aten.slice.Tensor", (X, 1, 1, 1)),
        Step("aten.sum.dim_IntList", (Ref(1), [1], True)),
    ],
    "it writes where rows lie on each other": [
        Step("aten.mul.Scalar", (X, 1)),
        Step("aten.slice.Tensor", (Ref(1), 1, 0, 1)),
        Step("aten.expand.default", (Ref(2), [4, 4])),
        Step("aten.gt.Scalar", (X, 0)),
        Step("aten.masked_fill_.Scalar", (Ref(3), Ref(4), 5)),
    ],
}


@pytest.mark.parametrize("text", FAULTY)
def test_the_second_judge_sees_what_is_never_proved(text: str) -> None:
    steps = FAULTY[text]
    graph = built(Program(steps, [], len(steps)), (4,), 4, fuzz.FUNCTIONS)
    assert text in str(torch_faults.fault(graph, torch.ones(4, 4)))
    assert not torch_subject.judge(graph, torch.ones(4, 4)).proved


def test_the_second_judge_is_content_with_shapes_and_types_that_are_lent() -> None:
    """Integers that nobody reads but for their type, and comparisons, round nothing."""
    steps = [
        Step("aten.to.dtype", (X, torch.int64)),
        Step("aten.gt.Scalar", (X, 0)),
        Step("aten.type_as.default", (Ref(2), Ref(1))),
    ]
    graph = built(Program(steps, [], 3), (4,), 4, {})
    assert torch_faults.fault(graph, torch.ones(4, 4)) is None
    assert torch_subject.judge(graph, torch.ones(4, 4)).proved


@pytest.mark.slow("exports and proves many random modules")
def test_what_is_proved_holds_in_a_small_run() -> None:
    result = fuzz.run(17, 60, 7)
    assert result.proved > 150
    assert result.claims > 250
    assert result.exported > 2
    assert not any(result.findings().values())


def test_checks_that_change_nothing_are_among_the_mutants() -> None:
    assert set(torch_equal.EQUAL) <= {one.name for one in [*mutants.sites(), *mutants.tables()]}


def test_an_inspector_without_a_check_is_found_out(tmp_path: Path) -> None:
    """In a process of its own: the package is replaced there."""
    options = ["--only", "flow.along", "--survey", "0", "--processes", "1", "--out", str(tmp_path)]
    subprocess.run([sys.executable, mutants.__file__, *options], check=True, capture_output=True)
    assert json.loads((tmp_path / "torch_mutants.jsonl").read_text())["end"] == "found"

"""The fuzzer of torch modules: it can see what it looks for, and a small part of it runs here."""

from dataclasses import replace

import pytest
import torch

from scripts import script

fuzz = script("independence/torch_fuzz.py")
mutants = script("independence/torch_mutants.py")

import torch_claims  # noqa: E402 (the script has put its folder on the path)
import torch_equal  # noqa: E402
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


def test_what_is_proved_holds_in_a_small_run() -> None:
    result = fuzz.run(17, 25, 7)
    assert result.proved > 60
    assert result.claims > 100
    assert not [*result.false, *result.contradictions, *result.crashes]


def test_checks_that_change_nothing_are_among_the_mutants() -> None:
    assert set(torch_equal.EQUAL) <= {mutants._plain(one) for one in [*mutants.sites(), *mutants.tables()]}

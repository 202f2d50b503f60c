"""The fuzzer of torch modules: it can see what it looks for, and a small part of it runs here."""

import pytest

from scripts import script

fuzz = script("independence/torch_fuzz.py")

import torch_generate  # noqa: E402 (the script has put its folder on the path)
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
    found = torch_oracle.violation(graph, (4,), 4, False, 0)
    assert found is not None
    assert found.certain


def test_the_oracle_is_content_with_rows_that_do_not() -> None:
    graph = built(
        Program([Step("aten.softmax.int", (X, 1)), Step("aten.add_.Scalar", (Ref(1), 1))], [], 2), (4,), 4, {}
    )
    assert torch_oracle.violation(graph, (4,), 4, True, 0) is None


def test_every_operator_with_a_rule_is_drawn() -> None:
    assert set(torch_subject.operators()) <= set(torch_table.TABLE)


def test_a_module_follows_from_seed_and_number() -> None:
    assert str(torch_generate.generated(3, 5)) == str(torch_generate.generated(3, 5))
    assert str(torch_generate.generated(3, 5)) != str(torch_generate.generated(3, 6))


def test_what_is_proved_holds_in_a_small_run() -> None:
    result = fuzz.run(1, 15, 7)
    assert result.proved > 50
    assert not [*result.false, *result.contradictions, *result.crashes]

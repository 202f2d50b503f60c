"""A slice of the fuzzer of ONNX graphs, with a fixed seed: nothing false is proved, and enough is.

The whole run, and how many checks of the inspector it would miss, is recorded in docs/independence.md.
"""

from pathlib import Path

import dialect
import fuzz
import pytest

from soundsmooth.models.independence import onnx_graph

GRAPHS = 500


@pytest.fixture(scope="module")
def found() -> fuzz.Result:
    return fuzz.run(0, GRAPHS, seed=7)


def test_nothing_false_is_proved(found: fuzz.Result) -> None:
    assert [(one.number, one.false_proof) for one in found.false_proofs] == []
    assert [(one.number, one.contradiction) for one in found.contradictions] == []
    assert [(one.number, one.crash) for one in found.crashes] == []


def test_nothing_is_proved_outside_the_dialect(found: fuzz.Result) -> None:
    assert [(one.number, one.outside) for one in found.outside] == []
    assert found.planted > 0.3 * GRAPHS


def test_faults_are_seen_by_nobody_but_the_dialect(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no node is held to the dialect, most of the faults go through: they are there, and they matter."""
    monkeypatch.setattr(onnx_graph, "check", lambda *_: None)
    few = fuzz.run(0, 60, seed=7)
    assert len(few.outside) > 0.3 * few.proved


def test_the_slice_is_worth_running(found: fuzz.Result) -> None:
    """A third is proved, of most operators; and rows are mixed in every tenth graph."""
    assert found.valid > 0.8 * GRAPHS
    assert found.proved > 0.3 * GRAPHS
    assert found.mixing > 0.1 * GRAPHS
    assert len(found.covered) > 60
    assert found.covered["com.microsoft.nchwc.Conv"] > 0.02 * GRAPHS


def test_the_dialect_in_the_docs_is_that_of_the_code() -> None:
    page = Path(__file__).parents[2] / "docs" / "independence.md"
    assert dialect.put(page.read_text()) == page.read_text(), "python experiments/independence/dialect.py docs/…"

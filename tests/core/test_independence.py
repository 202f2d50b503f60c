"""How independence is known: a value with one text, read strictly."""

import pickle

import pytest

from soundsmooth.core.independence import (
    ASSUMED,
    CHECKED,
    MOST_AGAIN,
    PROVED,
    Independence,
    check_independence,
    demanded,
    measured,
    unproved,
)

ALL = [PROVED, CHECKED, ASSUMED, measured(), measured(1), measured(MOST_AGAIN)]
WRONG = [
    "", "auto", "Proved", " proved", "proved ", "proved m=3", "hoped", "measured", "measured m=", "measured m=0",
    "measured m=060", "measured m=1000001", "measured m=9999999", "measured m=٣", "measured  m=3", "measured m=3\n",
]  # fmt: skip


@pytest.mark.parametrize("one", ALL, ids=str)
def test_the_text_says_all(one: Independence) -> None:
    assert Independence.of_text(one.text) == one
    assert str(one) == f"{one}" == one.text
    assert pickle.loads(pickle.dumps(one)) == one


def test_the_texts_are_those_of_a_promise() -> None:
    assert [one.text for one in ALL] == [
        "proved", "checked", "assumed", "measured m=1000", "measured m=1", "measured m=1000000"
    ]  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_no_other_text_is_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"not one that this version makes|1 to 1000000 rows"):
        Independence.of_text(text)


@pytest.mark.parametrize("rows", [None, 0, -1, MOST_AGAIN + 1, True, 5.0])
def test_what_is_measured_has_a_number_of_rows(rows: object) -> None:
    with pytest.raises(ValueError, match="measured independence votes 1 to 1000000 rows again"):
        Independence("measured", rows)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["proved", "checked", "assumed"])
def test_what_is_not_measured_has_none(kind: str) -> None:
    with pytest.raises(ValueError, match="no rows that are voted again"):
        Independence(kind, 5)  # type: ignore[arg-type]


def test_another_kind_does_not_exist() -> None:
    with pytest.raises(ValueError, match="independence is one of proved, measured, checked, assumed, not 'hoped'"):
        Independence("hoped")  # type: ignore[arg-type]


def test_each_is_one_kind_only() -> None:
    assert [(one.proved, one.measured, one.checked) for one in ALL[:4]] == [
        (True, False, False), (False, False, True), (False, False, False), (False, True, False)
    ]  # fmt: skip


def test_words_become_demands() -> None:
    assert demanded("auto") == "auto"
    assert [demanded(word) for word in ("proved", "checked", "assumed")] == [PROVED, CHECKED, ASSUMED]
    assert demanded("measured") == measured(1000)
    assert demanded("measured", 7) == measured(7)
    assert demanded(measured(7)) == measured(7)


@pytest.mark.parametrize("word", ["", "hoped", "Auto", "measured m=5"])
def test_other_words_are_rejected(word: str) -> None:
    with pytest.raises(ValueError, match='independence must be "auto", "proved", "measured", "checked" or "assumed"'):
        demanded(word)


@pytest.mark.parametrize("again", [0, -1, MOST_AGAIN + 1, True, 2.0, "3"])
def test_the_number_of_rows_is_an_integer_in_range(again: object) -> None:
    with pytest.raises(ValueError, match="again must be an integer"):
        demanded("measured", again)  # type: ignore[arg-type]


@pytest.mark.parametrize("word", ["auto", "proved", "checked", "assumed", measured(5)])
def test_rows_go_with_the_word_measured(word: str) -> None:
    with pytest.raises(ValueError, match="goes with measured independence"):
        demanded(word, 5)


def test_only_a_proof_cannot_be_had_of_everything() -> None:
    with pytest.raises(ValueError, match="cannot be proved for a function"):
        check_independence(PROVED, "a function")
    for demand in ("auto", CHECKED, ASSUMED, measured()):
        check_independence(demand, "a function")  # type: ignore[arg-type]


def test_without_a_proof_the_demand_counts_and_auto_is_left_to_the_model() -> None:
    assert unproved("auto") == CHECKED
    assert unproved("auto", measured(5)) == measured(5)
    assert [unproved(one, measured(5)) for one in (CHECKED, ASSUMED, measured(9))] == [CHECKED, ASSUMED, measured(9)]

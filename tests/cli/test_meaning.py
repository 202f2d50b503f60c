"""What an audit means, in plain words, and which replay would suffice."""

from fractions import Fraction

import pytest

from soundsmooth.audit import Confirmed
from soundsmooth.cli.meaning import MORE, NOT_SHOWN, SHOWN, meaning
from soundsmooth.verification import Check, Replay, Statement, Verification
from soundsmooth.verification.statements import Claimed

BETA = Fraction(1, 1000)


def replayed(count: int, drawn: int, escaped: int) -> Replay:
    """Of certificates with 20 blocks each."""
    proved = Confirmed(0.9, 0.5, BETA)
    claimed = [Claimed(i, i, 1, 1, 0.5, 0.9, 100) for i in range(count)]
    statements = tuple(Statement(each, 100, 0, 0, True, proved, proved, None, False) for each in claimed)
    return Replay(20 * count, drawn, BETA, escaped, 0, 0, 0, None, True, statements, (0.5,) * count)


def audited(count: int, replay: Replay | None = None, *checks: Check) -> dict[str, str]:
    result = Verification("run.db", True, replay=replay, checks=list(checks))
    result.tally.certified = result.tally.promised = count
    return dict(meaning(result))


def test_without_a_replay_nothing_is_said_of_the_votes() -> None:
    found = audited(1000)
    assert found[""] == "Nothing wrong was found, but no vote was repeated."
    assert "counts can be forged" in found[NOT_SHOWN]
    assert "The issuer may have chosen the key" in found[NOT_SHOWN]
    assert found[MORE].startswith("--replay 7% with --model and --data confirms at least 900 of 1000 certificates")


def test_zero_for_the_set_is_explained() -> None:
    found = audited(8, replayed(8, 8, 90))
    assert found[""] == "Nothing wrong was found."
    assert "0.000 in the table is what is confirmed. It does not say that certificates are false" in found[SHOWN]
    assert "The other 152 blocks were not voted again." in found[NOT_SHOWN]
    assert found[MORE].startswith("So few certificates (8) need --replay all:")


@pytest.mark.parametrize(("escaped", "advised"), [(134, True), (100, False)])
def test_a_larger_replay_is_advised_until_it_is_enough(escaped: int, advised: bool) -> None:
    found = audited(1000, replayed(1000, 1000, escaped))
    assert f"at most {escaped} of 1000 certificates rest on counts that are too high" in found[SHOWN]
    assert found[MORE].startswith("--replay 7% confirms at least 900 of 1000") == advised
    assert "Only --replay all verifies fully" in found[MORE]


def test_a_key_that_was_fixed_is_shown() -> None:
    found = audited(8, None, Check("nonce", True, "yours"))
    assert "The key was fixed by your nonce" in found[SHOWN]
    assert "may have chosen" not in found[NOT_SHOWN]


def test_after_all_blocks_no_larger_replay_is_advised() -> None:
    found = audited(8, replayed(8, 160, 0))
    assert found[""].startswith("FULL VERIFICATION")
    assert MORE not in found


def test_what_was_paid_for_rounding_is_not_shown_without_data() -> None:
    found = audited(8, None, Check("distance", None, "needs the data"))
    assert "If the counts are true, and what was paid for rounding was due, each" in found[SHOWN]
    assert "Whether radii pay for it needs the data as given" in found[NOT_SHOWN]
    found = audited(8, None, Check("distance", True, "all pay"))
    assert "If the counts are true each certificate's claim" in found[SHOWN]
    assert "rounded" not in found[NOT_SHOWN]

"""What an audit means, in plain words: what was shown, what was not, and what would show more."""

from collections.abc import Iterator
from fractions import Fraction

from ..certification.report import decimal_above
from ..models.protocol import CLOSED
from ..models.registry import digest_binds
from ..verification import Conclusion, Replay, Verification
from ..verification.draw import share_that_confirms

#: The share of the certificates that a larger replay is advised for.
USEFUL = Fraction(9, 10)
SHOWN, NOT_SHOWN, MORE = "shown", "not shown", "for more"


def meaning(result: Verification) -> list[tuple[str, str]]:
    """What the agency may conclude: a heading, or none, and a few sentences for each."""
    if result.refuted:
        return [("", "REJECTED: see what is marked wrong above. Do not rely on any certificate of this file.")]
    found = [("", _verdict(result)), (SHOWN, " ".join(_shown(result))), (NOT_SHOWN, " ".join(_not_shown(result)))]
    more = " ".join(_more(result))
    return [*found, (MORE, more)] if more else found


def _verdict(result: Verification) -> str:
    found = result.replay
    if found is None or result.conclusion is Conclusion.CONSISTENT:
        return "Nothing wrong was found, but no vote was repeated."
    count = len(found.statements)
    if result.conclusion is Conclusion.FULL:
        return f"FULL VERIFICATION: all {count} certificates with a label were voted again, whole, and confirmed."
    if result.conclusion is Conclusion.PARTLY:
        return "Nothing wrong was found."
    if not found.whole:
        return "NOT CONFIRMED: votes differ, which another machine explains, and a forgery too."
    return (
        f"NOT CONFIRMED: every certificate with a label was voted again, whole, and at least {found.differ} votes "
        f"differ, which another machine explains, and a forgery too; {found.smaller} of {count} have a smaller radius "
        "on this machine than was claimed."
    )


def _shown(result: Verification) -> Iterator[str]:
    found = result.replay
    if found is None:
        paid = ", and what was paid for rounding was due," if _is_open(result, "distance") else ""
        yield f"If the counts are true{paid} each certificate's claim holds at its alpha."
    elif not found.whole:
        yield f"{found.drawn} of {found.blocks} blocks were voted again. What counts for one certificate is (i)."
        yield _set_sentence(found)
    elif result.conclusion is Conclusion.UNCONFIRMED:
        yield "What counts is (i)."
    if result.key_bound:
        yield "The key was fixed by your nonce: after J nonces for one product the claim holds at J alpha."
    if "argument" in result.independence_by:
        yield (
            "Rows of a batch are independent by an argument about the graph, made again here; a witness run agrees "
            "with it, which is a test and no proof."
        )
    elif result.independence_by:
        is_graph = result.promise is not None and digest_binds(result.promise.values["model kind"])
        supposed = "" if is_graph else ", which supposes that the model's code does not work against it"
        yield f"The independence of rows stands by re-voting: drawn rows were voted again, each alone{supposed}."


def _set_sentence(found: Replay) -> str:
    count = len(found.statements)
    if found.escaped >= count:
        return (
            f"For the set this draw is too small to prove anything: up to {found.escaped} forged blocks could escape "
            f"it, and there are {count} certificates. So 0.000 in the table is what is confirmed. It does not say that "
            "certificates are false."
        )
    return (
        f"For the set: except with probability {decimal_above(found.beta)}, at most {found.escaped} of {count} "
        f"certificates rest on counts that are too high (by more than {found.excess} hits a block)."
    )


def _not_shown(result: Verification) -> Iterator[str]:
    found = result.replay
    if found is None:
        yield "That the model voted so: counts can be forged so that all this passes, and only a replay sees it."
    elif not found.whole:
        yield f"The other {found.blocks - found.drawn} blocks were not voted again."
    if not result.key_bound:
        without = "without --commitment and --nonce nothing is claimed against an issuer who tried many keys"
        yield f"The issuer may have chosen the key: {without}."
    if not result.independence_by:
        promised = "unknown" if result.promise is None else result.promise.values["independence"]
        yield f"The independence of rows is the issuer's word ({promised}): this audit did not examine it."
    if found is not None and result.promise is not None and not digest_binds(result.promise.values["model kind"]):
        if result.promise.flags.get("digest") == CLOSED:
            yield "The model is Python code, assumed honest: its digest covers what it holds, not what it may do."
        else:
            yield "The model is Python code: assumed honest, and not bound by its digest."
    if _is_open(result, "distance"):
        yield "Floats were rounded to the grid. Whether radii pay for it needs the data as given: --data."
    if _is_open(result, "unit"):
        yield "Radii are not in the unit of images with values in [0, 1]: see unit, above."


def _is_open(result: Verification, name: str) -> bool:
    """Whether a check of this name was made, and did not pass."""
    return any(check.name == name and not check.passed for check in result.checks)


def _more(result: Verification) -> Iterator[str]:
    """The smallest replay, in whole percents, that would confirm a useful share of the set; and the only full one."""
    found, count = result.replay, result.tally.certified
    if not result.run or not count or (found is not None and found.whole):
        return
    spare = int((1 - USEFUL) * count)
    if found is None or found.escaped > spare:
        share = share_that_confirms(spare, result.beta)
        files = "" if found is not None else " with --model and --data"
        if share is not None:
            stand = f"at least {count - spare} of {count} certificates"
            yield f"--replay {share}%{files} confirms {stand}, if nothing is wrong."
        else:
            yield f"So few certificates ({count}) need --replay all{files}: a part of them confirms little of the set."
    yield "Only --replay all verifies fully. An audit that is repeated until it pleases proves nothing."

"""Certificates for floats near the grid: what was paid is checked, by issuer and auditor, and forgeries are refused."""

import copy
import json
import math
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import pytest

import soundsmooth as ss
from classifiers import brightness_of_three
from soundsmooth.audit import check_record
from soundsmooth.certification.fields import checksum
from soundsmooth.certification.promise import Promise
from soundsmooth.core.decimals import raised, truncated

Record = dict[str, Any]
NEAR = np.full((2, 2), 250, np.float32) * np.float32(1 / 255) + np.float32(2.0**-23)


@cache
def issued(near: bool = True, sigma: str = "0.25") -> ss.Certificate:
    image = NEAR if near else np.full((2, 2), 250, np.uint8)
    return ss.Smoother(brightness_of_three, sigma).certify(image, n=400, n0=20, seed="fixed")


def record(near: bool = True, sigma: str = "0.25") -> Record:
    return copy.deepcopy(issued(near, sigma).to_dict())


def accepted(forged: Record) -> tuple[bool, bool]:
    """By the auditor, and by who reads the certificate back; all that follows from the forged thing is made anew."""
    with suppress(ValueError):  # then it is no promise
        forged["commitment"] = Promise(forged["promise"]).commitment
    forged["checksum"] = checksum(forged)
    try:
        ss.Certificate.from_json(json.dumps(forged))
    except ValueError:
        return check_record(forged).accepted, False
    return check_record(forged).accepted, True


def write(forged: Record, name: str, value: float) -> None:
    finite = math.isfinite(value)
    shown = (truncated if name == "radius" else raised)(value, 9) if finite else str(value)
    forged[name] = {"hex": value.hex(), "decimal": shown}


def test_an_honest_one_is_accepted_and_tight() -> None:
    found = issued()
    assert accepted(record()) == (True, True)
    assert check_record(record()).tight
    assert found.paid is not None
    assert found.radius > 0
    assert found.paid < 8.37e-7
    assert "; 0.000000837 paid for rounding to the grid, " in str(found)  # raised
    assert "paid" not in str(issued(near=False))
    assert {"paid", "given"}.isdisjoint({**record(near=False), **record(near=False)["promise"]})


def test_if_nothing_is_left_it_abstains() -> None:
    """With so little noise every copy votes alike, and the radius is below what is due. Bounds and price are kept."""
    found = issued(sigma="1e-7")
    assert found.abstained
    assert found.radius == 0
    assert found.p_lower > 0.9
    assert found.paid is not None
    assert not issued(near=False, sigma="1e-7").abstained
    assert accepted(record(sigma="1e-7")) == (True, True)
    assert check_record(record(sigma="1e-7")).tight


def _pays(value: float) -> Callable[[Record], None]:
    return lambda forged: write(forged, "paid", value)


def _promises(text: str) -> Callable[[Record], None]:
    return lambda forged: forged["promise"].update(given=text)


def _plain_promise(forged: Record) -> None:
    del forged["promise"]["given"]


def _pays_nothing(forged: Record) -> None:
    """Nothing is said of a price, and the radius is the whole one."""
    whole = forged.pop("paid")
    write(forged, "radius", float.fromhex(forged["radius"]["hex"]) + float.fromhex(whole["hex"]))


def _whole_radius(forged: Record) -> None:
    write(forged, "radius", float.fromhex(forged["radius"]["hex"]) + float.fromhex(forged["paid"]["hex"]))


def _label_without_radius(forged: Record) -> None:
    forged["label"] = 1


def _price_moved_to_the_radius(forged: Record) -> None:
    """Only as much is paid as predictions cost; the rest is in the radius. Less than that is impossible."""
    paid, radius = (float.fromhex(forged[name]["hex"]) for name in ("paid", "radius"))
    write(forged, "paid", paid / 4)
    write(forged, "radius", radius + paid / 2)


DIGEST = "ab" * 32
FORGERIES: dict[str, Callable[[Record], None]] = {
    "missing": lambda forged: forged.pop("paid"),
    "null": lambda forged: forged.update(paid=None),
    "missing, and the whole radius": _pays_nothing,
    "the whole radius": _whole_radius,
    "an impossible price": _price_moved_to_the_radius,
    **{f"pays {value}": _pays(value) for value in (-1e-6, -0.0, 0.0, 5e-324, 1e-310, 0.5, 1e300)},
    **{f"pays {value}": _pays(value) for value in (math.nan, math.inf, -math.inf)},
    "without a promise": _plain_promise,
    "a smaller tolerance": _promises(f"{DIGEST} tolerance=1/8388608"),
    "a larger tolerance": _promises(f"{DIGEST} tolerance=1/1024"),
    **{
        f"malformed: {text}": _promises(text)
        for text in (
            DIGEST, f"{DIGEST} tolerance=", f"{DIGEST} tolerance=2/8388608", f"{DIGEST} tolerance=1/4194304 more=1",
            f"{DIGEST}  tolerance=1/4194304", f"{DIGEST} Tolerance=1/4194304", "tolerance=1/4194304", "",
            f"{DIGEST.upper()} tolerance=1/4194304", f"{DIGEST[1:]} tolerance=1/4194304", f"{DIGEST} tolerance=1e-9",
            f"{DIGEST} tolerance=1/0", f"{DIGEST} tolerance=-1/4194304", f"{DIGEST} tolerance=0",
        )
    },
    "another grid": lambda forged: forged["promise"].update(grid="levels=256 q=51 offset=0"),
    "another size": lambda forged: forged["promise"].update({"input shape": "20 20"}),
    "an endless size": lambda forged: forged["promise"].update({"input shape": " ".join(["9" * 15] * 60)}),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_price_is_refused_by_both(name: str) -> None:
    forged = record()
    FORGERIES[name](forged)
    assert forged != record(), "nothing was forged"
    assert accepted(forged) == (False, False)


def test_a_price_without_a_promise_is_refused_by_both() -> None:
    forged = record(near=False)
    write(forged, "paid", 1e-6)
    assert accepted(forged) == (False, False)
    promised = record(near=False)
    promised["promise"]["given"] = f"{DIGEST} tolerance=1/4194304"
    assert accepted(promised) == (False, False)


def test_a_label_whose_radius_is_all_paid_is_refused_by_both() -> None:
    forged = record(sigma="1e-7")
    _label_without_radius(forged)
    assert accepted(forged) == (False, False)


def test_an_abstention_may_not_pay_too_much_either() -> None:
    forged = record(sigma="1e-7")
    write(forged, "paid", 1.0)
    assert accepted(forged) == (False, False)


def test_more_is_paid_than_is_due() -> None:
    """A smaller claim is sound: the auditor accepts it, and says that it is not tight."""
    forged = record()
    paid, radius = (float.fromhex(forged[name]["hex"]) for name in ("paid", "radius"))
    write(forged, "radius", radius - 1e-6)
    assert accepted(forged) == (True, True)
    assert not check_record(forged).tight
    assert paid < 1e-5

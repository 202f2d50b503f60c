"""A certificate's fields: the table says all of them, and the run's file has not changed by a word."""

import dataclasses
import hashlib
from functools import cache

import numpy as np
import pytest

import soundsmooth as ss
from soundsmooth.certification.certificate import FIELDS
from soundsmooth.certification.certify import Counts, Measurement
from soundsmooth.certification.fields import faults
from soundsmooth.runs.export import EXPORTED
from soundsmooth.runs.schema import VERSION, schema


@cache
def certificate() -> ss.Certificate:
    smooth = ss.Smoother(lambda batch: batch.reshape(len(batch), -1)[:, :2], "0.25")
    return smooth.certify(np.full((2, 2), 200, np.uint8), n=100, seed="fixed")


def test_the_table_has_every_field_of_the_record() -> None:
    stated = {field.name for field in FIELDS if field.derived is None}
    assert stated == {field.name for field in dataclasses.fields(ss.Certificate)}
    assert len({field.name for field in FIELDS}) == len(FIELDS)


def test_the_tables_of_a_run_are_the_same_word_for_word() -> None:
    """Stored runs are compared with this text: whatever changes it is another format."""
    assert VERSION == 5
    assert {version: hashlib.sha256(schema(version).encode()).hexdigest() for version in (2, 3, 4, 5)} == {
        2: "91d65b0b4d1e603fee1703a5c3b0f07986a12ea5cf7584d3c3cb20d3102dc6aa",
        3: "80fff09c461fa220e2475c847fd74499746d26d41aa3e67791ed61aa659371b8",
        4: "336f200f79d92699ae250eed35e00368395588a614005facf78d39de9c9d95af",
        5: "f81026d772a8ecbab9515d5e6e2710562ae389174a8901e6c2078988d5259593",
    }


def test_the_columns_of_exports() -> None:
    named = "index label predict radius p_lower p_upper correct status seconds"
    assert " ".join(each.export.name for each in EXPORTED if not each.omitted) == named
    assert [each.export.name for each in EXPORTED if each.omitted] == ["votes", "aborted"]


WRONG = {
    "index": -1,
    "label": True,
    "radius": 1,
    "p_lower": None,
    "p_upper": 1,
    "truth": 0.5,
    "selection": Counts((1, -1), 0),
    "estimation": Counts((1, True), 0),
    "measured": Measurement(1, -1),
    "paid": 1,
    "coin": "0",
    "promise": None,
    "seed": "00",
    "nonce": "00",
    "environment": {"a": 1},
    "seconds": float("nan"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_value_of_another_kind_is_a_fault(name: str) -> None:
    assert not faults(certificate(), FIELDS)
    (said,) = faults(dataclasses.replace(certificate(), **{name: WRONG[name]}), FIELDS)
    assert said.startswith(f"{name} must be ")

"""A certificate in one line, and as a card that shows what it says and obeys nothing of it."""

import re
from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser

import numpy as np
import pytest

import soundsmooth as ss
from classifiers import brightness_of_three
from soundsmooth.certification.card import card, short, unit_of
from soundsmooth.certification.promise import Promise
from soundsmooth.core.grid import Grid

IMAGE = np.full((2, 2), 40, np.uint8)


@pytest.fixture(scope="module")
def smooth() -> ss.Smoother:
    return ss.Smoother(brightness_of_three, "0.5", independence="assumed")


@pytest.fixture(scope="module")
def certificate(smooth: ss.Smoother) -> ss.Certificate:
    return smooth.certify(IMAGE, n=200)


def test_one_line(certificate: ss.Certificate) -> None:
    known = replace(certificate, index=3, label=7, radius=0.47139)
    assert repr(known) == "<Certificate image 3: class 7, ‖δ‖₂ < 0.4713, α = 0.001>"
    assert repr(replace(known, label=None)) == "<Certificate image 3: abstained, α = 0.001>"


def test_a_line_of_what_makes_no_sense(certificate: ss.Certificate) -> None:
    odd = Promise({**certificate.promise.values, "sigma": "loud", "alpha": "1e999999999"})
    assert (
        repr(replace(certificate, label=1, promise=odd)) == "<Certificate image 0: class 1, no radius, α = 1e999999999>"
    )
    assert "no radius" in repr(replace(certificate, label=1, radius=float("nan")))


def test_a_prediction_in_one_line(smooth: ss.Smoother) -> None:
    found = replace(smooth.predict(IMAGE, n=100), label=2)
    assert repr(found) == "<Prediction image 0: class 2, n = 100, α = 0.001>"
    assert "class 2" in found._repr_html_()


def test_norm_and_unit(certificate: ss.Certificate) -> None:
    assert (certificate.norm, certificate.unit) == ("‖δ‖₂", "the [0, 1] range")
    assert "in units of the [0, 1] range" in str(replace(certificate, label=1))
    assert unit_of(Grid(256, 1)) == "value 1 on the grid levels=256 q=1 offset=0"


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data + " "


def read(html: str) -> Tags:
    found = Tags()
    found.feed(html)
    return found


def test_the_card_shows_text_and_nothing_else(certificate: ss.Certificate) -> None:
    evil = "<script>alert(1)</script>"
    odd = Promise({**certificate.promise.values, "alpha": evil, "independence": f"'\"{evil}"})
    found = read(replace(certificate, label=1, promise=odd)._repr_html_())
    assert found.tags == {"div", "b", "table", "tr", "th", "td"}
    assert found.text.count(evil) == 2
    assert read(card(evil, [(evil, evil)])).tags == found.tags


def test_the_card_takes_the_colours_of_its_page(certificate: ss.Certificate) -> None:
    """A colour of its own for text or ground would not be legible on a dark page, or on a light one."""
    colours = set(re.findall(r"[^-](?:color|background)\b[^;\"]*", certificate._repr_html_()))
    assert {each.lstrip('";') for each in colours} == {"color:inherit", "background:none"}


def test_an_abstention_has_no_radius_whose_unit_could_be_told(certificate: ss.Certificate) -> None:
    assert "in units of" in read(replace(certificate, label=1)._repr_html_()).text
    assert "in units of" not in read(replace(certificate, label=None)._repr_html_()).text


def test_the_card_says_what_was_paid_for_rounding(certificate: ss.Certificate) -> None:
    assert "paid" not in read(certificate._repr_html_()).text
    assert "paid for rounding 0.000003809 " in read(replace(certificate, paid=3.8081e-6)._repr_html_()).text


def test_numbers_are_written_short_and_exactly() -> None:
    assert [short(text) for text in ("1/1000", "1/3", "1/4", "7", "x", "1/0")] == [
        "0.001",
        "1/3",
        "0.25",
        "7",
        "x",
        "1/0",
    ]
    assert Fraction(short("123456/1000000")) == Fraction(123456, 1000000)

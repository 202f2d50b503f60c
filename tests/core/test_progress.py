"""Progress where there is no terminal: a plain line every minute, and one at the end."""

from io import StringIO

from rich.console import Console

from soundsmooth.core.progress import Meter, rate_text


class Clock:
    """Time that passes only when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def plain(**more: object) -> tuple[Meter, Clock, StringIO]:
    clock, out = Clock(), StringIO()
    console = Console(file=out, width=40)
    return Meter("certifying", 1000, 10, console=console, clock=clock, **more), clock, out  # type: ignore[arg-type]


def test_a_line_comes_every_minute_and_one_at_the_end() -> None:
    meter, clock, out = plain(right=0)
    with meter:
        for number in range(10):
            clock.now += 20
            meter.finish_items(right=number != 3)
            meter.advance(100)
    assert out.getvalue().splitlines() == [
        "certifying: 3 of 10 images, 3/min, accuracy 1.000, about 0:02:20 left",
        "certifying: 6 of 10 images, 3/min, accuracy 0.833, about 0:01:20 left",
        "certifying: 9 of 10 images, 3/min, accuracy 0.888, about 0:00:20 left",
        "certifying: 10 of 10 images in 0:03:20, 3/min",
    ]


def test_what_was_done_before_counts_and_makes_no_rate() -> None:
    """Half was done before; one image in a minute is one image a minute, whatever another process did."""
    meter, clock, out = plain(start=500, finished=5, right=5)
    with meter:
        clock.now += 60
        meter.finish_items(right=0)
        meter.advance(100)
    first, last = out.getvalue().splitlines()
    assert first == "certifying: 6 of 10 images, 1/min, accuracy 0.833, about 0:04:00 left"
    assert last == "certifying: 6 of 10 images in 0:01:00, 5 of them before, 1/min"


def test_without_labels_nothing_is_said_of_accuracy_and_without_work_nothing_at_all() -> None:
    meter, clock, out = plain()
    with meter:
        clock.now += 100
        meter.finish_items()
        meter.advance(100)
    assert "accuracy" not in out.getvalue()
    idle, _, nothing = plain()
    with idle:
        pass
    assert nothing.getvalue() == ""


def test_an_error_leaves_no_line_about_an_end() -> None:
    meter, _, out = plain()
    try:
        with meter:
            meter.advance(100)
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert out.getvalue() == ""


def test_a_terminal_shows_one_live_line() -> None:
    out = StringIO()
    console = Console(file=out, width=120, force_terminal=True, force_interactive=True)
    with Meter("certifying", 1000, 10, right=0, console=console) as meter:
        meter.finish_items(right=1)
        meter.advance(100)
    assert "1 of 10 images" in out.getvalue()
    assert "accuracy 1.000" in out.getvalue()


def test_rates_are_in_the_unit_that_one_can_read() -> None:
    assert [rate_text(rate) for rate in (1634.5, 250.0, 1.234, 0.5, 0.001, 0.0001, 0.0)] == [
        "1,634/s", "250/s", "1.23/s", "30/min", "3.6/h", "8.64/day", "",
    ]  # fmt: skip

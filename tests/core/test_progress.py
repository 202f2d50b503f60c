"""Progress where there is no terminal: a plain line every minute, and one at the end."""

from io import StringIO

from rich.console import Console

from soundsmooth.core.progress import Meter, rate_text, votes_text


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


def adaptive(**more: object) -> tuple[Meter, Clock, StringIO]:
    """Ten images, each of which may take 1000 votes and may end earlier."""
    clock, out = Clock(), StringIO()
    console = Console(file=out, width=40)
    given = {"spent": 0, **more}
    return Meter("certifying", 10_000, 10, console=console, clock=clock, **given), clock, out  # type: ignore[arg-type]


def test_images_that_end_early_are_expected_to_cost_what_others_have_cost() -> None:
    """Half of the images took 100 votes each, at 100 votes in a minute: the other half needs five minutes more."""
    meter, clock, out = adaptive(right=0)
    with meter:
        for _ in range(10):
            clock.now += 60
            meter.finish_items(right=1, spent=100)
            meter.advance(100)
    lines = out.getvalue().splitlines()
    assert lines[4] == "certifying: 5 of 10 images, 500 votes, accuracy 1.000, about 0:05:00 left"
    assert lines[-1] == "certifying: 10 of 10 images in 0:10:00, 1/min, 1 000 votes"


def test_without_a_finished_image_only_the_most_is_known() -> None:
    """At 100 votes in a minute, the 9900 that may still be spent take 99 minutes."""
    meter, clock, out = adaptive()
    clock.now += 60
    meter.advance(100)
    assert out.getvalue() == "certifying: 0 of 10 images, 100 votes, at most 1:39:00 left\n"


def test_images_in_flight_take_as_long_again() -> None:
    """Nine cost 10 votes each, and the last has had 200: it is hard, whatever the others cost."""
    meter, clock, out = adaptive()
    clock.now += 58
    meter.finish_items(9, spent=90)
    meter.advance(290)
    clock.now += 2
    meter.advance(10)
    assert out.getvalue() == "certifying: 9 of 10 images, 300 votes, about 0:00:42 left\n"


def test_never_more_is_left_than_may_be_spent() -> None:
    """Two images are finished, and the others are nearly at their end: 8 times 10 votes may still be spent."""
    meter, clock, out = adaptive()
    meter.finish_items(2, spent=2000)
    clock.now += 1992
    meter.advance(2000 + 8 * 990)
    assert out.getvalue() == "certifying: 2 of 10 images, 9 920 votes, at most 0:00:16 left\n"


def test_votes_of_an_interrupted_run_count_and_are_of_other_days() -> None:
    """Four images took 1200 votes before, and one is in flight with 40. A minute brings 60 more."""
    meter, clock, out = adaptive(start=1240, finished=4, spent=1200)
    clock.now += 60
    meter.advance(60)
    assert out.getvalue() == "certifying: 4 of 10 images, 1 300 votes, about 0:32:30 left\n"


def test_a_terminal_shows_what_is_left_on_80_columns() -> None:
    out, clock = StringIO(), Clock()
    console = Console(file=out, width=80, force_terminal=True, force_interactive=True)
    with Meter("certifying", 10**8, 1000, right=0, spent=0, console=console, clock=clock) as meter:
        clock.now += 60
        meter.finish_items(400, right=300, spent=900_000)
        meter.advance(999_999)
    assert "certifying" in out.getvalue()
    assert "400 of 1000 images, 999 999 votes, accuracy 0.750, about 0:01:30 left" in out.getvalue()


def test_many_votes_are_millions_and_never_more_than_there_are() -> None:
    assert [votes_text(count) for count in (7, 12_345, 999_999, 1_239_999)] == [
        "7 votes", "12 345 votes", "999 999 votes", "1.23 million votes",
    ]  # fmt: skip

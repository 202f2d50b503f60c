"""The table of overlaps explains its own headings."""

from command import run_command


def test_the_legend_names_every_heading() -> None:
    shown = " ".join(run_command("lab", "overlap", "--precision", "single", "--n", "100").stdout.split())
    for heading in ("P: how", "a, b: the level", "between: bounds", "< 0.99: whether", "≥ 0.99: how many", "median:"):
        assert heading in shown

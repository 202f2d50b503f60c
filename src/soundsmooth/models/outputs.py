"""Which of a model's outputs votes: a name, or a number from 0; and how a promise says it."""

from collections.abc import Sequence
from urllib.parse import quote, unquote

#: A name, or a number from 0; None for the only one.
Output = str | int | None
MOST_NAMES = 12


def choose_output(names: Sequence[str], output: Output) -> str:
    """The name of the output that votes. Of several, one must be chosen: nobody can guess which one is the scores."""
    if output is None and len(names) == 1:
        return names[0]
    if not names:
        raise ValueError("the model returns no tensor; it must return scores, [batch, classes]")
    if output is None:
        likely = next((name for name in names if "logit" in name.lower()), names[0])
        raise ValueError(
            f"the model has {len(names)} outputs: {_listed(names)}. Say which one holds the scores [batch, classes]: "
            f"--output {likely}, or output={likely!r} in Python"
        )
    if output in names:
        return str(output)
    number = int(output) if isinstance(output, int) or (output.isascii() and output.isdigit()) else -1
    if not 0 <= number < len(names):
        raise ValueError(f"the model has no output {output!r}; it has {_listed(names)}")
    return names[number]


def check_output_name(output: object) -> None:
    """A ValueError for what is neither a name nor a number."""
    if isinstance(output, bool) or not (isinstance(output, int) or (isinstance(output, str) and output)):
        raise ValueError(f"output is the name of an output or its number, counted from 0; not {output!r}")


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def output_flag(output: str | int) -> str:
    """The output as a promise has it: one word of ASCII, from which the name can be read in one way only."""
    return quote(str(output), safe="")


def flagged_output(flag: str) -> str:
    return unquote(flag)


def is_output_flag(flag: str) -> bool:
    """Whether it is the flag of some output."""
    return bool(flag) and flag.isascii() and output_flag(flagged_output(flag)) == flag

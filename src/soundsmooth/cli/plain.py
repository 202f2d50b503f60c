"""Lines on the screen, ours and those of others."""

import warnings

from rich.console import Console

MOST_SHOWN = 5000


def screen(quiet: bool = False, stderr: bool = False) -> Console:
    """Where a command shows what it finds. A quiet one shows neither results nor warnings, only errors."""
    if quiet:
        warnings.simplefilter("ignore")
    return Console(quiet=quiet, stderr=stderr)


def say(console: Console, text: str) -> None:
    """A line as it is: nothing in it is markup, a number to be coloured, or a command to the terminal."""
    print_line(console, printable(text), markup=False)


def say_named(console: Console, name: str, text: str) -> None:
    """A line with a name before it, as in a table."""
    say(console, f"{name:<11}{text}")


def print_line(console: Console, text: str, markup: bool = True) -> None:
    """A line of ours. A terminal gets it in lines that end between words; a file gets one line."""
    console.print(text, highlight=False, soft_wrap=not console.is_terminal, markup=markup, emoji=False)


def printable(text: str) -> str:
    """A text that comes from a file or a model, on one line; control characters are spelled out and not obeyed.

    (They could clear the screen, hide what follows, or write another verdict there.) Of a text that no screen holds the
    end is left out.
    """
    more = len(text) - MOST_SHOWN
    text = text if more <= 0 else f"{text[:MOST_SHOWN]}… ({more} more characters)"
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
